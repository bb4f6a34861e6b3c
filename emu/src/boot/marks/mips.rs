//! The marks of Linux images for MIPS, from arch/mips's ftrace.h, jump_label.h and extable.h of 6.1.

use super::{ENTRY_TEXT, Form, Looks, Marks};
use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::mips::Set;
use trapline_probes::guest::Site;

/// The marks of 32-bit little-endian kernels.
pub static LITTLE_32: Marks = Marks { stray_readers: STRAY_READERS, ..BASE };

/// The marks of 32-bit big-endian kernels.
pub static BIG_32: Marks = Marks { stray_readers: STRAY_READERS, looks: BIG_LOOKS, ..BASE };

/// The marks of 64-bit little-endian kernels.
pub static LITTLE_64: Marks = Marks { exception_row: 16, ..BASE };

/// The marks of 64-bit big-endian kernels.
pub static BIG_64: Marks = Marks { exception_row: 16, looks: BIG_LOOKS, ..BASE };

/// A 32-bit kernel asks for system-call functions from number 0 on, but the table begins with number 4000
/// (arch_syscall_addr). So it reads text in front of the table.
const STRAY_READERS: &[&str] = &["init_ftrace_syscalls"];

#[rustfmt::skip]
const PATCHERS: &[&str] = &[
    // read the instruction that raised an exception, or the stack setup at a function's start
    "do_ade", "do_bp", "do_tr", "frame_info_init", "get_frame_info",
    // copy text to the exception vectors
    "trap_init", "set_handler", "set_uncached_handler", "set_vi_handler", "set_vi_srs_handler", "mips_nmi_setup",
    "mips_ejtag_setup",
    // generate code
    "build_clear_page", "build_copy_page", "build_tlb_refill_handler",
];

/// Linux's entry code is among all other code. BUG() is a `break` with its own code, and there is no table of them.
const BASE: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[ENTRY_TEXT],
    form: Form::Absolute,
    exception_row: 8,
    ftrace_site: |_, row| row,
    never: &[Site::StaticCall, Site::SmpLock, Site::Bug],
    has_hidden_code: false,
    patchers: PATCHERS,
    stray_readers: &[],
    looks: Looks {
        traced: |bytes| is_traced(first(Set::Little32, bytes)),
        jump_label: |bytes| is_jump_label(first(Set::Little32, bytes)),
        bug: |_| false,
        may_fault: |bytes| accesses_memory(first(Set::Little32, bytes)),
        static_call: |_| None,
    },
    data_in_text: tables_of_system_calls,
};

/// The system-call tables, which are among the code behind their readers.
fn tables_of_system_calls(kernel: &Kernel, text: &Range<u64>) -> Vec<u64> {
    let is_table = |name: &str| matches!(name, "sys_call_table" | "sysn32_call_table" | "sys32_call_table");
    let tables = kernel.symbols.extents(text.clone()).into_iter().filter(|symbol| is_table(&symbol.name));
    tables.flat_map(|table| (table.start..table.start + table.size).step_by(4)).collect()
}

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

/// Whether an instruction is an ftrace site: `jal _mcount` or a nop.
fn is_traced(word: u32) -> bool {
    word == NOP || word >> 26 == 3
}

/// Whether an instruction is a jump label: a nop, `j`, or, before the kernel has run, `b` to behind its delay slot.
fn is_jump_label(word: u32) -> bool {
    word == NOP || word >> 16 == 0x1000 || word >> 26 == 2
}

/// Whether an instruction accesses memory: loads, stores and cache maintenance by address, with those for user memory
/// (SPECIAL3). Accesses by sp are excluded.
fn accesses_memory(word: u32) -> bool {
    const SP: u32 = 29;
    matches!(word >> 26, 0x1a | 0x1b | 0x1f | 0x20..=0x3f) && word >> 21 & 31 != SP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;
    use trapline_probes::guest::Site;

    const TEXT: u64 = 0x8010_0000;

    /// KP-15: the entries of a system-call table are data.
    #[test]
    fn tables_of_system_calls_in_the_text_are_data() {
        let entry = |offset: u64, name: &str| Entry { address: TEXT + offset, name: name.into(), kind: 'T', module: None };
        let names = [(0, "_stext"), (8, "handle_sys"), (16, "sys_call_table"), (28, "behind"), (40, "_etext")];
        let entries = names.iter().map(|(offset, name)| entry(*offset, name)).collect();
        let segment =
            Segment { physical: 0x10_0000, virtual_address: TEXT, size: 40, bytes: vec![0; 40].into(), executable: true };
        let kernel = Kernel::from_parts(Arch::Mipsel, 0x10_0000, vec![segment], Symbols::in_table_order(entries));
        let data: Vec<u64> =
            kernel.tables.sites.iter().filter(|(_, site)| **site == Site::Data).map(|(at, _)| at - TEXT).collect();
        assert_eq!(data, [16, 20, 24]);
    }
}
