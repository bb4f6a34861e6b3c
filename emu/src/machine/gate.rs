//! The one comparison that tells the blocks in which something is to be done beside counting from all the others.

use crate::cpu::WindowPlace;

/// Addresses whose blocks do not take the shortest way: the probe window, or everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    start: u64,
    len: u64,
    /// Every block is to be looked at.
    wide: bool,
}

impl Gate {
    /// Round the window, or round everything.
    pub fn new(window: &WindowPlace, wide: bool) -> Gate {
        match wide {
            true => Gate { start: 0, len: u64::MAX, wide },
            false => Gate { start: window.start, len: window.len, wide },
        }
    }

    /// Whether a block at this address goes through it.
    #[inline]
    pub fn catches(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.start) < self.len
    }

    /// Whether all do.
    #[inline]
    pub fn is_wide(&self) -> bool {
        self.wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_catches_the_window_or_everything() {
        let window = WindowPlace { start: 0xffff_ffff_be00_0000, len: 0x1000, physical: 0, tables: 0 };
        for (pc, inside) in [(0, false), (window.start - 1, false), (window.start, true), (window.start + 0xfff, true)] {
            assert_eq!(Gate::new(&window, false).catches(pc), inside, "{pc:#x}");
            assert!(Gate::new(&window, true).catches(pc), "{pc:#x}");
        }
        assert!(!Gate::new(&window, false).catches(window.start + 0x1000));
    }
}
