//! IA-64, little-endian, on a core of our own.

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::{Choice, CoreFile, Entry, Exception, Exceptions, Instructions, Interrupts, Model, Registers, Tasks, Window};
use trapline_core::ia64::ar;
use trapline_isa::arch::Arch;

/// The vector of the single-step trap.
const SINGLE_STEP: u32 = 0x6000;

/// The machine's model for IA-64 kernels.
pub static IA64: Model = Model {
    arch: Arch::Ia64,
    choices: &[Choice::of("itanium2", &core::CORE)],
    usual: core::of,
    self_check: check::check,
    exceptions: Exceptions {
        arrived: |cpu, _, _, vector| trap::trap(cpu, vector),
        arrived_invalid: |cpu| trap::trap(cpu, trap::ILLEGAL),
        step: |_| Exception::of(SINGLE_STEP),
        deliver: deliver::deliver,
        fault_address: |handle, _| state::fault_address(handle),
        ..Exceptions::USUAL
    },
    interrupts: Interrupts {
        can_be_taken: |handle, _| !state::interrupts_off(handle),
        are_off: state::interrupts_off,
        were_off: state::saved_interrupts_off,
        // Sleeping is a device of the board.
        wake_though_off: true,
        ..Interrupts::USUAL
    },
    instructions: Instructions {
        read_clock: |cpu, nanoseconds| {
            if let Some(state) = cpu.handle().ia64() {
                state.application[usize::from(ar::ITC)].set(nanoseconds);
            }
        },
        ..Instructions::NONE
    },
    translate: paging::translate,
    // Linux gives regions 0 to 4 to programs.
    is_user: |address| address >> 61 < 5,
    window: Window {
        start: |kernel, _| window::start(kernel),
        most: |_| window::MOST,
        show: window::show,
        missed: window::missed,
        ..Window::USUAL
    },
    entry: Entry { enter: boot::enter, ..Entry::USUAL },
    registers: Registers {
        saved_pc: state::saved_pc,
        returns: |_| state::returns(),
        in_kernel: state::in_kernel,
        get: state::get,
        held: |handle, address| handle.ia64()?.held(address),
        set: state::set,
        dump: state::dump,
        ..Registers::USUAL
    },
    tasks: Tasks { current: tasks::current, is_in_register: true, ..Tasks::USUAL },
    named: named::NAMED,
    debugger: &debugger::DESCRIPTION,
    core_file: CoreFile { layout: state::core_layout, direct_maps: &[0xe000_0000_0000_0000] },
    ..Model::USUAL
};
