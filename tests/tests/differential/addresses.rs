//! Tests of addresses with wrong upper bits: non-canonical addresses on x86-64 and arm64, and tagged ones on arm64. An
//! emulator that ignored these bits would access memory where a CPU faults.

use super::{Labs, difference};
use std::sync::atomic::{AtomicU64, Ordering};
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, DATA, How, STACK, bench, place};

/// Upper bits that make a mapped address of the bench invalid. The bits that index the page tables stay the same.
const ALIASES: &[(Arch, u64)] =
    &[(Arch::X86_64, 1 << 48), (Arch::X86_64, 1 << 63), (Arch::Arm64, 1 << 57), (Arch::Arm64, 1 << 52)];

fn aliases() -> impl Iterator<Item = (Arch, u64)> {
    ALIASES.iter().map(|(arch, bits)| (*arch, *bits))
}

/// KP-2, KP-9: jumps, calls and loads by registers fault at such addresses.
fn an_address_between_the_halves_faults_out_of_line_as_in_place() {
    #[rustfmt::skip]
    const CASES: &[(&str, Arch, &[u8])] = &[
        ("jmp *(%rbx)",      Arch::X86_64, &[0xff, 0x23]),
        ("jmp *%rbx",        Arch::X86_64, &[0xff, 0xe3]),
        ("call *(%rbx)",     Arch::X86_64, &[0xff, 0x13]),
        ("call *%rbx",       Arch::X86_64, &[0xff, 0xd3]),
        ("jmp *8(,%rsi,1)",  Arch::X86_64, &[0xff, 0x24, 0x35, 8, 0, 0, 0]),
        ("mov (%rbx),%rax",  Arch::X86_64, &[0x48, 0x8b, 0x03]),
        ("br x7",            Arch::Arm64,  &0xd61f_00e0_u32.to_le_bytes()),
        ("blr x30",          Arch::Arm64,  &0xd63f_03c0_u32.to_le_bytes()),
        ("ret x3",           Arch::Arm64,  &0xd65f_0060_u32.to_le_bytes()),
        ("ldr x2, [x2]",     Arch::Arm64,  &0xf940_0042_u32.to_le_bytes()),
    ];
    for (arch, bits) in aliases() {
        let mut labs = Labs::new(arch);
        for (what, _, bytes) in CASES.iter().filter(|(_, of, _)| *of == arch) {
            // The last target is in the lower half, where arm64 has tags; a branch drops the tag.
            for target in [bench(arch).seen_from + DATA, place(arch), 0x4020_0000] {
                let case = Before { bytes: bytes.to_vec(), registers: vec![target ^ bits; 32], seed: 7, ..Before::default() };
                let before = labs.compared;
                labs.compare(&case).unwrap_or_else(|why| panic!("{what} at {:#x}: {why}", target ^ bits));
                assert_eq!(labs.compared, before + 1, "{what} was refused");
            }
        }
    }
}

/// KP-2, KP-9: instructions that push or pop fault if the stack pointer is such an address.
fn a_stack_between_the_halves_faults_out_of_line_as_in_place() {
    let cases: &[(&str, &[u8])] =
        &[("ret", &[0xc3]), ("call", &[0xe8, 0, 0, 0, 0]), ("pushf", &[0x9c]), ("popf", &[0x9d]), ("push %rax", &[0x50])];
    for (what, bytes) in cases {
        let case = Before { bytes: bytes.to_vec(), seed: 3, ..Before::default() };
        let [mut in_place, mut probed, mut stepped, _] = Labs::fresh(Arch::X86_64);
        for lab in [&mut in_place, &mut probed, &mut stepped] {
            lab.stack = STACK | 1 << 48;
        }
        let expected = in_place.run(&case, How::InPlace).expect("it runs");
        for (lab, how) in [(&mut probed, How::Probed), (&mut stepped, How::Stepped)] {
            let after = lab.run(&case, how).expect("it may be probed");
            assert!(after == expected, "{what}, {how:?}: {}", difference(&expected, &after));
        }
    }
}

/// KP-2: a handler cannot read such an address either.
fn a_handler_reads_nothing_between_the_halves() {
    static READ: AtomicU64 = AtomicU64::new(0);
    for (arch, bits) in aliases() {
        let [_, mut lab, ..] = Labs::fresh(arch);
        let nop = if arch == Arch::X86_64 { vec![0x90] } else { 0xd503_201f_u32.to_le_bytes().to_vec() };
        for (way, expected) in [(0, 1), (bits, 2)] {
            let first = (bench(arch).seen_from + DATA) ^ way;
            lab.pre = |hit| {
                let first = hit.reg("x5").or(hit.reg("bx")).unwrap_or_default();
                READ.store(if hit.read_word(first).is_ok() { 1 } else { 2 }, Ordering::Relaxed);
            };
            let case = Before { bytes: nop.clone(), registers: vec![first; 32], seed: 5, ..Before::default() };
            lab.run(&case, How::Probed).expect("it may be probed");
            assert_eq!(READ.load(Ordering::Relaxed), expected, "{} {first:#x}", arch.name());
        }
    }
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        an_address_between_the_halves_faults_out_of_line_as_in_place,
        a_stack_between_the_halves_faults_out_of_line_as_in_place,
        a_handler_reads_nothing_between_the_halves,
    ]
}
