//! Parses a kernel's ELF file.
//! goblin parses the tables. Their sizes and addresses are checked here before they are used.

use super::foreign::{machine_name, not_elf};
use super::kernels::{self, Identity};
use super::{Section, Segment, Starter, elf_symbols, unplaced};
use crate::error::BootError;
use crate::symbols::Symbols;
use bytes::Bytes;
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ELFMAG, ET_CORE, ET_DYN, ET_EXEC, ET_REL, Header};
use goblin::elf::program_header::{PF_X, PT_LOAD};
use goblin::elf::section_header::{SHF_ALLOC, SHT_PROGBITS, SHT_SYMTAB};
use goblin::elf::{Elf, ProgramHeader, SectionHeader, Sym, Symtab};
use trapline_isa::arch::Arch;
use trapline_isa::entry::Pointers;

/// The limit of memory that all segments of a kernel take together.
pub const MOST_MEMORY: u64 = 1 << 30;

/// The start of a kernel that runs from flash memory (vmlinux-xip.lds.S of 32-bit ARM and RISC-V).
const IN_PLACE: &str = "_xiprom";

/// The content of an ELF file.
pub struct Image {
    /// The ISA.
    pub arch: Arch,
    /// The entry point, as a physical address.
    pub entry: u64,
    /// The segments, sorted by virtual address.
    pub segments: Vec<Segment>,
    /// The sections that are in memory.
    pub sections: Vec<Section>,
    /// The symbol table.
    pub symbols: Symbols,
    /// The boot stub, if the kernel cannot be entered directly.
    pub starter: Option<Starter>,
}

/// Parses an ELF file. `keep` makes a segment's bytes of a piece of the file.
pub fn parse(bytes: &[u8], keep: impl Fn(&[u8]) -> Bytes) -> Result<Image, BootError> {
    if !bytes.starts_with(&ELFMAG[..]) {
        return Err(not_elf(bytes));
    }
    const LONGEST_HEADER: u64 = 64;
    let header = Elf::parse_header(bytes).map_err(|error| match bytes.len() as u64 {
        has if has < LONGEST_HEADER => BootError::Truncated { what: "the ELF header".into(), needs: LONGEST_HEADER, has },
        _ => BootError::Malformed(error.to_string()),
    })?;
    let arch = arch_of(&header)?;
    kind_of(&header)?;
    let ctx = context(&header);
    let segments = segments(bytes, &header, ctx, arch, keep)?;
    let entry = entry(&segments, header.e_entry).ok_or(BootError::EntryOutside { entry: header.e_entry })?;
    let headers = section_headers(bytes, &header, ctx)?;
    let sections = sections(bytes, &header, &headers);
    let (symbols, arch) = match headers.iter().find(|section| section.sh_type == SHT_SYMTAB) {
        Some(table) => symbol_table(bytes, table, &headers, descriptors(bytes, &headers, &sections, arch), ctx, arch)?,
        None => (Symbols::default(), arch),
    };
    if symbols.address_of(IN_PLACE).is_some() {
        return Err(BootError::RunsInPlace);
    }
    let symbols = symbols.lying_in(segments.iter().map(Segment::range));
    Ok(Image { arch, entry, segments, sections, symbols, starter: None })
}

/// The error for a machine without an ISA in trapline.
pub(super) fn foreign(machine: impl Into<String>) -> BootError {
    let supported = Arch::ALL.iter().map(|arch| arch.name()).collect::<Vec<_>>().join(" and ");
    BootError::ForeignMachine { machine: machine.into(), supported }
}

/// The header fields that identify an ISA.
pub(super) fn identity_of(header: &Header) -> Identity {
    Identity { machine: header.e_machine, class: header.e_ident[EI_CLASS], order: header.e_ident[EI_DATA] }
}

/// The ISA according to the header. Symbols tell ISAs with equal headers apart later.
pub(super) fn arch_of(header: &Header) -> Result<Arch, BootError> {
    let identity = identity_of(header);
    let row = kernels::all().find(|row| row.elf == identity);
    row.map(|row| row.arch).ok_or_else(|| foreign(machine_name(&identity)))
}

