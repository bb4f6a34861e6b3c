//! The engine's log: messages of hits, registrations and events in the guest, kept until the user takes them.
//!
//! The log has a fixed capacity. Messages beyond it are dropped and counted. A hit cannot allocate, so it stores facts,
//! which become text when they are taken.

use crate::engine::Engine;
use crate::probe::Kretprobe;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Capacity of the log, in messages.
const MOST_MESSAGES: usize = 1024;

/// The messages that were not taken yet, oldest first.
pub(crate) struct Log {
    /// The waiting messages. The vector never grows beyond its initial capacity.
    messages: Vec<Message>,
    /// Messages dropped because the log was full.
    pub lost: u64,
}

/// One message.
pub(crate) enum Message {
    /// Text from outside the hit path.
    Said(String),
    /// A followed call that does not fit the return that was seen.
    Mismatch { probe: Option<Kretprobe>, address: u64 },
    /// A return to the pad that matches no followed call.
    UnknownReturn { pad: u64, task: u64, sp: u64 },
    /// Too many hits nested in each other.
    TooDeep { address: u64 },
}

impl Message {
    fn text(self) -> String {
        match self {
            Message::Said(line) => line,
            Message::Mismatch { probe: Some(probe), address } => {
                format!("kretprobe BUG!: Processing kretprobe {} @ {address:016x}", probe.kprobe())
            }
            Message::Mismatch { probe: None, address } => {
                format!("kretprobe BUG!: Processing kretprobe (unregistered) @ {address:016x}")
            }
            Message::UnknownReturn { pad, task, sp } => format!(
                "kretprobe BUG!: Processing kretprobe (none) @ {pad:016x}: task {task:#x} returned at stack pointer {sp:#x}, where no followed call is known; the guest gets a trap there"
            ),
            Message::TooDeep { address } => {
                format!("unrecoverable: the probe at {address:#x} was reached inside too many others")
            }
        }
    }
}

impl Log {
    pub fn new() -> Log {
        Log { messages: Vec::with_capacity(MOST_MESSAGES), lost: 0 }
    }

    pub fn push(&mut self, message: Message) {
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push(message);
        } else {
            self.lost += 1;
        }
    }

    pub fn say(&mut self, line: impl Into<String>) {
        self.push(Message::Said(line.into()));
    }
}

impl Engine {
    /// Adds a line to the log. For users of the engine that report about its probes.
    pub fn say(&mut self, line: impl Into<String>) {
        self.log.say(line);
    }

    /// Whether [`Engine::take_log_lines`] has messages to return.
    pub fn has_log_lines(&self) -> bool {
        !self.log.messages.is_empty()
    }

    /// The messages since the last call, oldest first. [`crate::Counts::lost_lines`] counts the dropped ones.
    pub fn take_log_lines(&mut self) -> Vec<String> {
        self.log.messages.drain(..).map(Message::text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::TOY;

    /// Messages stay in order. Messages beyond the capacity are counted, and taking them makes room again.
    #[test]
    fn a_full_log_drops_and_counts_messages() {
        let mut engine = Engine::new(&TOY, 1);
        (0..MOST_MESSAGES + 3).for_each(|number| engine.say(format!("line {number}")));
        assert_eq!(engine.counts().lost_lines, 3);
        let lines = engine.take_log_lines();
        assert_eq!((lines.len(), &*lines[0], &*lines[MOST_MESSAGES - 1]), (MOST_MESSAGES, "line 0", "line 1023"));
        assert!(!engine.has_log_lines());
        engine.say("again");
        assert_eq!((engine.take_log_lines(), engine.counts().lost_lines), (Vec::from([String::from("again")]), 3));
    }
}
