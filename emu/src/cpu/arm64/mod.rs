//! AArch64: the same rooms as every ISA, and `boot.rs`, `check.rs` and `paging.rs` of their own.

pub mod boot;
pub mod check;
pub mod core;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod place;
pub mod state;
pub mod trap;

use super::{Firmware, Instructions, Model, TaskPlace, WindowRow};
use trapline_isa::arch::Arch;
use trapline_isa::arm64::abi::AAPCS64;

/// 64-bit ARM.
pub static ARM64: Model = Model {
    arch: Arch::Arm64,
    core: &core::CORE,
    self_check: check::self_check,
    trap: trap::trap,
    system_call_vector: Some(trap::SYSTEM_CALL),
    invalid: trap::invalid,
    deliver: deliver::deliver,
    // The core keeps no trace of an exception that it has reported.
    forget: |cpu, _, exception, _| trap::forget(cpu, exception),
    interruptible: |handle, _| !trap::interrupts_off(handle),
    stepping: trap::stepping,
    step: trap::step,
    translate: paging::translate,
    window: WindowRow {
        start: place::WINDOW_START,
        most: place::WINDOW_MOST,
        // Blocks of 2 MiB in a table of the guest's own.
        table_bytes: |_| 0,
        prepare: |_, _| (),
    },
    show_window: place::show_window,
    tables_in_force: Some(place::tables_in_force),
    hide_window: place::hide_window,
    window_fault: place::window_fault,
    fault_address: place::fault_address,
    in_kernel: trap::in_kernel,
    wakes_masked: true,
    interrupts_off: trap::interrupts_off,
    pc: crate::unicorn::engine::Handle::pc,
    saved_pc: state::saved_pc,
    saved_interrupts_off: state::saved_interrupts_off,
    entry_tables: 0,
    enter: boot::enter,
    get: state::get,
    set: state::set,
    current_task: place::current_task,
    instructions: Instructions::NONE,
    firmware: Firmware { arguments: AAPCS64.arguments, results: AAPCS64.arguments },
    tasks_by_code: |_| TaskPlace::default(),
    dump: state::dump,
    named: named::NAMED,
};
