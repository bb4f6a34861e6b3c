//! Searches guest memory for words that are addresses in given ranges. The engine asks before it writes a jump over several
//! instructions: the saved pc of an interrupted task may point into these bytes.

use crate::unicorn::ram::Ram;
use std::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::mem::ByteOrder;

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// For each range, whether an aligned word of RAM below the physical address `end` has a value in that range. Words in
/// `code` are ignored. The ranges must not overlap; all are searched in one pass.
pub fn remembers(ram: &Ram, end: u64, isa: &Isa, code: &[Range<u64>], ranges: &[Range<u64>]) -> Vec<bool> {
    let (word, byte_order) = (isa.word, isa.order);
    let mut found = vec![false; ranges.len()];
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|index| ranges[*index].start);
    let (Some(least), Some(most)) = (ranges.iter().map(|range| range.start).min(), ranges.iter().map(|range| range.end).max())
    else {
        return found;
    };
    let mut chunk = vec![0; CHUNK];
    for at in (ram.base()..end).step_by(CHUNK) {
        let len = CHUNK.min((end - at) as usize);
        if code.iter().any(|code| code.start <= at && at + len as u64 <= code.end) || !ram.read(at, &mut chunk[..len]) {
            continue;
        }
        let bytes = &chunk[..len];
        let any = match (word, byte_order) {
            (4, ByteOrder::Little) => any_in(bytes, least, most, |word| u32::from_le_bytes(*word).into()),
            (4, ByteOrder::Big) => any_in(bytes, least, most, |word| u32::from_be_bytes(*word).into()),
            (_, ByteOrder::Little) => any_in(bytes, least, most, |word| u64::from_le_bytes(*word)),
            (_, ByteOrder::Big) => any_in(bytes, least, most, |word| u64::from_be_bytes(*word)),
        };
        if !any {
            continue;
        }
        for (index, bytes) in chunk[..len].chunks_exact(word).enumerate() {
            let value = byte_order.number(bytes);
            let place = at + (index * word) as u64;
            if value < least || value >= most || code.iter().any(|code| code.contains(&place)) {
                continue;
            }
            let behind = order.partition_point(|index| ranges[*index].start <= value);
            if let Some(index) = behind.checked_sub(1).map(|before| order[before])
                && ranges[index].contains(&value)
            {
                found[index] = true;
            }
        }
    }
    found
}

/// Whether any word is in `least..most`. This test rejects most of memory as fast as it can be read.
fn any_in<const WORD: usize>(bytes: &[u8], least: u64, most: u64, value: impl Fn(&[u8; WORD]) -> u64) -> bool {
    let (words, _) = bytes.as_chunks::<WORD>();
    let inside = |word: &[u8; WORD]| (value(word).wrapping_sub(least) < most - least) as u8;
    words.chunks(64).any(|words| words.iter().fold(0, |any, word| any | inside(word)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::arch::Arch;

    /// OP-7
    #[test]
    fn a_word_that_is_an_address_in_a_range_is_found_unless_it_is_code() {
        let end = 3 << 20;
        let ranges = [0x8100_0001..0x8100_0005, 0x9000_0001..0x9000_0005, 0x8000_0001..0x8000_0005];
        let code = [0x20_0000..0x20_1000, 0x28_0000..0x28_1000];
        #[rustfmt::skip]
        let cases: [(&str, u64, u32, [bool; 3]); 7] = [
            // what                         where        value        found
            ("on a stack",                  0x10_0010,   0x8100_0003, [true, false, false]),
            ("in the last word",            end - 4,    0x9000_0001, [false, true, false]),
            ("the first byte is free",      0x10_0010,   0x8100_0000, [false; 3]),
            ("and so is the one behind",    0x10_0010,   0x8100_0005, [false; 3]),
            ("no aligned word",             0x10_0012,   0x8100_0003, [false; 3]),
            ("code",                        0x20_0ffc,   0x8000_0002, [false; 3]),
            ("memory of our own",           end,        0x8000_0002, [false; 3]),
        ];
        for isa in [Arch::Arm, Arch::Ppc].map(Arch::isa) {
            let ram = Ram::at(0, 4 << 20, isa.order).expect("memory");
            assert_eq!(remembers(&ram, end, isa, &code, &ranges), [false; 3], "nothing on {isa:?}");
            for (what, at, word, expected) in cases {
                ram.set_word32(at, word);
                assert_eq!(remembers(&ram, end, isa, &code, &ranges), expected, "{what} on {isa:?}");
                ram.set_word32(at, 0);
            }
        }
    }
}
