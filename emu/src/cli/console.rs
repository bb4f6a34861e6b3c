//! What is typed on the guest's console: by a person at a terminal, out of a file, or nothing.
//!
//! Bytes wait on a wire (`devices/wire.rs`) until the guest's driver listens, and come at 115200 baud: none is lost,
//! and the same input is the same run. When a person types, virtual time is held to the clock on the wall; two threads
//! read keys and mind signals (`cli/terminal.rs`).

use super::Failure;
use super::terminal::{Terminal, Typed};
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// A guest that waits for a person may be ahead of the clock on the wall by this.
const MOST_AHEAD: Duration = Duration::from_millis(2);
/// No wait is longer, for a guest that sleeps has more to do than to listen.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// What is to be typed, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// The console shows nothing.
    #[default]
    Nothing,
    /// This, from the start; it arrives when the guest listens, at the pace of its serial line, so that each run is the
    /// same.
    Text(Vec<u8>),
    /// What a person types.
    Terminal,
}

impl Input {
    /// The text in a file, `-` being standard input; the guest's end of file follows it.
    pub fn read(file: &Path) -> Result<Input, Failure> {
        let read = if file.as_os_str() == "-" {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        } else {
            fs::read(file)
        };
        let text = read.map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", file.display())))?;
        Ok(Input::Text(text))
    }
}

/// The same while the guest runs.
pub struct Console {
    terminal: Option<Terminal>,
    pace: Pace,
}

impl Console {
    /// Takes the terminal, if that is what is asked for.
    pub fn open(input: &Input) -> Result<Console, Failure> {
        let terminal = match input {
            Input::Terminal => Some(Terminal::take()?),
            Input::Nothing | Input::Text(_) => None,
        };
        Ok(Console { terminal, pace: Pace::new(Instant::now()) })
    }

    /// What a person has typed since the last call. At this virtual time, in nanoseconds, a guest for a person waits
    /// until that time has come.
    pub fn typed(&mut self, virtual_ns: u64) -> Typed {
        let Some(terminal) = &mut self.terminal else { return Typed::Keys(Vec::new()) };
        match self.pace.ahead(virtual_ns, Instant::now()) {
            Some(ahead) => terminal.typed_within(ahead.min(LONGEST_WAIT)),
            None => terminal.typed(),
        }
    }
}

/// Keeps virtual time from running ahead of the time on the wall; what it has fallen behind it need not make up for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    wall: Instant,
    virtual_ns: u64,
}

impl Pace {
    fn new(wall: Instant) -> Pace {
        Pace { wall, virtual_ns: 0 }
    }

    /// How much the guest is ahead, if it is too much.
    fn ahead(&mut self, virtual_ns: u64, wall: Instant) -> Option<Duration> {
        let guest = Duration::from_nanos(virtual_ns.saturating_sub(self.virtual_ns));
        match guest.checked_sub(wall.saturating_duration_since(self.wall)) {
            Some(ahead) => (ahead > MOST_AHEAD).then_some(ahead),
            None => {
                *self = Pace { wall, virtual_ns };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_held_back_when_it_is_ahead_and_never_hurried() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let at = |ms: u64| start + Duration::from_millis(ms);
        const MS: u64 = 1_000_000;
        #[rustfmt::skip]
        let cases = [
            ("as fast as the wall",         10 * MS,    at(10),     None),
            ("a little ahead",              12 * MS,    at(11),     None),
            ("far ahead",                   70 * MS,    at(20),     Some(50)),
            ("behind",                      80 * MS,    at(5_080),  None),
            ("ahead of where it was then",  180 * MS,   at(5_100),  Some(80)),
        ];
        for (what, virtual_ns, wall, expected) in cases {
            assert_eq!(pace.ahead(virtual_ns, wall), expected.map(Duration::from_millis), "{what}");
        }
    }
}
