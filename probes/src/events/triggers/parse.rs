//! The parser of lines of the file `trigger`. It needs no kernel.

use super::super::text::{number, signed_number};

/// A line of the file `trigger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<'a> {
    /// Whether the line removes the trigger.
    pub removes: bool,
    /// The action when the trigger fires.
    pub action: WrittenAction<'a>,
    /// The number of times that the trigger fires. `None` is no limit.
    pub count: Option<u64>,
    /// The text of the filter.
    pub filter: Option<&'a str>,
}

/// The action of such a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenAction<'a> {
    /// `traceon` or `traceoff`
    Record(bool),
    /// `stacktrace`
    Stack,
    /// `snapshot`
    Snapshot,
    /// `enable_event`, `disable_event`, `enable_hist`, `disable_hist`
    Switch {
        /// Whether histograms are switched, not records.
        hist: bool,
        /// Whether they are enabled.
        enable: bool,
        /// The group of the other event.
        group: &'a str,
        /// The name of the other event.
        event: &'a str,
    },
    /// `hist`, with the text behind the colon.
    Hist(&'a str),
    /// `set_wprobe` or `clear_wprobe`.
    Watch {
        /// Whether the watch event is set, not cleared.
        sets: bool,
        /// The watch event's name, or its group and name as in `GROUP/NAME`.
        event: &'a str,
        /// The field that holds the address, and the distance from there.
        place: Option<(&'a str, i64)>,
    },
}

/// The commands, in the order in which Linux lists them.
pub const COMMANDS: &str =
    "traceon traceoff snapshot stacktrace enable_event disable_event enable_hist disable_hist hist set_wprobe clear_wprobe";

const SWITCHES: &[(&str, bool, bool)] =
    &[("enable_event", false, true), ("disable_event", false, false), ("enable_hist", true, true), ("disable_hist", true, false)];

const NO_COMMAND: &str = "a trigger is traceon, traceoff, snapshot, stacktrace, enable_event:GROUP:EVENT, disable_event:GROUP:EVENT, \
                          enable_hist:GROUP:EVENT, disable_hist:GROUP:EVENT, hist:keys=..., set_wprobe:EVENT:FIELD or \
                          clear_wprobe:EVENT:FIELD, and may end in `if FILTER`";
const NO_COUNT: &str = "a count is a number: traceoff:3";
const NO_FILTER: &str = "behind the trigger only `if` and a filter may stand";
const NO_EVENT: &str = "name the event: enable_event:GROUP:EVENT";
const NO_WATCH: &str =
    "name the watch event and the field that holds the address: set_wprobe:EVENT:FIELD, set_wprobe:EVENT:FIELD+8";
const NO_KEYS: &str = "a histogram needs keys: hist:keys=common_pid";

fn is_blank(letter: char) -> bool {
    letter == ' ' || letter == '\t'
}

/// Parses a line. The error says what to write instead.
pub fn line(text: &str) -> Result<Written<'_>, &'static str> {
    let text = text.trim();
    let (removes, text) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (command, rest) = match text.find([':', ' ', '\t']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default().trim_start()),
        None => (text, ""),
    };
    if command == "hist" {
        return hist(removes, rest);
    }
    if let Some((_, hist, enable)) = SWITCHES.iter().find(|(name, ..)| *name == command) {
        let (event, filter) = rest.split_once(is_blank).unwrap_or((rest, ""));
        let (group, event) = event.split_once(':').ok_or(NO_EVENT)?;
        let (event, count) = event.split_once(':').map_or((event, None), |(event, count)| (event, Some(count)));
        let action = WrittenAction::Switch { hist: *hist, enable: *enable, group, event };
        return written(removes, action, count, filter.trim_start());
    }
    if command == "set_wprobe" || command == "clear_wprobe" {
        return watch(removes, command == "set_wprobe", rest);
    }
    let action = match command {
        "traceon" => WrittenAction::Record(true),
        "traceoff" => WrittenAction::Record(false),
        "stacktrace" => WrittenAction::Stack,
        "snapshot" => WrittenAction::Snapshot,
        _ => return Err(NO_COMMAND),
    };
    if rest.starts_with(|first: char| first.is_ascii_digit()) {
        let (count, filter) = rest.split_once(is_blank).unwrap_or((rest, ""));
        return written(removes, action, Some(count), filter.trim_start());
    }
    written(removes, action, None, rest)
}

fn written<'a>(
    removes: bool,
    action: WrittenAction<'a>,
    count: Option<&str>,
    filter: &'a str,
) -> Result<Written<'a>, &'static str> {
    if removes {
        return Ok(Written { removes, action, count: None, filter: None });
    }
    let count = count.map(|count| number(count.split(':').next().unwrap_or_default()).ok_or(NO_COUNT)).transpose()?;
    let filter = match filter.split_once(is_blank) {
        Some(("if", filter)) => Some(filter),
        _ if filter.is_empty() => None,
        _ => return Err(NO_FILTER),
    };
    Ok(Written { removes, action, count, filter })
}

/// `set_wprobe:EVENT:FIELD[+OFFSET][:COUNT] [if FILTER]`, `clear_wprobe:EVENT[:FIELD[+OFFSET]][:COUNT] [if FILTER]`
fn watch(removes: bool, sets: bool, text: &str) -> Result<Written<'_>, &'static str> {
    let (text, filter) = text.split_once(is_blank).unwrap_or((text, ""));
    let mut parts = text.split(':');
    let event = parts.next().filter(|event| !event.is_empty()).ok_or(NO_WATCH)?;
    let is_count =
        |part: &str| part == "unlimited" || part.starts_with("count=") || part.starts_with(|first: char| first.is_ascii_digit());
    let mut part = parts.next();
    let place = match part {
        Some(field) if !is_count(field) => {
            part = parts.next();
            Some(place(field)?)
        }
        _ => None,
    };
    if sets && place.is_none() || parts.next().is_some() {
        return Err(NO_WATCH);
    }
    // The file `trigger` shows a count as `count=3` or `unlimited`, and what it shows can be written back.
    let count = part.filter(|count| *count != "unlimited").map(|count| count.strip_prefix("count=").unwrap_or(count));
    written(removes, WrittenAction::Watch { sets, event, place }, count, filter.trim_start())
}

/// `FIELD[+OFFSET]`, `FIELD-OFFSET`
fn place(text: &str) -> Result<(&str, i64), &'static str> {
    let (field, offset) = match text.find(['+', '-']) {
        Some(at) => (text.get(..at).unwrap_or_default(), signed_number(text.get(at..).unwrap_or_default()).ok_or(NO_WATCH)?),
        None => (text, 0),
    };
    if field.is_empty() { Err(NO_WATCH) } else { Ok((field, offset)) }
}

fn hist(removes: bool, text: &str) -> Result<Written<'_>, &'static str> {
    if text.is_empty() {
        return Err(NO_KEYS);
    }
    let is_if = |at: &usize| {
        let before = text.get(..*at).is_some_and(|before| before.ends_with(is_blank));
        let behind = text.get(*at + 2..).is_some_and(|behind| behind.starts_with(is_blank) && behind.len() > 1);
        before && behind
    };
    let (definition, filter) = match text.match_indices("if").map(|(at, _)| at).find(is_if) {
        Some(at) => (text.get(..at).unwrap_or_default(), Some(text.get(at + 3..).unwrap_or_default())),
        None => (text, None),
    };
    Ok(Written { removes, action: WrittenAction::Hist(definition.trim()), count: None, filter })
}
