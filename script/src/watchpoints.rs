//! Resolves `watchpoint:ADDRESS:LENGTH:MODE` and `watchpoint:FUNCTION+argN:LENGTH:MODE`. The second form watches the object
//! that an argument points to, from each call of the function on.
//!
//! Three extensions are not in bpftrace: a variable's name in place of the address, `retval` (the function's result) in place
//! of `argN`, and an offset behind either: `+8` or, in an object, `+TYPE.FIELD`.

use super::ast::Tag;
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::points::point_at;
use super::program::{Point, PointKind};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_probes::watch::Area;

/// The longest range. bpftrace allows 8 bytes, as processors do.
const MOST_BYTES: u64 = 4096;

impl Compiler<'_> {
    /// The attach point of a watchpoint.
    pub(super) fn watchpoint(&self, provider: &str, parts: &[String], at: Span) -> Result<Vec<Point>, ScriptError> {
        let provider = if provider.starts_with('a') { "asyncwatchpoint" } else { "watchpoint" };
        let [place, len, mode] = parts else {
            return Err(at.error(format!(
                "{provider} is followed by an address, a length and a mode: {provider}:0xffff800010001234:8:rw, or {provider}:FUNCTION+arg1:8:w"
            )));
        };
        let Some(len) = number(len).filter(|len| (1..=MOST_BYTES).contains(len)) else {
            return Err(at.error(format!("'{len}' is no length of a watchpoint: 1 to {MOST_BYTES} bytes are watched")));
        };
        let has = |letter| mode.contains(letter);
        if mode.is_empty() || mode.chars().any(|letter| !"rwx".contains(letter)) {
            return Err(at.error(format!("'{mode}' is no mode of a watchpoint: r (reads), w (writes) and rw are")));
        }
        if has('x') {
            return Err(at.error("a watchpoint does not see execution: use kprobe with the address"));
        }
        let area = Area { start: 0, len, reads: has('r'), writes: has('w'), ..Area::default() };
        let name = format!("{provider}:{}", parts.join(":"));
        if let Some((function, object)) =
            place.split_once('+').filter(|(_, object)| object.starts_with(|first: char| "ar".contains(first)))
        {
            if self.knowledge.address(function).is_none() {
                return Err(at.error(format!("no function has the name '{function}'")));
            }
            let (object, offset) = object.split_once('+').map_or((object, None), |(object, offset)| (object, Some(offset)));
            let argument = match object {
                "retval" => None,
                _ => Some(object.strip_prefix("arg").and_then(|digits| digits.parse().ok()).ok_or_else(|| {
                    at.error(format!("'{object}' is no argument: arg0 is the first, and retval is the result"))
                })?),
            };
            let offset = offset.map_or(Ok(0), |offset| self.offset_in(offset, at))?;
            let kind = PointKind::WatchObject { function: function.to_owned(), argument, offset, area };
            return Ok(alloc::vec![point_at(kind, name, at)]);
        }
        let (variable, offset) = place.split_once('+').map_or((place.as_str(), Some(0)), |(name, offset)| (name, number(offset)));
        let start = match (number(variable), offset) {
            (Some(address), Some(offset)) => Some(address.wrapping_add(offset)),
            (None, Some(offset)) => self.knowledge.data(variable).map(|start| start.wrapping_add(offset)),
            _ => None,
        };
        match start {
            Some(start) => Ok(alloc::vec![point_at(PointKind::Watchpoint(Area { start, ..area }), name, at)]),
            None => Err(at.error(format!("'{place}' is no address, and no variable of the kernel has that name"))),
        }
    }

    /// An offset in an object: a number of bytes, or `TYPE.FIELD`.
    fn offset_in(&self, text: &str, at: Span) -> Result<u64, ScriptError> {
        if let Some(offset) = number(text) {
            return Ok(offset);
        }
        let mut path = text.split('.');
        let (name, mut bits) = (path.next().unwrap_or_default(), 0_u64);
        let mut path = path.peekable();
        if path.peek().is_none() {
            return Err(
                at.error(format!("'{text}' is no offset in an object: write a number of bytes, or TYPE.FIELD as in file.f_pos"))
            );
        }
        let known = self.known.named(Some(Tag::Struct), name).or_else(|| self.known.named(None, name));
        let mut kind = known.ok_or_else(|| {
            at.error(format!("the type {name} is not known: define it in the script, or write the offset in bytes"))
        })?;
        for name in path {
            let field = self.member(&kind, name, at)?;
            bits = field.bit.saturating_add(bits);
            kind = field.kind;
        }
        Ok(bits / 8)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
