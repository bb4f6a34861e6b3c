//! The figures of the Kprobes document ("Probe Overhead", "Optimized Probe Overhead"): microseconds per hit on hardware
//! of its time.
//!
//! Linux on a POWER5 was big-endian. The figures stand beside ppc64le, because trapline's 64-bit PowerPC guests are
//! little-endian like their stock kernels.

use trapline_isa::arch::Arch;

/// One table of the document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The machine as the document names it.
    pub machine: &'static str,
    /// The ISA whose results these figures stand beside.
    pub arch: Arch,
    /// The document's letters for a mechanism, and microseconds per hit.
    pub figures: &'static [(&'static str, f64)],
}

#[rustfmt::skip]
const TABLES: &[Measured] = &[
    Measured { machine: "Pentium M 1.5 GHz", arch: Arch::I386,
        figures: &[("k", 0.57), ("j", 1.00), ("r", 0.92), ("kr", 0.99), ("jr", 1.40)] },
    Measured { machine: "Opteron 246 2.0 GHz", arch: Arch::X86_64,
        figures: &[("k", 0.49), ("j", 0.76), ("r", 0.80), ("kr", 0.82), ("jr", 1.07)] },
    Measured { machine: "POWER5 1.7 GHz", arch: Arch::Ppc64le,
        figures: &[("k", 0.77), ("j", 1.31), ("r", 1.26), ("kr", 1.45), ("jr", 1.99)] },
    Measured { machine: "Xeon E5410 2.3 GHz", arch: Arch::I386,
        figures: &[("k", 0.80), ("b", 0.33), ("o", 0.05), ("r", 1.10), ("rb", 0.61), ("ro", 0.33)] },
    Measured { machine: "Xeon E5410 2.3 GHz", arch: Arch::X86_64,
        figures: &[("k", 0.99), ("b", 0.43), ("o", 0.06), ("r", 1.24), ("rb", 0.68), ("ro", 0.30)] },
];

/// The document's tables for an ISA.
pub fn tables(arch: Arch) -> impl Iterator<Item = &'static Measured> {
    TABLES.iter().filter(move |table| table.arch == arch)
}

impl Measured {
    /// Microseconds of a mechanism, if the table has it.
    pub fn figure(&self, letters: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| *known == letters).map(|(_, figure)| *figure)
    }

    /// The cost of a mechanism divided by that of k, if the table has both.
    pub fn ratio(&self, letters: &str) -> Option<f64> {
        Some(self.figure(letters)? / self.figure("k")?)
    }
}
