//! The state at a kernel's entry by Linux's boot protocol (Documentation/arm64/booting.rst): EL1, MMU off, all
//! exceptions masked.

use super::state::{HCR_EL2, PSTATE_ENTRY, SCR_EL3, SPSR_EL1};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterARM64;

/// EL1 is non-secure and 64-bit, HVC is enabled, SMC is disabled.
const SCR: u64 = 0x5b1;
const EL1_IS_64_BIT: u64 = 1 << 31;

/// Enters the kernel at `entry`, with the boot information in x0 and the CPU's number in x1. Linux requires 0 there for
/// the first CPU.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    open_levels(cpu);
    cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    cpu.set_system(SPSR_EL1, 0);
    cpu.write(RegisterARM64::X0, info);
    cpu.write(RegisterARM64::X1, number);
    cpu.set_pc(entry);
}

/// Makes EL1 a 64-bit level; otherwise the core treats it as 32-bit.
pub fn open_levels(cpu: &TrapContext) {
    cpu.set_system(SCR_EL3, SCR);
    cpu.set_system(HCR_EL2, EL1_IS_64_BIT);
}
