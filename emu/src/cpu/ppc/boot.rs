//! The state at a kernel's entry: hypervisor state, translation off, interrupts off.

use super::state::{MSR_HV, MSR_LE, MSR_ME, MSR_SF, set_msr};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterPPC;

/// The bits of a real-mode address.
const REAL: u64 = 0x0fff_ffff_ffff_ffff;

/// Enters the kernel at `entry`. The byte order is the model's.
pub fn enter<const LITTLE: bool>(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    set_msr(cpu, MSR_SF | MSR_HV | MSR_ME | if LITTLE { MSR_LE } else { 0 });
    cpu.write(RegisterPPC::R3, info);
    // The CPU's number: Linux requires 0 for the first one. It requires 0 in r5 too, which is so after reset.
    cpu.write(RegisterPPC::R4, number);
    // A kernel's file may give the entry as a virtual address, but translation is still off.
    cpu.set_pc(entry & REAL);
}
