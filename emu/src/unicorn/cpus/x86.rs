//! Unicorn's x86: one [`Library`] for both widths, access to model-specific registers (MSRs), and the callbacks of
//! instructions such as IN, CPUID and SYSCALL.

use crate::unicorn::engine::{Handle, InstructionContext, SyscallContext, TrapContext, whom};
use crate::unicorn::kinds::{Library, Register};
use crate::unicorn::line;
use crate::unicorn::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{self as sys, Arch, Mode, RegisterX86, X86Insn, uc_engine};

unsafe extern "C" {
    fn tb_invalidate_phys_range_x86_64(uc: *mut c_void, start: usize, end: usize);
    fn qemu_ram_addr_from_host_x86_64(uc: *mut c_void, host: *mut c_void) -> usize;
    #[link_name = "trapline_layout_x86_64"]
    safe static LAYOUT: line::Layout;
    fn tlb_reset_dirty_x86_64(cpu: *mut c_void, host: usize, len: usize);
}

impl From<RegisterX86> for Register {
    fn from(register: RegisterX86) -> Register {
        Register(register as c_int)
    }
}

/// Unicorn's build for 64-bit cores, on which both widths run (docs/unicorn.md, "one core for both widths").
pub static LIBRARY: Library = Library {
    arch: Arch::X86,
    mode: Mode::MODE_64,
    instructions,
    has_choice_of_pages: false,
    invalidate: tb_invalidate_phys_range_x86_64,
    ram_address: qemu_ram_addr_from_host_x86_64,
    live_translations: 32,
    stores: Layout { modes: 3, smallest_page_bits: 12, address_bytes: 8, guard: tlb_reset_dirty_x86_64 },
    layout: &LAYOUT,
};

/// Unicorn's request for a model-specific register (`uc_x86_msr` of its header).
#[repr(C)]
struct MsrRequest {
    number: u32,
    value: u64,
}

impl Handle {
    /// Reads a model-specific register; 0 if the core does not have it.
    pub fn msr(&self, number: u32) -> u64 {
        let mut request = MsrRequest { number, value: 0 };
        // SAFETY: the request has the layout of `uc_x86_msr`, which Unicorn reads and fills for this register number.
        unsafe { sys::uc_reg_read(self.raw(), RegisterX86::MSR as c_int, (&raw mut request).cast()) };
        request.value
    }
}

impl TrapContext {
    /// Sets a model-specific register.
    pub fn set_msr(&self, number: u32, value: u64) {
        let request = MsrRequest { number, value };
        // SAFETY: as in `Handle::msr`.
        unsafe { sys::uc_reg_write(self.handle().raw(), RegisterX86::MSR as c_int, (&raw const request).cast()) };
    }
}

fn instructions() -> Vec<(c_int, *mut c_void)> {
    vec![
        (X86Insn::IN as c_int, port_in as *mut c_void),
        (X86Insn::OUT as c_int, port_out as *mut c_void),
        (X86Insn::CPUID as c_int, cpuid as *mut c_void),
        (X86Insn::RDTSC as c_int, rdtsc as *mut c_void),
        (X86Insn::RDTSCP as c_int, rdtsc as *mut c_void),
        (X86Insn::SYSCALL as c_int, syscall as *mut c_void),
    ]
}

extern "C" fn port_in(_: *mut uc_engine, port: u32, size: c_int, user: *mut c_void) -> u32 {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.port_in(&InstructionContext(handle), port.into(), size as u32) as u32
}

extern "C" fn port_out(_: *mut uc_engine, port: u32, size: c_int, value: u32, user: *mut c_void) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.port_out(&InstructionContext(handle), port.into(), size as u32, value.into());
}

extern "C" fn cpuid(_: *mut uc_engine, user: *mut c_void) -> c_int {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.identify(&InstructionContext(handle));
    1
}

extern "C" fn rdtsc(_: *mut uc_engine, user: *mut c_void) -> c_int {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.read_clock(&InstructionContext(handle));
    1
}

extern "C" fn syscall(_: *mut uc_engine, user: *mut c_void) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.system_call(&SyscallContext(handle));
}
