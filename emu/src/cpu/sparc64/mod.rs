//! SPARC V9, 64 bits, big-endian.

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod register_windows;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::moment::Moments;
use super::{Choice, CoreFile, Entry, Exception, Exceptions, Interrupts, Many, Model, Registers, TaskPlace, Tasks, Window};
use trapline_isa::arch::Arch;

/// The machine's model for 64-bit SPARC kernels.
pub static SPARC64: Model = Model {
    arch: Arch::Sparc64,
    choices: &[Choice::of("UltraSPARC-IV", &core::CORE)],
    usual: core::of,
    self_check: check::check,
    exceptions: Exceptions {
        arrived: |cpu, _, _, vector| trap::trap(cpu, vector),
        // The core reports invalid instructions as exceptions, too.
        arrived_invalid: trap::invalid,
        system_call: Some(SYSTEM_CALL),
        step: |_| Exception::of(trap::ILLEGAL),
        deliver: deliver::deliver,
        forget: |cpu, _, _, _, before| cpu.set_live64(state::DATA_ACCESS, before),
        fault_address: |handle, _| handle.live64(state::DATA_ACCESS),
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
    translate: paging::translate,
    // Below the hole of the address space. The kernel's image lies there too, in an address space of its own.
    is_user: |address| address < 0x0800_0000_0000,
    window: Window {
        start: window::start,
        most: |_| window::WINDOW_MOST,
        show: window::show_window,
        missed: window::missed,
        registers: &window::REGISTERS,
        ..Window::USUAL
    },
    entry: Entry { enter: boot::enter, ..Entry::USUAL },
    registers: Registers {
        saved_pc: state::saved_pc,
        returns: |_| state::returns(),
        in_kernel: state::in_kernel,
        get: state::get,
        held: state::held,
        many: Some(Many { get: register_windows::get_many, put_back: register_windows::put_back }),
        set: state::set,
        dump: state::dump,
        ..Registers::USUAL
    },
    tasks: Tasks {
        moments: Moments::NONE,
        current: tasks::current,
        is_in_register: false,
        by_code: |_| TaskPlace::default(),
        ..Tasks::USUAL
    },
    named: named::NAMED,
    debugger: &debugger::DESCRIPTION,
    core_file: CoreFile { layout: state::core_layout, direct_maps: &[0xffff_f800_0000_0000] },
    ..Model::USUAL
};

/// The trap of Linux's system calls: `ta 0x6d`.
const SYSTEM_CALL: u32 = 0x16d;
