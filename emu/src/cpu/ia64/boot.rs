//! The state at a kernel's entry: privileged, addresses physical, interrupts off.

use super::state::set;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::ia64::abi::r;

/// The bits of an address inside of its region.
const OFFSET: u64 = (1 << 61) - 1;

/// Enters the kernel at `entry`, with the CPU's number in r8.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, _info: u64) {
    set(cpu, r(8), number);
    cpu.set_pc(entry & OFFSET & !15);
}
