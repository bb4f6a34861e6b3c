//! Makes an ELF file for gdb out of the symbols of a kernel or of a module. The file has no code and no data. It has call frame
//! information (`.debug_frame`) where the kernel has ORC tables.
//!
//! gdb wants each symbol in a section, and kallsyms knows no sections. So the sections are made up: each range of addresses with
//! symbols that are mostly code, or mostly data, becomes one (`stretches`).

use crate::boot::Kernel;
use crate::boot::kernels;
use crate::outputs::elf::{Header, Numbers, Shape};
use crate::symbols::Entry;
use crate::unwind::frames;
use goblin::elf::header::ET_EXEC;
use goblin::elf::section_header::{
    SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHN_ABS, SHT_NOBITS, SHT_PROGBITS, SHT_STRTAB, SHT_SYMTAB,
};
use goblin::elf::sym::{STB_GLOBAL, STT_FUNC, STT_NOTYPE, STT_OBJECT};
use trapline_isa::arch::Arch;

/// A gap of this many bytes between two symbols ends a section.
const GAP: u64 = 1 << 20;
/// A range with fewer symbols than this is merged into the section before it, even if it is of the other kind.
const FEW: usize = 4;
/// Flags of sections that lie in memory: data, which can be written, and code.
const DATA: u64 = (SHF_ALLOC | SHF_WRITE) as u64;
const CODE: u64 = (SHF_ALLOC | SHF_EXECINSTR) as u64;

/// A section of the file, with the fields of its header.
struct Section {
    name: String,
    kind: u32,
    flags: u64,
    address: u64,
    bytes: Vec<u8>,
    /// The size of a section that is not in the file.
    size: u64,
    link: u32,
    info: u32,
    entry: u64,
}

impl Section {
    fn new(name: &str, kind: u32, bytes: Vec<u8>) -> Section {
        Section { name: name.to_string(), kind, flags: 0, address: 0, bytes, size: 0, link: 0, info: 0, entry: 0 }
    }

    fn len(&self) -> u64 {
        if self.kind == SHT_NOBITS { self.size } else { self.bytes.len() as u64 }
    }
}

/// A range of memory with symbols that are mostly of one kind.
struct Stretch {
    is_text: bool,
    start: u64,
    end: u64,
    symbols: usize,
}

/// A symbol with its size.
pub(super) type Sized<'a> = (&'a Entry, u64);

/// The ranges that become sections, in order of address. `places` must be sorted by address.
fn stretches(places: &[Sized<'_>]) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    for (entry, size) in places {
        let (start, is_text) = (entry.address, entry.is_text());
        let end = start.saturating_add((*size).max(1));
        match all.last_mut().filter(|last| last.is_text == is_text && start.saturating_sub(last.end) < GAP) {
            Some(last) => (last.end, last.symbols) = (last.end.max(end), last.symbols + 1),
            None => all.push(Stretch { is_text, start, end, symbols: 1 }),
        }
    }
    let mut kept: Vec<Stretch> = Vec::new();
    for next in all {
        match kept.last_mut().filter(|last| next.start.saturating_sub(last.end) < GAP) {
            Some(last) if next.symbols < FEW || last.is_text == next.is_text => {
                (last.end, last.symbols) = (last.end.max(next.end), last.symbols + next.symbols);
            }
            _ => kept.push(next),
        }
    }
    // Sections may not overlap.
    let starts: Vec<u64> = kept.iter().skip(1).map(|next| next.start).collect();
    kept.iter_mut().zip(starts).for_each(|(stretch, next)| stretch.end = stretch.end.min(next));
    kept
}

fn size_of(kernel: &Kernel, entry: &Entry) -> u64 {
    let symbol = kernel.symbols.containing(entry.address).filter(|symbol| symbol.start == entry.address);
    symbol.filter(|_| !entry.is_absolute()).map_or(0, |symbol| symbol.size)
}

/// The bytes of the ELF file for a kernel.
pub fn of(kernel: &Kernel) -> Vec<u8> {
    let places = kernel.symbols.places().iter().map(|entry| (entry, size_of(kernel, entry))).collect::<Vec<_>>();
    file(kernel.arch, kernel.symbols.absolute(), &places, frames::of(kernel))
}

