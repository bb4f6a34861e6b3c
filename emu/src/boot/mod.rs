//! A kernel out of a file's bytes: what to load where, where to start, and what its tables say.
//!
//! A pure function of the bytes. Whatever they are, the answer is a kernel or a sentence, never a panic.

pub mod btf;
pub mod dead_ends;
pub mod elf;
pub mod elf_symbols;
pub mod elf_wrapper;
pub mod exports;
pub mod foreign;
pub mod image;
pub mod initramfs;
pub mod kallsyms;
pub mod link_address;
pub mod marks;
pub mod module;
pub mod payload;
pub mod system_calls;
pub mod tables;
pub mod tracepoints;
pub mod unnamed;
pub mod vmlinuz;
pub mod whole;
pub mod zimage;

use crate::arches;
use crate::error::BootError;
use crate::symbols::Symbols;
use payload::Shelf;
use std::ops::Range;
use std::sync::Arc;
use tables::Tables;
use trapline_isa::arch::Arch;
use trapline_isa::entry::{BEGINNING, Beginning, Pointers};
use trapline_isa::mem::Fault;
use trapline_isa::plan::Policy;

/// A kernel, ready to be loaded.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What it runs on.
    pub arch: Arch,
    /// Where execution starts: a physical address.
    pub entry: u64,
    /// What is loaded, by virtual address.
    pub segments: Vec<Segment>,
    /// Its symbols.
    pub symbols: Symbols,
    /// What it says about its own text.
    pub tables: Tables,
    /// What runs first, where the kernel cannot be entered by itself.
    pub starter: Option<Arc<Starter>>,
    sections: Vec<Section>,
}

/// Code of a kernel's file that prepares the machine for it, and then puts it to where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// What is loaded.
    pub bytes: Vec<u8>,
    /// Where: a physical address.
    pub at: u64,
    /// Where it is entered.
    pub entry: u64,
    /// The physical address from which on it finds the kernel.
    pub kernel_at: u64,
}

/// A piece of memory with its first contents; what has no bytes is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is loaded.
    pub physical: u64,
    /// Where the kernel sees it.
    pub virtual_address: u64,
    /// What the file holds of it.
    pub bytes: Vec<u8>,
    /// How much memory it takes, at least as much as there are bytes.
    pub size: u64,
    /// Holds code.
    pub executable: bool,
}

impl Segment {
    /// The addresses at which the kernel sees it.
    pub fn range(&self) -> Range<u64> {
        self.virtual_address..self.virtual_address + self.size
    }

    /// The physical addresses that it takes.
    pub fn loaded(&self) -> Range<u64> {
        self.physical..self.physical + self.size
    }
}

/// A named part of the image. Some tables are found by these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// `__ex_table`, for example.
    pub name: String,
    /// Where the kernel sees it.
    pub range: Range<u64>,
}

/// A function of every Linux and of nobody else: kernels of ours begin in functions that are called as Linux's are.
const OF_EVERY_LINUX: &str = "kernel_init_freeable";

