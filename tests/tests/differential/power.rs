//! PowerPC of 64 and 32 bits: every row of its tables, every branch with each outcome, accesses across a page end, and
//! the cases of the kernel's own tests of its emulation.

use super::{Labs, each_of, spread};
use trapline_harness::Test;
use trapline_isa::arch::Arch;
use trapline_isa::plan::Policy;
use trapline_isa::ppc::rules;
use trapline_tests::lab::{Before, DATA, DATA_BYTES, How, Lab, bench, place};

const ALL: [Arch; 3] = [Arch::Ppc64le, Arch::Ppc64, Arch::Ppc];

/// Indexes of registers in a case: the general registers except the stack pointer come first, then these.
const CTR: usize = 31;
const LINK: usize = 32;
const XER: usize = 33;
const CR: usize = 34;

/// The index of a general register in a case.
fn gpr(number: usize) -> usize {
    if number == 0 { 0 } else { number - 1 }
}

fn seen(arch: Arch, at: u64) -> u64 {
    bench(arch).seen_from + at
}

fn bytes(arch: Arch, word: u32) -> Vec<u8> {
    arch.isa().order.word_bytes(word).to_vec()
}

fn case(arch: Arch, word: u32, seed: u64) -> Before {
    let registers = (0..35).map(|register| spread(arch, seed, register)).collect();
    Before { bytes: bytes(arch, word), registers, flags: spread(arch, seed, 99), seed, ..Before::default() }
}

