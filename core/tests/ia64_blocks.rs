//! IA-64: a guest that runs by blocks has the same state, memory and interruptions as one that runs instruction by
//! instruction: random programs, and random kernels that change their own code.

#[path = "ia64/code/mod.rs"]
mod code;
#[path = "ia64/ram.rs"]
mod ram;

use code::Random;
use std::rc::Rc;
use trapline_core::Access;
use trapline_core::ia64::{Core, Entry, Host, State, ar, cr, isr, psr, vector};
use trapline_isa::ia64::bundle::{Bundle, Template, Unit};
use trapline_isa::ia64::decode::decode;
use trapline_isa::ia64::op::{Op, System};

/// The address of programs.
const BASE: u64 = 0x10_0000;
/// The backing store of programs, far above the image.
const BACKING: u64 = BASE + 0x10_0000;
const PROGRAM_RAM: usize = 0x20_0000;
/// Programs, as many as there are recorded ones.
const PROGRAMS: u64 = 300;

/// The RAM of a kernel begins at address 0.
const KERNEL_RAM: usize = 0x1_0000;
/// Kernels, unless `TRAPLINE_KERNELS` sets another number.
const KERNELS: u64 = 1_000;
/// Instructions of each kernel, at least.
const SLOTS: u64 = 300;
const MOST_INTERRUPTIONS: u64 = 1000;

#[derive(PartialEq)]
struct Machine {
    base: u64,
    ram: Vec<u8>,
    output: Vec<u8>,
    /// The vector, the pc, and the number of instructions in front of each interruption.
    interruptions: Vec<(u32, u64, u64)>,
    devices: Vec<(u64, u64)>,
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        ram::load(&self.ram, self.base, physical, size)
    }
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        ram::store(&mut self.ram, self.base, physical, size, value)
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u64 {
        self.devices.push((physical, 0));
        physical ^ 0x5555
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u64) {
        self.devices.push((physical, value));
    }
    fn clock(&mut self) -> u64 {
        7
    }
    fn exception(&mut self, state: &State, number: u32) {
        self.interruptions.push((number, state.pc.get(), state.executed.get()));
        if self.base == 0 {
            state.stop.set((self.interruptions.len() as u64 > MOST_INTERRUPTIONS).into());
            // Most faults of instructions are stepped over, or no guest would come far.
            let is_fetch = state.fault_status.get() & isr::X != 0;
            match self.interruptions.len().is_multiple_of(16) || is_fetch || state.fault_status.get() & isr::RS != 0 {
                true => state.interrupt(number),
                false => step_over(state),
            }
            return;
        }
        if number != vector::BREAK || state.fault_number.get() != 0x10_0000 || state.r(15) != 1027 {
            return state.stop.set(1);
        }
        let range = ram::range(&self.ram, self.base, state.r(33), state.r(34) as u32).expect("RAM");
        self.output.extend(&self.ram[range]);
        step_over(state);
    }
}

/// Continues behind the instruction at the pc.
fn step_over(state: &State) {
    match state.slot() {
        2 => state.go_to(state.ip().wrapping_add(16)),
        slot => state.set_slot(slot + 1),
    }
}

/// The state of a CPU as its guest sees it, as text.
fn seen(state: &State) -> String {
    let text = format!("{state:?} executed {}", state.executed.get());
    text.replacen(
        &text[text.find(", changes:").expect("the first field of the host")..text.rfind(" executed").expect("its end")],
        "",
        1,
    )
}

/// The values that differ, with the name of the field in front of each and its place in the text.
fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let mut field = String::new();
    let parts = ours.split(", ").zip(theirs.split(", ")).enumerate();
    let different = parts.filter_map(|(place, (ours, theirs))| {
        if let Some((name, _)) = ours.rsplit_once(": ").and_then(|(name, _)| name.rsplit_once(": ")) {
            field = name.to_string();
        }
        (ours != theirs).then(|| format!("{field} at {place}: {ours}, {theirs}"))
    });
    different.collect()
}

fn machine(base: u64, ram: Vec<u8>) -> Machine {
    Machine { base, ram, output: Vec::new(), interruptions: Vec::new(), devices: Vec::new() }
}

/// KP-2: programs of all instructions end in the same state.
#[test]
fn random_programs_run_alike_by_blocks() {
    for seed in 1..=PROGRAMS {
        let mut ram = code::image(seed);
        ram.resize(PROGRAM_RAM, 0);
        let (blocks, slots) = (program::<false>(&ram, true), program::<true>(&ram, false));
        assert_eq!(differences(&blocks.seen, &slots.seen), Vec::<String>::new(), "program {seed}");
        assert!(blocks.machine == slots.machine && blocks.executed == slots.executed, "program {seed}");
        assert!((300..1_000_000).contains(&blocks.executed), "program {seed}: {}", blocks.executed);
        assert_eq!(blocks.machine.output.len(), 0x6000);
        let told = program::<true>(&ram, true);
        assert_eq!(told.accesses, slots.accesses, "program {seed}");
        assert!(told.accesses.len() > 100 && told.machine == slots.machine && told.seen == slots.seen, "program {seed}");
    }
}

