//! What the machine, the command line and the readers of files must know of each ISA: one row for each, and no row
//! missing, for otherwise this does not compile. Nobody else asks which ISA it is.

use crate::boards::{Spec, bare, malta, pc, powernv, s390ccw, virt, wii};
use crate::boot::Kernel;
use crate::boot::elf_wrapper;
use crate::boot::image::{self, Format};
use crate::boot::marks::{self, Marks};
use crate::boot::whole::{self, Decompressor, Whole};
use crate::error::{BootError, MachineError};
use goblin::elf::header::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_386, EM_AARCH64, EM_ARM, EM_MIPS, EM_PPC, EM_PPC64, EM_S390, EM_SPARCV9,
    EM_X86_64,
};
use trapline_isa::arch::Arch;
#[cfg(feature = "cpu")]
use {
    crate::cpu::{Model, arm, arm64, mips, ppc, s390, sparc64, x86},
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

static I386: Row = Row {
    arch: Arch::I386,
    elf: Identity { machine: EM_386, class: ELFCLASS32, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::bzimage_entered_at_its_start,
    lies_at: core::convert::identity,
    marks: &marks::x86::MARKS_32,
    first_functions: &["i386_start_kernel"],
    debian: "i386",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &x86::I386,
        #[cfg(feature = "cpu")]
        program: Some(&x86::core::LOOP_32),
        bare: &bare::SPEC,
        stock: Some(&pc::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::X86, mode: Mode::Mode32, has_syntaxes: true },
};

static X86_64: Row = Row {
    arch: Arch::X86_64,
    elf: Identity { machine: EM_X86_64, class: ELFCLASS64, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::bzimage_entered_for_64_bits,
    lies_at: core::convert::identity,
    marks: &marks::x86::MARKS,
    first_functions: &["x86_64_start_kernel"],
    debian: "amd64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &x86::X86_64,
        #[cfg(feature = "cpu")]
        program: Some(&x86::core::LOOP_64),
        bare: &bare::SPEC,
        stock: Some(&pc::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::X86, mode: Mode::Mode64, has_syntaxes: true },
};

static ARM: Row = Row {
    arch: Arch::Arm,
    elf: Identity { machine: EM_ARM, class: ELFCLASS32, order: ELFDATA2LSB },
    mapping_symbol: Some('a'),
    raw_image: Some(&image::ZIMAGE),
    decompressor: whole::zimage,
    lies_at: core::convert::identity,
    marks: &marks::arm::MARKS,
    first_functions: &["__mmap_switched"],
    debian: "armhf",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm::ARM,
        #[cfg(feature = "cpu")]
        program: Some(&arm::core::LOOP),
        bare: &bare::ARM,
        stock: Some(&virt::ARM),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::ARM, mode: Mode::Arm, has_syntaxes: false },
};

static THUMB2: Row = Row {
    arch: Arch::Thumb2,
    elf: Identity { machine: EM_ARM, class: ELFCLASS32, order: ELFDATA2LSB },
    mapping_symbol: Some('t'),
    // A zImage does not say in which code its kernel is.
    raw_image: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::arm::IN_THUMB,
    first_functions: &["__mmap_switched"],
    debian: "armhf",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm::THUMB2,
        #[cfg(feature = "cpu")]
        program: Some(&arm::core::LOOP_IN_THUMB),
        bare: &bare::ARM,
        stock: Some(&virt::ARM),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::ARM, mode: Mode::Thumb, has_syntaxes: false },
};

static ARM64: Row = Row {
    arch: Arch::Arm64,
    elf: Identity { machine: EM_AARCH64, class: ELFCLASS64, order: ELFDATA2LSB },
    mapping_symbol: Some('x'),
    raw_image: Some(&image::ARM64_IMAGE),
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::arm64::MARKS,
    first_functions: &["__primary_switched"],
    debian: "arm64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm64::ARM64,
        #[cfg(feature = "cpu")]
        program: Some(&arm64::core::LOOP),
        bare: &bare::ARM,
        stock: Some(&virt::ARM64),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::ARM64, mode: Mode::Arm, has_syntaxes: false },
};

static PPC: Row = Row {
    arch: Arch::Ppc,
    elf: Identity { machine: EM_PPC, class: ELFCLASS32, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::ppc::BIG,
    first_functions: &["start_here"],
    debian: "powerpc",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::narrow::PPC,
        #[cfg(feature = "cpu")]
        program: Some(&ppc::narrow::core::LOOP),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&wii::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::PPC, mode: Mode::Mode32, has_syntaxes: false },
};

