//! The calling conventions of x86 kernels, and the numbers and names of registers.

use crate::abi::{Abi, ReturnAddress};
use crate::entry::Beginning;
use crate::insn::{Insn, Progress};
use crate::operand::{Assembler, Part, numbered};
use crate::plan::Policy;
use crate::regs::Reg;

/// The accumulator (rax). Registers 0 to 15 have the hardware's numbers.
pub const AX: Reg = Reg(0);
/// The counter (rcx).
pub const CX: Reg = Reg(1);
/// The general register rdx: the third argument of 64-bit code, the second of 32-bit code.
pub const DX: Reg = Reg(2);
/// The general register rbx, which calls preserve.
pub const BX: Reg = Reg(3);
/// The stack pointer.
pub const SP: Reg = Reg(4);
/// The frame pointer, or a callee-saved register.
pub const BP: Reg = Reg(5);
/// The source of string instructions.
pub const SI: Reg = Reg(6);
/// The destination of string instructions.
pub const DI: Reg = Reg(7);
/// The general register r8, the fifth argument. 32-bit code has no r8 to r15.
pub const R8: Reg = Reg(8);
/// The general register r9 of 64-bit code.
pub const R9: Reg = Reg(9);
/// The general register r10 of 64-bit code.
pub const R10: Reg = Reg(10);
/// The general register r11 of 64-bit code.
pub const R11: Reg = Reg(11);
/// The general register r12 of 64-bit code.
pub const R12: Reg = Reg(12);
/// The general register r13 of 64-bit code.
pub const R13: Reg = Reg(13);
/// The general register r14 of 64-bit code.
pub const R14: Reg = Reg(14);
/// The general register r15 of 64-bit code.
pub const R15: Reg = Reg(15);
/// EFLAGS or RFLAGS.
pub const FLAGS: Reg = Reg(16);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const IP: Reg = Reg(17);
/// The selector of the code segment.
pub const CS: Reg = Reg(18);
/// The selector of the stack segment.
pub const SS: Reg = Reg(19);
/// The selector of the data segment.
pub const DS: Reg = Reg(20);
/// The selector of the extra segment.
pub const ES: Reg = Reg(21);
/// The selector of fs.
pub const FS: Reg = Reg(22);
/// The selector of gs.
pub const GS: Reg = Reg(23);
/// `orig_ax` of Linux's `pt_regs`; no CPU register.
pub const ORIG_AX: Reg = Reg(24);
/// The base address of the fs segment.
pub const FS_BASE: Reg = Reg(25);
/// The base address of the gs segment.
pub const GS_BASE: Reg = Reg(26);
/// The x87's last instruction pointer (FIP). Not in `pt_regs`.
pub const X87_IP: Reg = Reg(27);

/// The convention of 64-bit kernels.
pub static X86_64: Abi = Abi {
    sp: SP,
    result: AX,
    arguments: &[DI, SI, DX, CX, R8, R9],
    stack_arguments: 8,
    return_address: ReturnAddress::OnStack,
    #[rustfmt::skip]
    names: &[
        ("r15", R15), ("r14", R14), ("r13", R13), ("r12", R12), ("r11", R11), ("r10", R10), ("r9", R9), ("r8", R8),
        ("bx", BX), ("cx", CX), ("dx", DX), ("si", SI), ("di", DI), ("bp", BP), ("ax", AX), ("orig_ax", ORIG_AX),
        ("ip", IP), ("cs", CS), ("flags", FLAGS), ("sp", SP), ("ss", SS),
    ],
    dwarf: |number| {
        const NUMBERS: [Reg; 17] = [AX, DX, CX, BX, SI, DI, BP, SP, R8, R9, R10, R11, R12, R13, R14, R15, IP];
        NUMBERS.get(usize::from(number)).copied()
    },
    jprobe_stack: JPROBE_STACK,
    assembler: ASSEMBLER,
    ..Abi::USUAL
};

/// The convention of 32-bit kernels, which are compiled with `-mregparm=3`.
pub static I386: Abi = Abi {
    sp: SP,
    result: AX,
    second_result: Some(DX),
    arguments: &[AX, DX, CX],
    stack_arguments: 4,
    return_address: ReturnAddress::OnStack,
    #[rustfmt::skip]
    names: &[
        ("bx", BX), ("cx", CX), ("dx", DX), ("si", SI), ("di", DI), ("bp", BP), ("ax", AX), ("ds", DS), ("es", ES),
        ("fs", FS), ("gs", GS), ("orig_ax", ORIG_AX), ("ip", IP), ("cs", CS), ("flags", FLAGS), ("sp", SP), ("ss", SS),
    ],
    dwarf: |number| [AX, CX, DX, BX, SP, BP, SI, DI, IP].get(usize::from(number)).copied(),
    jprobe_stack: JPROBE_STACK,
    assembler: ASSEMBLER,
    stack_size: 8192,
    most_aligned: 4,
    ..Abi::USUAL
};

const JPROBE_STACK: usize = 64;

const ASSEMBLER: Assembler = Assembler { constant: Some('$'), register: part, ..Assembler::USUAL };

