//! Reads a kernel module out of guest memory, after the guest's loader has placed it and before it drops the file's
//! headers.
//!
//! When `module_finalize(header, sections, module)` is called, every section header holds the section's final address,
//! symbols hold addresses, and relocations are applied. So nothing has to be known about the kernel's own structures,
//! and the same code serves every kernel. Any memory content gives a module or `None`, never a panic.

use super::{Kernel, Section, Segment, elf, elf_symbols};
use crate::symbols::{Entry, Symbols};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ELFMAG, ET_REL};
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHN_LORESERVE, SHN_UNDEF, SHT_NOBITS, SHT_STRTAB, SHT_SYMTAB};
use goblin::elf::sym::{STT_FILE, STT_SECTION};
use goblin::elf::{Elf, SectionHeader, Sym, Symtab};
use std::ops::Range;
use trapline_isa::arch::Arch;

/// Limits that no module reaches: number of sections, bytes read in total.
const MOST_SECTIONS: u16 = 4096;
const MOST_BYTES: u64 = 64 << 20;
const HEADER_BYTES: usize = 64;

/// The section with the module's own description (`key=value` strings), and the keys used here.
pub const WORDS: &str = ".modinfo";
const NAME: &[u8] = b"name=";
const DEPENDS: &[u8] = b"depends=";
/// Limit for the size of a module's description of itself, in bytes.
const MOST_WORD_BYTES: usize = 1 << 20;
/// Prefixes of the sections that the kernel frees after the module's init function. ARM has tables beside its code.
const INIT: [&str; 3] = [".init", ".ARM.exidx.init", ".ARM.extab.init"];

/// A module.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name that the guest uses, such as `crc16`.
    pub name: String,
    /// The module as a kernel image: its sections are the segments; its tables are found by section name.
    pub image: Kernel,
    /// The sections of code.
    pub text: Vec<ModuleText>,
    /// The sections, of code and of data, that the kernel frees after the module's init function. The next module may lie there.
    pub init: Vec<Range<u64>>,
}

/// A section of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleText {
    /// The address range at which the guest placed it.
    pub range: Range<u64>,
    /// Whether the kernel frees it after the module's init function.
    pub init: bool,
}

/// The description of a module in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The module's ISA; `None` if no kernel here runs on it.
    pub arch: Option<Arch>,
    /// The name that the guest uses.
    pub name: String,
    /// The names of the modules that must be loaded first.
    pub depends: Vec<String>,
}

impl About {
    /// Reads the description from a file's bytes; `None` if the file is not a module.
    pub fn of(bytes: &[u8]) -> Option<About> {
        let file = elf::Headers::read(bytes).ok().filter(|file| file.header.e_type == ET_REL)?;
        let words = file.section(WORDS).filter(|words| words.len() <= MOST_WORD_BYTES)?;
        let name = own_name(words)?;
        let depends = String::from_utf8_lossy(word(words, DEPENDS).unwrap_or_default()).into_owned();
        let depends = depends.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
        Some(About { arch: elf::arch_of(&file.header).ok(), name, depends })
    }
}

/// The name that the guest uses, from the module's description of itself, the section `.modinfo`.
pub fn own_name(words: &[u8]) -> Option<String> {
    String::from_utf8(word(words, NAME)?.to_vec()).ok().filter(|name| !name.is_empty())
}

/// The value of a key in the module's description.
fn word<'a>(words: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    words.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(key))
}

/// Reads guest memory into the buffer; returns whether all of it could be read.
pub type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> bool;

