//! Finds tables by their content if no symbol and no section gives their bounds.
//!
//! A kernel without CONFIG_KALLSYMS_ALL has no symbols of data, and these tables lie inside larger sections. Each row
//! holds the address of code that begins with certain bytes, and the rows are contiguous: the longest run of such rows
//! is taken for the table. The bytes are given by the ISA ([`Marks`]).

use super::kernels;
use super::marks::{Form, Marks, STATIC_CALL_ROW};
use super::{Kernel, Segment};
use crate::symbols::Symbols;
use std::cell::OnceCell;
use std::ops::Range;
use trapline_isa::arch::Isa;

/// A shorter run of rows may occur by chance.
const FEWEST_ROWS: usize = 16;

/// Alignment of the rows of every table.
const ALIGNMENT: u64 = 8;

/// Positions of fields that hold an address of code: the index of a piece of data, and the offset in it.
type Places = Vec<(usize, usize)>;

/// Searches an image for tables.
pub struct Finder<'a> {
    kernel: &'a Kernel,
    symbols: &'a Symbols,
    isa: &'static Isa,
    word: usize,
    code: Vec<Range<u64>>,
    /// The addresses from the start of the first segment to the end of the last.
    around_all: Range<u64>,
    /// The data in which tables may be, that is, all but the text: addresses and bytes.
    data: Vec<(u64, &'a [u8])>,
    marks: &'static Marks,
    /// The bounds of the table of ftrace sites, after the first search.
    ftrace_sites: OnceCell<Option<Range<u64>>>,
    /// Positions of relative addresses, words and half words that name code, each after the first search.
    places: [OnceCell<Places>; 3],
}

