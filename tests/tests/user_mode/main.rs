//! SPARC V9: random programs must end the same here as under qemu-sparc64-static, in place and with every instruction
//! probed. Our core descends from QEMU, so QEMU is no independent check of single instructions. It does check our own
//! parts: window spills and fills, annulled slots, computed branches, copies, jumps.
//!
//! A program has the same bytes at the same addresses in both. It ends differently: under QEMU it writes its memory to
//! a pipe and exits, here it raises an unhandled exception.

mod program;

use program::{Program, Random};
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_harness::{self as harness, tests};
use trapline_isa::arch::Arch;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe};

/// Debian's package is qemu-user-static.
const QEMU: &str = "qemu-sparc64-static";

/// Address of the program's text.
pub const TEXT: u64 = 0x4000_0000;
/// Address that programs jump to at their end.
pub const EXIT_AT: u64 = TEXT + 0x8000;
/// Address of the data page that they access.
pub const DATA: u64 = TEXT + 0xa000;
const DATA_BYTES: u64 = 0x1000;
/// Address where they store their registers.
pub const SAVED_AT: u64 = TEXT + 0xc000;
/// Initial value of %sp. The stack grows down.
pub const STACK: u64 = TEXT + 0x1_7c00;
const ALL_BYTES: u64 = 0x1_8000;
/// Physical address of all this. It is aligned to a TLB page.
const PHYSICAL: u64 = 0x40_0000;
/// Physical addresses of the set-up code and of the trap table.
const SET_UP: u64 = 0x20_0000;
const TRAPS: u64 = 0x30_0000;

const ILLTRAP: u32 = 0;

/// The way a program is run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    InPlace,
    Probed,
    Stepped,
    Jumped,
}

/// The memory that the program sees: its code, its exit code, and its data.
fn memory(seed: u64, exit: &[u32]) -> Vec<u8> {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut all = bytes(&Program::of(seed));
    assert!(all.len() as u64 <= EXIT_AT - TEXT, "{} bytes of code", all.len());
    all.resize((EXIT_AT - TEXT) as usize, 0);
    all.extend(bytes(exit));
    all.resize((DATA - TEXT) as usize, 0);
    all.extend(Random(!seed).data(DATA_BYTES as usize));
    all.resize(ALL_BYTES as usize, 0);
    all
}

/// The part of memory that is compared.
fn outcome(all: &[u8]) -> Vec<u8> {
    all[(DATA - TEXT) as usize..].to_vec()
}

/// The program as an ELF executable for Linux.
fn executable(memory: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const IN_FILE: u64 = 0x2000;
    let mut file = b"\x7fELF\x02\x02\x01".to_vec();
    file.resize(16, 0);
    // An ELF header for SPARC V9: executable, entry address, one program header, no sections.
    file.extend([0, 2, 0, 43, 0, 0, 0, 1]);
    file.extend([TEXT, 64, 0].iter().flat_map(|value| value.to_be_bytes()));
    file.extend([0, 0, 0, 2, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0]);
    // A loadable segment: readable, writable, executable.
    file.extend([0, 0, 0, 1, 0, 0, 0, 7]);
    let bytes = memory.len() as u64;
    file.extend([IN_FILE, TEXT, TEXT, bytes, bytes, IN_FILE].iter().flat_map(|value| value.to_be_bytes()));
    assert_eq!(file.len() as u64, HEADERS);
    file.resize(IN_FILE as usize, 0);
    file.extend(memory);
    file
}

/// The memory that the program leaves under QEMU.
fn under_qemu(seed: u64) -> Vec<u8> {
    let sethi = |register: u32, value: u64| register << 25 | 4 << 22 | (value >> 10) as u32;
    let write = [
        0x8210_2004, // mov 4, %g1: write
        0x9010_2001, // mov 1, %o0
        sethi(9, DATA),
        sethi(10, ALL_BYTES - (DATA - TEXT)),
        0x91d0_206d, // ta 0x6d
        0x8210_2001, // mov 1, %g1: exit
        0x9010_2000, // clr %o0
        0x91d0_206d,
    ];
    let file = std::env::temp_dir().join(format!("trapline-user-mode-{}-{seed}", std::process::id()));
    let mut opened = std::fs::File::create(&file).expect("a folder for temporary files");
    opened.write_all(&executable(&memory(seed, &write))).expect("there is room");
    drop(opened);
    let made_executable = Command::new("chmod").arg("+x").arg(&file).status().expect("chmod");
    assert!(made_executable.success());
    // This is the CPU model of the core. One instruction per translation block, because QEMU (like the core) computes
    // wrong flags for `addccc` and `subccc` behind logic instructions in longer blocks.
    let run = Command::new(QEMU).args(["-singlestep", "-cpu", "Sun UltraSparc IV"]).arg(&file).stdin(Stdio::null()).output();
    let run = run.expect("it is installed");
    std::fs::remove_file(&file).expect("it is ours");
    assert!(run.status.success(), "program {seed}: {:?} {}", run.status, String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.stdout.len() as u64, ALL_BYTES - (DATA - TEXT), "program {seed}");
    run.stdout
}

