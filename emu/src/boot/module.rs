//! A kernel module as the guest's loader has placed it: read out of the guest's memory while the loader still has the file's headers.
//!
//! When `module_finalize(header, sections, module)` is called, every section header holds the address that the section has got, symbols
//! hold addresses, and relocations are done; so one place in every kernel tells all, with no structure of the kernel's own in the way.
//! Whatever that memory holds, the answer is a module or none.

use super::{Kernel, Section, Segment, elf};
use crate::symbols::{Entry, Symbols};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ELFMAG, ET_REL};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHN_UNDEF, SHT_NOBITS, SHT_SYMTAB};
use goblin::elf::sym::{STT_FILE, STT_SECTION};
use goblin::elf::{Elf, SectionHeader, Sym, Symtab};
use std::ops::Range;
use trapline_isa::arch::Arch;

/// No module has more sections, names, symbols or code.
const MOST_SECTIONS: u16 = 4096;
const MOST_BYTES: u64 = 64 << 20;
const HEADER_BYTES: usize = 64;

/// Where the module's own words about itself are, and those that matter here.
const WORDS: &str = ".modinfo";
const NAME: &[u8] = b"name=";
const DEPENDS: &[u8] = b"depends=";
/// Sections that are given up when the module's init is done.
const INIT: &str = ".init";

/// A module.
#[derive(Clone, Debug)]
pub struct Module {
    /// As the guest calls it: `crc16`.
    pub name: String,
    /// Read as a kernel is: its sections are the segments, its tables are found by their sections' names.
    pub image: Kernel,
    /// Its code.
    pub text: Vec<ModuleText>,
}

/// A section of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleText {
    /// Where the guest has put it.
    pub range: Range<u64>,
    /// Given up when the module's init is done.
    pub init: bool,
}

/// What a module's file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// What it runs on; `None`: something that no kernel here runs on.
    pub arch: Option<Arch>,
    /// As the guest calls it.
    pub name: String,
    /// Modules that must be loaded before it.
    pub depends: Vec<String>,
}

impl About {
    /// Of the file with these bytes; `None`: it is no module.
    pub fn of(bytes: &[u8]) -> Option<About> {
        let file = Elf::parse(bytes).ok().filter(|file| file.header.e_type == ET_REL)?;
        let words = file.section_headers.iter().find(|section| file.shdr_strtab.get_at(section.sh_name) == Some(WORDS))?;
        let words = bytes.get(words.file_range()?)?;
        let name = String::from_utf8(word(words, NAME)?.to_vec()).ok().filter(|name| !name.is_empty())?;
        let depends = String::from_utf8_lossy(word(words, DEPENDS).unwrap_or_default()).into_owned();
        let depends = depends.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
        Some(About { arch: elf::arch_of(&file.header).ok(), name, depends })
    }
}

/// What one of a module's words about itself says.
fn word<'a>(words: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    words.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(key))
}

/// Reads guest memory into the buffer, all of it or none.
pub type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> bool;

/// The module whose ELF header and section headers are at these addresses.
pub fn read(arch: Arch, memory: Read<'_>, header_at: u64, sections_at: u64) -> Option<Module> {
    let mut memory = Memory { read: memory, left: MOST_BYTES };
    let mut bytes = memory.bytes(header_at, HEADER_BYTES as u64)?;
    if !bytes.starts_with(&ELFMAG[..]) {
        return None;
    }
    let wide = bytes[EI_CLASS] == ELFCLASS64;
    let container = if wide { Container::Big } else { Container::Little };
    let ctx = Ctx::new(container, if bytes[EI_DATA] == ELFDATA2LSB { Endian::Little } else { Endian::Big });
    bytes.resize(HEADER_BYTES, 0);
    let header = Elf::parse_header(&bytes).ok().filter(|header| header.e_shnum <= MOST_SECTIONS)?;
    let count = usize::from(header.e_shnum);
    let table = memory.bytes(sections_at, (count * SectionHeader::size(ctx)) as u64)?;
    let headers = SectionHeader::parse_from(&table, 0, count, ctx).ok()?;
    let names = memory.section(headers.get(usize::from(header.e_shstrndx))?)?;
    let placed = |section: &SectionHeader| section.sh_flags & u64::from(SHF_ALLOC) != 0 && section.sh_size > 0;

    let (mut segments, mut sections, mut text, mut words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for section in headers.iter().filter(|section| section.sh_type != 0) {
        let name = string(&names, section.sh_name)?;
        if name == WORDS {
            // It stays in the loader's copy of the file.
            words = memory.section(section)?;
        }
        if !placed(section) {
            continue;
        }
        let range = section.sh_addr..section.sh_addr.checked_add(section.sh_size)?;
        let executable = section.sh_flags & u64::from(SHF_EXECINSTR) != 0;
        if executable {
            text.push(ModuleText { range: range.clone(), init: name.starts_with(INIT) });
        }
        let bytes = if section.sh_type == SHT_NOBITS { Vec::new() } else { memory.section(section)? };
        segments.push(Segment { physical: 0, virtual_address: range.start, bytes, size: section.sh_size, executable });
        sections.push(Section { name: name.to_string(), range });
    }
    let name = String::from_utf8(word(&words, NAME)?.to_vec()).ok().filter(|name| !name.is_empty())?;

    let table = headers.iter().find(|section| section.sh_type == SHT_SYMTAB)?;
    let (symbols, strings) = (memory.section(table)?, memory.section(headers.get(table.sh_link as usize)?)?);
    let symbols = Symtab::parse(&symbols, 0, symbols.len() / Sym::size(container), ctx).ok()?;
    let entries = symbols.iter().filter_map(|symbol| {
        let section = headers.get(symbol.st_shndx).filter(|section| placed(section))?;
        entry(&symbol, section, string(&strings, symbol.st_name)?, &name)
    });
    let covered = sections.iter().map(|section| section.range.clone()).collect();
    let symbols = Symbols::within(entries.collect(), covered);
    Some(Module { name, image: Kernel::of_sections(arch, segments, sections, symbols), text })
}

fn entry(symbol: &Sym, section: &SectionHeader, name: &str, module: &str) -> Option<Entry> {
    let is_place = symbol.st_shndx != SHN_UNDEF as usize && symbol.st_shndx < SHN_LORESERVE as usize;
    if !is_place || name.is_empty() || matches!(symbol.st_type(), STT_FILE | STT_SECTION) {
        return None;
    }
    let letter = if section.sh_flags & u64::from(SHF_EXECINSTR) != 0 { 't' } else { 'd' };
    let kind = if symbol.st_bind() == 0 { letter } else { letter.to_ascii_uppercase() };
    Some(Entry { address: symbol.st_value, name: name.into(), kind, module: Some(module.into()) })
}

fn string(table: &[u8], at: usize) -> Option<&str> {
    let rest = table.get(at..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// Guest memory, of which no more is read than any module has.
struct Memory<'a> {
    read: Read<'a>,
    left: u64,
}

impl Memory<'_> {
    fn bytes(&mut self, at: u64, length: u64) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(length)?;
        let mut bytes = vec![0; length as usize];
        (self.read)(at, &mut bytes).then_some(bytes)
    }

    fn section(&mut self, section: &SectionHeader) -> Option<Vec<u8>> {
        self.bytes(section.sh_addr, section.sh_size)
    }
}
