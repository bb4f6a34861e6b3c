//! Boards. A board is a memory map, devices, and a boot protocol: the data that a kernel finds in memory at its entry,
//! such as a device tree (`device_tree.rs`) or x86's boot parameters (`zero_page.rs`). [`Spec`] describes a board to
//! the machine, and [`Board`] is the interface to its devices.

pub mod bare;
pub mod malta;
pub mod pc;
pub mod powernv;
pub mod s390ccw;
pub mod sbi;
pub mod virt;
pub mod wii;

mod cpus;
mod device_tree;
mod malta_slots;
mod mp_table;
mod opal_tree;
mod sbi_tree;
mod sigp;
mod wii_tree;
mod zero_page;

use crate::clock::Ticks;
use crate::config::Config;
use crate::devices::console::Console;
use crate::devices::virtio::{AttachError, Attached};
use crate::error::MachineError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trapline_isa::mem::Memory;

/// The random seed passed to guests, the same in each run. A kernel without a seed waits for entropy that never comes
/// here. On arm64 it also uses a slow path for a random number at each system call.
pub const RANDOM_SEED: &[u8] = b"trapline: the same numbers in every run, and enough of them for a start.";

/// The description of a board.
pub struct Spec {
    /// The name in summaries and snapshots, such as `virt`.
    pub name: &'static str,
    /// The physical address at which RAM starts.
    pub ram_start: u64,
    /// Default size of RAM in bytes.
    pub ram: u64,
    /// Least size of RAM in bytes.
    pub least_ram: u64,
    /// Largest size of RAM in bytes.
    pub most_ram: u64,
    /// Start and end of the devices in the middle of RAM, which continues behind them; [`NO_HOLE`] on most boards.
    pub hole: (u64, u64),
    /// Largest number of CPUs.
    pub cpus: usize,
    /// Builds the boot data in memory. Arguments: configuration, span of RAM, and the end of the loaded image.
    pub boot: fn(&Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError>,
    /// Makes the devices, for this many CPUs and this span of RAM.
    pub devices: fn(cpus: usize, ram: u64) -> Box<dyn Board>,
}

/// The hole of a board whose RAM is in one piece.
pub const NO_HOLE: (u64, u64) = (0, 0);

impl Spec {
    /// The distance from the start to the end of this much RAM, with the hole if RAM reaches it.
    pub fn span(&self, ram: u64) -> u64 {
        let (start, end) = self.hole;
        if self.ram_start + ram > start { ram + (end - start) } else { ram }
    }
}

/// The boot data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Pieces of memory: physical address and contents.
    pub pieces: Vec<(u64, Vec<u8>)>,
    /// The address of the boot information that is passed to the kernel.
    pub info: u64,
    /// The contents of the argument registers at the entry, for kernels that are entered like a function. All CPUs get
    /// the same.
    pub arguments: Vec<u64>,
}

/// The origin of a device access.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The CPU's number.
    pub cpu: usize,
    /// The CPU's virtual time.
    pub now: Ticks,
}

/// An address space for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// Physical memory outside of RAM.
    Memory,
    /// I/O ports, on ISAs that have port instructions.
    Ports,
}

/// An interrupt that a CPU takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// The number. Board and CPU model agree on its meaning (`cpu/<arch>/deliver.rs`).
    pub number: u32,
    /// Additional information for the CPU, on boards that provide it.
    pub detail: u64,
}

impl Interrupt {
    /// An interrupt without additional information.
    pub const fn of(number: u32) -> Interrupt {
        Interrupt { number, detail: 0 }
    }
}

/// An order by the board to start or stop a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Resets this CPU, which then waits to be started.
    Reset(usize),
    /// Starts a CPU that waits. A CPU that runs ignores the order.
    Start {
        /// The CPU's number.
        cpu: usize,
        /// The start address. The CPU model defines its meaning.
        entry: u64,
        /// A value for the CPU. The CPU model defines its place.
        argument: u64,
    },
}

/// A call that the guest has made to its firmware, with the guest's memory.
pub struct FirmwareCall<'a> {
    /// The contents of the argument registers, including the function number.
    pub arguments: &'a [u64],
    /// Guest memory, by physical address.
    pub memory: &'a mut dyn Memory,
}

