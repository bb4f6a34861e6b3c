//! The marks of Linux images for 64-bit SPARC, from arch/sparc's ftrace.c, jump_label.c and extable.h of 6.1. The
//! kernel is linked in the lowest 4 GiB, so its tables have 32-bit addresses.

use super::{ENTRY_TEXT, Form, Looks, Marks};
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// Linux's entry code is among all other code. BUG() is a `ta 5`, and there is no table of them.
pub static MARKS: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[ENTRY_TEXT],
    form: Form::Low,
    exception_row: 8,
    ftrace_site: |_, row| row,
    never: &[Site::StaticCall, Site::SmpLock, Site::Bug],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| matches!(first(bytes), NOP) || first(bytes) >> 30 == 1,
        jump_label: |bytes| is_jump_label(first(bytes)),
        bug: |_| false,
        may_fault: |bytes| accesses_memory(first(bytes)),
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

const NOP: u32 = 0x0100_0000;

fn first(bytes: &[u8]) -> u32 {
    ByteOrder::Big.word(bytes.get(..4).unwrap_or_default())
}

/// Whether an instruction is a jump label: a nop or `ba`, with or without prediction.
fn is_jump_label(word: u32) -> bool {
    word == NOP || word & 0xffc0_0000 == 0x1080_0000 || word & 0xfff8_0000 == 0x1068_0000
}

/// Whether an instruction accesses memory other than by the stack or frame pointer.
fn accesses_memory(word: u32) -> bool {
    const STACK: [u32; 2] = [14, 30];
    word >> 30 == 3 && !STACK.contains(&(word >> 14 & 31))
}

#[cfg(test)]
mod tests {
    use super::MARKS;

    /// Instructions that match each predicate, and some that do not.
    #[test]
    fn sites_look_as_the_kernel_writes_them() {
        let looks = &MARKS.looks;
        let all = |look: fn(&[u8]) -> bool, words: &[u32]| words.iter().all(|word| look(&word.to_be_bytes()));
        let none = |look: fn(&[u8]) -> bool, words: &[u32]| !words.iter().any(|word| look(&word.to_be_bytes()));
        assert!(all(looks.traced, &[0x0100_0000, 0x4000_1234]) && none(looks.traced, &[0x9de3_bf40, 0x1080_0004]));
        assert!(all(looks.jump_label, &[0x0100_0000, 0x1080_0004, 0x106f_fff0]));
        assert!(none(looks.jump_label, &[0x3080_0004, 0x1268_0004, 0x4000_1234]));
        assert!(all(looks.may_fault, &[0xd05a_2000, 0xd0da_0b00]), "ldx, ldxa");
        assert!(none(looks.may_fault, &[0xd05b_a7ff, 0xd05f_a7f7, 0x9002_2001]), "of the stack, and no access");
    }
}
