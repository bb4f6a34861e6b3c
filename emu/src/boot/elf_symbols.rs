//! Converts an ELF symbol table.

use super::kernels;
use crate::symbols::Entry;
use goblin::elf::section_header::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHN_ABS, SHN_LORESERVE, SHN_UNDEF, SHT_NOBITS};
use goblin::elf::sym::{STB_LOCAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, Sym};
use goblin::elf::{SectionHeader, Symtab};
use memchr::memchr;
use std::collections::HashSet;
use std::ops::Range;
use trapline_isa::arch::Arch;
use trapline_probes::budget::Budget;

/// Names of symbols and sections are shorter than this.
const LONGEST_NAME: usize = 1024;
/// Budget of name bytes per byte of the string table. Real symbols seldom share a string.
const STEPS_A_BYTE: u64 = 16;

/// The symbols that kallsyms would take from this table, and absolute ones. `None` if their names take much more space
/// than the string table.
pub fn entries(table: &Symtab<'_>, names: &[u8], sections: &[SectionHeader], arch: Arch) -> Option<Vec<Entry>> {
    let budget = Budget::linear(names.len(), STEPS_A_BYTE);
    let entries = table.iter().filter_map(|symbol| entry(&symbol, names, sections, arch));
    entries.map(|entry| budget.charge(entry.name.len() as u64).is_ok().then_some(entry)).collect()
}

/// Replaces symbols of function descriptors (ELFv1's `.opd`, which starts at `start`) by symbols of the code that each
/// descriptor points to. Older compilers also have a dot symbol for that code, which is dropped.
pub fn name_code(entries: &mut Vec<Entry>, start: u64, held: &[u8], arch: Arch) {
    let isa = arch.isa();
    let mut named = HashSet::new();
    for entry in entries.iter_mut() {
        let offset = entry.address.checked_sub(start).and_then(|offset| usize::try_from(offset).ok());
        let word = offset.and_then(|offset| held.get(offset..offset.checked_add(isa.word)?));
        if let Some(word) = word {
            entry.address = isa.order.number(word);
            entry.kind = if entry.kind.is_ascii_lowercase() { 't' } else { 'T' };
            named.insert((entry.address, entry.name.clone()));
        }
    }
    entries.retain(|entry| match entry.name.strip_prefix('.') {
        Some(name) => !named.contains(&(entry.address, name.into())),
        None => true,
    });
}

/// Whether most function symbols have the pointer bits of that ISA's code set (bit 0 for Thumb).
pub fn point_to_code_of(table: &Symtab<'_>, arch: Arch) -> bool {
    let bits = arch.isa().pointer_bits;
    let functions = || table.iter().filter(|symbol| symbol.st_type() == STT_FUNC && symbol.st_shndx != SHN_UNDEF as usize);
    2 * functions().filter(|symbol| symbol.st_value & bits != 0).count() > functions().count()
}

/// The ranges of data, or of the other instruction set's code, between code: from each mapping symbol `$d` to the next
/// mapping symbol (AAELF, "mapping symbols").
pub fn data(table: &Symtab<'_>, names: &[u8], sections: &[SectionHeader], arch: Arch) -> Vec<Range<u64>> {
    let Some(own) = kernels::of(arch).mapping_symbol else { return Vec::new() };
    let mapping = |symbol: Sym| {
        let section = sections.get(symbol.st_shndx).filter(|section| section.sh_flags & u64::from(SHF_EXECINSTR) != 0)?;
        let kind = name(names, symbol.st_name)?.strip_prefix('$')?.chars().next()?;
        let end = section.sh_addr.checked_add(section.sh_size)?;
        matches!(kind, 'a' | 't' | 'x' | 'd').then_some((symbol.st_value, kind != own, end))
    };
    let mut found: Vec<(u64, bool, u64)> = table.iter().filter_map(mapping).collect();
    found.sort_unstable();
    let next = found.iter().skip(1).map(|(start, ..)| *start).chain([u64::MAX]);
    let ranges = found.iter().zip(next).filter(|((_, is_data, _), _)| *is_data);
    ranges.map(|((start, _, end), next)| *start..next.min(*end)).filter(|range| !range.is_empty()).collect()
}

