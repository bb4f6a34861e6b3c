//! The kernel inside MIPS's vmlinuz: an ELF file around a decompressor, whose `.data` begins with the compressed image
//! (arch/mips/boot/compressed/ld.script). Nothing of the decompressor need be run.
//!
//! The image has no header of its own. Where it is linked follows from where the decompressor is: behind the image, at
//! the next multiple of 64 KiB (calc_vmlinuz_load_addr.c); where it is entered, from its own symbols.

use super::payload::{self, Shelf};
use crate::error::BootError;
use goblin::elf::header::ET_EXEC;
use goblin::elf::{Elf, program_header::PT_LOAD};
use std::ops::Range;

/// The image begins and the decompressor lies at multiples of this.
const ALIGNMENT: u64 = 0x1_0000;

/// What is in a vmlinuz.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The image as it is to lie in memory.
    pub bytes: Vec<u8>,
    /// Where it is linked.
    pub start: u64,
}

/// What of an address is the physical one, where no table says anything else.
pub const PHYSICAL: u64 = 0x1fff_ffff;

/// Where that lies which the kernel sees so, in either width.
pub fn lies_at(address: u64) -> u64 {
    const UNTRANSLATED: Range<u64> = 0x8000_0000..0xc000_0000;
    let (low, high) = (address & 0xffff_ffff, address >> 32);
    if matches!(high, 0 | 0xffff_ffff) && UNTRANSLATED.contains(&low) { low & PHYSICAL } else { address }
}

/// What is around it.
#[derive(Debug, PartialEq, Eq)]
pub struct Around {
    /// What is loaded.
    pub bytes: Vec<u8>,
    /// Where.
    pub start: u64,
    /// The memory that it takes from there on.
    pub room: u64,
    /// Where it is entered.
    pub entry: u64,
}

/// The decompressor, with what it unpacks.
pub fn around(bytes: &[u8]) -> Result<Around, BootError> {
    let refused = |why: String| BootError::Payload { what: "the vmlinuz", why };
    let file = Elf::parse(bytes).map_err(|error| refused(error.to_string()))?;
    let loaded = file.program_headers.iter().find(|header| header.p_type == PT_LOAD);
    let loaded = loaded.ok_or_else(|| refused("nothing of it is loaded".into()))?;
    let held = bytes.get(loaded.file_range()).ok_or_else(|| refused("it ends before what is to be loaded".into()))?;
    let room = loaded.p_memsz.max(held.len() as u64);
    Ok(Around { bytes: held.to_vec(), start: loaded.p_vaddr, room, entry: file.entry })
}

/// Whether these bytes are one.
pub fn is_vmlinuz(bytes: &[u8]) -> bool {
    let is_program = Elf::parse_header(bytes).is_ok_and(|header| header.e_type == ET_EXEC);
    is_program && Elf::parse(bytes).is_ok_and(|file| payload_of(&file, bytes).is_some())
}

/// What stands at the start of `.data`, if it looks compressed, up to the end of that section.
fn payload_of<'a>(file: &Elf<'_>, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let section = file.section_headers.iter().find(|section| file.shdr_strtab.get_at(section.sh_name) == Some(".data"))?;
    let held = bytes.get(section.file_range()?)?;
    payload::is_compressed(held).then_some(held)
}

/// What is in it.
pub fn unpack(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Inner, BootError> {
    let refused = |why: String| BootError::Payload { what: "the vmlinuz", why };
    let file = Elf::parse(bytes).map_err(|error| refused(error.to_string()))?;
    let held = payload_of(&file, bytes).ok_or_else(|| refused("its `.data` does not begin with a compressed kernel".into()))?;
    let loaded = file.program_headers.iter().filter(|header| header.p_type == PT_LOAD).map(|header| header.p_vaddr).min();
    let loaded = loaded.ok_or_else(|| refused("nothing of it is loaded".into()))?;
    let bytes = payload::first_unpacked(shelf, held, &payload::budget())?;
    let start = loaded.checked_sub(bytes.len() as u64).map(|start| start & !(ALIGNMENT - 1));
    let start = start.ok_or_else(|| refused(format!("its {} bytes have no room in front of {loaded:#x}", bytes.len())))?;
    Ok(Inner { bytes, start })
}

#[cfg(test)]
mod tests {
    use super::lies_at;

    /// KP-4: a vmlinux as a linker leaves it, in both widths, is loaded where the kernel then sees it.
    #[test]
    fn what_the_kernel_sees_lies_in_low_memory() {
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
