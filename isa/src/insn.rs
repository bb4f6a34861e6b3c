//! One decoded instruction: where it stands, its bytes, and where it may send execution.

use crate::regs::Reg;

/// The longest instruction of any ISA, in bytes.
pub const LONGEST: usize = 15;

/// An instruction at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Where its first byte lies.
    pub address: u64,
    /// Where it may send execution.
    pub flow: Flow,
    len: u8,
    bytes: [u8; LONGEST],
}

impl Insn {
    /// The instruction made of `bytes`, at most [`LONGEST`] of which are kept.
    pub fn new(address: u64, bytes: &[u8], flow: Flow) -> Self {
        let len = bytes.len().min(LONGEST);
        let mut kept = [0; LONGEST];
        kept[..len].copy_from_slice(&bytes[..len]);
        Insn { address, flow, len: len as u8, bytes: kept }
    }

    /// Its bytes, no more and no less.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// How many bytes it has.
    #[inline]
    pub fn length(&self) -> u64 {
        u64::from(self.len)
    }

    /// The address behind it.
    #[inline]
    pub fn next(&self) -> u64 {
        self.address.wrapping_add(self.length())
    }
}

/// The registers that tell how far a CPU has come inside one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress([Option<Reg>; Progress::MOST]);

impl Progress {
    /// How many there may be.
    pub const MOST: usize = 4;
    /// It is done as a whole, or not at all.
    pub const NONE: Progress = Progress([None; Progress::MOST]);

    /// By these registers, of which the first [`Progress::MOST`] count.
    pub fn by(regs: &[Reg]) -> Progress {
        let mut all = Progress::NONE;
        for (place, reg) in all.0.iter_mut().zip(regs) {
            *place = Some(*reg);
        }
        all
    }

    /// These registers.
    pub fn registers(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().flatten().copied()
    }
}

/// Where an instruction may send execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction only.
    Next,
    /// To a fixed target, always.
    Jump(u64),
    /// To a fixed target or to the next instruction.
    Branch(u64),
    /// Into a function at a fixed address, and back.
    Call(u64),
    /// To an address out of a register or memory.
    IndirectJump,
    /// To such an address or to the next instruction.
    IndirectBranch,
    /// Into a function whose address comes out of a register or memory, and back.
    IndirectCall,
    /// Back to the caller.
    Return,
    /// Into an exception handler or another privilege level: traps, system calls, returns from them.
    Trap,
}

impl Flow {
    /// The fixed address that it may go to, where it has one.
    pub fn target(self) -> Option<u64> {
        match self {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => Some(target),
            _ => None,
        }
    }
}

/// Bytes that are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Where they lie.
    pub address: u64,
    /// The bytes ended before the instruction did.
    pub truncated: bool,
}
