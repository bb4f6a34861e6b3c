//! The state at a kernel's entry by Linux's boot protocol (Documentation/arm/booting.rst): supervisor mode, MMU off,
//! A32 code.

use super::state::{CPSR_ABORT_MASKED, CPSR_IRQ_MASKED, SUPERVISOR};
use super::trap;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM;

const FAST_MASKED: u64 = 1 << 6;
/// The machine number of a board with a device tree.
const MACHINE: u64 = 0xffff_ffff;

/// Enters the kernel at `entry`, with the device tree's address in r2 and the CPU's number in r3.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.write(RegisterARM::CPSR, SUPERVISOR | CPSR_IRQ_MASKED | CPSR_ABORT_MASKED | FAST_MASKED);
    for (register, value) in
        [(RegisterARM::R0, 0), (RegisterARM::R1, MACHINE), (RegisterARM::R2, info), (RegisterARM::R3, number)]
    {
        cpu.write(register, value);
    }
    trap::park(cpu);
    cpu.set_pc(entry);
}
