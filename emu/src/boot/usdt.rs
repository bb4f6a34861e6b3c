//! The notes of USDT probes in a program's file (`sys/sdt.h` of systemtap, format 3).

use goblin::elf::Elf;
use goblin::elf::section_header::SHT_NOTE;

/// A note: a place in the program with its arguments as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The provider: the first part of the probe's name, `libc` in `libc:setjmp`.
    pub provider: String,
    /// The probe's name.
    pub name: String,
    /// The address that the file was linked for.
    pub address: u64,
    /// Whether the program counts its tracers.
    pub has_semaphore: bool,
    /// The operands, as the assembler wrote them.
    pub arguments: String,
}

/// The kind of these notes, whose owner is `stapsdt`.
const KIND: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";
/// Its address says by how much prelinking has moved the file.
const BASE: &str = ".stapsdt.base";
/// Notes that are read. The largest programs have some thousands.
const MOST_NOTES: usize = 1 << 18;
/// The largest length of a name or of the arguments, in bytes.
const LONGEST: usize = 16384;

/// The notes of a file, sorted by provider, name and address. A damaged note ends its section.
pub fn notes(elf: &Elf<'_>, bytes: &[u8]) -> Vec<Note> {
    let base = elf.section_headers.iter().find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(BASE));
    let base = base.map_or(0, |header| header.sh_addr);
    let mut found = Vec::new();
    for header in elf.section_headers.iter().filter(|header| header.sh_type == SHT_NOTE) {
        let section = usize::try_from(header.sh_offset).ok().zip(usize::try_from(header.sh_size).ok());
        let section = section.and_then(|(start, size)| bytes.get(start..start.checked_add(size)?));
        let mut rest = section.unwrap_or_default();
        while let Some((note, behind)) = next(elf, rest)
            && found.len() < MOST_NOTES
        {
            found.extend(note.and_then(|description| read(elf, description, base)));
            rest = behind;
        }
    }
    found.sort_by(|one, other| (&one.provider, &one.name, one.address).cmp(&(&other.provider, &other.name, other.address)));
    found
}

/// The description of the first note, if it is a USDT note, and the bytes behind the note.
fn next<'a>(elf: &Elf<'_>, bytes: &'a [u8]) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let word = |at: usize| Some(number(elf, bytes.get(at..at + 4)?) as usize);
    let (owner, length, kind) = (word(0)?, word(4)?, word(8)?);
    let start = 12_usize.checked_add(owner.checked_next_multiple_of(4)?)?;
    let description = bytes.get(start..start.checked_add(length)?)?;
    let is_ours = kind == KIND as usize && bytes.get(12..12_usize.checked_add(owner)?)? == OWNER;
    let behind = bytes.get(start.checked_add(length.checked_next_multiple_of(4)?)?..).unwrap_or_default();
    Some((is_ours.then_some(description), behind))
}

/// Three words (address, base, semaphore), then three strings.
fn read(elf: &Elf<'_>, description: &[u8], base: u64) -> Option<Note> {
    let size = if elf.is_64 { 8 } else { 4 };
    let word = |index: usize| Some(number(elf, description.get(index * size..(index + 1) * size)?));
    let (address, linked_base, semaphore) = (word(0)?, word(1)?, word(2)?);
    let mut texts = description.get(3 * size..)?.split(|byte| *byte == 0);
    let mut text = || Some(std::str::from_utf8(texts.next().filter(|text| text.len() < LONGEST)?).ok()?.to_string());
    let (provider, name, arguments) = (text()?, text()?, text()?);
    let moved = if base == 0 { 0 } else { base.wrapping_sub(linked_base) };
    Some(Note { provider, name, address: address.wrapping_add(moved), has_semaphore: semaphore != 0, arguments })
}

fn number(elf: &Elf<'_>, bytes: &[u8]) -> u64 {
    let digit = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if elf.little_endian { bytes.iter().rev().fold(0, digit) } else { bytes.iter().fold(0, digit) }
}
