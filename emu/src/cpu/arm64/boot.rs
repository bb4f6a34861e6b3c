//! From reset to a kernel's entry as Linux's boot protocol has it (Documentation/arm64/booting.rst): EL1, MMU off,
//! everything masked.

use super::state::{HCR_EL2, PSTATE_ENTRY, SCR_EL3, SPSR_EL1};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use unicorn_engine_sys::RegisterARM64;

/// EL1 is non-secure and 64 bits wide, HVC works, SMC does not.
const SCR: u64 = 0x5b1;
const EL1_IS_64_BIT: u64 = 1 << 31;

/// Puts a CPU at `entry`: boot information in x0, its number in x1, where Linux wants the first one's 0.
pub fn enter(cpu: &TrapContext, _image: &mut CoreState, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    open_levels(cpu);
    cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    cpu.set_system(SPSR_EL1, 0);
    cpu.write(RegisterARM64::X0, info);
    cpu.write(RegisterARM64::X1, number);
    cpu.set_pc(entry);
}

/// Without this the core takes EL1 for a 32-bit level.
pub fn open_levels(cpu: &TrapContext) {
    cpu.set_system(SCR_EL3, SCR);
    cpu.set_system(HCR_EL2, EL1_IS_64_BIT);
}
