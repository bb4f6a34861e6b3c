//! IA-64: whole programs end here as they do on ski, HP's simulator, whose output is recorded.
//!
//! A program is a flat image at a fixed address, with Linux's system calls. `TRAPLINE_SKI=path/to/bski` runs each one on
//! ski too, and compares. The recorded results are those of github.com/trofi/ski at dfc2902ea142: `tour.txt` has the
//! numbers that the program writes, and `random.txt` the count of instructions and a sum of the output for each program.
//! `scripts/ski-tables.sh` records them.

#[path = "ia64/code/mod.rs"]
mod code;
#[path = "ia64/probes/mod.rs"]
mod probes;
#[path = "ia64/ram.rs"]
mod ram;

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use trapline_core::ia64::{Core, Host, State, vector};

/// The address of images, and of the RAM.
const BASE: u64 = 0x10_0000;
const RAM: usize = 0x20_0000;
/// The backing store, far above the image.
const BACKING: u64 = BASE + 0x10_0000;

/// The machine of a program: RAM, and the two system calls.
struct Machine {
    ram: Vec<u8>,
    output: Vec<u8>,
    /// Interruptions other than system calls: the vector, the bundle and the slot.
    faults: Vec<(u32, u64, u32)>,
    /// Whether the guest handles its interruptions, but for `break 7`, which ends it.
    has_kernel: bool,
    /// The interruptions that the guest has handled. Too many of them end the run.
    handled: u32,
    /// Probes, which see a breakpoint before anyone else.
    probes: Option<probes::Probes>,
    /// Those of the register stack engine while the frame was incomplete.
    incomplete: u32,
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        ram::load(&self.ram, BASE, physical, size)
    }

    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        ram::store(&mut self.ram, BASE, physical, size, value)
    }

    fn device_in(&mut self, _: u64, _: u32) -> u64 {
        0
    }

    fn device_out(&mut self, _: u64, _: u32, _: u64) {}

    fn clock(&mut self) -> u64 {
        0
    }

    fn exception(&mut self, state: &State, number: u32) {
        if self.probes.as_mut().is_some_and(|probes| probes.takes(state, number)) {
            return;
        }
        let call = (number == vector::BREAK && state.fault_number.get() == 0x10_0000).then(|| state.r(15));
        match call {
            Some(1027) => {
                let frame = state.frame.get();
                assert_eq!(frame >> 7 & 0x7f, 0, "the arguments are the first registers of the frame");
                let [at, len] = [state.r(33), state.r(34)];
                let range = ram::range(&self.ram, BASE, at, len as u32).expect("RAM");
                self.output.extend(&self.ram[range]);
                step_over(state);
            }
            Some(1025) => state.stop.set(1),
            _ if self.has_kernel && (number != vector::BREAK || state.fault_number.get() != 7) => {
                self.handled += 1;
                state.stop.set((self.handled > 1000).into());
                self.incomplete += u32::from(state.fault_status.get() >> 37 & 3 == 3);
                state.interrupt(number);
            }
            _ => {
                self.faults.push((number, state.ip(), state.slot()));
                state.stop.set(1);
            }
        }
    }
}

/// Continues behind the instruction at the pc.
fn step_over(state: &State) {
    match state.slot() {
        2 => state.go_to(state.ip() + 16),
        slot => state.set_slot(slot + 1),
    }
}

/// A program in memory, ready to run.
fn machine(image: &[u8]) -> (Core, Rc<State>, Machine) {
    let mut ram = image.to_vec();
    ram.resize(RAM, 0);
    let core = Core::new();
    let state = core.shared_state();
    state.go_to(BASE);
    state.set_psr(1 << 13 | 3 << 32);
    state.store_at.set(BACKING);
    state.application[16].set(0xf);
    (
        core,
        state,
        Machine { ram, output: Vec::new(), faults: Vec::new(), has_kernel: false, handled: 0, probes: None, incomplete: 0 },
    )
}

/// Runs a program to its end; returns its output and the number of executed slots.
fn output(image: &[u8]) -> (Vec<u8>, u64) {
    let (mut core, state, mut machine) = machine(image);
    core.run_slots(&mut machine, 50_000_000);
    assert_eq!(machine.faults, [], "{:#x}.{} after {}", state.ip(), state.slot(), state.executed.get());
    assert!(state.executed.get() < 50_000_000, "it does not end: {:#x}.{}", state.ip(), state.slot());
    (machine.output, state.executed.get())
}

