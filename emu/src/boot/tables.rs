//! Reads a kernel's own tables about its text: its bounds, the blacklist of kprobes, and the places that the kernel
//! patches itself.
//!
//! Each table is found by the symbols that Linux's linker script puts around it, or by its ELF section, or, if an image
//! has neither, by its content. A missing table is empty. Formats are those of Linux 6.1 (include/asm-generic/bug.h,
//! arch/x86's extable.h, jump_label.h, static_call_types.h); the blacklist follows kernel/kprobes.c's
//! populate_kprobe_blacklist.

use super::Kernel;
use super::kernels;
use super::marks::{Bounds, Form, Marks, SMP_LOCK_ROW, STATIC_CALL_ROW, bounds};
use super::unnamed::Finder;
use crate::symbols::Symbols;
use std::collections::BTreeMap;
use std::ops::Range;
use trapline_isa::entry::callee;
use trapline_probes::guest::{Blacklisted, Site};

/// The tables of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The code that stays after the boot.
    pub text: Range<u64>,
    /// The code that is freed at the end of the boot.
    pub init_text: Option<Range<u64>>,
    /// All memory that is freed at the end of the boot, code and data.
    pub init: Option<Range<u64>>,
    /// Instructions that may fault, with their fixups; sorted by instruction.
    pub exceptions: Vec<Exception>,
    /// The addresses of the fixups, sorted.
    pub fixups: Vec<u64>,
    /// The thunks through which indirect jumps are made.
    pub indirect_thunks: Range<u64>,
    /// Code that must not be probed, in the order of the kernel's own list.
    pub blacklist: Vec<Blacklisted>,
    /// Addresses that the kernel itself patches or depends on.
    pub sites: BTreeMap<u64, Site>,
    /// The rows of the table of jump labels, in its order.
    pub jump_labels: Vec<JumpLabel>,
    /// Names of tables that this kernel may have and that were not found, so that their content is unknown.
    pub missing: Vec<&'static str>,
}

/// A row of the table of jump labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpLabel {
    /// The address of the instruction that is patched.
    pub code: u64,
    /// The target of the jump.
    pub target: u64,
    /// The address of the static key.
    pub key: u64,
}

/// A row of the exception table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// The address of the instruction that may fault.
    pub instruction: u64,
    /// The address at which execution continues.
    pub fixup: u64,
}

/// Limit for the number of listed functions, each of which gets a copy of its name.
const MOST_LISTED: usize = 1 << 16;
/// Limit for the exit text behind an image's init text.
const MOST_EXIT_TEXT: u64 = 0x4_0000;

const EXCEPTIONS: Bounds = bounds("__start___ex_table", "__stop___ex_table", "__ex_table").or(|finder| finder.exceptions());
const BLACKLIST: Bounds =
    bounds("__start_kprobe_blacklist", "__stop_kprobe_blacklist", "_kprobe_blacklist").or(|finder| finder.kprobe_blacklist());
const KPROBES_TEXT: Bounds = bounds("__kprobes_text_start", "__kprobes_text_end", ".kprobes.text");
const NOINSTR_TEXT: Bounds = bounds("__noinstr_text_start", "__noinstr_text_end", ".noinstr.text");
const INIT_TEXT: Bounds = bounds("_sinittext", "_einittext", ".init.text");
const INIT: Bounds = bounds("__init_begin", "__init_end", "");
const INDIRECT_THUNKS: Bounds = bounds("__indirect_thunk_start", "__indirect_thunk_end", "");
const TEXT: Bounds = bounds("_stext", "_etext", ".text");

/// The range of the thunks if no symbol marks their end: in a kernel whose text ends with them, only `_etext` does.
fn thunks_by_name(symbols: &Symbols, text: &Range<u64>) -> Option<Range<u64>> {
    let start = symbols.address_of(INDIRECT_THUNKS.start)?;
    let thunks = symbols.extents(start..text.end).into_iter().take_while(|symbol| symbol.name.contains("indirect_thunk"));
    thunks.last().map(|last| start..last.start + last.size)
}

