//! What Linux's images of one ISA look like where ISAs differ: a table that each of them fills in, in the file of its
//! name. No core is needed to read an image, so it stands not with what runs the ISA.

pub mod arm;
pub mod arm64;
pub mod mips;
pub mod ppc;
pub mod s390;
pub mod sparc64;
pub mod x86;

mod literals;

use super::Kernel;
use super::unnamed::Finder;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;
use trapline_probes::guest::Site;

/// One ISA's.
#[derive(Debug)]
pub struct Marks {
    /// Areas of code that are not probed and stand in the kernel's own list, in its order
    /// (arch_populate_kprobe_blacklist).
    pub listed_areas: &'static [Bounds],
    /// Those that are asked about for each probe, and stand in no list (arch_within_kprobe_blacklist).
    pub unlisted_areas: &'static [Bounds],
    /// How addresses stand in its tables: as distances where it has HAVE_ARCH_JUMP_LABEL_RELATIVE,
    /// GENERIC_BUG_RELATIVE_POINTERS and ARCH_HAS_RELATIVE_EXTABLE. (The table of ftrace holds addresses everywhere.)
    pub form: Form,
    /// Bytes of a row of the exception table: two addresses; some have a word behind them that says what to do.
    pub exception_row: usize,
    /// How far behind the address in the kernel's table an ftrace site is (ftrace_call_adjust).
    pub ftrace_adjustment: u64,
    /// Sites of which no kernel has a table.
    pub never: &'static [Site],
    /// Between text and init text there is code without names, which runs by its physical address only.
    pub has_hidden_code: bool,
    /// Functions of this ISA alone that read or write any text.
    pub patchers: &'static [&'static str],
    /// Such that read text where they mean something else.
    pub stray_readers: &'static [&'static str],
    /// What sites begin with.
    pub looks: Looks,
    /// Instructions' worth of a range of text that are data which the code reads; one may be told twice.
    pub data_in_text: fn(&Kernel, &Range<u64>) -> Vec<u64>,
}

/// What the sites of an ISA begin with, in a kernel that has not run.
#[derive(Debug)]
pub struct Looks {
    /// A call of the tracer at the start of a function.
    pub traced: fn(&[u8]) -> bool,
    /// A jump label.
    pub jump_label: fn(&[u8]) -> bool,
    /// The trap of a BUG() or WARN().
    pub bug: fn(&[u8]) -> bool,
    /// What is in the exception table, where a row has nothing behind its two addresses.
    pub may_fault: fn(&[u8]) -> bool,
    /// The distance from the site to where a static call's call or jump goes.
    pub static_call: fn(&[u8]) -> Option<i64>,
}

impl Marks {
    /// Bytes of a row of the table of jump labels: the site, where it jumps to, and its key.
    pub fn jump_label_row(&self, word: usize) -> usize {
        2 * self.form.bytes(word) + self.form.key_bytes(word)
    }

    /// Bytes of a row of the table of traps: the site, its file's name, its line and its flags of two bytes each.
    pub fn bug_row(&self, word: usize) -> usize {
        2 * self.form.bytes(word) + 4
    }
}

/// Bytes of a row of the table of static calls: two distances, of the call and of its key.
pub const STATIC_CALL_ROW: usize = 8;
/// Bytes of a row of the table of lock prefixes: a distance.
pub const SMP_LOCK_ROW: usize = 4;

impl Form {
    /// Bytes of such a field where a word has `word`.
    pub const fn bytes(self, word: usize) -> usize {
        match self {
            Form::Relative | Form::Low => 4,
            Form::Absolute => word,
        }
    }

    /// Bytes of the key of a jump label: a distance has all that a word can hold.
    pub const fn key_bytes(self, word: usize) -> usize {
        match self {
            Form::Relative | Form::Absolute => word,
            Form::Low => 4,
        }
    }
}

/// How an address stands in a row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A 32-bit distance from the field itself.
    Relative,
    /// A word.
    Absolute,
    /// The lower half of a word whose upper half is 0.
    Low,
}

/// Where a table or an area of code lies: its two symbols, or its section, or what is in it.
#[derive(Debug)]
pub struct Bounds {
    /// The symbol in front.
    pub start: &'static str,
    /// The symbol behind it.
    pub end: &'static str,
    /// Its section in an ELF file; empty: it has none of its own.
    pub section: &'static str,
    /// How it is found by what is in it.
    pub search: Option<Search>,
}

/// Looks for a table that has no name.
pub type Search = fn(&Finder<'_>) -> Option<Range<u64>>;

/// Those that only a name tells.
pub const fn bounds(start: &'static str, end: &'static str, section: &'static str) -> Bounds {
    Bounds { start, end, section, search: None }
}

impl Bounds {
    /// Or, without a name, what is in it.
    pub const fn or(self, search: Search) -> Bounds {
        Bounds { search: Some(search), ..self }
    }
}

/// The code of system calls and exceptions up to where C begins.
pub const ENTRY_TEXT: Bounds = bounds("__entry_text_start", "__entry_text_end", ".entry.text");
/// The C functions that interrupts enter by.
pub const IRQENTRY_TEXT: Bounds = bounds("__irqentry_text_start", "__irqentry_text_end", ".irqentry.text");
/// Code that runs where virtual and physical addresses are the same.
pub const IDMAP_TEXT: Bounds = bounds("__idmap_text_start", "__idmap_text_end", ".idmap.text");

/// The instructions of an ISA whose own are all of 4 bytes.
pub fn words(order: ByteOrder, bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(move |word| order.number(word) as u32)
}