/// Code that fills both TLBs and starts the program.
fn set_up() -> Vec<u32> {
    let sethi = |register: u32, value: u64| register << 25 | 4 << 22 | (value >> 10) as u32;
    vec![
        0x8410_3fff,    // mov -1, %g2
        0x8528_b03d,    // valid, 4 MiB page
        0x8410_a077,    // locked, cacheable, privileged, writable, global
        0x8a10_2030,    // mov 0x30, %g5
        0x8810_2008,    // mov 8, %g4
        0xc0f1_4a00,    // this code and the handlers, identity-mapped
        0xc4f0_0aa0,    // stxa %g2, [%g0] 0x55
        0xc0f1_4b00,    // stxa %g0, [%g5] 0x58
        0xc4f0_0ba0,    // stxa %g2, [%g0] 0x5d
        sethi(1, TEXT), // the program
        sethi(3, PHYSICAL),
        0x8600_c002, // add %g3, %g2, %g3
        0xc2f1_4a00, // stxa %g1, [%g5] 0x50
        0xc6f1_0aa0, // stxa %g3, [%g4] 0x55
        0xc2f1_4b00, // stxa %g1, [%g5] 0x58
        0xc6f1_0ba0, // stxa %g3, [%g4] 0x5d
        sethi(3, TRAPS),
        0x8b90_c000, // wrpr %g3, %tba
        0x8610_200c, // mov 0xc, %g3
        0xc6f0_08a0, // enable both MMUs
        0x81c0_4000, // jmp %g1
        0x0100_0000, // nop
    ]
}

/// Trap handlers that spill and fill register windows. All other traps are illegal instructions.
fn traps() -> Vec<u32> {
    let mut words = vec![ILLTRAP; 0x2000];
    // For each vector: stx or ldx, then `saved` or `restored`.
    for (vector, op3, last) in [(0x80, 0x0e, 0x8188_0000), (0xc0, 0x0b, 0x8388_0000)] {
        let access =
            |register: u32| 3 << 30 | register << 25 | op3 << 19 | 14 << 14 | 1 << 13 | (2047 + 8 * (register - 16)) & 0x1fff;
        let handler = (16..32).map(access).chain([last, 0x83f0_0000]);
        // The handlers of trap level 0, then those of higher levels.
        for level in [0, 0x200] {
            for (place, word) in ((level + vector) * 8..).zip(handler.clone()) {
                words[place] = word;
            }
        }
    }
    words
}

