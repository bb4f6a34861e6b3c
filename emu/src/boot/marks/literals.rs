//! Data among A32 code: the words that code reads relative to the pc.
//!
//! Compilers and assemblers put constants between and behind functions, and no symbol separates them from code. A
//! breakpoint written there would be read rather than hit. This file finds the words that instructions refer to: the
//! word of a pc-relative load and, if an address is computed from the pc and loaded from soon after, the object there.

use super::words;
use crate::boot::Kernel;
use std::ops::Range;

const WORD: u64 = 4;
/// The ending of the names of CPU records, such as `__v7_ca15mp_proc_info`.
const RECORD: &str = "_proc_info";
/// The shortest run of letters that counts as text. A shorter one may be code. An instruction for all conditions has a byte
/// that is no letter.
const SHORTEST: usize = 6;
/// The number of instructions after an address computation in which the load must follow.
const SOON: usize = 4;

/// The words in this range of text that are read as data, by address.
pub fn of(kernel: &Kernel, text: &Range<u64>) -> Vec<u64> {
    let Some(bytes) = kernel.held(text) else { return Vec::new() };
    let code: Vec<u32> = words(kernel.arch.isa().order, bytes).collect();
    // The records about each supported CPU (`__proc_info`) are among the code, too. They are found by their names.
    let records = kernel.symbols.extents(text.clone()).into_iter().filter(|symbol| symbol.name.ends_with(RECORD));
    let mut found: Vec<Range<u64>> = records.map(|record| record.start..record.start + record.size).collect();
    // The names of CPUs (`cpu_v7_name`) are texts with a symbol.
    let is_string = |held: &[u8]| {
        let text = held.iter().position(|byte| *byte == 0).unwrap_or(0);
        text >= SHORTEST
            && held[..text].iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
            && held[text..].iter().all(|byte| *byte == 0)
    };
    let extents = kernel.symbols.extents(text.clone()).into_iter().map(|symbol| symbol.start..symbol.start + symbol.size);
    found.extend(extents.filter(|range| kernel.held(range).is_some_and(is_string)));
    for (number, word) in code.iter().enumerate() {
        let pc = text.start + WORD * number as u64 + 8;
        let behind = &code[number + 1..][..SOON.min(code.len() - number - 1)];
        let object = || {
            let at = address_made(*word, pc).filter(|_| behind.iter().any(|next| loads_from(*next, field(*word, 12))))?;
            let symbol = kernel.symbols.containing(at).filter(|symbol| symbol.start == at);
            Some(at..at + symbol.map_or(WORD, |symbol| symbol.size))
        };
        let read = loaded(*word, pc).or_else(object).filter(|read| text.contains(&read.start) && read.end <= text.end);
        found.extend(read.map(|read| read.start & !(WORD - 1)..read.end));
    }
    words_of(found)
}

/// The words of these ranges, each once: many instructions may name one large object.
fn words_of(mut ranges: Vec<Range<u64>>) -> Vec<u64> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut words = Vec::new();
    let mut behind = 0;
    for range in ranges {
        words.extend((range.start.max(behind)..range.end).step_by(WORD as usize));
        behind = behind.max(range.end.next_multiple_of(WORD));
    }
    words
}

const fn field(word: u32, low: u32) -> u32 {
    word >> low & 15
}

/// The range that a pc-relative load reads (LDR, LDRB, LDRH, LDRD, VLDR).
fn loaded(word: u32, pc: u64) -> Option<Range<u64>> {
    let byte = || u64::from(field(word, 8) << 4 | field(word, 0));
    let (distance, bytes) = match () {
        () if word & 0x0f7f_0000 == 0x051f_0000 => ((word & 0xfff).into(), WORD),
        () if word & 0x0f7f_0000 == 0x055f_0000 => ((word & 0xfff).into(), 1),
        () if word & 0x0f7f_00f0 == 0x014f_00d0 => (byte(), 2 * WORD),
        () if word & 0x0f7f_0090 == 0x015f_0090 && word & 0x60 != 0 => (byte(), 2),
        () if word & 0x0f3f_0f00 == 0x0d1f_0a00 => (u64::from(word & 0xff) * WORD, WORD),
        () if word & 0x0f3f_0f00 == 0x0d1f_0b00 => (u64::from(word & 0xff) * WORD, 2 * WORD),
        () => return None,
    };
    const UP: u32 = 1 << 23;
    let at = if word & UP != 0 { pc.checked_add(distance)? } else { pc.checked_sub(distance)? };
    (word >> 28 != 15).then_some(at..at + bytes)
}

