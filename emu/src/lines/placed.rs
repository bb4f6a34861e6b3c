//! Object files and kernel modules: their sections get addresses here, and their debug information is relocated to them.
//! A guest's loader chooses others, so an address of these files is given as a section or symbol and an offset.

use super::error::{Answer, LinesError};
use super::file::Parts;
use crate::boot::kernels::Facts;
use crate::boot::relocations::{Form, Relocations};
use crate::boot::{elf_symbols, module};
use crate::symbols::Symbols;
use goblin::container::Ctx;
use goblin::elf::section_header::{SHF_ALLOC, SHT_NOBITS, SHT_REL, SHT_RELA, SHT_SYMTAB};
use goblin::elf::{SectionHeader, Sym, Symtab};
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::ops::Range;
use trapline_isa::mem::ByteOrder;

/// The address of the first section, and the distance of the others from the end of the one before. Code at 0 is code that
/// the linker dropped.
const FIRST: u64 = 0x1000;
const APART: u64 = 0x1000;
/// All sections lie below this address, which 32-bit files have, too.
const END: u64 = 1 << 31;
/// The largest length of a ULEB128 number in bytes.
const LONGEST_LEB: usize = 10;

/// The sections and symbols of an object file or a module, at the addresses that this file has given them.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The name that the guest gives the module, if the file contains it. Files of debug information alone do not.
    pub name: Option<String>,
    /// The sections that a loader loads, by name.
    pub sections: Vec<(String, Range<u64>)>,
    /// The symbols of the file, at the addresses that were given.
    pub symbols: Symbols,
}

/// Gives each section that is loaded an address.
pub(super) fn give_addresses(headers: &mut [SectionHeader]) -> Answer<()> {
    let mut next = FIRST;
    for header in headers.iter_mut() {
        header.sh_addr = 0;
        if is_loaded(header) {
            header.sh_addr = next;
            let end = next.checked_add(header.sh_size).and_then(|end| end.checked_next_multiple_of(APART));
            next = end
                .map(|end| end + APART)
                .filter(|end| *end <= END)
                .ok_or_else(|| LinesError::Malformed("its sections are longer than those of any module".into()))?;
        }
    }
    Ok(())
}

fn is_loaded(header: &SectionHeader) -> bool {
    header.sh_flags & u64::from(SHF_ALLOC) != 0 && header.sh_size > 0 && header.sh_size < END
}

impl Placed {
    /// Reads the file's symbols, and relocates the sections of debug information. The headers have our addresses.
    pub(super) fn read(
        parts: &mut Parts<'_, impl Read + Seek>,
        headers: &[SectionHeader],
        ctx: Ctx,
        row: &'static Facts,
        debug: &mut BTreeMap<&'static str, Vec<u8>>,
    ) -> Answer<Placed> {
        let table = headers.iter().find(|header| header.sh_type == SHT_SYMTAB);
        let table = table.ok_or(LinesError::NoDwarf("it has no symbols, which its debug information refers to"))?;
        let mut symbols = parts.section(table)?;
        let strings = headers.get(table.sh_link as usize).ok_or_else(|| malformed("its symbols have no names"))?;
        let strings = parts.section(strings)?;
        let values = move_symbols(&mut symbols, headers, ctx)?;
        for header in headers.iter().filter(|header| matches!(header.sh_type, SHT_REL | SHT_RELA)) {
            let Some(target) = headers.get(header.sh_info as usize) else { continue };
            let name = String::from_utf8_lossy(parts.name(target)).into_owned();
            let Some(bytes) = debug.get_mut(name.as_str()) else { continue };
            let relocations = parts.section(header)?;
            let has_addends = header.sh_type == SHT_RELA;
            let place = Place { bytes, address: target.sh_addr, order: row.arch.isa().order, relocations: row.relocations };
            place.relocate(&relocations, has_addends, ctx.container.is_big(), &values)?;
        }
        let table = Symtab::parse(&symbols, 0, values.len(), ctx).map_err(|error| malformed(&error.to_string()))?;
        let entries = elf_symbols::entries(&table, &strings, headers, row.arch)
            .ok_or_else(|| malformed("the names of its symbols are longer than the file"))?;
        let words = headers.iter().find(|header| parts.name(header) == module::WORDS.as_bytes() && header.sh_type != SHT_NOBITS);
        let name = words.and_then(|words| module::own_name(&parts.section(words).ok()?));
        let named = |header: &SectionHeader| {
            let range = header.sh_addr..header.sh_addr + header.sh_size;
            (String::from_utf8_lossy(parts.name(header)).into_owned(), range)
        };
        let sections: Vec<(String, Range<u64>)> = headers.iter().filter(|header| is_loaded(header)).map(named).collect();
        let symbols = Symbols::within(entries, sections.iter().map(|(_, range)| range.clone()).collect());
        Ok(Placed { name, sections, symbols })
    }

