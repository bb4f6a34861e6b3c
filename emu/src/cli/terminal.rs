//! The user's terminal as the guest's console. It is in raw mode while the guest runs, and its settings are restored
//! however the run ends.
//!
//! One thread reads keys, another waits for signals. The run takes keys only between two slices, so the guest stays in
//! one thread.

use super::{Failure, pane};
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The greeting when the terminal is taken.
pub const GREETING: &str = "(this terminal is the guest's console; Ctrl-A c takes commands, Ctrl-A x leaves, Ctrl-A h helps)";

/// The help of Ctrl-A h.
pub const HELP: &str = "\
Ctrl-A c       opens trapline's command line; the guest stands still meanwhile
Ctrl-A l       shows records as they come in a pane below the console, or no longer
Ctrl-A f       writes records to a file, too
Ctrl-A x       leaves
Ctrl-A Ctrl-A  types a Ctrl-A
";

/// The number of reads that may wait for the guest; enough for any pasted text.
const MOST_READS: usize = 1024;

/// The original settings, while the terminal is in raw mode.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// Restores the terminal's settings. Called after a crash of the CPU core too, which runs no destructors.
pub fn give_back() {
    pane::close();
    if let Some(before) = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &before);
    }
}

/// The terminal in raw mode. Dropping it restores the settings.
pub struct Terminal {
    keys: Receiver<Vec<u8>>,
    prefix: Prefix,
    /// Keys that were read behind a command to trapline.
    rest: VecDeque<u8>,
}

/// The user's input since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Keys for the guest, possibly none.
    Keys(Vec<u8>),
    /// The user typed Ctrl-A x, or the terminal was closed.
    Leave,
    /// The user typed Ctrl-A and one of these keys.
    Wants(Wish),
}

/// A command by a key behind Ctrl-A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// `c`: the command line.
    Ask,
    /// `l`: show records as they come, or no longer.
    Live,
    /// `f`: write records to a file.
    File,
    /// `h` or `?`: the help.
    Help,
}

impl Terminal {
    /// Whether standard input is a terminal.
    pub fn is_there() -> bool {
        io::stdin().is_terminal()
    }

    /// Puts the terminal at standard input into raw mode and starts the two threads.
    pub fn take() -> Result<Terminal, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("the terminal cannot be the guest's console: {error}"))
                .advise("give what is to be typed in a file: --console-input FILE")
        };
        let before = tcgetattr(io::stdin()).map_err(|error| failed(&error))?;
        let mut raw = before.clone();
        raw.make_raw();
        // Keeps the conversion of newlines for our own lines. The guest's lines have carriage returns already, and a
        // second one is harmless.
        raw.output_modes |= before.output_modes & (OutputModes::OPOST | OutputModes::ONLCR);
        let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT]).map_err(|error| failed(&error))?;
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(|error| failed(&error))?;
        let (send, keys) = sync_channel(MOST_READS);
        let terminal = Terminal { keys, prefix: Prefix::default(), rest: VecDeque::new() };
        thread::spawn(move || mind_signals(signals, &before, &raw));
        thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(terminal)
    }

    /// The keys typed so far, without waiting.
    pub fn typed(&mut self) -> Typed {
        if !self.rest.is_empty() {
            return self.prefix.filter(&mut self.rest);
        }
        match self.keys.try_recv() {
            Ok(bytes) => self.filter(&bytes),
            Err(TryRecvError::Empty) => Typed::Keys(Vec::new()),
            Err(TryRecvError::Disconnected) => Typed::Leave,
        }
    }

    /// The keys typed so far. Waits at most `time` for the first one.
    pub fn typed_within(&mut self, time: Duration) -> Typed {
        if !self.rest.is_empty() {
            return self.typed();
        }
        match self.keys.recv_timeout(time) {
            Ok(bytes) => self.filter(&bytes),
            Err(RecvTimeoutError::Timeout) => Typed::Keys(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => Typed::Leave,
        }
    }

    fn filter(&mut self, bytes: &[u8]) -> Typed {
        self.rest.extend(bytes);
        self.prefix.filter(&mut self.rest)
    }

    /// The next key for trapline's own command line. Waits for it; `None` if the terminal was closed.
    pub fn next_key(&mut self) -> Option<u8> {
        while self.rest.is_empty() {
            self.rest.extend(self.keys.recv().ok()?);
        }
        self.rest.pop_front()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error means that the terminal was closed, so there is nothing to restore.
        give_back();
    }
}

