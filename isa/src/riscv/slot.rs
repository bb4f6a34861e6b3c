//! The breakpoints of RISC-V, and the copy of an instruction that runs in the window.

use super::{COMPRESSED, LENGTH, detour};
use crate::insn::Insn;
use crate::plan::{Copy, Errno, Refusal, Rule, Tail};

/// `ebreak`: the breakpoint over an instruction of 4 bytes, and the end of a step.
pub const EBREAK: [u8; LENGTH] = 0x0010_0073_u32.to_le_bytes();
/// `c.ebreak`: the breakpoint over a compressed instruction.
pub const C_EBREAK: [u8; COMPRESSED] = 0x9002_u16.to_le_bytes();

/// The breakpoint of the instruction's length.
pub fn breakpoint_over(insn: &Insn) -> &'static [u8] {
    if insn.bytes().len() == COMPRESSED { &C_EBREAK } else { &EBREAK }
}

/// Whether this is an `ebreak` of either length, ours or another.
pub fn is_breakpoint(bytes: &[u8]) -> bool {
    bytes.starts_with(&EBREAK) || bytes.starts_with(&C_EBREAK)
}

/// The only refusal that depends on the place of the copy.
pub static OUT_OF_REACH: Rule = Rule::new(
    "out-of-reach",
    Errno::EINVAL,
    "the copy of this instruction would be more than 1 MiB away from it; the probe window must be nearer to the probed text",
);

/// Makes the copy that runs at `at` instead of its own address, followed by `tail`.
///
/// Instructions that use the pc are emulated, and their copies never run: an emulation never faults, and such an
/// instruction is never part of a detour. So nothing is relocated.
pub fn copy(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let displaced = insn.bytes().len();
    let behind = at.wrapping_add(insn.length());
    let tail = match tail {
        Tail::Breakpoint => EBREAK,
        Tail::JumpBack => detour::jump(behind, insn.next()).ok_or(OUT_OF_REACH.refusal())?.to_le_bytes(),
    };
    let mut copy = Copy { bytes: [0; 32], len: displaced + LENGTH, displaced };
    copy.bytes[..displaced].copy_from_slice(insn.bytes());
    copy.bytes[displaced..displaced + LENGTH].copy_from_slice(&tail);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::{RISCV64, Set};
    use super::*;

    const TEXT: u64 = 0xffff_ffff_8020_0ffe;

    fn insn(bytes: &[u8]) -> Insn {
        super::super::decode::decode(Set::Rv64, TEXT, bytes).expect("a whole instruction")
    }

    /// KP-1: the instruction of either length, then a breakpoint or a jump behind the original.
    #[test]
    fn a_copy_is_the_instruction_and_its_tail() {
        let parts = |bytes: &[u8], at: u64, tail: Tail| {
            let copy = copy(&insn(bytes), at, tail).expect("in reach");
            let (displaced, tail) = copy.bytes().split_at(copy.displaced);
            assert_eq!(displaced, bytes);
            u32::from_le_bytes(tail.try_into().expect("a word"))
        };
        let (c_addi, addi) = ([0x05, 0x05], [0x13, 0x05, 0x15, 0x00]);
        assert_eq!(parts(&c_addi, TEXT + 0x4000_0000, Tail::Breakpoint), 0x0010_0073);
        assert_eq!(parts(&addi, TEXT - 0x4000_0000, Tail::Breakpoint), 0x0010_0073);
        assert_eq!(parts(&c_addi, TEXT + 0x100, Tail::JumpBack), 0xf01f_f06f, "j .-0x100");
        assert_eq!(parts(&addi, TEXT + 0x100, Tail::JumpBack), 0xf01f_f06f, "j .-0x100");
        assert_eq!(parts(&addi, TEXT - 0xf_fffe, Tail::JumpBack), 0x7fff_f06f, "j .+0xffffe");
    }

    /// KP-1: `jal` reaches 1 MiB.
    #[test]
    fn a_jump_back_out_of_reach_is_refused() {
        let c_nop = insn(&[0x01, 0x00]);
        for (moved_by, reached) in [(0x10_0000, true), (0x10_0002, false), (-0xf_fffe, true), (-0x10_0000, false)] {
            let made = copy(&c_nop, TEXT.wrapping_add_signed(moved_by), Tail::JumpBack);
            assert_eq!(made.as_ref().err(), (!reached).then_some(&OUT_OF_REACH.refusal()), "{moved_by:#x}");
        }
        assert_eq!(RISCV64.rule_of(&OUT_OF_REACH.refusal()), Some(&OUT_OF_REACH));
    }

    /// KP-2: both breakpoints are recognised, and nothing else; a breakpoint has its instruction's length.
    #[test]
    fn a_breakpoint_has_the_length_of_its_instruction() {
        assert_eq!(breakpoint_over(&insn(&[0x01, 0x00])), [0x02, 0x90]);
        assert_eq!(breakpoint_over(&insn(&[0x13, 0x00, 0x00, 0x00])), [0x73, 0x00, 0x10, 0x00]);
        assert!([&C_EBREAK[..], &EBREAK, &[0x02, 0x90, 0x13, 0x00]].into_iter().all(is_breakpoint));
        assert!(![&[0x02, 0x91][..], &[0x73, 0, 0, 0], &[0x73, 0, 0x10], &[]].into_iter().any(is_breakpoint));
    }
}
