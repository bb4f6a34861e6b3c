//! The kernel inside MIPS's vmlinuz: an ELF file that contains a decompressor, whose `.data` begins with the compressed
//! image (arch/mips/boot/compressed/ld.script). The image is unpacked on the host, without running the decompressor.
//! The image has no header. Its link address follows from the decompressor's, which is behind the image at the next
//! multiple of 64 KiB (calc_vmlinuz_load_addr.c). Its entry comes from its own symbols.

use super::elf::Headers;
use super::payload::{self, Shelf};
use crate::error::BootError;
use goblin::elf::header::ET_EXEC;
use goblin::elf::{Elf, program_header::PT_LOAD};
use std::ops::Range;

/// The alignment of the image and of the decompressor.
const ALIGNMENT: u64 = 0x1_0000;

/// The unpacked kernel image.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The image as it lies in memory.
    pub bytes: Vec<u8>,
    /// The link address.
    pub start: u64,
}

/// The bits of an address in KSEG0 or KSEG1 that are the physical address.
pub const PHYSICAL: u64 = 0x1fff_ffff;

/// The physical address of an address in KSEG0 or KSEG1, in either width. Other addresses are returned unchanged.
pub fn lies_at(address: u64) -> u64 {
    const UNTRANSLATED: Range<u64> = 0x8000_0000..0xc000_0000;
    let (low, high) = (address & 0xffff_ffff, address >> 32);
    if matches!(high, 0 | 0xffff_ffff) && UNTRANSLATED.contains(&low) { low & PHYSICAL } else { address }
}

/// The self-extracting program: the decompressor and its payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Around {
    /// The bytes to load.
    pub bytes: Vec<u8>,
    /// The virtual address to load them at.
    pub start: u64,
    /// The size in memory.
    pub room: u64,
    /// The entry point.
    pub entry: u64,
}

/// Reads the self-extracting program from a vmlinuz.
pub fn around(bytes: &[u8]) -> Result<Around, BootError> {
    let refused = |why: String| BootError::Payload { what: "the vmlinuz", why };
    let file = Headers::read(bytes)?;
    let loaded = file.programs.iter().find(|header| header.p_type == PT_LOAD);
    let loaded = loaded.ok_or_else(|| refused("nothing of it is loaded".into()))?;
    let held = bytes.get(loaded.file_range()).ok_or_else(|| refused("it ends before what is to be loaded".into()))?;
    let room = loaded.p_memsz.max(held.len() as u64);
    Ok(Around { bytes: held.to_vec(), start: loaded.p_vaddr, room, entry: file.header.e_entry })
}

/// Whether these bytes are such a vmlinuz.
pub fn is_vmlinuz(bytes: &[u8]) -> bool {
    let is_program = Elf::parse_header(bytes).is_ok_and(|header| header.e_type == ET_EXEC);
    is_program && Headers::read(bytes).is_ok_and(|file| payload_of(&file).is_some())
}

/// The compressed payload at the start of `.data`, up to the section's end.
fn payload_of<'a>(file: &Headers<'a>) -> Option<&'a [u8]> {
    file.section(".data").filter(|held| payload::is_compressed(held))
}

/// Unpacks the kernel image.
pub fn unpack(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Inner, BootError> {
    let refused = |why: String| BootError::Payload { what: "the vmlinuz", why };
    let file = Headers::read(bytes)?;
    let held = payload_of(&file).ok_or_else(|| refused("its `.data` does not begin with a compressed kernel".into()))?;
    let loaded = file.programs.iter().filter(|header| header.p_type == PT_LOAD).map(|header| header.p_vaddr).min();
    let loaded = loaded.ok_or_else(|| refused("nothing of it is loaded".into()))?;
    let bytes = payload::first_unpacked(shelf, held, &payload::budget())?;
    let start = loaded.checked_sub(bytes.len() as u64).map(|start| start & !(ALIGNMENT - 1));
    let start = start.ok_or_else(|| refused(format!("its {} bytes have no room in front of {loaded:#x}", bytes.len())))?;
    Ok(Inner { bytes, start })
}

#[cfg(test)]
mod tests {
    use super::lies_at;

    /// KP-4: segments of a vmlinux with virtual addresses as physical ones are loaded at the true physical addresses.
    #[test]
    fn virtual_segment_addresses_become_physical() {
        let cases = [
            (0x8010_0000, 0x10_0000),
            (0xffff_ffff_8110_0000, 0x110_0000),
            (0xa010_0000, 0x10_0000),
            (0x10_0000, 0x10_0000),
            (0xc010_0000, 0xc010_0000),
            (0x9800_0000_0010_0000, 0x9800_0000_0010_0000),
        ];
        cases.iter().for_each(|(said, lies)| assert_eq!(lies_at(*said), *lies, "{said:#x}"));
    }
}
