//! The tiny kernel for IA-64 runs on the core alone, with the console, the timer and the power of its board: translation
//! registers, TLB misses of programs, interrupts that cover a frame of the register stack, programs whose registers are in
//! the kernel's backing store while it runs, faults with fixups, system calls.

#[path = "ia64/probes/mod.rs"]
mod probes;
#[path = "ia64/tiny/mod.rs"]
mod tiny;

use probes::{Hits, How, Probes};
use std::collections::BTreeMap;
use std::rc::Rc;
use tiny::{INTERRUPT, KERNEL_BASE, Ports, RAM, SUMS, VECTORS};
use trapline_core::ia64::{Core, Entry, Host, State, cr, psr, vector};

/// The memory of the probe window, behind the guest's RAM.
const WINDOW_BYTES: usize = 4 << 20;
/// Instructions between two looks at the timer.
const SLICE: u64 = 64;

struct Board {
    state: Rc<State>,
    memory: Vec<u8>,
    ports: Ports,
    exceptions: BTreeMap<u32, u32>,
    probes: Option<Probes>,
    /// Calls of [`Host::block`].
    blocks: u64,
}

impl Board {
    fn now(&self) -> u64 {
        self.ports.now(self.state.executed.get())
    }
}

impl Host for Board {
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        tiny::load(&self.memory, physical, size)
    }
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        tiny::store(&mut self.memory, physical, size, value)
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
        self.blocks += 1;
        self.state.stop.set(1);
    }
    fn exception(&mut self, state: &State, number: u32) {
        if self.probes.as_mut().is_some_and(|probes| probes.takes(state, number)) {
            return;
        }
        *self.exceptions.entry(number).or_default() += 1;
        state.interrupt(number);
    }
}

/// Runs the kernel to its end. The host checks the timer after every `slice` instructions. With `probed`, all instructions from
/// the vectors on have probes that run in this way.
fn run(slice: u64, probed: Option<How>) -> Board {
    run_by(slice, probed, Runs::Slots)
}

/// The way in which the core runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Instruction by instruction, to a count of them.
    Slots,
    /// Block by block, until a number of bytes has run.
    Blocks,
    /// Block by block, with one instruction in each block.
    OneByOne,
}

fn run_by(slice: u64, probed: Option<How>, runs: Runs) -> Board {
    let (mut memory, entry, text) = tiny::loaded(RAM + WINDOW_BYTES, 1);
    let mut core = Core::with_ram(0, memory.len() as u64);
    if runs == Runs::OneByOne {
        core.set_one_by_one(true);
    }
    let state = core.shared_state();
    state.go_to(entry);
    let probes = probed.map(|how| {
        let mut probes = Probes::new(how, KERNEL_BASE + RAM as u64);
        probes.stops = true;
        // The code in front of the vectors runs at physical addresses.
        for at in (text.start + VECTORS..text.end).step_by(16) {
            probes.set_mapped(&mut memory, KERNEL_BASE + at as u64, at, KERNEL_BASE);
        }
        // The window is executable, and the guest has nothing there.
        let page = Entry { page: RAM as u64, pte: RAM as u64 | 0x261, region: 8, bits: 22, key: 0 };
        state.tlb.code.registers[15].set(page);
        probes
    });
    let mut board =
        Board { state: Rc::clone(&state), memory, ports: Ports::default(), exceptions: BTreeMap::new(), probes, blocks: 0 };
    let mut end = 0;
    while board.ports.status.is_none() && end < 20_000_000 {
        end += slice;
        if runs != Runs::Slots {
            state.line.count.set(-(16 * slice as i64 / 3));
            core.run(&mut board);
        }
        // A hit stops the core: its instruction runs between two runs. A step ends behind its last instruction.
        loop {
            let is_stepping = board.probes.as_ref().is_some_and(Probes::is_stepping);
            let left = end.saturating_sub(state.executed.get());
            if runs != Runs::Slots || left == 0 && !is_stepping {
                break;
            }
            core.run_slots(&mut board, left.max(1));
            if let Some(original) = board.probes.as_mut().and_then(Probes::hit) {
                core.run_instead(&mut board, original);
            }
        }
        let executed = state.executed.get();
        if board.ports.wait(executed) && state.status.get() & psr::I != 0 {
            board.ports.tick(executed);
            state.raise(INTERRUPT);
            assert!(state.wants_interrupt());
            board.exception(&state, vector::EXTERNAL);
        }
    }
    let seen: Vec<String> =
        [cr::IIP, cr::IFA, cr::ISR].iter().map(|register| format!("{:x}", state.control[*register].get())).collect();
    assert_eq!(
        board.ports.status,
        Some(0),
        "{}\nat {:x}.{}, interrupted {seen:?}, {:x?}",
        board.ports.console,
        state.ip(),
        state.slot(),
        board.exceptions
    );
    board
}