/// Reads the module whose ELF header and section headers are at these addresses.
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

    let (mut segments, mut sections, mut text, mut init, mut words) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for section in headers.iter().filter(|section| section.sh_type != 0) {
        let name = elf_symbols::name(&names, section.sh_name)?;
        if name == WORDS {
            // The section is not loaded; it is in the loader's copy of the file.
            words = memory.section(section)?;
        }
        if !placed(section) {
            continue;
        }
        let range = section.sh_addr..section.sh_addr.checked_add(section.sh_size)?;
        let executable = section.sh_flags & u64::from(SHF_EXECINSTR) != 0;
        // The loader keeps the whole symbol table beside the init sections, and a shorter one for later elsewhere.
        let is_table = matches!(section.sh_type, SHT_SYMTAB | SHT_STRTAB);
        let is_init = is_table || INIT.iter().any(|prefix| name.starts_with(prefix));
        if is_init {
            init.push(range.clone());
        }
        if executable {
            text.push(ModuleText { range: range.clone(), init: is_init });
            if section.sh_type == SHT_NOBITS {
                // The loader fills it (as ARM's PLTs), and it is read when the kernel frees it.
                memory.charge(section.sh_size)?;
            }
        }
        let bytes = if section.sh_type == SHT_NOBITS { Vec::new() } else { memory.section(section)? };
        segments.push(Segment {
            physical: 0,
            virtual_address: range.start,
            bytes: bytes.into(),
            size: section.sh_size,
            executable,
        });
        sections.push(Section { name: name.to_string(), range });
    }
    let name = own_name(&words)?;

    let table = headers.iter().find(|section| section.sh_type == SHT_SYMTAB)?;
    let (symbols, strings) = (memory.section(table)?, memory.section(headers.get(table.sh_link as usize)?)?);
    let symbols = Symtab::parse(&symbols, 0, symbols.len() / Sym::size(container), ctx).ok()?;
    let entries = symbols.iter().filter_map(|symbol| {
        let section = headers.get(symbol.st_shndx).filter(|section| placed(section))?;
        entry(&symbol, section, elf_symbols::name(&strings, symbol.st_name)?, &name)
    });
    let covered = sections.iter().map(|section| section.range.clone()).collect();
    let data = elf_symbols::data(&symbols, &strings, &headers, arch);
    let symbols = Symbols::within(entries.collect(), covered).with_data(data);
    Some(Module { name, image: Kernel::of_sections(arch, segments, sections, symbols), text, init })
}

fn entry(symbol: &Sym, section: &SectionHeader, name: &str, module: &str) -> Option<Entry> {
    let is_place = symbol.st_shndx != SHN_UNDEF as usize && symbol.st_shndx < SHN_LORESERVE as usize;
    if !is_place || !elf_symbols::is_wanted(name) || matches!(symbol.st_type(), STT_FILE | STT_SECTION) {
        return None;
    }
    let letter = if section.sh_flags & u64::from(SHF_EXECINSTR) != 0 { 't' } else { 'd' };
    let kind = if symbol.st_bind() == 0 { letter } else { letter.to_ascii_uppercase() };
    Some(Entry { address: symbol.st_value, name: name.into(), kind, module: Some(module.into()) })
}

/// Guest memory with a limit on the bytes that are read from it.
struct Memory<'a> {
    read: Read<'a>,
    left: u64,
}

