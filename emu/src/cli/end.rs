//! Why a run is over, in words, and whether that is a failure.

use super::Failure;
use super::last_words::{self, LastWords};
use crate::machine::Stop;

/// Why a run is over.
pub enum End {
    /// The machine says it.
    Stopped(Stop),
    /// The guest has switched itself off as far as this machine lets it.
    Halted,
    /// It panicked, which resets the machine as its end does.
    Panicked,
    /// It has never said a word.
    Silent,
    /// The person at the terminal has left.
    Left,
}

impl End {
    /// What a stop was, after these words of the guest.
    pub fn of(stop: Stop, words: &LastWords) -> End {
        match stop {
            Stop::PowerOff(_) | Stop::Dead(_) if words.panicked => End::Panicked,
            Stop::Dead(_) if words.halted => End::Halted,
            stop => End::Stopped(stop),
        }
    }

    /// What the process says of it when it exits: `refused` is how much could not be done that was asked for on the way.
    pub fn result(&self, refused: usize, board: &str) -> Result<(), Failure> {
        match self {
            End::Silent => Err(Failure::failed(last_words::silence(board))),
            End::Panicked | End::Stopped(Stop::PowerOff(1..) | Stop::Dead(_)) => Err(Failure::failed(self.reason())),
            _ if refused > 0 => Err(Failure::failed("something that was asked for while the guest ran could not be done")),
            End::Left | End::Halted | End::Stopped(_) => Ok(()),
        }
    }

    /// Whether people want to know where the guest stood.
    pub fn wants_report(&self) -> bool {
        matches!(self, End::Panicked | End::Stopped(Stop::Dead(_) | Stop::Limit))
    }

    /// For the summary.
    pub fn reason(&self) -> String {
        match self {
            End::Stopped(stop) => reason(stop),
            End::Halted => "the guest halted".into(),
            End::Panicked => "the guest's kernel panicked".into(),
            End::Silent => "the guest has printed nothing".into(),
            End::Left => "left by Ctrl-A x".into(),
        }
    }
}

fn reason(stop: &Stop) -> String {
    match stop {
        Stop::PowerOff(0) => "the guest powered off".into(),
        Stop::PowerOff(status) => format!("the guest powered off with status {status}"),
        Stop::Limit => "the limit was reached".into(),
        Stop::ConsoleText => "the console printed the awaited text".into(),
        Stop::Attention => "the machine wanted attention".into(),
        Stop::Dead(why) => format!("the guest died: {why}"),
    }
}
