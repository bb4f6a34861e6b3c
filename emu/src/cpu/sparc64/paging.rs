//! Where addresses lie: as the TLB of data says, or everywhere where they are while the MMU is off. What it does not hold
//! at the moment is in the guest's own tables, whose form is the guest's.

use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

/// Where a kernel address lies, if the kernel's rights allow the access.
pub fn translate(handle: &Handle, _: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    match handle.data_page(address) {
        Some((physical, writable)) if writable || !write => Ok(physical),
        _ => Err(Fault { address, write }),
    }
}
