//! The running task on AArch64. In kernels without type information, the offsets of its number and its name and the place of
//! `preempt_count` are found in the code that prints or changes them (`cpu/tasks.rs` chooses the code).

use super::state::STACK_EL0;
use crate::boot::Kernel;
use crate::cpu::members::{self, Step};
use crate::cpu::moment::CountPlace;
use crate::cpu::switched::Switched;
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::arm64::abi;

/// The running task's address. In the kernel, SP_EL0 holds it.
pub fn current(view: &mut View) -> u64 {
    view.trap.handle().live64(STACK_EL0)
}

/// `cpu_switch_to` keeps x19 to x29, the stack pointer and its return address.
pub static SWITCHED: Switched = Switched {
    path: &[("task_struct", "thread"), ("thread_struct", "cpu_context")],
    is_address: false,
    words: &[(0, abi::x(19), 11), (11, abi::SP, 1)],
    pc: 12,
    popped: None,
};

/// Finds the offsets in the code that prints a task. The result is empty if the code has another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    tasks::printing_code(kernel).map_or(TaskPlace::default(), |(_, bytes)| members::find(words(&bytes).map(step), None))
}

/// Finds `preempt_count`: the word of the running task to which this code adds `interrupt`, the kernel's HARDIRQ_OFFSET.
pub fn count_by_code(_: u64, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let (mut task, mut loaded): (Option<u8>, Option<(u32, u64)>) = (None, None);
    let mut constant = None;
    for word in words(code) {
        if let Some((register, offset)) = loaded
            && adds(word, constant) == Some(interrupt)
            && register == word >> 5 & 31
        {
            return Some(CountPlace::Task(offset));
        }
        match step(word) {
            Step::Task(register) => task = Some(register),
            Step::Constant { into, value } => constant = Some((into.into(), value)),
            Step::Load { into, base, distance, is_number: true } if Some(base) == task => {
                loaded = u64::try_from(distance).ok().map(|offset| (into.into(), offset));
            }
            _ => {}
        }
    }
    None
}

/// The number that `add Wd, Wn, #n, lsl #12` adds, or `add Wd, Wn, Wm` where Wm holds this constant (7.3).
fn adds(word: u32, constant: Option<(u32, i64)>) -> Option<u64> {
    match constant {
        _ if word & 0xffc0_0000 == 0x1140_0000 => Some(u64::from(word >> 10 & 0xfff) << 12),
        Some((register, value)) if word & 0xffe0_fc00 == 0x0b00_0000 && word >> 16 & 31 == register => u64::try_from(value).ok(),
        _ => None,
    }
}

fn words(code: &[u8]) -> impl Iterator<Item = u32> + '_ {
    code.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes))
}

/// Registers that a called function may change: x0 to x18 and x30.
const OF_THE_CALLED: u32 = 0x4007_ffff;
/// Register number 31: the stack pointer as a base, the zero register elsewhere.
const NO_REGISTER: u8 = 31;

