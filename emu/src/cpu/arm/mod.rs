//! 32-bit ARM: the same rooms as every ISA, and `boot.rs`, `check.rs` and `paging.rs` of their own.

pub mod boot;
pub mod check;
pub mod core;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod place;
pub mod state;
pub mod tasks;
pub mod trap;

use super::{Exception, Firmware, Instructions, Model, WindowRow};
use trapline_isa::arch::Arch;
use trapline_isa::arm::abi::AAPCS;

/// Kernels in A32 code.
pub static ARM: Model = model(Arch::Arm);
/// Kernels in Thumb code, on the same core.
pub static THUMB2: Model = model(Arch::Thumb2);

const fn model(arch: Arch) -> Model {
    Model {
        arch,
        core: &core::CORE,
        self_check: check::self_check,
        trap: trap::trap,
        system_call_vector: Some(trap::SYSTEM_CALL),
        invalid: trap::invalid,
        deliver: deliver::deliver,
        forget: |cpu, _, _, _| trap::park(cpu),
        interruptible: |handle, _| !trap::interrupts_off(handle),
        // Code of 32 bits is stepped by a debugger of 64 bits, or not at all.
        stepping: |_| false,
        step: |_| Exception::of(trap::UNDEFINED),
        translate: paging::translate,
        window: WindowRow {
            start: place::WINDOW_START,
            most: place::WINDOW_MOST,
            // Sections of 1 MiB in the guest's own first-level table.
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
        firmware: Firmware { arguments: AAPCS.arguments, results: AAPCS.arguments },
        tasks_by_code: tasks::by_code,
        dump: state::dump,
        named: named::NAMED,
    }
}
