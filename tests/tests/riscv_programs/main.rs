//! RISC-V: random programs must end the same here as under QEMU's emulator of programs, in place and with every instruction
//! probed. Our core descends from QEMU, so QEMU is no independent check of single instructions. It does check our own parts:
//! copies, compressed and full, computed branches, pc-relative values, jumps.
//!
//! A program has the same bytes in both, at other addresses: here it is a kernel. Under QEMU it writes its memory to a pipe and
//! exits, here it sleeps for ever.

mod program;

use program::{Program, Random};
use std::process::{Command, ExitCode, Stdio};
use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_harness::{self as harness, Test};
use trapline_isa::arch::Arch;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe};

/// The place that a program jumps to at its end. This and the next ones are distances from its start.
pub const EXIT_AT: u64 = 0x8000;
/// The data page.
pub const DATA: u64 = 0xa000;
const DATA_BYTES: usize = 0x1000;
/// The place for its registers.
pub const SAVED_AT: u64 = 0xc000;
/// The initial stack pointer.
pub const STACK: u64 = 0x1_7c00;
const ALL_BYTES: u64 = 0x1_8000;
/// The address of the program under QEMU.
const THERE: u64 = 0x4000_0000;

/// A width of registers, with its emulator of programs. Debian's package is qemu-user-static.
#[derive(Debug)]
struct Width {
    arch: Arch,
    is_wide: bool,
    qemu: &'static str,
    /// The kernel's address here.
    seen_from: u64,
    /// satp: the mode of translation.
    mode: u64,
    /// The bits of an index into a page table.
    stride: u32,
}

static WIDTHS: [Width; 2] = [
    Width {
        arch: Arch::Riscv64,
        is_wide: true,
        qemu: "qemu-riscv64-static",
        seen_from: 0xffff_ffff_8800_0000,
        mode: 8 << 60,
        stride: 9,
    },
    Width { arch: Arch::Riscv32, is_wide: false, qemu: "qemu-riscv32-static", seen_from: 0xc000_0000, mode: 1 << 31, stride: 10 },
];

/// Physical addresses: the memory's start, where the set-up code is, the root of the page tables with one more table, and
/// the program.
const RAM: u64 = 0x4000_0000;
const SET_UP: u64 = RAM + 0x8_0000;
const TABLES: u64 = RAM + 0x9_0000;
const PROGRAM: u64 = 0x2_0000;
const PAGE: u64 = 0x1000;

/// The way a program is run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    InPlace,
    Probed,
    Stepped,
    Jumped,
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `lui` and `addi` for a small constant.
fn load(register: u32, value: u32) -> [u32; 2] {
    [(value.wrapping_add(0x800) & 0xffff_f000) | register << 7 | 0x37, value << 20 | register << 15 | register << 7 | 0x13]
}

/// The memory that the program sees: its code, its exit code, and its data.
fn memory(code: &[u8], seed: u64, exit: &[u32]) -> Vec<u8> {
    let mut all = code.to_vec();
    assert!(all.len() as u64 <= EXIT_AT, "{} bytes of code", all.len());
    all.resize(EXIT_AT as usize, 0);
    all.extend(bytes(exit));
    all.resize(DATA as usize, 0);
    all.extend(Random(!seed).data(DATA_BYTES));
    all.resize(ALL_BYTES as usize, 0);
    all
}

/// The program as an ELF executable for Linux.
fn executable(width: &Width, memory: &[u8]) -> Vec<u8> {
    const IN_FILE: u64 = 0x1000;
    const RISCV: u16 = 243;
    let wide = width.is_wide;
    let word = |value: u64| value.to_le_bytes()[..if wide { 8 } else { 4 }].to_vec();
    let half = |value: u16| value.to_le_bytes().to_vec();
    let (header, segment) = if wide { (64, 56) } else { (52, 32) };
    let mut file = b"\x7fELF".to_vec();
    file.extend([if wide { 2 } else { 1 }, 1, 1]);
    file.resize(16, 0);
    // An executable with one program header and no sections; compressed instructions, floating point with doubles.
    file.extend([half(2), half(RISCV), 1u32.to_le_bytes().to_vec(), word(THERE), word(header), word(0)].concat());
    file.extend(5u32.to_le_bytes());
    file.extend([header as u16, segment, 1, 0, 0, 0].map(u16::to_le_bytes).as_flattened());
    // A loadable segment: readable, writable, executable.
    let (flags, size) = (7u32.to_le_bytes(), word(memory.len() as u64));
    file.extend(1u32.to_le_bytes());
    if wide {
        file.extend(flags);
    }
    file.extend([word(IN_FILE), word(THERE), word(THERE), size.clone(), size].concat());
    if !wide {
        file.extend(flags);
    }
    file.extend(word(IN_FILE));
    file.resize(IN_FILE as usize, 0);
    file.extend(memory);
    file
}

