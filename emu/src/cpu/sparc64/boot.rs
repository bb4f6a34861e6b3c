//! From reset to a kernel's entry: the kernel's privilege, no trap being handled, the MMU and interrupts off.

use super::state::set;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::CoreState;
use trapline_isa::sparc64::abi::o;

/// Puts a CPU at `entry`: the number of the CPU in %o0, the boot information in %o1.
pub fn enter(cpu: &TrapContext, _image: &mut CoreState, _ram: &Ram, _tables: u64, entry: u64, number: u64, info: u64) {
    cpu.prepare_sparc();
    set(cpu, o(0), number);
    set(cpu, o(1), info);
    cpu.set_pc(entry);
}
