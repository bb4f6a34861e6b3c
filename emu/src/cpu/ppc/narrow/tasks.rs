//! The running task on 32-bit PowerPC. Linux keeps its address in r2 in kernel mode. The location of its number, its
//! name and the preemption count is found in the code that prints or changes them (`cpu/tasks.rs`). The tiny kernel has
//! the task's address in its per-CPU data, whose physical address is in an SPR.

use super::state::{PER_CPU, REGS};
use crate::boot::Kernel;
use crate::cpu::members::{self, Step};
use crate::cpu::moment::{CountPlace, Moments, Reschedule};
use crate::cpu::ppc::tasks::{Access, Kind, accesses};
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Registers;

/// The number of r2, in which Linux keeps the running task.
const TASK: u32 = 2;
/// Offset of the task's flags in a kernel for one CPU: behind the count, the ISA's own fields and the CPU times.
const FLAGS: u64 = 76;

/// The sources of ftrace's flags.
pub const MOMENTS: Moments = Moments {
    count_by_code: |_, code, interrupt| count(code, interrupt),
    flags: CountPlace::Task(FLAGS),
    reschedules: const { &[Reschedule::always(2), Reschedule::since((6, 13), 2, 9)] },
    ..Moments::NONE
};

/// The running task. In the tiny kernel without a known location, the start of the kernel stack identifies it.
pub fn current(view: &mut View) -> u64 {
    if view.tasks.has_process {
        return view.trap.handle().live32(REGS + 4 * TASK as usize).into();
    }
    let area = u64::from(view.trap.handle().live32(PER_CPU));
    let mut bytes = [0; 4];
    let found = view.tasks.current.filter(|offset| view.ram.read(area.wrapping_add(*offset), &mut bytes));
    let task = found.map(|_| ByteOrder::Big.number(&bytes)).filter(|task| *task != 0);
    task.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// The locations found in the code that prints the running task. It loads the number relative to r2, and computes the
/// address of the name from r2 or a copy of it.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let steps = bytes.chunks_exact(4).map(|word| step(ByteOrder::Big.number(word) as u32));
    members::find(std::iter::once(Step::Task(TASK as u8)).chain(steps), None)
}

/// Registers that a called function may change: r0 and r3 to r12.
const OF_THE_CALLED: u32 = 0x1ff9;
/// Instructions of the group 31 that write their second register: logical ones, shifts and extensions.
const LOGICAL: [u32; 16] = [24, 26, 28, 60, 124, 284, 316, 412, 444, 476, 536, 792, 824, 922, 954, 986];

fn step(word: u32) -> Step {
    let [into, base, other] = [21, 16, 11].map(|low| (word >> low & 31) as u8);
    let distance = i64::from(word as u16 as i16);
    let does_call = word & 1 != 0;
    match word >> 26 {
        // addi, addis, lwz
        14 if base == 0 => Step::Constant { into, value: distance },
        14 => Step::Address { into, base, distance },
        15 if base == 0 => Step::Constant { into, value: distance << 16 },
        15 => Step::Address { into, base, distance: distance << 16 },
        32 if base != 0 => Step::Load { into, base, distance, is_number: true },
        // Branches
        16 | 18 | 19 => Step::Others(if does_call { OF_THE_CALLED } else { 0 }),
        // Comparisons, traps, stores
        3 | 10 | 11 | 17 | 36..=39 | 44 | 45 | 47 | 52..=55 => Step::Others(0),
        // Logical ones with a constant, rotations
        20 | 21 | 23..=29 => Step::Others(1 << base),
        31 => match word >> 1 & 0x3ff {
            // mr, add, lwzx
            444 if into == other => Step::Address { into: base, base: into, distance: 0 },
            266 => Step::Sum { into, one: base, other },
            23 => Step::LoadBy { into, base, by: other, is_number: true },
            // Comparisons, stores, registers of the system
            0 | 32 | 144 | 151 | 183 | 215 | 407 | 467 | 598 => Step::Others(0),
            kind if LOGICAL.contains(&kind) => Step::Others(1 << base),
            _ => Step::Others(1 << into),
        },
        // lmw
        46 => Step::Others(u32::MAX << into),
        _ => Step::Others(1 << into),
    }
}

/// The place of `preempt_count`: the word that this code loads relative to r2, and to which it adds `interrupt` with `addis`.
fn count(code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let code: Vec<Access> = accesses(ByteOrder::Big, code).collect();
    let adds_to = |register| {
        let adds = |access: &&Access| access.kind == Kind::Upper && access.distance << 16 == interrupt;
        code.iter().filter(adds).any(|access| access.base == register)
    };
    let mut loads = code.iter().filter(|access| (access.kind, access.base) == (Kind::Word, TASK));
    loads.find(|load| adds_to(load.register)).map(|load| CountPlace::Task(load.distance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::cpu::moment::HARD_INTERRUPT;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// DV-4: the instructions of a kernel built by `images/linux-ppc`, with a call between them.
    #[test]
    fn the_code_that_prints_a_task_tells_where_it_is() {
        let kernel = |code: &[u32]| {
            let bytes = bytes(code);
            let (size, start) = (bytes.len() as u64, 0xc02e_8fcc);
            let segment = Segment { physical: 0x2e_8fcc, virtual_address: start, size, bytes: bytes.into(), executable: true };
            let names = [("dump_stack_print_info", start), ("_etext", start + size)];
            let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
            Kernel::from_parts(Arch::Ppc, start, vec![segment], Symbols::new(entries.to_vec()))
        };
        let place = |code: &[u32]| {
            let TaskPlace { current, pid, comm, .. } = by_code(&kernel(code));
            (current, pid, comm)
        };
        // mr r28, r2; addi r31, r31, 17523; lwz r27, 536(r2); bl; addi r7, r28, 760
        let code = [0x7c5c_1378, 0x3bff_4473, 0x8362_0218, 0x4bd5_2219, 0x38fc_02f8];
        assert_eq!(place(&code), (None, Some(536), Some(760)));
        assert_eq!(place(&code[1..]), (None, None, None), "nothing says what r28 is");
    }

    /// DV-4: `irq_enter_rcu` of such a kernel.
    #[test]
    fn the_code_that_counts_an_interrupt_tells_where_the_count_is() {
        // lwz r8, 92(r2); lwz r10, 0(r2); andi. r8, r8, 2; addis r10, r10, 1; stw r10, 0(r2)
        let code = [0x8102_005c, 0x8142_0000, 0x7108_0002, 0x3d4a_0001, 0x9142_0000];
        assert_eq!(count(&bytes(&code), HARD_INTERRUPT), Some(CountPlace::Task(0)));
        assert_eq!(count(&bytes(&code[..3]), HARD_INTERRUPT), None);
        assert_eq!(count(&bytes(&[code[1], 0x3928_0001]), HARD_INTERRUPT), None, "preemption alone");
    }
}
