//! i386 and x86_64 on one 64-bit core: the same rooms as every ISA, and `boot.rs`, `paging.rs` and `cpuid.rs` of their own.

pub mod boot;
pub mod cpuid;
pub mod deliver;
pub mod paging;
pub mod place;
pub mod state;
pub mod trap;

use super::Model;
use trapline_isa::arch::Arch;

/// 64-bit x86.
pub static X86_64: Model = model::<true>(Arch::X86_64);
/// 32-bit x86.
pub static I386: Model = model::<false>(Arch::I386);

const fn model<const LONG: bool>(arch: Arch) -> Model {
    Model {
        arch,
        trap: trap::trap::<LONG>,
        invalid: trap::invalid::<LONG>,
        deliver: deliver::deliver::<LONG>,
        interruptible: trap::interruptible,
        translate: paging::translate::<LONG>,
        show_window: place::show_window::<LONG>,
        hide_window: place::hide_window,
        window_fault: place::window_fault::<LONG>,
        fault_address: place::fault_address,
        in_kernel: trap::in_kernel,
        interrupts_off: trap::interrupts_off,
        pc: trap::pc::<LONG>,
        saved_pc: state::saved_pc,
        saved_interrupts_off: state::saved_interrupts_off,
        enter: boot::enter::<LONG>,
        dump: state::dump,
    }
}