/// The register, or the part of it, that a name stands for, such as `rax`, `eax`, `ax`, `al`, `ah`, `sil` or `r9d`.
fn part(name: &str) -> Option<Part> {
    const NAMED: [(&str, Reg); 8] =
        [("ax", AX), ("cx", CX), ("dx", DX), ("bx", BX), ("sp", SP), ("bp", BP), ("si", SI), ("di", DI)];
    let named = |wanted: &str| NAMED.iter().find(|(name, _)| *name == wanted).map(|(_, register)| *register);
    let whole = |name: &str| name.strip_prefix(['r', 'e']).and_then(named);
    let extended = |name: &str| {
        let number = numbered(name.trim_end_matches(['d', 'w', 'b']), "r", 16)?;
        (number >= 8).then_some(Reg(number))
    };
    let low = |name: &str| {
        let name = name.strip_suffix('l')?;
        let letter = name.strip_suffix(['a', 'c', 'd', 'b']).filter(|rest| rest.is_empty()).map(|_| name);
        let found =
            NAMED.iter().find(|(known, _)| letter.is_some_and(|letter| known.starts_with(letter) && known.ends_with('x')));
        found.map(|(_, register)| *register).or_else(|| named(name))
    };
    let high = |name: &str| {
        let letter = name.strip_suffix('h').filter(|letter| letter.len() == 1)?;
        let found = NAMED.iter().find(|(known, _)| known.starts_with(letter) && known.ends_with('x'))?;
        Some(Part { register: found.1, shift: 8 })
    };
    whole(name).or_else(|| named(name)).or_else(|| extended(name)).or_else(|| low(name)).map(Part::lowest).or_else(|| high(name))
}

/// The registers of a repeated string instruction.
pub fn progress(_: &Insn) -> Progress {
    Progress::by(&[CX, SI, DI])
}

/// Skips `endbr64`, or the no-op that replaced it, at a function's start.
pub fn entry_64(beginning: &Beginning<'_>, asked: u64, _: Policy) -> Option<u64> {
    behind_landing_pad(beginning.bytes, asked, [0xf3, 0x0f, 0x1e, 0xfa])
}

/// Skips `endbr32`, or the no-op that replaced it, at a function's start.
pub fn entry_32(beginning: &Beginning<'_>, asked: u64, _: Policy) -> Option<u64> {
    behind_landing_pad(beginning.bytes, asked, [0xf3, 0x0f, 0x1e, 0xfb])
}

fn behind_landing_pad(first: &[u8], asked: u64, endbr: [u8; 4]) -> Option<u64> {
    /// The no-op that the kernel writes over an `endbr` that is not a branch target.
    const POISONED: [u8; 4] = [0x66, 0x0f, 0x1f, 0x00];
    let entry = if first.starts_with(&endbr) || first.starts_with(&POISONED) { 4 } else { 0 };
    (asked == 0 || asked == entry).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use alloc::vec::Vec;

    /// DV-4: `%REG` names are those of the kernel's own table, in its order.
    #[test]
    fn every_register_of_the_kernels_table_has_its_name() {
        let cases = [
            (&X86_64, "r15 r14 r13 r12 r11 r10 r9 r8 bx cx dx si di bp ax orig_ax ip cs flags sp ss"),
            (&I386, "bx cx dx si di bp ax ds es fs gs orig_ax ip cs flags sp ss"),
        ];
        for (abi, expected) in cases {
            let names: Vec<&str> = abi.names.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.join(" "), expected);
            assert_eq!(abi.register("flags"), Some(FLAGS));
            assert_eq!(abi.register("eax"), None);
        }
    }

    /// RP-1: a return probe at a function with a landing pad stands behind the pad.
    #[test]
    fn entries_are_behind_landing_pads() {
        #[rustfmt::skip]
        let cases: [(&str, &[u8], u64, u64); 6] = [
            // what the function starts with  its bytes                        64  32
            ("endbr64",                       &[0xf3, 0x0f, 0x1e, 0xfa, 0x55], 4,  0),
            ("endbr32",                       &[0xf3, 0x0f, 0x1e, 0xfb, 0x55], 0,  4),
            ("a poisoned endbr",              &[0x66, 0x0f, 0x1f, 0x00, 0x55], 4,  4),
            ("an ftrace nop",                 &[0x0f, 0x1f, 0x44, 0x00, 0x00], 0,  0),
            ("push",                          &[0x55],                         0,  0),
            ("nothing that can be read",      &[],                             0,  0),
        ];
        for (what, bytes, in_64, in_32) in cases {
            let beginning = Beginning { bytes, is_ftrace: &|_| false };
            for (entry, expected) in [(entry_64 as Entry, in_64), (entry_32, in_32)] {
                let found = |asked| entry(&beginning, asked, Policy::Best);
                assert_eq!((found(0), found(expected)), (Some(expected), Some(expected)), "{what}");
                assert_eq!([1, 2, 3, 5].map(found), [None; 4], "{what}");
            }
        }
    }
}
