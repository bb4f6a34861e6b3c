//! The vectors for other implementations: the CPU does what each says, and the probe engine decides as each says.

use std::process::ExitCode;
use trapline::vectors::{self, Effect, Settings, Vector};
use trapline_harness::{self as harness, Test};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, DATA, Lab, arches, bench, is_mapped, place, window_of};

fn number(text: &str) -> u64 {
    let digits = text.strip_prefix("0x").unwrap_or_else(|| panic!("`{text}` is no number"));
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// The vectors of an ISA at the lab's place. They are read back from their JSON, as another implementation would.
fn lines(arch: Arch) -> (Vec<Vector>, Vec<serde_json::Value>) {
    let seen_from = bench(arch).seen_from;
    let settings = Settings {
        address: place(arch),
        copy_at: window_of(arch) + 0x1000,
        data: seen_from + DATA,
        each: 4,
        ..Settings::of(arch)
    };
    let made = vectors::of(arch, &settings);
    let read = made.iter().map(|vector| serde_json::to_value(vector).expect("JSON")).collect();
    (made, read)
}

/// The case of a vector for the lab. `None` if it needs memory that the lab does not have.
fn case(arch: Arch, vector: &Vector, effect: Option<&Effect>) -> Option<Before> {
    let bench = bench(arch);
    let abi = arch.isa().abi;
    let value = |name: &str| effect.and_then(|effect| effect.registers.get(name)).map_or(0, |value| number(value));
    let general = abi.names.iter().filter(|(name, reg)| !bench.not_general.contains(name) && *reg != abi.sp);
    let there = |(at, text): &(String, String)| {
        let (at, bytes) = (number(at).wrapping_sub(bench.seen_from), bytes(text));
        (is_mapped(at) && is_mapped(at.wrapping_add(bytes.len() as u64))).then_some((at, bytes))
    };
    let memory = effect.map_or(Some(Vec::new()), |effect| effect.memory.iter().map(there).collect())?;
    Some(Before {
        bytes: bytes(&vector.bytes),
        registers: general.map(|(name, _)| value(name)).collect(),
        flags: value(bench.flags.0),
        memory,
        seed: 5,
        ..Before::default()
    })
}

/// The least part of the effects, in percent, that can be run: others go where the lab has no memory, or need a state that
/// it does not have.
const LEAST: usize = 25;

/// BY-8: the CPU itself, without any probe, does what the vectors say about computed instructions: each changed register,
/// each byte that was written, and the pc. All other registers stay as they were.
fn the_cpu_does_what_vectors_say(arch: Arch) {
    let bench = bench(arch);
    let (made, read) = lines(arch);
    assert!(read.iter().all(|line| line["arch"] == arch.name() && line["bytes"].is_string()), "{}", arch.name());
    let mut lab = Lab::new(arch);
    lab.stack = DATA + 0x800;
    let (mut effects, mut ran) = (0, 0);
    for vector in &made {
        let Some(effect) = &vector.effect else { continue };
        effects += 1;
        let target = number(&effect.pc).wrapping_sub(bench.seen_from);
        let written: Vec<(u64, Vec<u8>)> =
            effect.written.iter().map(|(at, text)| (number(at).wrapping_sub(bench.seen_from), bytes(text))).collect();
        let can_write = written.iter().all(|(at, bytes)| is_mapped(*at) && is_mapped(at.wrapping_add(bytes.len() as u64)));
        // The instruction in the delay slot has an effect of its own.
        if effect.delay_slot || !is_mapped(target) || !can_write {
            continue;
        }
        let Some(case) = case(arch, vector, Some(effect)) else { continue };
        let watched: Vec<u64> = written.iter().map(|(at, _)| bench.base + at).collect();
        let Some((before, after)) = lab.step(&case, &watched) else {
            lab = Lab::new(arch);
            lab.stack = DATA + 0x800;
            continue;
        };
        // Registers such as a status word have values of the lab's own.
        if before.iter().any(|(name, value)| effect.registers.get(name).is_some_and(|given| number(given) != *value)) {
            continue;
        }
        ran += 1;
        let text = serde_json::to_string(vector).expect("JSON");
        assert_eq!(after.pc, number(&effect.pc), "{}: the pc of {text}", arch.name());
        for ((name, old), new) in before.iter().zip(&after.registers) {
            let expected = effect.changed.get(name).map_or(*old, |value| number(value));
            let is_known = effect.registers.contains_key(name);
            assert!(!is_known || *new == expected, "{}: {name} is {new:#x}, not {expected:#x}: {text}", arch.name());
        }
        for ((_, expected), seen) in written.iter().zip(&after.watched) {
            assert_eq!(expected[..], seen[..expected.len()], "{}: memory: {text}", arch.name());
        }
    }
    println!("{}: {} vectors, {effects} effects, {ran} of them run on the CPU", arch.name(), made.len());
    assert!(effects > 0 && ran * 100 >= effects * LEAST, "{}: {ran} of {effects}", arch.name());
}

/// BY-8: the probe engine accepts and refuses the instructions as the vectors say.
fn the_engine_decides_as_vectors_say(arch: Arch) {
    let (made, _) = lines(arch);
    let mut lab = Lab::new(arch);
    let rows: std::collections::BTreeSet<usize> = made.iter().filter_map(|vector| vector.row).collect();
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    for vector in &made {
        let case = case(arch, vector, None).expect("it needs no memory");
        let decided = lab.accepts(&case);
        *counts.entry(vector.verdict).or_default() += 1;
        let text = serde_json::to_string(vector).expect("JSON");
        assert_eq!(decided.is_err(), vector.verdict == "refuse", "{}: {decided:?}: {text}", arch.name());
        assert_eq!(vector.rule.is_some(), vector.verdict == "refuse", "{}: {text}", arch.name());
    }
    println!("{}: {} of {} rows; {counts:?}", arch.name(), rows.len(), arch.isa().rows.count());
    assert!(counts.len() >= 3, "{}: {counts:?}", arch.name());
}

fn main() -> ExitCode {
    type Family = (&'static str, fn(Arch));
    let families: [Family; 2] = [
        ("the_cpu_does_what_vectors_say", the_cpu_does_what_vectors_say),
        ("the_engine_decides_as_vectors_say", the_engine_decides_as_vectors_say),
    ];
    let of = |(name, run): Family| arches().map(move |arch| Test::new(format!("{name}::{}", arch.name()), move || run(arch)));
    harness::run([families.into_iter().flat_map(of).collect()])
}
