//! Places in files of user programs: `/bin/busybox:0x1234`, `/bin/busybox:main+4`, as in Linux's `uprobe_events`.

use super::args::{Argument, Base, split_offset};
use super::error::{Code, EventError};
use super::parse::{Location, NAME_LIMIT};
use super::text::{Piece, number, signed_number};
use crate::user::Place;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// The group of events in user programs that name none.
pub const GROUP: &str = "uprobes";

/// Whether this is a place in a file. Kernel symbols begin with no slash.
pub fn is_file(text: &str) -> bool {
    text.starts_with('/')
}

/// Parses a place in a file. Also returns whether `%return` followed it.
pub(super) fn parse(text: Piece<'_>) -> Result<(Location, bool), EventError> {
    let bad = |about: Piece<'_>, why: &'static str| Err(EventError::new(about, Code::BAD_PROBE_ADDR, why));
    let Some(colon) = text.text.rfind(':') else {
        return bad(text.end(), "say where in the file: /bin/busybox:0x1234, or /bin/busybox:main if it has symbols");
    };
    let (path, place) = (text.take(colon), text.skip(colon + 1));
    let (place, at_return) = match place.text.find('%') {
        None => (place, false),
        Some(at) if place.skip(at).text == "%return" => (place.take(at), true),
        Some(at) => {
            let why = "only %return can follow the place in the file";
            return Err(EventError::new(place.skip(at), Code::BAD_ADDR_SUFFIX, why));
        }
    };
    // A counter of USDT probes in the program's memory. It is not changed, because that would change the program.
    let place = match (place.text.find('('), place.text.ends_with(')')) {
        (Some(at), true) if number(&place.text[at + 1..place.text.len() - 1]).is_some() => place.take(at),
        (None, _) => place,
        (Some(at), _) => {
            let why = "a reference counter is an offset in the file, in parentheses: (0x1234)";
            return Err(EventError::new(place.skip(at), Code::BAD_REFCNT, why));
        }
    };
    let location = |place| Location::File { path: path.text.to_owned(), place };
    if let Some(offset) = number(place.text) {
        return Ok((location(Place::Offset(offset)), at_return));
    }
    let (name, offset) = split_offset(place.text);
    let offset = if offset.is_empty() { Some(0) } else { signed_number(offset) };
    match offset.and_then(|offset| u64::try_from(offset).ok()) {
        _ if name.is_empty() || place.starts_with_digit() => {
            bad(place, "write an offset in the file such as 0x1234, or one of its symbols, behind the ':'")
        }
        Some(offset) => Ok((location(Place::Symbol(name.to_owned(), offset)), at_return)),
        None => bad(place, "the offset of a symbol is one number that is not negative: main+4"),
    }
}

/// Refuses arguments that have no meaning at this location.
pub fn check(arguments: &[Argument], location: &Location, returns: bool) -> Result<(), EventError> {
    let is_user = matches!(location, Location::File { .. });
    for Argument { fetch, .. } in arguments {
        let refused = match fetch.base {
            Base::FileOffset(_) if !is_user => {
                (Code::FILE_ON_KPROBE, "an offset in a file makes no sense in the kernel: write @SYMBOL+OFFSET or @ADDRESS")
            }
            Base::FileOffset(_) if returns => {
                (Code::BAD_MEM_ADDR, "an offset in the file is known at a function's entry only: fetch it in a 'p' event")
            }
            Base::Symbol(..) if is_user => (
                Code::SYM_ON_UPROBE,
                "the kernel's symbols make no sense in a program: write @ADDRESS or @+OFFSET, an offset in the file",
            ),
            _ => continue,
        };
        return Err(fetch.base_at.error(refused.0, refused.1));
    }
    Ok(())
}

