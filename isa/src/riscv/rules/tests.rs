//! The rules, row by row, for both policies; and code with load-reserved and store-conditional.

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;
use alloc::vec::Vec;

const HERE: u64 = 0xffff_ffff_8020_0000;

/// The plan for an instruction, or the name of the rule that refuses it.
fn answer(set: Set, word: u32, policy: Policy) -> &'static str {
    let insn = decode(set, set.cut(HERE), &word.to_le_bytes()).expect("whole bytes");
    match plan(set, &insn, policy) {
        Ok(Plan::Emulate(_)) => "compute",
        Ok(Plan::Boost) => "boost",
        Ok(Plan::Step) => "step",
        Err(refusal) => set.isa().rule_of(&refusal).expect("every refusal is a named rule").name,
    }
}

fn check(cases: &[(&str, u32, &str, &str)]) {
    for set in Set::ALL {
        for (what, word, linux, best) in cases {
            for policy in [Policy::LINUX_6_12, Policy::LINUX_7_2] {
                assert_eq!(answer(set, *word, policy), *linux, "{what}, {policy:?}, {set:?}");
            }
            assert_eq!(answer(set, *word, Policy::Best), *best, "{what}, best, {set:?}");
        }
    }
}

/// KP-1, KP-2: instructions that use the pc.
#[test]
fn instructions_that_use_the_pc_are_emulated() {
    #[rustfmt::skip]
    check(&[
        // what                word         Linux      best
        ("c.j",                0xa009,      "compute", "compute"),
        ("c.jr t1",            0x8302,      "compute", "compute"),
        ("c.jr ra",            0x8082,      "compute", "compute"),
        ("c.jr of x0",         0x8002,      "step",    "undefined"),
        ("c.jalr a5",          0x9782,      "compute", "compute"),
        ("c.beqz a5",          0xc389,      "compute", "compute"),
        ("c.bnez s1",          0xf081,      "compute", "compute"),
        ("c.mv a0, a1",        0x852e,      "step",    "boost"),
        ("c.add a0, a1",       0x952e,      "step",    "boost"),
        ("j",                  0x0040_006f, "compute", "compute"),
        ("jal",                0x0010_00ef, "compute", "compute"),
        ("ret",                0x0000_8067, "compute", "compute"),
        ("jalr t0, -8(t1)",    0xff83_02e7, "compute", "compute"),
        ("jalr with funct3 1", 0x0000_9067, "step",    "undefined"),
        ("auipc t0, 1",        0x0000_1297, "compute", "compute"),
        ("beq",                0x7eb5_0fe3, "compute", "compute"),
        ("bgeu",               0x0094_70e3, "compute", "compute"),
        ("funct3 2",           0x0094_2463, "step",    "undefined"),
        ("funct3 3",           0x0094_3463, "step",    "undefined"),
        ("lui a0, 0x12345",    0x1234_5537, "step",    "boost"),
        ("j to its own end",   0x0020_006f, "compute", "branch-into-itself"),
        ("blt to its own end", 0x0039_4163, "compute", "branch-into-itself"),
        ("c.j to its end",     0xa009,      "compute", "compute"),
    ]);
    assert_eq!([Policy::LINUX_6_12, Policy::Best].map(|policy| answer(Set::Rv64, 0x2ffd, policy)), ["step", "boost"], "c.addiw");
    let call = [Policy::LINUX_6_12, Policy::LINUX_7_2, Policy::Best].map(|policy| answer(Set::Rv32, 0x2ffd, policy));
    assert_eq!(call, ["compressed-call", "compute", "compute"], "c.jal");
}

/// KP-1: system instructions.
#[test]
fn system_instructions_are_stepped_or_refused() {
    #[rustfmt::skip]
    check(&[
        // what                   word         Linux                 best
        ("c.ebreak",              0x9002,      "foreign-breakpoint", "foreign-breakpoint"),
        ("ebreak",                0x0010_0073, "foreign-breakpoint", "foreign-breakpoint"),
        ("ecall",                 0x0000_0073, "exception",          "exception"),
        ("uret",                  0x0020_0073, "exception-return",   "exception-return"),
        ("sret",                  0x1020_0073, "exception-return",   "exception-return"),
        ("mret",                  0x3020_0073, "exception-return",   "exception-return"),
        ("mnret",                 0x7020_0073, "exception-return",   "exception-return"),
        ("dret",                  0x7b20_0073, "exception-return",   "exception-return"),
        ("wfi",                   0x1050_0073, "system-instruction", "wait"),
        ("wrs.nto",               0x00d0_0073, "system-instruction", "wait"),
        ("wrs.sto",               0x01d0_0073, "system-instruction", "wait"),
        ("sfence.vma",            0x1200_0073, "system-instruction", "step"),
        ("sfence.vma a0, a1",     0x12b5_0073, "system-instruction", "step"),
        ("sfence.w.inval",        0x1800_0073, "system-instruction", "step"),
        ("sfence.inval.ir",       0x1810_0073, "system-instruction", "step"),
        ("sinval.vma a0, a1",     0x16b5_0073, "system-instruction", "step"),
        ("hfence.vvma a0, a1",    0x22b5_0073, "system-instruction", "step"),
        ("hfence.gvma a0, a1",    0x62b5_0073, "system-instruction", "step"),
        ("unknown, funct3 0",     0x7770_0073, "system-instruction", "undefined"),
        ("csrr a0, sstatus",      0x1000_2573, "system-instruction", "step"),
        ("csrrci s1, sstatus, 2", 0x1001_74f3, "system-instruction", "step"),
        ("csrs sstatus, a0",      0x1005_2073, "system-instruction", "step"),
        ("csrr a0, satp",         0x1800_2573, "system-instruction", "step"),
        ("csrw satp, a0",         0x1805_1073, "system-instruction", "system-state"),
        ("csrrw a0, satp, zero",  0x1800_1573, "system-instruction", "system-state"),
        ("csrr a0, sepc",         0x1410_2573, "system-instruction", "trap-state"),
        ("csrr a0, scause",       0x1420_2573, "system-instruction", "trap-state"),
        ("csrr a0, stval",        0x1430_2573, "system-instruction", "trap-state"),
        ("csrw stvec, a0",        0x1055_1073, "system-instruction", "step"),
        ("csrrw tp, sscratch",    0x1402_1273, "system-instruction", "step"),
        ("rdtime a0",             0xc010_2573, "system-instruction", "step"),
        ("hlv.w a0, (a1)",        0x6805_c573, "system-instruction", "step"),
    ]);
}