/// A run of a program.
struct Ran {
    machine: Machine,
    seen: String,
    executed: u64,
    accesses: Vec<Access>,
}

/// Runs a program. With `TELLS`, the core reports its accesses.
fn program<const TELLS: bool>(ram: &[u8], by_blocks: bool) -> Ran {
    let mut core = if by_blocks { Core::with_ram(BASE, PROGRAM_RAM as u64) } else { Core::new() };
    let state = core.shared_state();
    let machine = machine(BASE, ram.to_vec());
    let mut host = Stopped::<TELLS> { machine, state: core.shared_state(), accesses: Vec::new() };
    state.go_to(BASE);
    state.set_psr(psr::IC | 3 << psr::CPL);
    state.store_at.set(BACKING);
    state.application[usize::from(ar::RSC)].set(0xf);
    state.line.count.set(i64::MIN);
    match by_blocks {
        true => core.run(&mut host),
        false => core.run_slots(&mut host, 1_000_000),
    }
    Ran { machine: host.machine, seen: seen(&state), executed: state.executed.get(), accesses: host.accesses }
}

/// A random kernel: words of instructions, half of them ones that exist, and a state that is often translated.
fn kernel(random: &mut Random) -> Vec<u8> {
    let mut ram = vec![0; KERNEL_RAM];
    for bundle in ram.chunks_exact_mut(16) {
        let number = (0..).map(|_| random.below(32) as u8).find(|number| Template::of(*number).is_some()).unwrap_or(0);
        let units = Template::of(number).map_or([Unit::M; 3], |template| template.units);
        let words = units.map(|unit| match random.below(8) {
            0 => random.next() >> random.below(24),
            _ => any_instruction(random, unit),
        });
        bundle.copy_from_slice(&Bundle::new(number, words).bytes());
    }
    ram
}

/// A word that is an instruction of the unit, with registers that are often the same. Branches go a few bundles.
fn any_instruction(random: &mut Random, unit: Unit) -> u64 {
    let register = |random: &mut Random| match random.below(4) {
        0 => random.below(128),
        1 => 32 + random.below(8),
        _ => random.below(32),
    };
    let opcodes: &[u64] = match unit {
        Unit::B => &[4, 4, 4, 5, 0, 1],
        Unit::M => &[8, 9, 4, 4, 4, 5, 5, 8, 12, 1],
        Unit::I => &[8, 9, 12, 13, 14, 5, 7, 0],
        _ => &[0, 6],
    };
    for _ in 0..100 {
        let opcode = opcodes[random.below(opcodes.len() as u64) as usize];
        let predicate = if random.below(2) == 0 { 0 } else { random.below(64) };
        let [to, a, b] = [0; 3].map(|_| register(random));
        let word = match (unit, opcode) {
            (Unit::B, 4 | 5) => {
                let bundles = random.below(17) as i64 - 8;
                (opcode << 37) | ((bundles as u64 & 0xf_ffff) << 13) | ((bundles < 0) as u64) << 36 | (to & 0xf) << 6 | predicate
            }
            _ => opcode << 37 | (random.below(1 << 10) << 27) | b << 20 | a << 13 | to << 6 | predicate,
        };
        if decode(unit, word, 0).is_some_and(|insn| !matches!(insn.op, Op::Break { .. } | Op::System(System::Rfi))) {
            return word;
        }
    }
    random.next() >> 23
}

fn prepare(random: &mut Random, state: &State) {
    let mut number = |few: bool| match random.below(4) {
        0 => random.below(256),
        1 => random.next(),
        _ if few => random.below(KERNEL_RAM as u64) & !15,
        _ => random.below(KERNEL_RAM as u64) & !7,
    };
    state.general[1..].iter().chain(&state.stacked).for_each(|cell| cell.set(number(false)));
    state.branch.iter().for_each(|cell| cell.set(number(true)));
    state.application[usize::from(ar::LC)].set(number(true) & 0xff);
    state.application[usize::from(ar::PFS)].set(number(true) & 0xff0f_ffff);
    state.regions.iter().for_each(|cell| cell.set(0x300));
    state.store_at.set((0x8000 + random.below(0x1000)) & !7);
    state.predicates.set(random.next() | 1);
    // Sometimes a few registers have NaT bits.
    if random.below(4) == 0 {
        state.nat.set(random.next() as u32 & random.next() as u32 & !1);
        state.stacked_nat[0].set(random.next() & random.next() & random.next() & ((1 << 48) - 1));
    }
    let locals = random.below(49);
    let rotating = if random.below(2) == 0 { 0 } else { random.below(locals / 8 + 1) };
    let bases = if rotating == 0 { 0 } else { random.below(8 * rotating) << 18 | random.below(48) << 32 };
    state.set_frame((locals + random.below(48)) | locals << 7 | rotating << 14 | bases);
    for half in [&state.tlb.code, &state.tlb.data] {
        half.registers[0].set(Entry { page: 0, pte: 0x661, region: 3, bits: 16, key: 0 });
        // One page is elsewhere, and read-only.
        half.registers[1].set(Entry { page: 0x1_0000, pte: 0x4061, region: 3, bits: 12, key: 0 });
    }
    let translated = if random.below(2) == 0 { 0 } else { psr::DT | psr::RT | psr::IT };
    state.set_psr(translated | random.next() & (psr::IC | psr::I | psr::BN | psr::DFH));
}

