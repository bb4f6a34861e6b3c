//! PA-RISC, 32 bits, big-endian, on a core of our own.

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

use super::{Choice, CoreFile, Entry, Exception, Exceptions, Instructions, Interrupts, Model, Pins, Registers, Tasks, Window};
use trapline_isa::arch::Arch;

/// The machine's model for 32-bit PA-RISC kernels.
pub static PARISC: Model = Model {
    arch: Arch::Parisc,
    choices: &[Choice::of("pa-7100lc", &core::CORE)],
    usual: core::of,
    self_check: check::check,
    exceptions: Exceptions {
        arrived: |cpu, _, _, vector| trap::trap(cpu, vector),
        arrived_invalid: |cpu| trap::trap(cpu, trap::ILLEGAL),
        step: |_| Exception::of(trap::ILLEGAL),
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
        // The guest finds the requests in EIRR, whose reads ask the board.
        pins: Some(Pins { let_in: state::lets_in, show: |_, _| () }),
    },
    instructions: Instructions {
        read_clock: |cpu, nanoseconds| {
            if let Some(state) = cpu.handle().parisc() {
                state.general[state.clock_to.get() as usize & 31].set(nanoseconds as u32);
            }
        },
        ..Instructions::NONE
    },
    translate: paging::translate,
    is_user: |address| address < 0xc000_0000,
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
        set: state::set,
        dump: state::dump,
        ..Registers::USUAL
    },
    tasks: Tasks { current: tasks::current, is_in_register: true, ..Tasks::USUAL },
    named: named::NAMED,
    debugger: &debugger::DESCRIPTION,
    core_file: CoreFile { layout: state::core_layout, direct_maps: &[0x1000_0000] },
    ..Model::USUAL
};