/// KP-1: memory, arithmetic, and what no CPU has.
#[test]
fn other_instructions_run_in_a_copy() {
    #[rustfmt::skip]
    check(&[
        // what                  word         Linux    best
        ("fence",                0x0ff0_000f, "fence", "boost"),
        ("fence.i",              0x0000_100f, "fence", "boost"),
        ("pause",                0x0100_000f, "fence", "boost"),
        ("cbo.zero (a0)",        0x0045_200f, "fence", "boost"),
        ("cbo.clean (a0)",       0x0015_200f, "fence", "boost"),
        ("lr.w a0, (a1)",        0x1005_a52f, "step",  "exclusive"),
        ("lr.d.aqrl a0, (a1)",   0x1605_b52f, "step",  "exclusive"),
        ("sc.w a0, a2, (a1)",    0x18c5_a52f, "step",  "exclusive"),
        ("sc.d.rl a0, a2, (a1)", 0x1ac5_b52f, "step",  "exclusive"),
        ("amoadd.d",             0x00c5_b52f, "step",  "boost"),
        ("amoswap.w.aqrl",       0x0ec5_a52f, "step",  "boost"),
        ("c.ldsp ra, 8(sp)",     0x60a2,      "step",  "boost"),
        ("ld a0, 8(a1)",         0x0085_b503, "step",  "boost"),
        ("fadd.d",               0x02c5_f553, "step",  "boost"),
        ("andn a0, a1, a2",      0x40c5_f533, "step",  "boost"),
        ("clz a0, a1",           0x6005_9513, "step",  "boost"),
        ("vsetvli a0, a1, e8",   0x0005_f557, "step",  "boost"),
        ("vle8.v v0, (a0)",      0x0205_0007, "step",  "boost"),
        ("zeros",                0x0000,      "step",  "undefined"),
        ("custom-0",             0x0000_000b, "step",  "unknown"),
        ("custom-1",             0x0000_002b, "step",  "unknown"),
        ("custom-2",             0x0000_005b, "step",  "unknown"),
        ("custom-3",             0x0000_007b, "step",  "unknown"),
        ("reserved",             0x0000_006b, "step",  "undefined"),
        ("48 bits",              0x0000_001f, "step",  "undefined"),
        ("64 bits",              0x0000_003f, "step",  "undefined"),
    ]);
}

/// KP-1: a trap between load-reserved and store-conditional makes the loop endless. Linux does not look.
#[test]
fn nothing_is_probed_between_load_reserved_and_store_conditional() {
    const HALVES: [&[u8]; 8] = [
        &[0x01, 0x00],             // +0: c.nop
        &[0x2f, 0xa5, 0x05, 0x14], // +2: lr.w.aq a0, (a1)
        &[0x63, 0x17, 0xc5, 0x00], // +6: bne a0, a2, +20
        &[0x85, 0x06],             // +10: c.addi a3, 1
        &[0x2f, 0xa7, 0xd5, 0x1a], // +12: sc.w.rl a4, a3, (a1)
        &[0x6d, 0xfb],             // +16: c.bnez a4, +2
        &[0x01, 0x00],             // +18: c.nop
        &[0x82, 0x80],             // +20: ret
    ];
    let bytes: Vec<u8> = HALVES.concat();
    let function = HERE..HERE + bytes.len() as u64;
    let mut text = PlainText { start: HERE, bytes, ..PlainText::default() };
    let mut may_stand = |offset: u64, policy: Policy| {
        let insn = decode(Set::Rv64, HERE + offset, &text.bytes[offset as usize..]).expect("whole bytes");
        check_context(Set::Rv64, &insn, policy, function.clone(), &mut text).is_ok()
    };
    let best = [0, 6, 10, 16, 18, 20].map(|offset| may_stand(offset, Policy::Best));
    assert_eq!(best, [true, false, false, true, true, true]);
    assert!([0, 2, 6, 10, 12, 16, 18, 20].into_iter().all(|offset| may_stand(offset, Policy::LINUX_6_12)));
}
