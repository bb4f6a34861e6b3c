//! The state at a kernel's entry: privileged, addresses physical, interrupts off.

use super::state::set;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::parisc::abi::r;

/// Enters the kernel at `entry`, with the CPU's number in r26 and the address of the boot information in r25.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    set(cpu, r(26), number);
    set(cpu, r(25), info);
    cpu.set_pc(entry);
}
