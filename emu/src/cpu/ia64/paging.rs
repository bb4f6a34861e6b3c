//! Address translation by the TLB; addresses are physical if the translation of data is off. A page that is not in the TLB
//! cannot be translated, because the format of the page tables is the guest's own.

use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_core::ia64::psr;
use trapline_isa::mem::Fault;

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, _: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    let fault = Fault { address, write };
    let state = handle.ia64().ok_or(fault)?;
    if state.status.get() & psr::DT == 0 {
        // Linux's region 7 is physical memory.
        let bits = if address >> 61 == 7 { 61 } else { 63 };
        return Ok(address & ((1 << bits) - 1));
    }
    let by_fetch = || state.code_address(address).filter(|_| !write);
    state.data_address(address, write).or_else(by_fetch).ok_or(fault)
}
