//! The test vectors for other implementations: the probe engine decides as each vector says, and the CPU has the effect
//! that each describes.

use std::process::ExitCode;
use trapline::vectors::{self, Effect, Settings, Vector};
use trapline_harness::{self as harness, Test};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, DATA, Lab, arches, bench, is_mapped, place, window_of};

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
}

/// The vectors of an ISA at the address of the lab's instruction.
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

/// BY-8: the probe engine accepts and refuses instructions as the vectors say.
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

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal")
}

/// The lab's physical addresses, relative to its base, of these pieces. `None`: the lab has no memory at one of them.
fn pieces(arch: Arch, of: &[(String, String)]) -> Option<Vec<(u64, Vec<u8>)>> {
    let piece = |(at, content): &(String, String)| {
        let (at, content) = (number(at).wrapping_sub(bench(arch).seen_from), bytes(content));
        (is_mapped(at) && is_mapped(at + content.len() as u64)).then_some((at, content))
    };
    of.iter().map(piece).collect()
}

/// The case of a vector with an effect: registers, flags and memory have the vector's values.
fn case_of_effect(arch: Arch, vector: &Vector, effect: &Effect) -> Option<Before> {
    let (bench, isa) = (bench(arch), arch.isa());
    let value = |name: &str| effect.registers.get(name).map_or(0, |text| number(text));
    let is_set = |name: &str| !bench.not_general.contains(&name);
    let general = isa.abi.names.iter().filter(|(name, reg)| is_set(name) && *reg != isa.abi.sp);
    let exact = isa.abi.hidden.iter().filter(|(name, _)| is_set(name)).map(|(name, reg)| (*reg, value(name)));
    let sp = isa.abi.names.iter().find(|(_, reg)| *reg == isa.abi.sp).map(|(name, reg)| (*reg, value(name)));
    Some(Before {
        bytes: bytes(&vector.bytes),
        registers: general.map(|(name, _)| value(name)).collect(),
        flags: value(bench.flags.0) & !0 >> 3,
        seed: 5,
        memory: pieces(arch, &effect.memory)?,
        exact: exact.chain(sp).collect(),
        ..Before::default()
    })
}

/// The name in a vector of a register of the machine's list. On SPARC, vectors use the kernel's names, because a trap
/// opens a new window.
fn name_in_vector(arch: Arch, listed: &str) -> String {
    match (arch, listed.split_at(1)) {
        (Arch::Sparc64, ("o", number)) => format!("i{number}"),
        (Arch::Sparc64, ("i", number)) => format!("in{number}"),
        _ => listed.into(),
    }
}

/// BY-8, KP-2: a computed instruction has in place the effect that its vector describes: registers, memory, and the
/// next pc. If there is no code at the next pc, the exception there shows the pc only. Vectors are left out if they use
/// memory that the lab does not have, or if the CPU raises an exception.
fn the_cpu_does_what_vectors_say(arch: Arch) {
    let (name, bench) = (arch.name(), bench(arch));
    let mut lab = Lab::new(arch);
    let (mut whole, mut pcs, mut effects) = (0, 0, 0);
    for vector in &made(arch) {
        let Some(effect) = &vector.effect else { continue };
        effects += 1;
        let (Some(case), Some(written)) = (case_of_effect(arch, vector, effect), pieces(arch, &effect.written)) else { continue };
        // The lab would run through all of its empty memory.
        let at = number(&effect.pc).wrapping_sub(bench.seen_from);
        if at < 1 << 30 && !is_mapped(at) {
            continue;
        }
        let watched: Vec<u64> = written.iter().map(|(at, _)| bench.base + at).collect();
        let Some((before, steps, raised)) = lab.step(&case, &watched) else { continue };
        if raised == Some(place(arch)) {
            continue;
        }
        let text = serde_json::to_string(vector).expect("JSON");
        // In place a delay slot is met even if it does nothing or the branch skips it.
        let expected = number(&effect.pc);
        let meets_slot =
            vector.bytes.len() == 16 && steps.first().is_some_and(|step| step.pc == place(arch) + 4 && step.pc != expected);
        let slots = usize::from(effect.delay_slot || bench.halt.len() == 4 && meets_slot);
        let next = steps.get(slots).map(|step| step.pc);
        if next != Some(expected) {
            // The CPU reports another pc than the target if the target has an impossible form, and none if it is empty memory.
            let has_code = is_mapped(expected.wrapping_sub(bench.seen_from));
            assert!(raised == Some(expected) || !has_code, "{name}: {next:x?} runs next: {text}");
            pcs += usize::from(raised == Some(expected));
            continue;
        }
        let step = &steps[if effect.delay_slot { 0 } else { slots }];
        for ((listed, before), after) in before.iter().zip(&step.registers) {
            let register = name_in_vector(arch, listed);
            if effect.registers.contains_key(register.as_str()) && !bench.not_general.contains(&register.as_str()) {
                let expected = effect.changed.get(register.as_str()).map_or(*before, |text| number(text));
                assert_eq!(*after, expected, "{name}: {register}, {before:#x} before: {text}");
            }
        }
        for ((at, content), seen) in written.iter().zip(&step.watched) {
            let len = content.len().min(seen.len());
            assert_eq!(content[..len], seen[..len], "{name}: the memory at {at:#x}: {text}");
        }
        whole += 1;
    }
    println!("{name}: of {effects} effects {whole} compared, of {pcs} more the pc");
    assert!((whole + pcs) * 2 >= effects && whole > 0, "{name}: {whole} and {pcs} of {effects}");
}

fn main() -> ExitCode {
    type Family = (&'static str, fn(Arch));
    let families: [Family; 2] = [
        ("the_engine_decides_as_vectors_say", the_engine_decides_as_vectors_say),
        ("the_cpu_does_what_vectors_say", the_cpu_does_what_vectors_say),
    ];
    let of = |(name, run): Family| arches().map(move |arch| Test::new(format!("{name}::{}", arch.name()), move || run(arch)));
    harness::run([families.into_iter().flat_map(of).collect()])
}
