//! What Linux's images for MIPS look like: arch/mips's ftrace.h, jump_label.h, extable.h of 6.1.

use super::{ENTRY_TEXT, Form, Looks, Marks};
use trapline_isa::mips::Set;
use trapline_probes::guest::Site;

/// 32 bits, the low byte first.
pub static LITTLE_32: Marks = BASE;

/// 32 bits, the high byte first.
pub static BIG_32: Marks = Marks { looks: BIG_LOOKS, ..BASE };

/// 64 bits, the low byte first.
pub static LITTLE_64: Marks = Marks { exception_row: 16, ..BASE };

/// 64 bits, the high byte first.
pub static BIG_64: Marks = Marks { exception_row: 16, looks: BIG_LOOKS, ..BASE };

/// Linux has its entry code among all other. BUG() is a `break` whose code says so: there is no table of them.
const BASE: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[ENTRY_TEXT],
    form: Form::Absolute,
    exception_row: 8,
    ftrace_adjustment: 0,
    never: &[Site::StaticCall, Site::SmpLock, Site::Bug],
    has_hidden_code: false,
    looks: Looks {
        traced: |bytes| is_traced(first(Set::Little32, bytes)),
        jump_label: |bytes| is_jump_label(first(Set::Little32, bytes)),
        bug: |_| false,
        may_fault: |bytes| accesses_memory(first(Set::Little32, bytes)),
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

const BIG_LOOKS: Looks = Looks {
    traced: |bytes| is_traced(first(Set::Big32, bytes)),
    jump_label: |bytes| is_jump_label(first(Set::Big32, bytes)),
    may_fault: |bytes| accesses_memory(first(Set::Big32, bytes)),
    ..BASE.looks
};

const NOP: u32 = 0;

fn first(set: Set, bytes: &[u8]) -> u32 {
    set.word(bytes.get(..4).unwrap_or_default())
}

/// `jal _mcount`.
fn is_traced(word: u32) -> bool {
    word == NOP || word >> 26 == 3
}

/// `b` over the nop in its own slot, where a kernel has not run; `j`.
fn is_jump_label(word: u32) -> bool {
    word == NOP || word >> 16 == 0x1000 || word >> 26 == 2
}

/// Loads, stores and what is done to the caches at an address, by their opcodes, those of user memory by address
/// (SPECIAL3) among them; but none of the kernel's own stack.
fn accesses_memory(word: u32) -> bool {
    const SP: u32 = 29;
    matches!(word >> 26, 0x1a | 0x1b | 0x1f | 0x20..=0x3f) && word >> 21 & 31 != SP
}
