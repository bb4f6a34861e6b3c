//! Data that a kernel exports to its modules, for kernels whose own table names their code alone (CONFIG_KALLSYMS_ALL off).
//!
//! A row of the table of exports leads to the symbol and to its name (include/linux/export.h): by two distances of 32 bits, each from its own
//! place, or by two words.

use crate::boot::Kernel;

/// The address of an exported symbol.
pub fn find(kernel: &Kernel, name: &str) -> Option<u64> {
    let wanted = [&[0], name.as_bytes(), &[0]].concat();
    let names: Vec<u64> = kernel
        .segments
        .iter()
        .flat_map(|segment| {
            let found = segment.bytes.windows(wanted.len()).enumerate().filter(|(_, bytes)| *bytes == wanted);
            found.map(|(at, _)| segment.virtual_address + at as u64 + 1)
        })
        .collect();
    if names.is_empty() {
        return None;
    }
    let isa = kernel.arch.isa();
    let holds = |address: u64| kernel.segments.iter().any(|segment| segment.range().contains(&address));
    let mut found = kernel.segments.iter().flat_map(|segment| {
        let start = segment.virtual_address;
        let words = segment
            .bytes
            .chunks_exact(4)
            .enumerate()
            .map(move |(number, bytes)| (start + 4 * number as u64, isa.order.number(bytes)));
        words.zip(segment.bytes.chunks_exact(4).skip(1))
    });
    found.find_map(|((at, first), second)| {
        let second = isa.order.number(second);
        let (symbol, named) = match isa.word {
            8 => (at.wrapping_add_signed((first as i32).into()), (at + 4).wrapping_add_signed((second as i32).into())),
            _ => (first, second),
        };
        (names.contains(&named) && holds(symbol)).then_some(symbol)
    })
}
