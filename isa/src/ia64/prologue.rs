//! The frame of a function, by its prologue: the size that its `alloc` gives it, and the register to which it has copied its
//! return address.

use super::abi::{BSP, RP};
use super::bundle::{BUNDLE, Bundle, SLOT_STEP, SLOTS};
use super::decode::in_bundle;
use super::emulate::skip;
use super::op::Op;
use crate::regs::Reg;

/// The number of bundles in which `alloc` and the copy are looked for.
const MOST: usize = 24;
/// The number of the branch register with the return address.
const LINK: u8 = 0;

/// The registers in which a walk through the callers begins: the place of the frame in the backing store, and the return address.
pub const START: (Reg, Reg) = (BSP, RP);

/// The facts about a function's frame that its code has made true before some pc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The number of locals, once the frame is allocated.
    pub locals: Option<u8>,
    /// The register with the return address, once it was copied.
    pub link: Option<u8>,
}

impl Frame {
    /// The frame at `pc` of the function whose code is at `start`.
    pub fn at(code: &[u8], start: u64, pc: u64) -> Frame {
        let mut frame = Frame::default();
        for (at, bytes) in (start..pc).step_by(BUNDLE as usize).zip(code.chunks_exact(BUNDLE as usize)).take(MOST) {
            let Some(bundle) = Bundle::of(bytes) else { break };
            for slot in (0..SLOTS).take_while(|slot| at + *slot as u64 * u64::from(SLOT_STEP) < pc) {
                match in_bundle(bundle, slot).map(|insn| insn.op) {
                    Some(Op::Alloc { locals, .. }) => frame.locals = frame.locals.or(Some(locals)),
                    Some(Op::MoveFromBranch { to, from: LINK }) if to >= 32 => frame.link = frame.link.or(Some(to)),
                    _ => {}
                }
            }
        }
        frame
    }

    /// The address of the word with the return address, if the frame is at this address of the backing store.
    pub fn link_slot(self, frame: u64) -> Option<u64> {
        self.link.map(|register| skip(frame, i64::from(register) - 32))
    }

    /// The address of this frame, which belongs to the caller of the frame at the given address.
    pub fn below(self, callee: u64) -> u64 {
        skip(callee, -i64::from(self.locals.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// BY-1: the frame is known from `alloc` on, and the return address from its copy on.
    #[test]
    fn a_frame_is_known_behind_its_prologue() {
        const NOP: u64 = 1 << 27;
        // `alloc r34=ar.pfs,6,5,0` and `mov r33=b0`.
        let words = [1 << 37 | 6 << 33 | 5 << 20 | 6 << 13 | 34 << 6, 0x31 << 27 | 33 << 6, NOP];
        let code: Vec<u8> = [Bundle::new(0, words), Bundle::new(0, [NOP; 3])].iter().flat_map(|bundle| bundle.bytes()).collect();
        let at = |pc: u64| {
            let frame = Frame::at(&code, 0x4000, 0x4000 + pc);
            (frame.locals, frame.link)
        };
        assert_eq!([0, 6, 12, 16].map(at), [(None, None), (Some(5), None), (Some(5), Some(33)), (Some(5), Some(33))]);
        let frame = Frame::at(&code, 0x4000, 0x4010);
        // The word below 0x8000 is a collection of NaT bits.
        assert_eq!((frame.link_slot(0x8000), frame.below(0x8000)), (Some(0x8008), 0x8000 - 6 * 8));
    }
}
