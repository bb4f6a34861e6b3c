//! Attach points in user programs: `uprobe:/bin/busybox:main`, `uretprobe:/lib/libc.so.6:mal*`.

use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::program::{Point, PointKind};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trapline_probes::user::Place;

impl Compiler<'_> {
    /// Resolves an attach point in a file: a function, one with an offset, an address that the file was linked for, or a
    /// pattern. The result is empty if no function has the name.
    pub(super) fn in_program(
        &self,
        provider: &str,
        path: &str,
        wanted: &str,
        at: Span,
        returns: bool,
    ) -> Result<Vec<Point>, ScriptError> {
        if !path.starts_with('/') {
            return Err(
                at.error(format!("{provider} needs the whole path of the file in the guest: {provider}:/bin/{path}:{wanted}"))
            );
        }
        let of_pattern = wanted.contains('*');
        let point = |place: Place, shown: String| Point {
            kind: PointKind::User(path.to_owned(), place, returns),
            name: format!("{provider}:{path}:{shown}"),
            at,
            is_typed: false,
            of_pattern,
            event: None,
            every: 1,
            result: None,
            counter: 0,
        };
        if let Some(address) = wanted.bytes().next().filter(u8::is_ascii_digit).and_then(|_| super::lex::time(wanted)) {
            let Some(offset) = self.knowledge.program_offset(path, address) else {
                return Err(at.error(format!("{path} has nothing at {wanted}, or its copy is not known")));
            };
            return Ok(alloc::vec![point(Place::Offset(offset), wanted.to_owned())]);
        }
        let (function, distance) = match wanted.split_once('+') {
            None => (wanted, 0),
            Some((function, distance)) => match super::lex::time(distance) {
                Some(distance) if !returns && !of_pattern => (function, distance),
                _ => {
                    return Err(at.error(format!(
                        "behind the + stands an offset in bytes, and only uprobes of one function have one: uprobe:{path}:{function}+4"
                    )));
                }
            },
        };
        let names = self.knowledge.program_functions(path, function).map_err(|why| at.error(why))?;
        self.charge(names.len() as u64, at)?;
        let named = names.into_iter().map(|name| {
            let place = Place::Symbol(name, distance);
            let shown = format!("{place}");
            point(place, shown)
        });
        Ok(named.collect())
    }

    /// The address that a function was linked for, in the file of the block's probes (`uaddr`).
    pub(super) fn address_in_program(&self, name: &str, at: Span) -> Result<u64, ScriptError> {
        let Some(path) = &self.block.program else {
            return Err(at.error("uaddr() looks in the file of the block's uprobe, and this block has none"));
        };
        let address = self.knowledge.program_address(path, name);
        address.ok_or_else(|| at.error(format!("{path} has no function {name}")))
    }
}
