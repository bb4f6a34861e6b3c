//! Parser of `kprobe_events` lines and scripts. It works without a kernel. [`line()`] returns a [`EventCommand`], which adds
//! or removes probes; [`script`] splits a file into lines.

use super::args::{self, Argument, split_offset};
use super::error::{Code, EventError, Span};
use super::file_place;
use super::memory::{self, Memory};
use super::text::{Piece, is_group_name, is_identifier, number, signed_number};
use crate::user::Place;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// The command of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventCommand {
    /// `p...`, `r...` or `j...`
    Add(Definition),
    /// `-:...`
    Remove(Removal),
}

/// The definition of a probe and its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Whether the probe is at a function's return.
    pub returns: bool,
    /// Whether it is a jprobe, which runs at a function's entry after all other probes. Linux has no such lines.
    pub mirrors: bool,
    /// The number of calls to follow at a time. 0 means the engine's default.
    pub maxactive: u32,
    /// The group, if the line names one.
    pub group: Option<String>,
    /// The event, if the line names one.
    pub event: Option<String>,
    /// The place to probe.
    pub location: Location,
    /// The arguments to fetch.
    pub arguments: Vec<Argument>,
    /// The position of the command and the names.
    pub command_at: Span,
    /// The position of the location.
    pub location_at: Span,
}

/// The place of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `0xc0100000`
    Address(u64),
    /// `[MOD:]SYM[+offs]`
    Symbol {
        /// The symbol, with `MODULE:` if a module was given.
        name: String,
        /// Offset in bytes from the symbol.
        offset: u32,
    },
    /// `/PATH:OFFSET`, `/PATH:SYM[+offs]`: in a user program.
    File {
        /// The file's path in the guest.
        path: String,
        /// The place in the file.
        place: Place,
    },
    /// `w@jiffies_64:8`
    Memory(Memory),
}

/// Selects the events, or the probes of an event, to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// If given, only this group.
    pub group: Option<String>,
    /// If given, only events of this name.
    pub event: Option<String>,
    /// If given, only the probe with this location and these first arguments, in the form that `kprobe_events` shows.
    pub only: Vec<String>,
    /// The position of the names.
    pub at: Span,
}

/// The largest number of calls that a line can ask to be followed at a time.
pub const MAX_MAXACTIVE: u64 = 4096;
/// Names must be shorter than this, in bytes.
pub const NAME_LIMIT: usize = 64;

/// The group of the events that `perf probe` defines.
const PERF_GROUP: &str = "probe";

/// Parses one line. `None` if it has only white space and a comment.
pub fn line(text: &str) -> Result<Option<EventCommand>, EventError> {
    let code = text.split('#').next().unwrap_or_default();
    let mut words = Piece::of(code).words();
    let Some(command) = words.next() else { return Ok(None) };
    match command.text.as_bytes().first() {
        Some(b'p' | b'r' | b'j') => definition(command, words).map(|definition| Some(EventCommand::Add(definition))),
        Some(b'w') => watch(command, words).map(|definition| Some(EventCommand::Add(definition))),
        Some(b'-') => removal(command, words).map(|removal| Some(EventCommand::Remove(removal))),
        _ => {
            let why = "a line begins with 'p' (probe), 'r' (return probe), 'j' (jprobe, which Linux's lines do not have), 'w' (watchpoint) or '-:' (remove an event)";
            Err(EventError::new(command, Code::BAD_COMMAND, why))
        }
    }
}