/// The machine's interface to a board. CPU registers are identified by the numbers that the ISA's instructions use.
pub trait Board {
    /// Reads a device. Unmapped addresses return all ones.
    fn read(&mut self, _at: At, _bus: Bus, _address: u64, size: u32) -> u64 {
        all_ones(size)
    }
    /// Writes a device.
    fn write(&mut self, _at: At, _bus: Bus, _address: u64, _size: u32, _value: u64) {}
    /// Whether this board may handle this CPU register.
    fn has_register(&self, _register: u32) -> bool {
        false
    }
    /// Reads a CPU register. `None` if this board does not handle it.
    fn register_read(&mut self, _at: At, _register: u32) -> Option<u64> {
        None
    }
    /// Writes a CPU register. Returns false if this board does not handle it.
    fn register_write(&mut self, _at: At, _register: u32, _value: u64) -> bool {
        false
    }
    /// A CPU register whose constant value differs between CPUs, such as the CPU's own number.
    fn identity(&self, _cpu: usize, _register: u32) -> Option<u64> {
        None
    }
    /// Whether all CPUs except the first wait until the guest starts them (`machine/turns.rs`). On other boards all CPUs run from
    /// power-on.
    fn parks_cpus(&self) -> bool {
        false
    }
    /// Takes the orders to start and stop CPUs since the last call. The machine asks after each access and firmware
    /// call.
    fn orders(&mut self) -> Vec<Order> {
        Vec::new()
    }
    /// Whether each CPU has a local interrupt controller that the CPU's identification registers report (on x86, a
    /// local APIC).
    fn has_own_controllers(&self) -> bool {
        false
    }
    /// Executes a firmware call. Returns the values of the result registers, from the first on.
    fn firmware_call(&mut self, _at: At, _call: FirmwareCall<'_>) -> Vec<u64> {
        vec![u64::MAX]
    }
    /// The duration of a device read, in addition to the instruction's own time.
    fn read_takes(&self, _bus: Bus, _address: u64) -> Ticks {
        0
    }
    /// Advances this CPU's timers to the given time.
    fn advance(&mut self, at: At);
    /// The time of this CPU's next timer event.
    fn next_event(&self, cpu: usize) -> Option<Ticks>;
    /// The time since which this CPU has a pending interrupt. A CPU that sleeps wakes at this time.
    fn pending(&self, cpu: usize) -> Option<Ticks>;
    /// The levels of this CPU's interrupt pins, on CPUs that show them to the guest. Board and CPU model agree on the
    /// bits.
    fn pins(&self, _cpu: usize) -> Option<u64> {
        None
    }
    /// The CPU takes its pending interrupt.
    fn acknowledge(&mut self, cpu: usize) -> Option<Interrupt>;
    /// Like [`Board::acknowledge`], on boards with kinds of interrupts that a CPU masks by kind. `accepts` says whether the CPU
    /// takes one of these kinds now, which are bits of [`Board::pins`].
    fn acknowledge_accepted(&mut self, cpu: usize, _accepts: &dyn Fn(u64) -> bool) -> Option<Interrupt> {
        self.acknowledge(cpu)
    }
    /// Adds a virtio device. Called before the guest runs.
    fn attach(&mut self, _device: &Attached) -> Result<(), AttachError> {
        Err(AttachError::NoPlace)
    }
    /// The time at which devices want to access guest memory.
    fn next_service(&self) -> Option<Ticks> {
        None
    }
    /// Runs the DMA of devices whose time, [`Board::next_service`], has come: they read and write guest memory.
    fn serve(&mut self, _at: At, _memory: &mut dyn Memory) {}
    /// The board's console.
    fn console(&mut self) -> &mut dyn Console;
    /// Whether this CPU has just asked to sleep until its next interrupt. The machine asks once after each access.
    fn goes_to_sleep(&mut self, _cpu: usize) -> bool {
        false
    }
    /// The exit status, once the guest has powered off.
    fn power_off(&self) -> Option<u8>;
    /// The state of the devices, for a snapshot.
    fn save(&self) -> Result<Value, String> {
        Err("this board does not know how to save its devices".into())
    }
    /// Restores such a state. If it is refused, nothing has changed.
    fn load(&mut self, _state: &Value) -> Result<(), String> {
        Err("this board does not know how to restore its devices".into())
    }
    /// Sets the time of the last access, after a state was restored. A state does not hold it, because it depends on
    /// the places where runs have stopped.
    fn set_now(&mut self, _at: At) {}
}

/// The kernel modules by which guests on this board find virtio devices. `None` if the board has no place for them.
pub fn virtio_modules(board: &str) -> Option<&'static [&'static str]> {
    match () {
        () if [&virt::ARM, &virt::ARM64, &sbi::SPEC].iter().any(|spec| spec.name == board) => Some(&["virtio_mmio"]),
        () if [&pc::SPEC, &malta::SPEC].iter().any(|spec| spec.name == board) => Some(&["virtio_pci"]),
        // The transport by channels is a part of the kernel.
        () if board == s390ccw::SPEC.name => Some(&[]),
        () => None,
    }
}

/// The state of devices as JSON.
fn saved(devices: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(devices).map_err(|error| error.to_string())
}

/// Devices from a snapshot's JSON, if their state is possible.
fn restored<D: DeserializeOwned>(state: &Value, is_sound: impl FnOnce(&D) -> bool) -> Result<D, String> {
    let devices = D::deserialize(state).map_err(|error| format!("its devices: {error}"))?;
    is_sound(&devices).then_some(devices).ok_or_else(|| "its devices are in a state that cannot be".into())
}

/// The value that unmapped addresses return.
pub fn all_ones(size: u32) -> u64 {
    u64::MAX >> (64 - 8 * size.clamp(1, 8))
}
