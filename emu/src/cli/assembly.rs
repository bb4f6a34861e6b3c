//! Disassembly for people: Capstone's text or ours, with symbol names for branch targets.

use super::Failure;
use crate::arches::{self, Disassembler, Settings};
use crate::boot::kernels;
use crate::symbols::Symbols;
use capstone::{Capstone, Endian};
use clap::ValueEnum;
use goblin::elf::header::ELFDATA2LSB;
use std::fmt::Write;
use trapline_isa::arch::Arch;
use trapline_isa::insn::{Flow, Insn};

/// The assembly syntax of x86 instructions
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Syntax {
    /// The syntax of the kernel's sources: source first, `%rax`
    #[default]
    Att,
    /// The syntax of Intel's manuals: destination first, `rax`
    Intel,
}

/// Writes instructions of one kernel as text.
pub struct Writer<'k> {
    source: Source,
    symbols: &'k Symbols,
}

/// The source of an instruction's text.
enum Source {
    Capstone { capstone: Capstone, prints_distances: bool },
    Ours(fn(&Insn) -> Option<String>),
}

impl Source {
    fn of(arch: Arch, syntax: Syntax) -> Result<Source, Failure> {
        let row = arches::of(arch);
        let Settings { family, mode, extra, has_syntaxes, prints_distances } = match row.disassembler {
            Disassembler::Capstone(settings) => settings,
            Disassembler::Ours(text) => return Ok(Source::Ours(text)),
        };
        let endian = if kernels::of(row.arch).elf.order == ELFDATA2LSB { Endian::Little } else { Endian::Big };
        let capstone = Capstone::new_raw(family, mode, extra.into_iter(), Some(endian)).and_then(|mut capstone| {
            if has_syntaxes {
                capstone.set_syntax(match syntax {
                    Syntax::Att => capstone::Syntax::Att,
                    Syntax::Intel => capstone::Syntax::Intel,
                })?;
            }
            Ok(capstone)
        });
        let capstone = capstone.map_err(|error| Failure::failed(format!("the disassembler cannot be set up: {error}")))?;
        Ok(Source::Capstone { capstone, prints_distances })
    }

    /// The texts of the instruction's parts; `None` if it is not known.
    fn texts(&self, insn: &Insn) -> Option<Vec<String>> {
        let capstone = match self {
            Source::Ours(text) => return text(insn).map(|text| vec![text]),
            Source::Capstone { capstone, .. } => capstone,
        };
        let decoded = capstone.disasm_all(insn.bytes(), insn.address).ok()?;
        // We decode a branch and its delay slot as one instruction, capstone as two.
        let is_whole = decoded.iter().map(|part| part.bytes().len()).sum::<usize>() == insn.bytes().len();
        is_whole.then(|| decoded.iter().filter_map(words).collect())
    }
}

impl<'k> Writer<'k> {
    /// Creates a writer for an ISA.
    pub fn new(arch: Arch, syntax: Syntax, symbols: &'k Symbols) -> Result<Writer<'k>, Failure> {
        Ok(Writer { source: Source::of(arch, syntax)?, symbols })
    }

    /// The text of an instruction; `.byte ...` if the disassembler does not know it.
    pub fn text(&self, insn: &Insn) -> String {
        let Some(mut texts) = self.source.texts(insn) else { return raw(insn) };
        if let Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) = insn.flow
            && let Some(first) = texts.first_mut()
        {
            if let Source::Capstone { prints_distances: true, .. } = self.source {
                let operands = first.rfind([' ', ',']).map_or(0, |space| space + 1);
                first.truncate(operands);
                let _ = write!(first, "{target:#x}");
            }
            *first = format!("{first} <{}>", self.symbols.describe(target));
        }
        texts.join("; ")
    }
}

/// Capstone's mnemonic, followed by the operands if there are any.
fn words(decoded: &capstone::Insn<'_>) -> Option<String> {
    let mnemonic = decoded.mnemonic()?;
    Some(match decoded.op_str() {
        Some("") | None => mnemonic.to_string(),
        Some(operands) => format!("{mnemonic} {operands}"),
    })
}

/// The text of an instruction that capstone does not know or whose length it sees differently.
fn raw(insn: &Insn) -> String {
    let bytes: Vec<String> = insn.bytes().iter().map(|byte| format!("{byte:#04x}")).collect();
    format!(".byte {}", bytes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::tests::table;

    /// KP-5: branch targets are shown with their symbols.
    #[test]
    fn branch_targets_have_names() {
        let symbols = table(&[(0x1000, 'T', "_stext"), (0x1100, 'T', "vfs_read"), (0x2000, 'D', "_end")]);
        use Arch::{Arm, Arm64, Mipsel, Riscv32, Riscv64, X86_64};
        use Syntax::{Att, Intel};
        #[rustfmt::skip]
        let cases: [(Arch, &[u8], Syntax, &str); 15] = [
            (X86_64, &[0xe8, 0xfb, 0, 0, 0],            Att,    "callq 0x1100 <vfs_read>"),
            (X86_64, &[0xeb, 0x10],                     Att,    "jmp 0x1012 <_stext+0x12>"),
            (X86_64, &[0x89, 0xd8],                     Att,    "movl %ebx, %eax"),
            (X86_64, &[0x89, 0xd8],                     Intel,  "mov eax, ebx"),
            (X86_64, &[0xc3],                           Att,    "retq"),
            (Arm,    &[0x3e, 0x00, 0x00, 0xeb],         Att,    "bl #0x1100 <vfs_read>"),
            (Arm,    &[0x04, 0xe0, 0x2d, 0xe5],         Att,    "str lr, [sp, #-4]!"),
            (Arm64,  &[0x40, 0x00, 0x00, 0x94],         Att,    "bl #0x1100 <vfs_read>"),
            (Arm64,  &[0xfd, 0x7b, 0xbe, 0xa9],         Att,    "stp x29, x30, [sp, #-0x20]!"),
            (Mipsel, &[0x40, 0x04, 0, 0x0c, 0xf8, 0xff, 0xbd, 0x27],
                                                        Att,    "jal 0x1100 <vfs_read>; addiu $sp, $sp, -8"),
            (Arm64,  &[0xe1, 0xff, 0xff, 0x54],         Att,    "b.ne #0xffc <0xffc>"),
            (Riscv64, &[0xef, 0x00, 0x00, 0x10],        Att,    "jal 0x1100 <vfs_read>"),
            (Riscv64, &[0x06, 0xe4],                    Att,    "c.sdsp ra, 8(sp)"),
            (Riscv64, &[0x63, 0x0f, 0xb5, 0x0e],        Att,    "beq a0, a1, 0x10fe <_stext+0xfe>"),
            (Riscv32, &[0x01, 0x22],                    Att,    "c.jal 0x1100 <vfs_read>"),
        ];
        for (arch, bytes, syntax, expected) in cases {
            let writer = Writer::new(arch, syntax, &symbols).unwrap();
            let insn = (arch.isa().decode)(0x1000, bytes).unwrap();
            assert_eq!(writer.text(&insn), expected);
        }
    }
}