fn definition<'a>(command: Piece<'a>, mut words: impl Iterator<Item = Piece<'a>>) -> Result<Definition, EventError> {
    let (head, names) = match command.split_at_first(':') {
        Some((head, names)) => (head, Some(names)),
        None => (command, None),
    };
    let (mut returns, mirrors) = (head.text.starts_with('r'), head.text.starts_with('j'));
    let maxactive = maxactive(head.skip(1), returns)?;
    let Some(place) = words.next() else {
        let why = "say where to probe: a symbol such as vfs_read, vfs_read+4, or an address";
        return Err(EventError::new(command.end(), Code::NO_PROBE_ADDR, why));
    };
    let (location, at_return) = parse_location(place)?;
    if mirrors && matches!(location, Location::File { .. }) {
        return Err(EventError::new(place, Code::BAD_JPROBE, "a jprobe is in the kernel: write 'p' for a probe in a program"));
    }
    if mirrors && at_return {
        let why = "a jprobe sees a function's arguments: leave %return out, or write 'r'";
        return Err(EventError::new(place, Code::BAD_JPROBE, why));
    }
    returns |= at_return;
    let (group, event) = names.map_or(Ok((None, None)), parse_names)?;
    // perf's lines repeat the names of an inlined function's variables.
    let arguments = args::parse(words, returns, group.as_deref() == Some(PERF_GROUP))?;
    file_place::check(&arguments, &location, returns)?;
    let group = group.or_else(|| matches!(location, Location::File { .. }).then(|| file_place::GROUP.to_owned()));
    let (command_at, location_at) = (Span::of(command), Span::of(place));
    Ok(Definition { returns, mirrors, maxactive, group, event, location, arguments, command_at, location_at })
}

/// `w:[GRP/][EVENT] [r|w|rw]@MEMORY [pid=PROCESS] ARGS`
fn watch<'a>(command: Piece<'a>, mut words: impl Iterator<Item = Piece<'a>>) -> Result<Definition, EventError> {
    let (head, names) = match command.split_at_first(':') {
        Some((head, names)) => (head, Some(names)),
        None => (command, None),
    };
    if head.text != "w" {
        return Err(EventError::new(head.skip(1), Code::BAD_COMMAND, "after 'w' write ':' and a name, or a space"));
    }
    let Some(place) = words.next() else {
        let why = "say which memory to watch: w@jiffies_64:8, rw@0xc0101000:4";
        return Err(EventError::new(command.end(), Code::NO_PROBE_ADDR, why));
    };
    let mut memory = memory::parse(place)?;
    let mut words = words.peekable();
    memory.process = words.peek().and_then(|word| memory::process(*word));
    if memory.process.is_some() {
        words.next();
    }
    let (group, event) = names.map_or(Ok((None, None)), parse_names)?;
    let arguments = args::parse(words, false, false)?;
    let (command_at, location_at) = (Span::of(command), Span::of(place));
    let location = Location::Memory(memory);
    Ok(Definition { returns: false, mirrors: false, maxactive: 0, group, event, location, arguments, command_at, location_at })
}

fn maxactive(text: Piece<'_>, returns: bool) -> Result<u32, EventError> {
    if text.text.is_empty() {
        return Ok(0);
    }
    if !returns {
        let (code, why) = if text.starts_with_digit() {
            (Code::MAXACT_NO_KPROBE, "only a return probe takes a maximum number of calls: remove the number, or write 'r'")
        } else {
            (Code::BAD_COMMAND, "after 'p' or 'j' write ':' and a name, or a space")
        };
        return Err(EventError::new(text, code, why));
    }
    match number(text.text) {
        Some(count @ 1..=MAX_MAXACTIVE) => Ok(count as u32),
        Some(1..) => Err(EventError::new(text, Code::MAXACT_TOO_BIG, "at most 4096 calls can be followed at a time")),
        _ => Err(EventError::new(
            text,
            Code::BAD_MAXACT,
            "after 'r' write the maximum number of followed calls (1 to 4096), ':' and a name, or a space",
        )),
    }
}

