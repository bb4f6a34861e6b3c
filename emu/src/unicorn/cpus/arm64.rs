//! Unicorn's AArch64: its [`Library`], access to system and vector registers, and the callbacks of MRS and MSR.

use crate::unicorn::engine::{Handle, InstructionContext, TrapContext, whom};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{self as sys, Arch, Arm64Insn, Mode, RegisterARM64, RegisterARM64CP, uc_engine};

unsafe extern "C" {
    fn tb_invalidate_phys_range_aarch64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_aarch64(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_aarch64"]
    safe static LAYOUT: line::Layout;
    fn tlb_reset_dirty_aarch64(cpu: *mut c_void, host: usize, len: usize);
}

impl From<RegisterARM64> for Register {
    fn from(register: RegisterARM64) -> Register {
        Register(register as c_int)
    }
}

/// Unicorn's build for little-endian cores.
pub static LIBRARY: Library = Library {
    arch: Arch::ARM64,
    mode: Mode::LITTLE_ENDIAN,
    instructions,
    has_choice_of_pages: true,
    invalidate: tb_invalidate_phys_range_aarch64,
    ram_address: qemu_ram_addr_from_host_aarch64,
    live_translations: 176,
    stores: Layout { modes: 12, smallest_page_bits: 10, address_bytes: 8, guard: tlb_reset_dirty_aarch64 },
    layout: &LAYOUT,
};

/// A system register of AArch64, by the fields of MRS and MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SystemRegister {
    /// 2 or 3.
    pub op0: u32,
    /// The lowest exception level that may use it, roughly.
    pub op1: u32,
    /// The register's primary number.
    pub crn: u32,
    /// The register's secondary number.
    pub crm: u32,
    /// The second opcode, which distinguishes a few registers.
    pub op2: u32,
}

impl SystemRegister {
    /// The register's number in the machine's callbacks: bits 5 to 20 of the MRS or MSR instruction that names it.
    pub const fn number(self) -> u32 {
        let SystemRegister { op0, op1, crn, crm, op2 } = self;
        op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
    }
}

impl Handle {
    /// Reads the two halves of an AArch64 vector register, the low one first.
    pub fn vector(&self, number: u8) -> [u64; 2] {
        let mut halves = [0u64; 2];
        // SAFETY: these registers have 16 bytes, and there are 32 of them.
        unsafe { sys::uc_reg_read(self.raw(), vector_register(number), halves.as_mut_ptr().cast()) };
        halves
    }

    /// Makes the next run continue in the state that PSTATE names. Called before each run.
    pub(crate) fn take_state(&self) {
        if !self.cpu().is_null() {
            // SAFETY: it is the core's own CPU, and nothing runs.
            unsafe { (self.kind().library.layout.begin)(self.cpu()) };
        }
    }

    /// Reads a system register; 0 if the core does not have it.
    pub fn system(&self, register: SystemRegister) -> u64 {
        let mut request = system_request(register, 0);
        // SAFETY: the request has the layout that Unicorn reads and fills for this register number.
        unsafe { sys::uc_reg_read(self.raw(), RegisterARM64::CP_REG as c_int, (&raw mut request).cast()) };
        request.val
    }
}

impl TrapContext {
    /// Writes the registers of a 32-bit program to where they are read. To be called in the callback of its exception.
    pub(crate) fn show_narrow(&self) {
        if !self.handle().cpu().is_null() {
            // SAFETY: it is the core's own CPU, and no translated code runs during this call.
            unsafe { (self.handle().kind().library.layout.show)(self.handle().cpu()) };
        }
    }

    /// Sets an AArch64 vector register.
    pub fn set_vector(&self, number: u8, halves: [u64; 2]) {
        // SAFETY: as in `Handle::vector`.
        unsafe { sys::uc_reg_write(self.handle().raw(), vector_register(number), halves.as_ptr().cast()) };
    }

    /// Sets a system register. The core then updates the state that it derives from it.
    pub fn set_system(&self, register: SystemRegister, value: u64) {
        let mut request = system_request(register, value);
        // SAFETY: the request has the layout that Unicorn reads for this register number.
        unsafe { sys::uc_reg_write(self.handle().raw(), RegisterARM64::CP_REG as c_int, (&raw mut request).cast()) };
    }
}

fn vector_register(number: u8) -> c_int {
    RegisterARM64::Q0 as c_int + c_int::from(number & 31)
}

fn system_request(register: SystemRegister, val: u64) -> RegisterARM64CP {
    let SystemRegister { op0, op1, crn, crm, op2 } = register;
    RegisterARM64CP { op0, op1, crn, crm, op2, val }
}

fn system_register(request: &RegisterARM64CP) -> SystemRegister {
    SystemRegister { op0: request.op0, op1: request.op1, crn: request.crn, crm: request.crm, op2: request.op2 }
}

fn instructions() -> Vec<(c_int, *mut c_void)> {
    vec![
        (Arm64Insn::UC_ARM64_INS_MRS as c_int, system_in as *mut c_void),
        (Arm64Insn::UC_ARM64_INS_MSR as c_int, system_out as *mut c_void),
    ]
}

extern "C" fn system_in(_: *mut uc_engine, into: c_int, request: *const RegisterARM64CP, user: *mut c_void) -> u32 {
    // SAFETY: see `whom`; Unicorn passes a valid request.
    let ((handle, events), request) = unsafe { (whom(user), &*request) };
    let cpu = InstructionContext(handle);
    let Some(value) = events.register_in(&cpu, system_register(request).number()) else { return 0 };
    if into != RegisterARM64::XZR as c_int {
        cpu.write(Register(into), value);
    }
    1
}

extern "C" fn system_out(_: *mut uc_engine, _from: c_int, request: *const RegisterARM64CP, user: *mut c_void) -> u32 {
    // SAFETY: see `whom`; Unicorn passes a valid request.
    let ((handle, events), request) = unsafe { (whom(user), &*request) };
    events.register_out(&InstructionContext(handle), system_register(request).number(), request.val).into()
}