impl Kernel {
    /// The kernel in a file with these bytes: an ELF file, a bzImage, arm64's Image, an ARM zImage, a vmlinuz of
    /// z/Architecture, or one of these compressed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Kernel, BootError> {
        Kernel::from_shelf(&(), bytes)
    }

    /// The same; what is slow to unpack may lie on the shelf, and is put there.
    pub fn from_shelf(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Kernel, BootError> {
        let inner = payload::unpack_from(shelf, bytes, &payload::budget())?;
        let image = image::parse(shelf, &inner).unwrap_or_else(|| elf::parse(&inner))?;
        let tables = Tables::default();
        let kernel = Kernel {
            arch: image.arch,
            entry: image.entry,
            segments: image.segments,
            symbols: Symbols::default(),
            tables,
            starter: image.starter.map(Arc::new),
            sections: image.sections,
        };
        let symbols = match image.symbols.is_empty() {
            true => kallsyms::find(&kernel)?.unwrap_or_default(),
            false => image.symbols,
        };
        Ok(kernel.with_symbols(symbols))
    }

    /// A kernel that no file holds: code made by a program, for tests and experiments.
    pub fn from_parts(arch: Arch, entry: u64, mut segments: Vec<Segment>, symbols: Symbols) -> Kernel {
        segments.sort_by_key(|segment| segment.virtual_address);
        let (tables, sections) = (Tables::default(), Vec::new());
        Kernel { arch, entry, segments, symbols: Symbols::default(), tables, starter: None, sections }.with_symbols(symbols)
    }

    /// What lies in memory in named pieces, as a module does.
    pub fn of_sections(arch: Arch, mut segments: Vec<Segment>, sections: Vec<Section>, symbols: Symbols) -> Kernel {
        segments.sort_by_key(|segment| segment.virtual_address);
        let kernel = Kernel { sections, ..Kernel::from_parts(arch, 0, segments, Symbols::default()) };
        kernel.with_symbols(symbols)
    }

    /// The same kernel with symbols from elsewhere, for an image that was stripped of its own.
    pub fn with_symbols(mut self, symbols: Symbols) -> Kernel {
        self.symbols = symbols;
        self.tables = Tables::of(&self);
        self
    }

    /// Reads memory as it is after loading, by virtual address.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < into.len() {
            let at = address.wrapping_add(done as u64);
            let segment = self.segment_at(at).ok_or(Fault { address: at, write: false })?;
            let offset = at - segment.virtual_address;
            let count = (segment.size - offset).min((into.len() - done) as u64) as usize;
            let part = &mut into[done..done + count];
            let held = segment.bytes.get(offset as usize..).unwrap_or_default();
            let held = &held[..held.len().min(count)];
            part[..held.len()].copy_from_slice(held);
            part[held.len()..].fill(0);
            done += count;
        }
        Ok(())
    }

    /// What the file holds of a range, if it is all in one segment.
    pub fn held(&self, range: &Range<u64>) -> Option<&[u8]> {
        let segment = self.segment_at(range.start)?;
        let start = (range.start - segment.virtual_address) as usize;
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        segment.bytes.get(start..start.checked_add(length)?)
    }

    /// Where calls of a function lead: its symbol, and its entry behind that for whoever does not pass it its own address.
    pub fn entries(&self, function: u64) -> impl Iterator<Item = u64> + use<> {
        let isa = self.arch.isa();
        let second = || {
            let mut bytes = [0; BEGINNING];
            self.read(function, &mut bytes).ok()?;
            let behind = (isa.entry)(&Beginning { bytes: &bytes, is_ftrace: &|_| false }, 0, Policy::Best)?;
            (behind != 0).then(|| function.wrapping_add(behind))
        };
        let second = matches!(isa.abi.pointers, Pointers::Code(Some(_))).then(second).flatten();
        std::iter::once(function).chain(second)
    }

    /// The function in which a Linux first runs where it is linked; `None`: it is no Linux.
    pub fn first_function(&self) -> Option<u64> {
        self.symbols.address_of(OF_EVERY_LINUX)?;
        arches::of(self.arch).first_functions.iter().find_map(|name| self.symbols.address_of(name))
    }

    /// Its ISA's own functions that read or write any text. Another kernel's functions of these names do something
    /// else.
    pub fn patchers(&self) -> impl Iterator<Item = &'static str> {
        let marks = arches::of(self.arch).marks;
        let all = marks.patchers.iter().chain(marks.stray_readers).copied();
        all.filter(|_| self.is_stock())
    }

    /// Whether it is a stock Linux.
    pub fn is_stock(&self) -> bool {
        self.first_function().is_some()
    }

    /// The part of the image with that name.
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        self.sections.iter().find(|section| section.name == name).map(|section| section.range.clone())
    }

    /// Where its sections lie in memory, as far as the file tells.
    pub fn section_ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.sections.iter().map(|section| &section.range)
    }

    pub(crate) fn segment_at(&self, address: u64) -> Option<&Segment> {
        let index = self.segments.partition_point(|segment| segment.virtual_address <= address).checked_sub(1)?;
        self.segments.get(index).filter(|segment| segment.range().contains(&address))
    }
}
