//! A decoded instruction: its address, its bytes and its control flow.

use crate::regs::Reg;

/// The longest instruction of any ISA, in bytes.
pub const LONGEST: usize = 15;

/// The longest instruction or group of instructions that are decoded together, in bytes.
pub const LONGEST_GROUP: usize = 16;

/// An instruction at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// The address of its first byte.
    pub address: u64,
    /// Its control flow.
    pub flow: Flow,
    len: u8,
    /// The bytes of the instruction, then those that were kept with it.
    bytes: [u8; LONGEST],
}

impl Insn {
    /// Makes an instruction of `bytes`. Bytes beyond [`LONGEST`] are dropped.
    pub fn new(address: u64, bytes: &[u8], flow: Flow) -> Self {
        Insn::with_more(address, bytes, &[], flow)
    }

    /// Makes an instruction of `bytes` that does not decode without some bytes in front of it. They are kept as `more`.
    pub fn with_more(address: u64, bytes: &[u8], more: &[u8], flow: Flow) -> Self {
        let len = bytes.len().min(LONGEST);
        let mut kept = [0; LONGEST];
        for (place, byte) in kept.iter_mut().zip(bytes.iter().chain(more)) {
            *place = *byte;
        }
        Insn { address, flow, len: len as u8, bytes: kept }
    }

    /// The bytes of the instruction.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The bytes behind its own: those that were kept with it, then zeros.
    pub fn more(&self) -> &[u8] {
        &self.bytes[usize::from(self.len)..]
    }

    /// The number of bytes.
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

/// The registers that show how far the CPU has come inside one instruction, such as `rep movs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress([Option<Reg>; Progress::MOST]);

impl Progress {
    /// The largest number of registers.
    pub const MOST: usize = 4;
    /// The value for an instruction that completes as a whole or not at all.
    pub const NONE: Progress = Progress([None; Progress::MOST]);

    /// Takes the first [`Progress::MOST`] of these registers.
    pub fn by(regs: &[Reg]) -> Progress {
        let mut all = Progress::NONE;
        for (place, reg) in all.0.iter_mut().zip(regs) {
            *place = Some(*reg);
        }
        all
    }

    /// The registers, in the order in which they were given.
    pub fn registers(&self) -> impl Iterator<Item = Reg> + '_ {
        self.0.iter().flatten().copied()
    }
}

/// The control flow of an instruction: which address it may continue at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction only.
    Next,
    /// A fixed target, always.
    Jump(u64),
    /// A fixed target, or the next instruction.
    Branch(u64),
    /// A function at a fixed address, then the next instruction.
    Call(u64),
    /// An address from a register or memory.
    IndirectJump,
    /// An address from a register or memory, or the next instruction.
    IndirectBranch,
    /// A function whose address comes from a register or memory, then the next instruction.
    IndirectCall,
    /// The caller.
    Return,
    /// An exception handler or another privilege level: traps, system calls, and returns from them.
    Trap,
}

impl Flow {
    /// The fixed target, if there is one.
    pub fn target(self) -> Option<u64> {
        match self {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => Some(target),
            _ => None,
        }
    }
}

/// Bytes that do not decode to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// The address of the first byte.
    pub address: u64,
    /// The bytes ended before the instruction did, so more bytes might decode.
    pub truncated: bool,
}
