//! Facts about each ISA for the machine, the command line and the readers of files. [`of`] is a `match` over all ISAs,
//! so a new ISA without a row does not compile. No other shared code asks which ISA it deals with.

mod rows;

pub use rows::of;

use crate::boards::Spec;
use crate::boot::Kernel;
use crate::boot::image::Format;
use crate::boot::marks::Marks;
use crate::boot::whole::{Decompressor, Whole};
use crate::error::{BootError, MachineError};
use trapline_isa::arch::Arch;
#[cfg(feature = "cpu")]
use {
    crate::cpu::Model,
    crate::unicorn::plain_hooks::Program,
    capstone::{Arch as Family, ExtraMode, Mode},
};

/// The facts about one ISA.
pub struct Row {
    /// The ISA.
    pub arch: Arch,
    /// The ELF header fields that identify this ISA. If several ISAs share them, `boot/elf.rs` decides by the symbols,
    /// and falls back to the first such ISA.
    pub elf: Identity,
    /// The letter of the mapping symbols in front of this ISA's code (`$a`; AAELF, "mapping symbols"). `None` if the
    /// ISA has none.
    pub mapping_symbol: Option<char>,
    /// The format of a raw kernel image. `None` if this ISA's kernels have none.
    pub raw_image: Option<&'static Format>,
    /// Finds the decompressor in a self-extracting kernel image.
    decompressor: Decompressor,
    /// Converts the physical address in an ELF file to the true one. On MIPS, the linker scripts put virtual addresses
    /// there.
    pub lies_at: fn(u64) -> u64,
    /// Recognisable features of this ISA's Linux images.
    pub marks: &'static Marks,
    /// Functions among which is the first one that Linux runs at its link address. Code before it runs at other
    /// addresses and its text may still be patched, so nothing can be probed there.
    pub first_functions: &'static [&'static str],
    /// Debian's name for the architecture of its packages.
    pub debian: &'static str,
    /// The machine that runs this ISA. `None` if there is none yet.
    pub machine: Option<Machine>,
    /// The settings of the disassembler.
    #[cfg(feature = "cpu")]
    pub disassembler: Disassembler,
}

/// The ELF header fields that identify an ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `e_machine`
    pub machine: u16,
    /// `EI_CLASS`
    pub class: u8,
    /// `EI_DATA`
    pub order: u8,
}

/// The CPU and the boards that run an ISA.
pub struct Machine {
    /// The CPU.
    #[cfg(feature = "cpu")]
    pub model: &'static Model,
    /// A loop of calls that runs on the bare CPU core, without trapline: the baseline of the benches. `None` if such a
    /// core cannot reach memory right after reset, or ends its run at a breakpoint.
    #[cfg(feature = "cpu")]
    pub program: Option<&'static Program>,
    /// The board for the tiny kernel.
    pub bare: &'static Spec,
    /// The board for stock kernels. `None` if no board runs them.
    pub stock: Option<&'static Spec>,
}

/// Capstone's settings for an ISA. The byte order is that of its ELF files.
#[cfg(feature = "cpu")]
#[derive(Clone, Copy)]
pub struct Disassembler {
    /// Capstone's name for the ISA family.
    pub family: Family,
    /// The mode within the family.
    pub mode: Mode,
    /// An extension of the mode.
    pub extra: Option<ExtraMode>,
    /// Whether there are two assembly syntaxes.
    pub has_syntaxes: bool,
    /// Whether Capstone prints the distance to a branch's target instead of its address.
    pub prints_distances: bool,
}

/// Iterates over the rows of all ISAs.
pub fn all() -> impl Iterator<Item = &'static Row> {
    Arch::ALL.iter().map(|arch| of(*arch))
}

impl Row {
    /// The first address of RAM on the stock board, which file formats use as their base; 0 without such a board.
    pub fn ram_start(&self) -> u64 {
        self.machine.as_ref().and_then(|machine| machine.stock).map_or(0, |board| board.ram_start)
    }

    /// Finds the decompressor in a kernel's file. `Ok(None)` if the file has none.
    pub fn whole(&self, file: &[u8]) -> Result<Option<Whole>, BootError> {
        (self.decompressor)(file, self.ram_start())
    }

    /// The machine that runs this ISA, or an error that says there is none.
    pub fn machine(&self) -> Result<&Machine, MachineError> {
        let none = || MachineError::Config(format!("no machine runs {} kernels yet", self.arch.name()));
        self.machine.as_ref().ok_or_else(none)
    }
}

impl Machine {
    /// The board that a kernel was made for, or an error that says there is none.
    pub fn board(&self, kernel: &Kernel) -> Result<&'static Spec, MachineError> {
        if !kernel.is_stock() {
            return Ok(self.bare);
        }
        let name = kernel.arch.name();
        let none =
            || MachineError::Config(format!("no board runs Linux kernels for {name}; `trapline check` answers about them"));
        self.stock.ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin::elf::header::ELFCLASS64;

    #[test]
    fn each_row_is_that_of_its_isa() {
        for arch in Arch::ALL {
            let row = of(*arch);
            assert_eq!((row.arch, row.elf.class == ELFCLASS64), (*arch, arch.isa().word == 8), "{}", arch.name());
            #[cfg(feature = "cpu")]
            assert!(row.machine.as_ref().is_none_or(|machine| machine.model.arch == *arch), "{}", arch.name());
        }
    }

    /// Each built-in kernel is for the ISA in its name, and its segments lie in its board's RAM.
    #[test]
    fn each_built_in_kernel_is_that_of_its_name() {
        for builtin in trapline_images::builtins() {
            let kernel = Kernel::from_bytes(builtin.bytes).unwrap_or_else(|error| panic!("{}: {error}", builtin.name));
            assert_eq!(format!("tiny/{}", kernel.arch.name()), builtin.name);
            assert!(!kernel.is_stock(), "{}", builtin.name);
            let ram = of(kernel.arch).machine.as_ref().map_or(0, |machine| machine.bare.ram_start);
            let ram = ram..ram + (2 << 20);
            assert!(kernel.segments.iter().all(|segment| ram.contains(&segment.physical)), "{}", builtin.name);
        }
    }
}
