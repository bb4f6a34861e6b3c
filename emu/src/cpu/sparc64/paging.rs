//! Address translation by the data TLB, or the identity if the MMU is off. A page that is not in the TLB cannot be
//! translated, because the guest chooses the format of its page tables.

use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, _: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    match handle.data_page(address) {
        Some((physical, writable)) if writable || !write => Ok(physical),
        _ => Err(Fault { address, write }),
    }
}
