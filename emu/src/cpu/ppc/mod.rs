//! 64-bit PowerPC in both byte orders, in hypervisor state as on a bare machine. 32-bit PowerPC is in `narrow/`.

pub mod boot;
pub mod check;
pub mod core;
pub mod debugger;
pub mod deliver;
pub mod named;
pub mod narrow;
pub mod paging;
pub mod state;
pub mod tasks;
pub mod trap;
pub mod window;

use super::{Choice, CoreFile, Entry, Exceptions, Firmware, Interrupts, Model, Registers, Start, Tasks, Window};
use trapline_isa::arch::Arch;
use trapline_isa::mem::ByteOrder;
use trapline_isa::ppc::abi::r;
use trapline_isa::regs::Reg;

/// Big-endian kernels.
pub static PPC64: Model = model::<false>(Arch::Ppc64, &[Choice::of("power9", &core::BIG)], ByteOrder::Big);
/// Little-endian kernels.
pub static PPC64LE: Model = model::<true>(Arch::Ppc64le, &[Choice::of("power9", &core::LITTLE)], ByteOrder::Little);

const fn model<const LITTLE: bool>(arch: Arch, choices: &'static [Choice], order: ByteOrder) -> Model {
    Model {
        arch,
        choices,
        usual: |_| "power9",
        self_check: check::self_check,
        exceptions: Exceptions {
            arrived: |cpu, image, _, vector| trap::trap(cpu, image, vector),
            arrived_invalid: trap::invalid,
            system_call: Some(trap::SYSTEM_CALL),
            stepping: trap::stepping,
            step: |_| super::Exception::of(trap::TRACE),
            deliver: deliver::deliver::<LITTLE>,
            forget: |cpu, image, _, exception, before| trap::forget(cpu, image, exception, before),
            fault_address: |handle, _| handle.live64(state::DAR),
            ..Exceptions::USUAL
        },
        interrupts: Interrupts {
            can_be_taken: |handle, _| !trap::interrupts_off(handle),
            are_off: trap::interrupts_off,
            were_off: state::saved_interrupts_off,
            ..Interrupts::USUAL
        },
        translate: paging::translate,
        is_user: |address| address < 0x0010_0000_0000_0000,
        window: Window {
            start: window::start,
            most: window::most,
            // The window is mapped by 2 MiB blocks in the guest's own tables.
            table_bytes: |_| 0,
            clear: window::clear,
            show: window::show_window,
            hide: window::hide_window,
            tables_in_force: Some(window::tables_in_force),
            missed: window::missed,
            ..Window::USUAL
        },
        entry: Entry { enter: boot::enter::<LITTLE>, start: Start { is_entered: true, set: state::start }, ..Entry::USUAL },
        registers: Registers {
            saved_pc: state::saved_pc,
            returns: |_| vec![state::SRR0, state::HSRR0],
            in_kernel: trap::in_kernel,
            get: state::get,
            set: state::set,
            dump: state::dump,
            ..Registers::USUAL
        },
        tasks: Tasks {
            moments: tasks::moments(order),
            current: tasks::current,
            in_program: Some(tasks::current),
            page_bits: |_| 16,
            is_in_register: false,
            by_code: tasks::by_code,
            ..Tasks::USUAL
        },
        firmware: Firmware { arguments: OPAL, results: RESULT },
        named: named::NAMED,
        debugger: &debugger::WIDE,
        core_file: CoreFile { layout: state::core_layout, direct_maps: &[0xc000_0000_0000_0000] },
        ..Model::USUAL
    }
}

/// The registers of an OPAL call's number and arguments.
const OPAL: &[Reg] = &[r(0), r(3), r(4), r(5), r(6), r(7), r(8), r(9), r(10)];
/// The register of an OPAL call's result.
const RESULT: &[Reg] = &[r(3)];
