//! The state at a kernel's entry: kernel mode, translation off, interrupts off.

use super::state::{MSR_ME, set, set_msr};
use super::window::LINEAR;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use trapline_isa::ppc::abi::r;

/// Size of the outermost stack frame, which is unused.
const STACK_FRAME: u64 = 16;

/// Enters the kernel at `entry`, with the address of the boot information in r3, a stack below it, and the CPU's number
/// in r4.
pub fn enter(cpu: &TrapContext, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    set_msr(cpu, MSR_ME);
    set(cpu, r(1), info.saturating_sub(STACK_FRAME));
    set(cpu, r(3), info);
    set(cpu, r(4), number);
    // A kernel's file may give the entry as a virtual address, but translation is still off.
    cpu.set_pc(if entry >= LINEAR { entry - LINEAR } else { entry });
}
