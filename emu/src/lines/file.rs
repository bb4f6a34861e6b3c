//! A file with DWARF: its sections of debug information, its ISA and its build id. Only these sections are read, so a
//! vmlinux of 600 MB takes the memory of its debug information.

use super::error::{Answer, LinesError};
use crate::boot::kernels::{self, Identity};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Elf;
use goblin::elf::SectionHeader;
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ET_DYN, ET_EXEC, ET_REL, Header};
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS, SHT_NOTE};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Cursor, Read, Seek, SeekFrom};
use trapline_isa::arch::Arch;

/// The sections that are read.
#[rustfmt::skip]
const WANTED: &[&str] = &[
    ".debug_abbrev", ".debug_addr", ".debug_aranges", ".debug_frame", ".debug_info", ".debug_line", ".debug_line_str",
    ".debug_loc", ".debug_loclists", ".debug_ranges", ".debug_rnglists", ".debug_str", ".debug_str_offsets", ".eh_frame",
];

/// The longest ELF header.
const HEADER: usize = 64;
/// The type of the note that holds a build id.
const BUILD_ID: u32 = 3;

/// The debug information of a kernel.
pub struct DebugFile {
    /// The ISA. ISAs that share an ELF header count as the first of them.
    pub arch: Arch,
    /// The build id, if the file has one.
    pub build_id: Option<Vec<u8>>,
    /// Whether numbers are little-endian.
    pub little: bool,
    /// Bytes of an address.
    pub address_size: u8,
    sections: BTreeMap<&'static str, Vec<u8>>,
    /// The address of `.eh_frame`, to which its addresses are relative.
    pub(super) eh_frame_at: u64,
}

impl fmt::Debug for DebugFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugFile").field("arch", &self.arch).field("build_id", &self.build_id_text()).finish_non_exhaustive()
    }
}

impl DebugFile {
    /// Reads the debug information of a file in memory.
    pub fn from_bytes(bytes: &[u8]) -> Answer<DebugFile> {
        DebugFile::read(&mut Cursor::new(bytes), bytes.len() as u64)
    }

    /// Whether a file in memory is an ELF file with DWARF.
    pub fn is_in(bytes: &[u8]) -> bool {
        DebugFile::from_bytes(bytes).is_ok()
    }

    /// Reads the debug information of a file of that length.
    pub fn read(from: &mut (impl Read + Seek), length: u64) -> Answer<DebugFile> {
        let not_elf = |why: &str| LinesError::NotElf(why.into());
        let first = piece(from, 0, HEADER as u64, length).ok_or_else(|| not_elf("it is shorter than an ELF header"))?;
        let header = Elf::parse_header(&first).map_err(|error| not_elf(&error.to_string()))?;
        let identity = Identity { machine: header.e_machine, class: header.e_ident[EI_CLASS], order: header.e_ident[EI_DATA] };
        let row = kernels::all().find(|row| row.elf == identity).ok_or_else(|| not_elf("no ISA of trapline has its header"))?;
        match header.e_type {
            ET_EXEC | ET_DYN => {}
            ET_REL => return Err(LinesError::NoDwarf("it is an object file or a kernel module, which has no addresses yet")),
            _ => return Err(not_elf("it is neither a program nor a kernel")),
        }
        let (wide, little) = (identity.class == ELFCLASS64, identity.order == ELFDATA2LSB);
        let headers = headers(from, &header, length, wide, little)?;
        let mut file = DebugFile {
            arch: row.arch,
            build_id: None,
            little,
            address_size: if wide { 8 } else { 4 },
            sections: BTreeMap::new(),
            eh_frame_at: 0,
        };
        file.take_sections(from, &headers, header.e_shstrndx, length)?;
        match file.sections.contains_key(".debug_info") {
            true => Ok(file),
            false => Err(LinesError::NoDwarf("it was compiled without -g, or stripped")),
        }
    }

