//! Address translation: by the segments that need no TLB, or by the TLB. A page that is not in the TLB cannot be
//! translated, because the format of the page tables is the guest's own.

use crate::cpu::Access;
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

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, _: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let is_write = access == Access::Write;
    let found = direct(address, handle.is_wide()).or_else(|| handle.looked_up(address, is_write));
    found.ok_or(Fault { address, write: is_write })
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
