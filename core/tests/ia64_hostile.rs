//! IA-64: a guest in kernel mode with random instructions and a random state neither panics the core nor keeps it from coming
//! back.

#[path = "ia64/code/mod.rs"]
#[allow(dead_code, reason = "another test makes programs of it")]
mod code;
#[path = "ia64/ram.rs"]
mod ram;

use code::Random;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use trapline_core::ia64::{Core, Entry, Host, Real, State, ar, cr, psr};
use trapline_isa::ia64::bundle::{Bundle, Template};

const RAM: usize = 0x1_0000;
/// Guests of one run of the test.
const GUESTS: u64 = 4_000;
/// Instructions of each guest.
const SLOTS: u64 = 400;
/// Calls of the host, of which each instruction can cause several: the engine of the register stack loads and stores.
const MOST_CALLS: u64 = 400 * SLOTS;

struct Machine {
    state: Rc<State>,
    ram: Vec<u8>,
    calls: u64,
    exceptions: u64,
}

impl Host for Machine {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        self.calls += 1;
        ram::load(&self.ram, 0, physical, size)
    }
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        self.calls += 1;
        ram::store(&mut self.ram, 0, physical, size, value)
    }
    fn device_in(&mut self, _: u64, _: u32) -> u64 {
        0
    }
    fn device_out(&mut self, _: u64, _: u32, _: u64) {}
    fn clock(&mut self) -> u64 {
        7
    }
    fn block(&mut self, _: u64, _: u32) {
        self.state.stop.set(1);
    }
    fn exception(&mut self, state: &State, number: u32) {
        self.exceptions += 1;
        // A handler that faults itself executes nothing.
        if self.exceptions >= SLOTS {
            state.stop.set(1);
        }
        state.interrupt(number);
    }
}

/// A number that is often at an edge: small, all ones, an address of RAM, or one bit.
fn edge(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.below(256),
        1 => u64::MAX - random.below(4),
        2 => random.below(RAM as u64) & !7,
        3 => 1 << random.below(64),
        4 => (random.below(8) << 61) | random.below(RAM as u64),
        _ => random.next(),
    }
}

fn fill(random: &mut Random, cells: &[Cell<u64>]) {
    cells.iter().for_each(|cell| cell.set(edge(random)));
}

/// The state as a guest can make it: every register that instructions write.
fn draw(random: &mut Random, state: &State) {
    fill(random, &state.general[1..]);
    fill(random, &state.banked);
    fill(random, &state.branch);
    fill(random, &state.control);
    fill(random, &state.application);
    fill(random, &state.regions);
    for real in &state.real[2..] {
        real.set(Real { significand: edge(random), exponent: edge(random) & 0x3_ffff });
    }
    // A kernel's return is an interruption's, with a frame that it has made up.
    state.application[usize::from(ar::RSC)].set(random.below(1 << 16) | random.below(1 << 14) << 16);
    state.control[cr::IFS].set(random.below(2) << 63 | random.next() & ((1 << 38) - 1));
    state.control[cr::IVA].set(0);
    state.control[cr::IIP].set(random.below(RAM as u64) & !15);
    state.control[cr::IPSR].set(status(random) | random.below(3) << psr::RI);
    state.predicates.set(random.next() | 1);
    state.store_at.set(edge(random) & !7);
    for cell in [&state.tlb.code, &state.tlb.data].into_iter().flat_map(|half| half.registers.iter().take(4)) {
        let bits = [12, 13, 14, 16, 18, 20, 22, 24, 26, 28][random.below(10) as usize];
        cell.set(Entry { page: edge(random) & !0xfff, pte: edge(random) | 0x661, region: random.below(4), bits, key: 0 });
    }
    state.set_psr(status(random));
}

fn status(random: &mut Random) -> u64 {
    let translated = if random.below(2) == 0 { 0 } else { psr::DT | psr::RT | psr::IT };
    random.next() & (psr::AC | psr::IC | psr::I | psr::DFL | psr::DFH | psr::BN | psr::ED) | translated
}

/// KP-2: no guest panics the core, and the work of an instruction is bounded.
#[test]
fn hostile_kernels_neither_panic_nor_hang() {
    let started = Instant::now();
    let mut executed = 0;
    for seed in 1..=GUESTS {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut ram = vec![0; RAM];
        for bundle in ram.chunks_exact_mut(16) {
            let number = (0..).map(|_| random.below(32) as u8).find(|number| Template::of(*number).is_some()).unwrap_or(0);
            // Zeros are breaks; a word of another seed is often no instruction.
            let words = [0; 3].map(|_| random.next() >> random.below(24));
            bundle.copy_from_slice(&Bundle::new(number, words).bytes());
        }
        for by_blocks in [false, true] {
            let mut random = Random(random.0);
            let mut core = Core::with_ram(0, RAM as u64);
            let state = core.shared_state();
            draw(&mut random, &state);
            state.go_to(random.below(RAM as u64));
            let mut machine = Machine { state: Rc::clone(&state), ram: ram.clone(), calls: 0, exceptions: 0 };
            while by_blocks && state.executed.get() < SLOTS && machine.exceptions < SLOTS {
                state.line.count.set(-16 * SLOTS as i64);
                core.run(&mut machine);
            }
            if !by_blocks {
                core.run_slots(&mut machine, SLOTS);
            }
            executed += state.executed.get();
            assert!(machine.calls < MOST_CALLS, "guest {seed}: {} calls of the host", machine.calls);
        }
    }
    println!("{executed} instructions in {:?}", started.elapsed());
}

/// KP-2: frames that are never completed do not add up to more than the registers there are.
#[test]
fn frames_that_are_never_completed_do_not_add_up() {
    let core = Core::with_ram(0, RAM as u64);
    let state = core.state();
    for _ in 0..1_000 {
        state.control[cr::IFS].set(1 << 63 | 96);
        state.set_frame_at(state.frame_at().wrapping_sub(8 * 96));
    }
    assert!((-96..=0).contains(&state.dirty.get()), "{} registers are missing", state.dirty.get());
}
