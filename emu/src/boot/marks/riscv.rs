//! Features of Linux images for RISC-V: ftrace.h, jump_label.h, bug.h and extable.h of arch/riscv in 6.12 and 7.2.

use super::{Bounds, Form, IRQENTRY_TEXT, Looks, Marks};
use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// Compressed nops at a function's start, and in 7.2 in front of it as well; a nop or `jal x0`; `ebreak`.
pub static MARKS: Marks = Marks {
    listed_areas: &AREAS,
    unlisted_areas: &[],
    form: Form::Relative,
    exception_row: 12,
    ftrace_site,
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
    data_in_text: |kernel, text| pointers(kernel, text),
};

/// Four `c.nop`.
const FOUR_NOPS: [u8; 8] = [1, 0, 1, 0, 1, 0, 1, 0];
const NOP: u32 = 0x0000_0013;
/// `auipc t0` and `jalr t0, t0`, without their displacements.
const AUIPC_T0: u32 = 0x297;
const JALR_T0: u32 = 0x2_82e7;
/// Bytes of a pointer in front of a function.
const POINTER: u64 = 8;
const EBREAK: [u8; 4] = 0x0010_0073_u32.to_le_bytes();
const C_EBREAK: [u8; 2] = 0x9002_u16.to_le_bytes();

/// The area of all entry code, which is also that of the interrupts.
static AREAS: [Bounds; 1] = [IRQENTRY_TEXT];

/// Linux 6.12 lists a function's start, and patches its first two nops. Linux 7.2 lists the pointer in front of a
/// function and patches the second of the two words at its start.
fn ftrace_site(kernel: &Kernel, row: u64) -> u64 {
    let starts = |address: u64| kernel.symbols.containing(address).is_some_and(|symbol| symbol.start == address);
    let entry = row.wrapping_add(POINTER);
    if starts(entry) && !starts(row) { entry.wrapping_add(4) } else { row }
}

/// The pointer to ftrace's callbacks in front of each traced function of Linux 7.2: four halfwords. In the image they are
/// nops.
fn pointers(kernel: &Kernel, text: &Range<u64>) -> Vec<u64> {
    let has_pointer = |function: u64| {
        let mut bytes = [0; 16];
        let start = function.checked_sub(POINTER).filter(|start| text.contains(start));
        start.filter(|start| kernel.read(*start, &mut bytes).is_ok() && is_traced_entry(&bytes))
    };
    let starts = kernel.symbols.extents(text.clone()).into_iter().filter_map(|symbol| has_pointer(symbol.start));
    starts.flat_map(|start| (start..start + POINTER).step_by(2)).collect()
}

/// Whether these bytes are a pointer, in the image or in a kernel that has booted, and the first 8 bytes of a traced
/// function.
fn is_traced_entry(bytes: &[u8; 16]) -> bool {
    let word = |at: usize| ByteOrder::Little.word(&bytes[at..at + 4]);
    let (first, second) = (word(8), word(12));
    let patched = first & 0xfff == AUIPC_T0 && (second == NOP || second & 0xf_ffff == JALR_T0);
    bytes.chunks(8).all(|half| half == FOUR_NOPS) || patched
}

/// Whether these bytes can be a jump label: `nop`, or `jal x0`.
fn is_jump_label(bytes: &[u8]) -> bool {
    let word = ByteOrder::Little.word(bytes.get(..4).unwrap_or_default());
    word == NOP || word & 0xfff == 0x06f
}

#[cfg(test)]
mod tests {
    use super::{MARKS, is_traced_entry};

    /// Bytes that each look is for, and some that it is not.
    #[test]
    fn sites_look_as_the_kernel_writes_them() {
        let looks = &MARKS.looks;
        assert!((looks.traced)(&[1, 0, 1, 0, 1, 0, 1, 0]) && !(looks.traced)(&[1, 0, 1, 0, 1, 0, 2, 0]));
        let labels = [0x0000_0013_u32, 0x0000_006f, 0xffdf_f06f].map(u32::to_le_bytes);
        assert!(labels.iter().all(|label| (looks.jump_label)(label)));
        let others = [0x0000_00ef_u32, 0x0000_0093, 0x0001_0001].map(u32::to_le_bytes);
        assert!(!others.iter().any(|other| (looks.jump_label)(other)), "a call, a load of 0, two compressed nops");
        let entry = |words: [u32; 4]| {
            let mut bytes = [0; 16];
            bytes.chunks_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
            is_traced_entry(&bytes)
        };
        assert!(entry([0x0001_0001; 4]), "in the image of 7.2");
        assert!(entry([0x8000_1000, 0xffff_ffff, 0x0001_b297, 0x0000_0013]), "booted");
        assert!(entry([0x8000_1000, 0xffff_ffff, 0x0001_b297, 0x1002_82e7]), "traced");
        assert!(!entry([0x8000_1000, 0xffff_ffff, 0x0000_0013, 0x0000_0013]), "6.12");
        assert!((looks.bug)(&[0x02, 0x90]) && (looks.bug)(&[0x73, 0, 0x10, 0]) && !(looks.bug)(&[0x73, 0, 0, 0]));
    }
}