    fn take_sections(&mut self, from: &mut (impl Read + Seek), headers: &[SectionHeader], names: u16, length: u64) -> Answer<()> {
        let Some(strings) = headers.get(usize::from(names)) else { return Ok(()) };
        let strings = piece(from, strings.sh_offset, strings.sh_size, length).unwrap_or_default();
        // Sections of a hostile file may overlap: together they are at most as long as the file.
        let mut left = length;
        for header in headers.iter().filter(|header| header.sh_type != SHT_NOBITS) {
            let name = strings.get(header.sh_name..).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let wanted = WANTED.iter().find(|wanted| wanted.as_bytes() == name);
            if wanted.is_none() && header.sh_type != SHT_NOTE {
                continue;
            }
            if header.sh_size > left {
                return Err(LinesError::Malformed("its sections are longer than the file".into()));
            }
            left -= header.sh_size;
            let bytes = piece(from, header.sh_offset, header.sh_size, length)
                .ok_or_else(|| LinesError::Malformed("a section lies behind the file's end".into()))?;
            match wanted {
                None => self.build_id = self.build_id.take().or_else(|| build_id(&bytes, self.little)),
                Some(_) if header.sh_flags & u64::from(SHF_COMPRESSED) != 0 => {
                    return Err(LinesError::NoDwarf("it is compressed: unpack it by `objcopy --decompress-debug-sections`"));
                }
                Some(name) => {
                    if *name == ".eh_frame" {
                        self.eh_frame_at = header.sh_addr;
                    }
                    self.sections.insert(name, bytes);
                }
            }
        }
        Ok(())
    }

    /// The bytes of a section; empty if the file has none of that name.
    pub(super) fn section(&self, name: &str) -> &[u8] {
        self.sections.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether the file describes the kernel in which these bytes of segments lie: one of them holds the file's build id.
    /// `None` if the file has no build id.
    pub fn is_of<'b>(&self, segments: impl Iterator<Item = &'b [u8]>) -> Option<bool> {
        let id = self.build_id.as_deref()?;
        let mut segments = segments;
        Some(segments.any(|bytes| memchr::memmem::find(bytes, id).is_some()))
    }

    /// The build id in hexadecimal digits.
    pub fn build_id_text(&self) -> Option<String> {
        self.build_id.as_ref().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn headers(from: &mut (impl Read + Seek), header: &Header, length: u64, wide: bool, little: bool) -> Answer<Vec<SectionHeader>> {
    let ctx = Ctx::new(if wide { Container::Big } else { Container::Little }, if little { Endian::Little } else { Endian::Big });
    let count = usize::from(header.e_shnum);
    let table = piece(from, header.e_shoff, (count * SectionHeader::size(ctx)) as u64, length)
        .ok_or_else(|| LinesError::Malformed("its table of sections lies behind the file's end".into()))?;
    SectionHeader::parse_from(&table, 0, count, ctx).map_err(|error| LinesError::Malformed(error.to_string()))
}

/// A range of the file; `None` if the file ends before its end.
fn piece(from: &mut (impl Read + Seek), offset: u64, size: u64, length: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(size)?;
    if end > length {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    from.seek(SeekFrom::Start(offset)).ok()?;
    from.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// The build id in a section of notes.
fn build_id(notes: &[u8], little: bool) -> Option<Vec<u8>> {
    let mut at = 0_usize;
    let word = |at: usize| {
        let bytes: [u8; 4] = notes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    loop {
        let (name, size, kind) = (word(at)? as usize, word(at + 4)? as usize, word(at + 8)?);
        let name_at = at.checked_add(12)?;
        let held_at = name_at.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = held_at.checked_add(size)?;
        if kind == BUILD_ID && notes.get(name_at..name_at.checked_add(name)?)? == b"GNU\0" {
            return notes.get(held_at..end).map(<[u8]>::to_vec);
        }
        at = held_at.checked_add(size.checked_next_multiple_of(4)?)?;
    }
}