/// Runs the program here. Also returns the number of probes that were hit, and of jumps.
fn here(seed: u64, how: How) -> (Vec<u8>, u64, usize) {
    let bytes = |words: Vec<u32>| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let piece = |physical: u64, virtual_address: u64, bytes: Vec<u8>, executable: bool| Segment {
        physical,
        virtual_address,
        size: bytes.len() as u64,
        bytes: bytes.into(),
        executable,
    };
    let length = 4 * Program::of(seed).len() as u64;
    let pieces = vec![
        piece(SET_UP, SET_UP, bytes(set_up()), false),
        piece(TRAPS, TRAPS, bytes(traps()), false),
        piece(PHYSICAL, TEXT, memory(seed, &[ILLTRAP]), true),
    ];
    let names = [("_stext", TEXT), ("program", TEXT), ("_etext", TEXT + length)];
    let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
    let kernel = Kernel::from_parts(Arch::Sparc64, SET_UP, pieces, Symbols::new(entries.to_vec()));
    let mut session = Session::new(kernel, &Config { window: 4 << 20, ..Config::default() }).expect("a machine");
    let probes: Vec<Kprobe> = match how {
        How::InPlace => Vec::new(),
        _ => (TEXT..TEXT + length).step_by(4).map(|at| Kprobe::at_address(at).pre(|_| Flow::Continue)).collect(),
    };
    let probes = probes.into_iter().map(|probe| if how == How::Stepped { probe.post(|_| {}) } else { probe });
    let probes: Vec<Kprobe> = probes.filter(|probe| session.register_kprobe(probe).is_ok()).collect();
    assert!(how == How::InPlace || 20 * probes.len() as u64 > 19 * length / 4, "{} of {} words", probes.len(), length / 4);
    if how == How::Jumped {
        session.with_engine(|engine, _| engine.set_optimization_delay(0));
    }
    let summaries = session.with_engine(|engine, guest| engine.summary(guest));
    let jumps = summaries.iter().filter(|line| line.mode == Mode::Optimized).count();
    let stop = session.run_until(1_000_000_000);
    assert!(matches!(stop, Stop::Dead(_)), "program {seed}, {how:?}: {stop:?}");
    let machine = session.machine_mut();
    let registers = machine.registers();
    let register = |name: &str| registers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let end = [register("tt1"), register("tpc1")];
    assert_eq!(end, [Some(0x10), Some(EXIT_AT)], "program {seed}, {how:?}: {registers:x?}");
    let mut all = vec![0; ALL_BYTES as usize];
    machine.ram().read(PHYSICAL, &mut all);
    (outcome(&all), probes.iter().map(Kprobe::hits).sum(), jumps)
}

/// A name for an address, for messages.
fn name_of(at: u64) -> String {
    const NAMES: [&str; 36] = [
        "%g0", "%g1", "%g2", "%g3", "%g4", "%g5", "%g6", "%g7", "%o0", "%o1", "%o2", "%o3", "%o4", "%o5", "%sp", "%o7", "%l0",
        "%l1", "%l2", "%l3", "%l4", "%l5", "%l6", "%l7", "%i0", "%i1", "%i2", "%i3", "%i4", "%i5", "%fp", "%i7", "%y", "%ccr",
        "%gsr", "%fsr",
    ];
    let address = DATA + at;
    match address.checked_sub(SAVED_AT) {
        Some(offset) if offset < 0x120 => NAMES[(offset / 8) as usize].into(),
        Some(offset) if (0x200..0x300).contains(&offset) => format!("%f{}", (offset - 0x200) / 8 * 2),
        _ => format!("memory at {address:x}"),
    }
}

/// The words that differ, by name.
fn differences(expected: &[u8], seen: &[u8]) -> Vec<String> {
    let words = |bytes: &[u8]| bytes.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().expect("8 bytes"))).collect();
    let (expected, seen): (Vec<u64>, Vec<u64>) = (words(expected), words(seen));
    let all = expected.iter().zip(&seen).zip((0..).step_by(8)).filter(|((one, other), _)| one != other);
    all.map(|((one, other), at)| format!("{}: {one:x} there, {other:x} here", name_of(at))).collect()
}

/// KP-2, KP-6, KP-9, OP-4: final registers and memory, including the spilled windows on the stack, equal those under
/// QEMU.
fn random_programs_end_as_under_qemu() {
    let programs =
        std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).map_or(24, |cases: u64| cases / 20 + 1);
    let mut wrong = Vec::new();
    let (mut hits, mut jumps) = (0, 0);
    for seed in 1..=programs {
        let expected = under_qemu(seed);
        for how in [How::InPlace, How::Probed, How::Stepped, How::Jumped] {
            let (seen, hit, jumped) = here(seed, how);
            let differ = differences(&expected, &seen);
            if !differ.is_empty() {
                wrong.push(format!(
                    "program {seed}, {how:?}: {} words differ: {:#?}",
                    differ.len(),
                    &differ[..differ.len().min(12)]
                ));
            }
            (hits, jumps) = (hits + hit, jumps + jumped);
        }
    }
    println!("{programs} programs, {hits} hits, {jumps} jumps");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hits > 1000 * programs && jumps as u64 > 100 * programs, "{hits} hits, {jumps} jumps");
}

fn main() -> ExitCode {
    let tests = tests![random_programs_end_as_under_qemu];
    let with_qemu = |test: harness::Test| test.needs(harness::tool(QEMU, "qemu-user-static"));
    harness::run([tests.into_iter().map(with_qemu).collect()])
}
