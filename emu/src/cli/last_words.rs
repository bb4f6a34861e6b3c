//! What the guest's console tells of its end, and what it tells by saying nothing at all.

/// What Linux says last: before it resets the machine, and before it stops for good on one that it cannot switch off.
const PANIC: &str = "Kernel panic - not syncing";
const HALTED: &[&str] = &["reboot: System halted", "reboot: Power down"];
/// No text of these is longer.
const LONGEST_WORDS: usize = 32;

/// Longer than any kernel that starts here takes to its first words, quiet ones to those of its shell: more than twice
/// the longest boot of docs/kernels.md.
pub const LONGEST_SILENCE: u64 = 10_000_000_000;

/// What has been heard.
#[derive(Default)]
pub struct LastWords {
    /// The end of what it has said.
    heard: Vec<u8>,
    /// The kernel has given up.
    pub panicked: bool,
    /// It has switched itself off as far as it can.
    pub halted: bool,
}

impl LastWords {
    /// This was said now.
    pub fn listen(&mut self, console: &[u8]) {
        self.heard.extend_from_slice(console);
        let said = |words: &str| self.heard.windows(words.len()).any(|heard| heard == words.as_bytes());
        self.panicked |= said(PANIC);
        self.halted |= HALTED.iter().any(|words| said(words));
        self.heard.drain(..self.heard.len().saturating_sub(LONGEST_WORDS));
    }

    /// Whether nothing at all has been said.
    pub fn are_none(&self) -> bool {
        self.heard.is_empty()
    }
}

/// What people are told of a kernel that has said nothing for so long, on this board.
pub fn silence(board: &str) -> String {
    format!(
        "the guest has printed nothing for {} s of its time, as a kernel does that was made for another board or other CPUs than the `{board}` board \
         has: `trapline images` lists kernels that run. `--until TIME` lets it run that long all the same",
        LONGEST_SILENCE / 1_000_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-4: what a guest says of its end is understood in pieces, too.
    #[test]
    fn words_are_heard_however_they_come() {
        let mut words = LastWords::default();
        assert!(words.are_none());
        words.listen(b"");
        assert!(words.are_none());
        let text = "x".repeat(100) + "[ 1.0] Kernel panic - not syncing: no init found";
        text.as_bytes().chunks(7).for_each(|piece| words.listen(piece));
        assert!(words.panicked && !words.halted && !words.are_none());
        words.listen(b"reboot: System halted");
        assert!(words.halted);
    }
}
