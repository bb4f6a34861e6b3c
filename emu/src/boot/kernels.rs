//! The kernel files of each ISA: one row of [`Facts`] per ISA, by which the readers of files know its kernels. [`of`] is a
//! `match` over all ISAs, so a new ISA without a row does not compile. The machines that run them are in `arches`.

use super::elf_wrapper;
use super::image::{self, Format};
use super::initramfs;
use super::marks::{self, Marks};
use super::relocations::{self, Relocations};
use super::whole::{self, Decompressor, Whole};
use crate::error::BootError;
use goblin::elf::header::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_386, EM_AARCH64, EM_ARM, EM_IA_64, EM_MIPS, EM_PARISC, EM_PPC, EM_PPC64,
    EM_RISCV, EM_S390, EM_SPARCV9, EM_X86_64,
};
use trapline_isa::arch::Arch;

/// The facts about one ISA's kernel files.
pub struct Facts {
    /// The ISA.
    pub arch: Arch,
    /// The ELF header fields that identify this ISA. If several ISAs share them, `boot/elf.rs` decides by the symbols,
    /// and falls back to the first such ISA.
    pub elf: Identity,
    /// The letter of the mapping symbols in front of this ISA's code (`$a`; AAELF, "mapping symbols"). `None` if the
    /// ISA has none.
    pub mapping_symbol: Option<char>,
    /// `e_flags` of an ELF file that is written for debuggers.
    pub elf_flags: u32,
    /// The bits of a function's symbol that say in which code it is.
    pub code_bits: u64,
    /// The address at which calls enter a function of a program, from the value and the `st_other` of its symbol.
    pub function_entry: fn(u64, u8) -> u64,
    /// The format of a raw kernel image. `None` if this ISA's kernels have none.
    pub raw_image: Option<&'static Format>,
    /// The relocations of debug information in its object files and modules.
    pub relocations: &'static Relocations,
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
    /// The first address of RAM on this ISA's boards, which file formats use as their base. 0 without a board.
    pub ram_start: u64,
    /// Shell commands with which a guest passes its exit status to its board and powers off.
    pub ends: &'static str,
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

impl Facts {
    /// Finds the decompressor in a kernel's file. `Ok(None)` if the file has none.
    pub fn whole(&self, file: &[u8]) -> Result<Option<Whole>, BootError> {
        (self.decompressor)(file, self.ram_start)
    }
}

/// Iterates over the rows of all ISAs.
pub fn all() -> impl Iterator<Item = &'static Facts> {
    Arch::ALL.iter().map(|arch| of(*arch))
}

/// The values that most ISAs have. Each row has its own ISA, header fields, marks and name.
const USUAL: Facts = Facts {
    arch: Arch::ALL[0],
    elf: Identity { machine: 0, class: 0, order: 0 },
    elf_flags: 0,
    code_bits: 0,
    mapping_symbol: None,
    function_entry: |value, _| value,
    raw_image: None,
    relocations: &relocations::NONE,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &Marks::NONE,
    first_functions: &["start_kernel"],
    debian: "",
    ram_start: 0,
    ends: initramfs::ENDS,
};

// `e_flags`: the fifth version of ARM's convention, instruction sets and the 32-bit convention of MIPS, RISC-V's short
// instructions.
const EABI_5: u32 = 0x0500_0000;
const MIPS32_R2: u32 = 0x7000_0000;
const MIPS64_R2: u32 = 0x8000_0000;
const O32: u32 = 0x1000;
const COMPRESSED: u32 = 1;

static I386: Facts = Facts {
    arch: Arch::I386,
    elf: Identity { machine: EM_386, class: ELFCLASS32, order: ELFDATA2LSB },
    relocations: &relocations::I386,
    decompressor: whole::bzimage_entered_at_its_start,
    marks: &marks::x86::MARKS_32,
    first_functions: &["i386_start_kernel"],
    debian: "i386",
    ..USUAL
};

