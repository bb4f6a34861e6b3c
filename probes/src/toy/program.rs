//! Assembler of the toy instruction set.

use alloc::vec::Vec;
use trapline_isa::mem::ByteOrder;

/// One instruction. Jumps and calls name their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Does nothing.
    Nop,
    /// A landing pad in front of an entry.
    Landing,
    /// r += value
    Add(u8, u8),
    /// Like [`Op::Add`], but planned as a step.
    AddStep(u8, u8),
    /// r = [a]
    Load(u8, u8),
    /// [a] = r
    Store(u8, u8),
    /// A repeated store.
    Fill,
    /// r = a function's address, relative to the pc.
    Lea(u8, &'static str),
    /// Jumps to a function.
    Jmp(&'static str),
    /// Calls a function.
    Call(&'static str),
    /// Returns to the address on top of the stack.
    Ret,
    /// Returns and pops this many bytes of arguments.
    RetPop(u8),
    /// Jumps by this many bytes, relative to the next instruction, if r is not 0.
    Jnz(u8, i32),
    /// Like [`Op::Jnz`], but the delay slot runs only if it jumps.
    JnzLikely(u8, i32),
    /// Jumps by this many bytes, relative to the next instruction, if the last sum was 0.
    Jz(i32),
    /// r = value
    Mov(u8, u32),
    /// Pushes a register.
    Push(u8),
    /// Pops a register.
    Pop(u8),
    /// Raises an exception.
    Trap,
    /// Ends the run.
    Halt,
    /// Returns from an interrupt handler.
    Iret,
    /// The guest's own breakpoint.
    Break,
}

impl Op {
    /// Length in bytes.
    pub fn length(self) -> u64 {
        self.encode(0, |_| 0).len() as u64
    }

    /// The encoded bytes at an address, little-endian.
    pub fn encode(self, at: u64, address_of: impl Fn(&str) -> u64) -> Vec<u8> {
        self.encode_in(ByteOrder::Little, at, address_of)
    }

    /// Like [`Op::encode`], with this byte order.
    pub fn encode_in(self, order: ByteOrder, at: u64, address_of: impl Fn(&str) -> u64) -> Vec<u8> {
        let number = |value: i32| match order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        };
        let to = |code: &[u8], name: &str| {
            let mut bytes = code.to_vec();
            let behind = at + code.len() as u64 + 4;
            bytes.extend(number(address_of(name).wrapping_sub(behind) as i32));
            bytes
        };
        let with = |code: &[u8], value: i32| {
            let mut bytes = code.to_vec();
            bytes.extend(number(value));
            bytes
        };
        match self {
            Op::Nop => [0x90].to_vec(),
            Op::Landing => [0xee, 0xee].to_vec(),
            Op::Add(r, value) => [0x01, r, value].to_vec(),
            Op::AddStep(r, value) => [0x02, r, value].to_vec(),
            Op::Load(r, a) => [0x03, r, a].to_vec(),
            Op::Store(a, r) => [0x04, a, r].to_vec(),
            Op::Fill => [0x05].to_vec(),
            Op::Lea(r, name) => to(&[0x06, r], name),
            Op::Jmp(name) => to(&[0x10], name),
            Op::Call(name) => to(&[0x11], name),
            Op::Ret => [0x12].to_vec(),
            Op::RetPop(bytes) => [0x13, bytes].to_vec(),
            Op::Jnz(r, far) => with(&[0x14, r], far),
            Op::JnzLikely(r, far) => with(&[0x19, r], far),
            Op::Jz(far) => with(&[0x18], far),
            Op::Mov(r, value) => with(&[0x15, r], value as i32),
            Op::Push(r) => [0x16, r].to_vec(),
            Op::Pop(r) => [0x17, r].to_vec(),
            Op::Trap => [0x20].to_vec(),
            Op::Halt => [0x21].to_vec(),
            Op::Iret => [0x22].to_vec(),
            Op::Break => [0xcc].to_vec(),
        }
    }
}

/// A function: its name and its instructions.
pub type Function<'a> = (&'static str, &'a [Op]);
