//! i386 and x86_64 on one 64-bit core: the files that every ISA has, with `cpuid.rs`.

pub mod boot;
pub mod check;
pub mod core;
pub mod cpuid;
pub mod debugger;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

#[cfg(test)]
mod global_pages;
#[cfg(test)]
mod jumps_and_walks;
#[cfg(test)]
mod segments;
#[cfg(test)]
mod stores;

use super::moment::{Moments, PerCpu, Reschedule};
use super::{Choice, Entry, Exceptions, Instructions, Interrupts, Model, Registers, Start, Tasks, Window};
use trapline_isa::arch::Arch;

/// The machine's model of 64-bit x86.
pub static X86_64: Model = model::<true>(Arch::X86_64);
/// The machine's model of 32-bit x86.
pub static I386: Model = model::<false>(Arch::I386);

const CHOICES: &[Choice] = &[
    Choice { name: "amd", core: &core::CORE, identify: cpuid::amd },
    Choice { name: "intel", core: &core::CORE, identify: cpuid::intel },
];

const fn model<const LONG: bool>(arch: Arch) -> Model {
    Model {
        arch,
        choices: CHOICES,
        usual: |_| "amd",
        self_check: check::self_check,
        exceptions: Exceptions {
            arrived: |cpu, image, _, vector| trap::trap::<LONG>(cpu, image, vector),
            arrived_invalid: trap::invalid::<LONG>,
            stepping: trap::stepping,
            step: trap::step,
            deliver: deliver::deliver::<LONG>,
            forget: |cpu, image, _, exception, before| window::forget(cpu, image, exception, before),
            fault_address: |handle, _| window::fault_address(handle),
            ..Exceptions::USUAL
        },
        interrupts: Interrupts {
            can_be_taken: trap::interruptible,
            are_off: trap::interrupts_off,
            were_off: state::saved_interrupts_off,
            wake_though_off: false,
            ..Interrupts::USUAL
        },
        translate: paging::translate::<LONG>,
        is_user: |address| address < if LONG { 0x7fff_ffff_f000 } else { 0xc000_0000 },
        window: Window {
            start: |_, _| window::window_start(LONG),
            most: |_| window::WINDOW_MOST,
            table_bytes: window::table_bytes,
            prepare: window::prepare_tables,
            show: window::show_window::<LONG>,
            hide: crate::cpu::window::hide,
            tables_in_force: Some(window::tables_in_force),
            missed: window::missed::<LONG>,
            ..Window::USUAL
        },
        entry: Entry {
            table_bytes: boot::TABLE_BYTES,
            enter: boot::enter::<LONG>,
            start: Start { is_entered: false, set: state::start },
        },
        registers: Registers {
            pc: trap::pc::<LONG>,
            saved_pc: state::saved_pc,
            in_kernel: trap::in_kernel,
            get: state::get,
            set: state::set,
            dump: state::dump,
            ..Registers::USUAL
        },
        tasks: Tasks {
            moments: Moments {
                count_by_code: if LONG { tasks::count_by_code::<64> } else { tasks::count_by_code::<32> },
                own_data: tasks::own_data::<LONG>,
                per_cpu: Some(PerCpu::Register(tasks::own_data::<LONG>)),
                count: (4, Some(31)),
                reschedules: const { &[Reschedule::always(3), Reschedule::since((6, 12), 3, 4), Reschedule::COMMON] },
                ..Moments::NONE
            },
            current: tasks::current::<LONG>,
            narrow_word: if LONG { tasks::narrow_word } else { |_| None },
            in_program: if LONG { Some(tasks::in_program) } else { None },
            switched: if LONG { Some(&tasks::SWITCHED) } else { None },
            by_code: tasks::by_code,
            ..Tasks::USUAL
        },
        instructions: Instructions { read_clock: cpuid::read_clock, system_call: deliver::system_call, ..Instructions::NONE },
        named: named::NAMED,
        debugger: if LONG { &debugger::WIDE } else { &debugger::NARROW },
        core_file: if LONG { state::CORE_64 } else { state::CORE_32 },
        ..Model::USUAL
    }
}
