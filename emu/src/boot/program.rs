//! A user program's file: its functions by name, and the offsets of addresses in it.

use super::kernels;
use super::usdt::{self, Note};
use crate::symbols::pattern::Pattern;
use goblin::elf::Elf;
use goblin::elf::program_header::{PF_X, PT_LOAD, PT_NOTE};
use goblin::elf::section_header::SHN_UNDEF;
use goblin::elf::sym::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use std::collections::HashMap;
use std::fmt::Write;
use trapline_isa::arch::Isa;
use trapline_isa::operand;
use trapline_probes::user::Usdt;

/// The functions and segments of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Sorted by name; a global symbol stands in front of local ones of its name.
    functions: Vec<Function>,
    /// The numbers of the functions, sorted by address.
    by_address: Vec<u32>,
    segments: Vec<Segment>,
    notes: Vec<Note>,
    /// The addresses of variables, if the file has notes whose operands may name them.
    variables: HashMap<String, u64>,
    /// Bytes of an address.
    word: usize,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name in the symbol table.
    pub name: String,
    /// The address that the file was linked for.
    pub address: u64,
    /// The length in bytes; 0 if the file does not say.
    pub size: u64,
}

/// A loaded part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
    executable: bool,
}

/// Functions of a file that are kept; the largest programs have fewer.
const MOST_FUNCTIONS: usize = 4 << 20;
/// The largest length of a name in bytes.
const LONGEST_NAME: usize = 4096;
/// Similar names in a message.
const SIMILAR: usize = 3;

impl Program {
    /// Reads an ELF program or library. `None` for any other file.
    pub fn read(bytes: &[u8]) -> Option<Program> {
        let elf = Elf::parse(bytes).ok()?;
        let segments = elf.program_headers.iter().filter(|header| header.p_type == PT_LOAD).map(|header| Segment {
            address: header.p_vaddr,
            offset: header.p_offset,
            bytes: header.p_filesz,
            executable: header.p_flags & PF_X != 0,
        });
        let row = kernels::all().find(|row| row.elf.machine == elf.header.e_machine);
        let entry = row.map_or::<fn(u64, u8) -> u64, _>(|value, _| value, |row| row.function_entry);
        let mut functions: Vec<(bool, Function)> = Vec::new();
        for (table, names) in [(&elf.syms, &elf.strtab), (&elf.dynsyms, &elf.dynstrtab)] {
            for symbol in table.iter().take(MOST_FUNCTIONS) {
                if !matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF as usize {
                    continue;
                }
                let Some(name) = names.get_at(symbol.st_name).filter(|name| (1..LONGEST_NAME).contains(&name.len())) else {
                    continue;
                };
                // A library's symbols may have a version behind an `@`.
                let name = name.split('@').next().unwrap_or(name).to_string();
                functions.push((
                    symbol.st_bind() == STB_LOCAL,
                    Function { name, address: entry(symbol.st_value, symbol.st_other), size: symbol.st_size },
                ));
            }
        }
        functions.sort_by(|(one, a), (other, b)| (&a.name, one, a.address).cmp(&(&b.name, other, b.address)));
        functions.dedup_by(|(_, a), (_, b)| a.name == b.name && a.address == b.address);
        let functions: Vec<Function> = functions.into_iter().map(|(_, function)| function).collect();
        let mut by_address: Vec<u32> = (0..functions.len() as u32).collect();
        by_address.sort_by_key(|number| functions.get(*number as usize).map_or(0, |function| function.address));
        let notes = usdt::notes(&elf, bytes);
        let mut variables = HashMap::new();
        for (table, names) in [(&elf.syms, &elf.strtab), (&elf.dynsyms, &elf.dynstrtab)] {
            for symbol in table.iter().take(if notes.is_empty() { 0 } else { MOST_FUNCTIONS }) {
                if symbol.st_type() == STT_OBJECT
                    && symbol.st_shndx != SHN_UNDEF as usize
                    && let Some(name) = names.get_at(symbol.st_name).filter(|name| name.len() < LONGEST_NAME)
                {
                    variables.entry(name.to_string()).or_insert(symbol.st_value);
                }
            }
        }
        let word = if elf.is_64 { 8 } else { 4 };
        Some(Program { functions, by_address, segments: segments.collect(), notes, variables, word })
    }

    /// The USDT probes whose provider and name match these patterns. Several places may have one name.
    pub fn usdt(&self, isa: &Isa, provider: &str, name: &str) -> Vec<Usdt> {
        let (provider, name) = (Pattern::new(provider), Pattern::new(name));
        let matching = self.notes.iter().filter(|note| provider.matches(&note.provider) && name.matches(&note.name));
        let found = matching.filter_map(|note| {
            Some(Usdt {
                provider: note.provider.clone(),
                name: note.name.clone(),
                offset: self.offset_at(note.address)?,
                linked: note.address,
                has_semaphore: note.has_semaphore,
                arguments: operand::arguments(isa, &note.arguments, self.word, &|name| self.variables.get(name).copied()),
            })
        });
        found.collect()
    }

