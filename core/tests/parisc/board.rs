//! The tiny kernel's file, and the board on which it runs: RAM, console, timer and power.

use std::rc::Rc;
use trapline_core::Host;
use trapline_core::parisc::{Core, State, number, psw};

/// The kernel's file.
const KERNEL: &[u8] = include_bytes!("../../../images/tiny/prebuilt/tiny-parisc.elf");
const RAM: usize = 16 << 20;
/// The number of bytes of code after which the board checks its timer.
const SLICE: i64 = 4 * 3000;
/// The address of the board's registers.
const PORTS: u64 = 0x0900_0000;
/// The address of the command line in the boot information.
const COMMAND_LINE: usize = 0x1100;

pub struct Board {
    pub state: Rc<State>,
    pub memory: Vec<u8>,
    pub console: String,
    /// Bytes of code that have run in front of the current slice.
    pub ran: i64,
    /// The status with which the guest ended.
    pub status: Option<u32>,
    pub exceptions: [u32; 32],
    /// The time for which the CPU has slept, as bytes of code.
    slept: i64,
    period: u64,
    next_tick: u64,
    in_service: bool,
    asleep: bool,
}

impl Board {
    /// The kernel with this command line, in front of its first instruction.
    pub fn booted(command_line: &str) -> (Core, Board) {
        let (mut memory, entry) = loaded();
        memory[COMMAND_LINE..COMMAND_LINE + command_line.len()].copy_from_slice(command_line.as_bytes());
        let core = Core::new(0, RAM as u64);
        let state = core.shared_state();
        state.go_to(entry);
        state.line.count.set(-SLICE);
        let board = Board {
            state,
            memory,
            console: String::new(),
            ran: 0,
            status: None,
            exceptions: [0; 32],
            slept: 0,
            period: 0,
            next_tick: 0,
            in_service: false,
            asleep: false,
        };
        (core, board)
    }

    /// The time in nanoseconds: four bytes take one.
    fn now(&self) -> u64 {
        (self.ran + self.slept + SLICE + self.state.line.count.get()) as u64 / 4
    }

    /// Runs until the timer is to be looked at, and looks at it.
    pub fn turn(&mut self, core: &mut Core) {
        core.run(self);
        if self.status.is_some() {
            return;
        }
        let now = self.now();
        let state = Rc::clone(&self.state);
        self.ran += SLICE + state.line.count.get();
        state.line.count.set(-SLICE);
        if self.asleep {
            self.slept += 4 * self.next_tick.saturating_sub(now) as i64;
        }
        let is_due = self.period != 0 && self.now() >= self.next_tick && !self.in_service;
        if is_due {
            self.asleep = false;
        }
        if is_due && state.status.get() & psw::I != 0 && state.control[number::EIEM].get() >> 31 != 0 {
            self.next_tick = self.now() + self.period;
            self.in_service = true;
            let pending = &state.control[number::EIRR];
            pending.set(pending.get() | 1 << 31);
            state.interrupt(number::EXTERNAL);
        }
    }
}

impl Host for Board {
    #[inline(always)]
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        let bytes = self.memory.get(physical as usize..)?;
        Some(match size {
            1 => (*bytes.first()?).into(),
            2 => u16::from_be_bytes(*bytes.first_chunk()?).into(),
            _ => u32::from_be_bytes(*bytes.first_chunk()?),
        })
    }
    #[inline(always)]
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        fn put<const SIZE: usize>(bytes: Option<&mut [u8]>, value: [u8; SIZE]) -> bool {
            bytes.and_then(|bytes| bytes.first_chunk_mut()).map(|place| *place = value).is_some()
        }
        let bytes = self.memory.get_mut(physical as usize..);
        match size {
            1 => put(bytes, [value as u8]),
            2 => put(bytes, (value as u16).to_be_bytes()),
            _ => put(bytes, value.to_be_bytes()),
        }
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

/// RAM with the kernel and the boot information, and the kernel's first address.
fn loaded() -> (Vec<u8>, u32) {
    let word = |at: usize| u32::from_be_bytes(KERNEL[at..at + 4].try_into().expect("4 bytes"));
    let mut memory = vec![0; RAM];
    for number in 0..(word(44) >> 16) as usize {
        let at = word(28) as usize + 32 * number;
        let [offset, physical, bytes] = [4, 12, 16].map(|field| word(at + field) as usize);
        memory[physical..physical + bytes].copy_from_slice(&KERNEL[offset..offset + bytes]);
    }
    for (number, value) in [0x5041_5254_u32, 1, RAM as u32, 1, COMMAND_LINE as u32].into_iter().enumerate() {
        memory[0x1000 + 4 * number..0x1004 + 4 * number].copy_from_slice(&value.to_be_bytes());
    }
    (memory, word(24))
}
