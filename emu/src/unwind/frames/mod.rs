//! Call frame information (DWARF's `.debug_frame`) made of the rule by which a kernel is unwound, so that debuggers unwind its
//! stacks in the same way.

mod of_orc;

use super::orc::Orc;
use super::{CHAINS, LATE_CHAINS, PROLOGUES, chain, has_frames, prologue};
use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;

pub use of_orc::of_tables;

// Call frame instructions.
const ADVANCE: u8 = 0x04;
const SAME_VALUE: u8 = 0x08;
const DEFINE_CFA: u8 = 0x0c;
const CFA_EXPRESSION: u8 = 0x0f;
const OFFSET_SIGNED: u8 = 0x11;
const VALUE_OFFSET: u8 = 0x14;
// Operations of expressions.
const DEREFERENCE: u8 = 0x06;
const REGISTER: u8 = 0x70;
/// More than the number of any register in DWARF that a rule uses.
const MOST_COLUMNS: u16 = 128;

/// The rule by which a function is unwound, from an address in it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub at: u64,
    /// The caller's stack pointer is the sum of this register and `distance` or, if `is_word`, the word at that address.
    pub base: Reg,
    pub distance: i64,
    pub is_word: bool,
    /// Registers of the caller in memory, by their distance from its stack pointer. The others have kept their values.
    pub saved: Vec<(Reg, i64)>,
}

/// A method of unwinding by pieces of functions.
pub(super) trait Pieces {
    /// The register in which the return address is at a function's entry, or to which the return address goes. `None`: DWARF
    /// cannot express the method.
    fn returns(&self) -> Option<Reg>;
    /// Further registers that are unwound.
    fn registers(&self) -> Vec<Reg>;
    /// The pieces of a function, by address.
    fn pieces(&self, function: &Range<u64>) -> Vec<Piece>;
}

/// The contents of `.debug_frame` for a kernel. `None` if no unwinding rule is known that DWARF can express.
pub fn of(kernel: &Kernel) -> Option<Vec<u8>> {
    let mut functions: Vec<u64> =
        kernel.symbols.places().iter().filter(|entry| entry.is_text()).map(|entry| entry.address).collect();
    functions.dedup();
    if let Some(orc) = Orc::of(kernel) {
        return Some(of_tables(&orc, &functions));
    }
    if let Some((_, looks)) = PROLOGUES.iter().find(|(arches, _)| arches.contains(&kernel.arch)) {
        let code = std::iter::once(kernel.tables.text.clone());
        return Writer::of(kernel)?.section(&prologue::Prologues::new(kernel, code, looks)?, &functions);
    }
    let is_told = has_frames(kernel) && !LATE_CHAINS.contains(&kernel.arch);
    let (_, chain) = CHAINS.iter().find(|(arch, _)| *arch == kernel.arch).filter(|_| is_told)?;
    Writer::of(kernel)?.section(&chain::Chained::new(kernel, chain)?, &functions)
}

/// Writes the section of an ISA.
struct Writer {
    order: ByteOrder,
    word: usize,
    sp: Reg,
    column: fn(u16) -> Option<Reg>,
}

impl Writer {
    fn of(kernel: &Kernel) -> Option<Writer> {
        let isa = kernel.arch.isa();
        Some(Writer { order: isa.order, word: isa.word, sp: isa.abi.sp, column: isa.abi.dwarf })
    }

    /// DWARF's number of a register.
    fn number(&self, reg: Reg) -> Option<u8> {
        (0..MOST_COLUMNS).find(|number| (self.column)(*number) == Some(reg)).map(|number| number as u8)
    }

    fn put(&self, into: &mut Vec<u8>, value: u64, size: usize) {
        let at = into.len();
        into.resize(at + size, 0);
        self.order.put(value, &mut into[at..]);
    }

    /// Puts an entry with its length, padded with instructions that do nothing.
    fn put_entry(&self, section: &mut Vec<u8>, mut entry: Vec<u8>) {
        entry.resize((entry.len() + 4).next_multiple_of(8) - 4, 0);
        self.put(section, entry.len() as u64, 4);
        section.extend(entry);
    }

