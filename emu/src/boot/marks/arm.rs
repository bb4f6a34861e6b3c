//! What Linux's images for 32-bit ARM look like: arch/arm's jump_label.h, bug.h, extable.h of 6.1.

use super::{ENTRY_TEXT, Form, IDMAP_TEXT, IRQENTRY_TEXT, Looks, Marks, literals, words};
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// `bl`; a nop or `b`; an undefined instruction of its own.
pub static MARKS: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[IRQENTRY_TEXT, ENTRY_TEXT, IDMAP_TEXT],
    form: Form::Absolute,
    exception_row: 8,
    ftrace_adjustment: 0,
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

/// Kernels in Thumb code: what sites look like there, and where its constants lie, is not known.
pub static IN_THUMB: Marks = Marks {
    listed_areas: MARKS.listed_areas,
    unlisted_areas: MARKS.unlisted_areas,
    form: MARKS.form,
    exception_row: MARKS.exception_row,
    ftrace_adjustment: MARKS.ftrace_adjustment,
    never: MARKS.never,
    has_hidden_code: MARKS.has_hidden_code,
    patchers: &[],
    stray_readers: &[],
    looks: Looks { traced: |_| false, jump_label: |_| false, bug: |_| false, may_fault: |_| false, static_call: |_| None },
    data_in_text: |_, _| Vec::new(),
};

/// `nop`, and `mov r0, r0` where a kernel is for CPUs that do not know it.
const NOPS: [u32; 2] = [0xe320_f000, 0xe1a0_0000];

/// A32: loads and stores by their group, exclusive and halfword ones too, but none of the kernel's own stack, with
/// which functions begin; and what is done to the caches at an address.
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
