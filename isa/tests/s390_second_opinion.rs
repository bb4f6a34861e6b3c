//! Compares decoding, emulation and relocation of s390x with capstone, on random bytes.

mod bench;

use bench::state::{NoMemory, Toy};
use capstone::{Arch, Capstone, Endian, Mode};
use proptest::prelude::*;
use trapline_isa::arch::Emulation;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::ByteOrder;
use trapline_isa::plan::{Plan, Policy, Tail};
use trapline_isa::s390::emulate::{Computation, Target};
use trapline_isa::s390::{S390X, abi, opcodes, slot};

const HERE: u64 = 0x4_0010_0ff0;
const NEAR: u64 = HERE + 0x17f0;
const FAR: u64 = HERE + 0x4140_0000;

/// First bytes of branches and pc-relative instructions, and one for each other format.
const STARTS: &[u8] = &[
    0x05, 0x06, 0x07, 0x0a, 0x0d, 0x44, 0x45, 0x46, 0x47, 0x4d, 0x82, 0x84, 0x85, 0x86, 0x87, 0xa7, 0xb2, 0xb9, 0xc0, 0xc4, 0xc6,
    0xcc, 0xe3, 0xe5, 0xeb, 0xec, 0xed,
];

/// Random bytes. Two thirds of them start like branches or pc-relative instructions, which are rare otherwise.
fn texts() -> impl Strategy<Value = [u8; 6]> {
    let shaped = |bytes: [u8; 6], first: u8| [first, bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]];
    const LAST: &[u8] = &[
        0x44, 0x45, 0x46, 0x47, 0x64, 0x65, 0x71, 0x76, 0x77, 0x7c, 0x7d, 0x7e, 0x7f, 0xe4, 0xe5, 0xf6, 0xf7, 0xfc, 0xfd, 0xfe,
        0xff,
    ];
    let last = |bytes: [u8; 6], last: u8| [0xec, bytes[1], bytes[2], bytes[3], bytes[4], last];
    prop_oneof![
        any::<[u8; 6]>(),
        (any::<[u8; 6]>(), prop::sample::select(STARTS)).prop_map(move |(bytes, first)| shaped(bytes, first)),
        (any::<[u8; 6]>(), prop::sample::select(LAST)).prop_map(move |(bytes, byte)| last(bytes, byte)),
    ]
}

fn capstone() -> Capstone {
    Capstone::new_raw(Arch::SYSZ, Mode::Default, std::iter::empty(), Some(Endian::Big)).expect("capstone knows z/Architecture")
}

fn insn(bytes: &[u8], address: u64) -> Option<Insn> {
    (S390X.decode)(address, bytes).ok()
}

/// capstone's mnemonics of branches; the last ones are branch prediction hints.
const BRANCHES: &[&str] = &[
    "b", "j", "cgrj", "cgij", "crj", "cij", "clgrj", "clgij", "clrj", "clij", "cgrb", "cgib", "crb", "cib", "clgrb", "clgib",
    "clrb", "clib",
];
const HINTS: &[&str] = &["bprp", "bpp"];
/// Mnemonics that raise an exception or load the PSW.
const TRAPS: &[&str] = &["pr", "trap2", "trap4", "svc", "lpsw", "lpswe", "mc", "pc", "pt", "pti", "bakr", "bsg", "bsa", "rp"];

