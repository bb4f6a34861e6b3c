//! The relocations in the debug information of object files and kernel modules, by ISA: the numbers of each ISA's ELF
//! supplement, and the change that each stands for. Relocations of code are the guest's own business.

use goblin::elf::reloc as r;

/// The change of the bytes at a relocation's place. The number is the count of bytes; `S + A` is the symbol's address and
/// the addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// They become `S + A`.
    Set(usize),
    /// They become the distance from their own address to `S + A`.
    Distance(usize),
    /// `S + A` is added.
    Add(usize),
    /// `S + A` is subtracted.
    Subtract(usize),
    /// Their lowest six bits become `S + A`.
    SetSix,
    /// `S + A` is subtracted from their lowest six bits.
    SubtractSix,
    /// The ULEB128 number there becomes `S + A`, in as many bytes.
    SetLeb,
    /// `S + A` is subtracted from the ULEB128 number there.
    SubtractLeb,
}

/// An ISA's relocations.
pub struct Relocations {
    /// The known numbers.
    pub forms: &'static [(u32, Form)],
    /// Takes the symbol and the relocation's number out of `r_info`.
    pub split: fn(u64) -> (u64, u32),
}

impl Relocations {
    /// The form of a relocation.
    pub fn form(&self, number: u32) -> Option<Form> {
        self.forms.iter().find(|(known, _)| *known == number).map(|(_, form)| *form)
    }
}

/// `r_info` of 32-bit files.
fn narrow(info: u64) -> (u64, u32) {
    (info >> 8 & 0xff_ffff, info as u32 & 0xff)
}

/// `r_info` of 64-bit files.
fn wide(info: u64) -> (u64, u32) {
    (info >> 32, info as u32)
}

/// `r_info` of SPARC V9, and of MIPS64 in big-endian files: more numbers stand above the lowest byte.
fn lowest_byte(info: u64) -> (u64, u32) {
    (info >> 32, info as u32 & 0xff)
}

/// `r_info` of MIPS64 in little-endian files: the symbol comes first, and the number is the last byte.
fn last_byte(info: u64) -> (u64, u32) {
    (info & 0xffff_ffff, (info >> 56) as u32)
}

/// No relocations, for an ISA whose numbers are not known.
pub(super) static NONE: Relocations = Relocations { forms: &[], split: wide };

pub(super) static X86_64: Relocations = Relocations {
    forms: &[
        (r::R_X86_64_64, Form::Set(8)),
        (r::R_X86_64_32, Form::Set(4)),
        (r::R_X86_64_32S, Form::Set(4)),
        (r::R_X86_64_PC32, Form::Distance(4)),
        (r::R_X86_64_PC64, Form::Distance(8)),
    ],
    split: wide,
};

pub(super) static I386: Relocations =
    Relocations { forms: &[(r::R_386_32, Form::Set(4)), (r::R_386_PC32, Form::Distance(4))], split: narrow };

pub(super) static ARM: Relocations =
    Relocations { forms: &[(r::R_ARM_ABS32, Form::Set(4)), (r::R_ARM_REL32, Form::Distance(4))], split: narrow };

pub(super) static ARM64: Relocations = Relocations {
    forms: &[
        (r::R_AARCH64_ABS64, Form::Set(8)),
        (r::R_AARCH64_ABS32, Form::Set(4)),
        (r::R_AARCH64_PREL64, Form::Distance(8)),
        (r::R_AARCH64_PREL32, Form::Distance(4)),
    ],
    split: wide,
};

const PPC_FORMS: &[(u32, Form)] = &[
    (r::R_PPC64_ADDR64, Form::Set(8)),
    (r::R_PPC64_ADDR32, Form::Set(4)),
    (r::R_PPC64_REL64, Form::Distance(8)),
    (r::R_PPC64_REL32, Form::Distance(4)),
];
pub(super) static PPC: Relocations = Relocations { forms: PPC_FORMS, split: narrow };
pub(super) static PPC64: Relocations = Relocations { forms: PPC_FORMS, split: wide };

// R_390_32, R_390_64, R_390_PC32, R_390_PC64
pub(super) static S390: Relocations =
    Relocations { forms: &[(4, Form::Set(4)), (22, Form::Set(8)), (5, Form::Distance(4)), (23, Form::Distance(8))], split: wide };

