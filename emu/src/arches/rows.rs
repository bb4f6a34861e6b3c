//! One row per ISA with its facts for the machine, the command line and the readers of files.

use super::{Identity, Machine, Row};
use crate::boards::{bare, malta, pc, powernv, s390ccw, sbi, virt, wii};
use crate::boot::elf_wrapper;
use crate::boot::image;
use crate::boot::marks;
use crate::boot::whole;
use goblin::elf::header::{
    ELFCLASS32, ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, EM_386, EM_AARCH64, EM_ARM, EM_MIPS, EM_PPC, EM_PPC64, EM_RISCV, EM_S390,
    EM_SPARCV9, EM_X86_64,
};
use trapline_isa::arch::Arch;
#[cfg(feature = "cpu")]
use {
    super::Disassembler,
    crate::cpu::{arm, arm64, mips, ppc, riscv, s390, sparc64, x86},
    capstone::{Arch as Family, ExtraMode, Mode},
};

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
    disassembler: Disassembler {
        family: Family::X86,
        mode: Mode::Mode32,
        extra: None,
        has_syntaxes: true,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::X86,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: true,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::ARM,
        mode: Mode::Arm,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
};

static THUMB2: Row = Row {
    arch: Arch::Thumb2,
    elf: Identity { machine: EM_ARM, class: ELFCLASS32, order: ELFDATA2LSB },
    mapping_symbol: Some('t'),
    // A zImage is read as one of ARM code, and its kernel's first instructions say in which code it is.
    raw_image: None,
    decompressor: whole::zimage,
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
    disassembler: Disassembler {
        family: Family::ARM,
        mode: Mode::Thumb,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::ARM64,
        mode: Mode::Arm,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::PPC,
        mode: Mode::Mode32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::PPC,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::PPC,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::SYSZ,
        mode: Mode::Default,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::MIPS,
        mode: Mode::Mips32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::MIPS,
        mode: Mode::Mips32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::MIPS,
        mode: Mode::Mips64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::MIPS,
        mode: Mode::Mips64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
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
    disassembler: Disassembler {
        family: Family::SPARC,
        mode: Mode::V9,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    },
};

static RISCV64: Row = Row {
    arch: Arch::Riscv64,
    elf: Identity { machine: EM_RISCV, class: ELFCLASS64, order: ELFDATA2LSB },
    mapping_symbol: None,
    raw_image: Some(&image::RISCV_IMAGE),
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::riscv::MARKS,
    first_functions: &["start_kernel"],
    debian: "riscv64",
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &riscv::RISCV64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::ARM,
        stock: Some(&sbi::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler {
        family: Family::RISCV,
        mode: Mode::RiscV64,
        extra: Some(ExtraMode::RiscVC),
        has_syntaxes: false,
        prints_distances: true,
    },
};

static RISCV32: Row = Row {
    arch: Arch::Riscv32,
    elf: Identity { machine: EM_RISCV, class: ELFCLASS32, order: ELFDATA2LSB },
    // The header of an Image does not say how wide its registers are.
    raw_image: None,
    debian: "riscv32",
    #[cfg(feature = "cpu")]
    disassembler: Disassembler {
        family: Family::RISCV,
        mode: Mode::RiscV32,
        extra: Some(ExtraMode::RiscVC),
        has_syntaxes: false,
        prints_distances: true,
    },
    mapping_symbol: None,
    decompressor: whole::none,
    lies_at: core::convert::identity,
    marks: &marks::riscv::MARKS,
    first_functions: &["start_kernel"],
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &riscv::RISCV32,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::ARM,
        stock: None,
    }),
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
        Arch::Riscv64 => &RISCV64,
        Arch::Riscv32 => &RISCV32,
    }
}
