//! MIPS in all four instruction sets: every opcode, alone and in a delay slot; every branch, taken and not taken, with
//! every kind of instruction in its delay slot; and accesses at the ends of TLB pages.

use super::{Labs, each_of, spread};
use trapline_harness::Test;
use trapline_isa::arch::Arch;
use trapline_isa::plan::Policy;
use trapline_tests::lab::mips::{MAPPED, bytes, codes, place_of, set, with_slot};
use trapline_tests::lab::{Before, DATA_BYTES, bench, place};

const SETS: [Arch; 4] = [Arch::Mipsel, Arch::Mips, Arch::Mips64el, Arch::Mips64];

fn gpr(number: usize) -> usize {
    place_of(number).expect("a case sets it")
}

fn case(arch: Arch, bytes: Vec<u8>, seed: u64) -> Before {
    let mut registers: Vec<u64> = (0..32).map(|register| spread(arch, seed, register)).collect();
    for (number, register) in registers.iter_mut().enumerate().skip(3).step_by(4) {
        *register = bench(arch).seen_from + MAPPED + spread(arch, !seed, number as u64) % (2 * DATA_BYTES);
    }
    Before { bytes, registers, flags: spread(arch, seed, 99), seed, ..Before::default() }
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

/// The number of cases for each opcode.
fn each() -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u64>().ok()).map_or(2, |cases| cases.div_ceil(640))
}

/// KP-2, KP-6, KP-9, OP-4: every opcode. Half of the cases are in a delay slot, if they may be.
fn every_code_of_mips_does_the_same_out_of_line_as_in_place(arch: Arch) {
    /// b, bal, bnezl v0, jalr v0.
    const BRANCHES: [u32; 4] = [0x1000_0010, 0x0411_0010, 0x5440_0010, 0x0040_f809];
    let mut wrong = Wrong::default();
    let isa = arch.isa();
    let accepted = |bytes: &[u8]| (isa.decode)(place(arch), bytes).is_ok_and(|insn| (isa.plan)(&insn, Policy::Best).is_ok());
    let (mut labs, mut met) = (Labs::new(arch), 0);
    let codes = codes();
    for (number, (mask, value)) in codes.iter().enumerate() {
        let before = labs.compared;
        for turn in 0..2 * each() {
            let seed = number as u64 * 7919 + turn * 104_729 + 1;
            let word = value | spread(arch, !seed, 98).wrapping_mul(0x9e37_79b9_7f4a_7c15) as u32 & !mask;
            let branch = BRANCHES[(seed % 4) as usize];
            let bytes = if turn % 2 == 0 { with_slot(arch, word, 0x2442_0001) } else { with_slot(arch, branch, word) };
            if accepted(&bytes) {
                wrong.compare(&mut labs, &format!("{} {word:08x}, turn {turn}", arch.name()), &case(arch, bytes, seed));
            }
        }
        met += u32::from(labs.compared > before);
    }
    println!(
        "{}: {met} of {} codes, {} compared, {} by a jump, {} left out",
        arch.name(),
        codes.len(),
        labs.compared,
        labs.jumped,
        labs.refused
    );
    assert!(met > 700, "{met} codes");
    wrong.end();
}

/// Branches that depend on v0 and v1, or jump to the address in t9.
#[rustfmt::skip]
const BRANCHES: &[(&str, u32)] = &[
    ("beq",     0x1043_0010), ("bne",     0x1443_0010), ("blez",    0x1840_0010), ("bgtz",    0x1c40_0010), ("bltz",    0x0440_0010),
    ("bgez",    0x0441_0010), ("bltzal",  0x0450_0010), ("bgezal",  0x0451_0010), ("beql",    0x5043_0010), ("bnel",    0x5443_0010),
    ("blezl",   0x5840_0010), ("bgtzl",   0x5c40_0010), ("bltzl",   0x0442_0010), ("bgezl",   0x0443_0010), ("bltzall", 0x0452_0010),
    ("bgezall", 0x0453_0010), ("bal",     0x0411_0010), ("j",       0x0808_0050), ("jal",     0x0c08_0050), ("jr",      0x0320_0008),
    ("jalr",    0x0320_f809), ("jalr a0", 0x0320_2009), ("jr.hb",   0x0320_0408),
];

/// Instructions for a delay slot. a2 holds an address that the TLB maps, a3 one that it does not.
#[rustfmt::skip]
const SLOTS: &[(&str, u32)] = &[
    ("nothing",                            0x0000_0000), ("what the branch has looked at",   0x2442_0003), ("where it leads",          0x2739_0040),
    ("ra is read",                         0x03e0_2825), ("ra is written",                   0x27ff_0008), ("a load",                  0x8cc5_0008),
    ("a store",                            0xacc5_0008), ("a doubleword",                    0xdcc5_0008), ("a load that is missed",   0x8ce5_0000),
    ("a store that is missed",             0xace5_0004), ("a load into ra that is missed",   0x8cff_0000), ("one that is not aligned", 0x8cc5_0002),
    ("a store that is not aligned",        0xacc5_0001), ("a sum that overflows",            0x0108_2820), ("a trap that is sprung",   0x0000_0034),
    ("a trap that is not",                 0x0000_0036), ("no instruction of any CPU",       0x7000_003e), ("a product",               0x0043_0018),
    ("a quotient",                         0x0043_001a), ("hi",                              0x0000_2810), ("floating point",          0x4604_1080),
    ("a load of floating point",           0xc4c2_0004), ("a store of it that is missed",    0xe4e2_0004), ("the clock",               0x4005_4800),
    ("status",                             0x4005_6000), ("the entry of the TLB",            0x4200_0001), ("two halves",              0x88c5_0002),
    ("what is not there to be written",    0xacc5_2008), ("a byte of a page that is not there", 0x80c5_3000), ("movz",                 0x00c3_280a),
];

