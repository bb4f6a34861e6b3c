//! Runs random PA-RISC programs on our core and under qemu-hppa-static, and compares the results. Our core runs each program
//! unprobed, with every instruction probed by the copies and emulations of `trapline-isa`, and with a jump to a detour at every
//! instruction that may be replaced by one.
//!
//! A program has the same bytes at the same addresses under both, and makes the same system calls: it writes its data to a
//! pipe and exits.

mod program;

use program::{POINTER, body};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Instant;
use trapline_core::Host;
use trapline_core::parisc::{Core, State, number};
use trapline_isa::detour;
use trapline_isa::insn::Insn;
use trapline_isa::parisc::{PARISC, abi, slot};
use trapline_isa::plan::{Plan, Policy, Tail, Then};
use trapline_isa::region::{PlainText, region};
use trapline_isa::regs::{Reg, Registers};

/// Debian's package is qemu-user-static.
const QEMU: &str = "qemu-hppa-static";

const TEXT: u32 = 0x0100_0000;
const WINDOW: u32 = TEXT + 0x1_0000;
const DATA: u32 = TEXT + 0x4_0000;
const BYTES: usize = 0x4_1000;
/// The address on Linux's gateway page at which programs enter system calls.
const GATE: u32 = 0x100;

/// The program in memory: registers from the data page, the body, registers to the data page, the system calls.
struct Program {
    memory: Vec<u8>,
    body: std::ops::Range<u32>,
}

fn low14(value: i32) -> u32 {
    let value = value as u32 & 0x3fff;
    value << 1 & 0x3fff | value >> 13
}

impl Program {
    fn of(seed: u64, len: usize) -> Program {
        Program::with_body(seed, &body(seed, len))
    }

    /// The program with this body. The seed decides about the registers and the data.
    fn with_body(seed: u64, body: &[u32]) -> Program {
        let load = |register: u32, offset: i32| 0x12 << 26 | POINTER << 21 | register << 16 | low14(offset);
        let store = |register: u32, offset: i32| 0x1a << 26 | POINTER << 21 | register << 16 | low14(offset);
        let set = |register: u32, value: i32| 0x0d << 26 | register << 16 | low14(value);
        let registers: Vec<u32> = (1..32).filter(|register| ![POINTER, 27, 30].contains(register)).collect();
        // ldil of the data page's address.
        let at = DATA >> 11;
        let left = at >> 20 & 1 | (at >> 9 & 0x7ff) << 1 | (at >> 7 & 3) << 14 | (at >> 2 & 31) << 16 | (at & 3) << 12;
        let mut words = vec![0x08 << 26 | POINTER << 21 | left];
        words.extend(registers.iter().map(|register| load(*register, 512 + 4 * *register as i32)));
        // mtsar r5; add r6,r7,r0 sets the carry.
        words.extend([11 << 21 | 5 << 16 | 0xc2 << 5, 2 << 26 | 7 << 21 | 6 << 16 | 0x18 << 6]);
        let start = TEXT + 4 * words.len() as u32;
        words.extend(body);
        let end = TEXT + 4 * words.len() as u32;
        words.extend(registers.iter().map(|register| store(*register, 512 + 4 * *register as i32)));
        // The carry and the shift amount: addc r0,r0,r3; mfctl sar,r4.
        words.extend([2 << 26 | 0x1c << 6 | 3, 11 << 21 | 0x45 << 5 | 4, store(3, 512), store(4, 640)]);
        // write(1, DATA, 1024); exit(0). `or POINTER,r0,r25` passes the address of the data.
        // be,l 0x100(sr2,r0)
        let enter = 0xe400_8200;
        words.extend([2 << 26 | POINTER << 16 | 9 << 6 | 25, set(26, 1), set(24, 1024), enter, set(20, 4)]);
        words.extend([set(26, 0), enter, set(20, 1)]);
        let mut memory: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(memory.len() < (WINDOW - TEXT) as usize);
        memory.resize((DATA - TEXT) as usize, 0);
        let mut random = program::Random(!seed.wrapping_mul(0x1234_5678_9abc_def1) | 1);
        let special = [0, 1, 0xffff_ffff, 0x7fff_ffff, 0x8000_0000, 0x0000_8000, 0x0101_0101];
        for _ in 0..1024 {
            let value = if random.below(3) == 0 { special[random.below(7) as usize] } else { random.next() };
            memory.extend(value.to_be_bytes());
        }
        assert_eq!(memory.len(), BYTES);
        Program { memory, body: start..end }
    }

