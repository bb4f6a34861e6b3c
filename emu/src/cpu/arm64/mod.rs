//! AArch64: the files that every ISA has.

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

#[cfg(test)]
mod walks;

use super::moment::{Moments, PerCpu, Reschedule};
use super::{Choice, CoreFile, Entry, Exceptions, Firmware, Instructions, Interrupts, Model, Registers, Start, Tasks, Window};
use trapline_isa::arch::Arch;
use trapline_isa::arm64::abi::AAPCS64;

/// The machine's model of 64-bit ARM.
pub static ARM64: Model = Model {
    arch: Arch::Arm64,
    // Debian 6.1 does the same work at system calls on both, so neither is faster. The first is QEMU's default.
    choices: &[Choice::of("cortex-a57", &core::CORE), Choice::of("cortex-a72", &core::CORTEX_A72)],
    usual: |_| "cortex-a57",
    self_check: check::self_check,
    exceptions: Exceptions {
        arrived: |cpu, image, _, vector| trap::trap(cpu, image, vector),
        arrived_invalid: trap::invalid,
        system_call: Some(trap::SYSTEM_CALL),
        stepping: trap::stepping,
        step: trap::step,
        deliver: deliver::deliver,
        // The core keeps no state of a reported exception, except for single-steps.
        forget: |cpu, _, _, exception, _| trap::forget(cpu, exception),
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
    // The top byte of a program's address may be a tag.
    is_user: |address| address & 0x00ff_ffff_ffff_ffff < 1 << 48,
    window: Window {
        start: |kernel, _| window::window_start(kernel),
        most: |_| window::WINDOW_MOST,
        table_bytes: |_| window::TABLE_BYTES,
        prepare: window::prepare_tables,
        show: window::show_window,
        hide: crate::cpu::window::hide,
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
        // All of it is in the task; the word behind the count is 0 when the CPU is to take another one.
        moments: Moments {
            count_by_code: tasks::count_by_code,
            per_cpu: Some(PerCpu::Register(|handle| handle.system(state::PER_CPU))),
            count: (8, Some(32)),
            reschedules: const { &[Reschedule::always(1), Reschedule::since((6, 13), 1, 2)] },
            ..Moments::NONE
        },
        current: tasks::current,
        narrow_word: |handle| state::is_narrow(handle).then_some(4),
        page_bits: paging::kernels_page_bits,
        is_in_register: true,
        switched: Some(&tasks::SWITCHED),
        by_code: tasks::by_code,
        ..Tasks::USUAL
    },
    instructions: Instructions { register: core::register, ..Instructions::NONE },
    firmware: Firmware { arguments: AAPCS64.arguments, results: AAPCS64.arguments },
    named: named::NAMED,
    // The linear maps for addresses of 48 bits: that of Linux 5.4 and later, and the earlier one.
    debugger: &debugger::DESCRIPTION,
    core_file: CoreFile { direct_maps: &[0xffff_0000_0000_0000, 0xffff_8000_0000_0000], ..CoreFile::USUAL },
    ..Model::USUAL
};