fn step(word: u32) -> Step {
    let [into, base, other, second] = [0, 5, 16, 10].map(|low| (word >> low & 31) as u8);
    let scaled = i64::from(word >> 10 & 0xfff);
    let near = i64::from((word << 11) as i32 >> 23);
    match word {
        _ if word & 0xffff_ffe0 == 0xd538_4100 => Step::Task(into),
        // add and sub of a constant
        _ if word & 0xff80_0000 == 0x9100_0000 => {
            Step::Address { into, base, distance: scaled << if word & 1 << 22 != 0 { 12 } else { 0 } }
        }
        _ if word & 0xffc0_0000 == 0xd100_0000 => Step::Address { into, base, distance: -scaled },
        // mov and movz
        _ if word & 0xffe0_ffe0 == 0xaa00_03e0 => Step::Address { into, base: other, distance: 0 },
        _ if word & 0xffe0_0000 == 0xd2a0_0000 || word & 0xffe0_0000 == 0x52a0_0000 => {
            Step::Constant { into, value: i64::from(word >> 5 & 0xffff) << 16 }
        }
        _ if word & 0xffe0_0000 == 0xd280_0000 || word & 0xffe0_0000 == 0x5280_0000 => {
            Step::Constant { into, value: i64::from(word >> 5 & 0xffff) }
        }
        // add of a register
        _ if word & 0xffe0_fc00 == 0x8b00_0000 => Step::Sum { into, one: base, other },
        // ldr, ldur, and ldr by a register
        _ if word & 0xffc0_0000 == 0xb940_0000 => Step::Load { into, base, distance: 4 * scaled, is_number: true },
        _ if word & 0xffc0_0000 == 0xf940_0000 => Step::Load { into, base, distance: 8 * scaled, is_number: false },
        _ if word & 0xffe0_0c00 == 0xb840_0000 => Step::Load { into, base, distance: near, is_number: true },
        _ if word & 0xffe0_0c00 == 0xf840_0000 => Step::Load { into, base, distance: near, is_number: false },
        _ if word & 0xffe0_fc00 == 0xb860_6800 => Step::LoadBy { into, base, by: other, is_number: true },
        _ if word & 0xffe0_fc00 == 0xf860_6800 => Step::LoadBy { into, base, by: other, is_number: false },
        // bl, blr
        _ if word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000 => Step::Others(OF_THE_CALLED),
        // Other branches, exceptions and system instructions; mrs writes a register.
        _ if word >> 26 & 7 == 5 => Step::Others(if word >> 20 == 0xd53 { 1 << into } else { 0 }),
        // Pairs of registers.
        _ if word & 0x3a00_0000 == 0x2800_0000 => Step::Others(if word & 1 << 22 != 0 { 1 << into | 1 << second } else { 0 }),
        // Other stores.
        _ if word & 0x3a00_0000 == 0x3800_0000 && word >> 22 & 3 == 0 => Step::Others(0),
        _ if into == NO_REGISTER => Step::Others(0),
        _ => Step::Others(1 << into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::moment::{HARD_INTERRUPT, NEWER_HARD_INTERRUPT};

    fn place(code: &[u32]) -> (Option<u64>, Option<u64>) {
        let TaskPlace { pid, comm, .. } = members::find(code.iter().map(|word| step(*word)), None);
        (pid, comm)
    }

    /// DV-4: `dump_stack_print_info` of Debian's 7.2, and what else compilers write.
    #[test]
    fn the_code_that_prints_a_task_tells_where_its_number_and_name_are() {
        // mrs x5, sp_el0; add x20, x5, #0x930; ldr x0, [x5, #0x918]; ldr w23, [x5, #0x18]; ldr w25, [x5, #0x718];
        // ldr w24, [x0, #0x18]; bl
        let code = [0xd538_4105, 0x9124_c0b4, 0xf944_8ca0, 0xb940_18b7, 0xb947_18b9, 0xb940_1818, 0x97c0_019a];
        assert_eq!(place(&code), (Some(0x718), Some(0x930)));
        assert_eq!(place(&code[1..]), (None, None), "nothing says whose they are");
        // mrs x19, sp_el0; add x20, x19, #1, lsl #12; ldr w1, [x19, #0xa10]; bl; add x20, x20, #0x30
        let far = [0xd538_4113, 0x9140_0674, 0xb94a_1261, 0x97c0_019a, 0x9100_c294];
        assert_eq!(place(&far), (Some(0xa10), Some(0x1030)), "a name more than 4 KiB into the task");
        // mrs x0, sp_el0; bl; ldr w1, [x0, #0x718]; add x2, x0, #0x930
        assert_eq!(place(&[0xd538_4100, 0x97c0_019a, 0xb947_1801, 0x9124_c002]), (None, None), "the called may change x0");
    }

    /// DV-4: `irq_enter_rcu` of Debian's 7.2.
    #[test]
    fn the_code_that_counts_an_interrupt_tells_where_the_count_is() {
        // mrs x1, sp_el0; ldr w0, [x1, #8]; add w0, w0, #0x10, lsl #12
        let code = [0xd538_4101, 0xb940_0820, 0x1140_4000];
        let bytes = |code: &[u32]| code.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let count = |code: &[u32]| count_by_code(0, &bytes(code), HARD_INTERRUPT);
        // 7.3: mov w2, #0x1000000; add w0, w0, w2
        let newer = bytes(&[code[0], code[1], 0x52a0_2002, 0x0b02_0000]);
        assert_eq!(count_by_code(0, &newer, NEWER_HARD_INTERRUPT), Some(CountPlace::Task(8)));
        assert_eq!(count_by_code(0, &newer, HARD_INTERRUPT), None);
        assert_eq!(count(&code), Some(CountPlace::Task(8)));
        assert_eq!(count(&code[..2]), None);
        assert_eq!(count(&[code[0], code[1], 0x1100_4000]), None, "preemption alone");
    }
}