/// Collects failures and reports them together.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn compare(&mut self, labs: &mut Labs, what: &str, case: &Before) {
        if let Err(why) = labs.compare(case) {
            self.0.push(format!("{what}: {why}"));
        }
    }

    fn end(self) {
        assert!(self.0.is_empty(), "{} went wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// The number of cases for each row.
fn each() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(8, |cases| cases.div_ceil(160))
}

/// KP-2, KP-6, OP-4
fn every_row_of_the_power_tables_does_the_same_out_of_line_as_in_place(arch: Arch) {
    let isa = arch.isa();
    let (mut labs, mut wrong, mut met) = (Labs::new(arch), Wrong::default(), 0);
    for (number, (mask, value)) in rules::rows().enumerate() {
        let mut count = 0;
        for turn in 0..each() {
            let seed = number as u64 * 7919 + turn * 104_729 + 1;
            let word = |salt: u64| {
                let random = spread(arch, seed, salt) as u32 ^ (seed as u32).rotate_left(salt as u32) ^ (salt as u32) << 17;
                value | random & !mask
            };
            let accepted = |word: &u32| {
                (isa.decode)(place(arch), &bytes(arch, *word)).is_ok_and(|insn| (isa.plan)(&insn, Policy::Best).is_ok())
            };
            let Some(word) = (0..40).map(word).find(accepted) else { continue };
            wrong.compare(&mut labs, &format!("row {mask:#010x} {value:#010x}"), &case(arch, word, seed));
            count += 1;
        }
        met += u32::from(count > 0);
    }
    println!("{met} rows, {} compared, {} by a jump, {} left out", labs.compared, labs.jumped, labs.refused);
    assert!(met > 25, "{met} rows");
    wrong.end();
}

/// KP-2: each branch with each condition, with counts that reach zero or not, and with the condition bit set and clear.
/// The target, the count and the link register are compared.
fn every_branch_with_each_outcome_does_the_same_out_of_line_as_in_place(arch: Arch) {
    const BIT: u32 = 9;
    // bc forward, bclr, bcctr, bctar.
    const KINDS: [u32; 4] = [0x4000_0020, 0x4c00_0020, 0x4c00_0420, 0x4c00_0460];
    let (mut labs, mut wrong) = (Labs::new(arch), Wrong::default());
    for (number, (kind, condition)) in
        KINDS.iter().flat_map(|kind| (0..32u32).map(move |condition| (kind, condition))).enumerate()
    {
        for outcome in 0..8u64 {
            let (links, is_set, count) =
                (outcome as u32 & 1, outcome & 2 != 0, [1, 2, 0, 1 << 32][(outcome / 2 + u64::from(condition)) as usize % 4]);
            let mut case = case(arch, kind | condition << 21 | BIT << 16 | links, number as u64 * 8 + outcome + 1);
            case.registers[CTR] = if *kind == KINDS[2] { place(arch) + 0x40 } else { count };
            case.registers[LINK] = place(arch) + 0x80;
            case.registers[CR] = if is_set { 1 << (31 - BIT) } else { !(1 << (31 - BIT)) & 0xffff_ffff };
            wrong.compare(&mut labs, &format!("{kind:#x}, condition {condition}, outcome {outcome}"), &case);
        }
    }
    println!("{} compared, {} left out", labs.compared, labs.refused);
    assert!(labs.compared > 800, "{} compared", labs.compared);
    wrong.end();
}

/// KP-9: loads and stores that extend beyond the end of mapped memory. They fault as in place and change no registers.
fn an_access_across_the_end_of_a_page_faults_out_of_line_as_in_place(arch: Arch) {
    #[rustfmt::skip]
    const ACCESSES: &[(&str, u32)] = &[
        ("lbz", 0x88a4_0000), ("lhz", 0xa0a4_0000), ("lwz", 0x80a4_0000), ("ld", 0xe8a4_0000), ("ldu", 0xe8a4_0001), ("lwzu", 0x84a4_0000),
        ("stb", 0x98a4_0000), ("sth", 0xb0a4_0000), ("stw", 0x90a4_0000), ("std", 0xf8a4_0000), ("stdu", 0xf8a4_0001), ("stwu", 0x94a4_0000),
        ("ldbrx", 0x7ca0_2428), ("stdbrx", 0x7ca0_2528), ("lfd", 0xc8a4_0000), ("stfd", 0xd8a4_0000), ("lfsu", 0xc4a4_0000),
        ("lxv", 0xf4a4_0001), ("stxv", 0xf4a4_0005), ("lxvd2x", 0x7ca0_2698), ("stxvw4x", 0x7ca0_2718), ("lvx", 0x7ca0_20ce), ("stvx", 0x7ca0_21ce),
        ("lxvl", 0x7ca4_3a1a), ("dcbz", 0x7c00_27ec), ("icbi", 0x7c00_27ac),
    ];
    let (mut labs, mut wrong) = (Labs::new(arch), Wrong::default());
    for (number, (what, word)) in ACCESSES.iter().enumerate() {
        for inside in [0, 1, 2, 3, 4, 7, 8, 12, 15, 16] {
            let mut case = case(arch, *word, number as u64 * 31 + inside + 1);
            case.flags = 0xff << 40;
            case.registers[gpr(4)] = seen(arch, DATA + DATA_BYTES) - inside;
            case.registers[gpr(7)] = 16 << 56;
            wrong.compare(&mut labs, &format!("{what}, {inside} bytes before the end"), &case);
        }
    }
    assert!(labs.compared > 200, "{} compared", labs.compared);
    wrong.end();
}

/// The cases of the kernel's tests of its emulation (test_emulate_step), under a probe: sums at both ends of their
/// range with carry and condition, 128-bit quotients, and stores in both byte orders.
fn what_the_kernel_asks_of_its_emulation_is_so_under_a_probe(arch: Arch) {
    const ENDS: [u64; 7] = [1 << 63, !0 >> 1, !0, 1, 0xffff_ffff_8000_0000, 0x7fff_ffff, 0xffff_ffff];
    let mut lab = Lab::new(arch);
    let mut run = |word: u32, set: &[(usize, u64)]| {
        let mut case = case(arch, word, 5);
        (case.flags, case.registers[XER], case.registers[CR]) = (0xff << 40, 0, 0);
        for (place, value) in set {
            case.registers[*place] = *value;
        }
        lab.run(&case, How::Probed).expect("it may be probed")
    };
    // r20, r21, r22
    let of = |word: u32| word | 20 << 21 | 21 << 16 | 22 << 11;
    for (one, other) in ENDS.iter().flat_map(|one| ENDS.iter().map(move |other| (*one, *other))) {
        let (sum, carry) = one.overflowing_add(other);
        let carry_32 = (one & 0xffff_ffff) + (other & 0xffff_ffff) > 0xffff_ffff;
        let compared = match (sum as i64).signum() {
            -1 => 8,
            0 => 2,
            _ => 4,
        } << 28;
        let overflow = (one as i64).overflowing_add(other as i64).1;
        let overflow_32 = (one as i32).overflowing_add(other as i32).1;
        let overflows = if overflow { 3 << 30 } else { 0 } | u64::from(overflow_32) << 19;
        let carries = u64::from(carry) << 29 | u64::from(carry_32) << 18;
        for (what, word, xer, cr) in [
            ("add", 0x7c00_0214, 0, 0),
            ("add.", 0x7c00_0215, 0, compared),
            ("addo.", 0x7c00_0615, overflows, compared | u64::from(overflow) << 28),
            ("addc", 0x7c00_0014, carries, 0),
            ("addc.", 0x7c00_0015, carries, compared),
        ] {
            let after = run(of(word), &[(gpr(21), one), (gpr(22), other)]);
            let found = ["gpr20", "xer", "ccr"].map(|name| after.register(name));
            assert_eq!(found, [sum, xer, cr].map(Some), "{what} of {one:#x} and {other:#x}");
        }
    }
    for (what, word, one, other, quotient) in [
        ("divde", 0x7c00_0352, 1u64, 4, 1 << 62),
        ("divde of what is negative", 0x7c00_0352, !0, 4, 3 << 62),
        ("divdeu", 0x7c00_0312, 1, 1 << 63, 2),
        ("divdeu of the largest", 0x7c00_0312, !0 - 1, !0, !0 - 1),
    ] {
        let after = run(of(word), &[(gpr(21), one), (gpr(22), other)]);
        assert_eq!(after.register("gpr20"), Some(quotient), "{what}");
    }
    // Each instruction stores r20 at r21 + r22.
    let at = seen(arch, DATA + 0x100);
    for (what, word, bytes) in
        [("stwx", 0x7c00_012e, 4), ("stdx", 0x7c00_012a, 8), ("stdbrx", 0x7c00_0528, 8), ("sthx", 0x7c00_032e, 2)]
    {
        let value = 0x0102_0304_0506_0708u64;
        let after = run(of(word), &[(gpr(20), value), (gpr(21), at - 16), (gpr(22), 16)]);
        let data = &after.memory.iter().find(|(place, _)| *place == DATA).expect("the data").1[0x100..0x100 + bytes];
        let mut expected = value.to_le_bytes()[..bytes].to_vec();
        if (arch == Arch::Ppc64le) == (word == 0x7c00_0528) {
            expected.reverse();
        }
        assert_eq!(data, expected, "{what}");
    }
}

/// The other cases of these tests: a value is loaded and stored elsewhere by each pair of instructions, of which one is
/// probed; and condition bits are moved to numbers.
fn what_is_loaded_or_stored_under_a_probe_is_what_was_there(arch: Arch) {
    #[rustfmt::skip]
    const PAIRS: &[(&str, u32, u32, usize)] = &[
        ("lbzx, stbx",       0x7c00_00ae, 0x7c00_01ae, 1),
        ("lhzx, sthx",       0x7c00_022e, 0x7c00_032e, 2),
        ("lhax, sthx",       0x7c00_02ae, 0x7c00_032e, 2),
        ("lwzx, stwx",       0x7c00_002e, 0x7c00_012e, 4),
        ("lwax, stwx",       0x7c00_02aa, 0x7c00_012e, 4),
        ("ldx, stdx",        0x7c00_002a, 0x7c00_012a, 8),
        ("lhbrx, sthbrx",    0x7c00_062c, 0x7c00_072c, 2),
        ("lwbrx, stwbrx",    0x7c00_042c, 0x7c00_052c, 4),
        ("ldbrx, stdbrx",    0x7c00_0428, 0x7c00_0528, 8),
        ("lwarx, stwcx.",    0x7c00_0028, 0x7c00_012d, 4),
        ("ldarx, stdcx.",    0x7c00_00a8, 0x7c00_01ad, 8),
        ("lfsx, stfsx",      0x7c00_042e, 0x7c00_052e, 4),
        ("lfdx, stfdx",      0x7c00_04ae, 0x7c00_05ae, 8),
        ("lvx, stvx",        0x7c00_00ce, 0x7c00_01ce, 16),
        ("lxvd2x, stxvd2x",  0x7c00_0699, 0x7c00_0799, 16),
        ("lxvw4x, stxvw4x",  0x7c00_0618, 0x7c00_0718, 16),
    ];
    const FROM: u64 = 0x100;
    const TO: u64 = 0x200;
    let [mut in_place, mut probed] = [(); 2].map(|()| Lab::new(arch));
    // 32-bit CPUs have no doublewords and no vectors.
    let has = |what: &str, size: usize| arch != Arch::Ppc || size <= 4 && what != "lwax, stwx" || what == "lfdx, stfdx";
    for (number, (what, load, store, size)) in PAIRS.iter().enumerate().filter(|(_, (what, .., size))| has(what, *size)) {
        let reserves = store & 1 != 0 && *size <= 8;
        // A store with reservation goes to the address of the load, without which it would fail.
        let to = if reserves { FROM } else { TO };
        let words = [load | 10 << 21 | 21 << 16 | 22 << 11, store | 10 << 21 | 23 << 16 | 22 << 11];
        let of = |case: Before| {
            let mut case = Before { flags: 0xff << 40, ..case };
            for (place, value) in [(21, seen(arch, DATA + FROM - 16)), (22, 16), (23, seen(arch, DATA + to - 16))] {
                case.registers[gpr(place)] = value;
            }
            case
        };
        let seed = 3 + number as u64;
        let loads = of(Before { rest: bytes(arch, words[1]), ..case(arch, words[0], seed) });
        let stores = of(Before { front: bytes(arch, words[0]), ..case(arch, words[1], seed) });
        for (which, case) in [("the load", loads), ("the store", stores)] {
            let expected = in_place.run(&case, How::InPlace).expect("it runs");
            for how in [How::Probed, How::Stepped] {
                // A trap between the two would make the store fail for ever.
                let ran = probed.run(&case, how);
                assert_eq!(ran.is_err(), reserves, "{} {what}, {which}, {how:?}: {:?}", arch.name(), ran.err());
                let Ok(after) = ran else { continue };
                assert!(after == expected, "{} {what}, {which}: {}", arch.name(), super::difference(&expected, &after));
                let data = &after.memory.iter().find(|(place, _)| *place == DATA).expect("the data").1;
                let [from, to] = [FROM, to].map(|at| &data[at as usize..][..*size]);
                assert_eq!(from, to, "{} {what}, {which}", arch.name());
            }
        }
    }
    if arch == Arch::Ppc {
        return; // It has no setb.
    }
    for (conditions, expected) in [(8u64, u64::MAX), (4, 1), (2, 0), (1, 0), (0, 0), (12, u64::MAX), (6, 1)] {
        for field in 0..8u32 {
            // setb r20, field
            let mut case = case(arch, 0x7c00_0100 | 20 << 21 | field << 18, 9);
            case.registers[CR] = conditions << (28 - 4 * field);
            let after = probed.run(&case, How::Probed).expect("it may be probed");
            assert_eq!(after.register("gpr20"), Some(expected), "{} {conditions} in {field}", arch.name());
        }
    }
}

/// The tests of this file, each for every PowerPC that has the instructions.
pub fn tests() -> Vec<Test> {
    let wide = each_of(
        &[Arch::Ppc64le, Arch::Ppc64],
        &[(
            "what_the_kernel_asks_of_its_emulation_is_so_under_a_probe",
            what_the_kernel_asks_of_its_emulation_is_so_under_a_probe,
        )],
    );
    let all = each_of(
        &ALL,
        &[
            (
                "every_row_of_the_power_tables_does_the_same_out_of_line_as_in_place",
                every_row_of_the_power_tables_does_the_same_out_of_line_as_in_place,
            ),
            (
                "every_branch_with_each_outcome_does_the_same_out_of_line_as_in_place",
                every_branch_with_each_outcome_does_the_same_out_of_line_as_in_place,
            ),
            (
                "an_access_across_the_end_of_a_page_faults_out_of_line_as_in_place",
                an_access_across_the_end_of_a_page_faults_out_of_line_as_in_place,
            ),
            (
                "what_is_loaded_or_stored_under_a_probe_is_what_was_there",
                what_is_loaded_or_stored_under_a_probe_is_what_was_there,
            ),
        ],
    );
    all.into_iter().chain(wide).collect()
}
