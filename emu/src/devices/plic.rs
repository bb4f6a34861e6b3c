//! The platform-level interrupt controller of RISC-V boards (RISC-V PLIC specification 1.0), with 31 level-triggered
//! sources and a context for the supervisor mode of each hart.

use serde::{Deserialize, Serialize};

/// The size of its registers in bytes.
pub const BYTES: u64 = 0x60_0000;
/// The number of sources; number 0 stands for none.
pub const SOURCES: u32 = 31;

const PRIORITIES: u64 = 0;
const PRIORITIES_END: u64 = PRIORITIES + 4 * (SOURCES as u64 + 1);
const PENDING: u64 = 0x1000;
const ENABLED: u64 = 0x2000;
const THRESHOLD: u64 = 0x20_0000;
/// Distances between the registers of two contexts.
const ENABLED_BYTES: u64 = 0x80;
const CONTEXT_BYTES: u64 = 0x1000;
/// The largest number of contexts.
const CONTEXTS: u64 = 64;
const ENABLED_END: u64 = ENABLED + CONTEXTS * ENABLED_BYTES;
const THRESHOLD_END: u64 = THRESHOLD + CONTEXTS * CONTEXT_BYTES;

/// The highest priority.
const MOST: u32 = 7;

/// The controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plic {
    priorities: [u8; SOURCES as usize + 1],
    contexts: Vec<Context>,
    /// A bit for each source whose line is high.
    lines: u32,
    /// A bit for each source that was claimed and not completed. It cannot be pending.
    claimed: u32,
}

/// The registers of one hart.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    /// A bit for each source that is enabled.
    enabled: u32,
    threshold: u8,
}

/// A register of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Enabled,
    Threshold,
    Claim,
}