fn entry(symbol: &Sym, names: &[u8], sections: &[SectionHeader], arch: Arch) -> Option<Entry> {
    let kind = match symbol.st_type() {
        STT_NOTYPE | STT_OBJECT | STT_FUNC | STT_GNU_IFUNC => letter(symbol, sections)?,
        _ => return None, // sections, source files, thread-local variables
    };
    let name = name(names, symbol.st_name)?;
    let bits = if matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) { arch.isa().pointer_bits } else { 0 };
    is_wanted(name).then(|| Entry { address: symbol.st_value & !bits, name: name.into(), kind, module: None })
}

/// The letter of `nm`. `None` for a symbol that is not in the kernel's memory.
fn letter(symbol: &Sym, sections: &[SectionHeader]) -> Option<char> {
    let index = symbol.st_shndx;
    let letter = if index == SHN_ABS as usize {
        'A'
    } else if index == SHN_UNDEF as usize || index >= SHN_LORESERVE as usize {
        return None;
    } else {
        let section = sections.get(index)?;
        let has = |flag: u32| section.sh_flags & u64::from(flag) != 0;
        match () {
            () if !has(SHF_ALLOC) => return None,
            () if symbol.st_bind() == STB_WEAK && has(SHF_EXECINSTR) => 'W',
            () if symbol.st_bind() == STB_WEAK => 'V',
            () if has(SHF_EXECINSTR) => 'T',
            () if section.sh_type == SHT_NOBITS => 'B',
            () if has(SHF_WRITE) => 'D',
            () => 'R',
        }
    };
    Some(if symbol.st_bind() == STB_LOCAL { letter.to_ascii_lowercase() } else { letter })
}

/// The name at this offset in a string table.
pub fn name(names: &[u8], at: usize) -> Option<&str> {
    let rest = names.get(at..)?;
    let rest = &rest[..rest.len().min(LONGEST_NAME)];
    std::str::from_utf8(&rest[..memchr(0, rest)?]).ok()
}

/// Whether a symbol is kept. Mapping symbols (`$a`, `$d`), assembler labels and CRCs are not.
pub fn is_wanted(name: &str) -> bool {
    !(name.is_empty() || name.starts_with('$') || name.starts_with(".L") || name.starts_with("__crc_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-4, BY-1: in a string table without an end, each name costs at most the maximal length.
    #[test]
    fn an_unterminated_name_is_ignored() {
        let long = vec![b'x'; 1 << 20];
        assert_eq!(name(&long, 0), None);
        assert_eq!(name(b"a name\0", 2), Some("name"));
        assert_eq!(name(&[&long[..LONGEST_NAME - 1], &[0]].concat(), 0).map(str::len), Some(LONGEST_NAME - 1));
    }

    /// KP-4: two function descriptors, of which the second is cut off, and an old dot symbol.
    #[test]
    fn code_bears_the_name_of_the_descriptor_that_leads_to_it() {
        let entry = |address, name: &str, kind| Entry { address, name: name.into(), kind, module: None };
        let held: Vec<u8> =
            [0xc000_0000_0010_0000_u64, 0xc000_0000_0011_5f00, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut entries = vec![
            entry(0x1000, "vfs_read", 'D'),
            entry(0xc000_0000_0010_0000, ".vfs_read", 'T'),
            entry(0xc000_0000_0010_0040, ".other", 't'),
            entry(0x1018, "cut_off", 'd'),
            entry(0xfff, "data", 'D'),
        ];
        name_code(&mut entries, 0x1000, &held, Arch::Ppc64);
        let expected = [
            entry(0xc000_0000_0010_0000, "vfs_read", 'T'),
            entry(0xc000_0000_0010_0040, ".other", 't'),
            entry(0x1018, "cut_off", 'd'),
            entry(0xfff, "data", 'D'),
        ];
        assert_eq!(entries, expected);
    }
}
