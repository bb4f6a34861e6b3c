//! The engine's log: what hits, registrations and the guest's own doings have to say, until someone takes it.
//!
//! One log with one bound; lines for which there is no room are counted. Hits cannot allocate, so what they say is kept
//! as facts and made into text when it is taken.

use crate::engine::Engine;
use crate::probe::Kretprobe;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// So many lines are kept until they are taken.
const MOST_LINES: usize = 1024;

/// The lines that nobody has taken yet, the oldest first.
pub(crate) struct Log {
    /// Never grows.
    lines: Vec<Line>,
    /// Lines for which there was no room.
    pub lost: u64,
}

/// One line.
pub(crate) enum Line {
    /// From outside the hit path, where text may be made.
    Said(String),
    /// A followed call that does not fit the return that was seen.
    Mismatch { probe: Option<Kretprobe>, address: u64 },
    /// A return to the pad, and no followed call anywhere.
    UnknownReturn { pad: u64, task: u64, sp: u64 },
    /// A hit inside a hit inside a hit...
    TooDeep { address: u64 },
}

impl Line {
    fn text(self) -> String {
        match self {
            Line::Said(line) => line,
            Line::Mismatch { probe: Some(probe), address } => {
                format!("kretprobe BUG!: Processing kretprobe {} @ {address:016x}", probe.kprobe())
            }
            Line::Mismatch { probe: None, address } => {
                format!("kretprobe BUG!: Processing kretprobe (unregistered) @ {address:016x}")
            }
            Line::UnknownReturn { pad, task, sp } => format!(
                "kretprobe BUG!: Processing kretprobe (none) @ {pad:016x}: task {task:#x} returned at stack pointer {sp:#x}, where no followed call is known; the guest gets a trap there"
            ),
            Line::TooDeep { address } => format!("unrecoverable: the probe at {address:#x} was reached inside too many others"),
        }
    }
}

impl Log {
    pub fn new() -> Log {
        Log { lines: Vec::with_capacity(MOST_LINES), lost: 0 }
    }

    pub fn push(&mut self, line: Line) {
        if self.lines.len() < MOST_LINES {
            self.lines.push(line);
        } else {
            self.lost += 1;
        }
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.push(Line::Said(line.into()));
    }
}

impl Engine {
    /// Leaves a line in the log: for those who drive the engine, and have something to say about its probes.
    pub fn say(&mut self, line: impl Into<String>) {
        self.log.say(line);
    }

    /// Whether [`Engine::take_log_lines`] has something to give.
    pub fn has_log_lines(&self) -> bool {
        !self.log.lines.is_empty()
    }

    /// What there was to say since the last call, oldest first; how many lines found no room is in
    /// [`crate::Counts::lost_lines`].
    pub fn take_log_lines(&mut self) -> Vec<String> {
        self.log.lines.drain(..).map(Line::text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::TOY;

    /// Lines wait in order; those for which there is no room are counted, and there is room again when they have been
    /// taken.
    #[test]
    fn the_log_has_one_bound_and_counts_what_is_lost() {
        let mut engine = Engine::new(&TOY, 1);
        (0..MOST_LINES + 3).for_each(|number| engine.say(format!("line {number}")));
        assert_eq!(engine.counts().lost_lines, 3);
        let lines = engine.take_log_lines();
        assert_eq!((lines.len(), &*lines[0], &*lines[MOST_LINES - 1]), (MOST_LINES, "line 0", "line 1023"));
        assert!(!engine.has_log_lines());
        engine.say("again");
        assert_eq!((engine.take_log_lines(), engine.counts().lost_lines), (Vec::from([String::from("again")]), 3));
    }
}
