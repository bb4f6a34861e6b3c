//! 32-bit big-endian PowerPC, with BATs (block registers) and a hashed page table. The exception numbers are in
//! `cpu/ppc/trap.rs`.

pub mod boot;
pub mod check;
pub mod core;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::trap::{SYSTEM_CALL, TRACE};
use crate::cpu::{Choice, CoreFile, Entry, Exception, Exceptions, Interrupts, Model, Registers, Tasks, Window};
use trapline_isa::arch::Arch;

/// 32-bit big-endian kernels.
pub static PPC: Model = Model {
    arch: Arch::Ppc,
    choices: &[Choice::of("750", &core::CORE)],
    usual: |_| "750",
    self_check: check::self_check,
    exceptions: Exceptions {
        arrived: |cpu, image, _, vector| trap::trap(cpu, image, vector),
        arrived_invalid: trap::invalid,
        system_call: Some(SYSTEM_CALL),
        stepping: trap::stepping,
        step: |_| Exception::of(TRACE),
        deliver: deliver::deliver,
        forget: |cpu, image, _, exception, before| trap::forget(cpu, image, exception, before),
        fault_address: |handle, _| handle.live32(state::DAR).into(),
        ..Exceptions::USUAL
    },
    interrupts: Interrupts {
        can_be_taken: |handle, _| !trap::interrupts_off(handle),
        are_off: trap::interrupts_off,
        were_off: state::saved_interrupts_off,
        ..Interrupts::USUAL
    },
    translate: paging::translate,
    is_user: |address| address < 0xc000_0000,
    window: Window { start: window::start, most: window::most, clear: window::clear, show: window::show_window, ..Window::USUAL },
    entry: Entry { enter: boot::enter, ..Entry::USUAL },
    registers: Registers {
        saved_pc: state::saved_pc,
        returns: |_| vec![state::SRR0],
        in_kernel: trap::in_kernel,
        get: state::get,
        set: state::set,
        dump: state::dump,
        ..Registers::USUAL
    },
    tasks: Tasks {
        moments: tasks::MOMENTS,
        current: tasks::current,
        is_in_register: true,
        by_code: tasks::by_code,
        ..Tasks::USUAL
    },
    named: named::NAMED,
    debugger: &crate::cpu::ppc::debugger::NARROW,
    core_file: CoreFile { layout: crate::cpu::ppc::state::core_layout, direct_maps: &[0xc000_0000] },
    ..Model::USUAL
};
