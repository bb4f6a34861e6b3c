//! The running task on 64-bit PowerPC: its address is in the per-CPU data (PACA), to which r13 points in the kernel.

use super::state::PER_CPU;
use crate::boot::Kernel;
use crate::cpu::moment::{CountPlace, Moments, PerCpu, Reschedule};
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::mem::{ByteOrder, Memory};
use trapline_isa::regs::Registers;

/// The running task: the pointer in the per-CPU data, whose address is in an SPR. If its location is unknown, the start
/// of the kernel stack identifies the task.
pub fn current(view: &mut View) -> u64 {
    let area = view.trap.handle().live64(PER_CPU);
    let place = view.tasks.current;
    let found = place.and_then(|offset| view.read_number(area.wrapping_add(offset), 8).ok()).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// The sources of ftrace's flags: the count is at the start of the task structure; the flags have a cache line of their
/// own.
pub const fn moments(order: ByteOrder) -> Moments {
    let count_by_code = match order {
        ByteOrder::Little => |_, code: &[u8], interrupt: u64| count(ByteOrder::Little, code, interrupt),
        ByteOrder::Big => |_, code: &[u8], interrupt: u64| count(ByteOrder::Big, code, interrupt),
    };
    Moments {
        count_by_code,
        per_cpu: Some(PerCpu::Member { area: |handle| handle.live64(PER_CPU), names: ("paca_struct", "data_offset") }),
        flags: CountPlace::Task(128),
        reschedules: const { &[Reschedule::always(2), Reschedule::since((6, 13), 2, 9)] },
        ..Moments::NONE
    }
}

/// The locations found in the code that prints the running task. It loads the task's address with an `ld` relative to
/// r13, then loads the number and computes the address of the name.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let code: Vec<Access> = accesses(kernel.arch.isa().order, &bytes).collect();
    let Some(load) = code.iter().position(Access::loads_from_own_area) else { return TaskPlace::default() };
    let (task, current) = (code[load].register, code[load].distance);
    let member = |kind| {
        let found = code[load + 1..].iter().find(|access| (access.kind, access.base) == (kind, task));
        found.map(|access| access.distance)
    };
    TaskPlace { current: Some(current), pid: member(Kind::Word), comm: member(Kind::Address), ..TaskPlace::default() }
}

/// The place of `preempt_count`: the word of the running task that this code loads, and to which it adds `interrupt` with
/// `addis`.
fn count(order: ByteOrder, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let code: Vec<Access> = accesses(order, code).collect();
    let found = code.windows(3).find(|three| {
        let [task, count, sum] = three else { return false };
        let is_interrupt = sum.kind == Kind::Upper && sum.distance << 16 == interrupt;
        task.loads_from_own_area()
            && (count.kind, count.base) == (Kind::Word, task.register)
            && is_interrupt
            && sum.base == count.register
    });
    found.map(|three| CountPlace::Task(three[1].distance))
}

/// The operation of an instruction with a register and a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The instruction `ld`.
    Doubleword,
    /// The instruction `lwz`.
    Word,
    /// The instruction `addi`.
    Address,
    /// The instruction `addis`.
    Upper,
}

/// An instruction with a base register and a positive displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub kind: Kind,
    pub register: u32,
    pub base: u32,
    pub distance: u64,
}

/// The number of r13, which points to the per-CPU data.
const OWN_AREA: u32 = 13;

impl Access {
    fn of(word: u32) -> Option<Access> {
        let kind = match word >> 26 {
            14 => Kind::Address,
            15 => Kind::Upper,
            32 => Kind::Word,
            58 if word & 3 == 0 => Kind::Doubleword,
            _ => return None,
        };
        let (distance, base) = (u64::from(word & 0xffff), word >> 16 & 31);
        (distance < 0x8000 && base != 0).then_some(Access { kind, register: word >> 21 & 31, base, distance })
    }

    fn loads_from_own_area(&self) -> bool {
        (self.kind, self.base) == (Kind::Doubleword, OWN_AREA)
    }
}

pub(super) fn accesses(order: ByteOrder, code: &[u8]) -> impl Iterator<Item = Access> {
    code.chunks_exact(4).filter_map(move |word| Access::of(order.number(word) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::Segment;
    use crate::cpu::moment::HARD_INTERRUPT;
    use crate::symbols::{Entry, Symbols};
    use trapline_isa::arch::Arch;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// DV-4: the instructions of a kernel of Debian's, with a call between them.
    #[test]
    fn the_code_that_prints_a_task_tells_where_it_is() {
        let kernel = |code: &[u32]| {
            let bytes = bytes(code);
            let size = bytes.len() as u64;
            let start = 0xc000_0000_0010_0000;
            let segment = Segment { physical: 0x10_0000, virtual_address: start, size, bytes: bytes.into(), executable: true };
            let names = [("dump_stack_print_info", start), ("_etext", start + size)];
            let entries = names.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
            Kernel::from_parts(Arch::Ppc64le, start, vec![segment], Symbols::new(entries.to_vec()))
        };
        let place = |code: &[u32]| {
            let TaskPlace { current, pid, comm, .. } = by_code(&kernel(code));
            (current, pid, comm)
        };
        // addi r1; ld r30, 2312(r13); lhz r26, 8(r13); lwz r25, 2024(r30); bl; nop; addi r30, r30, 2528
        let code = [0x3821_0010, 0xebcd_0908, 0xa34d_0008, 0x833e_07e8, 0x4b4c_ba85, 0x6000_0000, 0x3bde_09e0];
        assert_eq!(place(&code), (Some(2312), Some(2024), Some(2528)));
        assert_eq!(place(&code[..5]), (Some(2312), Some(2024), None));
        assert_eq!(place(&code[2..]), (None, None, None), "nothing says whose number it is");
    }

    /// DV-4: `irq_enter` of a kernel of Debian's.
    #[test]
    fn the_code_that_counts_an_interrupt_tells_where_the_count_is() {
        // ld r10, 2312(r13); lwz r9, 4(r10); addis r9, r9, 1; stw r9, 4(r10)
        let code = [0xe94d_0908, 0x812a_0004, 0x3d29_0001, 0x912a_0004];
        let place = |code: &[u32]| count(ByteOrder::Little, &bytes(code), HARD_INTERRUPT);
        assert_eq!(place(&code), Some(CountPlace::Task(4)));
        assert_eq!(place(&code[..2]), None);
        assert_eq!(place(&[code[0], code[1], 0x3929_0001]), None, "preemption alone");
    }
}
