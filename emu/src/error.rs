//! Errors that happen before a guest runs.

use thiserror::Error;

/// The reason why a file is not a kernel that can be loaded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootError {
    /// Something else than an ELF file.
    #[error("it is no ELF file: it looks like {looks_like}")]
    NotElf {
        /// The kind of file that it seems to be.
        looks_like: &'static str,
        /// The user's next step.
        advice: &'static str,
    },
    /// The file ends before data that its headers announce.
    #[error("the file is cut off: {what} should reach to byte {needs}, the file has {has}")]
    Truncated {
        /// The missing data.
        what: String,
        /// The end of the missing data, as an offset in the file; `u64::MAX` if it cannot be computed.
        needs: u64,
        /// The length of the file.
        has: u64,
    },
    /// A compressed kernel that cannot be unpacked.
    #[error("its kernel cannot be unpacked ({what}): {why}")]
    Payload {
        /// The compression method or the container format.
        what: &'static str,
        /// The decoder's error.
        why: String,
    },
    /// A compressed kernel without a decoder in trapline.
    #[error("its kernel is compressed with {method}, which cannot be unpacked here")]
    UnknownCompression {
        /// The name of the compression method.
        method: &'static str,
    },
    /// A kernel for another machine.
    #[error("it is for {machine}, which is not supported; supported are {supported}")]
    ForeignMachine {
        /// The machine that it is for.
        machine: String,
        /// The supported machines.
        supported: String,
    },
    /// An ELF file, but no kernel.
    #[error("it is {kind}, not a kernel")]
    NotAKernel {
        /// The kind of ELF file that it is.
        kind: &'static str,
    },
    /// A raw image without the kallsyms tables that would give its link address.
    #[error(
        "trapline cannot find the address at which this kernel is linked: it has no table of symbol names (kallsyms) in a form of \
         Linux 4.19 to 7.3"
    )]
    NoLinkAddress,
    /// A raw image whose place is known and whose symbols are not.
    #[error(
        "trapline finds no symbols in this kernel: it has no table of symbol names (kallsyms) in a form of Linux 4.19 to 7.3"
    )]
    NoSymbols,
    /// Symbols from another file that do not belong to the image.
    #[error("the symbols that were given do not belong to this kernel: {why}")]
    ForeignSymbols {
        /// The reason why it does not fit.
        why: String,
    },
    /// A kernel that is executed in place.
    #[error(
        "it was built to run in place from flash memory (CONFIG_XIP_KERNEL), where no breakpoint can be written, and no machine \
         here has such memory"
    )]
    RunsInPlace,
    /// A search or a parser has spent its budget of work.
    #[error("{what} was stopped: it took more work than on any known kernel, so the file is damaged or made to waste time")]
    TooMuchWork {
        /// The search or parser.
        what: &'static str,
    },
    /// An ELF file without a segment to load.
    #[error("it has no segment to load (PT_LOAD), so there is nothing to run")]
    NothingToLoad,
    /// A segment that no machine here could hold.
    #[error("segment {number} wants {size:#x} bytes of memory, the most is {most:#x}")]
    SegmentTooLarge {
        /// The index of the program header, from 0.
        number: usize,
        /// The size in memory.
        size: u64,
        /// The largest supported size.
        most: u64,
    },
    /// A segment with more bytes in the file than in memory.
    #[error("segment {number} has {in_file:#x} bytes in the file but only {in_memory:#x} in memory")]
    SegmentShrinks {
        /// The index of the program header, from 0.
        number: usize,
        /// Bytes in the file.
        in_file: u64,
        /// Bytes in memory.
        in_memory: u64,
    },
    /// A segment that wraps around the end of the address space.
    #[error("segment {number} goes over the end of the address space (from {start:#x}, {size:#x} bytes)")]
    SegmentWraps {
        /// The index of the program header, from 0.
        number: usize,
        /// The segment's address.
        start: u64,
        /// The segment's size in memory.
        size: u64,
    },
    /// Two segments that overlap.
    #[error("segments {one} and {other} overlap in {space} memory at {address:#x}")]
    SegmentsOverlap {
        /// The index of a program header, from 0.
        one: usize,
        /// The index of the other program header, from 0.
        other: usize,
        /// `physical` or `virtual`.
        space: &'static str,
        /// The first address in both segments.
        address: u64,
    },
    /// The entry point is in no segment.
    #[error("the entry {entry:#x} lies in no segment; it must be a physical address (the p_paddr side) of loaded code")]
    EntryOutside {
        /// The address of the entry point.
        entry: u64,
    },
    /// Another error that the parser found.
    #[error("a header makes no sense: {0}")]
    Malformed(String),
}

impl BootError {
    /// The user's next step.
    pub fn advice(&self) -> &'static str {
        match self {
            BootError::NotElf { advice, .. } => advice,
            BootError::Truncated { .. } | BootError::Payload { .. } => "copy or download the file again",
            BootError::UnknownCompression { .. } => {
                "unpack it first, and give the ELF file inside: the kernel's scripts/extract-vmlinux does that"
            }
            BootError::ForeignMachine { .. } => {
                "use a kernel built for one of these; `trapline images` lists those that have a name"
            }
            BootError::NoLinkAddress | BootError::NoSymbols => "give its System.map with --symbols, or its vmlinux as the image",
            BootError::ForeignSymbols { .. } => "give the System.map of this very kernel; it lies beside its vmlinux",
            BootError::RunsInPlace => "build it without CONFIG_XIP_KERNEL",
            BootError::NotAKernel { .. } => "give the kernel's own ELF file, usually called vmlinux",
            _ => "give a vmlinux ELF file as the linker wrote it",
        }
    }
}

/// The reason why a text file with symbols cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct SymbolsError {
    /// The line number, from 1.
    pub line: usize,
    /// The error in that line.
    pub why: String,
}

/// The reason why a machine cannot be created.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MachineError {
    /// The CPU core failed or does not behave as trapline expects.
    #[error("the CPU core: {0}")]
    Core(String),
    /// The requested configuration is not possible.
    #[error("{0}")]
    Config(String),
    /// The snapshot to restore from cannot be used.
    #[error("{0}")]
    Snapshot(#[from] crate::snapshot::SnapshotError),
}
