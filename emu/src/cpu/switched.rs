//! The registers of a task that no CPU runs, as Linux's switch of tasks has kept them.

use crate::boot::btf::Btf;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Reg;

/// The words in which an ISA's Linux keeps the registers of such a task. They are those that a called function has to
/// preserve.
pub struct Switched {
    /// The structures and members that lead from the task to the words, or to their address.
    pub path: &'static [(&'static str, &'static str)],
    /// Whether the path leads to the address of the words, which lie on the task's stack.
    pub is_address: bool,
    /// Registers with consecutive numbers in consecutive words: the first word, the first register, and how many they are.
    pub words: &'static [(u8, Reg, u8)],
    /// The number of the word with the address at which the task continues.
    pub pc: u8,
    /// The number of words that the task pops when it continues, and the register of the stack pointer. `None`: one of
    /// the words holds the stack pointer.
    pub popped: Option<(u8, Reg)>,
}

/// The place of the words in one kernel.
#[derive(Clone, Copy)]
pub struct SwitchedPlace {
    switched: &'static Switched,
    offset: u64,
    word: usize,
}

/// The registers of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The address at which the task goes on.
    pub pc: u64,
    registers: Vec<(Reg, u64)>,
}

impl Kept {
    /// The value of a register, if it is kept.
    pub fn get(&self, reg: Reg) -> Option<u64> {
        self.registers.iter().find(|(known, _)| *known == reg).map(|(_, value)| *value)
    }
}

impl SwitchedPlace {
    /// The place by a kernel's types.
    pub fn of(switched: &'static Switched, types: &Btf<'_>, word: usize) -> Option<SwitchedPlace> {
        let offsets = switched.path.iter().map(|(structure, member)| types.offset_of(structure, member));
        Some(SwitchedPlace { switched, offset: offsets.sum::<Option<u64>>()?, word })
    }

    /// The registers of the task at an address.
    pub fn registers<M: Memory>(&self, task: u64, memory: &mut M) -> Option<Kept> {
        let mut words = task.wrapping_add(self.offset);
        if self.switched.is_address {
            words = memory.read_number(words, self.word).ok()?;
        }
        let mut at = |number: u8| memory.read_number(words.wrapping_add(u64::from(number) * self.word as u64), self.word).ok();
        let mut registers = Vec::new();
        for (first, reg, count) in self.switched.words {
            for number in 0..*count {
                registers.push((Reg(reg.0 + number), at(first + number)?));
            }
        }
        if let Some((popped, sp)) = self.switched.popped {
            registers.push((sp, words.wrapping_add(u64::from(popped) * self.word as u64)));
        }
        Some(Kept { pc: at(self.switched.pc)?, registers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::mem::{ByteOrder, Fault};

    /// The word at each address is the address itself, but for the stack pointer in a task at 0x1000.
    struct Words;

    impl Memory for Words {
        fn order(&self) -> ByteOrder {
            ByteOrder::Little
        }

        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
            let value = if address == 0x1010 { 0x8000 } else { address };
            into.copy_from_slice(&value.to_le_bytes()[..into.len()]);
            Ok(())
        }

        fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault { address, write: true })
        }
    }

    /// TT-7: registers are found in the task's structure, and on its stack.
    #[test]
    fn registers_are_in_the_task_or_on_its_stack() {
        static ON_STACK: Switched =
            Switched { path: &[], is_address: true, words: &[(1, Reg(5), 2)], pc: 3, popped: Some((4, Reg(9))) };
        static IN_TASK: Switched = Switched { path: &[], is_address: false, words: &[(0, Reg(9), 1)], pc: 2, popped: None };
        let kept = |switched| SwitchedPlace { switched, offset: 0x10, word: 8 }.registers(0x1000, &mut Words);
        let on_stack = vec![(Reg(5), 0x8008), (Reg(6), 0x8010), (Reg(9), 0x8020)];
        assert_eq!(kept(&ON_STACK), Some(Kept { pc: 0x8018, registers: on_stack }));
        assert_eq!(kept(&IN_TASK), Some(Kept { pc: 0x1020, registers: vec![(Reg(9), 0x8000)] }));
    }
}
