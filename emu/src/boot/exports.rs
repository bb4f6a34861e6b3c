//! Data symbols that a kernel exports to modules. Used for kernels whose kallsyms contain only code
//! (CONFIG_KALLSYMS_ALL off).
//!
//! A row of the export table refers to the symbol and to its name (include/linux/export.h), either by two 32-bit
//! offsets relative to their own fields, or by two words.

use super::marks::Form;
use super::{Kernel, Segment};
use memchr::memmem;
use std::collections::HashSet;

/// Finds the address of an exported symbol.
pub fn find(kernel: &Kernel, name: &str) -> Option<u64> {
    let wanted = [&[0], name.as_bytes(), &[0]].concat();
    let finder = memmem::Finder::new(&wanted);
    let places = |segment: &Segment| {
        let start = segment.virtual_address;
        finder.find_iter(&segment.bytes).map(move |at| start + at as u64 + 1).collect::<Vec<_>>()
    };
    let names: HashSet<u64> = kernel.segments.iter().flat_map(places).collect();
    if names.is_empty() {
        return None;
    }
    // Tries both forms: the right one has a row that refers to the name.
    [Form::Relative, Form::Absolute].into_iter().find_map(|form| in_rows(kernel, &names, form))
}

/// The symbol in the row that refers to one of these addresses of the name.
fn in_rows(kernel: &Kernel, names: &HashSet<u64>, form: Form) -> Option<u64> {
    let isa = kernel.arch.isa();
    let (field, mask) = (form.bytes(isa.word), u64::MAX >> (64 - 8 * isa.word));
    let holds = |address: u64| kernel.segment_at(address).is_some();
    let leads_to = |at: u64, bytes: &[u8]| {
        let number = isa.order.number(bytes);
        match form {
            Form::Relative => at.wrapping_add_signed((number as i32).into()) & mask,
            Form::Absolute | Form::Low => number,
        }
    };
    let mut rows = kernel.segments.iter().flat_map(|segment| {
        let fields = segment.bytes.chunks_exact(field);
        let addresses = (segment.virtual_address..).step_by(field);
        addresses.zip(fields.clone().zip(fields.skip(1)))
    });
    rows.find_map(|(at, (symbol, name))| {
        let symbol = || Some(leads_to(at, symbol)).filter(|symbol| holds(*symbol));
        names.contains(&leads_to(at.wrapping_add(field as u64), name)).then(symbol).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Symbols;
    use trapline_isa::arch::Arch;

    /// An exported symbol is found by its name in tables of offsets and of words, in all widths and byte orders.
    #[test]
    fn an_exported_symbol_is_found_by_distances_and_by_words() {
        const BASE: u64 = 0x8000_1000;
        const NAME: u64 = BASE + 0x41;
        const SYMBOL: u64 = BASE + 0x80;
        for (arch, form) in [
            (Arch::X86_64, Form::Relative),
            (Arch::I386, Form::Relative),
            (Arch::I386, Form::Absolute),
            (Arch::Mips64, Form::Absolute),
            (Arch::S390x, Form::Relative),
        ] {
            let isa = arch.isa();
            let (field, order) = (form.bytes(isa.word), isa.order);
            let mut bytes = vec![0; 0x100];
            bytes[0x41..0x48].copy_from_slice(b"jiffies");
            for (at, to) in [(0x10, SYMBOL), (0x10 + field, NAME)] {
                let from = if form == Form::Relative { BASE + at as u64 } else { 0 };
                order.put(to.wrapping_sub(from), &mut bytes[at..at + field]);
            }
            let segment =
                Segment { physical: 0, virtual_address: BASE, size: bytes.len() as u64, bytes: bytes.into(), executable: false };
            let kernel = Kernel::from_parts(arch, BASE, vec![segment], Symbols::default());
            assert_eq!(find(&kernel, "jiffies"), Some(SYMBOL), "{arch:?}, {form:?}");
            assert_eq!(find(&kernel, "iffies"), None, "a part of a name is no name");
        }
    }
}
