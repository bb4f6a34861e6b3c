//! Unicorn's PowerPC: a [`Library`] for each of two kinds of core. All registers are fields of the core's state
//! (`cpu/ppc/state.rs`).

use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{Arch, Mode, RegisterPPC};

unsafe extern "C" {
    fn tb_invalidate_phys_range_ppc64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_ppc64(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_ppc64"]
    safe static LAYOUT: line::Layout;
    fn tlb_reset_dirty_ppc64(cpu: *mut c_void, host: usize, len: usize);
    fn tb_invalidate_phys_range_ppc(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_ppc(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_ppc"]
    safe static LAYOUT_32: line::Layout;
    fn tlb_reset_dirty_ppc(cpu: *mut c_void, host: usize, len: usize);
}

impl From<RegisterPPC> for Register {
    fn from(register: RegisterPPC) -> Register {
        Register(register as c_int)
    }
}

/// Unicorn's build for 64-bit cores. A bit of the state chooses the byte order.
pub static LIBRARY: Library = Library {
    arch: Arch::PPC,
    mode: Mode(Mode::PPC64.0 | Mode::BIG_ENDIAN.0),
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_ppc64,
    ram_address: qemu_ram_addr_from_host_ppc64,
    // The sixth MMU mode of ten: hypervisor state with address translation, in which the kernel runs.
    live_translations: 96,
    stores: Layout { modes: 10, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_ppc64 },
    layout: &LAYOUT,
};

/// Unicorn's mode for 32-bit big-endian cores.
pub const MODE_32: Mode = Mode(Mode::PPC32.0 | Mode::BIG_ENDIAN.0);

/// Unicorn's build for 32-bit cores.
pub static LIBRARY_32: Library = Library {
    arch: Arch::PPC,
    mode: MODE_32,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_ppc,
    ram_address: qemu_ram_addr_from_host_ppc,
    // The second MMU mode of ten: the kernel's.
    live_translations: 160,
    stores: Layout { modes: 10, smallest_page_bits: 12, address_bytes: 4, guard: tlb_reset_dirty_ppc },
    layout: &LAYOUT_32,
};
