//! Runs random PA-RISC programs on our core and under qemu-hppa-static, and compares the results. Our core runs each program
//! unprobed, with every instruction probed by the copies and emulations of `trapline-isa`, and with a jump to a detour at every
//! instruction that may be replaced by one.
//!
//! A program has the same bytes at the same addresses under both, and makes the same system calls: it writes its data to a
//! pipe and exits.

#[path = "qemu/executable.rs"]
mod executable;
#[path = "qemu/machine.rs"]
mod machine;
mod program;

use executable::{DATA, Program, QEMU, TEXT, low14};
use machine::{How, here};
use program::{POINTER, body};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The words that differ, with their values under QEMU ("there") and on our core ("here").
fn differences(expected: &[u8], seen: &[u8]) -> Vec<String> {
    let words = |bytes: &[u8]| bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().expect("4 bytes"))).collect();
    let (one, other): (Vec<u32>, Vec<u32>) = (words(expected), words(seen));
    let name = |at: usize| match at {
        128 => "carry".to_string(),
        160 => "sar".to_string(),
        129..160 => format!("r{}", at - 128),
        _ => format!("word {at}"),
    };
    let all = one.iter().zip(&other).enumerate().filter(|(_, (one, other))| one != other);
    all.map(|(at, (one, other))| format!("{}: {one:x} there, {other:x} here", name(at))).collect()
}

/// Runs a program in all ways and under QEMU. Returns what is different, the hits and the jumps.
fn compare(name: &str, program: &Program) -> (Vec<String>, u64, u64) {
    let (mut wrong, mut hits, mut jumps) = (Vec::new(), 0, 0);
    let expected = program.under_qemu(name);
    assert_eq!(expected.len(), 1024);
    for how in [How::InPlace, How::Stepped, How::Boosted, How::Jumped] {
        match here(program, how) {
            Ok((seen, hit, jumped)) => {
                (hits, jumps) = (hits + hit, jumps + jumped);
                let differ = differences(&expected, &seen);
                if !differ.is_empty() || seen.len() != expected.len() {
                    wrong.push(format!("program {name}, {how:?}: {:?}", &differ[..differ.len().min(8)]));
                }
            }
            Err(why) => wrong.push(format!("program {name}, {how:?}: {why}")),
        }
    }
    (wrong, hits, jumps)
}

/// KP-2, KP-6, KP-9, OP-4: registers, memory, carry and shift amount equal those under QEMU.
fn random_programs_end_as_under_qemu() {
    let programs = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(24);
    let (mut wrong, mut hits, mut jumps) = (Vec::new(), 0, 0);
    for seed in 1..=programs {
        let (differ, hit, jumped) = compare(&seed.to_string(), &Program::of(seed, 300));
        wrong.extend(differ);
        (hits, jumps) = (hits + hit, jumps + jumped);
    }
    println!("{programs} programs, {hits} hits, {jumps} jumps");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(30)].join("\n"));
    assert!(hits > 300 * programs && jumps > 200 * programs, "{hits} hits, {jumps} jumps");
}

