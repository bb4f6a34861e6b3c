//! Walks of the guest's radix trees. Their words are big-endian in either byte order of the guest.

use super::state::{LPCR, MSR, MSR_DR, PID, PTCR};
use crate::cpu::Access;
use crate::unicorn::engine::Handle;
use crate::unicorn::ram::Ram;
use trapline_isa::mem::{ByteOrder, Fault};

/// LPCR.HR: radix trees rather than hashed page tables.
const HOST_RADIX: u64 = 1 << 20;
/// The address of the partition table; in its second word, the address and size of the process table.
const PARTITIONS: u64 = 0x0fff_ffff_ffff_f000;
const PROCESSES: u64 = 0x0fff_ffff_ffff_f000;
const PROCESSES_BITS: u64 = 0x1f;
/// An effective address without the two bits that select the process.
const ADDRESS: u64 = 0x3fff_ffff_ffff_ffff;
/// Real mode ignores the highest address bits.
const REAL: u64 = 0x0fff_ffff_ffff_ffff;

// Parts of an entry: it is valid, it maps a page; the address of the page or of the next table, the number of address
// bits that this table decodes.
const VALID: u64 = 1 << 63;
const LEAF: u64 = 1 << 62;
const PAGE: u64 = 0x01ff_ffff_ffff_f000;
const TABLE: u64 = 0x0fff_ffff_ffff_ff00;
const TABLE_BITS: u64 = 0x1f;
/// The entry allows writing.
pub const WRITABLE: u64 = 2;

/// A radix tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    table: u64,
    /// The number of address bits that its first table decodes.
    stride: u32,
    /// The number of address bits that the tree translates.
    bits: u32,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The physical address.
    pub physical: u64,
    /// Whether the kernel may write there.
    pub writable: bool,
}

/// Reads a word of the tables.
pub fn word(ram: &Ram, at: u64) -> u64 {
    let mut bytes = [0; 8];
    if ram.read(at, &mut bytes) { ByteOrder::Big.number(&bytes) } else { 0 }
}

/// Writes a word of the tables.
pub fn set_word(ram: &Ram, at: u64, value: u64) {
    let mut bytes = [0; 8];
    ByteOrder::Big.put(value, &mut bytes);
    ram.write(at, &bytes);
}

/// The tree that translates an address in hypervisor state. `None` if there is none.
pub fn tree(handle: &Handle, ram: &Ram, address: u64) -> Option<Tree> {
    if handle.live64(LPCR) & HOST_RADIX == 0 {
        return None;
    }
    let process = match address >> 62 {
        0 => handle.live64(PID) & 0xffff_ffff,
        3 => 0,
        _ => return None,
    };
    tree_of(ram, handle.live64(PTCR), process)
}

/// The tree of a process, by its number and the value of PTCR.
fn tree_of(ram: &Ram, partitions: u64, process: u64) -> Option<Tree> {
    let table = word(ram, (partitions & PARTITIONS) + 8);
    let offset = process * 16;
    if offset >> ((table & PROCESSES_BITS) + 12) != 0 {
        return None;
    }
    let entry = word(ram, (table & PROCESSES) + offset);
    let bits = (entry >> 58 & 0x18 | entry >> 5 & 7) as u32 + 31;
    Some(Tree { table: entry & TABLE, stride: (entry & TABLE_BITS) as u32, bits })
}

/// The entry for an address at the level whose entries cover `down_to` bits, or a larger page's entry above it. Returns
/// its physical address and the number of bits that it covers.
pub fn entry(ram: &Ram, tree: Tree, address: u64, down_to: u32) -> Option<(u64, u32)> {
    let Tree { mut table, mut stride, mut bits } = tree;
    let address = address & ADDRESS;
    if address >> bits != 0 {
        return None;
    }
    loop {
        // The core refuses smaller tables.
        if stride < 5 || stride > bits {
            return None;
        }
        bits -= stride;
        let at = table + (address >> bits & ((1 << stride) - 1)) * 8;
        let found = word(ram, at);
        if bits <= down_to || found & VALID == 0 || found & LEAF != 0 {
            return Some((at, bits));
        }
        (table, stride) = (found & TABLE, (found & TABLE_BITS) as u32);
    }
}

/// Walks the tree for an address.
pub fn walk(ram: &Ram, tree: Tree, address: u64) -> Option<Found> {
    let (at, bits) = entry(ram, tree, address, 0)?;
    let found = word(ram, at);
    let offset = (1u64 << bits) - 1;
    let physical = found & PAGE & !offset | address & offset;
    (found & (VALID | LEAF) == VALID | LEAF).then_some(Found { physical, writable: found & WRITABLE != 0 })
}

/// Translates a kernel address by the current page tables. Fails if the kernel's rights do not allow the access.
pub fn translate(handle: &Handle, ram: &Ram, address: u64, access: Access) -> Result<u64, Fault> {
    if handle.live64(MSR) & MSR_DR == 0 {
        return Ok(address & REAL);
    }
    let fault = Fault { address, write: access == Access::Write };
    let found = walk(ram, tree(handle, ram, address).ok_or(fault)?, address).ok_or(fault)?;
    if access == Access::Write && !found.writable { Err(fault) } else { Ok(found.physical) }
}

/// An entry for a page that the kernel may read and execute, marked as accessed.
pub fn page_that_runs(physical: u64) -> u64 {
    const RUNS: u64 = VALID | LEAF | 0x100 | 0x8 | 0x4 | 0x1;
    physical | RUNS
}

/// Whether an entry maps a page.
pub fn is_page(entry: u64) -> bool {
    entry & (VALID | LEAF) == VALID | LEAF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_each_size_are_found() {
        let ram = Ram::at(0, 4 << 20, ByteOrder::Big).expect("memory");
        let (partitions, processes, root, second, third, fourth) = (0x1000, 0x2000, 0x10000, 0x4000, 0x5000, 0x6000);
        set_word(&ram, partitions + 8, VALID | processes);
        set_word(&ram, processes, 0x4000_0000_0000_00ad | root);
        set_word(&ram, root, VALID | second | 9);
        set_word(&ram, second, VALID | third | 9);
        set_word(&ram, second + 8, VALID | LEAF | 0x4000_0000 | WRITABLE);
        set_word(&ram, third, VALID | LEAF | 0x20_0000);
        set_word(&ram, third + 8, VALID | fourth | 9);
        set_word(&ram, fourth + 8, VALID | LEAF | 0x7000 | WRITABLE);
        let kernel = 0xc000_0000_0000_0000;
        let tree = tree_of(&ram, partitions, 0).expect("a tree");
        assert_eq!(tree, Tree { table: root, stride: 13, bits: 52 });
        let found = |offset: u64| walk(&ram, tree, kernel + offset).map(|found| (found.physical, found.writable));
        #[rustfmt::skip]
        let cases = [
            ("2 MiB",                   0x1234,         Some((0x20_1234, false))),
            ("4 KiB",                   0x20_1567,      Some((0x7567, true))),
            ("1 GiB",                   0x4765_4321,    Some((0x4765_4321, true))),
            ("nothing",                 0x20_0000,      None),
            ("no table",                0x8000_0000,    None),
            ("beyond the tree",         1 << 52,        None),
        ];
        for (what, offset, expected) in cases {
            assert_eq!(found(offset), expected, "{what}");
        }
        assert_eq!(entry(&ram, tree, kernel + 0x20_1567, 21), Some((third + 8, 21)), "the entry above it");
        assert_eq!(tree_of(&ram, partitions, 256), None, "a process that has no room in the table");
    }
}