/// The kernel's checksum.
fn checksum(board: &Board) -> &str {
    tiny::checksum(&board.ports.console)
}

/// KP-9: the kernel runs to its end, and its checksums are right.
#[test]
fn the_tiny_kernel_runs_to_its_end() {
    let board = run(SLICE, None);
    println!("{}", board.ports.console);
    println!("{:x?}, {} instructions", board.exceptions, board.state.executed.get());
    for sum in SUMS {
        assert!(board.ports.console.contains(sum), "{sum} is not in {}", board.ports.console);
    }
    let of = |number: u32| board.exceptions.get(&number).copied().unwrap_or(0);
    assert!(of(vector::CODE_MISS) > 50 && of(vector::DATA_MISS) > 100, "{:x?}", board.exceptions);
    assert!(of(vector::BREAK) > 1000 && of(vector::DATA_RIGHTS) > 0 && of(vector::EXTERNAL) > 50, "{:x?}", board.exceptions);
}

/// KP-9: interrupts after other instructions change no sum.
#[test]
fn the_sums_do_not_depend_on_interrupts() {
    let expected = run(SLICE, None);
    for slice in [1, 7, 1000] {
        let board = run(slice, None);
        assert_eq!(checksum(&board), checksum(&expected), "after {slice} instructions: {}", board.ports.console);
    }
}

/// KP-9: run by blocks, which are counted before they run, the kernel has the same sums, after about as many bytes
/// as its instructions have.
#[test]
fn the_kernel_runs_by_blocks() {
    let expected = run(SLICE, None);
    for (runs, slice) in [(Runs::Blocks, SLICE), (Runs::Blocks, 1), (Runs::OneByOne, SLICE)] {
        let board = run_by(slice, None, runs);
        assert_eq!(checksum(&board), checksum(&expected));
        let turns = board.state.executed.get() / slice;
        assert!(slice == 1 || board.blocks > turns * 3 / 4 && board.blocks < turns * 5 / 4, "{} of {turns}", board.blocks);
    }
}

/// KP-1, KP-2: with a probe on every instruction of the kernel, its vectors included, the run is the same to the
/// instruction, whether the instructions are computed by the core or by `trapline-isa`, or run in copies.
#[test]
fn a_probe_on_every_instruction_of_the_kernel_changes_nothing() {
    let plain = run(SLICE, None);
    for how in [How::Computed, How::Stepped, How::Emulated] {
        let board = run(SLICE, Some(how));
        assert_eq!(board.ports.console, plain.ports.console, "{how:?}");
        assert_eq!(board.exceptions, plain.exceptions, "{how:?}");
        assert_eq!(board.state.executed.get(), plain.state.executed.get(), "{how:?}");
        let hits: Hits = board.probes.map(|probes| probes.hits).unwrap_or_default();
        println!("{how:?}: {hits:?}");
        assert_eq!(hits.stepped > 0, how != How::Computed);
        assert!(how != How::Emulated || hits.emulated > 100 * hits.computed, "{hits:?}");
        assert!(hits.in_slot.iter().all(|hits| *hits > 100_000), "{how:?}: {hits:?}");
    }
}
