//! Watches the guest's console for a halt, and for silence.

/// The last lines that Linux prints before it halts a board that it cannot switch off.
const HALTED: &[&str] = &["reboot: System halted", "reboot: Power down"];
/// The length of the longest of these texts, or more.
const LONGEST_WORDS: usize = 32;

/// Nanoseconds of guest time without output after which a guest counts as silent: more than twice the longest boot in
/// docs/kernels.md. A quiet kernel prints nothing before its shell does.
pub const LONGEST_SILENCE: u64 = 10_000_000_000;

/// The state of the watch.
#[derive(Default)]
pub struct LastWords {
    /// The last bytes of the console, at most [`LONGEST_WORDS`].
    heard: Vec<u8>,
    /// The kernel printed that it halted.
    pub halted: bool,
}

impl LastWords {
    /// Adds console output.
    pub fn listen(&mut self, console: &[u8]) {
        self.heard.extend_from_slice(console);
        let said = |words: &str| self.heard.windows(words.len()).any(|heard| heard == words.as_bytes());
        self.halted |= HALTED.iter().any(|words| said(words));
        self.heard.drain(..self.heard.len().saturating_sub(LONGEST_WORDS));
    }

    /// Whether the guest has printed nothing.
    pub fn are_none(&self) -> bool {
        self.heard.is_empty()
    }
}

/// The sentence for a kernel that stayed silent for [`LONGEST_SILENCE`] on this board.
pub fn silence(board: &str) -> String {
    format!(
        "the guest has printed nothing for {} s of its time. It is probably made for another board or other CPUs than \
         the `{board}` board has: `trapline images` lists kernels that run. `--until TIME` runs it for that long anyway",
        LONGEST_SILENCE / 1_000_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-4: texts that arrive in several pieces are recognised.
    #[test]
    fn words_are_heard_however_they_come() {
        let mut words = LastWords::default();
        assert!(words.are_none());
        words.listen(b"");
        assert!(words.are_none());
        words.listen("x".repeat(100).as_bytes());
        assert!(!words.halted && !words.are_none());
        b"reboot: System halted".chunks(7).for_each(|piece| words.listen(piece));
        assert!(words.halted);
    }
}
