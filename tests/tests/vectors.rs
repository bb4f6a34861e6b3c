//! The vectors for other implementations: the probe engine decides as each says.

use std::process::ExitCode;
use trapline::vectors::{self, Settings, Vector};
use trapline_harness::{self as harness, Test};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, DATA, Lab, arches, bench, place, window_of};

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// The vectors of an ISA at the lab's place.
fn made(arch: Arch) -> Vec<Vector> {
    let settings = Settings {
        address: place(arch),
        copy_at: window_of(arch) + 0x1000,
        data: bench(arch).seen_from + DATA,
        each: 4,
        ..Settings::of(arch)
    };
    vectors::of(arch, &settings)
}

/// The case of a vector for the lab.
fn case(arch: Arch, vector: &Vector) -> Before {
    let bench = bench(arch);
    let abi = arch.isa().abi;
    let general = abi.names.iter().filter(|(name, reg)| !bench.not_general.contains(name) && *reg != abi.sp);
    Before { bytes: bytes(&vector.bytes), registers: vec![0; general.count()], seed: 5, ..Before::default() }
}

/// BY-8: the probe engine accepts and refuses the instructions as the vectors say.
fn the_engine_decides_as_vectors_say(arch: Arch) {
    let made = made(arch);
    let mut lab = Lab::new(arch);
    let rows: std::collections::BTreeSet<usize> = made.iter().filter_map(|vector| vector.row).collect();
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    for vector in &made {
        let decided = lab.accepts(&case(arch, vector));
        // The lab's window is elsewhere, so that other operands are out of reach.
        if decided.as_ref().is_err_and(|why| why.to_string().contains("2 GiB")) {
            continue;
        }
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
    let families: [Family; 1] = [("the_engine_decides_as_vectors_say", the_engine_decides_as_vectors_say)];
    let of = |(name, run): Family| arches().map(move |arch| Test::new(format!("{name}::{}", arch.name()), move || run(arch)));
    harness::run([families.into_iter().flat_map(of).collect()])
}