/// KP-2: accesses that modify their base, with every form, displacement and alignment of the base. Random programs have none,
/// because the pointer to their data must stay.
fn accesses_that_modify_their_base_end_as_under_qemu() {
    const BASE: u32 = 1;
    const VALUE: u32 = 5;
    let (mut wrong, mut forms) = (Vec::new(), 0);
    // The code, whether it is a store, and the size.
    for (code, is_store, size) in
        [(0, false, 1), (1, false, 2), (2, false, 4), (8, true, 1), (9, true, 2), (10, true, 4), (12, true, 1)]
    {
        for before in [0_u32, 1] {
            let mut words = Vec::new();
            for (number, distance) in (-15..16).filter(|distance| distance % size == 0).enumerate() {
                let offset = 64 + if code == 12 { number as i32 % 4 } else { 0 };
                // ldo offset(POINTER),BASE
                words.push(0x0d << 26 | POINTER << 21 | BASE << 16 | low14(offset));
                let [high, low] =
                    if is_store { [VALUE, program::low_sign(distance, 5)] } else { [program::low_sign(distance, 5), VALUE] };
                words.push(3 << 26 | BASE << 21 | high << 16 | before << 13 | 1 << 12 | code << 6 | 1 << 5 | low);
                // The base and the value, into words of their own.
                let slot = 128 + 8 * number as i32;
                words.extend(
                    [(BASE, slot), (VALUE, slot + 4)]
                        .map(|(register, at)| 0x1a << 26 | POINTER << 21 | register << 16 | low14(at)),
                );
                // add VALUE,r6,VALUE
                words.push(2 << 26 | 6 << 21 | VALUE << 16 | 0x18 << 6 | VALUE);
            }
            wrong.extend(compare(&format!("base-{code}-{before}"), &Program::with_body(7, &words)).0);
            forms += 1;
        }
    }
    assert!(forms == 14 && wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Prints the number of instructions per second that the core runs in a loop of arithmetic, a load and a store.
fn speed() {
    // ldi 0,r4 and the loop: addl, xor, ldw, stw, shladd, extrw, ldo, addib,<>
    let mut program = Program::of(1, 8);
    let words =
        [0x0a05_0a06_u32, 0x0a06_0287, 0x4b48_0000, 0x6b48_0008, 0x0906_0649, 0xd0ca_1bf8, 0x3529_0002, 0xac9f_3fbd, 0x0800_0240];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let at = (program.body.start - TEXT) as usize;
    program.memory[at..at + bytes.len()].copy_from_slice(&bytes);
    // r4 counts the rounds.
    let counter = (DATA - TEXT) as usize + 512 + 16;
    let rounds = 2_000_000_u32;
    program.memory[counter..counter + 4].copy_from_slice(&rounds.to_be_bytes());
    let start = Instant::now();
    here(&program, How::InPlace).expect("it ends");
    let time = start.elapsed().as_secs_f64();
    println!("{:.0} million instructions a second", f64::from(rounds) * 9.0 / time / 1e6);
}

/// Finds by bisection the shortest beginning of a program that ends differently. Returns its last three instructions and the
/// differences. The environment variable `TRAPLINE_SHORTEST` runs this instead of the tests, for that many seeds.
fn shortest(seed: u64) -> Option<String> {
    let differs = |len: usize| {
        let program = Program::of(seed, len);
        let expected = program.under_qemu(&format!("{seed}-{len}"));
        match here(&program, How::InPlace) {
            Ok((seen, _, _)) => Some(differences(&expected, &seen)).filter(|found| !found.is_empty()),
            Err(why) => Some(vec![why]),
        }
    };
    let (mut low, mut high) = (0, 300);
    differs(high)?;
    while high - low > 1 {
        let middle = (low + high) / 2;
        match differs(middle) {
            Some(_) => high = middle,
            None => low = middle,
        }
    }
    let words = body(seed, high);
    let text = |word: u32| trapline_isa::parisc::disasm::text(0, word).unwrap_or_default();
    let last: Vec<String> =
        words[high.saturating_sub(3)..high].iter().map(|word| format!("{word:08x} {}", text(*word))).collect();
    Some(format!("program {seed} at {high}: {last:?}: {:?}", differs(high)))
}

fn main() -> ExitCode {
    if let Ok(count) = std::env::var("TRAPLINE_SHORTEST") {
        (1..=count.parse().unwrap_or(1)).filter_map(shortest).for_each(|found| println!("{found}"));
        return ExitCode::SUCCESS;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let has_qemu = Command::new(QEMU).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !has_qemu {
        println!("skipped: {QEMU} is not installed; apt-get install qemu-user-static");
    }
    let tests: [(&str, fn(), bool); 3] = [
        ("random_programs_end_as_under_qemu", random_programs_end_as_under_qemu, has_qemu),
        ("accesses_that_modify_their_base_end_as_under_qemu", accesses_that_modify_their_base_end_as_under_qemu, has_qemu),
        ("speed", speed, true),
    ];
    let trial = |(name, run, can): (&str, fn(), bool)| {
        libtest_mimic::Trial::test(name, move || {
            run();
            Ok(())
        })
        .with_ignored_flag(!can)
    };
    libtest_mimic::run(&arguments, tests.map(trial).into()).exit_code()
}
