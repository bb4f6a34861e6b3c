//! Finds the offsets of a task's number and name in the code that prints them (`cpu/tasks.rs` chooses the code).
//!
//! Each ISA describes the effect of its instructions on registers. This file follows the running task's address through
//! them. A value that is loaded from the task and is no pointer is the number. An address that is computed from the
//! task and not loaded from is that of the name.

use super::TaskPlace;

/// A register, by its number.
pub type Register = u8;
/// No ISA has more general registers.
const REGISTERS: usize = 32;

/// The effect of an instruction on registers. It replaces the value of `into`.
#[expect(missing_docs, reason = "a variant's words say what its fields are")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The register gets the running task's address.
    Task(Register),
    /// The sum of another register's value and a distance.
    Address { into: Register, base: Register, distance: i64 },
    /// The sum of two registers.
    Sum { into: Register, one: Register, other: Register },
    /// A number that the instruction loads.
    Constant { into: Register, value: i64 },
    /// The upper half of a 32-bit constant. The register keeps its lower half.
    UpperHalf { into: Register, value: u16 },
    /// Another register's value with these bits cleared.
    Cleared { into: Register, base: Register, bits: u64 },
    /// A register's value with only those bits kept that another register has set.
    Masked { into: Register, base: Register, mask: Register },
    /// A load from memory at a distance from a register: a number of 32 bits, or anything else.
    Load { into: Register, base: Register, distance: i64, is_number: bool },
    /// [`Step::Load`] with the distance in a register.
    LoadBy { into: Register, base: Register, by: Register, is_number: bool },
    /// These registers, a bit for each, get values that have nothing to do with the task.
    Others(u32),
}

/// The known origin of a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Other,
    Constant(i64),
    /// The stack pointer with these bits cleared.
    Stack(u64),
    /// An address in the running task, by its offset. If an addition made it, the index in [`Reader::made`] follows: it may be
    /// the address of the name.
    Task(i64, Option<usize>),
    /// A value that was loaded, by its index in [`Reader::loads`].
    Loaded(usize),
}

/// A load from the task, or from the bottom of the stack.
struct Load {
    offset: i64,
    from_stack: bool,
    is_number: bool,
}

struct Reader {
    /// The bits of an address within a stack.
    in_stack: u64,
    values: [Value; REGISTERS],
    loads: Vec<Load>,
    /// The offsets in the task of the addresses that the code has computed. `None` if a later address was computed from it, so
    /// that it is not the name's.
    made: Vec<Option<i64>>,
    /// The offset of the task's address at the bottom of the stack.
    pointer: Option<i64>,
}

/// More bytes than any kernel's `task_struct` has.
const LARGEST_TASK: i64 = 64 << 10;
/// In every Linux the numbers of the task and of its process, each of 4 bytes, are followed by the stack's canary.
const TO_CANARY: i64 = 8;

/// Finds the offsets of a task's number and name in these steps. Returns an empty place if one of them is not found.
///
/// `stack` has the stack pointer, and the size of a stack at whose bottom the kernel keeps the task's address.
pub fn find(steps: impl Iterator<Item = Step>, stack: Option<(Register, u64)>) -> TaskPlace {
    let mut values = [Value::Other; REGISTERS];
    let in_stack = stack.map_or(0, |(_, size)| size - 1);
    if let Some((pointer, _)) = stack {
        values[usize::from(pointer) % REGISTERS] = Value::Stack(0);
    }
    let mut reader = Reader { in_stack, values, loads: Vec::new(), made: Vec::new(), pointer: None };
    steps.for_each(|step| reader.step(step));
    reader.found().unwrap_or_default()
}

impl Reader {
    fn value(&self, register: Register) -> Value {
        self.values[usize::from(register) % REGISTERS]
    }