    /// The program as an ELF executable for Linux.
    fn executable(&self) -> Vec<u8> {
        let mut file = b"\x7fELF\x01\x02\x01\x03".to_vec();
        file.resize(16, 0);
        file.extend([0, 2, 0, 15, 0, 0, 0, 1]);
        file.extend([TEXT, 52, 0, 0x0210].iter().flat_map(|value| value.to_be_bytes()));
        file.extend([0, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0]);
        let bytes = BYTES as u32;
        file.extend([1, 0x1000, TEXT, TEXT, bytes, bytes, 7, 0x1000].iter().flat_map(|value| value.to_be_bytes()));
        file.resize(0x1000, 0);
        file.extend(&self.memory);
        file
    }

    fn under_qemu(&self, name: &str) -> Vec<u8> {
        let path = std::env::temp_dir().join(format!("trapline-core-{}-{name}", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(&self.executable()).expect("written");
        file.set_permissions(std::fs::Permissions::from_mode(0o755)).expect("executable");
        drop(file);
        let output = Command::new(QEMU).arg(&path).stdin(Stdio::null()).output().expect(QEMU);
        let _ = std::fs::remove_file(&path);
        assert!(output.status.success(), "{name}: {:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// The way in which our core runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    InPlace,
    Stepped,
    Boosted,
    Jumped,
}

/// One probed instruction, and the address of its copy.
struct Point {
    insn: Insn,
    plan: Plan,
    copy: u32,
}

/// Memory, system calls, and a small engine of probes.
struct Machine {
    state: Rc<State>,
    memory: Vec<u8>,
    how: How,
    points: Vec<Option<Point>>,
    start: u32,
    resume: u32,
    output: Vec<u8>,
    hits: u64,
    jumps: u64,
    failed: Option<String>,
}

struct Regs<'a>(&'a State);

impl Registers for Regs<'_> {
    fn get(&self, reg: Reg) -> u64 {
        let state = self.0;
        u64::from(match reg {
            abi::NPC => state.back.get(),
            abi::SPACE => state.front_space.get(),
            abi::NEXT_SPACE => state.back_space.get(),
            abi::LEVEL => state.front_level.get(),
            abi::NEXT_LEVEL => state.back_level.get(),
            abi::SAR => state.control[number::SAR].get(),
            Reg(general @ 0..32) => state.general[usize::from(general)].get(),
            Reg(space @ 40..48) => state.spaces[usize::from(space - 40)].get(),
            other => panic!("register {other:?}"),
        })
    }
    fn set(&mut self, reg: Reg, value: u64) {
        let (state, value) = (self.0, value as u32);
        match reg {
            abi::NEXT_SPACE => state.back_space.set(value),
            abi::NEXT_LEVEL => state.back_level.set(value),
            abi::SPACE => state.front_space.set(value),
            abi::LEVEL => state.front_level.set(value),
            Reg(general @ 1..32) => state.general[usize::from(general)].set(value),
            Reg(space @ 40..48) => state.spaces[usize::from(space - 40)].set(value),
            other => panic!("register {other:?}"),
        }
    }
    fn pc(&self) -> u64 {
        self.0.front.get().into()
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.front.set(pc as u32);
        self.0.back.set((pc as u32).wrapping_add(4));
    }
}

impl Machine {
    fn word(&self, at: u32) -> u32 {
        let from = (at - TEXT) as usize;
        u32::from_be_bytes(self.memory[from..from + 4].try_into().expect("4 bytes"))
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let from = (at - TEXT) as usize;
        self.memory[from..from + bytes.len()].copy_from_slice(bytes);
    }

    /// Probes every instruction of the body. With [`How::Jumped`], instructions that may be replaced by a jump get one.
    fn arm(&mut self, body: std::ops::Range<u32>) {
        let text = self.memory.clone();
        self.start = body.start;
        let function = u64::from(body.start)..u64::from(body.end);
        for (number, at) in body.step_by(4).enumerate() {
            let mut around = PlainText { start: TEXT.into(), bytes: text.clone(), ..PlainText::default() };
            around.bytes.truncate((WINDOW - TEXT) as usize);
            let insn = (PARISC.decode)(at.into(), &self.word(at).to_be_bytes()).expect("a word");
            let plan = (PARISC.plan)(&insn, Policy::Best).expect("it may be probed");
            let plan = (PARISC.in_delay_slot)(&insn, &mut around).map_or(plan, Plan::Emulate);
            let copy = WINDOW + 32 * number as u32;
            if self.how == How::Jumped
                && let Ok(region) = region(&PARISC, Policy::Best, function.clone(), at.into(), &mut around)
                && let Some(table) = PARISC.detour
            {
                let code = detour::lean(&PARISC, table, &region, copy.into()).expect("in reach");
                self.put(copy, code.bytes());
                let jump = (table.jump)(&insn, copy.into()).expect("in reach");
                self.put(at, &jump[..4]);
                self.points.push(None);
                self.jumps += 1;
                continue;
            }
            let tail = if plan == Plan::Boost && self.how != How::Stepped { Tail::JumpBack } else { Tail::Breakpoint };
            let bytes = (PARISC.copy)(&insn, copy.into(), tail).expect("in reach");
            self.put(copy, bytes.bytes());
            self.put(at, PARISC.breakpoint);
            self.points.push(Some(Point { insn, plan, copy }));
        }
    }

    fn hit(&mut self) {
        let state = Rc::clone(&self.state);
        let state = &*state;
        let number = (state.front.get().wrapping_sub(self.start) / 4) as usize;
        let Some(Some(point)) = self.points.get(number) else {
            self.failed = Some(format!("no point at {:x}", state.front.get()));
            return state.stop.set(1);
        };
        self.hits += 1;
        self.resume = point.insn.next() as u32;
        if let Plan::Emulate(what) = &point.plan {
            match (PARISC.emulate)(what, &point.insn, &mut Regs(state), &mut NoMemory).expect("no fault") {
                Then::Onwards => return,
                Then::DelaySlot { then } => return state.back.set(then as u32),
                Then::Copy { .. } => self.resume = state.front.get(),
            }
        }
        state.go_to(point.copy);
    }
}

/// Memory that no emulation of this ISA touches.
struct NoMemory;

impl trapline_isa::mem::Memory for NoMemory {
    fn order(&self) -> trapline_isa::mem::ByteOrder {
        trapline_isa::mem::ByteOrder::Big
    }
    fn read(&mut self, address: u64, _: &mut [u8]) -> Result<(), trapline_isa::mem::Fault> {
        Err(trapline_isa::mem::Fault { address, write: false })
    }
    fn write(&mut self, address: u64, _: &[u8]) -> Result<(), trapline_isa::mem::Fault> {
        Err(trapline_isa::mem::Fault { address, write: true })
    }
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let from = physical.wrapping_sub(TEXT.into()) as usize;
        let bytes = self.memory.get(from..from.checked_add(size as usize)?)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let from = physical.wrapping_sub(TEXT.into()) as usize;
        let Some(bytes) = from.checked_add(size as usize).and_then(|end| self.memory.get_mut(from..end)) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u32 {
        self.failed = Some(format!("read of {physical:x}"));
        self.state.stop.set(1);
        0
    }
    fn device_out(&mut self, physical: u64, _: u32, _: u32) {
        self.failed = Some(format!("write of {physical:x}"));
        self.state.stop.set(1);
    }
    fn block(&mut self, _: u64, _: u32) {}
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        let state = Rc::clone(&self.state);
        let state = &*state;
        match (number, state.word.get()) {
            (number::ILLEGAL, _) if state.front.get() == GATE => {
                let argument = |number: usize| state.general[number].get();
                match argument(20) {
                    4 => {
                        let from = (argument(25) - TEXT) as usize;
                        self.output.extend(&self.memory[from..from + argument(24) as usize]);
                    }
                    _ => state.stop.set(1),
                }
                state.general[28].set(0);
                state.front_space.set(0);
                state.go_to(argument(31) & !3);
            }
            (number::BREAK, slot::BREAK) => self.hit(),
            (number::BREAK, slot::STEP_END) => state.go_to(self.resume),
            (number::BREAK, slot::STEP_NULLIFIED) => {
                state.go_to(self.resume);
                state.nullify.set(1);
            }
            (number, word) => {
                self.failed = Some(format!("exception {number} of {word:08x} at {:x}", state.front.get()));
                state.stop.set(1);
            }
        }
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

/// Runs the program on our core. Returns its output, the number of hits and the number of jumps that were written.
fn here(program: &Program, how: How) -> Result<(Vec<u8>, u64, u64), String> {
    let mut core = Core::new(TEXT.into(), BYTES as u64);
    let mut machine = Machine {
        state: core.shared_state(),
        memory: program.memory.clone(),
        how,
        points: Vec::new(),
        start: 0,
        resume: 0,
        output: Vec::new(),
        hits: 0,
        jumps: 0,
        failed: None,
    };
    if how != How::InPlace {
        machine.arm(program.body.clone());
    }
    // A program has the lowest privilege.
    core.state().front_level.set(3);
    core.state().go_to(TEXT);
    core.state().line.count.set(i64::MIN / 2);
    core.run(&mut machine);
    match machine.failed {
        Some(why) => Err(why),
        None => Ok((machine.output, machine.hits, machine.jumps)),
    }
}

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
    assert!(hits > 300 * programs && jumps > 30 * programs, "{hits} hits, {jumps} jumps");
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
