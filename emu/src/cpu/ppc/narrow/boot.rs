//! From reset to a kernel's entry: kernel mode, untranslated, nothing let in.

use super::state::{MSR_ME, set, set_msr};
use super::window::LINEAR;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use trapline_isa::ppc::abi::r;

/// The outermost one, of which nothing is used.
const STACK_FRAME: u64 = 16;

/// Puts a CPU at the entry: the boot information in r3, in front of it a stack, the number of the CPU in r4.
pub fn enter(cpu: &TrapContext, _image: &mut CoreState, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    set_msr(cpu, MSR_ME);
    set(cpu, r(1), info.saturating_sub(STACK_FRAME));
    set(cpu, r(3), info);
    set(cpu, r(4), number);
    // A kernel's file may have its own address of the entry; nothing is translated yet.
    cpu.set_pc(if entry >= LINEAR { entry - LINEAR } else { entry });
}