/// The size of a row, from the ISA's marks and its word size.
type RowSize = fn(&Marks, usize) -> usize;

/// The tables of sites: bounds, the kind of site, and the size of a row; a row's first field is the site's address. If
/// two tables name one address, the first table counts.
#[rustfmt::skip]
const SITES: &[(Bounds, Site, RowSize)] = &[
    (bounds("__start___jump_table", "__stop___jump_table", "__jump_table").or(|finder| finder.jump_labels()),
                                                                        Site::JumpLabel,  Marks::jump_label_row),
    (bounds("__start_static_call_sites", "__stop_static_call_sites", ".static_call_sites").or(|finder| finder.static_calls()),
                                                                        Site::StaticCall, |_, _| STATIC_CALL_ROW),
    (bounds("__start___bug_table", "__stop___bug_table", "__bug_table").or(|finder| finder.bugs()),
                                                                        Site::Bug,        Marks::bug_row),
    (bounds("__smp_locks", "__smp_locks_end", ".smp_locks"),            Site::SmpLock,    |_, _| SMP_LOCK_ROW),
    (bounds("__start_mcount_loc", "__stop_mcount_loc", "__mcount_loc").or(|finder| finder.ftrace_sites()),
                                                                        Site::Ftrace,     |_, word| word),
];

/// Code that the kernel copies to another place and runs there, by its first symbol and the symbol behind it: the detours of
/// its own kprobes, ARM's helpers for user programs and its vectors, a hypervisor's replacements, ftrace's trampolines on
/// z/Architecture. A breakpoint in it would be copied, too.
const COPIED: [(&str, &str); 7] = [
    ("optprobe_template_entry", "optprobe_template_end"),
    ("__kuser_helper_start", "__kuser_helper_end"),
    ("__vectors_start", "__vectors_end"),
    ("__stubs_start", "__stubs_end"),
    ("kvm_template_start", "kvm_template_end"),
    ("ftrace_shared_hotpatch_trampoline_br", "ftrace_shared_hotpatch_trampoline_br_end"),
    ("ftrace_shared_hotpatch_trampoline_exrl", "ftrace_shared_hotpatch_trampoline_exrl_end"),
];
/// The most bytes between two such symbols.
const MOST_COPIED: u64 = 1 << 16;

/// The addresses of the code that a kernel copies.
fn copied_code(kernel: &Kernel) -> impl Iterator<Item = u64> {
    let step = kernel.arch.isa().alignment.max(1) as usize;
    COPIED.iter().flat_map(move |(start, end)| {
        let at = |name: &str| kernel.symbols.address_of(name);
        let range = at(start).zip(at(end)).map_or(0..0, |(start, end)| start..end.min(start.saturating_add(MOST_COPIED)));
        range.step_by(step)
    })
}

impl Tables {
    /// Whether ftrace has a site in this range; `None` if no site of ftrace is known at all.
    pub fn is_traced(&self, range: Range<u64>) -> Option<bool> {
        let is_one = |(_, site): (&u64, &Site)| *site == Site::Ftrace;
        self.sites.iter().any(is_one).then(|| self.sites.range(range).any(is_one))
    }

