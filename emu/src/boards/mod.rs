//! Boards: a memory map, devices and a boot protocol.

pub mod bare;

use crate::clock::Ticks;

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
    fn port_read(&mut self, at: At, port: u16, size: u32) -> u32;
    /// A write to a port.
    fn port_write(&mut self, at: At, port: u16, size: u32, value: u32);
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
    /// Set when the guest has switched itself off.
    fn power_off(&self) -> Option<u8>;
}