/// KP-2: random kernels, which also store to their own code, run alike.
#[test]
fn random_kernels_run_alike_by_blocks() {
    let asked = std::env::var("TRAPLINE_KERNELS").ok().and_then(|count| count.parse().ok());
    let kernels = asked.unwrap_or(KERNELS);
    let (mut executed, mut interruptions) = (0, 0);
    for seed in 1..=kernels {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let ram = kernel(&mut random);
        let (entry, turn) = (random.below(KERNEL_RAM as u64) & !15, 16 * (1 + random.below(60) as i64));
        let start = |core: &Core| {
            prepare(&mut Random(seed.wrapping_mul(0xd134_2543_de82_ef95) | 1), core.state());
            core.state().control[cr::IVA].set(0);
            core.state().go_to(entry);
        };
        let mut core = Core::with_ram(0, KERNEL_RAM as u64);
        start(&core);
        let state = core.shared_state();
        let mut blocks = Stopped::<false> { machine: machine(0, ram.clone()), state, accesses: Vec::new() };
        // It stops where an instruction has just run, so that the other one can stop there, too.
        for _ in 0..4 * SLOTS {
            core.state().line.count.set(-turn);
            core.run(&mut blocks);
            let last = blocks.machine.interruptions.last().map_or(0, |last| last.2);
            if core.state().executed.get() > last.max(SLOTS) || blocks.machine.interruptions.len() as u64 > MOST_INTERRUPTIONS {
                break;
            }
        }
        let (blocks, state) = (blocks.machine, core.shared_state());
        if blocks.interruptions.last().is_some_and(|last| last.2 >= state.executed.get()) {
            continue;
        }
        let (mut core, mut slots) = (Core::with_ram(0, KERNEL_RAM as u64), machine(0, ram));
        start(&core);
        if state.executed.get() != 0 {
            core.run_slots(&mut slots, state.executed.get());
        }
        // A block's frame is loaded before the host is called for its count.
        if state.loads.get() != core.state().loads.get() {
            continue;
        }
        assert_eq!(blocks.interruptions, slots.interruptions, "kernel {seed}");
        assert_eq!(differences(&seen(&state), &seen(core.state())), Vec::<String>::new(), "kernel {seed}");
        assert!(blocks == slots, "memory or devices of kernel {seed}");
        executed += state.executed.get();
        interruptions += blocks.interruptions.len();
    }
    println!("{executed} instructions, {interruptions} interruptions");
    assert!(executed > 100 * kernels && interruptions > 1000, "{executed} instructions, {interruptions} interruptions");
}

/// A machine that stops its core in front of a block when the count has run out, and notes the accesses that are reported.
struct Stopped<const TELLS: bool> {
    machine: Machine,
    state: Rc<State>,
    accesses: Vec<Access>,
}

impl<const TELLS: bool> Host for Stopped<TELLS> {
    const TELLS: bool = TELLS;

    fn accesses(&mut self, pc: u64, _: u64, _: u32, _: bool) {
        assert_eq!(pc, self.state.pc.get());
    }
    fn accessed(&mut self, access: &Access) {
        self.accesses.push(*access);
    }
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        self.machine.load(physical, size)
    }
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        self.machine.store(physical, size, value)
    }
    fn device_in(&mut self, physical: u64, size: u32) -> u64 {
        self.machine.device_in(physical, size)
    }
    fn device_out(&mut self, physical: u64, size: u32, value: u64) {
        self.machine.device_out(physical, size, value);
    }
    fn clock(&mut self) -> u64 {
        self.machine.clock()
    }
    fn block(&mut self, _: u64, _: u32) {
        self.state.stop.set(1);
    }
    fn exception(&mut self, state: &State, number: u32) {
        self.machine.exception(state, number);
    }
}
