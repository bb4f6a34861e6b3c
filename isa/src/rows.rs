//! The rows of an ISA's table of instructions by number, each with examples. Vectors for other implementations are made of
//! them, and random tests count which of them they have met.

use crate::insn::Insn;
use alloc::vec::Vec;

/// Access to the rows.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The bytes of an instruction of a row. The bits that the row leaves open come from `free`. An earlier row may have
    /// this instruction, too. `None` behind the last row.
    pub example: fn(row: usize, free: u64) -> Option<Vec<u8>>,
    /// The offset of a row's example in its group of instructions. The bytes of the example are those of the group.
    pub offset: fn(row: usize) -> u64,
    /// The row that decides about an instruction; `None` if none does.
    pub of: fn(insn: &Insn) -> Option<usize>,
    /// Registers that must not have any value: the name, the bits that may vary, and those that are set in kernel code.
    pub flags: &'static [(&'static str, u64, u64)],
}

impl Rows {
    /// No rows.
    pub const NONE: Rows = Rows { example: |_, _| None, offset: |_| 0, of: |_| None, flags: &[] };

    /// The number of rows.
    pub fn count(&self) -> usize {
        (0..).take_while(|row| (self.example)(*row, 0).is_some()).count()
    }
}

/// A word of a row with a mask: `value`, with the other bits from `free`.
pub(crate) fn filled(mask: u32, value: u32, free: u64) -> u32 {
    value | free as u32 & !mask
}

#[cfg(test)]
mod tests {
    use crate::arch::Arch;

    /// BY-8: each row of each table has an instruction for which it decides.
    #[test]
    fn every_row_decides_about_one_of_its_examples() {
        for arch in Arch::ALL {
            let isa = arch.isa();
            let count = isa.rows.count();
            assert!(count > 20, "{}: {count} rows", arch.name());
            let mut missed = 0;
            for row in 0..count {
                let decides = (0..400_u64).any(|seed| {
                    let free = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 7;
                    let bytes = (isa.rows.example)(row, free).unwrap_or_default();
                    (isa.decode)(0x1000 + (isa.rows.offset)(row), &bytes).is_ok_and(|insn| (isa.rows.of)(&insn) == Some(row))
                });
                missed += usize::from(!decides);
            }
            // Opcodes of x86 that no CPU has, and rows of the other width.
            assert!(missed * 3 <= count * 2, "{}: {missed} of {count} rows have no example", arch.name());
        }
    }
}
