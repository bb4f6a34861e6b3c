//! One row per ISA with its machine and its disassembler.

use super::{Machine, Row};
use crate::boards::{bare, malta, pc, powernv, s390ccw, sbi, virt, wii};
use trapline_isa::arch::Arch;
#[cfg(feature = "cpu")]
use {
    super::{Disassembler, Settings},
    crate::cpu::{arm, arm64, ia64, mips, parisc, ppc, riscv, s390, sparc64, x86},
    capstone::{Arch as Family, ExtraMode, Mode},
};

static I386: Row = Row {
    arch: Arch::I386,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &x86::I386,
        #[cfg(feature = "cpu")]
        program: Some(&x86::core::LOOP_32),
        bare: &bare::SPEC,
        stock: Some(&pc::I386),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::X86,
        mode: Mode::Mode32,
        extra: None,
        has_syntaxes: true,
        prints_distances: false,
    }),
};

static X86_64: Row = Row {
    arch: Arch::X86_64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &x86::X86_64,
        #[cfg(feature = "cpu")]
        program: Some(&x86::core::LOOP_64),
        bare: &bare::SPEC,
        stock: Some(&pc::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::X86,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: true,
        prints_distances: false,
    }),
};

static ARM: Row = Row {
    arch: Arch::Arm,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm::ARM,
        #[cfg(feature = "cpu")]
        program: Some(&arm::core::LOOP),
        bare: &bare::ARM,
        stock: Some(&virt::ARM),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::ARM,
        mode: Mode::Arm,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static THUMB2: Row = Row {
    arch: Arch::Thumb2,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm::THUMB2,
        #[cfg(feature = "cpu")]
        program: Some(&arm::core::LOOP_IN_THUMB),
        bare: &bare::ARM,
        stock: Some(&virt::ARM),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::ARM,
        mode: Mode::Thumb,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static ARM64: Row = Row {
    arch: Arch::Arm64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &arm64::ARM64,
        #[cfg(feature = "cpu")]
        program: Some(&arm64::core::LOOP),
        bare: &bare::ARM,
        stock: Some(&virt::ARM64),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::ARM64,
        mode: Mode::Arm,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static PPC: Row = Row {
    arch: Arch::Ppc,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::narrow::PPC,
        #[cfg(feature = "cpu")]
        program: Some(&ppc::narrow::core::LOOP),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&wii::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::PPC,
        mode: Mode::Mode32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static PPC64: Row = Row {
    arch: Arch::Ppc64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::PPC64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::BIG_ENDIAN,
        stock: Some(&powernv::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::PPC,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static PPC64LE: Row = Row {
    arch: Arch::Ppc64le,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ppc::PPC64LE,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::SPEC,
        stock: Some(&powernv::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::PPC,
        mode: Mode::Mode64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static S390X: Row = Row {
    arch: Arch::S390x,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &s390::S390X,
        #[cfg(feature = "cpu")]
        program: Some(&s390::core::LOOP),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&s390ccw::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::SYSZ,
        mode: Mode::Default,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static MIPS: Row = Row {
    arch: Arch::Mips,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_BIG_32),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&malta::BIG_ENDIAN),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::MIPS,
        mode: Mode::Mips32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static MIPSEL: Row = Row {
    arch: Arch::Mipsel,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPSEL,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_LITTLE_32),
        bare: &bare::SPEC,
        stock: Some(&malta::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::MIPS,
        mode: Mode::Mips32,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static MIPS64: Row = Row {
    arch: Arch::Mips64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS64,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_BIG_64),
        bare: &bare::BIG_ENDIAN,
        stock: Some(&malta::BIG_ENDIAN),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::MIPS,
        mode: Mode::Mips64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static MIPS64EL: Row = Row {
    arch: Arch::Mips64el,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &mips::MIPS64EL,
        #[cfg(feature = "cpu")]
        program: Some(&mips::core::LOOP_LITTLE_64),
        bare: &bare::SPEC,
        stock: Some(&malta::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::MIPS,
        mode: Mode::Mips64,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static SPARC64: Row = Row {
    arch: Arch::Sparc64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &sparc64::SPARC64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::BIG_ENDIAN,
        stock: None,
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::SPARC,
        mode: Mode::V9,
        extra: None,
        has_syntaxes: false,
        prints_distances: false,
    }),
};

static RISCV64: Row = Row {
    arch: Arch::Riscv64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &riscv::RISCV64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::ARM,
        stock: Some(&sbi::SPEC),
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::RISCV,
        mode: Mode::RiscV64,
        extra: Some(ExtraMode::RiscVC),
        has_syntaxes: false,
        prints_distances: true,
    }),
};

static RISCV32: Row = Row {
    arch: Arch::Riscv32,
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Capstone(Settings {
        family: Family::RISCV,
        mode: Mode::RiscV32,
        extra: Some(ExtraMode::RiscVC),
        has_syntaxes: false,
        prints_distances: true,
    }),
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &riscv::RISCV32,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::ARM,
        stock: None,
    }),
};

static PARISC: Row = Row {
    arch: Arch::Parisc,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &parisc::PARISC,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::BIG_ENDIAN,
        stock: None,
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Ours(trapline_isa::parisc::disasm::of),
};

static IA64: Row = Row {
    arch: Arch::Ia64,
    machine: Some(Machine {
        #[cfg(feature = "cpu")]
        model: &ia64::IA64,
        #[cfg(feature = "cpu")]
        program: None,
        bare: &bare::SPEC,
        stock: None,
    }),
    #[cfg(feature = "cpu")]
    disassembler: Disassembler::Ours(trapline_isa::ia64::disasm::of),
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
        Arch::Parisc => &PARISC,
        Arch::Ia64 => &IA64,
    }
}
