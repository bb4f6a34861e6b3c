//! Reads and writes, row by row, and the registers that are free in small functions.

use super::super::decode::decode;
use super::*;
use crate::region::PlainText;

const START: u64 = 0xffff_ffff_8020_0000;
const A0: u32 = 1 << 10;
const A1: u32 = 1 << 11;
const A2: u32 = 1 << 12;
const S1: u32 = 1 << 9;

fn of(set: Set, word: u32) -> Usage {
    usage_of(set, &decode(set, set.cut(START), &word.to_le_bytes()).expect("whole bytes"))
}

/// OP-3: every row of the tables.
#[test]
fn an_instruction_reads_and_writes_its_registers() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, u32, u32)] = &[
        ("auipc t0, 1",           0x0000_1297, NONE,         1 << 5),
        ("lui a0, 0x12345",       0x1234_5537, NONE,         A0),
        ("jal ra",                0x0010_00ef, NONE,         RA),
        ("j: x0 is no register",  0x0040_006f, NONE,         NONE),
        ("ld a0, 8(a1)",          0x0085_b503, A1,           A0),
        ("addi a0, a1, 1",        0x0015_8513, A1,           A0),
        ("addiw a0, a1, 1",       0x0015_851b, A1,           A0),
        ("jalr ra, 4(a1)",        0x0045_80e7, A1,           RA),
        ("amoadd.d a0, a2, (a1)", 0x00c5_b52f, A1 | A2,      A0),
        ("add a0, a1, a2",        0x00c5_8533, A1 | A2,      A0),
        ("addw a0, a1, a2",       0x00c5_853b, A1 | A2,      A0),
        ("sd a0, 8(a1)",          0x00a5_b423, A0 | A1,      NONE),
        ("beq a0, a1",            0x7eb5_0fe3, A0 | A1,      NONE),
        ("csrrc s1, sstatus, a0", 0x1005_34f3, A0,           S1),
        ("c.addi4spn a0, sp, 8",  0x0028,      SP,           A0),
        ("c.lw a0, 4(a1)",        0x41c8,      A1,           A0),
        ("c.sw a0, 4(a1)",        0xc1c8,      A0 | A1,      NONE),
        ("c.addi a0, 1",          0x0505,      A0,           A0),
        ("c.li a0, 1",            0x4505,      NONE,         A0),
        ("c.lui a0, 1",           0x6505,      NONE,         A0),
        ("c.addi16sp sp, -64",    0x7139,      SP,           SP),
        ("c.srli a0, 1",          0x8105,      A0 | S1,      A0),
        ("c.sub a0, a1",          0x8d0d,      A0 | A1,      A0),
        ("c.j",                   0xa009,      NONE,         NONE),
        ("c.beqz a0",             0xcd7d,      A0,           NONE),
        ("c.slli a0, 1",          0x0506,      A0,           A0),
        ("c.lwsp a0, 0(sp)",      0x4502,      SP,           A0),
        ("c.swsp a0, 0(sp)",      0xc02a,      SP | A0,      NONE),
        ("c.jr a0",               0x8502,      A0,           NONE),
        ("c.mv a0, a1",           0x852e,      A1,           A0),
        ("c.jalr a0",             0x9502,      A0,           RA),
        ("c.add a0, a1",          0x952e,      A0 | A1,      A0),
        ("c.ebreak",              0x9002,      ALL,          NONE),
        ("zeros",                 0x0000,      ALL,          NONE),
        ("c.mop: unknown here",   0x6081,      ALL,          NONE),
        ("ecall",                 0x0000_0073, ALL,          NONE),
        ("custom-0",              0x0000_000b, ALL,          NONE),
    ];
    for (what, word, reads, writes) in cases {
        for set in Set::ALL {
            assert_eq!(of(set, *word), usage(*reads, *writes), "{what}, {set:?}");
        }
    }
    // Floating point and vectors may read general registers and write none for certain.
    for word in [0x02c5_f553, 0x0205_0007, 0x0205_0027, 0x0ff0_000f, 0x0005_f557] {
        assert_eq!(of(Set::Rv64, word).writes, NONE, "{word:#x}");
    }
    // Encodings that depend on the width: c.ld and c.flw, c.ldsp and c.flwsp, c.addiw and c.jal.
    let both = |word: u32| Set::ALL.map(|set| (of(set, word).reads, of(set, word).writes));
    assert_eq!(both(0x6188), [(A1, NONE), (A1, A0)]);
    assert_eq!(both(0x6522), [(SP, NONE), (SP, A0)]);
    assert_eq!(both(0x2505), [(NONE, RA), (A0, A0)]);
}

