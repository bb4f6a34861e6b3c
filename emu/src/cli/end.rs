//! The reason why a run ended, as a sentence and as an exit status.

use super::Failure;
use super::last_words::{self, LastWords};
use crate::machine::Stop;

/// The reason why a run ended.
pub enum End {
    /// The machine stopped for this reason.
    Stopped(Stop),
    /// The guest halted: it printed that it is off, on a board that it cannot switch off.
    Halted,
    /// The guest's kernel panicked, and then reset or stopped the machine.
    Panicked,
    /// The guest printed nothing for too long.
    Silent,
    /// The user left with Ctrl-A x.
    Left,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// A script called exit() with this status.
    Script(u64),
    /// A replay came to the end of its recording.
    Recorded,
}

impl End {
    /// The reason, from the machine's stop and the guest's last words.
    pub fn of(stop: Stop, words: &LastWords) -> End {
        match stop {
            Stop::Panic(_) => End::Panicked,
            Stop::Dead(_) if words.halted => End::Halted,
            stop => End::Stopped(stop),
        }
    }

    /// The result of the process. `refused` counts commands and probes that failed during the run.
    pub fn result(&self, refused: usize, board: &str) -> Result<(), Failure> {
        match self {
            End::Silent => Err(Failure::failed(last_words::silence(board))),
            End::Panicked | End::Script(1..) | End::Stopped(Stop::PowerOff(1..) | Stop::Dead(_)) => {
                Err(Failure::failed(self.reason()))
            }
            _ if refused > 0 => Err(Failure::failed("a command or a probe failed while the guest ran")),
            End::Left | End::Interrupted | End::Script(0) | End::Halted | End::Recorded | End::Stopped(_) => Ok(()),
        }
    }

    /// Whether the guest itself ended the run.
    pub fn is_by_guest(&self) -> bool {
        matches!(self, End::Halted | End::Panicked | End::Stopped(Stop::PowerOff(_) | Stop::Dead(_)))
    }

    /// Whether to print registers and a backtrace.
    pub fn wants_report(&self) -> bool {
        matches!(self, End::Panicked | End::Stopped(Stop::Dead(_) | Stop::Limit))
    }

    /// The reason as a sentence for the summary.
    pub fn reason(&self) -> String {
        match self {
            End::Stopped(stop) => reason(stop),
            End::Halted => "the guest halted".into(),
            End::Panicked => "the guest's kernel panicked".into(),
            End::Silent => "the guest printed nothing".into(),
            End::Left => "the user left with Ctrl-A x".into(),
            End::Interrupted => "the user pressed Ctrl-C".into(),
            End::Recorded => "the recording ends here".into(),
            End::Script(status) => format!("the script ended with status {status}"),
        }
    }
}

fn reason(stop: &Stop) -> String {
    match stop {
        Stop::Panic(_) => "the guest's kernel panicked".into(),
        Stop::PowerOff(0) => "the guest powered off".into(),
        Stop::PowerOff(status) => format!("the guest powered off with status {status}"),
        Stop::Limit => "the limit was reached".into(),
        Stop::ConsoleText => "the console printed the awaited text".into(),
        Stop::Attention | Stop::Place => "the machine stopped for its caller".into(),
        Stop::Dead(why) => format!("the guest died: {why}"),
    }
}
