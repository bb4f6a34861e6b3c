//! The state at a kernel's entry by Linux's boot protocol (Documentation/arch/riscv/boot.rst): supervisor mode, no
//! translation, interrupts off.

use super::state::set;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::riscv::abi::x;

/// Enters the kernel at `entry`, with the hart's number in a0 and the address of the boot information in a1.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.prepare_riscv(number);
    set(cpu, x(10), number);
    set(cpu, x(11), info);
    cpu.set_pc(entry);
}