    /// The number of its functions and USDT probes.
    pub fn size(&self) -> usize {
        self.functions.len() + self.notes.len()
    }

    /// All functions, sorted by name.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The offset of a function in the file; of several with one name, that of the global or the first one.
    pub fn offset_of(&self, name: &str) -> Option<u64> {
        let first = self.functions.partition_point(|function| function.name.as_str() < name);
        let function = self.functions.get(first).filter(|function| function.name == name)?;
        self.offset_at(function.address)
    }

    /// The offset in the file of an address that it was linked for.
    pub fn offset_at(&self, address: u64) -> Option<u64> {
        let holds = |segment: &&Segment| address.wrapping_sub(segment.address) < segment.bytes;
        let found = self.segments.iter().filter(holds).max_by_key(|segment| segment.executable)?;
        Some(found.offset.wrapping_add(address - found.address))
    }

    /// The address that an offset in the file was linked for.
    pub fn address_at(&self, offset: u64) -> Option<u64> {
        let holds = |segment: &&Segment| offset.wrapping_sub(segment.offset) < segment.bytes;
        let found = self.segments.iter().filter(holds).max_by_key(|segment| segment.executable)?;
        Some(found.address.wrapping_add(offset - found.offset))
    }

    /// The function at an offset in the file, and the distance from its start.
    pub fn function_at(&self, offset: u64) -> Option<(&Function, u64)> {
        let address = self.address_at(offset)?;
        let of = |number: &u32| self.functions.get(*number as usize);
        let behind = self.by_address.partition_point(|number| of(number).is_some_and(|function| function.address <= address));
        let found = of(self.by_address.get(behind.checked_sub(1)?)?)?;
        let distance = address - found.address;
        (found.size == 0 || distance < found.size).then_some((found, distance))
    }

    /// A few names that contain the wanted one, or are contained in it.
    pub fn similar(&self, name: &str) -> Vec<String> {
        let is_similar =
            |function: &&Function| function.name.contains(name) || function.name.len() > 3 && name.contains(&function.name);
        self.functions.iter().filter(is_similar).take(SIMILAR).map(|function| function.name.clone()).collect()
    }
}

/// The build id of a program, in hexadecimal digits: the note of that kind in its file.
pub fn build_id(bytes: &[u8]) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    let elf = Elf::parse(bytes).ok()?;
    let word = |at: usize| {
        let word: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if elf.little_endian { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    };
    for header in elf.program_headers.iter().filter(|header| header.p_type == PT_NOTE) {
        let mut at = usize::try_from(header.p_offset).ok()?;
        let end = at.checked_add(usize::try_from(header.p_filesz).ok()?)?;
        while at < end {
            let (Some(name), Some(length), Some(kind)) = (word(at), word(at + 4), word(at + 8)) else { break };
            let content = at.checked_add(12)?.checked_add((name as usize).next_multiple_of(4))?;
            if kind == GNU_BUILD_ID && bytes.get(at + 12..).is_some_and(|name| name.starts_with(b"GNU\0")) {
                let id = bytes.get(content..content.checked_add(length as usize)?)?;
                return Some(id.iter().fold(String::new(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                }));
            }
            at = content.checked_add((length as usize).next_multiple_of(4))?;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-2: this test's own program has functions, whose offsets lead back to them.
    #[test]
    fn functions_are_found_by_name_and_by_offset() {
        let bytes = std::fs::read("/proc/self/exe").expect("this program");
        let program = Program::read(&bytes).expect("an ELF program");
        assert!(program.functions().len() > 100);
        let main = program.offset_of("main").expect("every program has it");
        let (found, distance) = program.function_at(main).expect("a function");
        assert_eq!((found.address, distance), (program.address_at(main).expect("loaded"), 0));
        assert_eq!(program.offset_of("no such function"), None);
        assert_eq!(program.function_at(u64::MAX), None);
        assert_eq!(Program::read(b"#!/bin/sh\n"), None);
        assert_eq!(build_id(b"\x7fELF"), None);
    }

    /// BY-2: a damaged program is none, or has other functions.
    #[test]
    fn a_damaged_program_does_no_harm() {
        let mut bytes = std::fs::read("/proc/self/exe").expect("this program");
        bytes.truncate(1 << 16);
        for at in 0..512 {
            let before = std::mem::replace(&mut bytes[at], 0xff);
            let _ = (Program::read(&bytes), build_id(&bytes));
            bytes[at] = before;
        }
    }
}
