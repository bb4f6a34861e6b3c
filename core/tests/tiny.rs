//! The tiny kernel for PA-RISC runs on the bare core: console, timers and power of the board `bare`, with one CPU.

use std::process::ExitCode;
use trapline_core::Host;
use trapline_core::parisc::{Core, State, number, psw};

struct Board {
    state: *const State,
    memory: Vec<u8>,
    console: Vec<u8>,
    period: u64,
    next_tick: u64,
    base: i64,
    pending: u32,
    in_service: bool,
    latched: u32,
    ended: Option<u32>,
    exceptions: [u64; 32],
    trace: bool,
    asleep: bool,
}

const LIMIT: i64 = 1 << 40;

impl Board {
    fn state(&self) -> &'static State {
        // SAFETY: the core keeps its state in a box and outlives the board.
        unsafe { &*self.state }
    }
    fn now(&self) -> u64 {
        ((self.state().line.count.get() + LIMIT + self.base) / 4) as u64
    }
    fn raise_due(&mut self) {
        if self.period != 0 && self.now() >= self.next_tick {
            self.next_tick += self.period;
            self.pending |= 1;
        }
    }
}

impl Host for Board {
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.memory.get(physical as usize..physical as usize + size as usize)?;
        Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        let Some(bytes) = self.memory.get_mut(physical as usize..physical as usize + size as usize) else { return false };
        bytes.copy_from_slice(&value.to_be_bytes()[4 - size as usize..]);
        true
    }
    fn device_in(&mut self, physical: u64, _: u32) -> u32 {
        match physical {
            0x0900_0504 => {
                let now = self.now();
                self.latched = (now >> 32) as u32;
                now as u32
            }
            0x0900_0508 => self.latched,
            0x0900_050c => 0,
            0x0900_0510 => 1,
            0x0900_051c => 0x20,
            _ => 0,
        }
    }
    fn device_out(&mut self, physical: u64, _: u32, value: u32) {
        match physical {
            0x0900_00e9 => self.console.push(value as u8),
            0x0900_0500 => {
                self.period = value.into();
                self.next_tick = self.now() + self.period;
            }
            0x0900_0518 => self.in_service = false,
            0x0900_0600 => {
                self.ended = Some(value);
                self.state().stop.set(1);
            }
            0x0900_0604 => self.asleep = true,
            _ => {}
        }
    }
    fn block(&mut self, _: u64, _: u32) {}
    fn always_wants(&mut self, _: u64) -> bool {
        false
    }
    fn exception(&mut self, number: u32) {
        let state = self.state();
        self.exceptions[number as usize & 31] += 1;
        if self.trace {
            println!("exception {number} in {:x}/{:x} at {:x}.{} back {:x} word {:08x} address {:x}.{:x} psw {:x} rp {:x} sp {:x}", state.front_space.get(), state.back_space.get(), state.front.get(), state.front_level.get(), state.back.get(), state.word.get(), state.at_space.get(), state.at.get(), state.psw(), state.general[2].get(), state.general[30].get());
        }
        state.interrupt(number);
    }
    fn read_clock(&mut self) {}
    fn has_code(&mut self, _: u64) {}
    fn dropped(&mut self) -> Option<u64> {
        None
    }
}

fn main() -> ExitCode {
    let path = std::env::var("TINY").unwrap_or("/tmp/tout/tiny-parisc.elf".into());
    let file = std::fs::read(path).expect("the kernel");
    let word = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    let mut core = Core::new(0, 16 << 20);
    let mut memory = vec![0; 16 << 20];
    let (table, count) = (word(28) as usize, word(44) >> 16);
    for number in 0..count as usize {
        let at = table + 32 * number;
        let (offset, physical, bytes) = (word(at + 4) as usize, word(at + 12) as usize, word(at + 16) as usize);
        memory[physical..physical + bytes].copy_from_slice(&file[offset..offset + bytes]);
    }
    for (number, value) in [0x5041_5254_u32, 1, 16 << 20, 1, 0x1100].into_iter().enumerate() {
        memory[0x1000 + 4 * number..0x1004 + 4 * number].copy_from_slice(&value.to_be_bytes());
    }
    core.state().go_to(word(24));
    let mut board = Board {
        state: core.state(),
        memory,
        console: Vec::new(),
        period: 0,
        next_tick: 0,
        base: 0,
        pending: 0,
        in_service: false,
        latched: 0,
        ended: None,
        exceptions: [0; 32],
        trace: std::env::var("TRACE").is_ok(),
        asleep: false,
    };
    core.state().line.count.set(-LIMIT);
    let start = std::time::Instant::now();
    let mut slices = 0_u64;
    while board.ended.is_none() && slices < 3_000_000 {
        slices += 1;
        // Stop soon: blocks call the host from a count of 0 on; a slice is run by moving the base.
        let state = board.state();
        let slice = 400;
        board.base += state.line.count.get() + slice;
        state.line.count.set(-slice);
        let keep = board.base;
        board.base = keep - LIMIT;
        struct Stopper<'a>(&'a mut Board);
        impl Host for Stopper<'_> {
            fn load(&mut self, p: u64, s: u32) -> Option<u32> { self.0.load(p, s) }
            fn store(&mut self, p: u64, s: u32, v: u32) -> bool { self.0.store(p, s, v) }
            fn device_in(&mut self, p: u64, s: u32) -> u32 { self.0.device_in(p, s) }
            fn device_out(&mut self, p: u64, s: u32, v: u32) { self.0.device_out(p, s, v) }
            fn block(&mut self, _: u64, _: u32) { self.0.state().stop.set(1); }
            fn always_wants(&mut self, _: u64) -> bool { false }
            fn exception(&mut self, n: u32) { self.0.exception(n) }
            fn read_clock(&mut self) {}
            fn has_code(&mut self, _: u64) {}
            fn dropped(&mut self) -> Option<u64> { None }
        }
        core.run(&mut Stopper(&mut board));
        board.base = keep;
        // Between slices an interrupt may come.
        let state = board.state();
        let total = board.base + state.line.count.get();
        let now = (total / 4) as u64;
        if board.period != 0 && now >= board.next_tick {
            board.next_tick += board.period;
            board.pending |= 1;
        }
        if board.asleep && board.pending == 0 && board.period != 0 {
            let missing = (board.next_tick - now) as i64 * 4;
            board.base += missing.max(0);
            continue;
        }
        if board.pending != 0 && !board.in_service {
            board.asleep = false;
            if state.status.get() & psw::I != 0 && state.control[number::EIEM].get() & 1 << 31 != 0 {
                board.pending = 0;
                board.in_service = true;
                state.control[number::EIRR].set(state.control[number::EIRR].get() | 1 << 31);
                board.exceptions[4] += 1;
                state.interrupt(number::EXTERNAL);
            }
        }
    }
    println!("{}", String::from_utf8_lossy(&board.console));
    println!("ended {:?} after {slices} slices, {:?}; pc {:x} exceptions {:?}", board.ended, start.elapsed(), board.state().front.get(), board.exceptions);
    ExitCode::SUCCESS
}
