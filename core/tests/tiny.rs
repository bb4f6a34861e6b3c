//! The tiny kernel for PA-RISC runs on the core alone, with the console, the timer and the power of its board: virtual
//! memory by its TLB miss handlers, interrupts, user programs, faults, system calls.

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use trapline_core::Host;
use trapline_core::parisc::{Core, State, number, psw};

/// The kernel's file.
const KERNEL: &[u8] = include_bytes!("../../images/tiny/prebuilt/tiny-parisc.elf");
/// The checksums that its programs print. They are those of the tiny kernels for other ISAs.
const SUMS: [&str; 4] =
    ["pipe       45b271a1e74bdf94", "files      410d88f43df6e8b4", "fork       4ef2f532afe6dcc4", "fault      731d25655b18fbcb"];
const RAM: usize = 16 << 20;
/// The number of bytes of code after which the board checks its timer.
const SLICE: i64 = 400;
/// The address of the board's registers.
const PORTS: u64 = 0x0900_0000;

struct Board<'a> {
    state: &'a State,
    memory: Vec<u8>,
    console: String,
    /// Bytes of code that have run, without those of the current slice.
    ran: i64,
    period: u64,
    next_tick: u64,
    in_service: bool,
    asleep: bool,
    status: Option<u32>,
    exceptions: [u32; 32],
}

impl Board<'_> {
    /// The time in nanoseconds: four bytes take one.
    fn now(&self) -> u64 {
        (self.ran + SLICE + self.state.line.count.get()) as u64 / 4
    }

    fn range(physical: u64, size: u32) -> std::ops::Range<usize> {
        physical as usize..physical as usize + size as usize
    }
}

impl Host for Board<'_> {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.memory.get(Self::range(physical, size))?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let Some(bytes) = self.memory.get_mut(Self::range(physical, size)) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u32 {
        match physical.wrapping_sub(PORTS) {
            0x504 => self.now() as u32,
            0x508 => (self.now() >> 32) as u32,
            0x510 => 1,
            0x51c => 0x20,
            _ => 0,
        }
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u32) {
        match physical.wrapping_sub(PORTS) {
            0xe9 => self.console.push(char::from(value as u8)),
            0x500 => (self.period, self.next_tick) = (value.into(), self.now() + u64::from(value)),
            0x518 => self.in_service = false,
            0x600 => {
                self.status = Some(value);
                self.state.stop.set(1);
            }
            0x604 => self.asleep = true,
            _ => {}
        }
    }
    fn block(&mut self, _: u64, _: u32) {
        self.state.stop.set(1);
    }
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        self.exceptions[number as usize] += 1;
        self.state.interrupt(number);
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

fn loaded() -> (Vec<u8>, u32) {
    let word = |at: usize| u32::from_be_bytes(KERNEL[at..at + 4].try_into().expect("4 bytes"));
    let mut memory = vec![0; RAM];
    for number in 0..(word(44) >> 16) as usize {
        let at = word(28) as usize + 32 * number;
        let [offset, physical, bytes] = [4, 12, 16].map(|field| word(at + field) as usize);
        memory[physical..physical + bytes].copy_from_slice(&KERNEL[offset..offset + bytes]);
    }
    for (number, value) in [0x5041_5254_u32, 1, RAM as u32, 1, 0x1100].into_iter().enumerate() {
        memory[0x1000 + 4 * number..0x1004 + 4 * number].copy_from_slice(&value.to_be_bytes());
    }
    (memory, word(24))
}

/// KP-9: the kernel runs to its end, and its checksums are right.
fn the_tiny_kernel_runs_to_its_end() {
    let (memory, entry) = loaded();
    let mut core = Core::new(0, RAM as u64);
    // The board looks at the state while the core runs.
    let state: &State = &core.shared_state();
    state.go_to(entry);
    state.line.count.set(-SLICE);
    let mut board = Board {
        state,
        memory,
        console: String::new(),
        ran: 0,
        period: 0,
        next_tick: 0,
        in_service: false,
        asleep: false,
        status: None,
        exceptions: [0; 32],
    };
    for _ in 0..200_000 {
        core.run(&mut board);
        if board.status.is_some() {
            break;
        }
        let now = board.now();
        board.ran += SLICE + state.line.count.get();
        state.line.count.set(-SLICE);
        if board.asleep {
            board.ran += 4 * board.next_tick.saturating_sub(now) as i64;
        }
        let is_due = board.period != 0 && board.now() >= board.next_tick && !board.in_service;
        if is_due {
            board.asleep = false;
        }
        if is_due && state.status.get() & psw::I != 0 && state.control[number::EIEM].get() >> 31 != 0 {
            board.next_tick = board.now() + board.period;
            board.in_service = true;
            let pending = &state.control[number::EIRR];
            pending.set(pending.get() | 1 << 31);
            state.interrupt(number::EXTERNAL);
        }
    }
    assert_eq!(board.status, Some(0), "{} at {:x}", board.console, state.front.get());
    for sum in SUMS {
        assert!(board.console.contains(sum), "{sum} is not in {}", board.console);
    }
    let of = |number: u32| board.exceptions[number as usize];
    assert!(of(number::CODE_MISS) > 50 && of(number::DATA_MISS) > 100 && of(number::BREAK) > 1000 && of(number::DATA_RIGHTS) > 0);
}

fn main() -> ExitCode {
    let test = Trial::test("the_tiny_kernel_runs_to_its_end", || {
        the_tiny_kernel_runs_to_its_end();
        Ok(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![test]).exit_code()
}