static X86_64: Facts = Facts {
    arch: Arch::X86_64,
    elf: Identity { machine: EM_X86_64, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::X86_64,
    decompressor: whole::bzimage_entered_for_64_bits,
    marks: &marks::x86::MARKS,
    first_functions: &["x86_64_start_kernel"],
    debian: "amd64",
    ..USUAL
};

static ARM: Facts = Facts {
    arch: Arch::Arm,
    elf: Identity { machine: EM_ARM, class: ELFCLASS32, order: ELFDATA2LSB },
    relocations: &relocations::ARM,
    elf_flags: EABI_5,
    mapping_symbol: Some('a'),
    function_entry: marks::arm::without_thumb_bit,
    raw_image: Some(&image::ZIMAGE),
    decompressor: whole::zimage,
    marks: &marks::arm::MARKS,
    first_functions: &["__mmap_switched"],
    debian: "armhf",
    ram_start: 0x4000_0000,
    ..USUAL
};

static THUMB2: Facts = Facts {
    arch: Arch::Thumb2,
    elf: Identity { machine: EM_ARM, class: ELFCLASS32, order: ELFDATA2LSB },
    relocations: &relocations::ARM,
    elf_flags: EABI_5,
    code_bits: 1,
    mapping_symbol: Some('t'),
    function_entry: marks::arm::without_thumb_bit,
    // A zImage is read as one of ARM code, and its kernel's first instructions say in which code it is.
    raw_image: None,
    decompressor: whole::zimage,
    marks: &marks::arm::IN_THUMB,
    first_functions: &["__mmap_switched"],
    debian: "armhf",
    ram_start: 0x4000_0000,
    ..USUAL
};

static ARM64: Facts = Facts {
    arch: Arch::Arm64,
    elf: Identity { machine: EM_AARCH64, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::ARM64,
    mapping_symbol: Some('x'),
    raw_image: Some(&image::ARM64_IMAGE),
    marks: &marks::arm64::MARKS,
    first_functions: &["__primary_switched"],
    debian: "arm64",
    ram_start: 0x4000_0000,
    ..USUAL
};

static PPC: Facts = Facts {
    arch: Arch::Ppc,
    elf: Identity { machine: EM_PPC, class: ELFCLASS32, order: ELFDATA2MSB },
    relocations: &relocations::PPC,
    marks: &marks::ppc::BIG,
    first_functions: &["start_here"],
    debian: "powerpc",
    ends: initramfs::BY_MEMORY,
    ..USUAL
};

static PPC64: Facts = Facts {
    arch: Arch::Ppc64,
    elf: Identity { machine: EM_PPC64, class: ELFCLASS64, order: ELFDATA2MSB },
    relocations: &relocations::PPC64,
    function_entry: marks::ppc::local_entry,
    marks: &marks::ppc::BIG,
    first_functions: &["start_here_common"],
    debian: "ppc64",
    ..USUAL
};

static PPC64LE: Facts = Facts {
    arch: Arch::Ppc64le,
    elf: Identity { machine: EM_PPC64, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::PPC64,
    // The second version of the calling convention.
    elf_flags: 2,
    function_entry: marks::ppc::local_entry,
    marks: &marks::ppc::LITTLE,
    first_functions: &["start_here_common"],
    debian: "ppc64el",
    ..USUAL
};

static S390X: Facts = Facts {
    arch: Arch::S390x,
    elf: Identity { machine: EM_S390, class: ELFCLASS64, order: ELFDATA2MSB },
    relocations: &relocations::S390,
    raw_image: Some(&image::VMLINUZ),
    decompressor: whole::vmlinuz,
    marks: &marks::s390::MARKS,
    first_functions: &["startup_continue"],
    debian: "s390x",
    ends: initramfs::BY_SYSTEM_LEVEL,
    ..USUAL
};

static MIPS: Facts = Facts {
    arch: Arch::Mips,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS32, order: ELFDATA2MSB },
    relocations: &relocations::MIPS,
    elf_flags: MIPS32_R2 | O32,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::BIG_32,
    first_functions: &["start_kernel"],
    debian: "mips",
    ..USUAL
};

static MIPSEL: Facts = Facts {
    arch: Arch::Mipsel,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS32, order: ELFDATA2LSB },
    relocations: &relocations::MIPS,
    elf_flags: MIPS32_R2 | O32,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::LITTLE_32,
    first_functions: &["start_kernel"],
    debian: "mipsel",
    ..USUAL
};

static MIPS64: Facts = Facts {
    arch: Arch::Mips64,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS64, order: ELFDATA2MSB },
    relocations: &relocations::MIPS64,
    elf_flags: MIPS64_R2,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::BIG_64,
    first_functions: &["start_kernel"],
    debian: "mips64",
    ..USUAL
};