    /// Reads the tables of a kernel.
    pub fn of(kernel: &Kernel) -> Tables {
        let marks = kernels::of(kernel.arch).marks;
        let mut reader = Reader { kernel, marks, word: kernel.arch.isa().word, finder: None, missing: Vec::new() };
        let text = reader.range(&TEXT).unwrap_or_else(|| reader.executable());
        let mut tables = Tables { text, init_text: reader.range(&INIT_TEXT), init: reader.range(&INIT), ..Tables::default() };
        // Symbols without `_end` are those of the code only (CONFIG_KALLSYMS_ALL is off).
        let named = |name: &str| kernel.symbols.address_of(name).is_some();
        if named(TEXT.start) && !named("_end") {
            // A raw image has no sections: the text that only the removal of modules needs follows its init text.
            let end = tables.init_text.as_ref().map(|range| range.end);
            let exit_text = kernel.section(".exit.text").or(end.map(|end| end..end.saturating_add(MOST_EXIT_TEXT)));
            let more = [tables.init_text.clone(), exit_text];
            let code = [tables.text.clone()].into_iter().chain(more.into_iter().flatten()).collect();
            reader.finder = Some(Finder::new(kernel, &kernel.symbols, code));
        }
        tables.exceptions = reader.exceptions();
        tables.exceptions.sort_by_key(|row| row.instruction);
        tables.fixups = tables.exceptions.iter().map(|row| row.fixup).collect();
        tables.fixups.sort_unstable();
        let thunks = reader.range(&INDIRECT_THUNKS).or_else(|| thunks_by_name(&kernel.symbols, &tables.text));
        tables.indirect_thunks = thunks.unwrap_or_default();
        tables.blacklist = blacklist(&mut reader, &kernel.symbols, &tables);
        for (bounds, site, row) in SITES.iter().filter(|(_, site, _)| !marks.never.contains(site)) {
            let size = row(marks, reader.word);
            let mut rows: Vec<(u64, &[u8])> = reader.rows(bounds, size).collect();
            if *site == Site::Bug && reader.traps_in(&rows) < rows.len().min(SAMPLE) {
                rows = reader.longer_rows_of_bugs(rows, size);
            }
            let form = match site {
                Site::Ftrace => Form::Absolute,
                Site::Bug => reader.form_of_bugs(&rows),
                _ => reader.marks.form,
            };
            let place = |row: u64| if *site == Site::Ftrace { (marks.ftrace_site)(kernel, row) } else { row };
            for (at, row) in rows {
                let Some(address) = reader.field(at, row, 0, form) else { continue };
                tables.sites.entry(place(address)).or_insert(*site);
                if *site == Site::JumpLabel {
                    tables.jump_labels.extend(reader.jump_label(at, row, form));
                }
            }
        }
        for text in [Some(&tables.text), tables.init_text.as_ref()].into_iter().flatten() {
            for address in (marks.data_in_text)(kernel, text) {
                tables.sites.entry(address).or_insert(Site::Data);
            }
        }
        for address in copied_code(kernel).filter(|address| tables.is_text(*address)).collect::<Vec<u64>>() {
            tables.sites.entry(address).or_insert(Site::Data);
        }
        tables.missing = reader.missing;
        tables
    }

    /// The address of the first instruction in a range that may fault.
    pub fn expected_fault(&self, range: &Range<u64>) -> Option<u64> {
        let first = self.exceptions.partition_point(|row| row.instruction < range.start);
        self.exceptions.get(first).map(|row| row.instruction).filter(|at| range.contains(at))
    }

    /// The first fixup in a range.
    pub fn fixup(&self, range: &Range<u64>) -> Option<u64> {
        let first = self.fixups.partition_point(|at| *at < range.start);
        self.fixups.get(first).copied().filter(|at| range.contains(at))
    }

    /// Whether an address is in the text, including init text.
    pub fn is_text(&self, address: u64) -> bool {
        self.text.contains(&address) || self.init_text.as_ref().is_some_and(|range| range.contains(&address))
    }
}