impl<'a> Finder<'a> {
    /// A finder for this kernel, whose code lies in these ranges.
    pub fn new(kernel: &'a Kernel, symbols: &'a Symbols, code: Vec<Range<u64>>) -> Finder<'a> {
        let isa = kernel.arch.isa();
        // If the end of the text is only guessed, tables may lie inside, so nothing is left out.
        let text = code.first().filter(|text| symbols.address_of("_etext") == Some(text.end)).cloned().unwrap_or_default();
        let data = kernel.segments.iter().flat_map(|segment| beside(segment, &text)).collect();
        let marks = kernels::of(kernel.arch).marks;
        let around_all = around(kernel.segments.iter().map(Segment::range));
        Finder {
            kernel,
            symbols,
            isa,
            word: isa.word,
            code,
            around_all,
            data,
            marks,
            ftrace_sites: OnceCell::new(),
            places: Default::default(),
        }
    }

    /// Finds the exception table: an instruction, its fixup, and, after relative addresses, one of a few handler types.
    pub fn exceptions(&self) -> Option<Range<u64>> {
        const WAYS: Range<u64> = 1..32;
        let address = self.marks.form.bytes(self.word);
        let order = self.isa.order;
        self.longest(self.marks.exception_row, self.marks.form, |at, row| {
            let faults = self.field(at, row, 0).is_some_and(|site| self.begins(site, self.marks.looks.may_fault));
            let goes_on = || self.field(at, row, address).is_some_and(|address| self.is_code(address));
            let way = || row.get(2 * address..2 * address + 2).is_none_or(|way| WAYS.contains(&order.number(way)));
            faults && goes_on() && way()
        })
    }

    /// Finds the bug table: rows of the trap's address, the file's name and the line. Its addresses are relative, or
    /// absolute on 32-bit x86 (only in this table). Some traps are in exit text, whose bounds are unknown here, so the
    /// trap may be anywhere in the image.
    pub fn bugs(&self) -> Option<Range<u64>> {
        let is_bug = |site: Option<u64>| site.is_some_and(|site| self.looks_like(site, self.marks.looks.bug));
        let size = self.marks.bug_row(self.word);
        let distances = self.longest(size, Form::Relative, |at, row| is_bug(self.relative(at, row, 0)));
        let addresses = self.longest(size, Form::Absolute, |_, row| is_bug(self.absolute(row)));
        distances.into_iter().chain(addresses).max_by_key(|range| range.end - range.start)
    }

    /// Finds the table of ftrace sites: addresses of calls of `__fentry__`, or of the nops in their place.
    pub fn ftrace_sites(&self) -> Option<Range<u64>> {
        let look = || {
            self.longest(self.word, Form::Absolute, |_, row| {
                self.absolute(row).is_some_and(|site| self.begins(site, self.marks.looks.traced))
            })
        };
        self.ftrace_sites.get_or_init(look).clone()
    }

    /// Finds the table of jump labels: a jump or nop, its target and its key.
    pub fn jump_labels(&self) -> Option<Range<u64>> {
        let address = self.marks.form.bytes(self.word);
        self.longest(self.marks.jump_label_row(self.word), self.marks.form, |at, row| {
            let site = self.field(at, row, 0).is_some_and(|site| self.begins(site, self.marks.looks.jump_label));
            let target = || self.field(at, row, address).is_some_and(|target| self.is_code(target));
            let key = || {
                const FLAGS: u64 = 3;
                let value = self.signed(row.get(2 * address..2 * address + self.marks.form.key_bytes(self.word))?);
                let from = if self.marks.form == Form::Relative { at + 2 * address as u64 } else { 0 };
                let key = from.wrapping_add_signed(value) & self.mask() & !FLAGS;
                Some(self.kernel.segment_at(key).is_some() && !self.is_code(key))
            };
            site && target() && key() == Some(true)
        })
    }

    /// Finds the table of static calls: a call or jump to a static call's trampoline, and its key.
    pub fn static_calls(&self) -> Option<Range<u64>> {
        self.longest(STATIC_CALL_ROW, Form::Relative, |at, row| {
            let goes_to_one = |site: u64| {
                let mut bytes = [0; 8];
                self.kernel.read(site, &mut bytes).ok()?;
                let target = site.wrapping_add_signed((self.marks.looks.static_call)(&bytes)?) & self.mask();
                let name = self.symbols.containing(target).filter(|symbol| symbol.start == target)?.name;
                Some(name.starts_with("__SCT__"))
            };
            self.relative(at, row, 0).filter(|site| self.is_code(*site)).and_then(goes_to_one) == Some(true)
        })
    }

    /// Finds the blacklist of kprobes: addresses of functions, among them one that every kernel lists.
    pub fn kprobe_blacklist(&self) -> Option<Range<u64>> {
        let member = self.symbols.address_of("get_kprobe")?;
        let is_function = |address: u64| match self.is_code(address) {
            true => self.symbols.containing(address).is_some_and(|symbol| symbol.start == address),
            false => self.is_hidden_code(address),
        };
        // The table of ftrace sites is a run of addresses of functions, too.
        let traced = self.ftrace_sites().unwrap_or(0..0);
        let is_row = |at: u64, row: &[u8]| !traced.contains(&at) && self.absolute(row).is_some_and(is_function);
        let holds_it = |(piece, offset): &&(usize, usize)| {
            self.data[*piece].1.get(*offset..).and_then(|row| self.absolute(row)) == Some(member)
        };
        let found = self.places(Form::Absolute).iter().filter(holds_it);
        // The fields are sorted by address. A field inside the last run found would lead to the same run again, so it
        // is skipped.
        let mut seen = (usize::MAX, 0);
        let mut longest: Option<Range<u64>> = None;
        for (piece, offset) in found {
            if seen.0 == *piece && *offset < seen.1 {
                continue;
            }
            let Some(run) = self.run_around(*piece, *offset, 0, self.word, &is_row) else { continue };
            seen = (*piece, run.end);
            let run = self.addresses(*piece, run);
            if longest.as_ref().is_none_or(|other| other.end - other.start <= run.end - run.start) {
                longest = Some(run);
            }
        }
        let mut table = longest?;
        // The error injection list follows the blacklist. A row of it is a function and a small number, the kind of error.
        // If a small number follows the run, the run's last function belongs to that list.
        const KINDS_OF_FAILURE: Range<u64> = 1..8;
        let next = self.kernel.held(&(table.end..table.end + self.word as u64)).and_then(|word| self.absolute(word));
        if next.is_some_and(|kind| KINDS_OF_FAILURE.contains(&kind)) {
            table.end -= self.word as u64;
        }
        Some(table)
    }

    /// The longest run of such rows. At least one row holds a code address of this form in its first field.
    fn longest(&self, size: usize, form: Form, is_row: impl Fn(u64, &[u8]) -> bool) -> Option<Range<u64>> {
        let mut longest: Option<(usize, Range<usize>)> = None;
        let mut seen = (0, 0);
        for (piece, offset) in self.places(form) {
            let from = if seen.0 == *piece { seen.1 } else { 0 };
            let run = if *offset < from { None } else { self.run_around(*piece, *offset, from, size, &is_row) };
            let Some(run) = run else { continue };
            seen = (*piece, run.end);
            if longest.as_ref().is_none_or(|(_, other)| other.len() <= run.len()) {
                longest = Some((*piece, run));
            }
        }
        let (piece, run) = longest.filter(|(_, run)| run.len() >= FEWEST_ROWS * size)?;
        Some(self.addresses(piece, run))
    }

    /// The run of rows around this one, none of them before `from`.
    fn run_around(
        &self,
        piece: usize,
        offset: usize,
        from: usize,
        size: usize,
        is_row: &impl Fn(u64, &[u8]) -> bool,
    ) -> Option<Range<usize>> {
        let (address, bytes) = self.data[piece];
        let row_at = |at: usize| {
            let row = bytes.get(at..at + size).filter(|row| !is_blank(row));
            row.is_some_and(|row| is_row(address.wrapping_add(at as u64), row))
        };
        if !row_at(offset) {
            return None;
        }
        let mut run = offset..offset + size;
        while run.start >= from + size && row_at(run.start - size) {
            run.start -= size;
        }
        while row_at(run.end) {
            run.end += size;
        }
        Some(run)
    }

    fn addresses(&self, piece: usize, range: Range<usize>) -> Range<u64> {
        let from = self.data[piece].0;
        from + range.start as u64..from + range.end as u64
    }

    /// The positions in the data where a field of this form holds an address of code: few of many, found once for all
    /// tables.
    fn places(&self, form: Form) -> &Places {
        let [distances, words, halves] = &self.places;
        match (form, self.word) {
            (Form::Relative, _) => {
                distances.get_or_init(|| self.naming_code::<4>(|at, field| at.wrapping_add_signed((field as i32).into())))
            }
            (Form::Absolute, 8) => words.get_or_init(|| self.naming_code::<8>(|_, field| field)),
            (Form::Absolute | Form::Low, _) => halves.get_or_init(|| self.naming_code::<4>(|_, field| field)),
        }
    }

    fn naming_code<const SIZE: usize>(&self, address_of: impl Fn(u64, u64) -> u64) -> Places {
        let (mask, order) = (self.mask(), self.isa.order);
        let around = around(self.code.iter().cloned());
        let (from, length) = (around.start, around.end.saturating_sub(around.start));
        let mut places = Places::new();
        for (piece, (start, bytes)) in self.data.iter().enumerate() {
            for (number, field) in bytes.chunks_exact(SIZE).enumerate() {
                let (offset, field) = (number * SIZE, order.number(field));
                let address = address_of(start.wrapping_add(offset as u64), field) & mask;
                if field != 0 && address.wrapping_sub(from) < length && self.is_code(address) {
                    places.push((piece, offset));
                }
            }
        }
        places
    }

    fn begins(&self, site: u64, looks: fn(&[u8]) -> bool) -> bool {
        self.is_code(site) && self.looks_like(site, looks)
    }

    fn looks_like(&self, site: u64, looks: fn(&[u8]) -> bool) -> bool {
        const BYTES: usize = 8;
        if !self.around_all.contains(&site) || !site.is_multiple_of(self.isa.alignment) {
            return false;
        }
        if let Some(bytes) = self.kernel.held(&(site..site.saturating_add(BYTES as u64))) {
            return looks(bytes);
        }
        let mut bytes = [0; BYTES];
        self.kernel.read(site, &mut bytes).is_ok() && looks(&bytes)
    }

    #[inline]
    fn is_code(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    fn is_hidden_code(&self, address: u64) -> bool {
        let [text, init_text, ..] = &self.code[..] else { return false };
        self.marks.has_hidden_code && (text.end..init_text.start).contains(&address) && address.is_multiple_of(4)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.word * 8)
    }

    /// The address in a field that holds a signed 32-bit distance from itself.
    fn relative(&self, at: u64, row: &[u8], offset: usize) -> Option<u64> {
        let distance = self.signed(row.get(offset..offset + 4)?);
        Some((at + offset as u64).wrapping_add_signed(distance) & self.mask())
    }

    /// The address in a field of a row, in the form that this kernel's tables have.
    fn field(&self, at: u64, row: &[u8], offset: usize) -> Option<u64> {
        match self.marks.form {
            Form::Relative => self.relative(at, row, offset),
            Form::Absolute => self.absolute(row.get(offset..)?),
            Form::Low => row.get(offset..offset + 4).map(|half| self.kernel.arch.isa().order.number(half)),
        }
    }

    fn absolute(&self, row: &[u8]) -> Option<u64> {
        row.get(..self.word).map(|word| self.signed(word) as u64 & self.mask())
    }

    /// Sign-extends a number of 4 or 8 bytes.
    fn signed(&self, bytes: &[u8]) -> i64 {
        let number = self.isa.order.number(bytes);
        if bytes.len() == 4 { i64::from(number as i32) } else { number as i64 }
    }
}