    /// The address here of a place in a section.
    pub fn address(&self, section: &str, offset: u64) -> Option<u64> {
        let (_, range) = self.sections.iter().find(|(name, _)| name == section)?;
        range.start.checked_add(offset).filter(|address| range.contains(address))
    }

    /// A place in memory as a symbol and the offset from it.
    pub fn symbol_and_offset(&self, address: u64) -> Option<(String, i64)> {
        let symbol = self.symbols.containing(address)?;
        (self.symbols.count(&symbol.name) == 1).then(|| (symbol.name, (address - symbol.start) as i64))
    }
}

fn malformed(why: &str) -> LinesError {
    LinesError::Malformed(why.into())
}

/// Adds the address of its section to each symbol in the table, and returns the symbols' values.
fn move_symbols(table: &mut [u8], headers: &[SectionHeader], ctx: Ctx) -> Answer<Vec<u64>> {
    let size = Sym::size(ctx.container);
    let count = table.len() / size;
    let symbols = Symtab::parse(table, 0, count, ctx).map_err(|error| malformed(&error.to_string()))?;
    let address = |symbol: &Sym| headers.get(symbol.st_shndx).map_or(0, |header| header.sh_addr);
    let values: Vec<u64> = symbols.iter().map(|symbol| symbol.st_value.wrapping_add(address(&symbol))).collect();
    // The value is behind the name, and in 64-bit files behind four bytes more.
    let (at, length) = if ctx.container.is_big() { (8, 8) } else { (4, 4) };
    let order = if ctx.le.is_little() { ByteOrder::Little } else { ByteOrder::Big };
    for (row, value) in table.chunks_exact_mut(size).zip(&values) {
        if let Some(into) = row.get_mut(at..at + length) {
            order.put(*value, into);
        }
    }
    Ok(values)
}

/// A section that is relocated.
struct Place<'b> {
    bytes: &'b mut [u8],
    address: u64,
    order: ByteOrder,
    relocations: &'static Relocations,
}

impl Place<'_> {
    fn relocate(self, table: &[u8], has_addends: bool, is_wide: bool, symbols: &[u64]) -> Answer<()> {
        let Place { bytes, address, order, relocations } = self;
        let word = if is_wide { 8 } else { 4 };
        let row = if has_addends { 3 * word } else { 2 * word };
        for row in table.chunks_exact(row) {
            let field = |number: usize| row.get(number * word..(number + 1) * word).map_or(0, |bytes| order.number(bytes));
            let (at, info) = (field(0), field(1));
            let (symbol, number) = (relocations.split)(info);
            if number == 0 {
                continue;
            }
            let form = relocations
                .form(number)
                .ok_or(LinesError::NoDwarf("it has a relocation that trapline does not know in its debug information"))?;
            let symbol = symbols.get(symbol as usize).ok_or_else(|| malformed("a relocation names no symbol"))?;
            let at_index = usize::try_from(at).map_err(|_| malformed("a relocation lies behind its section"))?;
            let rest = bytes.get_mut(at_index..).ok_or_else(|| malformed("a relocation lies behind its section"))?;
            let addend = match (has_addends, form) {
                (true, _) => {
                    if is_wide {
                        field(2)
                    } else {
                        field(2) as u32 as i32 as u64
                    }
                }
                (false, Form::Set(size) | Form::Distance(size)) => signed(order, rest.get(..size).unwrap_or_default()),
                (false, _) => 0,
            };
            change(form, rest, order, symbol.wrapping_add(addend), address.wrapping_add(at))
                .ok_or_else(|| malformed("a relocation lies behind its section"))?;
        }
        Ok(())
    }
}