    fn section(&self, method: &dyn Pieces, functions: &[u64]) -> Option<Vec<u8>> {
        let returns = self.number(method.returns()?)?;
        let registers = method.registers().into_iter().chain(method.returns()).map(|reg| Some((reg, self.number(reg)?)));
        let registers = registers.collect::<Option<Vec<(Reg, u8)>>>()?;
        let mut section = Vec::new();
        // The common entry: version 1, no augmentation, both alignment factors 1.
        let mut common = vec![0xff; 4];
        common.extend([1, 0, 1, 1, returns, DEFINE_CFA, self.number(self.sp)?, 0]);
        self.put_entry(&mut section, common);
        for pair in functions.windows(2) {
            let function = pair[0]..pair[1];
            let mut entry = vec![0; 4];
            self.put(&mut entry, function.start, self.word);
            self.put(&mut entry, function.end - function.start, self.word);
            let mut here = function.start;
            for piece in method.pieces(&function).into_iter().filter(|piece| function.contains(&piece.at)) {
                if piece.at > here {
                    entry.push(ADVANCE);
                    self.put(&mut entry, piece.at - here, 4);
                    here = piece.at;
                }
                self.put_piece(&mut entry, &piece, &registers)?;
            }
            self.put_entry(&mut section, entry);
        }
        Some(section)
    }

    fn put_piece(&self, entry: &mut Vec<u8>, piece: &Piece, registers: &[(Reg, u8)]) -> Option<()> {
        let base = self.number(piece.base)?;
        if piece.is_word {
            let mut expression = vec![REGISTER + base];
            put_signed(&mut expression, piece.distance);
            expression.push(DEREFERENCE);
            entry.push(CFA_EXPRESSION);
            put_unsigned(entry, expression.len() as u64);
            entry.extend(expression);
        } else {
            entry.extend([DEFINE_CFA, base]);
            put_unsigned(entry, piece.distance.max(0).cast_unsigned());
        }
        entry.extend([VALUE_OFFSET, self.number(self.sp)?, 0]);
        for (reg, number) in registers {
            match piece.saved.iter().find(|(saved, _)| saved == reg) {
                Some((_, distance)) => {
                    entry.extend([OFFSET_SIGNED, *number]);
                    put_signed(entry, *distance);
                }
                None => entry.extend([SAME_VALUE, *number]),
            }
        }
        Some(())
    }
}

fn put_unsigned(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn put_signed(into: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        let is_last = if byte & 0x40 == 0 { value == 0 } else { value == -1 };
        into.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_dwarfs_variable_length() {
        let mut bytes = Vec::new();
        [0, 127, 128, 624_485].iter().for_each(|value| put_unsigned(&mut bytes, *value));
        assert_eq!(bytes, [0, 0x7f, 0x80, 1, 0xe5, 0x8e, 0x26]);
        bytes.clear();
        [2, -2, 127, -127, 128, -128].iter().for_each(|value| put_signed(&mut bytes, *value));
        assert_eq!(bytes, [2, 0x7e, 0xff, 0, 0x81, 0x7f, 0x80, 1, 0x80, 0x7f]);
    }

    /// TT-7: `.debug_frame` can express each rule of a chain, on every ISA that has one.
    #[test]
    fn every_chain_becomes_call_frame_information() {
        for (arch, chain) in CHAINS {
            let kernel = Kernel::from_parts(*arch, 0, Vec::new(), crate::symbols::Symbols::default());
            let chained = chain::Chained::new(&kernel, chain).expect("its registers have names");
            let section = Writer::of(&kernel).and_then(|writer| writer.section(&chained, &[0x1000, 0x1010, 0x2000]));
            let section = section.unwrap_or_else(|| panic!("{arch:?}: a register has no number"));
            assert!(section.len() > 90 && section.len().is_multiple_of(8), "{arch:?}: {} bytes", section.len());
        }
    }
}
