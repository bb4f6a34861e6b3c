//! From reset to a kernel's entry: in the hypervisor's state, untranslated, nothing let in.

use super::state::{MSR_HV, MSR_LE, MSR_ME, MSR_SF, set_msr};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use unicorn_engine_sys::RegisterPPC;

/// The bits of an address that is not translated.
const REAL: u64 = 0x0fff_ffff_ffff_ffff;

/// Puts a CPU at the entry of a kernel whose order of bytes is that of the model.
pub fn enter<const LITTLE: bool>(
    cpu: &TrapContext,
    _image: &mut CoreState,
    _ram: &Ram,
    _tables: u64,
    entry: u64,
    number: u64,
    info: u64,
) {
    set_msr(cpu, MSR_SF | MSR_HV | MSR_ME | if LITTLE { MSR_LE } else { 0 });
    cpu.write(RegisterPPC::R3, info);
    // Of the first one 0, as Linux wants it; so it does r5, which is 0 from the reset on.
    cpu.write(RegisterPPC::R4, number);
    // A kernel's file may have its own address of the entry; nothing is translated yet.
    cpu.set_pc(entry & REAL);
}
