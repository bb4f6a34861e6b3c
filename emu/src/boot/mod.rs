//! Reads a kernel from a file's bytes: its segments, its entry point, and its tables.
//!
//! This is a pure function. Any input gives a kernel or an error, never a panic.

pub mod btf;
pub mod dead_ends;
pub mod elf;
pub mod elf_symbols;
pub mod elf_wrapper;
pub mod exports;
pub mod foreign;
pub mod guest_files;
pub mod image;
pub mod initramfs;
pub mod kallsyms;
pub mod kernels;
pub mod link_address;
pub mod marks;
pub mod module;
pub mod payload;
pub mod program;
pub mod relocations;
pub mod system_calls;
pub mod tables;
pub mod tracepoints;
pub mod unnamed;
pub mod unplaced;
pub mod usdt;
pub mod vmlinuz;
pub mod whole;
pub mod zimage;

use crate::error::BootError;
use crate::symbols::Symbols;
use bytes::Bytes;
use payload::Shelf;
use std::borrow::Cow;
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
    /// The ISA.
    pub arch: Arch,
    /// The entry point, as a physical address.
    pub entry: u64,
    /// The segments to load, sorted by virtual address. Machines of one kernel share them.
    pub segments: Arc<Vec<Segment>>,
    /// The names and addresses of functions and data.
    pub symbols: Symbols,
    /// The kernel's information about its own text. Machines of one kernel share it.
    pub tables: Arc<Tables>,
    /// The boot stub, if the kernel cannot be entered directly.
    pub starter: Option<Arc<Starter>>,
    sections: Vec<Section>,
}

/// A boot stub from a kernel's file: it prepares the machine and moves the kernel to its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// The bytes to load.
    pub bytes: Vec<u8>,
    /// The physical address to load them at.
    pub at: u64,
    /// The entry point.
    pub entry: u64,
    /// The physical address at which it expects the kernel.
    pub kernel_at: u64,
}

/// A range of memory with its initial content. Memory without bytes is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The physical address.
    pub physical: u64,
    /// The virtual address of the first byte.
    pub virtual_address: u64,
    /// The bytes from the file. Segments of one unpacked file share its memory.
    pub bytes: Bytes,
    /// The size in memory, at least the number of bytes.
    pub size: u64,
    /// Whether it holds code.
    pub executable: bool,
}

impl Segment {
    /// The range of virtual addresses.
    pub fn range(&self) -> Range<u64> {
        self.virtual_address..self.virtual_address + self.size
    }

    /// The range of physical addresses.
    pub fn loaded(&self) -> Range<u64> {
        self.physical..self.physical + self.size
    }
}

/// A named section of the image. Some tables are found by sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name, such as `__ex_table`.
    pub name: String,
    /// The range of virtual addresses.
    pub range: Range<u64>,
}

/// A function that every Linux has. The tiny kernels do not, although they begin in functions with names of Linux's.
const OF_EVERY_LINUX: &str = "kernel_init_freeable";

