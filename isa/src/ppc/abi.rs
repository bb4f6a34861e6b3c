//! The calling conventions (SysV, ELFv1, ELFv2) as Linux uses them, and the numbers and names of registers.

use super::Set;
use crate::abi::{Abi, ReturnAddress};
use crate::entry::{Beginning, Pointers};
use crate::operand::{Assembler, Part, numbered};
use crate::plan::Policy;
use crate::regs::Reg;

/// The stack pointer. General registers have the hardware's numbers.
pub const SP: Reg = Reg(1);
/// r2: the table of contents (TOC) in 64-bit code, the running task in 32-bit kernels.
pub const TOC: Reg = Reg(2);
/// The pc as a named register; equals [`crate::regs::Registers::pc`].
pub const NIP: Reg = Reg(32);
/// The machine state register.
pub const MSR: Reg = Reg(33);
/// The count register, for loops and indirect jumps.
pub const CTR: Reg = Reg(34);
/// The link register. At a function's entry it holds the return address.
pub const LR: Reg = Reg(35);
/// XER: carry and overflow.
pub const XER: Reg = Reg(36);
/// The condition register: eight fields of four bits, field 0 highest.
pub const CR: Reg = Reg(37);
/// `softe` of `pt_regs`: Linux's soft interrupt mask. On 32 bits the slot is named after MQ, which no current CPU has.
pub const SOFTE: Reg = Reg(38);
/// The exception number, in `pt_regs` only.
pub const TRAP: Reg = Reg(39);
/// The address of the last access that faulted.
pub const DAR: Reg = Reg(40);
/// The reason for that fault.
pub const DSISR: Reg = Reg(41);
/// The target of `bctar`. Not in `pt_regs`.
pub const TAR: Reg = Reg(42);
/// The address of the last branch that was taken, on 64-bit CPUs. Not in `pt_regs`.
pub const CFAR: Reg = Reg(43);
/// The first of 128 halves of vector and floating-point registers, two for each of vs0 to vs63. Not in `pt_regs`.
pub const VECTORS: Reg = Reg(64);

/// The general register of that number.
pub const fn r(number: u8) -> Reg {
    Reg(number & 31)
}

/// 32-bit SysV. A 64-bit argument uses a pair of registers with an odd first number.
pub static SYSV: Abi = Abi {
    second_result: Some(r(4)),
    stack_arguments: 8,
    link_slot: Some(4),
    aligned_pairs: true,
    splits_pairs: false,
    pointers: Pointers::Code(None),
    names: &NAMES_32,
    stack_size: 8192,
    ..ELF_V2_FACTS
};

/// ELFv1. The caller's frame has six doublewords of its own, then eight reserved for arguments in registers.
pub static ELF_V1: Abi = Abi { stack_arguments: 112, pointers: Pointers::Descriptor(&[TOC, r(11)]), ..ELF_V2_FACTS };

/// ELFv2.
pub static ELF_V2: Abi = ELF_V2_FACTS;

const ELF_V2_FACTS: Abi = Abi {
    sp: SP,
    result: r(3),
    arguments: &[r(3), r(4), r(5), r(6), r(7), r(8), r(9), r(10)],
    stack_arguments: 96,
    return_address: ReturnAddress::In(LR),
    link_slot: Some(16),
    // A function that is called through a pointer finds its own address in r12.
    pointers: Pointers::Code(Some(r(12))),
    names: &NAMES_64,
    dwarf: |number| match number {
        0..32 => Some(r(number as u8)),
        65 => Some(LR),
        66 => Some(CTR),
        _ => None,
    },
    // Stack arguments belong to the caller, and Linux's jprobes saved none (JP-1).
    jprobe_stack: 0,
    assembler: Assembler { constant: Some('i'), numbers_are_registers: true, zero: [Some(r(0)), None], register: named },
    ..Abi::USUAL
};

/// A register by its number, with or without an `r`.
fn named(name: &str) -> Option<Part> {
    numbered(name, "r", 32).or_else(|| numbered(name, "", 32)).map(|number| Part::lowest(r(number)))
}

static NAMES_64: [(&str, Reg); 42] = names("softe");
static NAMES_32: [(&str, Reg); 42] = names("mq");

