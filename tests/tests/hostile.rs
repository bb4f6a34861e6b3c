//! Hostile guests: random programs in kernel mode may crash only the guest. The fuzz target `hostile` makes its
//! programs with the same function.

use std::collections::BTreeMap;
use std::process::ExitCode;
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::{ARCHES, DRAWN, Guest};

/// The number of programs for each ISA. `HOSTILE_PROGRAMS` sets another number, `HOSTILE_SEED` other programs,
/// `HOSTILE_ARCH` a single ISA.
const PROGRAMS: u64 = 2000;

fn asked(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Bytes that depend on the seed alone (SplitMix64).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    (0..DRAWN / 8).flat_map(|_| next().to_le_bytes()).collect()
}

fn programs_end_in_the_guest(arch: Arch) {
    if std::env::var("HOSTILE_ARCH").is_ok_and(|only| only != arch.name()) {
        return;
    }
    // Strings of I/O, which x86 alone has, take a hundred times as long as other instructions.
    let usual = if matches!(arch, Arch::I386 | Arch::X86_64) { PROGRAMS / 10 } else { PROGRAMS };
    let (count, first) = (asked("HOSTILE_PROGRAMS", usual), asked("HOSTILE_SEED", 1) << 32);
    let mut guest = Guest::new(arch);
    let (mut ends, mut findings) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, Vec<u64>>::new());
    let (mut exceptions, mut time) = (0, 0);
    for seed in first..first + count {
        match guest.run(&bytes(seed)) {
            Ok(end) => {
                (exceptions, time) = (exceptions + end.exceptions as u64, time + end.time);
                *ends.entry(kind_of(end.why)).or_default() += 1;
            }
            Err(why) => findings.entry(why).or_default().push(seed - first),
        }
    }
    println!("{}: {count} programs, {exceptions} exceptions, {time} ns of guest time: {ends:#?}", arch.name());
    assert!(findings.is_empty(), "{}: {findings:#?}", arch.name());
    // The programs do something, and not each stops at its first instruction. On 64-bit PowerPC most come to an endless
    // series of exceptions after about 100 ns.
    assert!(exceptions > 2 * count && time > 50 * count, "{}: {exceptions} exceptions, {time} ns", arch.name());
}

/// A sentence without its numbers.
fn kind_of(why: Option<String>) -> String {
    let why = why.unwrap_or_else(|| "its time was over".into());
    let words = why.split_whitespace().filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
    words.take(14).collect::<Vec<_>>().join(" ")
}

/// Runs the saved inputs of the fuzz target `hostile`, as it does: the first byte of an input chooses the ISA.
fn kept_programs_end_in_the_guest() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/hostile");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is in the repository") {
        let path = file.expect("a file of the corpus").path();
        let data = std::fs::read(&path).expect("a file of the corpus");
        let Some((choice, bytes)) = data.split_first() else { continue };
        let arch = ARCHES[usize::from(*choice) % ARCHES.len()];
        if let Err(why) = Guest::new(arch).run(bytes) {
            panic!("{}: {why}", path.display());
        }
        count += 1;
    }
    assert!(count >= ARCHES.len(), "{count} programs");
}

fn main() -> ExitCode {
    let random = |arch: &Arch| {
        let arch = *arch;
        Test::new(format!("programs_end_in_the_guest::{}", arch.name()), move || programs_end_in_the_guest(arch))
    };
    trapline_harness::run([ARCHES.iter().map(random).collect(), tests![kept_programs_end_in_the_guest]])
}
