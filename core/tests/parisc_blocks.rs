//! PA-RISC: a guest that runs by blocks has the same state, memory, interruptions and time as one that runs instruction by
//! instruction: random kernels, which change their own code.

// The programs of that module are compared with QEMU's.
#[allow(dead_code)]
mod program;

use program::{Random, low_sign};
use std::rc::Rc;
use trapline_core::parisc::{Core, Entry, State, number, psw};
use trapline_core::{Access, Host};

/// The RAM of a kernel begins at address 0.
const RAM: usize = 0x1_0000;
/// Kernels, unless `TRAPLINE_KERNELS` sets another number.
const KERNELS: u64 = 1_000;
/// Instructions of each kernel, at least.
const LEAST: i64 = 300;
const MOST_INTERRUPTIONS: usize = 1000;

/// The machine of a kernel, which notes all that is visible outside of the CPU.
struct Machine<const TELLS: bool> {
    state: Rc<State>,
    ram: Vec<u8>,
    /// Counted instructions, without those behind the current one in its block.
    counted: i64,
    /// The count at the start of the run.
    start: i64,
    /// Whether blocks end and report themselves at some addresses.
    breaks: bool,
    events: Vec<Event>,
    accesses: Vec<Access>,
}

/// An interruption, an access to a device, or a read of the clock.
#[derive(Debug, PartialEq, Eq)]
struct Event {
    kind: &'static str,
    number: u64,
    value: u32,
    /// The instructions up to this one.
    executed: i64,
    seen: Vec<u32>,
}

/// The registers of a CPU.
fn seen(state: &State) -> Vec<u32> {
    let queue = [
        &state.front,
        &state.back,
        &state.front_space,
        &state.back_space,
        &state.front_level,
        &state.back_level,
        &state.replace,
        &state.word,
        &state.at_space,
        &state.at,
    ];
    let all = state.general.iter().chain(queue).chain(&state.spaces).chain(&state.control);
    let all = all.chain(&state.saved_back).chain(&state.shadows).map(|cell| cell.get());
    all.chain([state.psw()]).collect()
}

impl<const TELLS: bool> Machine<TELLS> {
    fn of(core: &Core, ram: &[u8], breaks: bool) -> Machine<TELLS> {
        let (state, ram) = (core.shared_state(), ram.to_vec());
        Machine { state, ram, counted: 0, start: 0, breaks, events: Vec::new(), accesses: Vec::new() }
    }

    /// Runs so many instructions, or to the end of the block in which they end. At the end `counted` is right.
    fn run(&mut self, core: &mut Core, instructions: i64) {
        self.start = -4 * instructions;
        self.state.line.count.set(self.start);
        core.run(self);
        self.counted += self.ran();
    }

    /// The instructions that were counted in this run.
    fn ran(&self) -> i64 {
        (self.state.line.count.get() - self.start) / 4
    }

    /// The instructions behind the current one in its block, which are counted but have not run.
    fn rest(&self) -> i64 {
        let line = &self.state.line;
        let end = line.start.get() + line.size.get();
        (end - u64::from(self.state.front.get())) as i64 / 4 - 1
    }

    fn note(&mut self, kind: &'static str, number: u64, value: u32, rest: i64) {
        let executed = self.counted + self.ran() - rest;
        self.events.push(Event { kind, number, value, executed, seen: seen(&self.state) });
    }

    fn breaks(&self, pc: u64, at: u64) -> bool {
        self.breaks && pc % 0x80 == at
    }
}

impl<const TELLS: bool> Host for Machine<TELLS> {
    const TELLS: bool = TELLS;

