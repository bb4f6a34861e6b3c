//! The marks of Linux images for x86, from arch/x86's jump_label.h, static_call_types.h and nops.h of 4.19 to 6.12.

use super::{ENTRY_TEXT, Form, Looks, Marks};
use trapline_probes::guest::Site;

/// The marks of 64-bit x86 kernels.
pub static MARKS: Marks = BASE;

/// 32-bit kernels. They patch static calls in their trampolines, not at the call sites.
pub static MARKS_32: Marks = Marks { never: &[Site::StaticCall], ..BASE };

const BASE: Marks = Marks {
    listed_areas: &[ENTRY_TEXT],
    unlisted_areas: &[],
    form: Form::Relative,
    exception_row: 12,
    ftrace_site: |_, row| row,
    never: &[],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| starts(bytes, &[CALL, NOPS]),
        jump_label: |bytes| starts(bytes, &[JUMPS, NOPS]),
        bug: |bytes| bytes.starts_with(&[0x0f, 0x0b]),
        may_fault: |_| true,
        static_call,
    },
    data_in_text: |_, _| Vec::new(),
};

/// Calls, jumps, and the nops that replace them.
const CALL: &[&[u8]] = &[&[0xe8]];
const JUMPS: &[&[u8]] = &[&[0xe9], &[0xeb]];
#[rustfmt::skip]
const NOPS: &[&[u8]] = &[&[0x0f, 0x1f, 0x44, 0, 0], &[0x3e, 0x8d, 0x74, 0x26, 0], &[0x66, 0x66, 0x66, 0x66, 0x90], &[0x66, 0x90]];

fn starts(bytes: &[u8], kinds: &[&[&[u8]]]) -> bool {
    kinds.iter().copied().flatten().any(|start| bytes.starts_with(start))
}

/// The target's offset of a `call` or `jmp` with a 32-bit displacement.
fn static_call(bytes: &[u8]) -> Option<i64> {
    const BRANCH: i64 = 5;
    let (opcode, rest) = bytes.split_first()?;
    let distance = rest.first_chunk().map(|distance| i32::from_le_bytes(*distance))?;
    matches!(opcode, 0xe8 | 0xe9).then(|| BRANCH + i64::from(distance))
}
