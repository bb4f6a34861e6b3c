//! MIPS, in 32 and 64 bits and both byte orders.

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod named;
pub mod paging;
pub mod refill;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::{Choice, CoreFile, Entry, Exception, Exceptions, Interrupts, Model, Named, Pins, Registers, Tasks, Window};
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;

/// The machine's model for 32-bit big-endian kernels.
pub static MIPS: Model = model(Arch::Mips, &[Choice::of("24Kf", &core::BIG_32)], check::big_32, named::BIG_32);
/// The machine's model for 32-bit little-endian kernels.
pub static MIPSEL: Model = model(Arch::Mipsel, &[Choice::of("24Kf", &core::LITTLE_32)], check::little_32, named::LITTLE_32);
/// The machine's model for 64-bit big-endian kernels.
pub static MIPS64: Model = model(Arch::Mips64, &[Choice::of("MIPS64R2-generic", &core::BIG_64)], check::big_64, named::BIG_64);
/// The machine's model for 64-bit little-endian kernels.
pub static MIPS64EL: Model =
    model(Arch::Mips64el, &[Choice::of("MIPS64R2-generic", &core::LITTLE_64)], check::little_64, named::LITTLE_64);

const fn model(arch: Arch, choices: &'static [Choice], self_check: fn() -> Result<(), String>, named: Named) -> Model {
    // Programs live in the segments useg and xuseg.
    let (is_user, direct_maps): (fn(u64) -> bool, &[u64]) = match arch {
        Arch::Mips64 | Arch::Mips64el => {
            (|address| address < 1 << 62, &[0x9800_0000_0000_0000, 0xa800_0000_0000_0000, 0xffff_ffff_8000_0000])
        }
        _ => (|address| address < 0x8000_0000, &[0x8000_0000]),
    };
    let (order, word) = match arch {
        Arch::Mips => (ByteOrder::Big, 4),
        Arch::Mips64 => (ByteOrder::Big, 8),
        Arch::Mips64el => (ByteOrder::Little, 8),
        _ => (ByteOrder::Little, 4),
    };
    Model {
        arch,
        choices,
        usual: core::of,
        self_check,
        exceptions: Exceptions {
            arrived: |cpu, image, _, vector| trap::trap(cpu, image, vector),
            // The core reports invalid instructions as exceptions, too.
            arrived_invalid: trap::invalid,
            system_call: Some(trap::SYSTEM_CALL),
            step: |_| Exception::of(trap::RESERVED),
            deliver: deliver::deliver,
            fault_address: |handle, _| window::fault_address(handle),
            ..Exceptions::USUAL
        },
        interrupts: Interrupts {
            can_be_taken: |handle, _| !trap::interrupts_off(handle),
            are_off: trap::interrupts_off,
            were_off: state::saved_interrupts_off,
            pins: Some(Pins { let_in: trap::lets_in, show: trap::show_pins }),
            ..Interrupts::USUAL
        },
        translate: paging::translate,
        is_user,
        window: Window { start: window::start, most: |_| window::WINDOW_MOST, show: window::show_window, ..Window::USUAL },
        entry: Entry { enter: boot::enter, ..Entry::USUAL },
        registers: Registers {
            saved_pc: state::saved_pc,
            returns: |handle| vec![handle.place_of(crate::unicorn::cpus::mips::Place::Epc)],
            in_kernel: trap::in_kernel,
            get: state::get,
            set: state::set,
            dump: state::dump,
            ..Registers::USUAL
        },
        tasks: Tasks {
            moments: tasks::moments(order, word),
            current: tasks::current,
            is_in_register: true,
            by_code: tasks::by_code,
            ..Tasks::USUAL
        },
        named,
        debugger: if word == 8 { &debugger::WIDE } else { &debugger::NARROW },
        core_file: CoreFile { layout: state::core_layout, direct_maps },
        ..Model::USUAL
    }
}
