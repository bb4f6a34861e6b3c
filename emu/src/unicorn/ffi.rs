//! What is called in Unicorn's library beyond its public header, and the numbers that the header builds by macro.

use core::ffi::c_void;
use unicorn_engine_sys::ControlType;

unsafe extern "C" {
    /// Drops the code translated from these RAM addresses (docs/unicorn.md, "dropping translated code").
    pub fn tb_invalidate_phys_range_x86_64(uc: *mut c_void, start: usize, end: usize);
    /// The RAM address of a host pointer into mapped memory; all ones when it is not in any.
    pub fn qemu_ram_addr_from_host_x86_64(uc: *mut c_void, host: *mut c_void) -> usize;
    /// The same for 32-bit ARM.
    pub fn tb_invalidate_phys_range_arm(uc: *mut c_void, start: usize, end: usize);
    /// The same for 32-bit ARM.
    pub fn qemu_ram_addr_from_host_arm(uc: *mut c_void, host: *mut c_void) -> usize;
    /// The same for 64-bit ARM.
    pub fn tb_invalidate_phys_range_aarch64(uc: *mut c_void, start: usize, end: usize);
    /// The same for 64-bit ARM.
    pub fn qemu_ram_addr_from_host_aarch64(uc: *mut c_void, host: *mut c_void) -> usize;
    /// Puts stores to these host addresses on the long way in all cached translations of a CPU (`stores.rs`).
    pub fn tlb_reset_dirty_x86_64(cpu: *mut c_void, host: usize, len: usize);
    /// The same for 32-bit ARM.
    pub fn tlb_reset_dirty_arm(cpu: *mut c_void, host: usize, len: usize);
    /// The same for 64-bit ARM.
    pub fn tlb_reset_dirty_aarch64(cpu: *mut c_void, host: usize, len: usize);
}

/// A `uc_ctl` request that writes, with this many arguments (`UC_CTL_WRITE` of the header).
pub const fn write_request(what: ControlType, arguments: u32) -> ControlType {
    ControlType(what.0 | arguments << 26 | 1 << 30)
}
