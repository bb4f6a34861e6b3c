//! 32-bit ARM: the files that every ISA has, with `paging.rs` and `long.rs` for the two formats of page tables.

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod long;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::moment::Moments;
use super::{Choice, CoreFile, Entry, Exception, Exceptions, Firmware, Interrupts, Model, Registers, TaskPlace, Tasks, Window};
use trapline_isa::arch::Arch;
use trapline_isa::arm::abi::AAPCS;

/// The machine's model for kernels in A32 code.
pub static ARM: Model = model(Arch::Arm);
/// The machine's model for kernels in Thumb code, on the same core.
pub static THUMB2: Model = model(Arch::Thumb2);

const CHOICES: &[Choice] = &[Choice::of("cortex-a8", &core::CORE), Choice::of("cortex-a15", &core::CORE_WITH_LONG_TABLES)];

const fn model(arch: Arch) -> Model {
    Model {
        arch,
        choices: CHOICES,
        usual: core::of,
        self_check: check::self_check,
        exceptions: Exceptions {
            arrived: |cpu, image, _, vector| trap::trap(cpu, image, vector),
            arrived_invalid: trap::invalid,
            system_call: Some(trap::SYSTEM_CALL),
            step: |_| Exception::of(trap::UNDEFINED),
            deliver: deliver::deliver,
            forget: |cpu, _, _, _, _| trap::park(cpu),
            fault_address: |handle, _| window::fault_address(handle),
            ..Exceptions::USUAL
        },
        interrupts: Interrupts {
            can_be_taken: |handle, _| !trap::interrupts_off(handle),
            are_off: trap::interrupts_off,
            were_off: state::saved_interrupts_off,
            ..Interrupts::USUAL
        },
        translate: paging::translate,
        is_user: |address| address < 0xbf00_0000,
        window: Window {
            start: |_, _| window::WINDOW_START,
            most: |_| window::WINDOW_MOST,
            // The window is mapped by 1 MiB sections or 2 MiB blocks in the guest's own tables.
            table_bytes: |_| 0,
            show: window::show_window,
            hide: crate::cpu::window::hide,
            tables_in_force: Some(window::tables_in_force),
            missed: window::missed,
            ..Window::USUAL
        },
        entry: Entry { enter: boot::enter, ..Entry::USUAL },
        registers: Registers {
            saved_pc: state::saved_pc,
            in_kernel: trap::in_kernel,
            get: state::get,
            set: state::set,
            dump: state::dump,
            ..Registers::USUAL
        },
        tasks: Tasks {
            moments: match arch {
                Arch::Thumb2 => Moments::NONE,
                _ => Moments { count_by_code: tasks::count_by_code, ..Moments::NONE },
            },
            current: tasks::current,
            is_in_register: true,
            // Thumb code is not read.
            by_code: match arch {
                Arch::Thumb2 => |_| TaskPlace::default(),
                _ => tasks::by_code,
            },
            ..Tasks::USUAL
        },
        firmware: Firmware { arguments: AAPCS.arguments, results: AAPCS.arguments },
        named: named::NAMED,
        debugger: &debugger::DESCRIPTION,
        core_file: CoreFile { direct_maps: &[0xc000_0000, 0x8000_0000], ..CoreFile::USUAL },
        ..Model::USUAL
    }
}
