//! Features of Linux images for RISC-V: ftrace.h, jump_label.h, bug.h and extable.h of arch/riscv in 6.12 and 7.2.

use super::{Bounds, ENTRY_TEXT, Form, Looks, Marks};
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// Compressed nops at a function's start, and in 7.2 in front of it as well; a nop or `jal x0`; `ebreak`.
pub static MARKS: Marks = Marks {
    listed_areas: &AREAS,
    unlisted_areas: &[],
    form: Form::Relative,
    exception_row: 12,
    ftrace_adjustment: 0,
    never: &[Site::StaticCall, Site::SmpLock],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| bytes.starts_with(&FOUR_NOPS),
        jump_label: |bytes| is_jump_label(bytes),
        bug: |bytes| bytes.starts_with(&EBREAK) || bytes.starts_with(&C_EBREAK),
        may_fault: |_| true,
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

/// Four `c.nop`.
const FOUR_NOPS: [u8; 8] = [1, 0, 1, 0, 1, 0, 1, 0];
const NOP: u32 = 0x0000_0013;
const EBREAK: [u8; 4] = 0x0010_0073_u32.to_le_bytes();
const C_EBREAK: [u8; 2] = 0x9002_u16.to_le_bytes();

/// Interrupts and exceptions are entered in one area, which has two pairs of names.
static AREAS: [Bounds; 1] = [ENTRY_TEXT];

/// `nop`, or `jal x0`.
fn is_jump_label(bytes: &[u8]) -> bool {
    let word = ByteOrder::Little.word(bytes.get(..4).unwrap_or_default());
    word == NOP || word & 0xfff == 0x06f
}

#[cfg(test)]
mod tests {
    use super::MARKS;

    /// Bytes that each look is for, and some that it is not.
    #[test]
    fn sites_look_as_the_kernel_writes_them() {
        let looks = &MARKS.looks;
        assert!((looks.traced)(&[1, 0, 1, 0, 1, 0, 1, 0]) && !(looks.traced)(&[1, 0, 1, 0, 1, 0, 2, 0]));
        let labels = [0x0000_0013_u32, 0x0000_006f, 0xffdf_f06f].map(u32::to_le_bytes);
        assert!(labels.iter().all(|label| (looks.jump_label)(label)));
        let others = [0x0000_00ef_u32, 0x0000_0093, 0x0001_0001].map(u32::to_le_bytes);
        assert!(!others.iter().any(|other| (looks.jump_label)(other)), "a call, a load of 0, two compressed nops");
        assert!((looks.bug)(&[0x02, 0x90]) && (looks.bug)(&[0x73, 0, 0x10, 0]) && !(looks.bug)(&[0x73, 0, 0, 0]));
    }
}