/// The event's name if none was given: `p_busybox_0x1234`, as Linux makes it, or `p_busybox_main`.
pub fn default_event(letter: char, path: &str, place: &Place) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    let file = file.split(['.', '-', '_']).next().unwrap_or_default();
    let mut name = format!("{letter}_{file}_{place}");
    let end = (0..NAME_LIMIT).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    name.truncate(end);
    name.replace([':', '.', '+', '@', '-'], "_")
}

#[cfg(test)]
mod tests {
    use crate::events::parse::{Definition, EventCommand, Location, line};
    use crate::user::Place;
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::ToString;

    fn definition(text: &str) -> Definition {
        match line(text) {
            Ok(Some(EventCommand::Add(definition))) => definition,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// BY-2, DV-4: Linux's lines of uprobe_events, and symbols.
    #[test]
    fn places_in_files_are_read() {
        let file = |path: &str, place| Location::File { path: path.to_owned(), place };
        let symbol = |name: &str, offset| Place::Symbol(name.to_owned(), offset);
        #[rustfmt::skip]
        let cases = [
            ("p /bin/busybox:0x1234",                  false, file("/bin/busybox", Place::Offset(0x1234))),
            ("p:open /bin/busybox:4660 %ip %di",       false, file("/bin/busybox", Place::Offset(0x1234))),
            ("r:g/done /bin/sh:0x10 $retval",          true,  file("/bin/sh", Place::Offset(0x10))),
            ("p /lib/a:b/c.so.6:malloc%return",        true,  file("/lib/a:b/c.so.6", symbol("malloc", 0))),
            ("p /bin/x:main+0x8 +0(%si):ustring",      false, file("/bin/x", symbol("main", 8))),
            ("p /bin/x:0x1000(0x2000) @+0x20:u32",     false, file("/bin/x", Place::Offset(0x1000))),
        ];
        for (text, returns, location) in cases {
            let found = definition(text);
            assert_eq!((found.returns, found.location), (returns, location), "{text}");
        }
    }

    /// BY-2, DV-4: names and the shown form.
    #[test]
    fn events_in_programs_are_named_as_linux_names_them() {
        for (text, name, shown) in [
            ("p /bin/bash-5.1:0x4245c0", "p_bash_0x4245c0", "/bin/bash-5.1:0x00000000004245c0"),
            ("r /usr/lib/libc.so.6:malloc", "r_libc_malloc", "/usr/lib/libc.so.6:malloc"),
            ("p /bin/x:main+4", "p_x_main_4", "/bin/x:main+4"),
        ] {
            let found = definition(text);
            assert_eq!((found.default_event().as_str(), found.location.to_string().as_str()), (name, shown), "{text}");
        }
    }

    /// BY-2, DV-4
    #[test]
    fn wrong_places_in_files_are_refused_with_advice() {
        #[rustfmt::skip]
        let cases = [
            ("p /bin/busybox",                "BAD_PROBE_ADDR", "say where in the file"),
            ("p /bin/busybox:",               "BAD_PROBE_ADDR",  "write an offset in the file"),
            ("p /bin/busybox:0xzz",           "BAD_PROBE_ADDR",  "write an offset in the file"),
            ("p /bin/busybox:main-4",         "BAD_PROBE_ADDR",  "not negative"),
            ("p /bin/busybox:main%ret",       "BAD_ADDR_SUFFIX", "only %return"),
            ("p /bin/busybox:0x10(x)",        "BAD_REFCNT",   "a reference counter"),
            ("p /bin/busybox:0x10 @jiffies",  "SYM_ON_UPROBE",   "the kernel's symbols"),
            ("r /bin/busybox:0x10 @+4",       "BAD_MEM_ADDR",    "entry only"),
            ("p vfs_read @+4",                "FILE_ON_KPROBE",  "makes no sense in the kernel"),
        ];
        for (text, code, why) in cases {
            let error = line(text).expect_err(text);
            let shown = format!("{error:?}");
            assert!(shown.contains(code) && shown.contains(why), "{text}: {shown}");
        }
    }
}