impl Kernel {
    /// The sections, if the file has them.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Reads a kernel from a file's bytes: an ELF file, a bzImage, arm64's Image, an ARM zImage, a vmlinuz of
    /// z/Architecture or MIPS, or one of these compressed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Kernel, BootError> {
        Kernel::from_shelf(&(), bytes)
    }

    /// Like [`Kernel::from_bytes`], with a cache for what is slow to unpack.
    pub fn from_shelf(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Kernel, BootError> {
        Kernel::from_shelf_with(shelf, bytes, None)
    }

    /// Reads an image with the given symbols, if any, instead of its own. They also give the address of an image that has
    /// neither a header nor a symbol table.
    pub fn from_shelf_with(shelf: &dyn Shelf, bytes: &[u8], given: Option<Symbols>) -> Result<Kernel, BootError> {
        let inner = payload::unpack_from(shelf, bytes, &payload::budget())?;
        let image = match image::parse(shelf, &inner, given.as_ref()) {
            Some(image) => image?,
            None => match inner {
                Cow::Borrowed(inner) => elf::parse(inner, Bytes::copy_from_slice)?,
                Cow::Owned(inner) => {
                    let inner = Bytes::from(inner);
                    elf::parse(&inner, |piece| inner.slice_ref(piece))?
                }
            },
        };
        let tables = Arc::default();
        let kernel = Kernel {
            arch: image.arch,
            entry: image.entry,
            segments: Arc::new(image.segments),
            symbols: Symbols::default(),
            tables,
            starter: image.starter.map(Arc::new),
            sections: image.sections,
        };
        let symbols = match given {
            Some(given) => given,
            None if image.symbols.is_empty() => kallsyms::find(&kernel)?.unwrap_or_default(),
            None => image.symbols,
        };
        Ok(kernel.with_symbols(symbols))
    }

    /// A kernel without a file: generated code, for tests and experiments.
    pub fn from_parts(arch: Arch, entry: u64, mut segments: Vec<Segment>, symbols: Symbols) -> Kernel {
        segments.sort_by_key(|segment| segment.virtual_address);
        let (tables, sections, segments) = (Arc::default(), Vec::new(), Arc::new(segments));
        Kernel { arch, entry, segments, symbols: Symbols::default(), tables, starter: None, sections }.with_symbols(symbols)
    }

    /// An image of named sections in memory, as of a module.
    pub fn of_sections(arch: Arch, mut segments: Vec<Segment>, sections: Vec<Section>, symbols: Symbols) -> Kernel {
        segments.sort_by_key(|segment| segment.virtual_address);
        let kernel = Kernel { sections, ..Kernel::from_parts(arch, 0, segments, Symbols::default()) };
        kernel.with_symbols(symbols)
    }

    /// Replaces the kernel's symbols, for an image without its own, and reads its tables again.
    pub fn with_symbols(mut self, symbols: Symbols) -> Kernel {
        self.symbols = symbols;
        self.tables = Arc::new(Tables::of(&self));
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

    /// The bytes that the file holds for a range; `None` if the range is not in one segment's bytes.
    pub fn held(&self, range: &Range<u64>) -> Option<&[u8]> {
        let segment = self.segment_at(range.start)?;
        let start = (range.start - segment.virtual_address) as usize;
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        segment.bytes.get(start..start.checked_add(length)?)
    }

    /// The addresses that calls of a function lead to: its symbol, and, on an ISA with a second entry for callers that
    /// do not pass the function's address, that entry.
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

    /// The first function that Linux runs at its linked address; `None` if this kernel is not Linux.
    pub fn first_function(&self) -> Option<u64> {
        self.symbols.address_of(OF_EVERY_LINUX)?;
        kernels::of(self.arch).first_functions.iter().find_map(|name| self.symbols.address_of(name))
    }

    /// The functions, specific to the ISA, that read or write any text; empty unless the kernel is a stock Linux, as
    /// other kernels may use these names for something else.
    pub fn patchers(&self) -> impl Iterator<Item = &'static str> {
        let marks = kernels::of(self.arch).marks;
        let all = marks.patchers.iter().chain(marks.stray_readers).copied();
        all.filter(|_| self.is_stock())
    }

    /// Whether this is a stock Linux.
    pub fn is_stock(&self) -> bool {
        self.first_function().is_some()
    }

    /// The range of the image's section with that name.
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        self.sections.iter().find(|section| section.name == name).map(|section| section.range.clone())
    }

    /// The ranges of the sections, as far as the file gives them.
    pub fn section_ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.sections.iter().map(|section| &section.range)
    }

    pub(crate) fn segment_at(&self, address: u64) -> Option<&Segment> {
        let index = self.segments.partition_point(|segment| segment.virtual_address <= address).checked_sub(1)?;
        self.segments.get(index).filter(|segment| segment.range().contains(&address))
    }
}
