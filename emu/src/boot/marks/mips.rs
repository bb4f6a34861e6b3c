//! What Linux's images for MIPS look like: arch/mips's ftrace.h, jump_label.h, extable.h of 6.1.

use super::{ENTRY_TEXT, Form, Looks, Marks};
use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::mips::Set;
use trapline_probes::guest::Site;

/// 32 bits, the low byte first.
pub static LITTLE_32: Marks = Marks { stray_readers: STRAY_READERS, ..BASE };

/// 32 bits, the high byte first.
pub static BIG_32: Marks = Marks { stray_readers: STRAY_READERS, looks: BIG_LOOKS, ..BASE };

/// 64 bits, the low byte first.
pub static LITTLE_64: Marks = Marks { exception_row: 16, ..BASE };

/// 64 bits, the high byte first.
pub static BIG_64: Marks = Marks { exception_row: 16, looks: BIG_LOOKS, ..BASE };

/// A kernel of 32 bits asks for the functions of system calls from number 0 on, and the table begins with number 4000
/// (arch_syscall_addr): what lies in front of it is text.
const STRAY_READERS: &[&str] = &["init_ftrace_syscalls"];

#[rustfmt::skip]
const PATCHERS: &[&str] = &[
    // what stands where an exception was raised, and what functions do first with their stacks
    "do_ade", "do_bp", "do_tr", "frame_info_init", "get_frame_info",
    // copied to the vectors
    "trap_init", "set_handler", "set_uncached_handler", "set_vi_handler", "set_vi_srs_handler", "mips_nmi_setup",
    "mips_ejtag_setup",
    // functions that are written anew
    "build_clear_page", "build_copy_page", "build_tlb_refill_handler",
];

/// Linux has its entry code among all other. BUG() is a `break` whose code says so: there is no table of them.
const BASE: Marks = Marks {
    listed_areas: &[],
    unlisted_areas: &[ENTRY_TEXT],
    form: Form::Absolute,
    exception_row: 8,
    ftrace_adjustment: 0,
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

/// They stand among the code, behind what reads them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;
    use trapline_probes::guest::Site;

    const TEXT: u64 = 0x8010_0000;

    /// KP-15: what stands in a table of system calls is read, and called.
    #[test]
    fn tables_of_system_calls_in_the_text_are_data() {
        let entry = |offset: u64, name: &str| Entry { address: TEXT + offset, name: name.into(), kind: 'T', module: None };
        let names = [(0, "_stext"), (8, "handle_sys"), (16, "sys_call_table"), (28, "behind"), (40, "_etext")];
        let entries = names.iter().map(|(offset, name)| entry(*offset, name)).collect();
        let segment = Segment { physical: 0x10_0000, virtual_address: TEXT, size: 40, bytes: vec![0; 40], executable: true };
        let kernel = Kernel::from_parts(Arch::Mipsel, 0x10_0000, vec![segment], Symbols::in_table_order(entries));
        let data: Vec<u64> =
            kernel.tables.sites.iter().filter(|(_, site)| **site == Site::Data).map(|(at, _)| at - TEXT).collect();
        assert_eq!(data, [16, 20, 24]);
    }
}
