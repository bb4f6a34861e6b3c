//! The input of the guest's console: a terminal, a file, or none.
//!
//! Bytes wait on a wire (`devices/wire.rs`) until the guest's driver listens, and arrive at 115200 baud. No byte is
//! lost, and equal input gives an equal run. With a terminal, virtual time does not run ahead of wall-clock time; two
//! threads read keys and handle signals (`cli/terminal.rs`).

use super::Failure;
use super::file::{self, Kind};
use super::terminal::{Terminal, Typed};
use std::path::Path;
use std::time::{Duration, Instant};

/// With a terminal, virtual time may be ahead of wall-clock time by this much.
const MOST_AHEAD: Duration = Duration::from_millis(2);
/// The longest wait for keys, because a sleeping guest has timers to serve.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// The source of the console input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// No input.
    #[default]
    Nothing,
    /// A fixed text. It arrives as fast as the guest's serial line can take it, so each run is the same.
    Text(Vec<u8>),
    /// The user's terminal.
    Terminal,
}

impl Input {
    /// Reads the text of a file; `-` means standard input. An end of file follows the text in the guest.
    pub fn read(file: &Path) -> Result<Input, Failure> {
        if file.as_os_str() != "-" {
            return file::read(file, Kind::KEYS).map(Input::Text);
        }
        let text = file::standard_input(Kind::KEYS);
        text.map(Input::Text).map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))
    }
}

/// The console input of a running guest.
pub struct Console {
    terminal: Option<Terminal>,
    pace: Pace,
}

impl Console {
    /// Takes over the terminal if it is the source.
    pub fn open(input: &Input) -> Result<Console, Failure> {
        let terminal = match input {
            Input::Terminal => Some(Terminal::take()?),
            Input::Nothing | Input::Text(_) => None,
        };
        Ok(Console { terminal, pace: Pace::new(Instant::now()) })
    }

    /// Returns the keys typed since the last call. With a terminal, waits if the virtual time `virtual_ns` (in
    /// nanoseconds) is ahead of wall-clock time.
    pub fn typed(&mut self, virtual_ns: u64) -> Typed {
        let Some(terminal) = &mut self.terminal else { return Typed::Keys(Vec::new()) };
        match self.pace.ahead(virtual_ns, Instant::now()) {
            Some(ahead) => terminal.typed_within(ahead.min(LONGEST_WAIT)),
            None => terminal.typed(),
        }
    }
}

impl Console {
    /// Whether a user types on a terminal.
    pub fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// The next key for trapline's own command line. Waits for it; `None` without a terminal.
    pub fn next_key(&mut self) -> Option<u8> {
        self.terminal.as_mut()?.next_key()
    }
}

/// Keeps virtual time from running ahead of wall-clock time. After a slow phase, the guest does not have to catch up.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    wall: Instant,
    virtual_ns: u64,
}

impl Pace {
    /// The pace from this moment of the wall clock.
    pub fn new(wall: Instant) -> Pace {
        Pace { wall, virtual_ns: 0 }
    }

    /// The time by which the guest is ahead of the wall clock, if that is more than [`MOST_AHEAD`].
    pub fn ahead(&mut self, virtual_ns: u64, wall: Instant) -> Option<Duration> {
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