/// The program as an ELF executable.
fn executable(image: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01\0".to_vec();
    file.resize(16, 0);
    let halves = |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let words = |values: &[u64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    file.extend(halves(&[2, 50, 1, 0]));
    file.extend(words(&[BASE, 64, 0]));
    file.extend(halves(&[0x10, 0, 64, 56, 1, 64, 0, 0]));
    file.extend(halves(&[1, 0, 7, 0]));
    let len = image.len() as u64;
    file.extend(words(&[0x1_0000, BASE, BASE, len, len + 0x2_0000, 0x1_0000]));
    file.resize(0x1_0000, 0);
    file.extend(image);
    file
}

/// The program's output on ski, and the number of instructions; `None` without ski.
fn on_ski(name: &str, image: &[u8]) -> Option<(Vec<u8>, u64)> {
    let ski = std::env::var_os("TRAPLINE_SKI")?;
    let path = std::env::temp_dir().join(format!("trapline-{name}-{}", std::process::id()));
    std::fs::write(&path, executable(image)).expect("written");
    let run = Command::new("timeout").arg("60").arg(ski).args(OPTIONS.split(' ')).arg(Path::new(&path)).output();
    let _ = std::fs::remove_file(&path);
    let run = run.expect("ski");
    let text = String::from_utf8_lossy(&run.stderr);
    if run.stdout.is_empty() {
        println!("ski: {text}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let count = words.windows(2).find(|pair| pair[1].starts_with("insts")).and_then(|pair| pair[0].parse().ok());
    Some((run.stdout, count.unwrap_or(0)))
}

/// The options of ski. Without `-icnt` its count leaves out a few instructions.
const OPTIONS: &str = "-forceuser -noconsole -stats -icnt /dev/null";

/// The numbers of 8 bytes in an output.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes)).collect()
}

/// KP-2: translation of code, data and the backing store by the guest's handlers, and system calls that use the
/// caller's register stack. The expected results are those of the same functions without interruptions.
#[test]
fn a_kernel_handles_misses_and_system_calls() {
    let (mut core, state, mut machine) = machine(include_bytes!("ia64/system.bin"));
    machine.has_kernel = true;
    state.go_to(BASE + 0x3400);
    state.set_psr(0);
    core.run_slots(&mut machine, 1_000_000);
    let end = (vector::BREAK, 0x2000_0000_0010_3400 & !0xfff, 0);
    assert_eq!(machine.faults.iter().map(|(vector, ip, slot)| (*vector, ip & !0xfff, *slot)).collect::<Vec<_>>(), [end]);
    let results = numbers(&machine.ram[0x7_0000..][..96]);
    let sum = |count: u64| 3 * count * (count + 1) / 2;
    assert_eq!(results[..2], [sum(200), sum(50)]);
    assert_eq!(results[2], 77 + 88 + 99, "the registers of the frame under the system call");
    assert_eq!(results[3..6], [1616, 5, 3], "the banked register, a break in the last slot, three system calls");
    assert_eq!(results[6..8], [4711, 1], "a purged page misses once");
    assert_eq!(results[8..11], [0x16_0008, 1, 0], "its physical address; the kernel may write, a program may not");
    assert_eq!(results[11], 1, "one page of code has missed");
    assert!(machine.incomplete >= 2, "{} misses while a frame was loaded", machine.incomplete);
}

/// KP-2: the register stack, rotation, NaT bits, the ALAT, calls and semaphores, all in one program.
#[test]
fn a_tour_of_the_stack_ends_as_on_ski() {
    let image = include_bytes!("ia64/tour.bin");
    let (output, executed) = output(image);
    let recorded: Vec<u64> =
        include_str!("ia64/tour.txt").lines().filter_map(|line| u64::from_str_radix(line, 16).ok()).collect();
    assert_eq!(numbers(&output), recorded);
    assert_eq!(executed + CALLS, 81_798);
    if let Some(theirs) = on_ski("tour", image) {
        assert_eq!((output, executed + CALLS), theirs);
    }
}

/// System calls of a program, which ski counts as executed instructions.
const CALLS: u64 = 2;

/// The recorded counts of instructions, and the sums of ski's output: a line for each program.
const RECORDED: &str = include_str!("ia64/random.txt");

/// A sum of an output (FNV).
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// KP-2: random programs of all units end with ski's registers and memory. `TRAPLINE_SEEDS` sets their number beside ski.
#[test]
fn random_programs_end_as_on_ski() {
    let asked = std::env::var("TRAPLINE_SEEDS").ok().and_then(|count| count.parse().ok());
    let recorded: Vec<&str> = RECORDED.lines().collect();
    let count = asked.unwrap_or(recorded.len() as u64);
    let mut different = Vec::new();
    for seed in 1..=count {
        let image = code::image(seed);
        let (ours, executed) = output(&image);
        let executed = executed + CALLS;
        assert_eq!(ours.len(), 0x6000, "{seed}");
        match on_ski("random", &image) {
            Some((theirs, count)) => {
                assert_eq!(theirs.len(), ours.len(), "ski has run program {seed}");
                assert_eq!(executed, count, "instructions of program {seed}");
                println!("{count} {:016x}", sum(&theirs));
                let words = |bytes: &[u8]| bytes.chunks(8).map(<[u8]>::to_vec).collect::<Vec<_>>();
                if let Some(word) = words(&ours).iter().zip(words(&theirs)).position(|(ours, theirs)| *ours != theirs) {
                    different.push((seed, word));
                }
            }
            None => {
                let ours = format!("{executed} {:016x}", sum(&ours));
                assert_eq!(recorded.get(seed as usize - 1), Some(&ours.as_str()), "program {seed}");
            }
        }
    }
    assert_eq!(different, [], "programs, and their first words that differ");
}

/// Runs a program with a probe on every instruction; returns its output, the executed slots of the program, and the hits.
fn probed(image: &[u8], text: std::ops::Range<usize>, how: probes::How) -> (Vec<u8>, u64, probes::Hits) {
    let (mut core, state, mut machine) = machine(image);
    let mut probes = probes::Probes::new(how, WINDOW);
    for at in text.step_by(16) {
        probes.set(&mut machine.ram, BASE, at);
    }
    machine.probes = Some(probes);
    // A hit stops the core: its instruction runs between two runs.
    loop {
        core.run_slots(&mut machine, 10_000_000);
        let Some(original) = machine.probes.as_mut().and_then(probes::Probes::hit) else { break };
        core.run_instead(&mut machine, original);
        assert!(state.executed.get() < 10_000_000, "it does not end");
    }
    assert_eq!(machine.faults, [], "{:#x}.{}", state.ip(), state.slot());
    let hits = machine.probes.map(|probes| probes.hits).unwrap_or_default();
    (machine.output, state.executed.get(), hits)
}

/// The probe window, in the RAM above the backing store.
const WINDOW: u64 = BASE + 0x18_0000;

/// KP-1, KP-2: a probe on every instruction of every slot leaves programs as they are: computed, and in copies.
#[test]
fn a_probe_on_every_instruction_changes_nothing() {
    let tour: &[u8] = include_bytes!("ia64/tour.bin");
    let mut programs = vec![("tour".to_string(), tour.to_vec(), 0..TOUR_TEXT)];
    for seed in 1..=100 {
        programs.push((format!("program {seed}"), code::image(seed), code::BODY..code::BODY + 16 * code::BUNDLES));
    }
    let mut all = [0; 3];
    for (name, image, text) in programs {
        let plain = output(&image);
        for how in [probes::How::Computed, probes::How::Stepped, probes::How::Emulated] {
            let (output, executed, hits) = probed(&image, text.clone(), how);
            assert_eq!(output, plain.0, "{name}, {how:?}");
            assert_eq!(executed, plain.1, "{name}, {how:?}: {hits:?}");
            match how {
                probes::How::Computed => assert_eq!(hits.stepped, 0),
                probes::How::Stepped | probes::How::Emulated => all = [0, 1, 2].map(|slot| all[slot] + hits.in_slot[slot]),
            }
            assert!(hits.stepped + hits.computed + hits.emulated > 20, "{name}, {how:?}: {hits:?}");
        }
    }
    assert!(all.iter().all(|hits| *hits > 10_000), "hits in each slot: {all:?}");
}

/// Bytes of code in the tour.
const TOUR_TEXT: usize = 0x750;
