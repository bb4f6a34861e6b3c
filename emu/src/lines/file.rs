//! A file with DWARF: its sections of debug information, its ISA and its build id. Only these sections are read, so a
//! vmlinux of 600 MB takes the memory of its debug information.

use super::error::{Answer, LinesError};
use super::packed;
use super::placed::Placed;
use crate::boot::kernels::{self, Identity};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Elf;
use goblin::elf::SectionHeader;
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ET_DYN, ET_EXEC, ET_REL, Header};
use goblin::elf::section_header::{SHT_NOBITS, SHT_NOTE};
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
    /// The sections of a module or an object file, which have addresses of our own until a guest loads them.
    pub placed: Option<Placed>,
    pub(super) sections: BTreeMap<&'static str, Vec<u8>>,
    /// The address of `.eh_frame`, to which its addresses are relative.
    pub(super) eh_frame_at: u64,
}

/// A file whose parts are read when they are asked for.
pub(super) struct Parts<'f, F> {
    from: &'f mut F,
    length: u64,
    /// The names of the sections.
    names: Vec<u8>,
    /// Bytes that sections may still take. Those of a hostile file may overlap: together they are at most as long as the
    /// file.
    left: u64,
}

impl<F: Read + Seek> Parts<'_, F> {
    /// The name of a section.
    pub fn name(&self, header: &SectionHeader) -> &[u8] {
        let name = self.names.get(header.sh_name..).unwrap_or_default();
        name.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The bytes of a section.
    pub fn section(&mut self, header: &SectionHeader) -> Answer<Vec<u8>> {
        self.left = self
            .left
            .checked_sub(header.sh_size)
            .ok_or_else(|| LinesError::Malformed("its sections are longer than the file".into()))?;
        piece(self.from, header.sh_offset, header.sh_size, self.length)
            .ok_or_else(|| LinesError::Malformed("a section lies behind the file's end".into()))
    }
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
        if !matches!(header.e_type, ET_EXEC | ET_DYN | ET_REL) {
            return Err(not_elf("it is neither a program nor a kernel nor a module"));
        }
        let (wide, little) = (identity.class == ELFCLASS64, identity.order == ELFDATA2LSB);
        let ctx =
            Ctx::new(if wide { Container::Big } else { Container::Little }, if little { Endian::Little } else { Endian::Big });
        let mut headers = headers(from, &header, length, ctx)?;
        let names = headers.get(usize::from(header.e_shstrndx)).cloned().unwrap_or_default();
        let names = piece(from, names.sh_offset, names.sh_size, length).unwrap_or_default();
        let mut parts = Parts { from, length, names, left: length };
        let mut file = DebugFile {
            arch: row.arch,
            build_id: None,
            little,
            address_size: if wide { 8 } else { 4 },
            placed: None,
            sections: BTreeMap::new(),
            eh_frame_at: 0,
        };
        if header.e_type == ET_REL {
            super::placed::give_addresses(&mut headers)?;
        }
        file.take_sections(&mut parts, &headers)?;
        if !file.sections.contains_key(".debug_info") {
            return Err(LinesError::NoDwarf("it was compiled without -g, or stripped"));
        }
        if header.e_type == ET_REL {
            file.placed = Some(Placed::read(&mut parts, &headers, ctx, row, &mut file.sections)?);
        }
        Ok(file)
    }

    fn take_sections(&mut self, parts: &mut Parts<'_, impl Read + Seek>, headers: &[SectionHeader]) -> Answer<()> {
        for header in headers.iter().filter(|header| header.sh_type != SHT_NOBITS) {
            let name = parts.name(header);
            match WANTED.iter().find(|wanted| wanted.as_bytes() == name) {
                None if header.sh_type != SHT_NOTE => {}
                None => {
                    let notes = parts.section(header)?;
                    self.build_id = self.build_id.take().or_else(|| build_id(&notes, self.little));
                }
                Some(name) => {
                    if *name == ".eh_frame" {
                        self.eh_frame_at = header.sh_addr;
                    }
                    let bytes = packed::unpacked(parts.section(header)?, header, self.arch.isa())?;
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

fn headers(from: &mut (impl Read + Seek), header: &Header, length: u64, ctx: Ctx) -> Answer<Vec<SectionHeader>> {
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