/// Parses a location. Also returns whether `%return` followed it.
fn parse_location(text: Piece<'_>) -> Result<(Location, bool), EventError> {
    if let Some(address) = number(text.text) {
        return Ok((Location::Address(address), false));
    }
    if file_place::is_file(text.text) {
        return file_place::parse(text);
    }
    let bad = |why: &'static str| Err(EventError::new(text, Code::BAD_PROBE_ADDR, why));
    let (place, at_return) = match text.text.find('%') {
        None => (text, false),
        Some(at) if text.skip(at).text == "%return" => (text.take(at), true),
        Some(at) => {
            let why = "only %return can follow the symbol";
            return Err(EventError::new(text.skip(at), Code::BAD_ADDR_SUFFIX, why));
        }
    };
    let (name, offset) = split_offset(place.text);
    if name.is_empty() || name.ends_with(':') || name.starts_with(':') {
        return bad("the symbol's name is missing: write SYMBOL, SYMBOL+OFFSET or MODULE:SYMBOL");
    }
    if number(name).is_some() {
        return bad("an address takes no offset or suffix: write their sum, and 'r' for a return probe");
    }
    if let Some((function, line)) = name.rsplit_once(':')
        && line.bytes().all(|digit| digit.is_ascii_digit())
    {
        let why = format!(
            "'{line}' behind the ':' is a source line, and lines need debug information: write an offset in bytes, {function}+OFFSET"
        );
        return Err(EventError::new(text, Code::BAD_PROBE_ADDR, why));
    }
    if name.contains('/') {
        return bad("this names a file: begin its path in the guest with a '/', as in /bin/busybox:0x1234");
    }
    let offset = if offset.is_empty() { Some(0) } else { signed_number(offset) };
    match offset.and_then(|offset| u32::try_from(offset).ok()) {
        Some(offset) => Ok((Location::Symbol { name: name.to_owned(), offset }, at_return)),
        None => bad("the offset of a symbol is one number that is not negative: vfs_read+4"),
    }
}

/// `[GRP/][EVENT]`
fn parse_names(text: Piece<'_>) -> Result<(Option<String>, Option<String>), EventError> {
    let (group, event) = match text.split_at_first('/').or_else(|| text.split_at_first('.')) {
        Some((group, event)) => (Some(group), event),
        None => (None, text),
    };
    if let Some(group) = group {
        let wrong = |code, why| Err(EventError::new(group, code, why));
        match group.text {
            "" => return wrong(Code::NO_GROUP_NAME, "write a group in front of the '/', or leave the '/' out"),
            name if name.len() >= NAME_LIMIT => return wrong(Code::GROUP_TOO_LONG, "a group's name has at most 63 characters"),
            name if !is_group_name(name) => {
                return wrong(
                    Code::BAD_GROUP_NAME,
                    "a group's name consists of letters, digits, '_' and '-', and begins with a letter or '_'",
                );
            }
            _ => {}
        }
    }
    let wrong = |code, why| Err(EventError::new(event, code, why));
    match event.text {
        "" if group.is_some() => {}
        "" => return wrong(Code::NO_EVENT_NAME, "write a name after the ':', or leave the ':' out"),
        name if name.len() >= NAME_LIMIT => return wrong(Code::EVENT_TOO_LONG, "an event's name has at most 63 characters"),
        name if !is_identifier(name) => {
            return wrong(
                Code::BAD_EVENT_NAME,
                "an event's name consists of letters, digits and '_', and does not begin with a digit",
            );
        }
        _ => {}
    }
    let event = Some(event.text).filter(|name| !name.is_empty()).map(str::to_owned);
    Ok((group.map(|group| group.text.to_owned()), event))
}

fn removal<'a>(command: Piece<'a>, words: impl Iterator<Item = Piece<'a>>) -> Result<Removal, EventError> {
    let Some(names) = command.strip_prefix("-:") else {
        return Err(EventError::new(
            command,
            Code::BAD_COMMAND,
            "an event is removed by '-:EVENT', '-:GROUP/EVENT' or '-:GROUP/'",
        ));
    };
    let (group, event) = parse_names(names)?;
    Ok(Removal { group, event, only: words.map(|word| word.text.to_owned()).collect(), at: Span::of(names) })
}