/// Chooses among the ISAs with this ELF header the one to whose code most function symbols point.
fn arch_by_symbols(arch: Arch, table: &Symtab<'_>) -> Arch {
    let same = kernels::all().filter(|row| row.elf == kernels::of(arch).elf).map(|row| row.arch);
    same.into_iter().find(|other| elf_symbols::point_to_code_of(table, *other)).unwrap_or(arch)
}

/// The entry point as a physical address. Some kernels (PowerPC's) give a virtual one.
fn entry(segments: &[Segment], entry: u64) -> Option<u64> {
    let physical = segments.iter().find(|segment| segment.loaded().contains(&entry)).map(|_| entry);
    let seen = || segments.iter().find(|segment| segment.range().contains(&entry));
    physical.or_else(|| seen().map(|segment| segment.physical + (entry - segment.virtual_address)))
}

fn kind_of(header: &Header) -> Result<(), BootError> {
    match header.e_type {
        ET_EXEC | ET_DYN => Ok(()),
        ET_REL => Err(BootError::NotAKernel { kind: "an object file or a kernel module (ET_REL)" }),
        ET_CORE => Err(BootError::NotAKernel { kind: "a core dump (ET_CORE)" }),
        _ => Err(BootError::NotAKernel { kind: "an ELF file of an unknown type" }),
    }
}

fn context(header: &Header) -> Ctx {
    let container = if header.e_ident[EI_CLASS] == ELFCLASS64 { Container::Big } else { Container::Little };
    let endian = if header.e_ident[EI_DATA] == ELFDATA2LSB { Endian::Little } else { Endian::Big };
    Ctx::new(container, endian)
}

/// A range of the file. Fails if the file ends before it; `what` names the range.
fn piece(bytes: &[u8], offset: u64, length: u64, what: impl FnOnce() -> String) -> Result<&[u8], BootError> {
    let end = offset.checked_add(length);
    match end {
        Some(end) if end <= bytes.len() as u64 => Ok(&bytes[offset as usize..end as usize]),
        _ => Err(BootError::Truncated { what: what(), needs: end.unwrap_or(u64::MAX), has: bytes.len() as u64 }),
    }
}

fn malformed(error: goblin::error::Error) -> BootError {
    BootError::Malformed(error.to_string())
}

fn segments(
    bytes: &[u8],
    header: &Header,
    ctx: Ctx,
    arch: Arch,
    keep: impl Fn(&[u8]) -> Bytes,
) -> Result<Vec<Segment>, BootError> {
    let headers = program_headers(bytes, header, ctx)?;
    let mut segments: Vec<(usize, Segment)> = Vec::new();
    let mut total: u64 = 0;
    for (number, header) in headers.iter().enumerate().filter(|(_, header)| header.p_type == PT_LOAD && header.p_memsz > 0) {
        total = total.saturating_add(header.p_memsz);
        if total > MOST_MEMORY {
            return Err(BootError::SegmentTooLarge { number, size: header.p_memsz, most: MOST_MEMORY });
        }
        segments.push((number, segment(bytes, number, header, arch, &keep)?));
    }
    if segments.is_empty() {
        return Err(BootError::NothingToLoad);
    }
    apart(&mut segments, "physical", |segment| segment.physical)?;
    unplaced::place(arch, &mut segments);
    apart(&mut segments, "virtual", |segment| segment.virtual_address)?;
    Ok(segments.into_iter().map(|(_, segment)| segment).collect())
}

fn program_headers(bytes: &[u8], header: &Header, ctx: Ctx) -> Result<Vec<ProgramHeader>, BootError> {
    let count = usize::from(header.e_phnum);
    let length = (count * ProgramHeader::size(ctx)) as u64;
    let table = piece(bytes, header.e_phoff, length, || "the table of program headers".into())?;
    ProgramHeader::parse(table, 0, count, ctx).map_err(malformed)
}

