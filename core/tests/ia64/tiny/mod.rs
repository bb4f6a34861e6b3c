//! The tiny kernel's file, and the board's numbers.

// Each test uses a part of it.
#![allow(dead_code)]

/// The kernel's file.
pub const KERNEL: &[u8] = include_bytes!("../../../../images/tiny/prebuilt/tiny-ia64.elf");
/// The checksums that its programs print. They are those of the tiny kernels for other ISAs, except for that of the byte code.
pub const SUMS: [&str; 4] =
    ["pipe       45b271a1e74bdf94", "files      410d88f43df6e8b4", "fork       4ef2f532afe6dcc4", "fault      731d25655b18fbcb"];
/// The guest's RAM.
pub const RAM: usize = 16 << 20;
/// The most CPUs.
pub const CPUS: usize = 2;
/// The kernel's virtual addresses are physical ones plus this.
pub const KERNEL_BASE: u64 = 0xe000_0000_0000_0000;
/// The distance of the vectors from the start of the text. Code in front of them runs at physical addresses.
pub const VECTORS: usize = 0x8000;
/// The address of the board's registers.
pub const PORTS: u64 = 0x0900_0000;
/// The number of the board's interrupt.
pub const INTERRUPT: u8 = 0x30;

#[path = "../ram.rs"]
mod ram;

/// Reads a little-endian number.
pub fn load(memory: &[u8], physical: u64, size: u32) -> Option<u64> {
    ram::load(memory, 0, physical, size)
}

/// Writes a little-endian number; false where no memory is.
pub fn store(memory: &mut [u8], physical: u64, size: u32, value: u64) -> bool {
    ram::store(memory, 0, physical, size, value)
}

/// The board of a single CPU: console, timer and power.
#[derive(Default)]
pub struct Ports {
    pub console: String,
    /// Nanoseconds for which the CPU has slept.
    pub slept: u64,
    pub period: u64,
    pub next_tick: u64,
    pub in_service: bool,
    pub asleep: bool,
    pub status: Option<u64>,
}

impl Ports {
    /// The time in nanoseconds behind this many instructions: three of them, 16 bytes, take four.
    pub fn now(&self, executed: u64) -> u64 {
        executed * 4 / 3 + self.slept
    }

    /// Reads a register of the board.
    pub fn read(&self, physical: u64, now: u64) -> u64 {
        match physical.wrapping_sub(PORTS) {
            0x504 => now & 0xffff_ffff,
            0x508 => now >> 32,
            0x510 => 1,
            0x51c => 0x20,
            _ => 0,
        }
    }

    /// Writes a register of the board.
    pub fn write(&mut self, physical: u64, value: u64, now: u64) {
        match physical.wrapping_sub(PORTS) {
            0xe9 => self.console.push(char::from(value as u8)),
            0x500 => (self.period, self.next_tick) = (value, now + value),
            0x518 => self.in_service = false,
            0x600 => self.status = Some(value),
            0x604 => self.asleep = true,
            _ => {}
        }
    }

    /// Lets a sleeping CPU sleep until the timer. Returns whether the timer's interrupt is due.
    pub fn wait(&mut self, executed: u64) -> bool {
        if self.asleep {
            self.slept += self.next_tick.saturating_sub(self.now(executed));
        }
        let is_due = self.period != 0 && self.now(executed) >= self.next_tick && !self.in_service;
        self.asleep &= !is_due;
        is_due
    }

    /// Begins the service of the timer's interrupt.
    pub fn tick(&mut self, executed: u64) {
        self.next_tick = self.now(executed) + self.period;
        self.in_service = true;
    }
}

/// Returns memory with the kernel and the boot information, the kernel's physical entry, and the physical addresses of its
/// text.
pub fn loaded(bytes: usize, cpus: usize) -> (Vec<u8>, u64, std::ops::Range<usize>) {
    let word = |at: usize| u64::from_le_bytes(KERNEL[at..at + 8].try_into().expect("8 bytes"));
    let mut memory = vec![0; bytes];
    let mut text = 0..0;
    for number in 0..(word(56) & 0xffff) as usize {
        let at = word(32) as usize + 56 * number;
        let [offset, physical, bytes] = [8, 24, 32].map(|field| word(at + field) as usize);
        if word(at) & 0xffff_ffff == 1 {
            memory[physical..physical + bytes].copy_from_slice(&KERNEL[offset..offset + bytes]);
            if text.is_empty() {
                text = physical..physical + bytes;
            }
        }
    }
    for (number, value) in [0x5041_5254_u32, 1, RAM as u32, cpus as u32, 0x1100].into_iter().enumerate() {
        memory[0x1000 + 4 * number..0x1004 + 4 * number].copy_from_slice(&value.to_le_bytes());
    }
    (memory, word(24), text)
}

/// The kernel's checksum.
pub fn checksum(console: &str) -> &str {
    let line = console.lines().find_map(|line| line.split_once("checksum: "));
    line.map(|(_, sum)| sum).unwrap_or_else(|| panic!("no checksum in {console}"))
}