/// Whether a row begins with eight zero bytes, or consists of zeros if it is shorter. A blank row belongs to no table: an
/// absolute address is not 0, and two relative addresses side by side are not both 0. Large parts of an image are zero,
/// so this check comes first.
fn is_blank(row: &[u8]) -> bool {
    row.first_chunk::<8>().map_or_else(|| row.iter().all(|byte| *byte == 0), |row| u64::from_ne_bytes(*row) == 0)
}

/// The range from the lowest start to the highest end.
fn around(ranges: impl Iterator<Item = Range<u64>>) -> Range<u64> {
    ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end)).unwrap_or_default()
}

/// The bytes of a segment before and after a range.
fn beside<'a>(segment: &'a Segment, range: &Range<u64>) -> [(u64, &'a [u8]); 2] {
    let end = segment.virtual_address.saturating_add(segment.bytes.len() as u64);
    let piece = |from: u64, to: u64| {
        let offset = |address: u64| (address.clamp(segment.virtual_address, end) - segment.virtual_address) as usize;
        (from, segment.bytes.get(offset(from)..offset(to)).unwrap_or_default())
    };
    let behind = range.end.clamp(segment.virtual_address, end).checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
    [piece(segment.virtual_address, range.start), piece(behind, end)]
}

#[cfg(test)]
mod tests {
    use crate::boot::{Kernel, Segment};
    use crate::symbols::{Entry, Symbols};
    use std::ops::Range;
    use trapline_isa::arch::Arch;
    use trapline_probes::guest::Site;

    /// Functions of 64 bytes: a call of ftrace, a nop that is a jump label, a call of a static call's trampoline.
    const FUNCTIONS: u64 = 40;
    const SIZE: u64 = 64;
    const JUMP: u64 = 5;
    const STATIC_CALL: u64 = 10;
    const BUG: u64 = 15;

    struct Image {
        kernel: Kernel,
        mcount: Range<u64>,
        jumps: Range<u64>,
        calls: Range<u64>,
        bugs: Range<u64>,
        blacklist: Range<u64>,
    }

    /// A kernel with symbols of code only, with or without these tables in the middle of its data.
    fn image(arch: Arch, with_tables: bool) -> Image {
        let word = arch.isa().word;
        let (text, data): (u64, u64) =
            if word == 8 { (0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000) } else { (0xc100_0000, 0xc200_0000) };
        let functions = || (0..FUNCTIONS).map(|number| text + number * SIZE);
        let distance = |from: u64, to: u64| (to.wrapping_sub(from) as i32).to_le_bytes();
        let mut code = Vec::new();
        for function in functions() {
            let mut bytes =
                [&[0xe8, 0, 0, 0, 0, 0x0f, 0x1f, 0x44, 0, 0, 0xe8][..], &distance(function + 15, text), &[0x0f, 0x0b]].concat();
            bytes.resize(SIZE as usize, 0xcc);
            code.extend_from_slice(&bytes);
        }

        let mut bytes = vec![0x11; 64];
        // A trap in code outside all symbols.
        bytes[..2].copy_from_slice(&[0x0f, 0x0b]);
        let mut place = |rows: Vec<u8>| {
            let start = data + bytes.len() as u64;
            if with_tables {
                bytes.extend_from_slice(&rows);
            }
            let end = data + bytes.len() as u64;
            bytes.extend_from_slice(&[0; 64]);
            start..end
        };
        let address = |address: u64| address.to_le_bytes()[..word].to_vec();
        let mcount = place(functions().flat_map(address).collect());
        let at = mcount.end + 64;
        let row = |(number, function): (usize, u64)| {
            let row = at + (number * (8 + word)) as u64;
            let key = address(data.wrapping_sub(row + 8));
            [&distance(row, function + JUMP)[..], &distance(row + 4, function + 15), &key].concat()
        };
        let jumps = place(functions().enumerate().flat_map(row).collect());
        let at = jumps.end + 64;
        let row = |(number, function): (usize, u64)| {
            let row = at + 8 * number as u64;
            [distance(row, function + STATIC_CALL), distance(row + 4, data)].concat()
        };
        let calls = place(functions().enumerate().flat_map(row).collect());
        let at = calls.end + 64;
        let row = |(number, function): (usize, u64)| {
            let row = at + 12 * number as u64;
            // The addresses are relative on 64 bits only.
            let trap = if number == 20 { data } else { function + BUG };
            let site = if word == 8 { distance(row, trap) } else { (trap as u32).to_le_bytes() };
            [site, [0x40, 0, 0, 0], [17, 0, 1, 0]].concat()
        };
        let bugs = place(functions().enumerate().flat_map(row).collect());
        // The first function of the error injection list and its kind follow the blacklist.
        let listed = [3, 1, 2, 4].map(|number| text + number * SIZE);
        let mut blacklist = place(listed.into_iter().chain([text, 3]).flat_map(address).collect());
        blacklist.end = blacklist.start + 4 * word as u64;

        let entry = |address: u64, name: &str| Entry { address, name: name.into(), kind: 'T', module: None };
        let mut entries: Vec<Entry> =
            functions().enumerate().map(|(number, address)| entry(address, &format!("function_{number}"))).collect();
        entries[0].name = "__SCT__cond_resched".into();
        entries[1].name = "get_kprobe".into();
        entries.insert(0, entry(text, "_stext"));
        entries.swap(0, 1);
        entries.push(entry(text + FUNCTIONS * SIZE, "_etext"));
        let segment = |virtual_address: u64, bytes: Vec<u8>, executable| Segment {
            physical: virtual_address & 0x0fff_ffff,
            virtual_address,
            size: bytes.len() as u64,
            bytes: bytes.into(),
            executable,
        };
        let segments = vec![segment(text, code, true), segment(data, bytes, false)];
        let kernel = Kernel::from_parts(arch, 0x100_0000, segments, Symbols::in_table_order(entries));
        Image { kernel, mcount, jumps, calls, bugs, blacklist }
    }

    /// KP-15: the blacklist is known also without symbols of data.
    #[test]
    fn tables_are_found_by_their_rows() {
        for arch in [Arch::X86_64, Arch::I386] {
            let Image { kernel, mcount, jumps, calls, bugs, blacklist } = image(arch, true);
            let text = kernel.tables.text.clone();
            let finder = super::Finder::new(&kernel, &kernel.symbols, vec![text.clone()]);
            assert_eq!(finder.ftrace_sites(), Some(mcount), "{arch:?}");
            assert_eq!(finder.jump_labels(), Some(jumps), "{arch:?}");
            assert_eq!(finder.static_calls(), Some(calls), "{arch:?}");
            assert_eq!(finder.bugs(), Some(bugs), "{arch:?}");
            assert_eq!(finder.kprobe_blacklist(), Some(blacklist), "{arch:?}: without the function that may be made to fail");

            let names: Vec<&str> = kernel.tables.blacklist.iter().map(|entry| &*entry.name).collect();
            assert_eq!(names, ["function_3", "get_kprobe", "function_2", "function_4"], "{arch:?}");
            let site = |offset: u64| kernel.tables.sites.get(&(text.start + 7 * SIZE + offset)).copied();
            assert_eq!((site(0), site(JUMP)), (Some(Site::Ftrace), Some(Site::JumpLabel)), "{arch:?}");
            let inline = (arch == Arch::X86_64).then_some(Site::StaticCall);
            assert_eq!(site(STATIC_CALL), inline, "{arch:?}");
            assert_eq!(site(BUG), Some(Site::Bug), "{arch:?}");
            assert_eq!(kernel.tables.missing, ["__ex_table", ".smp_locks"], "{arch:?}");
        }
    }

    /// KP-15: ARM's tables hold absolute addresses, and rows of the exception table hold nothing else.
    #[test]
    fn tables_of_addresses_are_found_by_their_rows() {
        const TEXT: u64 = 0xc010_0000;
        const DATA: u64 = 0xc020_0000;
        // bl; nop; undefined; ldr r0, [r1]; mcr to the caches; ldrex; push; bx lr
        const FUNCTION: [u32; 8] =
            [0xeb00_0010, 0xe320_f000, 0xe7f0_01f2, 0xe591_0000, 0xee07_cf3b, 0xe191_6f9f, 0xe92d_4010, 0xe12f_ff1e];
        const BYTES: u64 = 4 * FUNCTION.len() as u64;
        let functions = || (0..FUNCTIONS).map(|number| TEXT + number * BYTES);
        let code: Vec<u8> = functions().flat_map(|_| FUNCTION).flat_map(u32::to_le_bytes).collect();
        let mut data = vec![0; 64];
        let mut place = |rows: Vec<u64>| {
            let start = DATA + data.len() as u64;
            data.extend(rows.iter().flat_map(|word| (*word as u32).to_le_bytes()));
            let end = DATA + data.len() as u64;
            data.extend([0; 64]);
            start..end
        };
        let mcount = place(functions().collect());
        let jumps = place(functions().flat_map(|at| [at + 4, at + 28, DATA + 1]).collect());
        let bugs = place(functions().flat_map(|at| [at + 8, DATA, 17]).collect());
        // Pairs of functions' addresses, more than there are exceptions: functions begin with a store, too.
        place(functions().chain(functions()).map(|at| at + 24).collect());
        let exceptions =
            place(functions().flat_map(|at| [at + 12, at + 28, at + 16, at + 28, at + 20, at + 28]).take(102).collect());
        let blacklist = place([5, 1, 9].map(|number| TEXT + number * BYTES).into());

        let entry = |address: u64, name: &str| Entry { address, name: name.into(), kind: 'T', module: None };
        let name = |number: usize| if number == 1 { "get_kprobe".into() } else { format!("function_{number}") };
        let named = functions().enumerate().map(|(number, address)| entry(address, &name(number)));
        let entries =
            [entry(TEXT, "_stext")].into_iter().chain(named).chain([entry(TEXT + FUNCTIONS * BYTES, "_etext")]).collect();
        let segment = |virtual_address: u64, bytes: Vec<u8>, executable| {
            let size = bytes.len() as u64;
            Segment { physical: virtual_address & 0x0fff_ffff, virtual_address, size, bytes: bytes.into(), executable }
        };
        let segments = vec![segment(TEXT, code, true), segment(DATA, data, false)];
        let kernel = Kernel::from_parts(Arch::Arm, 0x10_0000, segments, Symbols::in_table_order(entries));

        let finder = super::Finder::new(&kernel, &kernel.symbols, vec![kernel.tables.text.clone()]);
        assert_eq!(finder.ftrace_sites(), Some(mcount), "ftrace");
        assert_eq!(finder.jump_labels(), Some(jumps), "jumps");
        assert_eq!(finder.bugs(), Some(bugs), "bugs");
        assert_eq!(finder.exceptions(), Some(exceptions), "exceptions");
        assert_eq!(finder.kprobe_blacklist(), Some(blacklist), "blacklist");
        let site = |offset: u64| kernel.tables.sites.get(&(TEXT + 7 * BYTES + offset)).copied();
        assert_eq!([0, 4, 8, 12].map(site), [Some(Site::Ftrace), Some(Site::JumpLabel), Some(Site::Bug), None]);
        assert_eq!((kernel.tables.exceptions.len(), kernel.tables.missing.len()), (51, 0));
    }

    /// KP-15: tables that are not found are named.
    #[test]
    fn tables_that_are_not_there_are_named() {
        let kernel = image(Arch::I386, false).kernel;
        assert!(kernel.tables.sites.is_empty() && kernel.tables.blacklist.is_empty());
        let missing = ["__ex_table", "_kprobe_blacklist", "__jump_table", "__bug_table", ".smp_locks", "__mcount_loc"];
        assert_eq!(kernel.tables.missing, missing);
    }
}
