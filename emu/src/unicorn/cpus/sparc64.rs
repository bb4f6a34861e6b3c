//! Unicorn's 64-bit SPARC: its [`Library`], and the functions of `translator/sparc64/own.h`, which enter trap handlers and
//! access register windows, condition codes and the TLBs.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::fields::{self, Field, FieldOf};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{Arch, Mode, RegisterSPARC};

unsafe extern "C" {
    fn tb_invalidate_phys_range_sparc64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_sparc64(uc: *mut c_void, host: *mut c_void) -> usize;
    fn tlb_reset_dirty_sparc64(cpu: *mut c_void, host: usize, len: usize);
    #[link_name = "trapline_layout_sparc64"]
    safe static LAYOUT: line::Layout;
    #[link_name = "trapline_own_sparc64"]
    safe static OWN: Own;
}

impl From<RegisterSPARC> for Register {
    fn from(register: RegisterSPARC) -> Register {
        Register(register as c_int)
    }
}

/// The functions and tables of `sparc64/own.h`.
#[repr(C)]
struct Own {
    prepare: unsafe extern "C" fn(cpu: *mut c_void),
    deliver: unsafe extern "C" fn(cpu: *mut c_void, exception: u32, pc: u64, npc: u64) -> bool,
    get_codes: unsafe extern "C" fn(cpu: *mut c_void) -> u64,
    set_codes: unsafe extern "C" fn(cpu: *mut c_void, value: u64),
    set_window: unsafe extern "C" fn(cpu: *mut c_void, number: u32),
    set_state: unsafe extern "C" fn(cpu: *mut c_void, state: u64),
    set_fetch_entry: unsafe extern "C" fn(cpu: *mut c_void, number: u32, tag: u64, entry: u64),
    find_page: unsafe extern "C" fn(cpu: *mut c_void, address: u64, physical: *mut u64, writable: *mut bool) -> bool,
    settle: unsafe extern "C" fn(cpu: *mut c_void),
    fields: *const FieldOf,
    field_count: usize,
}

// SAFETY: its pointers point to constants.
unsafe impl Sync for Own {}

/// Unicorn's mode for 64-bit big-endian cores.
pub const MODE: Mode = Mode(Mode::SPARC64.0 | Mode::BIG_ENDIAN.0);

/// Unicorn's build for 64-bit SPARC: big-endian, with pages of 8 KiB.
pub static LIBRARY: Library = Library {
    arch: Arch::SPARC,
    mode: MODE,
    instructions: Vec::new,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_sparc64,
    ram_address: qemu_ram_addr_from_host_sparc64,
    // The kernel's MMU mode is the third of six.
    live_translations: 80,
    stores: Layout { modes: 6, smallest_page_bits: 13, address_bytes: 8, guard: tlb_reset_dirty_sparc64 },
    layout: &LAYOUT,
};

/// All fields of the state of such a core's CPU.
pub fn fields() -> Vec<Field> {
    // SAFETY: a constant table with this many rows, whose names are constant texts.
    unsafe { fields::of(OWN.fields, OWN.field_count) }
}

impl Handle {
    /// The condition codes, in the format of CCR.
    pub fn condition_codes(&self) -> u64 {
        // SAFETY: the core's own CPU, in a callback or between runs.
        unsafe { (OWN.get_codes)(self.cpu()) }
    }

    /// Reads a register of the current window through Unicorn's API: %g0 to %g7, %o0 to %o7, %l0 to %l7, %i0 to %i7 by
    /// their numbers.
    pub fn window_by_library(&self, number: u8) -> u64 {
        let first = [RegisterSPARC::G0, RegisterSPARC::O0, RegisterSPARC::L0, RegisterSPARC::I0][usize::from(number >> 3 & 3)];
        self.read(Register(first as c_int + c_int::from(number & 7)))
    }

    /// Translates an address of the kernel with the data TLB; returns the physical address and whether it is writable.
    pub fn data_page(&self, address: u64) -> Option<(u64, bool)> {
        let (mut physical, mut writable) = (0, false);
        // SAFETY: as in `condition_codes`; the function only reads the TLB.
        unsafe { (OWN.find_page)(self.cpu(), address, &raw mut physical, &raw mut writable) }.then_some((physical, writable))
    }

    /// Writes an entry of the instruction TLB.
    pub fn set_fetch_entry(&self, number: u32, tag: u64, entry: u64) {
        // SAFETY: as in `condition_codes`; the function reduces a number that is too large.
        unsafe { (OWN.set_fetch_entry)(self.cpu(), number, tag, entry) };
    }
}

impl TrapContext {
    /// Initializes a new core.
    pub fn prepare_sparc(&self) {
        // SAFETY: the core's own CPU, between runs.
        unsafe { (OWN.prepare)(self.handle().cpu()) };
    }

    /// Enters the handler of an exception; false if no trap level is left.
    pub fn enter_trap(&self, exception: u32, pc: u64, npc: u64) -> bool {
        // SAFETY: the core's own CPU, in the callback of an exception or between runs.
        unsafe { (OWN.deliver)(self.handle().cpu(), exception, pc, npc) }
    }

    /// Sets the condition codes, in the format of CCR.
    pub fn set_condition_codes(&self, value: u64) {
        // SAFETY: as in `enter_trap`.
        unsafe { (OWN.set_codes)(self.handle().cpu(), value) };
    }

    /// Switches to the register window of that number, as in CWP.
    pub fn set_window(&self, number: u64) {
        // SAFETY: as in `enter_trap`; the function reduces a number that is too large.
        unsafe { (OWN.set_window)(self.handle().cpu(), number as u32) };
    }

    /// Sets the condition codes, ASI, PSTATE and CWP, in the format of TSTATE.
    pub fn set_trap_state(&self, state: u64) {
        // SAFETY: as in `enter_trap`; the function reduces a window number that is too large.
        unsafe { (OWN.set_state)(self.handle().cpu(), state) };
    }

    /// Completes the state that the core computes lazily; needed after registers were written to the state, and before
    /// they are read from it.
    pub fn settle_sparc(&self) {
        // SAFETY: as in `enter_trap`.
        unsafe { (OWN.settle)(self.handle().cpu()) };
    }
}
