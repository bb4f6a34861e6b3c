//! i386 and x86_64 on one 64-bit core: the same rooms as every ISA, and `boot.rs`, `check.rs`, `paging.rs` and `cpuid.rs` of their own.

pub mod boot;
pub mod check;
pub mod core;
pub mod cpuid;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod place;
pub mod state;
pub mod tasks;
pub mod trap;

use super::{Firmware, Instructions, Model, WindowRow};
use trapline_isa::arch::Arch;

/// 64-bit x86.
pub static X86_64: Model = model::<true>(Arch::X86_64);
/// 32-bit x86.
pub static I386: Model = model::<false>(Arch::I386);

const fn model<const LONG: bool>(arch: Arch) -> Model {
    Model {
        arch,
        core: &core::CORE,
        self_check: check::self_check,
        trap: trap::trap::<LONG>,
        system_call_vector: None,
        invalid: trap::invalid::<LONG>,
        deliver: deliver::deliver::<LONG>,
        forget: place::forget,
        interruptible: trap::interruptible,
        stepping: trap::stepping,
        step: trap::step,
        translate: paging::translate::<LONG>,
        window: WindowRow {
            start: place::window_start(LONG),
            most: place::WINDOW_MOST,
            table_bytes: place::table_bytes,
            prepare: place::prepare_tables,
        },
        show_window: place::show_window::<LONG>,
        tables_in_force: Some(place::tables_in_force),
        hide_window: place::hide_window,
        window_fault: place::window_fault::<LONG>,
        fault_address: place::fault_address,
        in_kernel: trap::in_kernel,
        wakes_masked: false,
        interrupts_off: trap::interrupts_off,
        pc: trap::pc::<LONG>,
        saved_pc: state::saved_pc,
        saved_interrupts_off: state::saved_interrupts_off,
        entry_tables: boot::TABLE_BYTES,
        enter: boot::enter::<LONG>,
        get: state::get,
        set: state::set,
        current_task: place::current_task::<LONG>,
        instructions: Instructions {
            identify: cpuid::identify,
            read_clock: cpuid::read_clock,
            system_call: deliver::system_call,
        },
        firmware: Firmware::NONE,
        tasks_by_code: tasks::by_code,
        dump: state::dump,
        named: named::NAMED,
    }
}
