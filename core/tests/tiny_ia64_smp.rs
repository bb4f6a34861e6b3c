//! The tiny kernel for IA-64 runs on two CPUs that take turns: locks, reschedule interrupts, tasks that move from one CPU to
//! the other with the registers of their backing stores.

#[path = "ia64/tiny/mod.rs"]
mod tiny;

use std::cell::RefCell;
use std::rc::Rc;
use tiny::{CPUS, INTERRUPT, PORTS, RAM};
use trapline_core::ia64::{Core, Host, State, psr, vector};

/// The memory and the board, which both CPUs share.
struct Shared {
    memory: Vec<u8>,
    console: String,
    status: Option<u64>,
    /// The time at the start of the turn, in nanoseconds.
    now: u64,
    /// Pending interrupts of each CPU, by number: that of the timer, and the one that another CPU has sent.
    pending: [[bool; 2]; CPUS],
    sent: u32,
}

/// One CPU's side of the board.
struct Side {
    number: usize,
    state: Rc<State>,
    shared: Rc<RefCell<Shared>>,
    /// Instructions that had run at the start of the turn.
    before: u64,
    period: u64,
    next_tick: u64,
    in_service: Option<usize>,
    asleep: bool,
}

/// The numbers of the pending interrupts.
const TIMER: usize = 0;
const RESCHEDULE: usize = 1;

impl Side {
    fn now(&self) -> u64 {
        self.shared.borrow().now + (self.state.executed.get() - self.before) * 4 / 3
    }

    /// Delivers a pending interrupt if the CPU accepts it, and wakes the CPU in any case.
    fn deliver(&mut self) {
        let mut shared = self.shared.borrow_mut();
        let pending = &mut shared.pending[self.number];
        let Some(interrupt) = pending.iter().position(|pending| *pending) else { return };
        self.asleep = false;
        if self.in_service.is_some() || self.state.status.get() & psr::I == 0 {
            return;
        }
        pending[interrupt] = false;
        self.in_service = Some(interrupt);
        drop(shared);
        if interrupt == TIMER {
            self.next_tick = self.now() + self.period;
        }
        self.state.raise(INTERRUPT);
        assert!(self.state.wants_interrupt());
        self.state.interrupt(vector::EXTERNAL);
    }
}

impl Host for Side {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        tiny::load(&self.shared.borrow().memory, physical, size)
    }
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        tiny::store(&mut self.shared.borrow_mut().memory, physical, size, value)
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u64 {
        match physical.wrapping_sub(PORTS) {
            0x504 => self.now() & 0xffff_ffff,
            0x508 => self.now() >> 32,
            0x50c => self.number as u64,
            0x510 => CPUS as u64,
            0x51c => self.in_service.map_or(0, |interrupt| 0x20 + interrupt as u64),
            _ => 0,
        }
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u64) {
        match physical.wrapping_sub(PORTS) {
            0xe9 => self.shared.borrow_mut().console.push(char::from(value as u8)),
            0x500 => (self.period, self.next_tick) = (value, self.now() + value),
            0x514 => {
                let mut shared = self.shared.borrow_mut();
                shared.sent += 1;
                (0..CPUS).filter(|cpu| value >> cpu & 1 != 0).for_each(|cpu| shared.pending[cpu][RESCHEDULE] = true);
            }
            0x518 => self.in_service = None,
            0x600 => self.shared.borrow_mut().status = Some(value),
            0x604 => {
                self.asleep = true;
                self.state.stop.set(1);
            }
            _ => {}
        }
    }
    fn clock(&mut self) -> u64 {
        self.now()
    }
    fn exception(&mut self, state: &State, number: u32) {
        state.interrupt(number);
    }
}

/// Runs the kernel with turns of `turn` instructions. Returns its console and the number of interrupts between CPUs.
fn run(turn: u64) -> (String, u32) {
    let (memory, entry, _) = tiny::loaded(RAM, CPUS);
    let shared = Rc::new(RefCell::new(Shared {
        memory,
        console: String::new(),
        status: None,
        now: 0,
        pending: [[false; 2]; CPUS],
        sent: 0,
    }));
    let mut cpus: Vec<(Core, Side)> = (0..CPUS)
        .map(|number| {
            let core = Core::new();
            let state = core.shared_state();
            state.go_to(entry);
            state.set_r(8, number as u64, false);
            let shared = Rc::clone(&shared);
            (core, Side { number, state, shared, before: 0, period: 0, next_tick: 0, in_service: None, asleep: false })
        })
        .collect();
    for _ in 0..40_000_000 / turn {
        if shared.borrow().status.is_some() {
            break;
        }
        for (core, side) in &mut cpus {
            side.before = side.state.executed.get();
            if !side.asleep {
                core.run_slots(side, turn);
            }
        }
        // If all CPUs sleep, nothing happens before the next tick.
        let ticks = cpus.iter().filter(|(_, side)| side.period != 0).map(|(_, side)| side.next_tick);
        let (all_sleep, next) = (cpus.iter().all(|(_, side)| side.asleep), ticks.min().unwrap_or(0));
        let mut board = shared.borrow_mut();
        board.now += turn * 4 / 3;
        if all_sleep {
            board.now = board.now.max(next);
        }
        let now = board.now;
        for (_, side) in &cpus {
            board.pending[side.number][TIMER] |= side.period != 0 && now >= side.next_tick && side.in_service != Some(TIMER);
        }
        drop(board);
        for (_, side) in &mut cpus {
            side.before = side.state.executed.get();
            side.deliver();
        }
    }
    let shared = shared.borrow();
    let places: Vec<String> = cpus.iter().map(|(_, side)| format!("{:x}", side.state.pc.get())).collect();
    assert_eq!(shared.status, Some(0), "{}\nat {places:?}", shared.console);
    (shared.console.clone(), shared.sent)
}

/// KP-9: on two CPUs the kernel's checksums are those of one, whatever the turns' length is.
#[test]
fn two_cpus_give_the_same_sums() {
    let mut sums = Vec::new();
    for turn in [1, 5, 64, 700] {
        let (console, sent) = run(turn);
        for sum in tiny::SUMS {
            assert!(console.contains(sum), "turns of {turn}: {sum} is not in {console}");
        }
        assert!(console.contains("2 CPUs") && sent > 0, "turns of {turn}: {sent} interrupts; {console}");
        sums.push(tiny::checksum(&console).to_string());
    }
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
}