    fn set(&mut self, register: Register, value: Value) {
        self.values[usize::from(register) % REGISTERS] = value;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Task(into) => self.set(into, Value::Task(0, None)),
            Step::Constant { into, value } => self.set(into, Value::Constant(value)),
            Step::UpperHalf { into, value } => match self.value(into) {
                Value::Constant(low) => self.set(into, Value::Constant(low & 0xffff | i64::from(value) << 16)),
                _ => self.set(into, Value::Other),
            },
            Step::Address { into, base, distance } => self.add(into, base, distance),
            Step::Sum { into, one, other } => match (self.value(one), self.value(other)) {
                (_, Value::Constant(distance)) => self.add(into, one, distance),
                (Value::Constant(distance), _) => self.add(into, other, distance),
                _ => self.set(into, Value::Other),
            },
            Step::Cleared { into, base, bits } => self.clear(into, base, bits),
            Step::Masked { into, base, mask } => match (self.value(base), self.value(mask)) {
                (_, Value::Constant(mask)) => self.clear(into, base, !mask as u64),
                (Value::Constant(kept), _) => self.clear(into, mask, !kept as u64),
                _ => self.set(into, Value::Other),
            },
            Step::Load { into, base, distance, is_number } => self.load(into, base, distance, is_number),
            Step::LoadBy { into, base, by, is_number } => match self.value(by) {
                Value::Constant(distance) => self.load(into, base, distance, is_number),
                _ => self.set(into, Value::Other),
            },
            Step::Others(registers) => {
                let all = (0..REGISTERS as u8).filter(|register| registers >> register & 1 != 0);
                all.for_each(|register| self.set(register, Value::Other));
            }
        }
    }

    /// The offset in the task to which a register points, and the index of that address in [`Reader::made`]. Notes that the
    /// register's value was used as an address.
    fn led(&mut self, base: Register) -> Option<(i64, Option<usize>)> {
        match self.value(base) {
            Value::Task(offset, made) => Some((offset, made)),
            Value::Loaded(number) => {
                let Load { offset, from_stack, .. } = self.loads[number];
                self.loads[number].is_number = false;
                if !from_stack {
                    return None;
                }
                // A value that is loaded from the bottom of the stack and used as an address is the task's address.
                self.pointer = Some(offset);
                for value in self.values.iter_mut().filter(|value| **value == Value::Loaded(number)) {
                    *value = Value::Task(0, None);
                }
                Some((0, None))
            }
            _ => None,
        }
    }

    fn add(&mut self, into: Register, base: Register, distance: i64) {
        let value = match self.value(base) {
            Value::Stack(0) => Value::Stack(0),
            value if distance == 0 => value,
            Value::Constant(value) => Value::Constant(value.wrapping_add(distance)),
            _ => match self.led(base) {
                Some((from, made)) => {
                    // Two instructions may make one address.
                    self.replaced(made, distance);
                    let offset = from.wrapping_add(distance);
                    self.made.push(Some(offset));
                    Value::Task(offset, Some(self.made.len() - 1))
                }
                None => Value::Other,
            },
        };
        self.set(into, value);
    }

    /// Drops a computed address if the code uses it to reach something behind it. It is then not the name's.
    fn replaced(&mut self, made: Option<usize>, distance: i64) {
        if let Some(made) = made.filter(|_| distance > 0) {
            self.made[made] = None;
        }
    }

    fn clear(&mut self, into: Register, base: Register, bits: u64) {
        let value = match self.value(base) {
            Value::Stack(cleared) => Value::Stack((cleared | bits) & self.in_stack),
            _ => Value::Other,
        };
        self.set(into, value);
    }

    fn load(&mut self, into: Register, base: Register, distance: i64, is_number: bool) {
        let place = match self.value(base) {
            Value::Stack(cleared) if cleared == self.in_stack && cleared != 0 => Some((distance, true)),
            _ => self.led(base).map(|(from, made)| {
                self.replaced(made, distance);
                (from.wrapping_add(distance), false)
            }),
        };
        let value = match place {
            Some((offset, from_stack)) => {
                self.loads.push(Load { offset, from_stack, is_number });
                Value::Loaded(self.loads.len() - 1)
            }
            None => Value::Other,
        };
        self.set(into, value);
    }

    fn found(&self) -> Option<TaskPlace> {
        let members = || self.loads.iter().filter(|load| !load.from_stack && (1..LARGEST_TASK).contains(&load.offset));
        let is_number = |offset: i64| members().any(|load| load.is_number && load.offset == offset);
        // Others in front of it are loaded, too, such as the number of the CPU.
        let last = members().filter(|load| load.is_number).map(|load| load.offset).max()?;
        let pid = if is_number(last - TO_CANARY) { last - TO_CANARY } else { last };
        // KASAN's functions get the address of a member that is then loaded. The name is never loaded, so its address is another
        // one.
        let is_name = |address: &i64| *address > pid && *address < LARGEST_TASK && !members().any(|load| load.offset == *address);
        let comm = self.made.iter().flatten().copied().find(is_name)?;
        let offset = |offset: i64| u64::try_from(offset).ok();
        Some(TaskPlace { in_stack: self.pointer.and_then(offset), pid: offset(pid), comm: offset(comm), ..TaskPlace::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Register = 4;

    /// Offsets of the pointer in the stack, the number and the name.
    type Places = (Option<u64>, Option<u64>, Option<u64>);

    fn places(steps: &[Step]) -> Places {
        let TaskPlace { in_stack, pid, comm, .. } = find(steps.iter().copied(), Some((13, 0x2000)));
        (in_stack, pid, comm)
    }

    fn load(into: Register, base: Register, distance: i64) -> Step {
        Step::Load { into, base, distance, is_number: true }
    }

    fn add(into: Register, base: Register, distance: i64) -> Step {
        Step::Address { into, base, distance }
    }

    /// DV-4: each form in which compilers write this code, and code from which nothing is to be read.
    #[test]
    fn number_and_name_are_found_among_other_code() {
        const NOTHING: Places = (None, None, None);
        const PLACE: Places = (None, Some(0x6b0), Some(0x814));
        let (task, number, name) = (Step::Task(TASK), load(9, TASK, 0x6b0), add(8, TASK, 0x814));
        #[rustfmt::skip]
        let cases: [(&str, &[Step], Places); 17] = [
            ("number and name",                     &[task, number, name], PLACE),
            ("the CPU's number in front",           &[task, load(2, TASK, 8), number, name], PLACE),
            ("another structure's address behind",  &[task, load(3, TASK, 0x808), load(3, 3, 0x14), number, name], PLACE),
            ("that structure's address is kept",    &[task, load(3, TASK, 0x808), load(2, 3, 0x14), number, name, Step::Others(0x500f)], PLACE),
            ("the stack's canary behind",           &[task, load(3, TASK, 0x6b8), number, name], PLACE),
            ("a name in two steps",                 &[task, add(8, TASK, 0x810), number, add(8, 8, 4)], PLACE),
            ("a name by a constant",                &[task, Step::Constant { into: 1, value: 0x814 }, Step::Sum { into: 8, one: TASK, other: 1 }, number], PLACE),
            ("a number by a constant",              &[task, Step::Constant { into: 1, value: 0x6b0 }, Step::LoadBy { into: 9, base: TASK, by: 1, is_number: true }, name], PLACE),
            ("a number by the name",                &[task, add(TASK, TASK, 0x814), load(9, TASK, 0x6b0 - 0x814)], PLACE),
            ("a sanitizer",                         &[task, add(0, TASK, 0x6b0), Step::Others(0x500f), number, name], PLACE),
            ("a copy",                              &[task, add(5, TASK, 0), load(9, 5, 0x6b0), add(8, 5, 0x814)], PLACE),
            ("a call changes the register",         &[Step::Task(0), Step::Others(0x500f), load(9, 0, 0x6b0), add(8, 0, 0x814)], NOTHING),
            ("a load changes it",                   &[task, load(TASK, TASK, 4), number, name], NOTHING),
            ("a pointer alone",                     &[task, load(3, TASK, 0x6b0), load(3, 3, 0x14), name], NOTHING),
            ("a doubleword is no number",           &[task, Step::Load { into: 9, base: TASK, distance: 0x6b0, is_number: false }, name], NOTHING),
            ("a number and no name",                &[task, number, add(8, TASK, 0x100)], NOTHING),
            ("nothing",                             &[], NOTHING),
        ];
        for (what, steps, expected) in cases {
            assert_eq!(places(steps), expected, "{what}");
        }
    }

    /// DV-4: 32-bit ARM until 5.15 has the task's address at the bottom of its stack.
    #[test]
    fn the_task_is_found_by_the_stack() {
        let members = [load(2, 3, 12), load(9, 3, 16), add(7, 2, 0x4e0), load(10, 2, 0x3d0), add(7, 7, 8)];
        let by_parts =
            [add(4, 13, 0), Step::Cleared { into: 3, base: 4, bits: 0x1fc0 }, Step::Cleared { into: 3, base: 3, bits: 0x3f }];
        let mask = [Step::Constant { into: 5, value: 0xe000 }, Step::UpperHalf { into: 5, value: 0xffff }];
        let by_mask = [mask[0], mask[1], Step::Masked { into: 3, base: 13, mask: 5 }];
        let expected = (Some(12), Some(0x3d0), Some(0x4e8));
        assert_eq!(places(&[&by_parts[..], &members].concat()), expected);
        assert_eq!(places(&[&by_mask[..], &members].concat()), expected);
        assert_eq!(places(&[&by_parts[..2], &members].concat()), (None, None, None), "the pointer's low bits are there");
    }
}
