//! RISC-V, in 64 and 32 bits: a hart in supervisor mode. The board stands in for machine mode and answers its calls (SBI).

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
#[cfg(test)]
mod fences;
pub mod named;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
#[cfg(test)]
mod walks;
pub mod window;

use super::moment::{CountPlace, Moments, Reschedule};
use super::{
    Choice, CoreFile, Entry, Exception, Exceptions, Firmware, Instructions, Interrupts, Model, Named, Pins, Registers, Start,
    Tasks, Window,
};
use crate::unicorn::engine::Handle;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_isa::riscv::abi::x;

/// The machine's model for 64-bit RISC-V kernels.
pub static RISCV64: Model = model(Arch::Riscv64, &[Choice::of("sifive-u54", &core::WIDE)], check::wide, named::WIDE);
/// The machine's model for 32-bit RISC-V kernels.
pub static RISCV32: Model = model(Arch::Riscv32, &[Choice::of("sifive-u34", &core::NARROW)], check::narrow, named::NARROW);

/// a0 to a5, a6 and a7: the arguments, the function and the extension of an SBI call.
static CALL: [Reg; 8] = [x(10), x(11), x(12), x(13), x(14), x(15), x(16), x(17)];
/// a0 and a1: the error and the value.
static ANSWER: [Reg; 2] = [x(10), x(11)];

const MOMENTS: Moments = Moments {
    flags: CountPlace::Task(0),
    reschedules: &[Reschedule::always(3), Reschedule::since((6, 13), 0, 1), Reschedule::COMMON],
    ..Moments::NONE
};

const fn model(arch: Arch, choices: &'static [Choice], self_check: fn() -> Result<(), String>, named: Named) -> Model {
    let is_user: fn(u64) -> bool = match arch {
        Arch::Riscv32 => |address| address < 0x9c00_0000,
        _ => |address| address < 1 << 56,
    };
    Model {
        arch,
        choices,
        usual: core::of,
        self_check,
        exceptions: Exceptions {
            arrived: |cpu, _, _, vector| trap::trap(cpu, vector),
            // The core reports invalid instructions as exceptions, too.
            arrived_invalid: trap::invalid,
            system_call: Some(trap::SYSTEM_CALL),
            stepping: |_| false,
            step: |_| Exception::of(trap::ILLEGAL),
            deliver: deliver::deliver,
            // An exception changes no register before its delivery.
            forget: |_, _, _, _, _| (),
            fault_address: |handle, _| state::places(handle).word(handle, |places| places.stval),
            ..Exceptions::USUAL
        },
        interrupts: Interrupts {
            can_be_taken: |handle, _| !state::interrupts_off(handle),
            are_off: state::interrupts_off,
            were_off: state::saved_interrupts_off,
            wake_though_off: true,
            pins: Some(Pins { let_in: state::lets_in, show: state::show_pins }),
        },
        translate: paging::translate,
        is_user,
        window: Window {
            start: |kernel, _| window::start(kernel),
            most: window::most,
            table_bytes: window::table_bytes,
            prepare: window::prepare_tables,
            clear: |_, _, _| (),
            show: window::show_window,
            hide: crate::cpu::window::hide,
            tables_in_force: Some(paging::tables_in_force),
            missed: window::missed,
            registers: &[],
        },
        entry: Entry { enter: boot::enter, start: Start { is_entered: true, set: state::start }, ..Entry::USUAL },
        registers: Registers {
            pc: Handle::pc,
            saved_pc: state::saved_pc,
            returns: |handle| vec![state::places(handle).sepc],
            in_kernel: state::in_kernel,
            get: state::get,
            held: |_, _| None,
            many: None,
            set: state::set,
            dump: state::dump,
        },
        tasks: Tasks {
            moments: MOMENTS,
            current: tasks::current,
            in_program: Some(tasks::current),
            is_in_register: true,
            by_code: tasks::by_code,
            ..Tasks::USUAL
        },
        instructions: Instructions::NONE,
        firmware: Firmware { arguments: &CALL, results: &ANSWER },
        named,
        debugger: match arch {
            Arch::Riscv32 => &debugger::NARROW,
            _ => &debugger::WIDE,
        },
        core_file: CoreFile {
            layout: state::core_layout,
            // 64-bit kernels with three levels of page tables (new releases, then old ones), with four and five; then
            // 32-bit kernels.
            direct_maps: &[
                0xffff_ffd6_0000_0000,
                0xffff_ffd8_0000_0000,
                0xffff_ffe0_0000_0000,
                0xffff_af80_0000_0000,
                0xff60_0000_0000_0000,
                0xc000_0000,
            ],
        },
    }
}
