//! Boards: a memory map, devices and a boot protocol.

pub mod bare;
pub mod pc;
pub mod virt;

use crate::clock::Ticks;
use crate::error::MachineError;
use crate::machine::Config;
use crate::unicorn::arm64::SystemRegister;
use serde_json::Value;

pub use crate::boot::linux::Boot;

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
    /// What the kernel finds in memory when it is entered, besides itself: configuration, bytes of RAM, end of the loaded image.
    pub boot: fn(&Config, ram: u64, kernel_end: u64) -> Result<Boot, MachineError>,
    /// The devices, for so many CPUs.
    pub devices: fn(cpus: usize) -> Box<dyn Board>,
}

/// Who accesses a device, and when.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The CPU.
    pub cpu: usize,
    /// Its time.
    pub now: Ticks,
}

/// What the machine asks of a board.
pub trait Board {
    /// A read of a port; all ones where there is nothing.
    fn port_read(&mut self, _at: At, _port: u16, size: u32) -> u32 {
        u32::MAX >> (32 - 8 * size.clamp(1, 4))
    }
    /// A write to a port.
    fn port_write(&mut self, _at: At, _port: u16, _size: u32, _value: u32) {}
    /// A read of a physical address that is no RAM; all ones where there is nothing.
    fn memory_read(&mut self, _at: At, _physical: u64, _size: u32) -> u64 {
        u64::MAX
    }
    /// A write to one.
    fn memory_write(&mut self, _at: At, _physical: u64, _size: u32, _value: u64) {}
    /// A register behind MRS that this board answers for.
    fn system_read(&mut self, _at: At, _register: SystemRegister) -> Option<u64> {
        None
    }
    /// Whether this board takes what MSR writes there.
    fn system_write(&mut self, _at: At, _register: SystemRegister, _value: u64) -> bool {
        false
    }
    /// A call of the firmware: function and arguments, the answer.
    fn firmware_call(&mut self, _at: At, _call: [u64; 4]) -> u64 {
        u64::MAX
    }
    /// What a read of this port takes beside the instruction's own time.
    fn read_takes(&self, _port: u16) -> Ticks {
        0
    }
    /// Lets this CPU's timers move on.
    fn advance(&mut self, at: At);
    /// When this CPU next wants attention from its timers.
    fn next_event(&self, cpu: usize) -> Option<Ticks>;
    /// Since when this CPU has an interrupt to take.
    fn pending(&self, cpu: usize) -> Option<Ticks>;
    /// This CPU takes it.
    fn acknowledge(&mut self, cpu: usize) -> Option<u8>;
    /// What the guest has written to its console since the last call.
    fn take_console(&mut self) -> Vec<u8>;
    /// Somebody types on the console. What nobody reads yet waits, where the board has a console to read from.
    fn console_input(&mut self, _bytes: &[u8]) {}
    /// How much of that the guest has not read yet.
    fn unread_input(&self) -> usize {
        0
    }
    /// Nobody types any more: behind what was typed comes the end of file.
    fn console_input_ends(&mut self) {}
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
