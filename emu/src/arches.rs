//! The machine and the disassembler of each ISA. [`of`] is a `match` over all ISAs, so a new ISA without a row does not
//! compile. Facts about kernel files are in `boot/kernels.rs`. No other shared code asks which ISA it deals with.

#[cfg(all(test, feature = "cpu"))]
mod cores;
mod rows;

pub use rows::of;

use crate::boards::Spec;
use crate::boot::Kernel;
use crate::error::MachineError;
use trapline_isa::arch::Arch;
#[cfg(feature = "cpu")]
use {
    crate::cpu::Model,
    crate::unicorn::plain_hooks::Program,
    capstone::{Arch as Family, ExtraMode, Mode},
    trapline_isa::insn::Insn,
};

/// The facts about one ISA.
pub struct Row {
    /// The ISA.
    pub arch: Arch,
    /// The machine that runs this ISA. `None` if there is none yet.
    pub machine: Option<Machine>,
    /// Prints instructions of this ISA as text.
    #[cfg(feature = "cpu")]
    pub disassembler: Disassembler,
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

/// The disassembler of an ISA.
#[cfg(feature = "cpu")]
#[derive(Clone, Copy)]
pub enum Disassembler {
    /// Capstone, with these settings.
    Capstone(Settings),
    /// Ours, for ISAs that Capstone does not know. Returns `None` for bytes that are no instruction that it knows.
    Ours(fn(&Insn) -> Option<String>),
}

/// Capstone's settings for an ISA. The byte order is that of its ELF files.
#[cfg(feature = "cpu")]
#[derive(Clone, Copy)]
pub struct Settings {
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
    use crate::boot::kernels;

    #[test]
    fn each_row_is_that_of_its_isa() {
        for arch in Arch::ALL {
            let row = of(*arch);
            assert_eq!(row.arch, *arch, "{}", arch.name());
            let board = row.machine.as_ref().map(|machine| machine.stock.unwrap_or(machine.bare));
            assert!(board.is_none_or(|board| kernels::of(*arch).ram_start == board.ram_start), "{}", arch.name());
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