    fn accesses(&mut self, pc: u32, _: u32, _: u32, _: bool) {
        assert_eq!(pc, self.state.front.get());
    }
    fn accessed(&mut self, access: &Access) {
        self.accesses.push(*access);
    }
    fn breaks_at(&mut self, pc: u64) -> bool {
        self.breaks(pc, 0x20)
    }
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let from = physical as usize;
        let bytes = self.ram.get(from..from + size as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let from = physical as usize;
        let Some(bytes) = self.ram.get_mut(from..from + size as usize) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, physical: u64, size: u32) -> u32 {
        let value = physical as u32 ^ 0x5555;
        self.note("in", physical, value, self.rest());
        value & u32::MAX >> (32 - 8 * size)
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u32) {
        self.note("out", physical, value, self.rest());
    }
    fn block(&mut self, pc: u64, size: u32) {
        let line = &self.state.line;
        if line.count.get() >= 0 {
            return self.state.stop.set(1);
        }
        line.count.set(line.count.get() + i64::from(size));
        line.start.set(pc);
        line.size.set(size.into());
    }
    fn always_wants(&mut self, pc: u64) -> bool {
        self.breaks(pc, 0x40)
    }
    fn exception(&mut self, number: u32) {
        let state = Rc::clone(&self.state);
        let is_fetch =
            matches!(number, number::CODE_MISS | number::CODE_RIGHTS) || number == number::ILLEGAL && state.word.get() == 0;
        let rest = if is_fetch { 0 } else { self.rest() };
        self.note("interruption", number.into(), 0, rest);
        // The instructions behind this one do not run.
        self.counted -= rest;
        state.stop.set((self.events.len() > MOST_INTERRUPTIONS).into());
        // Most faults of instructions are stepped over, or no guest would come far.
        match is_fetch || self.events.len().is_multiple_of(16) {
            true => state.interrupt(number),
            false => state.nullify.set(1),
        }
    }
    fn read_clock(&mut self) {
        self.note("clock", 0, 0, self.rest());
        let time = self.events.last().map_or(0, |event| event.executed);
        self.state.general[self.state.clock_to.get() as usize].set(time as u32);
    }
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

/// A random word: often an instruction that exists, with registers that are often the same. Branches go a few words.
fn word(random: &mut Random) -> u32 {
    const ARITHMETIC: [u32; 24] = [
        0x00, 0x08, 0x09, 0x0a, 0x0e, 0x26, 0x27, 0x22, 0x11, 0x18, 0x1a, 0x28, 0x2b, 0x1c, 0x10, 0x13, 0x14, 0x38, 0x3c, 0x30,
        0x33, 0x34, 0x2e, 0x2f,
    ];
    let mut register = || match random.below(8) {
        0 => 0,
        1..4 => random.below(32),
        _ => random.below(6),
    };
    let [a, b, t] = [register(), register(), register()];
    let fields = a << 21 | b << 16;
    // Half of the conditions are 0.
    let condition = if random.below(2) == 0 { 0 } else { random.below(16) << 12 };
    let words = random.below(17) as i32 - 8;
    let (nullifies, distance) = (random.below(2) << 1, low_sign(words, 12) >> 1 | (words < 0) as u32);
    let near = (distance >> 1 & 0x3ff) << 3 | (words < 0) as u32 | ((words < 0) as u32) << 2 | nullifies;
    match random.below(64) {
        0..18 => 2 << 26 | fields | condition | ARITHMETIC[random.below(24) as usize] << 6 | t,
        18..24 => [0x24, 0x25, 0x2c, 0x2d][random.below(4) as usize] << 26 | fields | condition | random.next() & 0xfff,
        24..27 => 0x34 << 26 | fields | random.next() & 0xffff,
        27..30 => 0x35 << 26 | fields | random.next() & 0xffff,
        30..33 => [0x08, 0x0a, 0x0d][random.below(3) as usize] << 26 | fields | random.below(64),
        33..41 => {
            let code = [0x10, 0x11, 0x12, 0x18, 0x19, 0x1a, 0x13, 0x1b][random.below(8) as usize];
            code << 26 | fields | low_sign(random.below(64) as i32 * 4 - 128, 14)
        }
        41..44 => 3 << 26 | fields | random.next() & 0xffff,
        44..54 => {
            let code = [0x20, 0x21, 0x22, 0x23, 0x28, 0x29, 0x2a, 0x2b, 0x30, 0x31, 0x32, 0x33][random.below(12) as usize];
            code << 26 | fields | random.below(8) << 13 | near
        }
        54..56 => 0x3a << 26 | a << 21 | if words < 0 { 31 << 16 } else { 0 } | random.below(2) << 13 | near,
        56 => 0x3a << 26 | fields | [2, 4, 6, 7][random.below(4) as usize] << 13 | random.below(2) << 12 | nullifies,
        57 => [0x38, 0x39][random.below(2) as usize] << 26 | fields | random.below(8) << 13 | nullifies,
        58..60 => {
            let code = [0x00, 0x20, 0x25, 0x45, 0x60, 0x65, 0x6b, 0x73, 0x85, 0xa5, 0xc1, 0xc2, 0xc3][random.below(13) as usize];
            // Often the clock or the shift amount.
            let a = if random.below(2) == 0 { [11, 16][random.below(2) as usize] } else { a };
            a << 21 | b << 16 | random.below(8) << 13 | code << 5 | t
        }
        60 => 1 << 26 | fields | random.next() & 0xffff,
        61 => 5 << 26 | random.below(8),
        _ => random.next(),
    }
}

/// A random state that is often translated.
fn prepare(random: &mut Random, state: &State) {
    let mut number = || match random.below(4) {
        0 => random.below(256),
        1 => random.next(),
        _ => random.below(RAM as u32) & !3,
    };
    state.general[1..].iter().for_each(|cell| cell.set(number()));
    state.spaces.iter().for_each(|cell| cell.set(random.below(3)));
    for page in 0..48 {
        let entry: &Entry = &state.tlb.0[page as usize];
        entry.space.set(page / 16);
        // The entry has an address and rights.
        entry.page.set((page % 16) << 12 | 3);
        // One page in eight is elsewhere.
        let physical = if random.below(8) == 0 { random.below(20) } else { page % 16 };
        entry.physical.set(physical << 12);
        let kind = [3, 3, 3, 3, 1, 2, 4, 6][random.below(8) as usize];
        let dirty = (random.below(8) != 0) as u32;
        let writable = if random.below(8) == 0 { 3 } else { 0 };
        entry.rights.set(dirty << 28 | kind << 24 | 3 << 22 | writable << 20 | random.below(4) << 1);
    }
    let translated = [0, psw::D, psw::C, psw::C | psw::D][random.below(4) as usize];
    state.set_psw(translated | random.next() & (psw::I | psw::P | psw::Q | psw::CARRIES | psw::V | psw::N));
    state.front_level.set(if random.below(2) == 0 { 0 } else { random.below(4) });
    state.front_space.set(random.below(3));
    state.control[number::SAR].set(random.below(32));
    state.go_to(random.below(RAM as u32) & !3);
}

/// The differences of two runs, without the events that are equal.
fn differences(blocks: &[Event], singles: &[Event]) -> Option<String> {
    let first = blocks.iter().zip(singles).position(|(one, other)| one != other);
    let first = first.or((blocks.len() != singles.len()).then_some(blocks.len().min(singles.len())))?;
    Some(format!("event {first} of {}: {:?}, {:?}", blocks.len(), blocks.get(first), singles.get(first)))
}

/// KP-2: random kernels, which also store to their own code, run alike by blocks, by blocks with reports of accesses, by
/// single instructions, and by runs of one instruction, as a debugger steps.
#[test]
fn random_kernels_run_alike_by_blocks() {
    let asked = std::env::var("TRAPLINE_KERNELS").ok().and_then(|count| count.parse().ok());
    let kernels = asked.unwrap_or(KERNELS);
    let (mut executed, mut interruptions, mut digest) = (0, 0, 0_u64);
    for seed in 1..=kernels {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let ram: Vec<u8> = (0..RAM / 4).flat_map(|_| word(&mut random).to_be_bytes()).collect();
        let turn = if random.below(4) == 0 { LEAST } else { 1 + i64::from(random.below(60)) };
        let breaks = random.below(4) == 0;
        let new = || {
            let core = Core::new(0, RAM as u64);
            prepare(&mut Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1), core.state());
            core
        };
        let mut core = new();
        let mut blocks = Machine::<false>::of(&core, &ram, breaks);
        // It stops where an instruction has just run, so that the others can stop there, too.
        while blocks.counted < LEAST && blocks.events.len() <= MOST_INTERRUPTIONS {
            blocks.run(&mut core, turn);
        }
        let end = blocks.counted;

        let mut core = new();
        let mut told = Machine::<true>::of(&core, &ram, breaks);
        while told.counted < end && told.events.len() <= MOST_INTERRUPTIONS {
            told.run(&mut core, turn);
        }
        assert_eq!(differences(&blocks.events, &told.events), None, "kernel {seed}, whose accesses are reported");
        assert!(blocks.ram == told.ram && seen(&blocks.state) == seen(&told.state), "kernel {seed}, whose accesses are reported");

        let mut core = new();
        core.set_one_by_one(true);
        let mut singles = Machine::<true>::of(&core, &ram, false);
        singles.run(&mut core, end);
        assert_eq!(differences(&blocks.events, &singles.events), None, "kernel {seed}");
        assert_eq!(end, singles.counted, "kernel {seed}");
        assert_eq!(seen(&blocks.state), seen(&singles.state), "kernel {seed}");
        assert_eq!(told.accesses, singles.accesses, "kernel {seed}");
        assert!(blocks.ram == singles.ram, "memory of kernel {seed}");

        if seed.is_multiple_of(8) {
            let mut core = new();
            let mut alone = Machine::<false>::of(&core, &ram, false);
            while alone.counted < end && alone.events.len() <= MOST_INTERRUPTIONS {
                core.begin_alone();
                alone.run(&mut core, 1);
            }
            assert_eq!(differences(&blocks.events, &alone.events), None, "kernel {seed}, each run one instruction");
            assert!(
                blocks.ram == alone.ram && seen(&blocks.state) == seen(&alone.state),
                "kernel {seed}, each run one instruction"
            );
        }
        executed += end;
        interruptions += blocks.events.len();
        let events = blocks.events.iter().flat_map(|event| event.seen.iter().copied().chain([event.executed as u32]));
        let numbers = seen(&blocks.state).into_iter().chain(blocks.ram.iter().map(|byte| (*byte).into())).chain(events);
        digest = numbers.fold(digest, |digest, number| (digest ^ u64::from(number)).wrapping_mul(0x100_0000_01b3).rotate_left(9));
    }
    // The digest tells whether a change of the core has changed a result.
    println!("{executed} instructions, {interruptions} interruptions, digest {digest:x}");
    assert!(executed > 100 * kernels as i64 && interruptions > 1000, "{executed} instructions, {interruptions} interruptions");
}
