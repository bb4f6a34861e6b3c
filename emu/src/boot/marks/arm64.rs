//! The marks of Linux images for arm64, from arch/arm64's ftrace.h, jump_label.h and bug.h of 6.1.

use super::{Bounds, ENTRY_TEXT, Form, IDMAP_TEXT, IRQENTRY_TEXT, Looks, Marks, bounds, words};
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// ftrace sites are two nops at a function's start, of which the second is the site; jump labels are a nop or `b`; BUGs
/// are `brk #0x800`.
pub static MARKS: Marks = Marks {
    listed_areas: &AREAS,
    unlisted_areas: &[],
    form: Form::Relative,
    exception_row: 12,
    ftrace_site: |_, row| row.wrapping_add(4),
    never: &[Site::StaticCall, Site::SmpLock],
    has_hidden_code: true,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| words(ByteOrder::Little, bytes).eq([NOP, NOP]),
        jump_label: |bytes| {
            words(ByteOrder::Little, bytes).next().is_some_and(|word| word == NOP || word & 0xfc00_0000 == 0x1400_0000)
        },
        bug: |bytes| words(ByteOrder::Little, bytes).next() == Some(0xd421_0000),
        may_fault: |_| true,
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

const NOP: u32 = 0xd503_201f;

/// Areas that are not probed. The last two matter only if the kernel does not run in EL2 itself.
static AREAS: [Bounds; 5] = [
    ENTRY_TEXT,
    IRQENTRY_TEXT,
    IDMAP_TEXT,
    bounds("__hyp_text_start", "__hyp_text_end", ""),
    bounds("__hyp_idmap_text_start", "__hyp_idmap_text_end", ""),
];
