//! The user's terminal as the guest's console: raw while the guest runs, and itself again however that ends.
//!
//! Two threads: one reads keys, one waits for signals. The guest's run sees keys between two slices only, so that it
//! stays one thread's.

use super::Failure;
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What the user is told at the start.
pub const GREETING: &str = "(this terminal is the guest's console; Ctrl-A x leaves, Ctrl-A Ctrl-A types a Ctrl-A)";

/// Reads that may wait for the guest: as much as anybody pastes.
const MOST_READS: usize = 1024;

/// The settings to give back, while the terminal is the guest's.
static TAKEN: Mutex<Option<Termios>> = Mutex::new(None);

/// Gives the terminal back after a crash of the CPU core, which drops nothing.
pub fn give_back() {
    if let Some(before) = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &before);
    }
}

/// A terminal that belongs to the guest. Dropping it gives it back.
pub struct Terminal {
    keys: Receiver<Vec<u8>>,
    prefix: Prefix,
}

/// What the user has typed since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// This, perhaps nothing.
    Keys(Vec<u8>),
    /// Ctrl-A x, or the terminal has gone away.
    Leave,
}

impl Terminal {
    /// Whether standard input is one.
    pub fn is_there() -> bool {
        io::stdin().is_terminal()
    }

    /// Takes the terminal at standard input.
    pub fn take() -> Result<Terminal, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(format!("the terminal cannot be the guest's console: {error}"))
                .advise("give what is to be typed in a file: --console-input FILE")
        };
        let before = tcgetattr(io::stdin()).map_err(|error| failed(&error))?;
        let mut raw = before.clone();
        raw.make_raw();
        // Our own lines end as lines do; to the guest's, which bring their carriage returns, another does nothing.
        raw.output_modes |= before.output_modes & (OutputModes::OPOST | OutputModes::ONLCR);
        let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT]).map_err(|error| failed(&error))?;
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(before.clone());
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(|error| failed(&error))?;
        let (send, keys) = sync_channel(MOST_READS);
        let terminal = Terminal { keys, prefix: Prefix::default() };
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

    /// What has been typed.
    pub fn typed(&mut self) -> Typed {
        match self.keys.try_recv() {
            Ok(bytes) => self.prefix.filter(&bytes),
            Err(TryRecvError::Empty) => Typed::Keys(Vec::new()),
            Err(TryRecvError::Disconnected) => Typed::Leave,
        }
    }

    /// The same; waits for it so long.
    pub fn typed_within(&mut self, time: Duration) -> Typed {
        match self.keys.recv_timeout(time) {
            Ok(bytes) => self.prefix.filter(&bytes),
            Err(RecvTimeoutError::Timeout) => Typed::Keys(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => Typed::Leave,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that went away needs no mending.
        give_back();
    }
}

/// A signal that ends us ends us as it does, but with the terminal given back; one that wakes us takes it again.
fn mind_signals(mut signals: Signals, before: &Termios, raw: &Termios) {
    for signal in signals.forever() {
        let wanted = if signal == SIGCONT { raw } else { before };
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, wanted);
        if signal != SIGCONT {
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// The key behind which keys are for us, as in QEMU.
const PREFIX: u8 = 1;

/// Whether that key has been typed.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    typed: bool,
}

impl Prefix {
    /// What of these keys is for the guest.
    fn filter(&mut self, keys: &[u8]) -> Typed {
        let mut through = Vec::new();
        for key in keys {
            match (std::mem::take(&mut self.typed), *key) {
                (false, PREFIX) => self.typed = true,
                (false, key) => through.push(key),
                (true, b'x' | b'X') => return Typed::Leave,
                (true, PREFIX) => through.push(PREFIX),
                (true, _) => {}
            }
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
        let cases: [Case<'_>; 6] = [
            ("plain keys",          &[b"ls\r", b"\x03"],    &[keys(b"ls\r"), keys(b"\x03")]),
            ("leaving",             &[b"ls\x01xrm"],        &[Typed::Leave]),
            ("in two reads",        &[b"a\x01", b"x"],      &[keys(b"a"), Typed::Leave]),
            ("the key itself",      &[b"a\x01\x01b"],       &[keys(b"a\x01b")]),
            ("an unknown one",      &[b"a\x01qb"],          &[keys(b"ab")]),
            ("an x without it",     &[b"x"],                &[keys(b"x")]),
        ];
        for (what, reads, expected) in cases {
            let mut prefix = Prefix::default();
            let got: Vec<Typed> = reads.iter().map(|read| prefix.filter(read)).collect();
            assert_eq!(got, expected, "{what}");
        }
    }
}
