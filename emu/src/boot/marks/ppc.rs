//! The marks of Linux images for PowerPC, from arch/powerpc's ftrace.h, jump_label.h, bug.h and extable.h of 6.1.

use super::{Bounds, ENTRY_TEXT, Form, Looks, Marks, bounds};
use trapline_isa::ppc::{Set, slot};
use trapline_probes::guest::Site;

/// Big-endian kernels. ftrace sites are a call of `_mcount` or a nop; jump labels a nop or `b`; BUGs a trap,
/// conditional or not.
pub static BIG: Marks = Marks {
    looks: Looks {
        traced: |bytes| is_traced(Set::Big64, bytes),
        jump_label: |bytes| is_jump_label(Set::Big64, bytes),
        bug: |bytes| slot::is_breakpoint(Set::Big64, bytes),
        ..LITTLE_BASE.looks
    },
    ..LITTLE_BASE
};

/// Little-endian kernels.
pub static LITTLE: Marks = LITTLE_BASE;

const LITTLE_BASE: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &AREAS,
    form: Form::Relative,
    exception_row: 8,
    ftrace_site: |_, row| row,
    never: &[Site::StaticCall, Site::SmpLock],
    has_hidden_code: false,
    patchers: &[],
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| is_traced(Set::Little64, bytes),
        jump_label: |bytes| is_jump_label(Set::Little64, bytes),
        bug: |bytes| slot::is_breakpoint(Set::Little64, bytes),
        may_fault: |_| true,
        static_call: |_| None,
    },
    data_in_text: |_, _| Vec::new(),
};

/// Code that runs before the kernel's page tables are in use, and the first instructions of exceptions.
static AREAS: [Bounds; 2] = [bounds("_stext", "__head_end", ".head.text"), ENTRY_TEXT];

const NOP: u32 = 0x6000_0000;

fn first(set: Set, bytes: &[u8]) -> u32 {
    set.word(bytes.get(..4).unwrap_or_default())
}

fn is_traced(set: Set, bytes: &[u8]) -> bool {
    let word = first(set, bytes);
    word == NOP || word & 0xfc00_0003 == 0x4800_0001
}

fn is_jump_label(set: Set, bytes: &[u8]) -> bool {
    let word = first(set, bytes);
    word == NOP || word & 0xfc00_0003 == 0x4800_0000
}

/// The entry of a program's function for calls from its own file: three bits of `st_other` say how far it is behind the
/// entry for others, which first sets the register of the table of contents (ELFv2, "local entry point").
pub fn local_entry(value: u64, other: u8) -> u64 {
    value.wrapping_add((1_u64 << (other >> 5 & 7)) >> 2 << 2)
}
