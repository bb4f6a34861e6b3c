//! z/Architecture: every opcode of its machines, every branch with each outcome, and accesses across a page end.

use super::{Labs, spread};
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_isa::plan::Policy;
use trapline_isa::s390::opcodes::{is_known, length};
use trapline_tests::lab::s390::of;
use trapline_tests::lab::{Before, DATA, DATA_BYTES, How, Lab, MEDIA, place};

const Z: Arch = Arch::S390x;

fn case(bytes: &[u8], seed: u64) -> Before {
    let registers = (0..15).map(|register| spread(Z, seed, register)).collect();
    Before { bytes: bytes.to_vec(), registers, flags: spread(Z, seed, 99), seed, ..Before::default() }
}

/// Collects failures and reports them together.
#[derive(Default)]
pub(crate) struct Wrong(Vec<String>);

impl Wrong {
    pub(crate) fn compare(&mut self, labs: &mut Labs, what: &str, case: &Before) {
        if let Err(why) = labs.compare(case) {
            self.0.push(format!("{what}: {why}"));
        }
    }

    pub(crate) fn end(self) {
        assert!(self.0.is_empty(), "{} went wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// The number of cases for each opcode.
fn each() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(4, |cases| cases.div_ceil(320))
}

/// KP-2, KP-6, KP-9, OP-4
fn every_operation_code_of_z_does_the_same_out_of_line_as_in_place() {
    let isa = Z.isa();
    let (mut labs, mut wrong, mut met) = (Labs::new(Z), Wrong::default(), 0);
    for code in (0..=u16::MAX).filter(|code| is_known(*code)) {
        let before = labs.compared;
        for turn in 0..each() {
            let seed = u64::from(code) * 7919 + turn * 104_729 + 1;
            let bytes = of(code, spread(Z, !seed, 98).to_le_bytes()[..6].try_into().expect("six"), turn % 2 == 0);
            let bytes = &bytes[..length(bytes[0])];
            if (isa.decode)(place(Z), bytes).is_ok_and(|insn| (isa.plan)(&insn, Policy::Best).is_ok()) {
                wrong.compare(&mut labs, &format!("{code:04x}"), &case(bytes, seed));
            }
        }
        met += u32::from(labs.compared > before);
    }
    println!("{met} codes, {} compared, {} by a jump, {} left out", labs.compared, labs.jumped, labs.refused);
    assert!(met > 900, "{met} codes");
    wrong.end();
}

/// KP-2: each branch with each condition, met and not met. The target, the count and the condition code are compared.
fn every_branch_of_z_with_each_outcome_does_the_same_out_of_line_as_in_place() {
    let (mut labs, mut wrong) = (Labs::new(Z), Wrong::default());
    // brc, brcl, bcr, bc: each mask with each condition code.
    for mask in 0..16u8 {
        let kinds: [&[u8]; 4] = [
            &[0xa7, mask << 4 | 4, 0, 0x20],
            &[0xc0, mask << 4 | 4, 0, 0, 0, 0x20],
            &[0x07, mask << 4 | 3],
            &[0x47, mask << 4, 0x30, 0x10],
        ];
        for (kind, condition) in kinds.iter().flat_map(|kind| (0..4).map(move |condition| (*kind, condition))) {
            let mut case = case(kind, u64::from(mask) + 1);
            (case.flags, case.registers[3]) = (condition, place(Z) + 0x80);
            wrong.compare(&mut labs, &format!("mask {mask}, condition {condition}"), &case);
        }
    }
    // For each compare-and-branch: each mask with less, equal and greater, signed and unsigned.
    const PAIRS: [(u64, u64); 6] = [(1, 2), (2, 2), (3, 2), (!0, 2), (1 << 31, 2), (1 << 32, 2)];
    for mask in (0..16u8).step_by(2) {
        let by_register = [0x64, 0x65, 0x76, 0x77].map(|code| [0xec, 0x34, 0, 0x20, mask << 4, code]);
        let by_number = [0x7c, 0x7d, 0x7e, 0x7f].map(|code| [0xec, 0x30 | mask, 0, 0x20, 2, code]);
        let to_register = [0xe4, 0xe5, 0xf6, 0xf7].map(|code| [0xec, 0x34, 0x50, 0x10, mask << 4, code]);
        let number_to_register = [0xfc, 0xfd, 0xfe, 0xff].map(|code| [0xec, 0x30 | mask, 0x50, 0x10, 2, code]);
        for bytes in [by_register, by_number, to_register, number_to_register].concat() {
            for (one, other) in PAIRS {
                let mut case = case(&bytes, u64::from(mask) + 1);
                (case.registers[3], case.registers[4], case.registers[5]) = (one, other, place(Z) + 0x70);
                wrong.compare(&mut labs, &format!("{bytes:02x?} of {one:#x} and {other:#x}"), &case);
            }
        }
    }
    // Counts, and sums with limits: bct, bctg, brct, brctg, brcth, bctr, bctgr; bxh, bxle and their like.
    #[rustfmt::skip]
    let counts: [&[u8]; 7] = [
        &[0x46, 0x30, 0x50, 0x10], &[0xe3, 0x30, 0x50, 0x10, 0, 0x46], &[0xa7, 0x36, 0, 0x20], &[0xa7, 0x37, 0, 0x20],
        &[0xcc, 0x36, 0, 0, 0, 0x20], &[0x06, 0x35], &[0xb9, 0x46, 0, 0x35],
    ];
    #[rustfmt::skip]
    let sums: [&[u8]; 8] = [
        &[0x86, 0x36, 0x50, 0x10], &[0x87, 0x36, 0x50, 0x10], &[0x84, 0x36, 0, 0x20], &[0x85, 0x37, 0, 0x20],
        &[0xeb, 0x36, 0x50, 0x10, 0, 0x44], &[0xeb, 0x37, 0x50, 0x10, 0, 0x45], &[0xec, 0x36, 0, 0x20, 0, 0x44],
        &[0xec, 0x37, 0, 0x20, 0, 0x45],
    ];
    for (number, bytes) in counts.iter().chain(&sums).enumerate() {
        for value in [0, 1, 2, 1 << 32, 1 << 31, !0, (1 << 32) + 1] {
            let mut case = case(bytes, number as u64 + 1);
            case.registers[3] = value;
            (case.registers[5], case.registers[6], case.registers[7]) = (place(Z) + 0x70, 1, 2);
            wrong.compare(&mut labs, &format!("{bytes:02x?} of {value:#x}"), &case);
        }
    }
    println!("{} compared, {} left out", labs.compared, labs.refused);
    assert!(labs.compared > 1000, "{} compared", labs.compared);
    wrong.end();
}

/// KP-9: accesses that extend beyond the end of mapped memory. Each faults as in place, with the same length and
/// address in the lowcore. An instruction that moves bytes before it faults has moved the same bytes.
fn an_access_of_z_across_the_end_of_a_page_faults_out_of_line_as_in_place() {
    #[rustfmt::skip]
    const ACCESSES: &[(&str, &[u8])] = &[
        ("ic", &[0x43, 0x30, 0x40, 0]), ("lh", &[0x48, 0x30, 0x40, 0]), ("l", &[0x58, 0x30, 0x40, 0]), ("lg", &[0xe3, 0x30, 0x40, 0, 0, 0x04]),
        ("stc", &[0x42, 0x30, 0x40, 0]), ("sth", &[0x40, 0x30, 0x40, 0]), ("st", &[0x50, 0x30, 0x40, 0]), ("stg", &[0xe3, 0x30, 0x40, 0, 0, 0x24]),
        ("lmg", &[0xeb, 0x35, 0x40, 0, 0, 0x04]), ("stmg", &[0xeb, 0x35, 0x40, 0, 0, 0x24]), ("lrvg", &[0xe3, 0x30, 0x40, 0, 0, 0x0f]),
        ("strvg", &[0xe3, 0x30, 0x40, 0, 0, 0x2f]), ("ag", &[0xe3, 0x30, 0x40, 0, 0, 0x08]), ("agsi", &[0xeb, 0x07, 0x40, 0, 0, 0x7a]),
        ("ni", &[0x94, 0x0f, 0x40, 0]), ("tm", &[0x91, 0x0f, 0x40, 0]), ("mvi", &[0x92, 0x55, 0x40, 0]), ("mvghi", &[0xe5, 0x48, 0x40, 0, 0, 5]),
        ("mvc to it", &[0xd2, 0x0f, 0x40, 0, 0x50, 0]), ("mvc from it", &[0xd2, 0x0f, 0x50, 0, 0x40, 0]), ("xc", &[0xd7, 0x0f, 0x40, 0, 0x50, 0]),
        ("clc", &[0xd5, 0x0f, 0x40, 0, 0x50, 0]), ("stcmh", &[0xeb, 0x3f, 0x40, 0, 0, 0x2c]), ("icm", &[0xbf, 0x3f, 0x40, 0]),
        ("laag", &[0xeb, 0x36, 0x40, 0, 0, 0xe8]), ("csg", &[0xeb, 0x36, 0x40, 0, 0, 0x30]), ("lpq", &[0xe3, 0x20, 0x40, 0, 0, 0x8f]),
        ("stpq", &[0xe3, 0x20, 0x40, 0, 0, 0x8e]), ("ld", &[0x68, 0x30, 0x40, 0]), ("std", &[0x60, 0x30, 0x40, 0]), ("stfpc", &[0xb2, 0x9c, 0x40, 0]),
        ("vl", &[0xe7, 0x30, 0x40, 0, 0, 0x06]), ("vst", &[0xe7, 0x30, 0x40, 0, 0, 0x0e]), ("vlm", &[0xe7, 0x03, 0x40, 0, 0, 0x36]),
        ("vstm", &[0xe7, 0x03, 0x40, 0, 0, 0x3e]), ("vll", &[0xe7, 0x37, 0x40, 0, 0, 0x37]), ("mvcl", &[0x0e, 0x48]), ("mvcl from it", &[0x0e, 0x84]),
        ("clcl", &[0x0f, 0x48]), ("mvcle", &[0xa8, 0x48, 0, 0]), ("srst", &[0xb2, 0x5e, 0, 0x84]), ("stck", &[0xb2, 0x05, 0x40, 0]),
        ("stcke", &[0xb2, 0x78, 0x40, 0]), ("stfle", &[0xb2, 0xb0, 0x40, 0]), ("stctg", &[0xeb, 0x01, 0x40, 0, 0, 0x25]), ("stap", &[0xb2, 0x12, 0x40, 0]),
    ];
    let (mut labs, mut wrong) = (Labs::new(Z), Wrong::default());
    for (number, (what, bytes)) in ACCESSES.iter().enumerate() {
        for inside in [0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 32] {
            let mut case = case(bytes, number as u64 * 31 + inside + 1);
            // r4 to r7 and r8 to r11 are addresses and lengths of what moves much.
            for (register, value) in [(4, DATA + DATA_BYTES - inside), (5, DATA + 0x40), (7, 24), (8, DATA + 0x80), (9, 24)] {
                case.registers[register] = value;
            }
            if matches!(bytes[0], 0x0e | 0x0f | 0xa8) {
                case.registers[5] = 24;
            }
            wrong.compare(&mut labs, &format!("{what}, {inside} bytes before the end"), &case);
        }
    }
    assert!(labs.compared > 450, "{} compared", labs.compared);
    wrong.end();
}

/// SQXBR, which trapline executes in place of Unicorn, in place and under a probe: the 128-bit root of 4, that of 2 to
/// the last bit, and that of -1, which sets the invalid flag in the FPC register.
fn the_long_root_is_right_in_place_and_under_a_probe() {
    // sqxbr %f0,%f4; in front of it ldgr %f4,%r4; ldgr %f6,%r6.
    const ROOT: [u8; 4] = [0xb3, 0x16, 0, 0x04];
    const LOADS: [u8; 8] = [0xb3, 0xc1, 0, 0x44, 0xb3, 0xc1, 0, 0x66];
    const INVALID: u8 = 0x80;
    #[rustfmt::skip]
    let cases = [
        ("4",  0x4001 << 48, Some((0x4000 << 48, 0))),
        ("2",  0x4000 << 48, Some((0x3fff_6a09_e667_f3bc, 0xc908_b2fb_1366_ea95))),
        ("-1", 0xbfff << 48, None),
    ];
    for (what, high, expected) in cases {
        for how in [How::InPlace, How::Probed, How::Stepped, How::Jumped] {
            let mut case = case(&ROOT, 5);
            (case.front, case.registers[4], case.registers[6]) = (LOADS.to_vec(), high, 0);
            let after = Lab::new(Z).run(&case, how).expect("it may be probed");
            let media = &after.memory.iter().find(|(at, _)| *at == MEDIA).expect("the registers").1;
            let word = |at: usize| u64::from_be_bytes(media[at..at + 8].try_into().expect("a word"));
            // %f0 and %f2, in front of each its half of a vector; what controls arithmetic.
            match expected {
                Some(root) => assert_eq!((word(0), word(32)), root, "{what}, {how:?}"),
                None => assert_eq!(media[497] & INVALID, INVALID, "{what}, {how:?}"),
            }
        }
    }
}

/// CKSM with its second operand in register pair 0, which trapline executes in place of Unicorn, in place and under a probe:
/// `cksm %r4,%r0`, by which Linux sums packets up.
fn a_checksum_by_register_0_is_right_in_place_and_under_a_probe() {
    for how in [How::InPlace, How::Probed, How::Stepped, How::Jumped] {
        let mut case = case(&[0xb2, 0x41, 0, 0x40], 5);
        case.memory = vec![(DATA, vec![1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 5, 6, 7])];
        (case.registers[0], case.registers[1], case.registers[4]) = (DATA, 11, 0xabcd_0000_0000_0005);
        let after = Lab::new(Z).run(&case, how).expect("it may be probed");
        // The sum of the words, with the carry added at its end.
        let expected = [("r0", DATA + 11), ("r1", 0), ("r4", 0xabcd_0000_0608_0a09)];
        for (name, value) in expected {
            assert_eq!(after.register(name), Some(value), "{name}, {how:?}");
        }
    }
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        every_operation_code_of_z_does_the_same_out_of_line_as_in_place,
        every_branch_of_z_with_each_outcome_does_the_same_out_of_line_as_in_place,
        an_access_of_z_across_the_end_of_a_page_faults_out_of_line_as_in_place,
        the_long_root_is_right_in_place_and_under_a_probe,
        a_checksum_by_register_0_is_right_in_place_and_under_a_probe,
    ]
}
