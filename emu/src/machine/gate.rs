//! The one comparison that tells the blocks in which something is to be done beside counting from all the others.

use crate::cpu::WindowPlace;

/// Addresses whose blocks do not take the shortest way: the probe window, or everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    start: u64,
    len: u64,
    /// Every block is to be looked at.
    wide: bool,
    /// Detours take the short way.
    short: bool,
}

impl Gate {
    /// Round the window, or round everything; there is nothing special about detours, or there is.
    pub fn new(window: &WindowPlace, wide: bool, short: bool) -> Gate {
        match wide {
            true => Gate { start: 0, len: u64::MAX, wide, short: false },
            false => Gate { start: window.start, len: window.len, wide, short },
        }
    }

    /// Whether a block at this address goes through it.
    #[inline]
    pub fn catches(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.start) < self.len
    }

    /// Whether it catches all of them.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.wide
    }

    /// Whether a detour takes the short way.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_catches_the_window_or_everything() {
        let window = WindowPlace { start: 0xffff_ffff_be00_0000, len: 0x1000, physical: 0, tables: 0 };
        for (pc, inside) in [(0, false), (window.start - 1, false), (window.start, true), (window.start + 0xfff, true)] {
            assert_eq!(Gate::new(&window, false, true).catches(pc), inside, "{pc:#x}");
            assert!(Gate::new(&window, true, true).catches(pc), "{pc:#x}");
        }
        assert!(!Gate::new(&window, false, true).catches(window.start + 0x1000));
        let short = [(false, true), (false, false), (true, true)].map(|(wide, short)| Gate::new(&window, wide, short).is_short());
        assert_eq!(short, [true, false, false], "only where no block is special");
    }
}