/// The headers of an ELF file and nothing else. goblin's reading of a whole file splits a table of strings once for each
/// symbol table that names it, so a file of a few megabytes would take hours.
pub struct Headers<'a> {
    /// The first one.
    pub header: Header,
    /// The program headers.
    pub programs: Vec<ProgramHeader>,
    sections: Vec<SectionHeader>,
    names: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Reads the headers of the file with these bytes.
    pub fn read(bytes: &'a [u8]) -> Result<Headers<'a>, BootError> {
        let header = Elf::parse_header(bytes).map_err(malformed)?;
        let ctx = context(&header);
        let (programs, sections) = (program_headers(bytes, &header, ctx)?, section_headers(bytes, &header, ctx)?);
        let names = section_names(bytes, &header, &sections);
        Ok(Headers { header, programs, sections, names, bytes })
    }

    /// Returns the bytes of the first section with that name, as far as the file holds them.
    pub fn section(&self, name: &str) -> Option<&'a [u8]> {
        let is_named = |section: &&SectionHeader| elf_symbols::name(self.names, section.sh_name) == Some(name);
        self.bytes.get(self.sections.iter().find(is_named)?.file_range()?)
    }
}

/// The table of the names of sections, if there is one.
fn section_names<'a>(bytes: &'a [u8], header: &Header, sections: &[SectionHeader]) -> &'a [u8] {
    let names = sections.get(usize::from(header.e_shstrndx));
    names.and_then(|names| piece(bytes, names.sh_offset, names.sh_size, String::new).ok()).unwrap_or_default()
}

fn segment(
    bytes: &[u8],
    number: usize,
    header: &ProgramHeader,
    arch: Arch,
    keep: impl Fn(&[u8]) -> Bytes,
) -> Result<Segment, BootError> {
    let size = header.p_memsz;
    if header.p_filesz > size {
        return Err(BootError::SegmentShrinks { number, in_file: header.p_filesz, in_memory: size });
    }
    let last = match arch.isa().word {
        4 => u64::from(u32::MAX),
        _ => u64::MAX - 1,
    };
    for start in [header.p_paddr, header.p_vaddr] {
        if start.checked_add(size - 1).is_none_or(|end| end > last) {
            return Err(BootError::SegmentWraps { number, start, size });
        }
    }
    let held = piece(bytes, header.p_offset, header.p_filesz, || format!("segment {number}"))?;
    Ok(Segment {
        physical: (kernels::of(arch).lies_at)(header.p_paddr),
        virtual_address: header.p_vaddr,
        bytes: keep(held),
        size,
        executable: header.p_flags & PF_X != 0,
    })
}

/// Sorts by an address and checks that no segments overlap.
fn apart(segments: &mut [(usize, Segment)], space: &'static str, start: fn(&Segment) -> u64) -> Result<(), BootError> {
    segments.sort_by_key(|(_, segment)| start(segment));
    for pair in segments.windows(2) {
        let ((one, low), (other, high)) = (&pair[0], &pair[1]);
        if start(low) + low.size > start(high) {
            return Err(BootError::SegmentsOverlap { one: *one, other: *other, space, address: start(high) });
        }
    }
    Ok(())
}

/// The section headers. Empty if they were stripped; the image can be loaded without them.
fn section_headers(bytes: &[u8], header: &Header, ctx: Ctx) -> Result<Vec<SectionHeader>, BootError> {
    if header.e_shoff == 0 || header.e_shnum == 0 {
        return Ok(Vec::new());
    }
    let count = usize::from(header.e_shnum);
    let length = (count * SectionHeader::size(ctx)) as u64;
    let table = piece(bytes, header.e_shoff, length, || "the table of section headers".into())?;
    SectionHeader::parse_from(table, 0, count, ctx).map_err(malformed)
}

