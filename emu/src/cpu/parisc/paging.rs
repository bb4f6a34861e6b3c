//! Address translation by the TLB; identical if the translation of data is off. A page that is not in the TLB cannot be
//! translated, because the format of the page tables is the guest's own.

use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_core::parisc::{Purpose, psw};
use trapline_isa::mem::Fault;

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, _: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    let fault = Fault { address, write };
    let state = handle.parisc().ok_or(fault)?;
    if state.status.get() & psw::D == 0 {
        return Ok(address);
    }
    let address = u32::try_from(address).map_err(|_| fault)?;
    let purpose = if write { Purpose::Store } else { Purpose::Load };
    // A program's addresses are in its own space.
    let spaces = [4 + (address >> 30) as usize, 3].map(|number| state.spaces[number].get());
    let found = spaces.into_iter().find_map(|space| state.translate(space, address, purpose, 0).ok());
    let by_fetch = || state.translate(0, address, Purpose::Fetch, 0).ok().filter(|_| !write);
    found.or_else(by_fetch).map(u64::from).ok_or(fault)
}
