//! The state at a kernel's entry: privileged, trap level 0, MMU and interrupts off.

use super::state::set;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::sparc64::abi::o;

/// Enters the kernel at `entry`, with the CPU's number in %o0 and the address of the boot information in %o1.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.prepare_sparc();
    set(cpu, o(0), number);
    set(cpu, o(1), info);
    cpu.set_pc(entry);
}