/// The registers that are free at two offsets of a function.
fn free_at(pieces: &[&[u8]], at: [u64; 2], fixups: &[(u64, u64)]) -> Option<[u8; 2]> {
    let bytes = pieces.concat();
    let function = START..START + bytes.len() as u64;
    let mut text = PlainText { start: START, bytes, fixups: fixups.to_vec(), ..PlainText::default() };
    free(Set::Rv64, at.map(|offset| START + offset), &function, &mut text).map(|free| free.map(|reg| reg.0))
}

const NOPS: &[u8] = &[0x13, 0, 0, 0, 0x13, 0, 0, 0];
const RET: &[u8] = &[0x82, 0x80];
/// `c.add a0, t0`, `c.li t0, 1`, `c.mv t1, a0`
const READ_T0: &[u8] = &[0x16, 0x95];
const WRITE_T0: &[u8] = &[0x85, 0x42];
/// `c.bnez a0, .+4`, `c.ebreak`
const SKIP: &[u8] = &[0x11, 0xe1];
const BUG: &[u8] = &[0x02, 0x90];

/// OP-2, OP-3: a register is free if no path reads it before it is written.
#[test]
fn a_register_that_is_read_later_is_not_free() {
    let at = [0, 8];
    let (t0, t1) = (5, 6);
    let call: &[u8] = &[0xef, 0x00, 0x00, 0x10];
    let call_by_t0: &[u8] = &[0xef, 0x02, 0x00, 0x10];
    let leaves: &[u8] = &[0x6f, 0x00, 0x00, 0x10];
    assert_eq!(free_at(&[NOPS, RET], at, &[]), Some([t0, t0]), "an entry of Linux 6.12");
    assert_eq!(free_at(&[NOPS, READ_T0, RET], at, &[]), Some([t1, t1]));
    assert_eq!(free_at(&[NOPS, WRITE_T0, READ_T0, RET], at, &[]), Some([t0, t0]), "written first");
    assert_eq!(free_at(&[WRITE_T0, NOPS, READ_T0, RET], [0, 10], &[]), Some([t0, t1]), "written by the displaced code");
    assert_eq!(free_at(&[NOPS, SKIP, WRITE_T0, READ_T0, RET], at, &[]), Some([t1, t1]), "written on one of two paths");
    assert_eq!(free_at(&[NOPS, SKIP, BUG, RET], at, &[]), Some([t0, t0]), "a BUG reads nothing");
    assert_eq!(free_at(&[NOPS, call, READ_T0, RET], at, &[]), Some([t0, t0]), "a call overwrites it");
    assert_eq!(free_at(&[NOPS, call_by_t0, RET], at, &[]), Some([t0, t0]), "it is the link register");
    assert_eq!(free_at(&[NOPS, call_by_t0, READ_T0, RET], at, &[]), Some([t0, t0]), "what else such a call reads is not known");
    assert_eq!(free_at(&[NOPS, leaves], at, &[]), None, "what another part of the function reads is not known");
    let fixup = [(START + 8, START + 10)];
    assert_eq!(free_at(&[NOPS, RET, RET], at, &fixup), None, "what reads a fixup is not known");
    assert_eq!(free_at(&[NOPS, RET, &[0x13]], at, &[]), None, "the function ends inside an instruction");
}

/// OP-2: a loop reads what it has written in its previous round.
#[test]
fn a_register_of_a_loop_is_not_free() {
    // c.add a0, t0; c.li t0, 1; c.bnez a0, .-4
    let body: &[u8] = &[0x16, 0x95, 0x85, 0x42, 0x75, 0xfd];
    assert_eq!(free_at(&[NOPS, body, RET], [8, 10], &[]), Some([6, 5]), "before the read, and before the write");
    assert_eq!(free_at(&[NOPS, body, RET], [12, 14], &[]), Some([6, 5]), "before the branch back, and behind the loop");
}
