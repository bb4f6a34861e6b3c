//! Unicorn's z/Architecture: its [`Library`], and the exception number for instructions that the machine executes.

use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{Arch, Mode, RegisterS390X};

unsafe extern "C" {
    fn tb_invalidate_phys_range_s390x(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_s390x(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_s390x"]
    safe static LAYOUT: line::Layout;
    fn tlb_reset_dirty_s390x(cpu: *mut c_void, host: usize, len: usize);
}

impl From<RegisterS390X> for Register {
    fn from(register: RegisterS390X) -> Register {
        Register(register as c_int)
    }
}

/// The exception number for an instruction that Unicorn does not implement (`translator/s390/left.h`). No exception of the
/// CPU has this number.
pub const LEFT_TO_US: u32 = 0x100;

/// Unicorn's build for z/Architecture, which is big-endian.
pub static LIBRARY: Library = Library {
    arch: Arch::S390X,
    mode: Mode::BIG_ENDIAN,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_s390x,
    ram_address: qemu_ram_addr_from_host_s390x,
    // The MMU mode of the home address space, in which Linux runs.
    live_translations: 48,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_s390x },
    layout: &LAYOUT,
};