/// The line in the form that `kprobe_events` shows: `p:kprobes/open do_sys_open+4 arg1=%di`.
impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char(self.letter())?;
        if self.returns && self.maxactive != 0 {
            write!(f, "{}", self.maxactive)?;
        }
        match (&self.group, &self.event) {
            (None, None) => {}
            (None, Some(event)) => write!(f, ":{event}")?,
            (Some(group), event) => write!(f, ":{group}/{}", event.as_deref().unwrap_or_default())?,
        }
        write!(f, " {}", self.location)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}={}", argument.name, argument.body))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Padded to the width of a pointer: 64-bit kernels have no text below 4 GiB.
            Location::Address(address @ 0..=0xffff_ffff) => write!(f, "0x{address:08x}"),
            Location::Address(address) => write!(f, "0x{address:016x}"),
            Location::Symbol { name, offset: 0 } => f.write_str(name),
            Location::Symbol { name, offset } => write!(f, "{name}+{offset}"),
            Location::File { path, place: Place::Offset(offset) } => write!(f, "{path}:0x{offset:016x}"),
            Location::File { path, place } => write!(f, "{path}:{place}"),
            Location::Memory(memory) => memory.fmt(f),
        }
    }
}

impl Definition {
    /// The letter that begins the line.
    pub fn letter(&self) -> char {
        match self {
            Definition { returns: true, .. } => 'r',
            Definition { mirrors: true, .. } => 'j',
            Definition { location: Location::Memory(_), .. } => 'w',
            _ => 'p',
        }
    }

    /// The event's name if none was given, as Linux makes it.
    pub fn default_event(&self) -> String {
        let letter = self.letter();
        let mut name = match &self.location {
            Location::Address(_) => format!("{letter}_{}", self.location),
            Location::Symbol { name, offset } => format!("{letter}_{name}_{offset}"),
            Location::File { path, place } => return file_place::default_event(letter, path, place),
            Location::Memory(memory) => memory.default_event(),
        };
        let end = (0..NAME_LIMIT).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
        name.replace([':', '.'], "_")
    }
}

/// One logical line of a script, with its continuation lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptLine<'a> {
    /// The number of the first of its lines, from 1.
    pub number: usize,
    /// Byte offset in the script. Adding an error's column gives the position in the file.
    pub offset: usize,
    /// The text, of the same length as in the script: a continuing `\` and newlines are replaced by spaces.
    pub text: Cow<'a, str>,
}

/// Splits a script into logical lines. A line that ends in `\` continues in the next one.
pub fn script(text: &str) -> impl Iterator<Item = ScriptLine<'_>> {
    let mut offset = 0;
    let mut number = 1;
    core::iter::from_fn(move || {
        let rest = text.get(offset..).filter(|rest| !rest.is_empty())?;
        let (mut len, mut lines) = (0, 0);
        for physical in rest.split_inclusive('\n') {
            len += physical.len();
            lines += 1;
            if !is_continued(physical) {
                break;
            }
        }
        let whole = &rest[..len];
        let text = if lines == 1 && !is_continued(whole) {
            Cow::Borrowed(whole.trim_end_matches(['\n', '\r']))
        } else {
            Cow::Owned(joined(whole))
        };
        let line = ScriptLine { number, offset, text };
        offset += len;
        number += lines;
        Some(line)
    })
}

fn is_continued(physical: &str) -> bool {
    let without_end = physical.trim_end_matches(['\n', '\r']);
    without_end.ends_with('\\') && !without_end.contains('#')
}

fn joined(lines: &str) -> String {
    let mut whole = String::with_capacity(lines.len());
    for physical in lines.split_inclusive('\n') {
        let kept = physical.trim_end_matches(['\n', '\r']);
        let kept = if is_continued(physical) { &kept[..kept.len() - 1] } else { kept };
        whole.push_str(kept);
        whole.extend((kept.len()..physical.len()).map(|_| ' '));
    }
    whole
}
