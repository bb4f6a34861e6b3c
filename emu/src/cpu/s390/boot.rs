//! From reset to a kernel's entry: 64-bit mode, untranslated, nothing let in.

use super::state::WIDE;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use unicorn_engine_sys::RegisterS390X;

/// Puts a CPU at the entry: its number in r2, the boot information in r3. Of the first one of a Linux both are 0, as
/// all registers are.
pub fn enter(cpu: &TrapContext, _image: &mut CoreState, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.write(RegisterS390X::PSWM, WIDE);
    cpu.write(RegisterS390X::R2, number);
    cpu.write(RegisterS390X::R3, info);
    cpu.set_pc(entry);
}