/// The kernel's own names, in its order.
#[rustfmt::skip]
const fn names(softe: &'static str) -> [(&'static str, Reg); 42] {
    [
        ("gpr0", r(0)), ("gpr1", SP), ("gpr2", TOC), ("gpr3", r(3)), ("gpr4", r(4)), ("gpr5", r(5)), ("gpr6", r(6)), ("gpr7", r(7)),
        ("gpr8", r(8)), ("gpr9", r(9)), ("gpr10", r(10)), ("gpr11", r(11)), ("gpr12", r(12)), ("gpr13", r(13)), ("gpr14", r(14)),
        ("gpr15", r(15)), ("gpr16", r(16)), ("gpr17", r(17)), ("gpr18", r(18)), ("gpr19", r(19)), ("gpr20", r(20)), ("gpr21", r(21)),
        ("gpr22", r(22)), ("gpr23", r(23)), ("gpr24", r(24)), ("gpr25", r(25)), ("gpr26", r(26)), ("gpr27", r(27)), ("gpr28", r(28)),
        ("gpr29", r(29)), ("gpr30", r(30)), ("gpr31", r(31)), ("nip", NIP), ("msr", MSR), ("ctr", CTR), ("link", LR), ("xer", XER),
        ("ccr", CR), (softe, SOFTE), ("trap", TRAP), ("dar", DAR), ("dsisr", DSISR),
    ]
}

/// The largest offset behind a function's symbol that Linux 6.1 accepts as its entry. ftrace's call is at most that
/// far.
const LINUX_ENTRY: u64 = 16;

/// The entry of an ELFv2 function. It may begin with two instructions that compute the TOC from r12 or a constant.
/// Calls through pointers enter there, at the global entry; all other calls enter behind them, at the local entry. A
/// probe at either stands at the local entry, which both kinds of calls pass, and where the return address is still in
/// the link register. Linux 6.1 leaves a probe at the address that was given; for names see [`named_entry`].
pub fn local_entry(beginning: &Beginning<'_>, asked: u64, policy: Policy) -> Option<u64> {
    let entry = behind_toc(beginning);
    match policy {
        Policy::Best | Policy::Outside => (asked == 0 || asked == entry).then_some(entry),
        Policy::Linux(_) => (asked <= LINUX_ENTRY).then_some(asked),
    }
}

/// The place of a probe that names an ELFv2 function in Linux 6.1: ftrace's call if there is one, else the local entry.
pub fn named_entry(beginning: &Beginning<'_>) -> u64 {
    let ftrace = (0..=LINUX_ENTRY).step_by(super::LENGTH).find(|offset| (beginning.is_ftrace)(*offset));
    ftrace.unwrap_or_else(|| behind_toc(beginning))
}