/// The bytes of the ELF file with these symbols. `places` must be sorted by address.
pub(super) fn file(arch: Arch, absolute: &[Entry], places: &[Sized<'_>], frames: Option<Vec<u8>>) -> Vec<u8> {
    let facts = kernels::of(arch);
    let shape = Shape { wide: facts.elf.class == 2, big_endian: facts.elf.order == 2, machine: facts.elf.machine };
    let stretches = stretches(places);
    let section_at = |address: u64| stretches.partition_point(|stretch| stretch.start <= address) as u16;

    let (mut names, mut table) = (vec![0], Numbers::new(shape));
    put_symbol(&mut table, 0, 0, 0, 0, 0);
    for (entry, size) in absolute.iter().map(|entry| (entry, 0)).chain(places.iter().copied()) {
        let name = names.len() as u32;
        names.extend(entry.name.as_bytes());
        names.push(0);
        let section = if entry.is_absolute() { SHN_ABS as u16 } else { section_at(entry.address) };
        let bits = if entry.is_text() { facts.code_bits } else { 0 };
        put_symbol(&mut table, name, entry.address | bits, size, kind_of(entry), section);
    }
    let mut sections = vec![Section::new("", 0, Vec::new())];
    for (number, stretch) in stretches.iter().enumerate() {
        let (name, flags) = if stretch.is_text { (".text", CODE) } else { (".data", DATA) };
        let name = if number == 0 { name.to_string() } else { format!("{name}.{number}") };
        let size = stretch.end - stretch.start;
        sections.push(Section { flags, address: stretch.start, size, ..Section::new(&name, SHT_NOBITS, Vec::new()) });
    }
    let strings = sections.len() as u32 + 1;
    let entry = if shape.wide { 24 } else { 16 };
    // All symbols are global, because ELF wants local symbols in front of global ones.
    sections.push(Section { link: strings, info: 1, entry, ..Section::new(".symtab", SHT_SYMTAB, table.bytes) });
    sections.push(Section::new(".strtab", SHT_STRTAB, names));
    if let Some(frames) = frames {
        sections.push(Section::new(".debug_frame", SHT_PROGBITS, frames));
    }
    let mut section_names = Vec::new();
    let mut name_places: Vec<u32> = Vec::new();
    for name in sections.iter().map(|section| &section.name[..]).chain([".shstrtab"]) {
        name_places.push(section_names.len() as u32);
        section_names.extend(name.as_bytes());
        section_names.push(0);
    }
    sections.push(Section::new(".shstrtab", SHT_STRTAB, section_names));
    let entry = stretches.iter().find(|stretch| stretch.is_text).map_or(0, |stretch| stretch.start);
    assemble(shape, facts.elf_flags, entry, &sections, &name_places)
}

fn kind_of(entry: &Entry) -> u8 {
    STB_GLOBAL << 4
        | if entry.is_text() {
            STT_FUNC
        } else if entry.is_absolute() {
            STT_NOTYPE
        } else {
            STT_OBJECT
        }
}

fn put_symbol(table: &mut Numbers, name: u32, value: u64, size: u64, kind: u8, section: u16) {
    let numbers = |table: &mut Numbers| [value, size].into_iter().for_each(|number| table.put_word(number));
    table.put32(name);
    if !table.shape.wide {
        numbers(table);
    }
    table.bytes.extend([kind, 0]);
    table.put16(section);
    if table.shape.wide {
        numbers(table);
    }
}

fn assemble(shape: Shape, flags: u32, entry: u64, sections: &[Section], names: &[u32]) -> Vec<u8> {
    let mut at = shape.header_bytes() as u64;
    let mut offsets = Vec::new();
    for section in sections {
        at = at.next_multiple_of(8);
        offsets.push(at);
        at += section.bytes.len() as u64;
    }
    let table = at.next_multiple_of(8);
    let mut file = Numbers::new(shape);
    file.header(&Header { kind: ET_EXEC, entry, flags, rows: 0, sections: (table, sections.len()) });
    for (section, offset) in sections.iter().zip(&offsets) {
        file.bytes.resize(*offset as usize, 0);
        file.bytes.extend(&section.bytes);
    }
    file.bytes.resize(table as usize, 0);
    for ((section, offset), name) in sections.iter().zip(&offsets).zip(names) {
        file.put32(*name);
        file.put32(section.kind);
        [section.flags, section.address, *offset, section.len()].into_iter().for_each(|number| file.put_word(number));
        file.put32(section.link);
        file.put32(section.info);
        file.put_word(if section.kind == 0 { 0 } else { 8 });
        file.put_word(section.entry);
    }
    file.bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf::Elf;

    /// TT-7: the file has the kernel's symbols, in the kernel's class and byte order.
    #[test]
    fn the_file_has_the_kernels_symbols() {
        for builtin in trapline_images::builtins() {
            let name = builtin.name;
            let kernel = Kernel::from_bytes(builtin.bytes).expect("a kernel");
            let file = of(&kernel);
            let elf = Elf::parse(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
            let identity = kernels::of(kernel.arch).elf;
            assert_eq!((elf.header.e_machine, elf.is_64), (identity.machine, identity.class == 2), "{name}");
            let bits = kernels::of(kernel.arch).code_bits;
            for (wanted, is_function) in [("vfs_read", true), ("vfs_write", true), ("tasks", false)] {
                let found = elf.syms.iter().find(|symbol| elf.strtab.get_at(symbol.st_name) == Some(wanted));
                let found = found.unwrap_or_else(|| panic!("{name}: {wanted}"));
                let known = kernel.symbols.find(wanted).expect("a symbol");
                let value = if is_function { known.start | bits } else { known.start };
                assert_eq!((found.st_value, found.st_size, found.is_function()), (value, known.size, is_function), "{name}");
                let section = &elf.section_headers[found.st_shndx];
                assert!(section.vm_range().contains(&(known.start as usize)), "{name}: {wanted} in {section:?}");
                assert_eq!(section.is_executable(), is_function, "{name}: {wanted}");
            }
            assert_eq!(elf.syms.len(), 1 + kernel.symbols.places().len() + kernel.symbols.absolute().len(), "{name}");
        }
    }
}