/// The number in at most 8 bytes, with its sign.
fn signed(order: ByteOrder, bytes: &[u8]) -> u64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((order.number(bytes) << unused) as i64 >> unused) as u64
}

/// Carries out a relocation at the start of the bytes. `None` if there are too few.
fn change(form: Form, bytes: &mut [u8], order: ByteOrder, value: u64, here: u64) -> Option<()> {
    match form {
        Form::Set(size) => order.put(value, bytes.get_mut(..size)?),
        Form::Distance(size) => order.put(value.wrapping_sub(here), bytes.get_mut(..size)?),
        Form::Add(size) | Form::Subtract(size) => {
            let into = bytes.get_mut(..size)?;
            let held = order.number(into);
            let sum = if matches!(form, Form::Add(_)) { held.wrapping_add(value) } else { held.wrapping_sub(value) };
            order.put(sum, into);
        }
        Form::SetSix | Form::SubtractSix => {
            let byte = bytes.first_mut()?;
            let low = if form == Form::SetSix { value as u8 } else { byte.wrapping_sub(value as u8) };
            *byte = *byte & 0xc0 | low & 0x3f;
        }
        Form::SetLeb | Form::SubtractLeb => {
            let length = bytes.iter().take(LONGEST_LEB).position(|byte| byte & 0x80 == 0)? + 1;
            let into = bytes.get_mut(..length)?;
            let held = into.iter().rev().fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & 0x7f));
            let mut value = if form == Form::SetLeb { value } else { held.wrapping_sub(value) };
            for byte in into {
                *byte = *byte & 0x80 | value as u8 & 0x7f;
                value >>= 7;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-9: each form changes the bytes that it names, and no others.
    #[test]
    fn each_form_changes_its_own_bytes() {
        #[rustfmt::skip]
        let cases: [(Form, &[u8], &[u8]); 8] = [
            (Form::Set(4),       &[9, 9, 9, 9, 9],    &[0x34, 0x12, 0, 0, 9]),
            (Form::Distance(4),  &[9, 9, 9, 9, 9],    &[0x34, 2, 0, 0, 9]),
            (Form::Add(2),       &[1, 0, 9],          &[0x35, 0x12, 9]),
            (Form::Subtract(2),  &[0x35, 0x12, 9],    &[1, 0, 9]),
            (Form::SetSix,       &[0xc1, 9],          &[0xf4, 9]),
            (Form::SubtractSix,  &[0xf5, 9],          &[0xc1, 9]),
            (Form::SetLeb,       &[0x80, 0x80, 0, 9], &[0xb4, 0xa4, 0, 9]),
            (Form::SubtractLeb,  &[0xb5, 0xa4, 0, 9], &[0x81, 0x80, 0, 9]),
        ];
        for (form, before, after) in cases {
            let mut bytes = before.to_vec();
            assert_eq!(change(form, &mut bytes, ByteOrder::Little, 0x1234, 0x1000), Some(()), "{form:?}");
            assert_eq!(bytes, after, "{form:?}");
            assert_eq!(change(form, &mut [], ByteOrder::Little, 0x1234, 0x1000), None, "{form:?}");
        }
        assert_eq!(change(Form::SetLeb, &mut [0x80; 12], ByteOrder::Little, 1, 0), None, "a number without an end");
        assert_eq!(signed(ByteOrder::Big, &[0xff, 0xfe]), (-2_i64) as u64);
    }
}
