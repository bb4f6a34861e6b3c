//! Types a script at the shell of a booted guest, no faster than the guest reads.
//!
//! The script is typed in base64, so that no byte has a meaning for the terminal. The shell is then replaced by one
//! that runs the script and whose exit status is the guest's.

use crate::base64;
use crate::probed::Session;
use std::collections::VecDeque;

const COMMAND: &str = "stty -echo; base64 -d >/script; stty echo; exec sh /script\n";
/// Ctrl-D: the end of file for a program that reads the terminal.
const END: u8 = 4;
/// Characters in a line of base64.
const LINE: usize = 76;
/// Bytes typed at once: less than a terminal's input buffer.
const AT_ONCE: usize = 13 * (LINE + 1);
/// Nanoseconds of guest time in which the shell starts the command and switches the terminal's echo off.
const FIRST_PAUSE: u64 = 200_000_000;
/// Nanoseconds of guest time in which the guest reads what was typed at once.
const PAUSE: u64 = 10_000_000;

/// The state of the typing.
pub struct Typist {
    pieces: VecDeque<Vec<u8>>,
    first: bool,
    not_before: u64,
}

impl Typist {
    /// Prepares a first line for the shell, and a script that replaces the shell. The line may be empty.
    pub fn new(line: &str, script: Option<&[u8]>) -> Typist {
        let mut pieces = VecDeque::new();
        let Some(script) = script else {
            pieces.extend(Some(line.as_bytes().to_vec()).filter(|line| !line.is_empty()));
            return Typist { pieces, first: true, not_before: 0 };
        };
        let mut text = lines(&[line.as_bytes(), script].concat()).into_bytes();
        text.push(END);
        pieces.extend(std::iter::once(COMMAND.as_bytes()).chain(text.chunks(AT_ONCE)).map(<[u8]>::to_vec));
        Typist { pieces, first: true, not_before: 0 }
    }

    /// Returns the next piece to type at this guest time in nanoseconds. `unread` is the number of bytes that the guest
    /// has not read yet.
    pub fn next(&mut self, now: u64, unread: usize) -> Option<Vec<u8>> {
        if now < self.not_before || unread > 0 {
            return None;
        }
        let piece = self.pieces.pop_front()?;
        self.not_before = now.saturating_add(if self.first { FIRST_PAUSE } else { PAUSE });
        self.first = false;
        Some(piece)
    }
}

/// Nanoseconds of guest time between two checks of how much the guest has read from its console.
const LOOK: u64 = 1_000_000;

/// Typing at fixed points of guest time. Runs that stop at different times get the same input.
pub struct Typing {
    typist: Option<Typist>,
    /// The guest time of the next look.
    next: u64,
}

impl Typing {
    /// The typing of a session at its start.
    pub fn new(typist: Option<Typist>, session: &Session) -> Typing {
        Typing { typist, next: session.machine().now() }
    }

    /// Types the input that is due.
    pub fn look(&mut self, session: &mut Session) {
        if let Some(piece) = self.piece(session) {
            session.machine_mut().console_input(&piece);
        }
    }

    /// The bytes to type now.
    pub fn piece(&mut self, session: &mut Session) -> Option<Vec<u8>> {
        let now = session.machine().now();
        let typist = self.typist.as_mut().filter(|_| now >= self.next)?;
        self.next = (now / LOOK + 1) * LOOK;
        typist.next(now, session.machine_mut().unread_input())
    }

    /// The guest time in nanoseconds at which the run must stop for the next look.
    pub fn next(&self) -> u64 {
        if self.typist.is_some() { self.next } else { u64::MAX }
    }
}

/// Text in base 64, in lines of 76 characters.
fn lines(bytes: &[u8]) -> String {
    bytes.chunks(LINE / 4 * 3).map(|line| base64::text(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_typed_alone_or_in_front_of_the_script() {
        #[rustfmt::skip]
        let cases: [(&str, Option<&str>, &[&str]); 4] = [
            ("",        None,           &[]),
            ("load\n",  None,           &["load\n"]),
            ("",        Some("foo"),    &[COMMAND, "Zm9v\n\x04"]),
            ("foo",     Some("bar"),    &[COMMAND, "Zm9vYmFy\n\x04"]),
        ];
        for (line, script, expected) in cases {
            let pieces: Vec<String> = Typist::new(line, script.map(str::as_bytes))
                .pieces
                .iter()
                .map(|piece| String::from_utf8_lossy(piece).into_owned())
                .collect();
            assert_eq!(pieces, expected, "{line:?}, {script:?}");
        }
    }

    #[test]
    fn a_script_is_typed_in_pieces_that_end_with_the_end() {
        let typist = Typist::new("", Some(&[b'x'; 2000]));
        let pieces: Vec<usize> = typist.pieces.iter().map(Vec::len).collect();
        assert_eq!((pieces[0], pieces.len(), pieces.iter().all(|len| *len <= AT_ONCE)), (COMMAND.len(), 4, true));
        assert_eq!(typist.pieces.back().and_then(|piece| piece.last()), Some(&END));
    }
}
