//! What can go wrong before a guest runs, in sentences for people.

use thiserror::Error;

/// Why bytes are no kernel that can be loaded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BootError {
    /// Something else than an ELF file.
    #[error("it is no ELF file: it looks like {looks_like}")]
    NotElf {
        /// What it seems to be.
        looks_like: &'static str,
        /// What to do about it.
        advice: &'static str,
    },
    /// The file ends before something that its headers promise.
    #[error("the file is cut off: {what} should reach to byte {needs}, the file has {has}")]
    Truncated {
        /// What is missing.
        what: String,
        /// Where it would end; beyond all files when that cannot be computed.
        needs: u64,
        /// The file's length.
        has: u64,
    },
    /// A compressed kernel that does not unpack.
    #[error("its kernel cannot be unpacked ({what}): {why}")]
    Payload {
        /// What it is packed with, or in.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A compressed kernel for which there is no decoder here.
    #[error("its kernel is compressed with {method}, which cannot be unpacked here")]
    UnknownCompression {
        /// Its name.
        method: &'static str,
    },
    /// A kernel for another machine.
    #[error("it is for {machine}, which is not supported; supported are {supported}")]
    ForeignMachine {
        /// The machine it is for.
        machine: String,
        /// What would have been right.
        supported: String,
    },
    /// An ELF file, but no kernel.
    #[error("it is {kind}, not a kernel")]
    NotAKernel {
        /// What it is instead.
        kind: &'static str,
    },
    /// A raw image without the table that would tell where it is linked.
    #[error(
        "trapline cannot find the address at which this kernel is linked: it has no table of symbol names (kallsyms) in a form of \
         Linux 4.19 to 7.2"
    )]
    NoLinkAddress,
    /// A search or a parser has spent its budget of work.
    #[error("{what} was given up: it takes more work than that of any kernel, so the file is damaged or made to waste time")]
    TooMuchWork {
        /// What was given up.
        what: &'static str,
    },
    /// Nothing in it is to be loaded.
    #[error("it has no segment to load (PT_LOAD), so there is nothing to run")]
    NothingToLoad,
    /// A segment that no machine here could hold.
    #[error("segment {number} wants {size:#x} bytes of memory, the most is {most:#x}")]
    SegmentTooLarge {
        /// Which program header, from 0.
        number: usize,
        /// Its size in memory.
        size: u64,
        /// The limit.
        most: u64,
    },
    /// A segment with more bytes in the file than in memory.
    #[error("segment {number} has {in_file:#x} bytes in the file but only {in_memory:#x} in memory")]
    SegmentShrinks {
        /// Which program header, from 0.
        number: usize,
        /// Bytes in the file.
        in_file: u64,
        /// Bytes in memory.
        in_memory: u64,
    },
    /// A segment that goes over the end of the address space.
    #[error("segment {number} goes over the end of the address space (from {start:#x}, {size:#x} bytes)")]
    SegmentWraps {
        /// Which program header, from 0.
        number: usize,
        /// Its address.
        start: u64,
        /// Its size in memory.
        size: u64,
    },
    /// Two segments that want the same memory.
    #[error("segments {one} and {other} overlap in {space} memory at {address:#x}")]
    SegmentsOverlap {
        /// A program header, from 0.
        one: usize,
        /// Another program header, from 0.
        other: usize,
        /// `physical` or `virtual`.
        space: &'static str,
        /// The first address that both want.
        address: u64,
    },
    /// The entry is in no segment.
    #[error("the entry {entry:#x} lies in no segment; it must be a physical address (the p_paddr side) of loaded code")]
    EntryOutside {
        /// Where it points.
        entry: u64,
    },
    /// The parser found something else wrong.
    #[error("a header makes no sense: {0}")]
    Malformed(String),
}

impl BootError {
    /// What to do about it.
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
            BootError::NotAKernel { .. } => "give the kernel's own ELF file, usually called vmlinux",
            _ => "give a vmlinux ELF file as the linker wrote it",
        }
    }
}

/// Why a list of symbols in text form cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {why}")]
pub struct SymbolsError {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Why a machine cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MachineError {
    /// The CPU core is not what we know.
    #[error("the CPU core: {0}")]
    Core(String),
    /// The machine that was asked for cannot be.
    #[error("{0}")]
    Config(String),
    /// A snapshot that it was to be made from.
    #[error("{0}")]
    Snapshot(#[from] crate::snapshot::SnapshotError),
}
