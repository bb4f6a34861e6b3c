//! The one comparison that tells the blocks in which something is to be done beside counting from all the others. When
//! it catches what, and who gets it, stands in `blocks.rs`.

use crate::cpu::WindowPlace;

/// Addresses whose blocks do not take the shortest way: the probe window, or everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gate {
    start: u64,
    len: u64,
}

impl Gate {
    /// Round the window.
    pub fn round(window: &WindowPlace) -> Gate {
        Gate { start: window.start, len: window.len }
    }

    /// Round everything.
    pub fn wide() -> Gate {
        Gate { start: 0, len: u64::MAX }
    }

    /// Whether it catches all of them.
    pub fn is_wide(&self) -> bool {
        *self == Gate::wide()
    }

    /// How far behind its start a block begins, if it goes through the gate.
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