static PPC64: Row = Row {
    arch: Arch::Ppc64,
    elf: Identity { machine: EM_PPC64, class: ELFCLASS64, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::ppc::BIG,
    first_functions: &["start_here_common"],
    debian: "ppc64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::PPC64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::BIG_ENDIAN,
        stock: Some(&powernv::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::PPC, mode: Mode::Mode64, has_syntaxes: false },
};

static PPC64LE: Row = Row {
    arch: Arch::Ppc64le,
    elf: Identity { machine: EM_PPC64, class: ELFCLASS64, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::ppc::LITTLE,
    first_functions: &["start_here_common"],
    debian: "ppc64el",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::PPC64LE,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::SPEC,
        stock: Some(&powernv::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::PPC, mode: Mode::Mode64, has_syntaxes: false },
};

static S390X: Row = Row {
    arch: Arch::S390x,
    elf: Identity { machine: EM_S390, class: ELFCLASS64, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: Some(&image::VMLINUZ),
    decompressor: whole::vmlinuz,
    lies_at: core::convert::identity,
    marks: &marks::s390::MARKS,
    first_functions: &["startup_continue"],
    debian: "s390x",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &s390::S390X,
        #[cfg(feature = "cpu")]
        program: Some(&s390::core::LOOP),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&s390ccw::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::SYSZ, mode: Mode::Default, has_syntaxes: false },
};

static MIPS: Row = Row {
    arch: Arch::Mips,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS32, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::BIG_32,
    first_functions: &["start_kernel"],
    debian: "mips",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_BIG_32),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&malta::BIG_ENDIAN),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::MIPS, mode: Mode::Mips32, has_syntaxes: false },
};

static MIPSEL: Row = Row {
    arch: Arch::Mipsel,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS32, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::LITTLE_32,
    first_functions: &["start_kernel"],
    debian: "mipsel",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPSEL,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_LITTLE_32),
        bare: &bare::SPEC,
        stock: Some(&malta::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::MIPS, mode: Mode::Mips32, has_syntaxes: false },
};

static MIPS64: Row = Row {
    arch: Arch::Mips64,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS64, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::BIG_64,
    first_functions: &["start_kernel"],
    debian: "mips64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS64,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_BIG_64),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&malta::BIG_ENDIAN),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::MIPS, mode: Mode::Mips64, has_syntaxes: false },
};

static MIPS64EL: Row = Row {
    arch: Arch::Mips64el,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS64, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::LITTLE_64,
    first_functions: &["start_kernel"],
    debian: "mips64el",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS64EL,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_LITTLE_64),
        bare: &bare::SPEC,
        stock: Some(&malta::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::MIPS, mode: Mode::Mips64, has_syntaxes: false },
};

static SPARC64: Row = Row {
    arch: Arch::Sparc64,
    elf: Identity { machine: EM_SPARCV9, class: ELFCLASS64, order: ELFDATA2MSB },
    mapping_symbol: None,
    raw_image: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::sparc64::MARKS,
    first_functions: &["start_early_boot"],
    debian: "sparc64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &sparc64::SPARC64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::BIG_ENDIAN,
        stock: None,
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler { family: Family::SPARC, mode: Mode::V9, has_syntaxes: false },
};

/// The row of an ISA.
pub fn of(arch: Arch) -> &'static Row {
    match arch {
        Arch::I386 => &I386,
        Arch::X86_64 => &X86_64,
        Arch::Arm => &ARM,
        Arch::Thumb2 => &THUMB2,
        Arch::Arm64 => &ARM64,
        Arch::Ppc => &PPC,
        Arch::Ppc64 => &PPC64,
        Arch::Ppc64le => &PPC64LE,
        Arch::S390x => &S390X,
        Arch::Mips => &MIPS,
        Arch::Mipsel => &MIPSEL,
        Arch::Mips64 => &MIPS64,
        Arch::Mips64el => &MIPS64EL,
        Arch::Sparc64 => &SPARC64,
    }
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
            let ram = of(kernel.arch).machine.as_ref().map_or(0, |machine| machine.bare.ram_start);
            let ram = ram..ram + (2 << 20);
            assert!(kernel.segments.iter().all(|segment| ram.contains(&segment.physical)), "{}", builtin.name);
        }
    }
}
