//! The running task, and the location of its number and name, found in the code that prints them (`cpu/tasks.rs`).
//! ARMv7 kernels keep the running task in TPIDRURO (CONFIG_CURRENT_POINTER_IN_TPIDRURO). The printing code reads it,
//! loads the number and computes the address of the name. Debian's kernel has no type information, so the code is the
//! only source.

use super::state::THREAD;
use crate::boot::Kernel;
use crate::cpu::moment::CountPlace;
use crate::cpu::{TaskPlace, View, tasks};

/// The running task's address, from TPIDRURO.
pub fn current(view: &mut View) -> u64 {
    view.trap.handle().live32(THREAD).into()
}

/// The locations found in that code; empty if it has another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let words = bytes.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    read(&words.collect::<Vec<u32>>())
}

fn read(code: &[u32]) -> TaskPlace {
    let found = code.iter().enumerate().find_map(|(at, word)| {
        let task = running_task(*word)?;
        let (mut pid, mut comm) = (None, None);
        for word in code[at + 1..].iter().take_while(|word| !overwrites(**word, task)) {
            // Fields before the number, such as the CPU's number, are loaded, too. The number has the largest offset.
            pid = pid.max(loaded_member(*word, task));
            comm = comm.or(address_of_member(*word, task));
        }
        (pid.is_some() && comm.is_some()).then_some(TaskPlace { current: None, pid, comm, ..TaskPlace::default() })
    });
    found.unwrap_or_default()
}

/// The place of the preemption count: the task's field to which this code adds an interrupt.
pub fn count_by_code(_: u64, code: &[u8]) -> Option<CountPlace> {
    let words = code.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    let (mut task, mut loaded) = (None, None);
    for word in words {
        task = running_task(word).or(task);
        // add Rd, Rn, #0x10000
        if word & 0x0ff0_0fff == 0x0280_0801
            && let Some((register, offset)) = loaded
            && register == field(word, 16)
        {
            return Some(CountPlace::Task(offset));
        }
        loaded = task.and_then(|task| Some((field(word, 12), loaded_member(word, task)?))).or(loaded);
    }
    None
}

const fn field(word: u32, low: u32) -> u32 {
    word >> low & 15
}

/// `mrc p15, 0, Rt, c13, c0, 3`: Rt.
fn running_task(word: u32) -> Option<u32> {
    (word & 0xffff_0fff == 0xee1d_0f70).then_some(field(word, 12))
}

/// `ldr Rt, [task, #offset]`: the offset.
fn loaded_member(word: u32, task: u32) -> Option<u64> {
    (word & 0x0ff0_0000 == 0x0590_0000 && field(word, 16) == task).then_some((word & 0xfff).into())
}

/// `add Rd, task, #offset`: the offset, an 8-bit value rotated by twice the 4-bit field.
fn address_of_member(word: u32, task: u32) -> Option<u64> {
    (word & 0x0ff0_0000 == 0x0280_0000 && field(word, 16) == task).then(|| (word & 0xff).rotate_right(2 * field(word, 8)).into())
}

/// Whether the instruction changes the register. A call changes those that the callee may change.
fn overwrites(word: u32, task: u32) -> bool {
    let is_result = field(word, 12) == task;
    let is_load = word & 1 << 20 != 0;
    match word >> 25 & 7 {
        0 | 1 => is_result && !matches!(word >> 21 & 15, 8..=11),
        2 | 3 => is_result && is_load,
        4 => is_load && word & 1 << task != 0,
        5 => matches!(task, 0..=3 | 12),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: the code of irq_enter_rcu in Debian's kernel.
    #[test]
    fn the_count_of_the_moment_is_where_interrupts_are_added() {
        // mrc p15, 0, r4, c13, c0, 3; ldr r3, [r4, #4]; ldr r2, [r4, #8]; add r3, r3, #0x10000
        let code = [0xee1d_4f70u32, 0xe594_3004, 0xe3a0_2008, 0xe283_3801];
        let bytes = |code: &[u32]| code.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(count_by_code(0, &bytes(&code)), Some(CountPlace::Task(4)));
        assert_eq!(count_by_code(0, &bytes(&code[..3])), None);
        assert_eq!(count_by_code(0, &bytes(&[code[0], code[1], 0xe283_3001])), None, "preemption alone");
    }

    /// DV-4: code as compilers emit it, and code without the fields.
    #[test]
    fn number_and_name_are_read_out_of_the_code() {
        const TASK: u32 = 0xee1d_5f70; // mrc p15, 0, r5, c13, c0, 3
        const CPU: u32 = 0xe595_3008; // ldr r3, [r5, #8]
        const NUMBER: u32 = 0xe595_a630; // ldr r10, [r5, #0x630]
        const NAME: u32 = 0xe285_be78; // add r11, r5, #0x780
        const CALL: u32 = 0xebdc_7814; // bl
        let nothing = TaskPlace::default();
        let place = TaskPlace { current: None, pid: Some(0x630), comm: Some(0x780), ..TaskPlace::default() };
        #[rustfmt::skip]
        let cases: [(&str, &[u32], TaskPlace); 8] = [
            ("as Debian's",                                 &[0xe92d_4ff0, TASK, 0xe1a0_4000, CPU, NAME, NUMBER, CALL], place),
            ("the number behind the name and a call",       &[TASK, NAME, CALL, NUMBER, CPU],                           place),
            ("the register means something else by then",   &[TASK, CPU, 0xe3a0_5000, NUMBER, NAME],                    nothing),
            ("it is loaded anew",                           &[TASK, 0xe595_5004, NUMBER, NAME],                         nothing),
            ("it is restored",                              &[TASK, 0xe8bd_8020, NUMBER, NAME],                         nothing),
            ("the called may change it",                    &[0xee1d_0f70, CALL, 0xe590_a630, 0xe280_be78],             nothing),
            ("a number and no name",                        &[TASK, CPU, NUMBER],                                       nothing),
            ("no code at all",                              &[],                                                        nothing),
        ];
        for (what, code, expected) in cases {
            assert_eq!(read(code), expected, "{what}");
        }
    }
}