/// The memory that the program leaves under QEMU.
fn under_qemu(width: &Width, code: &[u8], seed: u64) -> Vec<u8> {
    use std::os::unix::fs::PermissionsExt;
    const ECALL: u32 = 0x73;
    let (write, exit) = (64, 93);
    // a7, a0, a1 and a2: write the data to standard output; exit with 0.
    let calls = [load(17, write), load(10, 1), load(11, (THERE + DATA) as u32), load(12, (ALL_BYTES - DATA) as u32)].concat();
    let calls = [&calls[..], &[ECALL], &load(17, exit), &load(10, 0), &[ECALL]].concat();
    let file = std::env::temp_dir().join(format!("trapline-{}-{}-{seed}", width.qemu, std::process::id()));
    std::fs::write(&file, executable(width, &memory(code, seed, &calls))).expect("a folder for temporary files");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let run = Command::new(width.qemu).arg(&file).stdin(Stdio::null()).output().expect("it is installed");
    std::fs::remove_file(&file).expect("it is ours");
    assert!(run.status.success(), "program {seed}: {:?} {}", run.status, String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.stdout.len() as u64, ALL_BYTES - DATA, "program {seed}");
    run.stdout
}

/// Code that switches translation and floating point on and starts the program.
fn set_up(width: &Width) -> Vec<u8> {
    const T0: u32 = 5;
    const FLOATS_ON: u64 = 0x6000;
    let load = if width.is_wide { 0x0002_b283 } else { 0x0002_a283 };
    let csrw = |csr: u32| csr << 20 | T0 << 15 | 0x1073;
    let uses =
        [(FLOATS_ON, csrw(0x100)), (width.mode | (TABLES / PAGE), csrw(0x180)), (width.seen_from + PROGRAM, T0 << 15 | 0x67)];
    // Each value is loaded by `auipc t0, 0` and a load from behind the code; then an instruction uses it.
    let literals = (12 * uses.len() as u32).next_multiple_of(8);
    let mut code = Vec::new();
    for (number, (_, used)) in (0..).zip(uses) {
        let distance = literals + number * if width.is_wide { 8 } else { 4 } - 12 * number;
        code.extend([0x17 | T0 << 7, load | distance << 20, used]);
    }
    let mut code = bytes(&code);
    code.resize(literals as usize, 0);
    code.extend(uses.iter().flat_map(|(value, _)| value.to_le_bytes()[..if width.is_wide { 8 } else { 4 }].to_vec()));
    code
}

/// Page tables that map the memory where the kernel is linked, by a large page, and where it is.
fn tables(width: &Width) -> Vec<u8> {
    const LEAF: u64 = 0xef;
    let (stride, size) = (width.stride, if width.is_wide { 8 } else { 4 });
    let mut words = vec![0u64; 2 << stride];
    let top = if width.is_wide { 30 } else { 22 };
    let index = |address: u64, shift: u32| (address >> shift) as usize & ((1 << stride) - 1);
    words[index(RAM, top)] = RAM >> 2 | LEAF;
    if width.is_wide {
        words[index(width.seen_from, top)] = (TABLES + PAGE) >> 2 | 1;
        words[(1 << stride) + index(width.seen_from, 21)] = RAM >> 2 | LEAF;
    } else {
        words[index(width.seen_from, top)] = RAM >> 2 | LEAF;
    }
    words.iter().flat_map(|word| word.to_le_bytes()[..size].to_vec()).collect()
}

/// The distance between probed instructions, in instructions, if the probes are to become jumps.
const APART: usize = 4;

/// A run of a program here.
struct Here {
    memory: Vec<u8>,
    hits: u64,
    jumps: usize,
}

