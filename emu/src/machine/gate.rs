//! One range comparison that separates blocks that need work from plain guest blocks. `blocks.rs` decides on the range
//! and the handler.

use crate::cpu::WindowPlace;

/// An address range whose blocks leave the fast path: the probe window, or everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    start: u64,
    len: u64,
}

impl Gate {
    /// A gate around the window.
    pub fn round(window: &WindowPlace) -> Gate {
        Gate { start: window.start, len: window.len }
    }

    /// A gate around the whole address space.
    pub fn wide() -> Gate {
        Gate { start: 0, len: u64::MAX }
    }

    /// Whether it covers the whole address space.
    pub fn is_wide(&self) -> bool {
        *self == Gate::wide()
    }

    /// The offset of an address from the gate's start, if the gate covers the address.
    #[inline]
    pub fn catches(&self, pc: u64) -> Option<u64> {
        let offset = pc.wrapping_sub(self.start);
        (offset < self.len).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_catches_the_window_or_everything() {
        let window = WindowPlace { start: 0xffff_ffff_be00_0000, len: 0x1000, physical: 0, tables: 0 };
        let cases = [(0, None), (window.start - 1, None), (window.start, Some(0)), (window.start + 0xfff, Some(0xfff))];
        for (pc, inside) in cases {
            assert_eq!(Gate::round(&window).catches(pc), inside, "{pc:#x}");
            assert!(Gate::wide().catches(pc).is_some(), "{pc:#x}");
        }
        assert_eq!(Gate::round(&window).catches(window.start + 0x1000), None);
    }
}
