//! The state at a kernel's entry: 64-bit mode, translation off, interrupts off.

use super::state::WIDE;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterS390X;

/// Enters the kernel at `entry`, with the CPU's number in r2 and the address of the boot information in r3. For Linux's
/// first CPU all registers are 0.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.write(RegisterS390X::PSWM, WIDE);
    cpu.write(RegisterS390X::R2, number);
    cpu.write(RegisterS390X::R3, info);
    cpu.set_pc(entry);
}
