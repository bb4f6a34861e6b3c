//! Runs an instruction in its place and out of line. Registers, flags, memory, faults and time must be the same
//! afterwards.

mod addresses;
mod conditions;
mod delivery;
mod mips;
mod power;
mod returns;
mod sparc;
mod volume;
mod z;

use capstone::Capstone;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::process::ExitCode;
use trapline_harness::Test;
use trapline_isa::arch::Arch;
use trapline_isa::function;
use trapline_tests::lab::{After, BENCHES, Before, DATA, DATA_BYTES, ELSEWHERE, How, Lab, bench, place};
use trapline_tests::{GUESTS, functions, kernel};

/// The random cases of an ISA are divided into this number of tests.
const PARTS: u8 = 4;

/// Each test covers one ISA, or a part of its cases if there are many. So no test takes long: one that hangs is known
/// by its name, and none reaches the time limit on a busy computer.
fn main() -> ExitCode {
    let parts = |arch: Arch| {
        (0..PARTS).map(move |part| {
            let name = format!("random_instructions_do_the_same_out_of_line_as_in_place::{}_{part}", arch.name());
            Test::new(name, move || random_instructions_do_the_same_out_of_line_as_in_place(arch, part))
        })
    };
    let random = BENCHES.iter().flat_map(|arch| parts(*arch)).collect();
    let states = |(arch, name): &(Arch, &'static str)| {
        let (arch, kernel) = (*arch, *name);
        (0..STATES).map(move |state| {
            let name =
                format!("every_instruction_of_the_tiny_kernel_does_the_same_out_of_line_as_in_place::{}_{state}", arch.name());
            Test::new(name, move || {
                every_instruction_of_the_tiny_kernel_does_the_same_out_of_line_as_in_place(arch, kernel, state)
            })
        })
    };
    let tiny = GUESTS.iter().filter(|(arch, _)| BENCHES.contains(arch)).flat_map(states).collect();
    let hard = each_of(
        &BENCHES,
        &[("hard_instructions_do_the_same_out_of_line_as_in_place", hard_instructions_do_the_same_out_of_line_as_in_place)],
    );
    let with_load: Vec<Arch> = BENCHES.iter().copied().filter(|arch| bench(*arch).load.is_some()).collect();
    let window = each_of(
        &with_load,
        &[("a_read_of_the_window_faults_out_of_line_as_in_place", a_read_of_the_window_faults_out_of_line_as_in_place)],
    );
    trapline_harness::run([
        random,
        tiny,
        hard,
        window,
        addresses::tests(),
        conditions::tests(),
        delivery::tests(),
        mips::tests(),
        power::tests(),
        returns::tests(),
        sparc::tests(),
        z::tests(),
    ])
}

/// A test family's name and its function for one ISA.
type Family = (&'static str, fn(Arch));

/// Makes one test for each of these functions and each of the ISAs.
fn each_of(archs: &[Arch], tests: &[Family]) -> Vec<Test> {
    let all = tests.iter().flat_map(|test| archs.iter().map(move |arch| (*test, *arch)));
    all.map(|((name, run), arch)| Test::new(format!("{name}::{}", arch.name()), move || run(arch))).collect()
}

/// KP-2, KP-6, KP-9: random instructions in random states. A failing case is shrunk. The cases are the same in each
/// run, so the result depends on the source alone. If `PROPTEST_CASES` is set, there are that many, different in each
/// run.
fn random_instructions_do_the_same_out_of_line_as_in_place(arch: Arch, part: u8) {
    let asked: Option<u32> = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    let cases = asked.unwrap_or(4000).div_ceil(PARTS.into());
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/differential.txt"))),
        ..Config::default()
    };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[part; 32])),
    };
    let labs = std::cell::RefCell::new(Labs::new(arch));
    let cases_of = if asked.is_some() { volume::cases(arch) } else { (bench(arch).case)(arch) };
    let begin = std::time::Instant::now();
    let outcome = runner.run(&cases_of, |case| labs.borrow_mut().compare(&case).map_err(TestCaseError::fail));
    let labs = labs.into_inner();
    volume::report(arch, part, begin.elapsed(), &labs);
    let Labs { compared, jumped, saved, refused, .. } = labs;
    println!("{}: {compared} instructions compared, {jumped} by a jump ({saved} faithful), {refused} refused", arch.name());
    outcome.unwrap_or_else(|failure| panic!("{}: {failure}", arch.name()));
    assert!(labs.compared > u64::from(cases / 2), "{}: only {} instructions could be compared", arch.name(), labs.compared);
}

