//! The marks of Linux images for 32-bit ARM, from arch/arm's jump_label.h, bug.h and extable.h of 6.1.

use super::{ENTRY_TEXT, Form, IDMAP_TEXT, IRQENTRY_TEXT, Looks, Marks, literals, words};
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// ftrace sites are `bl`, jump labels a nop or `b`, BUGs an undefined instruction of their own.
pub static MARKS: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[IRQENTRY_TEXT, ENTRY_TEXT, IDMAP_TEXT],
    form: Form::Absolute,
    exception_row: 8,
    ftrace_site: |_, row| row,
    never: &[Site::StaticCall, Site::SmpLock],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| words(ByteOrder::Little, bytes).next().is_some_and(|word| word & 0xff00_0000 == 0xeb00_0000),
        jump_label: |bytes| {
            words(ByteOrder::Little, bytes).next().is_some_and(|word| NOPS.contains(&word) || word & 0xff00_0000 == 0xea00_0000)
        },
        bug: |bytes| words(ByteOrder::Little, bytes).next() == Some(0xe7f0_01f2),
        may_fault: |bytes| words(ByteOrder::Little, bytes).next().is_some_and(accesses_memory),
        static_call: |_| None,
    },
    data_in_text: literals::of,
};

/// Kernels in Thumb code. The form of their sites and the places of their constants are unknown.
pub static IN_THUMB: Marks = Marks {
    listed_areas: MARKS.listed_areas,
    unlisted_areas: MARKS.unlisted_areas,
    form: MARKS.form,
    exception_row: MARKS.exception_row,
    ftrace_site: MARKS.ftrace_site,
    never: MARKS.never,
    has_hidden_code: MARKS.has_hidden_code,
    patchers: &[],
    stray_readers: &[],
    looks: Looks { traced: |_| false, jump_label: |_| false, bug: |_| false, may_fault: |_| false, static_call: |_| None },
    data_in_text: |_, _| Vec::new(),
};

/// `nop`, and `mov r0, r0` in kernels for CPUs without `nop`.
const NOPS: [u32; 2] = [0xe320_f000, 0xe1a0_0000];

/// Whether an A32 instruction accesses memory: loads and stores by their group, with exclusive and halfword ones, and
/// cache maintenance by address. Accesses by sp are excluded, because functions begin with them.
fn accesses_memory(word: u32) -> bool {
    const SP: u32 = 13;
    const UNCONDITIONAL: u32 = 15;
    let of_caches = word & 0x0f1f_0f10 == 0x0e07_0f10;
    let is_access = match word >> 25 & 7 {
        0 => word & 0x90 == 0x90,
        3 => word & 0x10 == 0,
        group => matches!(group, 2 | 4),
    };
    of_caches || is_access && word >> 16 & 15 != SP && word >> 28 != UNCONDITIONAL
}

/// The address of a program's function, whose symbol has the lowest bit set if it is Thumb code.
pub fn without_thumb_bit(value: u64, _: u8) -> u64 {
    value & !1
}
