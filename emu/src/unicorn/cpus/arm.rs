//! Unicorn's 32-bit ARM: its [`Library`], and access to coprocessor registers (MRC and MCR) and vector registers.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{self as sys, Arch, Mode, RegisterARM, RegisterARMCP};

unsafe extern "C" {
    fn tb_invalidate_phys_range_arm(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_arm(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_arm"]
    safe static LAYOUT: line::Layout;
    fn tlb_reset_dirty_arm(cpu: *mut c_void, host: usize, len: usize);
}

impl From<RegisterARM> for Register {
    fn from(register: RegisterARM) -> Register {
        Register(register as c_int)
    }
}

/// Unicorn's build for little-endian cores.
pub static LIBRARY: Library = Library {
    arch: Arch::ARM,
    mode: Mode::LITTLE_ENDIAN,
    instructions: Vec::new,
    has_choice_of_pages: true,
    invalidate: tb_invalidate_phys_range_arm,
    ram_address: qemu_ram_addr_from_host_arm,
    live_translations: 176,
    stores: Layout { modes: 12, smallest_page_bits: 10, address_bytes: 4, guard: tlb_reset_dirty_arm },
    layout: &LAYOUT,
};

/// A coprocessor register of 32-bit ARM, by the fields of MRC and MCR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CoprocessorRegister {
    /// The coprocessor's number.
    pub cp: u32,
    /// The register's primary number.
    pub crn: u32,
    /// The first opcode.
    pub opc1: u32,
    /// The register's secondary number.
    pub crm: u32,
    /// The second opcode.
    pub opc2: u32,
}

impl Handle {
    /// Reads a vector register of 32-bit ARM, of 8 bytes.
    pub fn double(&self, number: u8) -> u64 {
        self.read(double_register(number))
    }

    /// Reads a coprocessor register; 0 if the core does not have it.
    pub fn coprocessor(&self, register: CoprocessorRegister) -> u64 {
        let mut request = coprocessor_request(register, 0);
        // SAFETY: the request has the layout that Unicorn reads and fills for this register number.
        unsafe { sys::uc_reg_read(self.raw(), RegisterARM::CP_REG as c_int, (&raw mut request).cast()) };
        request.val
    }
}

impl TrapContext {
    /// Sets a vector register of 32-bit ARM.
    pub fn set_double(&self, number: u8, value: u64) {
        self.write(double_register(number), value);
    }

    /// Sets a coprocessor register.
    pub fn set_coprocessor(&self, register: CoprocessorRegister, value: u64) {
        let mut request = coprocessor_request(register, value);
        // SAFETY: the request has the layout that Unicorn reads for this register number.
        unsafe { sys::uc_reg_write(self.handle().raw(), RegisterARM::CP_REG as c_int, (&raw mut request).cast()) };
    }
}

fn double_register(number: u8) -> Register {
    Register(RegisterARM::D0 as c_int + c_int::from(number & 31))
}

fn coprocessor_request(register: CoprocessorRegister, val: u64) -> RegisterARMCP {
    let CoprocessorRegister { cp, crn, opc1, crm, opc2 } = register;
    RegisterARMCP { cp, is64: 0, sec: 0, crn, crm, opc1, opc2, val }
}
