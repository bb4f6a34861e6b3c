//! Address translation: by the segments that need no TLB, by the TLB, or by the guest's own refill handler ([`refill`]).

use super::refill::{self, BAD_VADDR, CONTEXT, PAGE_MASK, Seen, XCONTEXT};
use super::state::{STATUS_BEV, STATUS_KX, STATUS_UX};
use crate::cpu::Access;
use crate::unicorn::cpus::mips::Place;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::Fault;

/// KSEG0 (cached) and KSEG1 (uncached) map the first 512 MiB of physical memory.
pub const KSEG0: u64 = 0x8000_0000;
const KSEG2: u64 = 0xc000_0000;
const KSEG: u64 = 0x1fff_ffff;
/// The sign extension of these addresses in 64 bits.
const SIGN: u64 = 0xffff_ffff_0000_0000;
/// XKPHYS maps all physical memory, once for each cache attribute.
const XKPHYS: u64 = 0x8000_0000_0000_0000;
const XKPHYS_END: u64 = 0xc000_0000_0000_0000;
/// The bits of an XKPHYS address below the cache attribute.
const XKPHYS_OFFSET: u64 = (1 << 59) - 1;
/// The core's 36-bit physical address space. An XKPHYS access beyond it is an address error.
const PHYSICAL: u64 = (1 << 36) - 1;

/// The physical address of one that needs no TLB.
pub fn direct(address: u64, is_wide: bool) -> Option<u64> {
    let low = address & 0xffff_ffff;
    let is_compatible = !is_wide || address & SIGN == SIGN;
    if is_compatible && (KSEG0..KSEG2).contains(&low) {
        return Some(low & KSEG);
    }
    let offset = address & XKPHYS_OFFSET;
    (is_wide && (XKPHYS..XKPHYS_END).contains(&address) && offset <= PHYSICAL).then_some(offset)
}

/// The bits of an address within a segment of the 64-bit model.
const SEGMENT_BITS: u32 = 42;

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let is_write = access == Access::Write;
    let found = direct(address, handle.is_wide()).or_else(|| handle.looked_up(address, is_write));
    let found = found.or_else(|| refill::page(&Guest { handle, ram }, address, access));
    found.ok_or(Fault { address, write: is_write })
}

/// The guest, for its refill handler.
struct Guest<'a> {
    handle: &'a Handle,
    ram: &'a Ram,
}

impl Seen for Guest<'_> {
    fn is_wide(&self) -> bool {
        self.handle.is_wide()
    }

    fn handler(&self, missed: u64) -> Option<u64> {
        let status = self.handle.at_place(Place::Status);
        let is_user = missed >> 62 == 0;
        let wide = if is_user { STATUS_UX } else { STATUS_KX };
        let offset = if self.is_wide() && status & wide != 0 { 0x80 } else { 0 };
        // The boot vectors are in flash memory, which has no refill handler.
        let base = self.handle.at_place(Place::EBase) & !0xfff;
        (status & STATUS_BEV == 0).then_some(base + offset)
    }

    fn system(&self, number: u32, select: u32, missed: u64) -> Option<u64> {
        match (number, select) {
            // BadVPN2 is in bits 4 to 22.
            (CONTEXT, 0) => Some(self.handle.at_place(Place::Context) & !0x7f_ffff | (missed >> 13 & 0x7_ffff) << 4),
            (PAGE_MASK, 0) => Some(self.handle.at_place(Place::PageMask)),
            (BAD_VADDR, 0) => Some(missed),
            (XCONTEXT, 0) => {
                let base = self.handle.at_place(Place::XContext) >> (SEGMENT_BITS - 7) << (SEGMENT_BITS - 7);
                let page = missed >> 13 & ((1 << (SEGMENT_BITS - 13)) - 1);
                Some(base | missed >> 62 << (SEGMENT_BITS - 9) | page << 4)
            }
            _ => None,
        }
    }

    fn load(&self, address: u64, bytes: usize) -> Option<u64> {
        let physical = direct(address, self.is_wide())?;
        let mut read = [0; 8];
        let read = read.get_mut(..bytes)?;
        self.ram.read(physical, read).then(|| self.handle.byte_order().number(read))
    }
}

#[cfg(test)]
mod tests {
    use super::direct;

    #[test]
    fn unmapped_segments_need_no_page_table() {
        #[rustfmt::skip]
        let cases = [
            (0x8010_0000,               Some(0x0010_0000), None),
            (0xa010_0000,               Some(0x0010_0000), None),
            (0xc000_0000,               None,              None),
            (0x0040_0000,               None,              None),
            (0xffff_ffff_8010_0000,     Some(0x0010_0000), Some(0x0010_0000)),
            (0xffff_ffff_bfc0_0000,     Some(0x1fc0_0000), Some(0x1fc0_0000)),
            (0xffff_ffff_c000_0000,     None,              None),
            (0x9800_0000_0010_0000,     None,              Some(0x0010_0000)),
            (0x9000_0001_0010_0000,     None,              Some(0x1_0010_0000)),
            (0x9800_000f_ffff_fff8,     None,              Some(0xf_ffff_fff8)),
            (0x9800_0010_0010_0000,     None,              None),
            (0xbfff_ffff_ffff_fff8,     None,              None),
            (0xc000_0000_0000_0000,     None,              None),
        ];
        for (address, narrow, wide) in cases {
            assert_eq!((direct(address, false), direct(address, true)), (narrow, wide), "{address:#x}");
        }
    }
}