/// The result of `add Rd, pc, #offset` or `sub Rd, pc, #offset`.
fn address_made(word: u32, pc: u64) -> Option<u64> {
    let offset = u64::from((word & 0xff).rotate_right(2 * field(word, 8)));
    match word & 0x0fff_0000 {
        0x028f_0000 => pc.checked_add(offset),
        0x024f_0000 => pc.checked_sub(offset),
        _ => None,
    }
}

/// Whether the instruction loads registers from the address in `base`.
fn loads_from(word: u32, base: u32) -> bool {
    let is_load = word & 1 << 20 != 0;
    is_load && field(word, 16) == base && matches!(word >> 25 & 7, 2 | 4) && word >> 28 != 15
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;

    const TEXT: u64 = 0xc010_0000;

    fn kernel(code: &[u32]) -> Kernel {
        let bytes: Vec<u8> = code.iter().copied().flat_map(u32::to_le_bytes).collect();
        let size = bytes.len() as u64;
        let entry = |offset: u64, name: &str| Entry { address: TEXT + offset, name: name.into(), kind: 'T', module: None };
        let entries = vec![entry(0, "_stext"), entry(20, "table"), entry(32, "behind"), entry(size, "_etext")];
        let segment = Segment { physical: 0x10_0000, virtual_address: TEXT, size, bytes: bytes.into(), executable: true };
        Kernel::from_parts(Arch::Arm, 0x10_0000, vec![segment], Symbols::in_table_order(entries))
    }

    /// KP-15: a breakpoint in a CPU's record would be read by a kernel that boots on it.
    #[test]
    fn records_of_cpus_are_data() {
        let plain = kernel(&[0xe320_f000; 10]);
        assert!(of(&plain, &(TEXT..TEXT + 40)).is_empty());
        let entry = |offset: u64, name: &str| Entry { address: TEXT + offset, name: name.into(), kind: 't', module: None };
        let entries = vec![entry(0, "_stext"), entry(8, "__v7_proc_info"), entry(20, "behind"), entry(40, "_etext")];
        let recorded = plain.with_symbols(Symbols::in_table_order(entries));
        assert_eq!(of(&recorded, &(TEXT..TEXT + 40)), [8, 12, 16].map(|offset| TEXT + offset));
    }

    /// KP-15: however many instructions name one large object, its words are listed once.
    #[test]
    fn an_object_that_is_named_often_is_listed_once() {
        const BYTES: u64 = 1 << 16;
        let ranges = |times: u64| (0..times).map(|number| TEXT + 4 * (number % 8)..TEXT + BYTES).collect::<Vec<_>>();
        for times in [1, 100_000] {
            let words = words_of(ranges(times));
            assert_eq!((words.len() as u64, words[0], words.is_sorted()), (BYTES / 4, TEXT, true), "{times}");
        }
        assert_eq!(words_of(vec![8..9, 4..12, 0..4, 20..21]), [0, 4, 8, 20]);
    }

    /// KP-15: the offsets of data words, for an instruction at the start and one behind it.
    #[test]
    fn pc_relative_loads_read_data() {
        const NOP: u32 = 0xe320_f000;
        #[rustfmt::skip]
        let cases: [(&str, [u32; 2], &[u64]); 12] = [
            ("ldr r0, [pc, #4]",                    [0xe59f_0004, NOP],         &[12]),
            ("ldrb r0, [pc, #5]",                   [0xe5df_0005, NOP],         &[12]),
            ("ldr r0, [pc, #-4]",                   [NOP, 0xe51f_0004],         &[8]),
            ("ldrd r0, [pc, #8]",                   [0xe1cf_00d8, NOP],         &[16, 20]),
            ("ldrh r0, [pc, #10]",                  [0xe1df_00ba, NOP],         &[16]),
            ("vldr d0, [pc, #16]",                  [0xed9f_0b04, NOP],         &[24, 28]),
            ("a store there",                       [0xe58f_0004, NOP],         &[]),
            ("a load out of the text",              [0xe59f_0fff, NOP],         &[]),
            ("pli [pc, #4]: a hint",                [0xf4df_f004, NOP],         &[]),
            ("add r4, pc, #12; ldm r4!, {r0, r1}",  [0xe28f_400c, 0xe8b4_0003], &[20, 24, 28]),
            ("add r4, pc, #8; ldr r0, [r4]",        [0xe28f_4008, 0xe594_0000], &[16]),
            ("add r4, pc, #12; bx r4: code",        [0xe28f_400c, 0xe12f_ff14], &[]),
        ];
        for (what, [first, second], expected) in cases {
            let code = [&[first, second][..], &[NOP; 8]].concat();
            let kernel = kernel(&code);
            let found: Vec<u64> = of(&kernel, &(TEXT..TEXT + 40)).into_iter().map(|at| at - TEXT).collect();
            assert_eq!(found, expected, "{what}");
        }
    }
}
