//! The marks of an ISA: recognisable features of Linux images that differ between ISAs. Each ISA fills in a table in
//! its own file. Reading an image needs no CPU core, so these tables are not in `cpu/`.

pub mod arm;
pub mod arm64;
pub mod ia64;
pub mod mips;
pub mod parisc;
pub mod ppc;
pub mod riscv;
pub mod s390;
pub mod sparc64;
pub mod x86;

mod literals;

use super::Kernel;
use super::unnamed::Finder;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// The marks of an ISA.
#[derive(Debug)]
pub struct Marks {
    /// Areas of code that must not be probed and that Linux lists in its blacklist, in list order
    /// (arch_populate_kprobe_blacklist).
    pub listed_areas: &'static [Bounds],
    /// Areas that must not be probed and that Linux checks at each registration (arch_within_kprobe_blacklist).
    pub unlisted_areas: &'static [Bounds],
    /// The form of addresses in the kernel's tables. It is relative with HAVE_ARCH_JUMP_LABEL_RELATIVE,
    /// GENERIC_BUG_RELATIVE_POINTERS and ARCH_HAS_RELATIVE_EXTABLE. (The ftrace table has absolute addresses
    /// everywhere.)
    pub form: Form,
    /// Size of a row of the exception table: two addresses, on some ISAs followed by a word with the type.
    pub exception_row: usize,
    /// The ftrace site of an address in the kernel's table (ftrace_call_adjust).
    pub ftrace_site: fn(&Kernel, u64) -> u64,
    /// Kinds of sites that no kernel of this ISA has a table of.
    pub never: &'static [Site],
    /// Whether there is nameless code between text and init text, which runs by its physical address only.
    pub has_hidden_code: bool,
    /// Functions of this ISA only that read or write any text.
    pub patchers: &'static [&'static str],
    /// Functions that read text by mistake.
    pub stray_readers: &'static [&'static str],
    /// The first bytes of sites.
    pub looks: Looks,
    /// The data words in a range of text. One may be listed twice.
    pub data_in_text: fn(&Kernel, &Range<u64>) -> Vec<u64>,
}

/// Predicates for the first bytes of an ISA's sites, in a kernel that has not run.
#[derive(Debug)]
pub struct Looks {
    /// An ftrace site: a call of the tracer at a function's start.
    pub traced: fn(&[u8]) -> bool,
    /// A static key's nop or jump.
    pub jump_label: fn(&[u8]) -> bool,
    /// The trap of BUG() or WARN().
    pub bug: fn(&[u8]) -> bool,
    /// An instruction in the exception table, for tables with rows of two addresses only.
    pub may_fault: fn(&[u8]) -> bool,
    /// The offset from a static call's site to its target. `None` for other instructions.
    pub static_call: fn(&[u8]) -> Option<i64>,
}

impl Marks {
    /// Marks for images of unknown kernels. Only addresses in tables are known to be relative.
    pub const NONE: Marks = Marks {
        listed_areas: &[],
        unlisted_areas: &[],
        form: Form::Relative,
        exception_row: 8,
        ftrace_site: |_, row| row,
        never: &[],
        has_hidden_code: false,
        patchers: &[],
        stray_readers: &[],
        looks: Looks { traced: |_| false, jump_label: |_| false, bug: |_| false, may_fault: |_| true, static_call: |_| None },
        data_in_text: |_, _| Vec::new(),
    };

    /// Size of a row of the jump-label table: site, target, key.
    pub fn jump_label_row(&self, word: usize) -> usize {
        2 * self.form.bytes(word) + self.form.key_bytes(word)
    }

    /// Size of a row of the BUG table: site, file name, and line and flags of two bytes each.
    pub fn bug_row(&self, word: usize) -> usize {
        2 * self.form.bytes(word) + 4
    }
}

/// Size of a row of the static-call table: offsets to the call and to its key.
pub const STATIC_CALL_ROW: usize = 8;
/// Size of a row of the table of lock prefixes: an offset.
pub const SMP_LOCK_ROW: usize = 4;

impl Form {
    /// Size of an address in this form.
    pub const fn bytes(self, word: usize) -> usize {
        match self {
            Form::Relative | Form::Low => 4,
            Form::Absolute => word,
        }
    }

    /// Size of a jump label's key. A relative one is as large as a word.
    pub const fn key_bytes(self, word: usize) -> usize {
        match self {
            Form::Relative | Form::Absolute => word,
            Form::Low => 4,
        }
    }
}

/// The form of an address in a table's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A 32-bit offset from the field itself.
    Relative,
    /// A whole word.
    Absolute,
    /// The lower half of a word whose upper half is 0.
    Low,
}

/// The bounds of a table or an area of code: by two symbols, by a section, or by a search for its content.
#[derive(Debug)]
pub struct Bounds {
    /// The symbol at the start.
    pub start: &'static str,
    /// The symbol at the end.
    pub end: &'static str,
    /// The section in an ELF file; empty if it has none of its own.
    pub section: &'static str,
    /// A search for its content, if it has no name.
    pub search: Option<Search>,
}

/// Searches for a table without a name.
pub type Search = fn(&Finder<'_>) -> Option<Range<u64>>;

/// Bounds by symbols or section only.
pub const fn bounds(start: &'static str, end: &'static str, section: &'static str) -> Bounds {
    Bounds { start, end, section, search: None }
}

impl Bounds {
    /// Adds a search for images without the names.
    pub const fn or(self, search: Search) -> Bounds {
        Bounds { search: Some(search), ..self }
    }
}

/// The assembly code at system calls and exceptions.
pub const ENTRY_TEXT: Bounds = bounds("__entry_text_start", "__entry_text_end", ".entry.text");
/// The C functions that interrupts enter.
pub const IRQENTRY_TEXT: Bounds = bounds("__irqentry_text_start", "__irqentry_text_end", ".irqentry.text");
/// Code that runs identity-mapped.
pub const IDMAP_TEXT: Bounds = bounds("__idmap_text_start", "__idmap_text_end", ".idmap.text");

/// The 4-byte instructions in these bytes.
pub fn words(order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(move |word| order.number(word) as u32)
}
