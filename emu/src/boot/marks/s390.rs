//! The marks of Linux images for z/Architecture, from arch/s390's ftrace.h, jump_label.h, bug.h and asm-extable.h of
//! 6.1.

use super::{ENTRY_TEXT, Form, IRQENTRY_TEXT, Looks, Marks};
use trapline_probes::guest::Site;

/// ftrace sites and jump labels are a branch that is never taken; BUGs are `mc 0,0`.
pub static MARKS: Marks = Marks {
    listed_areas: &[IRQENTRY_TEXT],
    unlisted_areas: &[ENTRY_TEXT],
    form: Form::Relative,
    exception_row: 12,
    ftrace_site: |_, row| row,
    never: &[Site::StaticCall, Site::SmpLock],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| bytes.starts_with(&NEVER),
        jump_label: |bytes| bytes.starts_with(&NEVER) || bytes.starts_with(&ALWAYS),
        bug: |bytes| bytes.starts_with(&[0xaf, 0x00, 0x00, 0x00]),
        may_fault: |_| true,
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

/// The first bytes of a branch that is never taken (`brcl 0`).
const NEVER: [u8; 2] = [0xc0, 0x04];
/// The first bytes of a branch that is always taken (`brcl 15`).
const ALWAYS: [u8; 2] = [0xc0, 0xf4];
