//! The marks of Linux images for 32-bit PA-RISC, from arch/parisc's ftrace.c, jump_label.c and bug.h of 6.1.

use super::{ENTRY_TEXT, Looks, Marks};
use trapline_isa::mem::ByteOrder;

/// Its tables of exceptions and jump labels have distances.
pub static MARKS: Marks = Marks {
    // The area is our own kernel's; Linux has none.
    unlisted_areas: &[ENTRY_TEXT],
    looks: Looks {
        traced: |bytes| first(bytes) == NOP,
        jump_label: |bytes| first(bytes) == NOP || first(bytes) & 0xffe0_e002 == JUMP,
        bug: |bytes| first(bytes) == BUG,
        may_fault: |bytes| accesses_memory(first(bytes)),
        static_call: |_| None,
    },
    ..Marks::NONE
};

const NOP: u32 = 0x0800_0240;
/// `b,n`, without its distance.
const JUMP: u32 = 0xe800_0002;
/// `break 31,0x1fff`
const BUG: u32 = 0x03ff_e01f;

fn first(bytes: &[u8]) -> u32 {
    ByteOrder::Big.word(bytes.get(..4).unwrap_or_default())
}

/// Whether an instruction is a load or a store, by the opcode.
fn accesses_memory(word: u32) -> bool {
    matches!(word >> 26, 0x03 | 0x09 | 0x0b | 0x10..=0x1f)
}

#[cfg(test)]
mod tests {
    use super::MARKS;

    /// Instructions that match each predicate, and some that do not.
    #[test]
    fn sites_look_as_the_kernel_writes_them() {
        let looks = &MARKS.looks;
        let count = |look: fn(&[u8]) -> bool, words: &[u32]| words.iter().filter(|word| look(&word.to_be_bytes())).count();
        let [nop, jump, call, load, bug] = [0x0800_0240, 0xe800_0012, 0xe840_0010, 0x4885_0000, 0x03ff_e01f];
        let all = [nop, jump, call, load, bug];
        assert_eq!((count(looks.traced, &all), count(looks.traced, &[nop])), (1, 1));
        assert_eq!((count(looks.jump_label, &all), count(looks.jump_label, &[nop, jump])), (2, 2));
        assert_eq!((count(looks.bug, &all), count(looks.bug, &[bug])), (1, 1));
        assert_eq!((count(looks.may_fault, &all), count(looks.may_fault, &[load])), (1, 1));
    }
}