/// The kernel's blacklist in its own order: NOKPROBE_SYMBOL functions, `.kprobes.text`, `.noinstr.text`, and the ISA's
/// areas; then areas that the kernel does not list.
fn blacklist(reader: &mut Reader<'_>, symbols: &Symbols, tables: &Tables) -> Vec<Blacklisted> {
    let mut list = Vec::new();
    let listed = |symbol: trapline_probes::guest::Symbol| Blacklisted {
        range: symbol.start..symbol.start + symbol.size,
        name: symbol.name,
        listed: true,
    };
    let rows = reader.rows(&BLACKLIST, reader.word);
    let (kernel, isa) = (reader.kernel, reader.kernel.arch.isa());
    let word = |at: u64| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..isa.word];
        kernel.read(at, bytes).is_ok().then(|| isa.order.number(bytes))
    };
    let pointers = rows.filter_map(|(at, row)| reader.field(at, row, 0, Form::Absolute));
    let functions = pointers
        .take(MOST_LISTED)
        .filter_map(|pointer| callee(isa, pointer, |code| tables.is_text(code), word))
        .map(|callee| callee.code);
    list.extend(
        functions.filter(|address| tables.is_text(*address)).filter_map(|address| symbols.containing(address)).map(listed),
    );
    let Marks { listed_areas, unlisted_areas, .. } = reader.marks;
    for bounds in [&KPROBES_TEXT, &NOINSTR_TEXT].into_iter().chain(*listed_areas) {
        let Some(range) = reader.range(bounds) else { continue };
        let inside = symbols.extents(range.clone());
        match inside.is_empty() {
            false => list.extend(inside.into_iter().map(listed)),
            true => list.push(unlisted_area(bounds, range)),
        }
    }
    list.extend(unlisted_areas.iter().filter_map(|bounds| Some(unlisted_area(bounds, reader.range(bounds)?))));
    list
}

fn unlisted_area(bounds: &Bounds, range: Range<u64>) -> Blacklisted {
    Blacklisted { range, name: bounds.section.to_string(), listed: false }
}

/// The number of rows of the bug table that are read to find the size of a row.
const SAMPLE: usize = 64;