/// The number of states in which each instruction of the tiny kernel runs. Each state is a test of its own.
const STATES: u64 = 2;

/// KP-2, KP-6, KP-9, OP-4: every different instruction of the tiny kernel, in one state.
fn every_instruction_of_the_tiny_kernel_does_the_same_out_of_line_as_in_place(arch: Arch, name: &str, state: u64) {
    let kernel = kernel(name);
    let isa = arch.isa();
    let mut seen = BTreeSet::new();
    for (_, start, size) in functions(&kernel) {
        let walk = function::walk(isa, start, start + size, |at, into: &mut [u8]| kernel.read(at, into));
        seen.extend(walk.map_while(Result::ok).map(|insn| insn.bytes().to_vec()));
    }
    let mut labs = Labs::new(arch);
    for (number, bytes) in seen.iter().enumerate() {
        let seed = number as u64 * 7919 + state + 1;
        let registers = (0..40).map(|register| spread(arch, seed, register)).collect();
        let case = Before { bytes: bytes.clone(), registers, flags: spread(arch, seed, 99), seed, ..Before::default() };
        labs.compare(&case).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let Labs { compared, refused, jumped, saved, .. } = labs;
    println!(
        "{name}: {} different instructions, {compared} runs compared, {jumped} by a jump ({saved} faithful), {refused} refused",
        seen.len()
    );
    assert!(!bench(arch).jumps || jumped - saved > 150, "{name}: only {jumped} behind a jump");
    assert!(!has_faithful(arch) || saved > 150, "{name}: only {saved} in a faithful detour");
    assert!(seen.len() > 1000 && labs.compared > labs.refused * 20, "{name}: {} of {} were refused", labs.refused, seen.len());
}

/// The bench's table of hard instructions, each in 39 states.
fn hard_instructions_do_the_same_out_of_line_as_in_place(arch: Arch) {
    let mut labs = Labs::new(arch);
    for (what, _, bytes) in bench(arch).hard.iter().filter(|(_, of, _)| *of == arch) {
        let before = labs.compared;
        for seed in 1..40u64 {
            let registers = (0..40).map(|register| spread(arch, seed, register)).collect();
            let case = Before { bytes: bytes.to_vec(), registers, flags: spread(arch, seed, 99), seed, ..Before::default() };
            labs.compare(&case).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        assert!(labs.compared > before, "{what} was refused");
    }
}

/// BY-4, KP-9: the guest has no memory at the address of the probe window. An instruction that reads there faults, both
/// in its place and when it runs in the window. (It can read only the page from which it was just fetched.)
fn a_read_of_the_window_faults_out_of_line_as_in_place(arch: Arch) {
    let bytes = bench(arch).load.expect("it has a load");
    let window = trapline_tests::lab::window_of(arch);
    for offset in [0x4000, 0x10_0ffc, 0x1f_fff8] {
        let [mut in_place, mut probed, mut stepped, mut jumped] = Labs::fresh(arch);
        let case = Before { bytes: bytes.to_vec(), registers: vec![window + offset; 32], seed: 1, ..Before::default() };
        // The second time the core has been in the window.
        for turn in 0..2 {
            let expected = in_place.run(&case, How::InPlace).expect("it runs");
            let others = [(&mut probed, How::Probed), (&mut stepped, How::Stepped), (&mut jumped, How::Jumped)];
            for (lab, how) in others {
                let after = lab.run(&case, how).expect("it may be probed");
                assert!(after == expected, "{} {offset:#x}, {how:?} {turn}: {}", arch.name(), difference(&expected, &after));
            }
        }
    }
}

/// The number of compared cases for each case that is also run under a jump.
const ONE_IN: u64 = 4;

/// Four labs that run the same cases: in place, under a probe, under a probe with a post-handler, and under a jump to a
/// detour of either form.
struct Labs {
    labs: [Lab; 4],
    capstone: Capstone,
    compared: u64,
    refused: u64,
    /// The number of compared cases that ran under a jump.
    jumped: u64,
    /// The number of these that had a faithful detour.
    saved: u64,
    /// Compared cases by the row of the ISA's table that decides about the instruction.
    rows: BTreeMap<Option<usize>, u64>,
    /// The rows by which a probe was refused.
    refused_rows: BTreeSet<usize>,
    /// The number of hits of the last probe with only a pre-handler.
    hits: u64,
    /// Whether a case may end before it reaches the instruction.
    may_miss: bool,
}

impl Labs {
    fn new(arch: Arch) -> Labs {
        let capstone = (bench(arch).disassembler)(arch).expect("capstone knows it");
        Labs {
            labs: Labs::fresh(arch),
            capstone,
            compared: 0,
            refused: 0,
            jumped: 0,
            saved: 0,
            rows: BTreeMap::new(),
            refused_rows: BTreeSet::new(),
            hits: 0,
            may_miss: false,
        }
    }

    fn fresh(arch: Arch) -> [Lab; 4] {
        [(); 4].map(|()| Lab::new(arch))
    }

    /// Sets whether a case may end before it reaches the instruction.
    fn may_miss(&mut self, may: bool) {
        self.may_miss = may;
        self.tell_labs();
    }

    /// Replaces the labs by new ones.
    fn renew(&mut self) {
        self.labs = Labs::fresh(self.labs[0].arch());
        self.tell_labs();
    }

    fn tell_labs(&mut self) {
        for lab in &mut self.labs {
            lab.may_miss = self.may_miss;
        }
    }

    fn compare(&mut self, case: &Before) -> Result<(), String> {
        let arch = self.labs[0].arch();
        let bench = bench(arch);
        if bench.left_out.iter().any(|(_, is)| is(&case.bytes)) {
            self.refused += 1;
            return Ok(());
        }
        let [in_place, probed, stepped, jumped] = &mut self.labs;
        let out_of_line = match probed.run(case, How::Probed) {
            Ok(after) => after,
            Err(_) => {
                self.refused += 1;
                self.refused_rows.extend(volume::row(arch, &case.bytes));
                return Ok(());
            }
        };
        self.hits = probed.hits;
        let expected = in_place.run(case, How::InPlace)?;
        let with_post = stepped.run(case, How::Stepped)?;
        // Each jump costs a look through all memory. In between the bench keeps step, for a case leaves something to
        // the next.
        let how = match self.compared % ONE_IN {
            0 => How::Jumped,
            1 if has_faithful(jumped.arch()) => How::Saved,
            _ => How::InPlace,
        };
        let mut by_jump = jumped.run(case, how)?;
        self.jumped += u64::from(jumped.jumped);
        self.saved += u64::from(jumped.jumped && how == How::Saved);
        if jumped.jumped && how == How::Saved {
            jumped.forgive_dead_stack(case, &expected, &mut by_jump);
            if by_jump != expected && reads_dead_stack(in_place, case, &expected)? {
                self.renew();
                self.refused += 1;
                return Ok(());
            }
        }
        let ruined = [(&*in_place, &expected), (probed, &out_of_line), (stepped, &with_post), (jumped, &by_jump)]
            .into_iter()
            .any(|(lab, after)| lab.is_ruined(after));
        let no_promise = bench.no_promise.iter().any(|(_, is)| is(case, &expected));
        if ruined || no_promise {
            self.renew();
        }
        if no_promise || in_window(&expected, bench.fault_address) {
            // The access is in the window, where the guest has nothing: nothing is promised about such addresses.
            self.refused += 1;
            return Ok(());
        }
        self.compared += 1;
        *self.rows.entry(volume::row(arch, &case.bytes)).or_default() += 1;
        let ways = [("boosted or computed", &out_of_line), ("with a post-handler", &with_post), ("behind a jump", &by_jump)];
        for (how, after) in ways {
            if *after != expected {
                // Its leftover state must not change the next case, or the case could not be shrunk.
                self.renew();
                let text = self
                    .capstone
                    .disasm_count(&case.bytes, place(arch), 1)
                    .map(|insns| insns.iter().map(|insn| insn.to_string()).collect::<String>());
                let text = text.unwrap_or_default();
                return Err(format!("{text} {:02x?} {how}: {}", case.bytes, difference(&expected, after)));
            }
        }
        Ok(())
    }
}

fn has_faithful(arch: Arch) -> bool {
    arch.isa().detour.is_some_and(|detour| detour.faithful.is_some())
}

/// Whether the case depends on data below the stack pointer, which no ABI preserves. If it does, it cannot be compared.
fn reads_dead_stack(in_place: &mut Lab, case: &Before, expected: &After) -> Result<bool, String> {
    in_place.dead = Some(0x5a);
    let mut other = in_place.run(case, How::InPlace)?;
    in_place.forgive_dead_stack(case, expected, &mut other);
    in_place.dead = None;
    Ok(other != *expected)
}

/// Whether the case faulted in place at an address of the probe window.
fn in_window(after: &After, fault_address: &str) -> bool {
    const WINDOWS: [Range<u64>; 5] = [
        0xc000_0000_0120_0000..0xc000_0000_0200_0000,
        0xfb00_0000..0xfc00_0000,
        0xffff_ffff_be00_0000..0xffff_ffff_c000_0000,
        0xbf60_0000..0xbfe0_0000,
        0xffff_8000_0700_0000..0xffff_8000_0800_0000,
    ];
    let fault = after.register(fault_address).unwrap_or(0);
    WINDOWS.iter().any(|window| window.contains(&fault))
}

fn difference(expected: &After, seen: &After) -> String {
    let mut parts = Vec::new();
    if expected.stop != seen.stop {
        parts.push(format!("ended {:?}, not {:?}", seen.stop, expected.stop));
    }
    for (one, other) in expected.registers.iter().zip(&seen.registers).filter(|(one, other)| one != other) {
        parts.push(format!("{} is {:#x}, not {:#x}", one.0, other.1, one.1));
    }
    if expected.happened != seen.happened {
        parts.push(format!("happened {:x?}, not {:x?}", seen.happened, expected.happened));
    }
    if expected.time != seen.time {
        parts.push(format!("took {}, not {}", seen.time, expected.time));
    }
    for ((at, one), (_, other)) in expected.memory.iter().zip(&seen.memory) {
        if let Some(first) = one.iter().zip(other).position(|(a, b)| a != b) {
            parts.push(format!("memory at {:#x} is {:02x}, not {:02x}", at + first as u64, other[first], one[first]));
        }
    }
    parts.join("; ")
}

/// A register's value: often a pointer into data, sometimes small, sometimes anything.
pub(crate) fn spread(arch: Arch, seed: u64, salt: u64) -> u64 {
    let seen_from = bench(arch).seen_from;
    let mixed = (seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = mixed ^ mixed >> 31;
    match mixed % 5 {
        0 | 1 => seen_from + DATA + mixed / 5 % DATA_BYTES,
        2 => mixed / 5 % 40,
        3 => seen_from + ELSEWHERE + mixed / 5 % 64,
        _ => mixed,
    }
}
