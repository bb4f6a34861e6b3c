//! The numbers of registers.
//!
//! The pc, as everywhere outside of the CPU, is one number: the address of a bundle plus 6 for each slot in front of the
//! instruction. The current frame is two registers: its place in the backing store ([`BSP`]) and its sizes ([`CFM`]).

use crate::regs::Reg;

/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const PC: Reg = Reg(128);
/// The processor status, without the slot's number.
pub const PSR: Reg = Reg(129);
/// The current frame marker: sizes, and the bases of rotation.
pub const CFM: Reg = Reg(130);
/// The address of register 32 in the backing store. To write it moves the frame by whole registers; the CPU loads registers
/// below those that it holds before the next instruction.
pub const BSP: Reg = Reg(131);
/// The frame of the caller, its epilogue count, and its privilege level.
pub const PFS: Reg = Reg(132);
/// The loop count.
pub const LC: Reg = Reg(133);
/// The epilogue count.
pub const EC: Reg = Reg(134);
/// The predicates as if none were rotated. Bit 0 is always 1.
pub const PR: Reg = Reg(135);
/// The status that the last interruption saved, with the slot's number.
pub const IPSR: Reg = Reg(144);
/// The bundle that the last interruption saved.
pub const IIP: Reg = Reg(145);
/// The frame that `cover` saved, with its highest bit if there is one.
pub const IFS: Reg = Reg(146);
/// The NaT bits of registers 0 to 63, and of 64 to 127.
pub const NATS: [Reg; 2] = [Reg(147), Reg(148)];

/// The stack pointer.
pub const SP: Reg = r(12);
/// The return address.
pub const RP: Reg = b(0);
/// The result of a function.
pub const RESULT: Reg = r(8);

/// The general register of that number, in the current frame. Number 0 reads as zero and is never set.
pub const fn r(number: u8) -> Reg {
    Reg(number & 127)
}

/// The branch register of that number.
pub const fn b(number: u8) -> Reg {
    Reg(136 + (number & 7))
}