/// Restores the settings before a fatal signal ends the process, and sets raw mode again after SIGCONT.
fn mind_signals(mut signals: Signals, before: &Termios, raw: &Termios) {
    for signal in signals.forever() {
        let wanted = if signal == SIGCONT { raw } else { before };
        if signal != SIGCONT {
            pane::close();
        }
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, wanted);
        if signal != SIGCONT {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// Ctrl-A: the key after it is a command to trapline, as in QEMU.
const PREFIX: u8 = 1;

/// Whether that key was typed last.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    typed: bool,
}

impl Prefix {
    /// Separates keys for the guest from commands to trapline. Keys in front of a command are returned first.
    fn filter(&mut self, keys: &mut VecDeque<u8>) -> Typed {
        let mut through = Vec::new();
        while let Some(key) = keys.pop_front() {
            let wish = match (std::mem::take(&mut self.typed), key) {
                (false, PREFIX) => {
                    self.typed = true;
                    continue;
                }
                (false, key) | (true, key @ PREFIX) => {
                    through.push(key);
                    continue;
                }
                (true, b'x' | b'X') => {
                    keys.clear();
                    return Typed::Leave;
                }
                (true, b'c' | b'C') => Wish::Ask,
                (true, b'l' | b'L') => Wish::Live,
                (true, b'f' | b'F') => Wish::File,
                (true, b'h' | b'H' | b'?') => Wish::Help,
                (true, _) => continue,
            };
            if through.is_empty() {
                return Typed::Wants(wish);
            }
            keys.push_front(key);
            self.typed = true;
            break;
        }
        Typed::Keys(through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_behind_the_prefix_are_ours() {
        type Case<'a> = (&'a str, &'a [&'a [u8]], &'a [Typed]);
        let keys = |text: &[u8]| Typed::Keys(text.to_vec());
        #[rustfmt::skip]
        let cases: [Case<'_>; 9] = [
            ("plain keys",          &[b"ls\r", b"\x03"],    &[keys(b"ls\r"), keys(b"\x03")]),
            ("leaving",             &[b"ls\x01xrm"],        &[Typed::Leave]),
            ("in two reads",        &[b"a\x01", b"x"],      &[keys(b"a"), Typed::Leave]),
            ("the key itself",      &[b"a\x01\x01b"],       &[keys(b"a\x01b")]),
            ("an unknown one",      &[b"a\x01qb"],          &[keys(b"ab")]),
            ("an x without it",     &[b"x"],                &[keys(b"x")]),
            ("a wish",              &[b"\x01c"],            &[Typed::Wants(Wish::Ask)]),
            ("keys around a wish",  &[b"a\x01lb"],          &[keys(b"a"), Typed::Wants(Wish::Live), keys(b"b")]),
            ("two wishes",          &[b"\x01f\x01", b"h"],  &[Typed::Wants(Wish::File), keys(b""), Typed::Wants(Wish::Help)]),
        ];
        for (what, reads, expected) in cases {
            let mut prefix = Prefix::default();
            let mut got = Vec::new();
            for read in reads {
                let mut rest: VecDeque<u8> = read.iter().copied().collect();
                got.push(prefix.filter(&mut rest));
                while !rest.is_empty() {
                    got.push(prefix.filter(&mut rest));
                }
            }
            assert_eq!(got, expected, "{what}");
        }
    }
}