// R_MIPS_PC32 is 248.
const MIPS_FORMS: &[(u32, Form)] = &[(r::R_MIPS_32, Form::Set(4)), (r::R_MIPS_64, Form::Set(8)), (248, Form::Distance(4))];
pub(super) static MIPS: Relocations = Relocations { forms: MIPS_FORMS, split: narrow };
pub(super) static MIPS64: Relocations = Relocations { forms: MIPS_FORMS, split: lowest_byte };
pub(super) static MIPS64EL: Relocations = Relocations { forms: MIPS_FORMS, split: last_byte };

// R_SPARC_32, R_SPARC_UA32, R_SPARC_64, R_SPARC_UA64, R_SPARC_DISP32, R_SPARC_DISP64
pub(super) static SPARC64: Relocations = Relocations {
    forms: &[
        (3, Form::Set(4)),
        (23, Form::Set(4)),
        (32, Form::Set(8)),
        (54, Form::Set(8)),
        (6, Form::Distance(4)),
        (46, Form::Distance(8)),
    ],
    split: lowest_byte,
};

// R_PARISC_DIR32, R_PARISC_PCREL32, R_PARISC_SECREL32, R_PARISC_SEGREL32
pub(super) static PARISC: Relocations =
    Relocations { forms: &[(1, Form::Set(4)), (9, Form::Distance(4)), (41, Form::Set(4)), (49, Form::Set(4))], split: narrow };

// R_IA64_DIR32LSB, R_IA64_DIR64LSB, R_IA64_PCREL32LSB, R_IA64_PCREL64LSB, R_IA64_SECREL32LSB, R_IA64_SECREL64LSB
pub(super) static IA64: Relocations = Relocations {
    forms: &[
        (0x25, Form::Set(4)),
        (0x27, Form::Set(8)),
        (0x4d, Form::Distance(4)),
        (0x4f, Form::Distance(8)),
        (0x65, Form::Set(4)),
        (0x67, Form::Set(8)),
    ],
    split: wide,
};

const RISCV_FORMS: &[(u32, Form)] = &[
    (r::R_RISCV_32, Form::Set(4)),
    (r::R_RISCV_64, Form::Set(8)),
    (r::R_RISCV_32_PCREL, Form::Distance(4)),
    (r::R_RISCV_SET8, Form::Set(1)),
    (r::R_RISCV_SET16, Form::Set(2)),
    (r::R_RISCV_SET32, Form::Set(4)),
    (r::R_RISCV_ADD8, Form::Add(1)),
    (r::R_RISCV_ADD16, Form::Add(2)),
    (r::R_RISCV_ADD32, Form::Add(4)),
    (r::R_RISCV_ADD64, Form::Add(8)),
    (r::R_RISCV_SUB8, Form::Subtract(1)),
    (r::R_RISCV_SUB16, Form::Subtract(2)),
    (r::R_RISCV_SUB32, Form::Subtract(4)),
    (r::R_RISCV_SUB64, Form::Subtract(8)),
    (r::R_RISCV_SET6, Form::SetSix),
    (r::R_RISCV_SUB6, Form::SubtractSix),
    (r::R_RISCV_SET_ULEB128, Form::SetLeb),
    (r::R_RISCV_SUB_ULEB128, Form::SubtractLeb),
];
pub(super) static RISCV64: Relocations = Relocations { forms: RISCV_FORMS, split: wide };
pub(super) static RISCV32: Relocations = Relocations { forms: RISCV_FORMS, split: narrow };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_symbol_and_the_number_are_taken_from_each_layout() {
        assert_eq!((X86_64.split)(0x7_0000_000a), (7, r::R_X86_64_32));
        assert_eq!((I386.split)(0x701), (7, r::R_386_32));
        assert_eq!((SPARC64.split)(0x7_0000_0117), (7, 23));
        assert_eq!((MIPS64.split)(0x7_0000_0012), (7, r::R_MIPS_64));
        assert_eq!((MIPS64EL.split)(0x1200_0000_0000_0007), (7, r::R_MIPS_64));
        assert_eq!(X86_64.form(r::R_X86_64_64), Some(Form::Set(8)));
        assert_eq!(X86_64.form(9999), None);
    }
}