struct Reader<'a> {
    kernel: &'a Kernel,
    marks: &'static Marks,
    word: usize,
    /// Finds tables without symbols, in kernels that have symbols of code only.
    finder: Option<Finder<'a>>,
    /// The tables that it did not find.
    missing: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// The range of a table, if it exists and is not empty.
    fn range(&self, bounds: &Bounds) -> Option<Range<u64>> {
        let symbols = &self.kernel.symbols;
        let by_symbols = match (symbols.address_of(bounds.start), symbols.address_of(bounds.end)) {
            (Some(start), Some(end)) => Some(start..end),
            _ => self.kernel.section(bounds.section),
        };
        by_symbols.filter(|range| range.start < range.end)
    }

    /// The text of a kernel without symbols: everything marked as code, limited to the kernel's half of the address
    /// space if any code is there.
    fn executable(&self) -> Range<u64> {
        let half = 1 << (self.word * 8 - 1);
        let code = || self.kernel.segments.iter().filter(|segment| segment.executable);
        let upper = code().any(|segment| segment.virtual_address >= half);
        let counted = || code().filter(|segment| !upper || segment.virtual_address >= half);
        let start = counted().map(|segment| segment.range().start).min();
        let end = counted().map(|segment| segment.range().end).max();
        start.zip(end).map_or(0..0, |(start, end)| start..end)
    }

    /// The rows of a table with their addresses, as far as the file holds them.
    fn rows(&mut self, bounds: &Bounds, size: usize) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let named = self.range(bounds);
        let range = named.or_else(|| bounds.search.and_then(|search| self.finder.as_ref().and_then(search)));
        if range.is_none() && self.finder.is_some() {
            self.missing.push(bounds.section);
        }
        let range = range.unwrap_or(0..0);
        let bytes = self.kernel.held(&range).unwrap_or_default();
        bytes.chunks_exact(size).enumerate().map(move |(number, row)| (range.start + (number * size) as u64, row))
    }

    /// The address in a field of a row.
    fn field(&self, at: u64, row: &[u8], offset: usize, form: Form) -> Option<u64> {
        let mask = u64::MAX >> (64 - self.word * 8);
        let order = self.kernel.arch.isa().order;
        Some(match form {
            Form::Relative => {
                let distance = order.number(row.get(offset..offset + 4)?) as i32;
                at.wrapping_add(offset as u64).wrapping_add_signed(distance.into()) & mask
            }
            Form::Absolute | Form::Low => order.number(row.get(offset..offset + form.bytes(self.word))?),
        })
    }

    /// Reads the code, target and key addresses; the lowest bits of the key are flags.
    fn jump_label(&self, at: u64, row: &[u8], form: Form) -> Option<JumpLabel> {
        let (code, key_at) = (self.field(at, row, 0, form)?, row.len().checked_sub(form.key_bytes(self.word))?);
        let target = self.field(at, row, key_at / 2, form)?;
        let value = self.kernel.arch.isa().order.number(row.get(key_at..)?);
        let mask = u64::MAX >> (64 - self.word * 8);
        let key = match form {
            Form::Relative => at.wrapping_add(key_at as u64).wrapping_add(value) & mask,
            Form::Absolute | Form::Low => value,
        };
        Some(JumpLabel { code, target, key: key & !3 })
    }

    /// The form of addresses in the bug table (`__bug_table`), found from its first row: 32-bit x86 uses relative addresses
    /// in all tables but this.
    fn form_of_bugs(&self, rows: &[(u64, &[u8])]) -> Form {
        let marks = self.marks;
        let is_trap = |form: &Form| {
            let mut bytes = [0; 8];
            let site = rows.first().and_then(|(at, row)| self.field(*at, row, 0, *form));
            site.is_some_and(|site| self.kernel.read(site, &mut bytes).is_ok() && (marks.looks.bug)(&bytes))
        };
        [marks.form, Form::Absolute].into_iter().find(is_trap).unwrap_or(marks.form)
    }

    /// The number of rows among the first [`SAMPLE`] of the bug table whose address has a trap.
    fn traps_in(&self, rows: &[(u64, &[u8])]) -> usize {
        let form = self.form_of_bugs(rows);
        let is_trap = |(at, row): &&(u64, &[u8])| {
            let mut bytes = [0; 8];
            let site = self.field(*at, row, 0, form);
            site.is_some_and(|site| self.kernel.read(site, &mut bytes).is_ok() && (self.marks.looks.bug)(&bytes))
        };
        rows.iter().take(SAMPLE).filter(is_trap).count()
    }

    /// The bug table's rows, read again with one more address in each: kernels 7.x add the format of the message. The
    /// given rows are returned if the longer ones do not find more traps.
    fn longer_rows_of_bugs(&self, rows: Vec<(u64, &'a [u8])>, size: usize) -> Vec<(u64, &'a [u8])> {
        let Some((start, _)) = rows.first() else { return rows };
        let longer = size + self.form_of_bugs(&rows).bytes(self.word);
        let range = *start..*start + (rows.len() * size) as u64;
        let bytes = self.kernel.held(&range).unwrap_or_default();
        let other = bytes.chunks_exact(longer).enumerate().map(|(number, row)| (start + (number * longer) as u64, row));
        let other: Vec<_> = other.collect();
        if self.traps_in(&other) > self.traps_in(&rows) { other } else { rows }
    }

    fn exceptions(&mut self) -> Vec<Exception> {
        let form = self.marks.form;
        let rows = self.rows(&EXCEPTIONS, self.marks.exception_row);
        let row = |(at, row): (u64, &[u8])| {
            let instruction = self.field(at, row, 0, form)?;
            let fixup = self.field(at, row, form.bytes(self.word), form)?;
            Some(Exception { instruction, fixup })
        };
        rows.filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Entry;

    /// OP-2: jumps through thunks are indirect jumps also where nothing names the end of the thunks.
    #[test]
    fn thunks_at_the_end_of_the_text_are_found_by_their_names() {
        const NAMES: [(u64, &str); 5] = [
            (0x1000, "main"),
            (0x1100, "__indirect_thunk_start"),
            (0x1110, "__x86_indirect_thunk_eax"),
            (0x1130, "__x86_indirect_thunk_ecx"),
            (0x1150, "_etext"),
        ];
        let entry = |(address, name): (u64, &str)| Entry { address, name: name.into(), kind: 'T', module: None };
        let symbols = |names: &[(u64, &str)]| Symbols::new(names.iter().copied().map(entry).collect());
        assert_eq!(thunks_by_name(&symbols(&NAMES), &(0x1000..0x1150)), Some(0x1100..0x1150));
        assert_eq!(thunks_by_name(&symbols(&NAMES[..1]), &(0x1000..0x1150)), None);
    }
}
