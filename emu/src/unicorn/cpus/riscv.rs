//! Unicorn's RISC-V: a [`Library`] for each width, and the functions of `translator/riscv/own.h`, which enter exception
//! handlers and access sstatus.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::fields::{self, Field, FieldOf};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{Arch, Mode, RegisterRISCV};

unsafe extern "C" {
    fn tb_invalidate_phys_range_riscv64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_riscv64(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_riscv64(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_riscv64"]
    safe static LAYOUT_64: line::Layout;
    #[link_name = "trapline_own_riscv64"]
    safe static OWN_64: Own;
    fn tb_invalidate_phys_range_riscv32(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_riscv32(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_riscv32(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_riscv32"]
    safe static LAYOUT_32: line::Layout;
    #[link_name = "trapline_own_riscv32"]
    safe static OWN_32: Own;
}

impl From<RegisterRISCV> for Register {
    fn from(register: RegisterRISCV) -> Register {
        Register(register as c_int)
    }
}

/// The functions and tables of `riscv/own.h`.
#[repr(C)]
struct Own {
    prepare: unsafe extern "C" fn(cpu: *mut c_void, number: u32),
    deliver: unsafe extern "C" fn(cpu: *mut c_void, cause: u32, is_interrupt: bool, pc: u64, value: u64),
    read_status: unsafe extern "C" fn(cpu: *mut c_void) -> u64,
    write_status: unsafe extern "C" fn(cpu: *mut c_void, value: u64),
    fence: unsafe extern "C" fn(cpu: *mut c_void),
    fields: *const FieldOf,
    field_count: usize,
}

// SAFETY: its pointers point to constants.
unsafe impl Sync for Own {}

/// Unicorn's build for 64-bit cores.
pub static WIDE: Library = Library {
    arch: Arch::RISCV,
    mode: Mode::RISCV64,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_riscv64,
    ram_address: qemu_ram_addr_from_host_riscv64,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_riscv64 },
    layout: &LAYOUT_64,
};

/// Unicorn's build for 32-bit cores.
pub static NARROW: Library = Library {
    arch: Arch::RISCV,
    mode: Mode::RISCV32,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_riscv32,
    ram_address: qemu_ram_addr_from_host_riscv32,
    live_translations: KERNEL_TRANSLATIONS,
    stores: Layout { modes: 4, smallest_page_bits: 12, address_bytes: 4, guard: tlb_reset_dirty_riscv32 },
    layout: &LAYOUT_32,
};

/// [`Library::live_translations`]: supervisor mode is the second MMU mode of four.
const KERNEL_TRANSLATIONS: usize = 64;

fn own_of(library: &Library) -> &'static Own {
    if library.stores.address_bytes == 8 { &OWN_64 } else { &OWN_32 }
}

/// All fields of the state of such a core's CPU.
pub fn fields(library: &Library) -> Vec<Field> {
    let own = own_of(library);
    // SAFETY: a constant table with this many rows, whose names are constant texts.
    unsafe { fields::of(own.fields, own.field_count) }
}

impl Handle {
    /// Reads a general register through Unicorn's API.
    pub fn riscv_general_by_library(&self, number: u8) -> u64 {
        self.read(Register(RegisterRISCV::X0 as c_int + c_int::from(number & 31)))
    }

    /// Reads sstatus.
    #[inline]
    pub fn riscv_status(&self) -> u64 {
        // SAFETY: the core's own CPU, in a callback or between runs.
        unsafe { (own_of(self.kind().library).read_status)(self.cpu()) }
    }
}

impl TrapContext {
    /// Initializes a new core, as the hart of that number.
    pub fn prepare_riscv(&self, number: u64) {
        let handle = self.handle();
        // SAFETY: the core's own CPU, between runs.
        unsafe { (own_of(handle.kind().library).prepare)(handle.cpu(), number as u32) };
    }

    /// Enters the handler of an exception or interrupt. `value` is stval.
    pub fn enter_riscv_handler(&self, cause: u32, is_interrupt: bool, pc: u64, value: u64) {
        let handle = self.handle();
        // SAFETY: the core's own CPU, in the callback of an exception or between runs.
        unsafe { (own_of(handle.kind().library).deliver)(handle.cpu(), cause, is_interrupt, pc, value) };
    }

    /// Flushes the TLB of the running hart.
    pub fn fence_riscv(&self) {
        let handle = self.handle();
        // SAFETY: as in `enter_riscv_handler`.
        unsafe { (own_of(handle.kind().library).fence)(handle.cpu()) };
    }

    /// Sets sstatus, and flushes the TLB entries that depend on its bits SUM and MXR.
    pub fn set_riscv_status(&self, value: u64) {
        let handle = self.handle();
        // SAFETY: as in `enter_riscv_handler`.
        unsafe { (own_of(handle.kind().library).write_status)(handle.cpu(), value) };
    }
}
