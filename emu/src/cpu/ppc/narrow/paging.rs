//! Address translation: by BATs (block registers), otherwise by segment registers and the hashed page table.

use super::state::{BLOCK_COUNT, BLOCKS, MSR, MSR_DR, SDR1, SEGMENTS};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::{ByteOrder, Fault};

/// Bit of a BAT's upper word: valid in supervisor mode (Vs). Its size, in blocks of 128 KiB less one, is above this
/// bit.
const BLOCK_IS_KERNELS: u64 = 2;
const BLOCK_BYTES: u64 = 128 << 10;
/// Parts of a segment register: direct-store segment; the key for kernel accesses; the VSID.
const SEGMENT_IS_DIRECT: u64 = 1 << 31;
const SEGMENT_KEY: u64 = 1 << 30;
const SEGMENT_NUMBER: u64 = 0xff_ffff;
/// Parts of a page-table entry's first word: valid; it is in the secondary group of its page.
const VALID: u64 = 1 << 31;
const SECOND: u64 = 1 << 6;
const GROUP_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 8;
const PAGE: u64 = 4096;

/// The physical address of a page or block, and its two protection bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    physical: u64,
    rights: u64,
}

/// The block that contains an address, by the upper and lower words of the BATs.
fn block(words: impl Iterator<Item = (u64, u64)>, address: u64) -> Option<Found> {
    words.filter(|(upper, _)| upper & BLOCK_IS_KERNELS != 0).find_map(|(upper, lower)| {
        let inside = ((upper >> 2 & 0x7ff) + 1) * BLOCK_BYTES - 1;
        let is_there = (address ^ upper) & !inside & !(BLOCK_BYTES - 1) & 0xffff_ffff == 0;
        let physical = lower & !inside & !(BLOCK_BYTES - 1) | address & inside;
        is_there.then_some(Found { physical, rights: lower & 3 })
    })
}

/// The page of an address in the segment with this VSID, by the hashed page table in SDR1.
fn page(ram: &Ram, table: u64, number: u64, address: u64) -> Option<Found> {
    let (base, mask) = (table & 0xffff_0000, (table & 0x1ff) << 16 | 0xffff);
    let name = VALID | number << 7 | address >> 22 & 0x3f;
    let hash = number & 0x7_ffff ^ address >> 12 & 0xffff;
    [(hash, name), (!hash, name | SECOND)].into_iter().find_map(|(hash, name)| {
        let group = base | hash.wrapping_mul(GROUP_BYTES) & mask;
        (group..group + GROUP_BYTES).step_by(ENTRY_BYTES as usize).find_map(|at| {
            let mut bytes = [0; ENTRY_BYTES as usize];
            let entry = ram.read(at, &mut bytes).then(|| ByteOrder::Big.number(&bytes))?;
            let physical = entry & 0xffff_f000 | address & (PAGE - 1);
            (entry >> 32 == name).then_some(Found { physical, rights: entry & 3 })
        })
    })
}

/// Whether a page's protection bits allow an access with this key.
fn page_allows(rights: u64, has_key: bool, write: bool) -> bool {
    match (rights, has_key) {
        (0, true) => false,
        (1, true) | (3, _) => !write,
        _ => true,
    }
}

/// Translates a kernel address. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    let write = access == Access::Write;
    let fault = Fault { address, write };
    if address > 0xffff_ffff {
        return Err(fault);
    }
    if u64::from(handle.live32(MSR)) & MSR_DR == 0 {
        return Ok(address);
    }
    let word = |at: usize| u64::from(handle.live32(at));
    let blocks = (0..BLOCK_COUNT).map(|number| (word(BLOCKS + 4 * number), word(BLOCKS + 32 + 4 * number)));
    if let Some(found) = block(blocks, address) {
        let allowed = if write { found.rights == 2 } else { found.rights != 0 };
        return if allowed { Ok(found.physical) } else { Err(fault) };
    }
    let segment = word(SEGMENTS + 4 * (address >> 28) as usize);
    if segment & SEGMENT_IS_DIRECT != 0 {
        return Err(fault);
    }
    let found = page(ram, word(SDR1), segment & SEGMENT_NUMBER, address).ok_or(fault)?;
    if page_allows(found.rights, segment & SEGMENT_KEY != 0, write) { Ok(found.physical) } else { Err(fault) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_hashed_pages_are_found() {
        let blocks = [(0, 0), (0xc000_1ffe, 2), (0xe002_0001, 0x2_0002), (0xf002_0002, 0x4_0003)];
        #[rustfmt::skip]
        let cases = [
            ("of 256 MiB",         0xcfff_fff0, Some((0x0fff_fff0, 2))),
            ("of 128 KiB",         0xf003_fffc, Some((0x5_fffc, 3))),
            ("behind it",          0xf004_0000, None),
            ("programs' alone",    0xe002_0000, None),
        ];
        for (what, address, expected) in cases {
            let found = block(blocks.into_iter(), address).map(|found| (found.physical, found.rights));
            assert_eq!(found, expected, "{what}");
        }
        let ram = Ram::at(0, 1 << 20, ByteOrder::Big).expect("memory");
        // VSID 5, address 0x12345678: hash 0x2345 ^ 5 = 0x2340; then the secondary group.
        let put = |at: u64, entry: u64| assert!(ram.write(at, &entry.to_be_bytes()));
        put(0x1_0000 + 0x340 * 64 + 8, (VALID | 5 << 7 | 0x12345678 >> 22 & 0x3f) << 32 | 0x7_0002);
        put(0x1_0000 + (!0x2341u64 & 0x3ff) * 64, (VALID | SECOND | 4 << 7 | 0x12345678 >> 22 & 0x3f) << 32 | 0x8_0003);
        let found = |number| page(&ram, 0x1_0000, number, 0x1234_5678).map(|found| (found.physical, found.rights));
        assert_eq!([found(5), found(4), found(6)], [Some((0x7_0678, 2)), Some((0x8_0678, 3)), None]);
        let allowed =
            |rights| [page_allows(rights, false, true), page_allows(rights, true, false), page_allows(rights, true, true)];
        assert_eq!(allowed(0), [true, false, false]);
        assert_eq!(allowed(1), [true, true, false]);
        assert_eq!(allowed(2), [true, true, true]);
        assert_eq!(allowed(3), [false, true, false]);
    }
}
