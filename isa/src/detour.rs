//! Detours: where the instructions run whose place the jump of an optimised probe has taken. Written once for all ISAs.
//!
//! A lean detour is one instruction that does nothing, the displaced instructions, and a jump back. The first is there so that
//! coming to the detour and coming back to the first displaced instruction are two places, and one hit is not counted twice.

use crate::arch::Isa;
use crate::insn::{Flow, Insn};
use crate::plan::{Policy, Refusal, Tail};
use crate::region::{Region, Rule};

/// The most bytes that a detour has on any ISA; a unit of the probe window.
pub const LONGEST: usize = 32;

/// How an ISA replaces several instructions by one jump.
#[derive(Debug)]
pub struct Detour {
    /// Linux 6.1 optimises on this ISA too.
    pub in_linux: bool,
    /// Bytes of the jump.
    pub jump_length: u64,
    /// The instruction that does nothing, in front of the displaced ones.
    pub lead: &'static [u8],
    /// What leads back from where a hijacked function has returned to, once the host has put the true return address where the
    /// function had it: the stack word just popped, or the register. Empty: there is no such instruction, and a breakpoint does it.
    pub return_pad: &'static [u8],
    /// The jump that stands where an instruction was, on that one's condition, and leads to `to`; `None` if that is too far.
    pub jump: fn(over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]>,
    /// Whether an instruction may run in a detour among others, with no engine looking on.
    pub may_move: fn(&Insn, Policy) -> bool,
    /// Where an instruction leads, as this policy sees it.
    pub flow: fn(&Insn, Policy) -> Flow,
}

/// The most bytes that a jump has on any ISA.
pub const JUMP_MOST: usize = 8;

/// The bytes of a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Code {
    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }
}

/// The lean detour of a region, to run at `at`.
pub fn lean(isa: &Isa, detour: &Detour, region: &Region, at: u64) -> Result<Code, Refusal> {
    let too_long = || Rule::TooLong.refusal();
    let mut code = Code { bytes: [0; LONGEST], len: 0 };
    code.push(detour.lead).ok_or_else(too_long)?;
    for insn in region.insns() {
        let last = insn.next() == region.end();
        let copy = (isa.copy)(insn, at.wrapping_add(code.len as u64), if last { Tail::JumpBack } else { Tail::Breakpoint })?;
        let bytes = if last { copy.bytes() } else { &copy.bytes()[..copy.displaced] };
        code.push(bytes).ok_or_else(too_long)?;
    }
    Ok(code)
}
