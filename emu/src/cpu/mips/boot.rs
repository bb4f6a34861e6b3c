//! The state at a kernel's entry: kernel mode, no exception active, boot vectors, interrupts off.

use super::paging::KSEG0;
use super::state::{STATUS_CU0, STATUS_KX, set};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::mips::abi::r;

/// Enters the kernel at `entry` in its unmapped segment, with the CPU's number in a0 and the address of the boot
/// information in a1.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    let is_wide = cpu.handle().is_wide();
    let seen = |physical: u64| if is_wide { i64::from((KSEG0 + physical) as u32 as i32) as u64 } else { KSEG0 + physical };
    cpu.prepare_mips(number);
    cpu.set_status(STATUS_CU0 | if is_wide { STATUS_KX } else { 0 });
    set(cpu, r(4), number);
    set(cpu, r(5), seen(info));
    cpu.set_pc(seen(entry));
}