/// Bytes of the two instructions that compute the TOC; 0 if the function does not begin with them.
fn behind_toc(beginning: &Beginning<'_>) -> u64 {
    let word = |from: usize| Set::Little64.word(beginning.bytes.get(from..from + 4).unwrap_or_default());
    let makes_toc = matches!(word(0) >> 16, 0x3c4c | 0x3c40) && word(4) >> 16 == 0x3842;
    if makes_toc { 8 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Isa;
    use alloc::vec::Vec;

    /// DV-4: the names are those of `regs_query_register_offset`, in its order.
    #[test]
    fn registers_have_linux_names() {
        for (abi, softe) in [(&SYSV, "mq"), (&ELF_V1, "softe"), (&ELF_V2, "softe")] {
            let names: Vec<&str> = abi.names.iter().map(|(name, _)| *name).collect();
            let general: Vec<_> = (0..32).map(|number| alloc::format!("gpr{number}")).collect();
            assert_eq!(names[..32], general);
            assert_eq!(names[32..], ["nip", "msr", "ctr", "link", "xer", "ccr", softe, "trap", "dar", "dsisr"]);
            assert!(abi.names.iter().enumerate().all(|(number, (_, reg))| usize::from(reg.0) == number));
        }
    }

    /// KP-4, RP-1: the global and the local entry of a function.
    #[test]
    fn the_local_entry_is_behind_the_toc_instructions() {
        #[rustfmt::skip]
        let cases: &[(&str, [u32; 2], u64)] = &[
            ("addis r2,r12; addi r2,r2",  [0x3c4c_0101, 0x3842_2660], 8),
            ("lis r2; addi r2,r2",        [0x3c40_c154, 0x3842_8000], 8),
            ("addis r3,r12; addi r2,r2",  [0x3c6c_0101, 0x3842_2660], 0),
            ("addis r2,r12; addi r3,r2",  [0x3c4c_0101, 0x3862_2660], 0),
            ("addis r2,r13; addi r2,r2",  [0x3c4d_0101, 0x3842_2660], 0),
            ("mflr r0; std r0,16(r1)",    [0x7c08_02a6, 0xf801_0010], 0),
        ];
        for (what, words, expected) in cases {
            let text = words.map(|word| Set::Little64.bytes(word)).concat();
            let entry = |bytes, asked, policy| local_entry(&Beginning { bytes, is_ftrace: &|_| false }, asked, policy);
            let best = [0, 4, 8, 12].map(|asked| entry(&text, asked, Policy::Best));
            let second = (*expected == 8).then_some(8);
            assert_eq!(best, [Some(*expected), None, second, None], "{what}");
            assert_eq!(entry(&text[..7], 0, Policy::Best), Some(0), "{what}, cut");
            let linux = [0, 4, 8, 16, 20].map(|asked| entry(&text, asked, Policy::LINUX_6_1));
            assert_eq!(linux, [Some(0), Some(4), Some(8), Some(16), None], "{what}");
        }
        let plain = |isa: &Isa| (isa.entry)(&Beginning { bytes: &[], is_ftrace: &|_| false }, 8, Policy::LINUX_6_1);
        assert_eq!([&crate::ppc::PPC, &crate::ppc::PPC64].map(plain), [None, None], "their functions have one entry");
    }

    /// KP-4: in Linux, a name means ftrace's call or the local entry. Addresses and offsets are used as given.
    #[test]
    fn linux_places_named_probes_at_ftrace_or_the_local_entry() {
        let toc = [0x3c4c_0101, 0x3842_2660, 0x7c08_02a6, 0x6000_0000];
        let plain = [0x7c08_02a6, 0x6000_0000, 0xf801_0010, 0x6000_0000];
        for (words, ftrace, expected) in [
            (toc, None, 8),
            (toc, Some(12), 12),
            (plain, None, 0),
            (plain, Some(4), 4),
            (plain, Some(16), 16),
            (plain, Some(20), 0),
        ] {
            let bytes = &words.map(|word| Set::Little64.bytes(word)).concat();
            let named = |isa: &Isa| (isa.linux.named_entry)(&Beginning { bytes, is_ftrace: &|at| Some(at) == ftrace });
            assert_eq!(named(&crate::ppc::PPC64LE), expected, "{ftrace:?}");
            assert_eq!([&crate::ppc::PPC, &crate::ppc::PPC64].map(named), [0, 0], "their functions have one entry");
        }
        // Linux can use ftrace on 32-bit and ELFv2 kernels, where ftrace saves all registers.
        let carries = |isa: &Isa| isa.linux.ftrace_carries;
        let kernels = [&crate::ppc::PPC, &crate::ppc::PPC64, &crate::ppc::PPC64LE];
        assert_eq!(kernels.map(carries), [true, false, true]);
    }

    /// DV-4: stack arguments start behind the frame's header, and in ELFv1 also behind the space reserved for register
    /// arguments.
    #[test]
    fn stack_arguments_are_behind_the_frame_header() {
        use crate::call::{Home, Type, argument};
        let ninth = |set: Set| argument(set.isa(), &[], 8).low;
        assert_eq!([Set::Big32, Set::Big64, Set::Little64].map(ninth), [8, 112, 96].map(Home::Stack));
        assert_eq!([0, 7].map(|number| argument(&crate::ppc::PPC64, &[], number).low), [3, 10].map(|reg| Home::Register(r(reg))));
        let pair = argument(&crate::ppc::PPC, &[Type::Word, Type::Unsigned(8)], 1);
        assert_eq!((pair.low, pair.high), (Home::Register(r(6)), Some(Home::Register(r(5)))), "r4 stays unused");
    }
}
