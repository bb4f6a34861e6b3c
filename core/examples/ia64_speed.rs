//! Prints the number of guest instructions per second that the IA-64 core runs: in the loop of the tiny kernel that
//! `trapline bench tiny/ia64` uses, and in the kernel's own programs.
//!
//!     cargo run --release -p trapline-core --example ia64_speed

#[path = "../tests/ia64/tiny/mod.rs"]
mod tiny;

use std::rc::Rc;
use std::time::Instant;
use tiny::{INTERRUPT, Ports, RAM};
use trapline_core::ia64::{Core, Host, State, psr, vector};

/// The address of the command line in the boot information.
const COMMAND_LINE: usize = 0x1100;
/// Instructions between two looks at the timer.
const SLICE: i64 = 3000;
/// Instructions of the loop that are measured.
const LOOP: u64 = 30_000_000;
/// Each row is measured so many times. The best one counts, because other work on the computer only makes it slower.
const TURNS: usize = 3;

struct Board {
    state: Rc<State>,
    memory: Vec<u8>,
    ports: Ports,
}

impl Board {
    fn now(&self) -> u64 {
        self.ports.now(self.state.executed.get())
    }
}

impl Host for Board {
    #[inline(always)]
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        let bytes = self.memory.get(physical as usize..)?;
        Some(match size {
            1 => (*bytes.first()?).into(),
            2 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            4 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            _ => u64::from_le_bytes(*bytes.first_chunk()?),
        })
    }
    #[inline(always)]
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        fn put<const SIZE: usize>(bytes: Option<&mut [u8]>, value: [u8; SIZE]) -> bool {
            bytes.and_then(|bytes| bytes.first_chunk_mut()).map(|place| *place = value).is_some()
        }
        let bytes = self.memory.get_mut(physical as usize..);
        match size {
            1 => put(bytes, [value as u8]),
            2 => put(bytes, (value as u16).to_le_bytes()),
            4 => put(bytes, (value as u32).to_le_bytes()),
            _ => put(bytes, value.to_le_bytes()),
        }
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u64 {
        self.ports.read(physical, self.now())
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u64) {
        let now = self.now();
        self.ports.write(physical, value, now);
    }
    fn clock(&mut self) -> u64 {
        self.now()
    }
    fn block(&mut self, _: u64, _: u32) {
        self.state.stop.set(1);
    }
    fn exception(&mut self, state: &State, number: u32) {
        state.interrupt(number);
    }
}

/// The kernel with this command line, in front of its first instruction.
fn booted(command_line: &str) -> (Core, Board) {
    let (mut memory, entry, _) = tiny::loaded(RAM, 1);
    memory[COMMAND_LINE..COMMAND_LINE + command_line.len()].copy_from_slice(command_line.as_bytes());
    let core = Core::with_ram(0, memory.len() as u64);
    let state = core.shared_state();
    state.go_to(entry);
    let board = Board { state, memory, ports: Ports::default() };
    (core, board)
}

/// Runs until the guest ends or the condition holds.
fn run_until(core: &mut Core, board: &mut Board, ends: impl Fn(&Board) -> bool) {
    let state = core.shared_state();
    while board.ports.status.is_none() && !ends(board) {
        state.line.count.set(-(16 * SLICE / 3));
        core.run(board);
        let executed = state.executed.get();
        if board.ports.wait(executed) && state.status.get() & psr::I != 0 {
            board.ports.tick(executed);
            state.raise(INTERRUPT);
            board.exception(&state, vector::EXTERNAL);
        }
    }
}

/// The CPU time of this process in nanoseconds, which other work on the computer disturbs less than the time of day. Only
/// Linux says it here; elsewhere it is the time since the start.
fn cpu_time(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let time = text.split(' ').next().and_then(|time| time.parse().ok());
    time.unwrap_or(start.elapsed().as_nanos() as f64)
}

/// Runs on until the condition holds. Returns millions of instructions per second.
fn speed(core: &mut Core, board: &mut Board, ends: impl Fn(&Board) -> bool) -> f64 {
    let now = Instant::now();
    let (start, before) = (cpu_time(now), board.state.executed.get());
    run_until(core, board, ends);
    (board.state.executed.get() - before) as f64 / (cpu_time(now) - start) * 1e3
}

fn main() {
    let best = |measure: &dyn Fn() -> f64| (0..TURNS).map(|_| measure()).fold(0.0, f64::max);
    let of_loop = best(&|| {
        let (mut core, mut board) = booted(&format!("bench={}", u32::MAX));
        run_until(&mut core, &mut board, |board| board.ports.console.contains("boot is over"));
        let end = board.state.executed.get() + LOOP;
        speed(&mut core, &mut board, |board| board.state.executed.get() >= end)
    });
    println!("the loop of the benchmark: {of_loop:.0} million instructions a second");
    let of_programs = best(&|| {
        let (mut core, mut board) = booted("user=40");
        let speed = speed(&mut core, &mut board, |_| false);
        assert_eq!(board.ports.status, Some(0), "{}", board.ports.console);
        speed
    });
    println!("the kernel's programs: {of_programs:.0} million instructions a second");
}
