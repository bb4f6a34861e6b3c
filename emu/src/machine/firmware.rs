//! Calls of the firmware: arguments out of the guest's registers, the board's answer back into them.

use super::{Inner, Listener};
use crate::boards::{At, FirmwareCall};
use crate::cpu::Trap;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::regs::Reg;

impl<L: Listener> Inner<L> {
    /// The board answers as firmware does.
    pub(super) fn firmware_call(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.resume);
        self.look_soon();
        let model = self.view.model;
        let at = At { cpu: self.view.current, now: self.view.clock.time() };
        let get = |register: &Reg| (model.registers.get)(&cpu.handle(), *register, trap.pc);
        let arguments: Vec<u64> = model.firmware.arguments.iter().map(get).collect();
        let mut memory = Physical { ram: &self.view.ram, order: self.view.isa.order };
        let results = self.board.firmware_call(at, FirmwareCall { arguments: &arguments, memory: &mut memory });
        for (register, value) in model.firmware.results.iter().zip(results) {
            (model.registers.set)(cpu, *register, value);
        }
        cpu.set_pc(trap.resume);
        self.after_access(at);
    }
}

/// The guest's memory by physical address.
struct Physical<'a> {
    ram: &'a Ram,
    order: ByteOrder,
}

impl Memory for Physical<'_> {
    fn order(&self) -> ByteOrder {
        self.order
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        if self.ram.read(address, into) { Ok(()) } else { Err(Fault { address, write: false }) }
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        if self.ram.write(address, bytes) { Ok(()) } else { Err(Fault { address, write: true }) }
    }
}