/// The symbols and the ISA, which they may determine more precisely.
fn symbol_table(
    bytes: &[u8],
    table: &SectionHeader,
    headers: &[SectionHeader],
    descriptors: Option<(u64, &[u8])>,
    ctx: Ctx,
    arch: Arch,
) -> Result<(Symbols, Arch), BootError> {
    let data = piece(bytes, table.sh_offset, table.sh_size, || "the symbol table".into())?;
    let names = match headers.get(table.sh_link as usize) {
        Some(names) => piece(bytes, names.sh_offset, names.sh_size, || "the names of the symbols".into())?,
        None => return Err(BootError::Malformed("the symbol table names no table of strings".into())),
    };
    let count = data.len() / Sym::size(ctx.container);
    if count == 0 {
        return Ok((Symbols::default(), arch));
    }
    let table = Symtab::parse(data, 0, count, ctx).map_err(malformed)?;
    let arch = arch_by_symbols(arch, &table);
    let entries = elf_symbols::entries(&table, names, headers, arch);
    let mut entries = entries.ok_or(BootError::TooMuchWork { what: "reading its symbol table" })?;
    if let Some((start, held)) = descriptors {
        elf_symbols::name_code(&mut entries, start, held, arch);
    }
    Ok((Symbols::new(entries).with_data(elf_symbols::data(&table, names, headers, arch)), arch))
}

/// The address and content of the function descriptors, on an ISA that has them.
fn descriptors<'a>(bytes: &'a [u8], headers: &[SectionHeader], sections: &[Section], arch: Arch) -> Option<(u64, &'a [u8])> {
    if !matches!(arch.isa().abi.pointers, Pointers::Descriptor(_)) {
        return None;
    }
    let start = sections.iter().find(|section| section.name == ".opd")?.range.start;
    let header = headers.iter().find(|header| header.sh_addr == start && header.sh_type == SHT_PROGBITS && header.sh_size > 0)?;
    Some((start, piece(bytes, header.sh_offset, header.sh_size, String::new).ok()?))
}

/// The sections in memory that have readable names. They only help to find tables.
fn sections(bytes: &[u8], header: &Header, headers: &[SectionHeader]) -> Vec<Section> {
    let names = section_names(bytes, header, headers);
    headers
        .iter()
        .filter(|section| section.sh_flags & u64::from(SHF_ALLOC) != 0)
        .filter_map(|section| {
            let end = section.sh_addr.checked_add(section.sh_size)?;
            Some(Section { name: elf_symbols::name(names, section.sh_name)?.to_string(), range: section.sh_addr..end })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with `tables` symbol tables, which share one string table of `strings` bytes.
    fn with_tables(tables: u16, strings: usize) -> Vec<u8> {
        let names = b"\0.data\0";
        let (names_at, strings_at) = (64, 64 + names.len() as u64);
        let sections_at = strings_at + strings as u64;
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let section = |name: u32, kind: u32, at: u64, size: u64, link: u32| {
            let mut bytes: Vec<u8> = [name, kind].iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.extend(words(&[0, 0, at, size]));
            bytes.extend([link, 0].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(words(&[8, 24]));
            bytes
        };
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([2_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
        file.extend(1_u32.to_le_bytes());
        file.extend(words(&[0x1000, 0, sections_at]));
        file.extend([0_u16, 0, 64, 56, 0, 64, tables + 3, 1].iter().flat_map(|half| half.to_le_bytes()));
        file.extend(names);
        file.resize(sections_at as usize, 0);
        file.extend(section(0, 0, 0, 0, 0));
        file.extend(section(0, 3, names_at, names.len() as u64, 0));
        file.extend(section(1, SHT_PROGBITS, strings_at, strings as u64, 0));
        for _ in 0..tables {
            file.extend(section(0, SHT_SYMTAB, strings_at, 24, 2));
        }
        file
    }

    /// KP-4: the headers of a file are read without its tables of strings, however many symbol tables name them.
    #[test]
    fn tables_of_strings_are_not_read_with_the_headers() {
        let started = std::time::Instant::now();
        let file = with_tables(60_000, 8 << 20);
        let headers = Headers::read(&file).expect("headers");
        assert_eq!(headers.sections.len(), 60_003);
        assert_eq!((headers.section(".data").map(<[u8]>::len), headers.section(".nothing")), (Some(8 << 20), None));
        // To split the strings once for each table would take hours.
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }

    /// KP-4
    #[test]
    fn headers_that_are_cut_off_are_refused() {
        let whole = with_tables(2, 16);
        for length in 0..whole.len() {
            assert!(Headers::read(&whole[..length]).is_err(), "{length} bytes");
        }
    }
}
