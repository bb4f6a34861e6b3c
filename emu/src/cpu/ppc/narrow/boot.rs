//! From reset to a kernel's entry: kernel mode, untranslated, nothing let in.

use super::state::{MSR_ME, set, set_msr};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use trapline_isa::ppc::abi::r;

/// Puts a CPU at the entry, a physical address: the boot information in r3, the number of the CPU in r4.
pub fn enter(cpu: &TrapContext, _image: &mut CoreState, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    set_msr(cpu, MSR_ME);
    set(cpu, r(3), info);
    set(cpu, r(4), number);
    cpu.set_pc(entry);
}
