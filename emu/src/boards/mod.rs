//! Boards: a memory map, devices and a boot protocol. What a kernel finds in memory when it is entered is theirs to
//! say, too: a device tree (`device_tree.rs`), x86's boot parameters (`zero_page.rs`).

pub mod bare;
pub mod malta;
pub mod pc;
pub mod powernv;
pub mod s390ccw;
pub mod virt;
pub mod wii;

mod device_tree;
mod opal_tree;
mod wii_tree;
mod zero_page;

use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::console::Console;
use crate::error::MachineError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trapline_isa::mem::Memory;

/// What guests begin their random numbers with, the same in each run. A kernel without one waits for something to
/// happen by chance, which nothing does here, and until then makes each number by the long way: arm64 needs one for
/// each system call.
pub const RANDOM_SEED: &[u8] = b"trapline: the same numbers in every run, and enough of them for a start.";

/// What a board is, for the machine that is made around it.
pub struct Spec {
    /// What people call it.
    pub name: &'static str,
    /// The physical address at which RAM starts.
    pub ram_start: u64,
    /// RAM in bytes unless the configuration says otherwise.
    pub ram: u64,
    /// As little as it may have.
    pub least_ram: u64,
    /// As much.
    pub most_ram: u64,
    /// As many CPUs as it may have.
    pub cpus: usize,
    /// The lines with which the shell of a guest tells the board a status and ends the machine; `None`: those of all
    /// others (`boot/initramfs.rs`).
    pub ends: Option<&'static str>,
    /// What the kernel finds in memory when it is entered, besides itself: configuration, bytes of RAM, end of the
    /// loaded image.
    pub boot: fn(&Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError>,
    /// The devices, for so many CPUs and bytes of RAM.
    pub devices: fn(cpus: usize, ram: u64) -> Box<dyn Board>,
}

/// Memory as a kernel is to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Physical addresses and what lies there.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// The address that the kernel is given.
    pub info: u64,
    /// What it finds in the first registers for arguments, where it is entered like a function instead; each CPU the
    /// same.
    pub arguments: Vec<u64>,
}

/// Who accesses a device, and when.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The CPU.
    pub cpu: usize,
    /// Its time.
    pub now: Ticks,
}

/// An address space in which devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Physical memory where there is no RAM.
    Memory,
    /// Ports, on ISAs that have instructions for these.
    Ports,
}

/// An interrupt, as a CPU takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// Which; what numbers there are is a matter between the board and the CPU (`cpu/<arch>/deliver.rs`).
    pub number: u32,
    /// What else the CPU is told, where it is told more.
    pub detail: u64,
}

impl Interrupt {
    /// One of which the number says all.
    pub const fn of(number: u32) -> Interrupt {
        Interrupt { number, detail: 0 }
    }
}

/// A call of the firmware.
pub struct FirmwareCall<'a> {
    /// What is in the registers of arguments, the function's number among them.
    pub arguments: &'a [u64],
    /// The guest's memory, by physical address.
    pub memory: &'a mut dyn Memory,
}

/// What the machine asks of a board. A register is told by the number that the ISA's instructions have for it.
pub trait Board {
    /// A read of an address; all ones where there is nothing.
    fn read(&mut self, _at: At, _bus: Bus, _address: u64, size: u32) -> u64 {
        all_ones(size)
    }
    /// A write to one.
    fn write(&mut self, _at: At, _bus: Bus, _address: u64, _size: u32, _value: u64) {}
    /// Whether this board may answer for one of the CPU's own registers.
    fn has_register(&self, _register: u32) -> bool {
        false
    }
    /// A read of one of the CPU's own registers; `None`: this board does not answer for it.
    fn register_read(&mut self, _at: At, _register: u32) -> Option<u64> {
        None
    }
    /// Whether this board takes what is written to one.
    fn register_write(&mut self, _at: At, _register: u32, _value: u64) -> bool {
        false
    }
    /// Whether each CPU has an interrupt controller of its own, where CPUs say so themselves.
    fn has_own_controllers(&self) -> bool {
        false
    }
    /// A call of the firmware: what is put into the registers of results, from the first one on.
    fn firmware_call(&mut self, _at: At, _call: FirmwareCall<'_>) -> Vec<u64> {
        vec![u64::MAX]
    }
    /// What a read there takes beside the instruction's own time.
    fn read_takes(&self, _bus: Bus, _address: u64) -> Ticks {
        0
    }
    /// Lets this CPU's timers move on.
    fn advance(&mut self, at: At);
    /// When this CPU next wants attention from its timers.
    fn next_event(&self, cpu: usize) -> Option<Ticks>;
    /// Since when this CPU has an interrupt to take.
    fn pending(&self, cpu: usize) -> Option<Ticks>;
    /// Which of this CPU's pins for interrupts have a signal now, where the CPU has such and lets the guest see them;
    /// what they are called is a matter between the board and the CPU.
    fn pins(&self, _cpu: usize) -> Option<u64> {
        None
    }
    /// This CPU takes it.
    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt>;
    /// Its console.
    fn console(&mut self) -> &mut dyn Console;
    /// Whether this CPU has just asked to sleep until its next interrupt; asked once behind each access.
    fn goes_to_sleep(&mut self, _cpu: usize) -> bool {
        false
    }
    /// Set when the guest has switched itself off.
    fn power_off(&self) -> Option<u8>;
    /// The devices' state, for a snapshot.
    fn save(&self) -> Result<Value, String> {
        Err("this board does not know how to save its devices".into())
    }
    /// Takes such a state over; when it is refused, nothing has changed.
    fn load(&mut self, _state: &Value) -> Result<(), String> {
        Err("this board does not know how to restore its devices".into())
    }
}

/// Devices as a snapshot has them.
fn saved(devices: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(devices).map_err(|error| error.to_string())
}

/// The devices of a snapshot, if they are in a state that can be.
fn restored<D: DeserializeOwned>(state: &Value, is_sound: impl FnOnce(&D) -> bool) -> Result<D, String> {
    let devices = D::deserialize(state).map_err(|error| format!("its devices: {error}"))?;
    is_sound(&devices).then_some(devices).ok_or_else(|| "its devices are in a state that cannot be".into())
}

/// What is read where there is nothing.
pub fn all_ones(size: u32) -> u64 {
    u64::MAX >> (64 - 8 * size.clamp(1, 8))
}