/// The context's number and its register at an offset.
fn register(offset: u64) -> Option<(usize, Register)> {
    match offset {
        ENABLED..ENABLED_END => {
            let (context, at) = ((offset - ENABLED) / ENABLED_BYTES, (offset - ENABLED) % ENABLED_BYTES);
            (at == 0).then_some((context as usize, Register::Enabled))
        }
        THRESHOLD..THRESHOLD_END => {
            let context = ((offset - THRESHOLD) / CONTEXT_BYTES) as usize;
            match (offset - THRESHOLD) % CONTEXT_BYTES {
                0 => Some((context, Register::Threshold)),
                4 => Some((context, Register::Claim)),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Plic {
    /// A controller with this many contexts.
    pub fn new(contexts: usize) -> Plic {
        Plic { contexts: vec![Context::default(); contexts], ..Plic::default() }
    }

    /// Whether a controller with this many contexts could be in this state.
    pub fn is_sound(&self, contexts: usize) -> bool {
        let most = MOST as u8;
        (self.lines | self.claimed) & 1 == 0
            && self.contexts.len() == contexts
            && self.contexts.iter().all(|context| context.enabled & 1 == 0 && context.threshold <= most)
            && self.priorities[0] == 0
            && self.priorities.iter().all(|priority| *priority <= most)
    }

    /// Sets the line of a source.
    pub fn set_line(&mut self, source: u32, level: bool) {
        let bit = 1u32.checked_shl(source).unwrap_or(0) & !1;
        self.lines = if level { self.lines | bit } else { self.lines & !bit };
    }

    /// Whether it requests an interrupt of a context's hart.
    pub fn asks(&self, context: usize) -> bool {
        self.best(context) != 0
    }

    fn pending(&self) -> u32 {
        self.lines & !self.claimed
    }

    /// The pending source of the highest priority that the context enables and that is above its threshold; of several, the
    /// one with the lowest number. 0 if there is none.
    fn best(&self, context: usize) -> u32 {
        let Some(Context { enabled, threshold }) = self.contexts.get(context) else { return 0 };
        let ready = self.pending() & enabled;
        let priority = |source: u32| self.priorities.get(source as usize).copied().unwrap_or(0);
        let sources = (1..=SOURCES).filter(|source| ready >> source & 1 != 0 && priority(*source) > *threshold);
        sources.min_by_key(|source| (u8::MAX - priority(*source), *source)).unwrap_or(0)
    }

    /// Reads a register. Registers of other contexts and sources are 0. A read of the claim register claims the source.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            PRIORITIES..PRIORITIES_END => self.priorities.get((offset / 4) as usize).copied().unwrap_or(0).into(),
            PENDING => self.pending(),
            _ => {
                let Some((number, register)) = register(offset) else { return 0 };
                let Some(context) = self.contexts.get(number) else { return 0 };
                match register {
                    Register::Enabled => context.enabled,
                    Register::Threshold => context.threshold.into(),
                    Register::Claim => {
                        let source = self.best(number);
                        self.claimed |= 1 << source & !1;
                        source
                    }
                }
            }
        }
    }

    /// Writes a register. Writes to other contexts, sources and offsets are ignored.
    pub fn write(&mut self, offset: u64, value: u32) {
        // Source 0 does not exist.
        if let 4..PRIORITIES_END = offset {
            if let Some(priority) = self.priorities.get_mut((offset / 4) as usize) {
                *priority = (value & MOST) as u8;
            }
            return;
        }
        let Some((number, register)) = register(offset) else { return };
        let Some(context) = self.contexts.get_mut(number) else { return };
        match register {
            Register::Enabled => context.enabled = value & !1,
            Register::Threshold => context.threshold = (value & MOST) as u8,
            // A completion of a source that is not enabled is ignored.
            Register::Claim => self.claimed &= !(1u32.checked_shl(value).unwrap_or(0) & context.enabled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLAIM: u64 = THRESHOLD + 4;

    #[test]
    fn sources_are_claimed_by_priority_and_number_until_completed() {
        let mut plic = Plic::new(1);
        for (source, priority) in [(3, 1), (7, 2), (9, 2), (11, 0)] {
            plic.write(4 * source, priority);
            plic.set_line(source as u32, true);
        }
        assert!(!plic.asks(0), "none is enabled");
        plic.write(ENABLED, u32::MAX);
        let claims: Vec<u32> = (0..4).map(|_| plic.read(CLAIM)).collect();
        assert_eq!((claims, plic.asks(0)), (vec![7, 9, 3, 0], false), "number 11 has no priority");
        plic.write(CLAIM, 9);
        assert_eq!((plic.asks(0), plic.read(PENDING)), (true, 1 << 9 | 1 << 11), "its line is still high");
        plic.set_line(9, false);
        assert!(!plic.asks(0));
    }

    #[test]
    fn the_threshold_masks_priorities_up_to_it() {
        let mut plic = Plic::new(1);
        plic.write(4 * 10, 2);
        plic.write(ENABLED, 1 << 10);
        plic.set_line(10, true);
        for (threshold, asks) in [(0, true), (1, true), (2, false), (7, false)] {
            plic.write(THRESHOLD, threshold);
            assert_eq!(plic.asks(0), asks, "{threshold}");
        }
    }

    /// CP-1: a source that one hart has claimed is not offered to another one; the harts enable sources for themselves.
    #[test]
    fn a_source_interrupts_the_harts_that_enable_it_and_is_claimed_once() {
        let mut plic = Plic::new(3);
        plic.write(4 * 10, 1);
        for context in [0, 2] {
            plic.write(ENABLED + ENABLED_BYTES * context, 1 << 10);
        }
        plic.write(THRESHOLD + CONTEXT_BYTES, 0);
        plic.set_line(10, true);
        assert_eq!([0, 1, 2, 3].map(|context| plic.asks(context)), [true, false, true, false]);
        assert_eq!([2, 0].map(|context| plic.read(CLAIM + CONTEXT_BYTES * context)), [10, 0]);
        assert_eq!([0, 2].map(|context| plic.asks(context)), [false, false]);
        plic.write(CLAIM + CONTEXT_BYTES * 2, 10);
        assert!(plic.asks(0) && plic.asks(2), "its line is still high");
    }

    proptest! {
        #[test]
        fn bad_register_traffic_never_panics(accesses in proptest::collection::vec((0u8..3, any::<u32>(), any::<u32>()), 0..300)) {
            let mut plic = Plic::new(1);
            for (what, offset, value) in accesses {
                let offset = [PRIORITIES, PENDING, ENABLED, THRESHOLD][offset as usize % 4] + u64::from(offset >> 3) % 0x2100;
                match what {
                    0 => plic.write(offset, value),
                    1 => { plic.read(offset); }
                    _ => plic.set_line(value % 40, value >> 8 & 1 != 0),
                }
                prop_assert!(plic.is_sound(1));
            }
        }
    }
}