/// KP-1, KP-2, KP-9: each branch, taken and not taken, with each instruction in its delay slot, with and without
/// floating point. A fault in the slot is reported at the branch. The comparison includes the pc and the delay slot
/// bit.
fn every_branch_of_mips_with_everything_in_its_slot_does_the_same_out_of_line_as_in_place(arch: Arch) {
    const PAIRS: [(u64, u64); 4] = [(0, 1), (1, 1), (u64::MAX, 1), (1 << 40 | 1, 1)];
    let mut wrong = Wrong::default();
    let mut labs = Labs::new(arch);
    for (number, ((what, branch), (filled, slot))) in
        BRANCHES.iter().flat_map(|branch| SLOTS.iter().map(move |slot| (branch, slot))).enumerate()
    {
        for (turn, (v0, v1)) in PAIRS.into_iter().enumerate() {
            let mut case = case(arch, bytes(arch, &[*branch, *slot]), (number * 4 + turn) as u64 + 1);
            let seen = bench(arch).seen_from;
            for (register, value) in [
                (2, v0),
                (3, v1),
                (6, seen + MAPPED + 0x40),
                (7, seen + MAPPED + 0x10_0000),
                (8, 0x7000_0000),
                (25, place(arch) + 0x80),
            ] {
                case.registers[gpr(register)] = value;
            }
            wrong.compare(&mut labs, &format!("{} {what}, {filled}, {v0:#x}", arch.name()), &case);
        }
    }
    println!("{}: {} compared, {} left out", arch.name(), labs.compared, labs.refused);
    assert!(labs.compared > 2600, "{} compared", labs.compared);
    wrong.end();
}

/// KP-9: loads and stores around the ends of a writable, a read-only and an unmapped page.
fn an_access_of_mips_at_the_end_of_a_page_faults_out_of_line_as_in_place(arch: Arch) {
    // lb to lwr, sb to swr, ld, sd, ldl, ldr, sdl, sdr, those of floating point, pref, cache.
    let ops = (0x20..0x30).chain([0x37, 0x3f, 0x1a, 0x1b, 0x31, 0x35, 0x39, 0x3d, 0x33]);
    let ops: Vec<u32> = ops.collect();
    let mut wrong = Wrong::default();
    let mut labs = Labs::new(arch);
    for (number, op) in ops.iter().enumerate() {
        for (end, before) in (1..4).flat_map(|page| [0, 1, 2, 3, 4, 7, 8].map(move |before| (page * 0x1000, before))) {
            let mut case = case(arch, bytes(arch, &[op << 26 | 4 << 21 | 2 << 16]), (number * 64 + before) as u64 + end);
            case.registers[gpr(4)] = bench(arch).seen_from + MAPPED + end - before as u64;
            wrong.compare(&mut labs, &format!("{} opcode {op:#x}, {before} before {end:#x}", arch.name()), &case);
        }
    }
    assert!(labs.compared > 500, "{} compared", labs.compared);
    wrong.end();
}

/// The state that is compared includes floating-point and CP0 registers, if floating point is enabled.
fn the_bench_of_mips_sees_floating_point_and_the_system(arch: Arch) {
    use trapline_tests::lab::{How, Lab, MEDIA};
    let media = |word: u32| {
        let case = Before { flags: 1 << 40, ..case(arch, bytes(arch, &[word]), 3) };
        let after = Lab::new(arch).run(&case, How::InPlace).expect("it runs");
        after.memory.into_iter().find(|(at, _)| *at == MEDIA).expect("it is looked at").1
    };
    let nothing = media(0);
    // mtc1 v0,$2; mtc0 v0,context; ctc1 v0,$31.
    for (word, at) in [(0x4482_1000, 16..24), (0x4082_2000, 0x118 + 32..0x118 + 40), (0x44c2_f800, 0x110..0x118)] {
        let changed = media(word);
        let differs = |at: &usize| nothing[*at] != changed[*at];
        assert!((0..512).any(|at| differs(&at)), "{:?} {word:08x}: it is seen", set(arch));
        assert!((0..512).filter(differs).all(|place| at.contains(&place)), "{:?} {word:08x}: and nothing else", set(arch));
    }
}

/// The tests of this file, each for every MIPS set.
pub fn tests() -> Vec<Test> {
    each_of(
        &SETS,
        &[
            (
                "every_code_of_mips_does_the_same_out_of_line_as_in_place",
                every_code_of_mips_does_the_same_out_of_line_as_in_place,
            ),
            (
                "every_branch_of_mips_with_everything_in_its_slot_does_the_same_out_of_line_as_in_place",
                every_branch_of_mips_with_everything_in_its_slot_does_the_same_out_of_line_as_in_place,
            ),
            (
                "an_access_of_mips_at_the_end_of_a_page_faults_out_of_line_as_in_place",
                an_access_of_mips_at_the_end_of_a_page_faults_out_of_line_as_in_place,
            ),
            ("the_bench_of_mips_sees_floating_point_and_the_system", the_bench_of_mips_sees_floating_point_and_the_system),
        ],
    )
}
