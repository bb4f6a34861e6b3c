//! z/Architecture: the files that every ISA has, and `left.rs` for instructions that the core does not execute.

pub mod boot;
mod channels;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod left;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::moment::{Moments, PerCpu, Reschedule};
use super::{
    Choice, CoreFile, Entry, Exception, Exceptions, Instructions, Interrupts, Model, Pins, Registers, Start, Tasks, Window,
};
use trapline_isa::arch::Arch;

/// Kernels in 64-bit mode.
pub static S390X: Model = Model {
    arch: Arch::S390x,
    choices: &[Choice::of("z", &core::CORE)],
    usual: |_| "z",
    self_check: check::self_check,
    exceptions: Exceptions {
        arrived: trap::trap,
        arrived_invalid: trap::invalid,
        system_call: Some(trap::CALL),
        stepping: trap::stepping,
        step: |_| Exception { detail: 2, ..Exception::of(trap::RECORDED) },
        deliver: deliver::deliver,
        forget: |cpu, _, ram, exception, before| window::forget(&cpu.handle(), ram, exception, before),
        fault_address: window::fault_address,
        moves_fault_address: Some(window::SET_PREFIX),
        stepped_at: Some(state::RECORDED_ADDRESS),
        ..Exceptions::USUAL
    },
    interrupts: Interrupts {
        can_be_taken: trap::can_be_interrupted,
        are_off: trap::interrupts_off,
        were_off: state::saved_interrupts_off,
        wake_though_off: false,
        pins: Some(Pins { let_in: |handle, kinds| trap::accepted(handle) & kinds != 0, show: |_, _| () }),
        ..Interrupts::USUAL
    },
    translate: paging::translate,
    window: Window {
        start: window::start,
        most: |_| window::WINDOW_MOST,
        table_bytes: window::table_bytes,
        prepare: window::prepare,
        show: window::show_window,
        hide: window::hide_window,
        tables_in_force: Some(window::tables_in_force),
        missed: window::missed,
        ..Window::USUAL
    },
    entry: Entry { enter: boot::enter, start: Start { is_entered: true, set: state::start }, ..Entry::USUAL },
    registers: Registers {
        saved_pc: state::saved_pc,
        in_kernel: trap::in_kernel,
        get: state::get,
        set: state::set,
        dump: state::dump,
        ..Registers::USUAL
    },
    tasks: Tasks {
        // Every CPU sees its own lowcore at address 0.
        moments: Moments {
            count_by_code: tasks::count_by_code,
            own_data: |_| 0,
            per_cpu: Some(PerCpu::Member { area: |_| 0, names: ("lowcore", "percpu_offset") }),
            count: (4, Some(31)),
            reschedules: const { &[Reschedule::always(2), Reschedule::since((6, 13), 2, 3), Reschedule::COMMON] },
            ..Moments::NONE
        },
        current: tasks::current,
        in_program: Some(tasks::current),
        narrow_word: tasks::narrow_word,
        by_code: tasks::by_code,
        ..Tasks::USUAL
    },
    instructions: Instructions { left: left::left, ..Instructions::NONE },
    named: named::NAMED,
    debugger: &debugger::DESCRIPTION,
    core_file: CoreFile { layout: state::core_layout, direct_maps: &[0] },
    ..Model::USUAL
};