proptest! {
    #![proptest_config(bench::config("tests/s390_second_opinion.regressions"))]

    /// KP-2, KP-5: lengths and targets are capstone's, and what it decodes is decoded here.
    #[test]
    fn lengths_and_targets_are_capstones(bytes in texts()) {
        let Some(second) = bench::opinion(&capstone(), &bytes, HERE) else { return Ok(()) };
        let Some(insn) = insn(&bytes, HERE) else {
            prop_assert_eq!(bytes[0], 0, "{:02x?} {:?}", bytes, second);
            return Ok(());
        };
        prop_assert_eq!(insn.bytes().len(), second.length, "{:02x?} {:?}", bytes, second);
        prop_assert!(opcodes::is_known(opcodes::code(&bytes)), "{:02x?} {:?}", bytes, second);
        let is_branch = BRANCHES.iter().any(|start| second.name.starts_with(start)) && !HINTS.contains(&&*second.name);
        match insn.flow {
            Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => {
                prop_assert!(is_branch || second.name == "exrl", "{:02x?} {:?}", bytes, second);
                prop_assert_eq!(second.target, Some(target), "{:02x?} {:?}", bytes, second);
            }
            Flow::Trap => prop_assert!(TRAPS.contains(&&*second.name), "{:02x?} {:?}", bytes, second),
            Flow::Next => prop_assert!(!TRAPS.contains(&&*second.name), "{:02x?} {:?}", bytes, second),
            _ => prop_assert!(is_branch || matches!(&*second.name, "ex" | "tbegin" | "tbeginc"), "{:02x?} {:?}", bytes, second),
        }
    }

    /// KP-1: capstone sees the same mnemonic, operands and target in the copy.
    #[test]
    fn capstone_sees_the_same_instruction_in_a_copy(bytes in texts(), near in any::<bool>(), back in any::<bool>()) {
        let (at, tail) = (if near { NEAR } else { FAR }, if back { Tail::JumpBack } else { Tail::Breakpoint });
        let Some(original) = insn(&bytes, HERE) else { return Ok(()) };
        let length = original.bytes().len();
        let Ok(copy) = (S390X.copy)(&original, at, tail) else {
            let names = |bytes: &[u8]| slot::FAR.contains(&opcodes::code(bytes)) || original.flow.target().is_some();
            prop_assert!(names(original.bytes()), "{:02x?} is refused", bytes);
            return Ok(());
        };
        prop_assert_eq!((copy.displaced, copy.bytes().len()), (length, length + if back { 6 } else { 2 }));
        // A copy that cannot reach its target is an invalid operation code.
        let Some(moved) = insn(copy.bytes(), at) else {
            prop_assert!(original.flow.target().is_some() || bytes[0] == 0xc0, "{:02x?}", bytes);
            prop_assert!(!back && copy.bytes()[..length].iter().all(|byte| *byte == 0));
            return Ok(());
        };
        prop_assert_eq!(moved.flow, original.flow, "{:02x?} became {:02x?}", bytes, copy.bytes());
        let capstone = capstone();
        let (before, after) = (bench::opinion(&capstone, original.bytes(), HERE), bench::opinion(&capstone, &copy.bytes()[..length], at));
        // The target of a branch that is never taken, or of a branch hint, may differ.
        let is_nop = matches!(opcodes::code(&bytes), 0xc004 | 0xa704) && original.flow == Flow::Next;
        let is_hint = before.as_ref().is_some_and(|before| HINTS.contains(&&*before.name));
        prop_assert!(is_nop || is_hint || before == after, "{:02x?}: {:?} became {:?}", bytes, before, after);
        match tail {
            Tail::JumpBack => {
                let behind = insn(&copy.bytes()[length..], at + length as u64).expect("a jump");
                prop_assert_eq!(behind.flow, Flow::Jump(original.next()));
            }
            Tail::Breakpoint => prop_assert_eq!(&copy.bytes()[length..], &slot::PROBE),
        }
    }

    /// KP-1: nothing panics. Refusals have a rule; instructions with control flow are not copied; an emulation goes to
    /// its target or the next instruction.
    #[test]
    fn any_bytes_are_handled_without_a_panic(bytes in texts(), address in any::<u64>(), at in any::<u64>(), seed in any::<u64>()) {
        let Some(original) = insn(&bytes, address & !1) else { return Ok(()) };
        for policy in [Policy::Best, Policy::LINUX_6_1] {
            match (S390X.plan)(&original, policy) {
                Err(refusal) => prop_assert!(S390X.rule_of(&refusal).is_some(), "{refusal}"),
                Ok(Plan::Emulate(what)) => {
                    let regs: [u64; 18] = std::array::from_fn(|number| seed.rotate_left(3 * number as u32));
                    let mut cpu = Toy { regs, pc: original.address };
                    prop_assert!((S390X.emulate)(&what, &original, &mut cpu, &mut NoMemory(ByteOrder::Big)).is_ok());
                    let fixed = matches!(what, Emulation::S390(Computation::Branch(_, Target::Written) | Computation::Address(..)));
                    prop_assert!(!fixed || [Some(cpu.pc), None].contains(&original.flow.target()) || cpu.pc == original.next());
                    let changed = (0..18).filter(|number| cpu.regs[*number] != regs[*number]).count();
                    prop_assert!(changed <= 1 && cpu.regs[usize::from(abi::CC.0)] == regs[usize::from(abi::CC.0)]);
                }
                Ok(_) if policy == Policy::Best => prop_assert_eq!(original.flow, Flow::Next, "{:02x?}", bytes),
                Ok(_) => {}
            }
        }
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            let _ = (S390X.copy)(&original, at & !1, tail);
        }
    }
}

/// KP-1, KP-2: every operation code that capstone knows is known here. The others are newer, or for hypervisors.
#[test]
fn operation_codes_of_capstone_are_known() {
    let capstone = capstone();
    let (mut known, mut agreed) = (0, 0);
    for first in 1..=255_u8 {
        for rest in 0..=255_u8 {
            for bytes in [[first, rest, 0x10, 0x24, 0x00, 0x00], [first, 0x12, 0x30, 0x10, 0x00, rest]] {
                let ours = opcodes::is_known(opcodes::code(&bytes));
                known += usize::from(ours);
                let theirs = bench::opinion(&capstone, &bytes, HERE).is_some();
                assert!(ours || !theirs, "{bytes:02x?}");
                agreed += usize::from(ours && theirs);
            }
        }
    }
    assert!(agreed * 10 > known * 8, "{agreed} of {known}");
}