fn here(width: &Width, code: &[u8], seed: u64, how: How) -> Here {
    const WFI: u32 = 0x1050_0073;
    let piece = |distance: u64, bytes: Vec<u8>, executable: bool| Segment {
        physical: RAM + distance,
        virtual_address: width.seen_from + distance,
        size: bytes.len() as u64,
        bytes: bytes.into(),
        executable,
    };
    let pieces = vec![
        piece(SET_UP - RAM, set_up(width), false),
        piece(TABLES - RAM, tables(width), false),
        piece(PROGRAM, memory(code, seed, &[WFI]), true),
    ];
    let start = width.seen_from + PROGRAM;
    let length = code.len() as u64;
    let names = [("_stext", start), ("program", start), ("_etext", start + length)];
    let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
    let kernel = Kernel::from_parts(width.arch, SET_UP, pieces, Symbols::new(entries.to_vec()));
    let mut session = Session::new(kernel, &Config::default()).expect("a machine");
    let isa = width.arch.isa();
    let mut places = Vec::new();
    let mut at = 0;
    while let Ok(insn) = (isa.decode)(start + at, &code[at as usize..]) {
        places.push(start + at);
        at += insn.length();
    }
    assert_eq!(at, length, "program {seed}: every instruction can be decoded");
    // A jump takes the place of several instructions, of which no other may have a probe.
    let places: Vec<u64> = places.into_iter().step_by(if how == How::Jumped { APART } else { 1 }).collect();
    let count = places.len();
    let probes = places.into_iter().filter(|_| how != How::InPlace).map(|at| Kprobe::at_address(at).pre(|_| Flow::Continue));
    let probes = probes.map(|probe| if how == How::Stepped { probe.post(|_| {}) } else { probe });
    let probes: Vec<Kprobe> = probes.filter(|probe| session.register_kprobe(probe).is_ok()).collect();
    assert!(how == How::InPlace || 20 * probes.len() > 19 * count, "{} of {count} instructions", probes.len());
    if how == How::Jumped {
        session.with_engine(|engine, _| engine.set_optimization_delay(0));
    }
    let summaries = session.with_engine(|engine, guest| engine.summary(guest));
    let jumps = summaries.iter().filter(|line| line.mode == Mode::Optimized).count();
    let stop = session.run_until(10_000_000);
    let registers = session.machine().registers();
    let pc = registers.iter().find(|(name, _)| *name == "pc").map_or(0, |(_, value)| value - start);
    // Nothing can wake the CPU, which ends the run.
    let is_at_end = matches!(stop, Stop::Dead(_)) && pc == EXIT_AT + 4;
    assert!(is_at_end, "program {seed}, {how:?}: {stop:?} {registers:x?}");
    let mut all = vec![0; ALL_BYTES as usize];
    session.machine_mut().ram().read(RAM + PROGRAM, &mut all);
    Here { memory: all[DATA as usize..].to_vec(), hits: probes.iter().map(Kprobe::hits).sum(), jumps }
}

/// A name for a place in the compared memory, for messages.
fn name_of(at: u64) -> String {
    match (DATA + at).checked_sub(SAVED_AT) {
        Some(0) => "fcsr".into(),
        Some(offset) if offset < 0x100 => format!("x{}", offset / 8),
        Some(offset) if (0x200..0x300).contains(&offset) => format!("f{}", (offset - 0x200) / 8),
        _ => format!("memory at {:#x}", DATA + at),
    }
}

/// The words that differ, by name.
fn differences(expected: &[u8], seen: &[u8]) -> Vec<String> {
    let words = |bytes: &[u8]| bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect();
    let (expected, seen): (Vec<u64>, Vec<u64>) = (words(expected), words(seen));
    let all = expected.iter().zip(&seen).zip((0..).step_by(8)).filter(|((one, other), _)| one != other);
    all.map(|((one, other), at)| format!("{}: {one:x} there, {other:x} here", name_of(at))).collect()
}

/// KP-2, KP-6, KP-9, OP-4: final registers and memory equal those under QEMU.
fn random_programs_end_as_under_qemu(width: &Width) {
    let programs =
        std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).map_or(24, |cases: u64| cases / 20 + 1);
    let mut wrong = Vec::new();
    let (mut hits, mut jumps) = (0, 0);
    for seed in 1..=programs {
        let code = Program::of(seed, width.is_wide);
        let expected = under_qemu(width, &code, seed);
        for how in [How::InPlace, How::Probed, How::Stepped, How::Jumped] {
            let seen = here(width, &code, seed, how);
            let differ = differences(&expected, &seen.memory);
            if !differ.is_empty() {
                let first = &differ[..differ.len().min(12)];
                wrong.push(format!("program {seed}, {how:?}: {} words differ: {first:#?}", differ.len()));
            }
            (hits, jumps) = (hits + seen.hits, jumps + seen.jumps);
        }
    }
    println!("{:?}: {programs} programs, {hits} hits, {jumps} jumps", width.arch);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hits > 500 * programs && jumps as u64 > 10 * programs, "{hits} hits, {jumps} jumps");
}

fn main() -> ExitCode {
    let tests = WIDTHS.each_ref().map(|width| {
        let name = harness::member("random_programs_end_as_under_qemu", width.arch.name());
        Test::new(name, move || random_programs_end_as_under_qemu(width)).needs(harness::tool(width.qemu, "qemu-user-static"))
    });
    harness::run([tests.into()])
}
