//! What the machine, the command line and the readers of files must know of each ISA: one row for each, and no row
//! missing, for otherwise this does not compile. Nobody else asks which ISA it is.

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
    capstone::{Arch as Family, Mode},
};

/// One ISA's row.
pub struct Row {
    /// Which ISA.
    pub arch: Arch,
    /// How an ELF file says that it is for this ISA. Where several say the same, the symbols tell (`boot/elf.rs`); the
    /// first one is taken when they do not.
    pub elf: Identity,
    /// The letter of the mapping symbols in front of code of this ISA (`$a`; AAELF, "mapping symbols"); `None`: it has
    /// none.
    pub mapping_symbol: Option<char>,
    /// How a raw image of its kernel is told and read, where there are such.
    pub raw_image: Option<&'static Format>,
    /// The decompressor in a kernel's file that unpacks itself.
    decompressor: Decompressor,
    /// Where in physical memory what an ELF file gives as a physical address lies: MIPS's linker scripts give what the
    /// kernel sees.
    pub lies_at: fn(u64) -> u64,
    /// What is known of its kernels' own tables.
    pub marks: &'static Marks,
    /// The functions in which a Linux first runs where it is linked: one of them is in every one. What runs before that
    /// does so at other addresses, and its text is not yet what it is going to be, so nothing can be probed there.
    pub first_functions: &'static [&'static str],
    /// Debian's name for its packages.
    pub debian: &'static str,
    /// What runs it; `None`: no machine does yet.
    pub machine: Option<Machine>,
    /// Who writes its instructions as people read them.
    #[cfg(feature = "cpu")]
    pub disassembler: Disassembler,
}

/// Three fields of an ELF header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `e_machine`
    pub machine: u16,
    /// `EI_CLASS`
    pub class: u8,
    /// `EI_DATA`
    pub order: u8,
}

/// What runs an ISA.
pub struct Machine {
    /// Its CPU.
    #[cfg(feature = "cpu")]
    pub model: &'static Model,
    /// A loop of calls for a core without us, which benches compare with; none: such a core reaches no memory as it
    /// starts.
    #[cfg(feature = "cpu")]
    pub program: Option<&'static Program>,
    /// The board for our tiny kernel.
    pub bare: &'static Spec,
    /// The board for stock kernels; `None`: no board runs these.
    pub stock: Option<&'static Spec>,
}

/// Capstone's words for an ISA; the byte order is that of its ELF files.
#[cfg(feature = "cpu")]
#[derive(Clone, Copy)]
pub struct Disassembler {
    /// The family.
    pub family: Family,
    /// Which of it.
    pub mode: Mode,
    /// There are two ways to write its instructions.
    pub has_syntaxes: bool,
}

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    Arch::ALL.iter().map(|arch| of(*arch))
}

impl Row {
    /// Where the RAM of its boards starts: what is relative to that in files is made so by this.
    pub fn ram_start(&self) -> u64 {
        self.machine.as_ref().and_then(|machine| machine.stock).map_or(0, |board| board.ram_start)
    }

    /// The decompressor in a kernel's file; `None`: there is none in it.
    pub fn whole(&self, file: &[u8]) -> Result<Option<Whole>, BootError> {
        (self.decompressor)(file, self.ram_start())
    }

    /// What runs it, or a sentence.
    pub fn machine(&self) -> Result<&Machine, MachineError> {
        let none = || MachineError::Config(format!("no machine runs {} kernels yet", self.arch.name()));
        self.machine.as_ref().ok_or_else(none)
    }
}

impl Machine {
    /// The board that a kernel was made for, or a sentence.
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

    /// Each built-in kernel is for the ISA of its name, and lies in the RAM of its board.
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