static MIPS64EL: Facts = Facts {
    arch: Arch::Mips64el,
    elf: Identity { machine: EM_MIPS, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::MIPS64EL,
    elf_flags: MIPS64_R2,
    raw_image: Some(&image::WRAPPED),
    decompressor: whole::wrapped,
    lies_at: elf_wrapper::lies_at,
    marks: &marks::mips::LITTLE_64,
    first_functions: &["start_kernel"],
    debian: "mips64el",
    ..USUAL
};

static SPARC64: Facts = Facts {
    arch: Arch::Sparc64,
    elf: Identity { machine: EM_SPARCV9, class: ELFCLASS64, order: ELFDATA2MSB },
    relocations: &relocations::SPARC64,
    marks: &marks::sparc64::MARKS,
    first_functions: &["start_early_boot"],
    debian: "sparc64",
    ..USUAL
};

static PARISC: Facts = Facts {
    arch: Arch::Parisc,
    elf: Identity { machine: EM_PARISC, class: ELFCLASS32, order: ELFDATA2MSB },
    relocations: &relocations::PARISC,
    marks: &marks::parisc::MARKS,
    first_functions: &["start_parisc", "start_kernel"],
    debian: "hppa",
    ..USUAL
};

static IA64: Facts = Facts {
    arch: Arch::Ia64,
    elf: Identity { machine: EM_IA_64, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::IA64,
    marks: &marks::ia64::MARKS,
    first_functions: &["start_ia64", "start_kernel"],
    debian: "ia64",
    ..USUAL
};

static RISCV64: Facts = Facts {
    arch: Arch::Riscv64,
    elf: Identity { machine: EM_RISCV, class: ELFCLASS64, order: ELFDATA2LSB },
    relocations: &relocations::RISCV64,
    elf_flags: COMPRESSED,
    raw_image: Some(&image::RISCV_IMAGE),
    marks: &marks::riscv::MARKS,
    first_functions: &["start_kernel"],
    debian: "riscv64",
    ram_start: 0x8000_0000,
    ends: initramfs::BY_DEVICE,
    ..USUAL
};

static RISCV32: Facts = Facts {
    arch: Arch::Riscv32,
    elf: Identity { machine: EM_RISCV, class: ELFCLASS32, order: ELFDATA2LSB },
    relocations: &relocations::RISCV32,
    elf_flags: COMPRESSED,
    // The header of an Image does not say how wide its registers are.
    raw_image: None,
    debian: "riscv32",
    ram_start: 0x4000_0000,
    marks: &marks::riscv::MARKS,
    first_functions: &["start_kernel"],
    ..USUAL
};

/// The row of an ISA.
pub fn of(arch: Arch) -> &'static Facts {
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
        Arch::Riscv64 => &RISCV64,
        Arch::Riscv32 => &RISCV32,
        Arch::Parisc => &PARISC,
        Arch::Ia64 => &IA64,
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
            assert!(row.elf.machine != 0 && !row.debian.is_empty(), "{}", arch.name());
        }
    }
}
