//! The platform-level interrupt controller of RISC-V boards (RISC-V PLIC specification 1.0), with 31 level-triggered
//! sources and one context: the supervisor mode of the first hart.

use serde::{Deserialize, Serialize};

/// Bytes of its registers.
pub const BYTES: u64 = 0x60_0000;
/// The number of sources; number 0 stands for none.
pub const SOURCES: u32 = 31;

const PRIORITIES: u64 = 0;
const PRIORITIES_END: u64 = PRIORITIES + 4 * (SOURCES as u64 + 1);
const PENDING: u64 = 0x1000;
const ENABLED: u64 = 0x2000;
const THRESHOLD: u64 = 0x20_0000;
const CLAIM: u64 = 0x20_0004;

/// The highest priority.
const MOST: u32 = 7;

/// The controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plic {
    priorities: [u8; SOURCES as usize + 1],
    /// A bit for each source that is enabled.
    enabled: u32,
    /// A bit for each source whose line is high.
    lines: u32,
    /// A bit for each source that was claimed and not completed. It cannot be pending.
    claimed: u32,
    threshold: u8,
}

impl Plic {
    /// Whether the controller could be in this state.
    pub fn is_sound(&self) -> bool {
        let most = MOST as u8;
        (self.enabled | self.lines | self.claimed) & 1 == 0
            && self.threshold <= most
            && self.priorities[0] == 0
            && self.priorities.iter().all(|priority| *priority <= most)
    }

    /// Sets the line of a source.
    pub fn set_line(&mut self, source: u32, level: bool) {
        let bit = 1u32.checked_shl(source).unwrap_or(0) & !1;
        self.lines = if level { self.lines | bit } else { self.lines & !bit };
    }

    /// Whether it requests an interrupt.
    pub fn asks(&self) -> bool {
        self.best() != 0
    }

    fn pending(&self) -> u32 {
        self.lines & !self.claimed
    }

    /// The enabled pending source of the highest priority above the threshold; of several, the one with the lowest number.
    /// 0 if there is none.
    fn best(&self) -> u32 {
        let ready = self.pending() & self.enabled;
        let priority = |source: u32| self.priorities.get(source as usize).copied().unwrap_or(0);
        let sources = (1..=SOURCES).filter(|source| ready >> source & 1 != 0 && priority(*source) > self.threshold);
        sources.min_by_key(|source| (u8::MAX - priority(*source), *source)).unwrap_or(0)
    }

    /// A read of a register. Registers of other contexts and sources are 0.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            PRIORITIES..PRIORITIES_END => self.priorities.get((offset / 4) as usize).copied().unwrap_or(0).into(),
            PENDING => self.pending(),
            ENABLED => self.enabled,
            THRESHOLD => self.threshold.into(),
            CLAIM => {
                let source = self.best();
                self.claimed |= 1 << source & !1;
                source
            }
            _ => 0,
        }
    }

    /// A write to a register.
    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            // Source 0 does not exist.
            4..PRIORITIES_END => {
                if let Some(priority) = self.priorities.get_mut((offset / 4) as usize) {
                    *priority = (value & MOST) as u8;
                }
            }
            ENABLED => self.enabled = value & !1,
            THRESHOLD => self.threshold = (value & MOST) as u8,
            // A completion of a source that is not enabled is ignored.
            CLAIM => self.claimed &= !(1u32.checked_shl(value).unwrap_or(0) & self.enabled),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sources_are_claimed_by_priority_and_number_until_completed() {
        let mut plic = Plic::default();
        for (source, priority) in [(3, 1), (7, 2), (9, 2), (11, 0)] {
            plic.write(4 * source, priority);
            plic.set_line(source as u32, true);
        }
        assert!(!plic.asks(), "none is enabled");
        plic.write(ENABLED, u32::MAX);
        let claims: Vec<u32> = (0..4).map(|_| plic.read(CLAIM)).collect();
        assert_eq!((claims, plic.asks()), (vec![7, 9, 3, 0], false), "number 11 has no priority");
        plic.write(CLAIM, 9);
        assert_eq!((plic.asks(), plic.read(PENDING)), (true, 1 << 9 | 1 << 11), "its line is still high");
        plic.set_line(9, false);
        assert!(!plic.asks());
    }

    #[test]
    fn the_threshold_masks_priorities_up_to_it() {
        let mut plic = Plic::default();
        plic.write(4 * 10, 2);
        plic.write(ENABLED, 1 << 10);
        plic.set_line(10, true);
        for (threshold, asks) in [(0, true), (1, true), (2, false), (7, false)] {
            plic.write(THRESHOLD, threshold);
            assert_eq!(plic.asks(), asks, "{threshold}");
        }
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..3, any::<u32>(), any::<u32>()), 0..300)) {
            let mut plic = Plic::default();
            for (what, offset, value) in accesses {
                let offset = [PRIORITIES, PENDING, ENABLED, THRESHOLD][offset as usize % 4] + u64::from(offset >> 3) % 0x100;
                match what {
                    0 => plic.write(offset, value),
                    1 => { plic.read(offset); }
                    _ => plic.set_line(value % 40, value >> 8 & 1 != 0),
                }
                prop_assert!(plic.is_sound());
            }
        }
    }
}
