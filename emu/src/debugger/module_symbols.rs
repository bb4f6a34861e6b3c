//! Makes an ELF file for gdb out of a loaded module's symbols. They are read from guest memory, where the kernel keeps them for
//! kallsyms (`struct mod_kallsyms`), with the module's ORC tables.

use super::elf;
use super::lists::{LoadedModule, Reader};
use crate::boot::Kernel;
use crate::boot::btf::Btf;
use crate::symbols::Entry;
use crate::unwind::frames;
use crate::unwind::orc::Orc;
use trapline_isa::mem::{ByteOrder, Memory};

/// The largest number of symbols, and of ORC entries, that are read.
const MOST: u64 = 1 << 17;
/// The longest name of a symbol, in bytes.
const LONGEST_NAME: usize = 512;
/// The symbol type STT_FUNC.
const FUNCTION: u8 = 2;
/// The symbol types STT_SECTION and STT_FILE, whose symbols name no code and no data.
const NO_NAMES: [u8; 2] = [3, 4];
/// The bytes of an ORC entry.
const ORC_ROW: u64 = 6;

/// A symbol of the table: the fields of an ELF symbol, with its type as `kind`.
struct Row {
    name: u64,
    kind: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Row {
    const fn bytes(word: usize) -> usize {
        if word == 8 { 24 } else { 16 }
    }

    fn of(bytes: &[u8], word: usize, order: ByteOrder) -> Row {
        let number = |at: usize, size: usize| order.number(&bytes[at..at + size]);
        let (kind, section, value, size) = if word == 8 { (4, 6, 8, 16) } else { (12, 14, 4, 8) };
        Row {
            name: number(0, 4),
            kind: bytes[kind] & 15,
            section: number(section, 2) as u16,
            value: number(value, word),
            size: number(size, word),
        }
    }
}

/// The bytes of an ELF file with a module's symbols. `None` if the kernel does not keep them as Linux does since 4.5.
pub(super) fn file<M: Memory>(kernel: &Kernel, module: &LoadedModule, memory: &mut M) -> Option<Vec<u8>> {
    let btf = Btf::of(kernel)?;
    let word = kernel.arch.isa().word;
    let mut symbols = symbols(&btf, module, &mut Reader { memory, word })?;
    symbols.sort_by_key(|(entry, _)| entry.address);
    let text = symbols.iter().filter(|(entry, _)| entry.is_text());
    let mut functions: Vec<u64> = text.clone().map(|(entry, _)| entry.address).collect();
    functions.extend(text.map(|(entry, size)| entry.address.saturating_add(*size)).max());
    functions.sort_unstable();
    functions.dedup();
    let orc = orc(kernel, &btf, module, &mut Reader { memory, word });
    let frames = orc.map(|orc| frames::of_tables(&orc, &functions));
    let sized: Vec<elf::Sized<'_>> = symbols.iter().map(|(entry, size)| (entry, *size)).collect();
    Some(elf::file(kernel.arch, &[], &sized, frames))
}

fn symbols<M: Memory>(btf: &Btf<'_>, module: &LoadedModule, reader: &mut Reader<'_, M>) -> Option<Vec<(Entry, u64)>> {
    let table = reader.pointer(module.address.wrapping_add(btf.offset_of("module", "kallsyms")?))?;
    let member = |name: &str| Some(table.wrapping_add(btf.offset_of("mod_kallsyms", name)?));
    let (rows, names) = (reader.pointer(member("symtab")?)?, reader.pointer(member("strtab")?)?);
    let count = reader.number(member("num_symtab")?, 4)?.min(MOST) as usize;
    let mut bytes = vec![0; count * Row::bytes(reader.word)];
    reader.memory.read(rows, &mut bytes).ok()?;
    let mut found = Vec::new();
    for row in bytes.chunks_exact(Row::bytes(reader.word)) {
        let row = Row::of(row, reader.word, reader.memory.order());
        if row.section == 0 || NO_NAMES.contains(&row.kind) {
            continue;
        }
        let name = reader.text(names.wrapping_add(row.name), LONGEST_NAME);
        // Mapping symbols such as `$x` mark code and data; names with a dot in front are labels of the compiler.
        if name.is_empty() || name.starts_with(['$', '.']) {
            continue;
        }
        let kind = if row.kind == FUNCTION { 't' } else { 'd' };
        let module = Some(module.name.as_str().into());
        found.push((Entry { address: row.value, name: name.into(), kind, module }, row.size));
    }
    Some(found)
}

fn orc<M: Memory>(kernel: &Kernel, btf: &Btf<'_>, module: &LoadedModule, reader: &mut Reader<'_, M>) -> Option<Orc> {
    let own = module.address.wrapping_add(btf.offset_of("module", "arch")?);
    let member = |name: &str| Some(own.wrapping_add(btf.offset_of("mod_arch_specific", name)?));
    let (places, rows) = (member("orc_unwind_ip")?, member("orc_unwind")?);
    let count = reader.number(member("num_orcs")?, 4)?.min(MOST);
    let (places, rows) = (reader.pointer(places)?, reader.pointer(rows)?);
    let mut held = |at: u64, size: u64| {
        let mut bytes = vec![0; (count * size) as usize];
        reader.memory.read(at, &mut bytes).ok().map(|()| bytes)
    };
    Orc::sorted(places, &held(places, 4)?, &held(rows, ORC_ROW)?, kernel.arch.isa().abi.register("bp")?)
}