impl Memory<'_> {
    fn charge(&mut self, length: u64) -> Option<()> {
        self.left = self.left.checked_sub(length)?;
        Some(())
    }

    fn bytes(&mut self, at: u64, length: u64) -> Option<Vec<u8>> {
        self.charge(length)?;
        let mut bytes = vec![0; length as usize];
        (self.read)(at, &mut bytes).then_some(bytes)
    }

    fn section(&mut self, section: &SectionHeader) -> Option<Vec<u8>> {
        self.bytes(section.sh_addr, section.sh_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The address of the loader's copy of the headers.
    const HEADER: u64 = 0x10_0000;
    const SECTIONS: u64 = HEADER + 0x40;
    const SECTION_BYTES: usize = 64;
    const BEHIND: u64 = HEADER + 0x1000;
    const TEXT: u64 = 0xffff_ffff_c000_0000;

    /// Guest memory with a module in it, in the state at the call of `module_finalize`.
    #[derive(Clone)]
    struct Placed(Vec<(u64, Vec<u8>)>);

    impl Placed {
        fn new() -> Placed {
            let names = b"\0.text\0.init.text\0.modinfo\0.symtab\0.strtab\0.bss\0".to_vec();
            let words = b"license=GPL\0depends=crc16,mii\0name=probe_me\0".to_vec();
            let strings = b"\0start\0setup\0elsewhere\0$x\0$d\0".to_vec();
            let symbol = |name: u32, info: u8, section: u16, value: u64| {
                let mut bytes = name.to_le_bytes().to_vec();
                bytes.extend([info, 0]);
                bytes.extend(section.to_le_bytes());
                bytes.extend(value.to_le_bytes());
                bytes.extend(16u64.to_le_bytes());
                bytes
            };
            let symbols = [
                symbol(0, 0, 0, 0),
                symbol(1, 0x12, 1, TEXT),
                symbol(7, 2, 2, TEXT + 0x1000),
                symbol(13, 0x10, 0, 0),
                symbol(23, 0, 1, TEXT),
                symbol(26, 0, 1, TEXT + 16),
                symbol(23, 0, 1, TEXT + 24),
            ]
            .concat();
            // name, kind, flags, address, bytes in memory, link
            let placed = u64::from(SHF_ALLOC);
            let code = placed | u64::from(SHF_EXECINSTR);
            let rows: [(u32, u32, u64, u64, u64, u32); 8] = [
                (0, 0, 0, 0, 0, 0),
                (1, 1, code, TEXT, 32, 0),
                (7, 1, code, TEXT + 0x1000, 16, 0),
                (18, 1, 0, BEHIND, words.len() as u64, 0),
                (27, SHT_SYMTAB, 0, BEHIND + 0x100, symbols.len() as u64, 5),
                (35, 3, 0, BEHIND + 0x200, strings.len() as u64, 0),
                (0, 3, 0, BEHIND + 0x300, names.len() as u64, 0),
                (43, SHT_NOBITS, placed, TEXT + 0x2000, 4096, 0),
            ];
            let mut sections = Vec::new();
            for (name, kind, flags, address, size, link) in rows {
                sections.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
                sections.extend([flags, address, 0, size].iter().flat_map(|word| word.to_le_bytes()));
                sections.extend([link.to_le_bytes(), 0u32.to_le_bytes()].concat());
                sections.extend([0u64, 0].iter().flat_map(|word| word.to_le_bytes()));
            }
            assert_eq!(sections.len(), rows.len() * SECTION_BYTES);
            let mut header = b"\x7fELF\x02\x01\x01".to_vec();
            header.resize(16, 0);
            header.extend([ET_REL.to_le_bytes(), 62u16.to_le_bytes()].concat());
            header.resize(58, 0);
            header.extend([64u16.to_le_bytes(), (rows.len() as u16).to_le_bytes(), 6u16.to_le_bytes()].concat());
            Placed(vec![
                (HEADER, header),
                (SECTIONS, sections),
                (BEHIND, words),
                (BEHIND + 0x100, symbols),
                (BEHIND + 0x200, strings),
                (BEHIND + 0x300, names),
                (TEXT, vec![0x90; 32]),
                (TEXT + 0x1000, vec![0xcc; 16]),
            ])
        }

        fn read(&self) -> Option<Module> {
            self.read_for(Arch::X86_64)
        }

        fn read_for(&self, arch: Arch) -> Option<Module> {
            let mut memory = |at: u64, into: &mut [u8]| {
                let piece = self.0.iter().find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&at));
                let held = piece.and_then(|(start, bytes)| bytes.get((at - start) as usize..)?.get(..into.len()));
                held.map(|held| into.copy_from_slice(held)).is_some()
            };
            read(arch, &mut memory, HEADER, SECTIONS)
        }

        fn with(mut self, change: impl FnOnce(&mut Vec<(u64, Vec<u8>)>)) -> Placed {
            change(&mut self.0);
            self
        }
    }

    #[test]
    fn a_placed_module_is_read_out_of_memory() {
        let module = Placed::new().read().expect("a module");
        assert_eq!((&*module.name, module.image.segments.len()), ("probe_me", 3));
        let init: Vec<(u64, bool)> = module.text.iter().map(|text| (text.range.start, text.init)).collect();
        assert_eq!(init, [(TEXT, false), (TEXT + 0x1000, true)]);
        assert_eq!(module.init.iter().map(|range| range.start).collect::<Vec<u64>>(), [TEXT + 0x1000]);
        let address = |name: &str| module.image.symbols.address_of(name);
        assert_eq!((address("start"), address("setup"), address("elsewhere")), (Some(TEXT), Some(TEXT + 0x1000), None));
    }

    /// KP-15: data among a module's code is known from ARM's mapping symbols, which give nothing a name.
    #[test]
    fn data_among_a_modules_code_is_known() {
        let symbols = Placed::new().read_for(Arch::Arm64).expect("a module").image.symbols;
        let data: Vec<u64> = (0..32).step_by(4).filter(|offset| symbols.is_data(TEXT + offset)).collect();
        assert_eq!(data, [16, 20]);
        assert_eq!(symbols.containing(TEXT + 28).map(|symbol| (symbol.name, symbol.start)), Some(("start".into(), TEXT)));
        assert!(
            (0..32).all(|offset| !Placed::new().read().expect("a module").image.symbols.is_data(TEXT + offset)),
            "x86 has none"
        );
    }

    #[test]
    fn memory_without_a_module_is_refused() {
        type Change = fn(&mut Vec<(u64, Vec<u8>)>);
        #[rustfmt::skip]
        let cases: &[(&str, Change)] = &[
            ("no ELF header",               |memory| memory[0].1[0] = 0),
            ("no header at all",            |memory| memory[0].1.clear()),
            ("too many sections",           |memory| memory[0].1[60..62].copy_from_slice(&u16::MAX.to_le_bytes())),
            ("sections that are not there", |memory| memory[1].1.truncate(3 * SECTION_BYTES)),
            ("names in no section",         |memory| memory[0].1[62] = 99),
            ("names without an end",        |memory| memory[5].1.fill(b'x')),
            ("a name behind the names",     |memory| memory[1].1[SECTION_BYTES..][..4].fill(0xff)),
            ("no words about itself",       |memory| memory[2].1.fill(0)),
            ("no symbols",                  |memory| memory[1].1[4 * SECTION_BYTES + 4] = 1),
            ("strings in no section",       |memory| memory[1].1[4 * SECTION_BYTES + 40] = 99),
            ("text over the end",           |memory| memory[1].1[SECTION_BYTES + 16..][..8].fill(0xff)),
            ("text without bytes, too much", |memory| {
                memory[1].1[7 * SECTION_BYTES + 8] |= SHF_EXECINSTR as u8;
                memory[1].1[7 * SECTION_BYTES + 32..][..8].copy_from_slice(&(1u64 << 40).to_le_bytes());
            }),
            ("more text than any module",   |memory| memory[1].1[SECTION_BYTES + 32..][..8].copy_from_slice(&(1u64 << 40).to_le_bytes())),
        ];
        for (what, change) in cases {
            assert!(Placed::new().with(change).read().is_none(), "{what}");
        }
    }

    #[test]
    fn damaged_memory_never_panics() {
        let whole = Placed::new();
        for piece in 0..whole.0.len() {
            for at in 0..whole.0[piece].1.len() {
                for value in [0, 0xff, 0x7f, whole.0[piece].1[at] ^ 1] {
                    let _ = whole.clone().with(|memory| memory[piece].1[at] = value).read();
                }
                let _ = whole.clone().with(|memory| memory[piece].1.truncate(at)).read();
            }
        }
    }

    /// The file of a module: sections at the offsets that the headers say. Nothing else in it is read.
    fn file() -> Vec<u8> {
        let words = b"name=probe_me\0depends=crc16,mii\0";
        let names = b"\0.modinfo\0";
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend([ET_REL.to_le_bytes(), 62u16.to_le_bytes()].concat());
        file.extend(1u32.to_le_bytes());
        file.extend([0u64, 0, 64 + 48].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(0u32.to_le_bytes());
        file.extend([64u16, 0, 0, 64, 3, 2].iter().flat_map(|word| word.to_le_bytes()));
        file.extend_from_slice(words);
        file.extend_from_slice(names);
        file.resize(64 + 48, 0);
        let row = |name: u32, kind: u32, at: usize, size: usize| {
            let mut row = [name.to_le_bytes(), kind.to_le_bytes()].concat();
            row.extend([0, 0, at as u64, size as u64].iter().flat_map(|word| word.to_le_bytes()));
            row.resize(SECTION_BYTES, 0);
            row
        };
        file.extend([vec![0; 64], row(1, 1, 64, words.len()), row(0, 3, 64 + words.len(), names.len())].concat());
        file
    }

    #[test]
    fn a_file_says_what_it_is_and_what_it_needs() {
        let file = file();
        let about = About { arch: Some(Arch::X86_64), name: "probe_me".into(), depends: vec!["crc16".into(), "mii".into()] };
        assert_eq!(About::of(&file), Some(about));
        for at in 0..file.len() {
            assert_eq!(About::of(&file[..at]), None, "cut off at {at}");
            for value in [0, 0xff, 0x7f] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let _ = About::of(&damaged);
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_module_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..2000), sections in any::<u64>()) {
            let mut memory = |at: u64, into: &mut [u8]| {
                let held = usize::try_from(at.wrapping_sub(HEADER)).ok().and_then(|at| bytes.get(at..)?.get(..into.len()));
                held.map(|held| into.copy_from_slice(held)).is_some()
            };
            let _ = read(Arch::X86_64, &mut memory, HEADER, HEADER + sections % 2000);
            let _ = About::of(&bytes);
        }
    }
}
