//! The running task on RISC-V. In kernels without type information, the offsets of its number and its name are found in the
//! code that prints them.

use super::state::{get, places};
use crate::boot::Kernel;
use crate::cpu::members::{self, Register, Step};
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::riscv::abi::TP;

/// The running task's address. The kernel has it in tp, and leaves it in sscratch while a program runs and until the first
/// instructions of a handler have exchanged the two.
pub fn current(view: &mut View) -> u64 {
    let handle = view.trap.handle();
    match places(&handle).word(&handle, |places| places.sscratch) {
        0 => get(&handle, TP, 0),
        task => task,
    }
}

/// Reads the places out of the printing code (`cpu/tasks.rs` says which). The result is empty if the code has another form.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    tasks::printing_code(kernel).map_or(TaskPlace::default(), |(_, code)| place(&code))
}

fn place(code: &[u8]) -> TaskPlace {
    let task = std::iter::once(Step::Task(TP.0 as Register));
    members::find(task.chain(words(code).map(step)), None)
}

/// The instructions, as numbers. The two lowest bits tell the length.
fn words(code: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let mut rest = code;
    std::iter::from_fn(move || {
        let (&[low, high], behind) = rest.split_first_chunk()?;
        let half = u32::from(u16::from_le_bytes([low, high]));
        let (upper, behind) = match half & 3 {
            3 => behind.split_first_chunk::<2>().map(|(upper, behind)| (u16::from_le_bytes(*upper), behind))?,
            _ => (0, behind),
        };
        rest = behind;
        Some(half | u32::from(upper) << 16)
    })
}

/// Registers that a called function may change: ra, t0 to t6, a0 to a7.
const OF_THE_CALLED: u32 = 1 << 1 | 7 << 5 | 0xff << 10 | 0xf << 28;

fn step(word: u32) -> Step {
    let step = if word & 3 == 3 { whole(word) } else { compressed(word) };
    match step {
        // x0 keeps its value.
        Step::Address { into: 0, .. }
        | Step::Constant { into: 0, .. }
        | Step::Sum { into: 0, .. }
        | Step::Load { into: 0, .. } => Step::Others(0),
        Step::Address { into, base: 0, distance } => Step::Constant { into, value: distance },
        step => step,
    }
}

fn whole(word: u32) -> Step {
    let [into, base, other] = [7, 15, 20].map(|low| (word >> low & 31) as Register);
    let distance = i64::from(word as i32 >> 20);
    match (word & 0x7f, word >> 12 & 7) {
        // lw, ld, lwu
        (0x03, 2 | 6) => Step::Load { into, base, distance, is_number: true },
        (0x03, 3) => Step::Load { into, base, distance, is_number: false },
        // addi
        (0x13, 0) => Step::Address { into, base, distance },
        // lui
        (0x37, _) => Step::Constant { into, value: i64::from((word & 0xffff_f000) as i32) },
        // add
        (0x33, 0) if word >> 25 == 0 => Step::Sum { into, one: base, other },
        // jal and jalr
        (0x6f | 0x67, _) => Step::Others(if into == 0 { 0 } else { OF_THE_CALLED }),
        // Stores, branches, fences, and loads of floating-point registers.
        (0x23 | 0x27 | 0x63 | 0x0f | 0x07, _) => Step::Others(0),
        _ => Step::Others(1 << into),
    }
}

fn compressed(word: u32) -> Step {
    let [into, other] = [7, 2].map(|low| (word >> low & 31) as Register);
    let [near, nearer] = [7, 2].map(|low| 8 + (word >> low & 7) as Register);
    let (high, low) = (word >> 12 & 1, word >> 2 & 31);
    let constant = i64::from(low) - i64::from(high << 5);
    let eights = word >> 10 & 7;
    match (word & 3, word >> 13 & 7) {
        // c.addi4spn, c.lw, c.ld; loads of floating-point registers and stores
        (0, 0) => Step::Others(1 << nearer),
        (0, 2) => {
            let distance = i64::from(eights << 3 | (word >> 6 & 1) << 2 | (word >> 5 & 1) << 6);
            Step::Load { into: nearer, base: near, distance, is_number: true }
        }
        (0, 3) => {
            Step::Load { into: nearer, base: near, distance: i64::from(eights << 3 | (word >> 5 & 3) << 6), is_number: false }
        }
        (0, _) => Step::Others(0),
        // c.addi, c.li, c.lui and c.addi16sp, arithmetic, jumps
        (1, 0) => Step::Address { into, base: into, distance: constant },
        (1, 2) => Step::Constant { into, value: constant },
        (1, 3) if into == 2 => Step::Others(1 << into),
        (1, 3) => Step::Constant { into, value: constant << 12 },
        (1, 4) => Step::Others(1 << near),
        (1, 5..) => Step::Others(0),
        // c.jr, c.jalr, c.mv, c.add
        (2, 4) if other == 0 => Step::Others(if high == 0 { 0 } else { OF_THE_CALLED }),
        (2, 4) if high == 0 => Step::Address { into, base: other, distance: 0 },
        (2, 4) => Step::Sum { into, one: into, other },
        (2, 5..) => Step::Others(0),
        // c.addiw, c.slli, loads by the stack pointer
        _ => Step::Others(1 << into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &[&[u8]]) -> (Option<u64>, Option<u64>) {
        let TaskPlace { pid, comm, .. } = place(&code.concat());
        (pid, comm)
    }

    /// DV-4: `dump_stack_print_info` of Debian's 6.12, and the same in other instructions.
    #[test]
    fn the_code_that_prints_a_task_tells_where_its_number_and_name_are() {
        let code: [&[u8]; 9] = [
            &[0xa2, 0xf8],             // c.sdsp s0, 0x70(sp)
            &[0x00, 0x01],             // c.addi4spn s0, sp, 0x80
            &[0x03, 0x37, 0x82, 0x77], // ld a4, 0x778(tp)
            &[0x83, 0x2a, 0x02, 0x02], // lw s5, 0x20(tp)
            &[0x83, 0x2b, 0x02, 0x57], // lw s7, 0x570(tp)
            &[0x03, 0x2b, 0x87, 0x01], // lw s6, 0x18(a4)
            &[0x2a, 0x89],             // c.mv s2, a0
            &[0x93, 0x04, 0x02, 0x79], // addi s1, tp, 0x790
            &[0xe7, 0x80, 0x60, 0x8e], // jalr ra, ra, -0x71a
        ];
        assert_eq!(found(&code), (Some(0x570), Some(0x790)));
        assert_eq!(found(&code[..7]), (None, None), "nothing makes the name's address");
        // c.mv a5, tp; c.lui a4, 1; c.add a5, a4; lw s7, 0x10(a5); addi s1, a5, 0x30
        let far: [&[u8]; 5] = [&[0x92, 0x87], &[0x05, 0x67], &[0xba, 0x97], &[0x83, 0xab, 0x07, 0x01], &[0x93, 0x84, 0x07, 0x03]];
        assert_eq!(found(&far), (Some(0x1010), Some(0x1030)), "members more than 4 KiB into the task");
        // c.mv a5, tp; jalr ra, ra, -0x71a; lw s7, 0x10(a5); addi s1, a5, 0x30
        assert_eq!(found(&[far[0], code[8], far[3], far[4]]), (None, None), "the called may change a5");
    }
}
