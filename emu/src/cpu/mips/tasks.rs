//! The running task, to which `thread_info` in gp points; and the location of its number, its name and the preemption
//! count. They are found in the code that prints or changes them (`cpu/tasks.rs`), because Debian's kernels have no
//! type information.

use super::state::get;
use crate::boot::Kernel;
use crate::cpu::members::{self, Step};
use crate::cpu::moment::{CountPlace, Moments, Reschedule};
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::mem::{ByteOrder, Memory};
use trapline_isa::mips::abi::GP;

/// The running task's address: the first word of its `thread_info`.
pub fn current(view: &mut View) -> u64 {
    let thread_info = get(&view.trap.handle(), GP, 0);
    view.read_number(thread_info, view.isa.word).unwrap_or(0)
}

/// The sources of ftrace's flags: the preemption count and the task's flags are in `thread_info`; the flags are its
/// second word.
pub const fn moments(order: ByteOrder, word: u64) -> Moments {
    let count_by_code = match order {
        ByteOrder::Little => |_, code: &[u8], interrupt: u64| count(ByteOrder::Little, code, interrupt),
        ByteOrder::Big => |_, code: &[u8], interrupt: u64| count(ByteOrder::Big, code, interrupt),
    };
    Moments {
        count_by_code,
        own_data: |handle| get(handle, GP, 0),
        flags: CountPlace::OwnData(word),
        reschedules: const { &[Reschedule::always(2)] },
        ..Moments::NONE
    }
}

/// The locations found in the code that prints the running task. It loads the task's address through gp, then the
/// number, and computes the address of the name; each of these two may be derived from the other.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let isa = kernel.arch.isa();
    place_by(isa.order, isa.word, &bytes)
}

fn place_by(order: ByteOrder, word: usize, code: &[u8]) -> TaskPlace {
    let mut steps: Vec<Step> = code.chunks_exact(4).map(|bytes| step(order.number(bytes) as u32, word)).collect();
    // The instruction behind a call runs before the called function.
    let calls: Vec<usize> = (1..steps.len()).filter(|at| steps[at - 1] == Step::Others(OF_THE_CALLED)).collect();
    calls.into_iter().for_each(|at| steps.swap(at - 1, at));
    members::find(steps.into_iter(), None)
}

/// Registers that a called function may change: v0 to t7, t8, t9 and ra.
const OF_THE_CALLED: u32 = 0x8300_fffc;

/// The effect of an instruction of a kernel with words of `word` bytes.
fn step(code: u32, word: usize) -> Step {
    let [base, into, third] = [21, 16, 11].map(|low| (code >> low & 31) as u8);
    let distance = i64::from(code as u16 as i16);
    let is_word = if word == 8 { code >> 26 == 0x37 } else { code >> 26 == 0x23 };
    match code >> 26 {
        _ if is_word && (u32::from(base), distance) == (THREAD, 0) => Step::Task(into),
        // lw and lwu, ld
        0x23 | 0x27 => Step::Load { into, base, distance, is_number: true },
        0x37 => Step::Load { into, base, distance, is_number: false },
        // addiu and daddiu, ori
        0x09 | 0x19 | 0x0d if base == 0 => Step::Constant { into, value: distance },
        0x09 | 0x19 => Step::Address { into, base, distance },
        0 => match code & 0x7ff {
            // addu, or, daddu
            0x21 | 0x25 | 0x2d if into == 0 => Step::Address { into: third, base, distance: 0 },
            0x21 | 0x2d => Step::Sum { into: third, one: base, other: into },
            // jr, jalr
            0x08 => Step::Others(0),
            0x09 => Step::Others(OF_THE_CALLED),
            _ => Step::Others(1 << third),
        },
        // bal, jal
        0x01 if into & 0x1e == 0x10 => Step::Others(OF_THE_CALLED),
        0x03 => Step::Others(OF_THE_CALLED),
        // Branches and stores
        0x01 | 0x02 | 0x04..=0x07 | 0x14..=0x17 | 0x28..=0x2f | 0x38..=0x3f => Step::Others(0),
        _ => Step::Others(1 << into),
    }
}

/// The place of the preemption count: the field that this code loads through gp and stores again, if it also has the
/// constant of an interrupt.
fn count(order: ByteOrder, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let code: Vec<Access> = accesses(order, code).collect();
    let adds = code.iter().any(|access| access.kind == Kind::Upper && access.distance << 16 == interrupt as i64);
    let by_thread = |access: &&Access| access.base == THREAD;
    let is_stored = |load: &Access| code.contains(&Access { kind: Kind::Store, ..*load });
    let mut loads = code.iter().filter(by_thread).filter(|access| access.kind == Kind::Load);
    let load = loads.find(|load| adds && is_stored(load))?;
    u64::try_from(load.distance).ok().map(CountPlace::OwnData)
}

/// The operation of an instruction with a register and a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The instruction `lw`.
    Load,
    /// `sw`
    Store,
    /// The instructions `addiu` and `daddiu`.
    Address,
    /// The instruction `lui`.
    Upper,
}

/// An instruction that goes some way from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    kind: Kind,
    register: u32,
    base: u32,
    distance: i64,
}

/// The number of gp, which points to the task's `thread_info`.
const THREAD: u32 = 28;

impl Access {
    fn of(word: u32) -> Option<Access> {
        let kind = match word >> 26 {
            0x09 | 0x19 => Kind::Address,
            0x0f => Kind::Upper,
            0x23 => Kind::Load,
            0x2b => Kind::Store,
            _ => return None,
        };
        let distance = i64::from(word as u16 as i16);
        Some(Access { kind, register: word >> 16 & 31, base: word >> 21 & 31, distance })
    }
}

fn accesses(order: ByteOrder, code: &[u8]) -> impl Iterator<Item = Access> {
    code.chunks_exact(4).filter_map(move |word| Access::of(order.number(word) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::moment::HARD_INTERRUPT;

    fn place(order: ByteOrder, code: &[u32]) -> Option<CountPlace> {
        let bytes = |word: &u32| if order == ByteOrder::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        count(order, &code.iter().flat_map(bytes).collect::<Vec<u8>>(), HARD_INTERRUPT)
    }

    /// DV-4: `dump_stack_print_info` of a kernel of Debian's, and of a small kernel that derives the number from the
    /// name.
    #[test]
    fn the_code_that_prints_a_task_tells_where_its_number_and_name_are() {
        let told = |code: &[u32]| {
            let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_be_bytes()).collect();
            let TaskPlace { pid, comm, .. } = place_by(ByteOrder::Big, 4, &bytes);
            (pid, comm)
        };
        // lw s1,0(gp); lw s3,0x420(s1); addiu s1,s1,0x538
        assert_eq!(told(&[0x8f91_0000, 0x8e33_0420, 0x2631_0538]), (Some(0x420), Some(0x538)));
        // lw s1,0(gp); addiu s1,s1,0x2fc; lw s3,-0x104(s1)
        assert_eq!(told(&[0x8f91_0000, 0x2631_02fc, 0x8e33_fefc]), (Some(0x1f8), Some(0x2fc)));
        // lw v0,0(gp); lw s3,12(gp); addiu s6,v0,0x538; jal; lw s4,0x420(v0): behind the call, and before the called
        assert_eq!(told(&[0x8f82_0000, 0x8f93_000c, 0x2456_0538, 0x0c08_5ac0, 0x8c54_0420]), (Some(0x420), Some(0x538)));
        assert_eq!(told(&[0x8f82_0000, 0x2456_0538, 0x0c08_5ac0, 0, 0x8c54_0420]), (None, None), "the called may change v0");
        // lw s1,0(gp); lw v0,0x528(s1); lw s3,0x420(s1); lw a2,8(v0); addiu s1,s1,0x538: the credentials in between
        assert_eq!(told(&[0x8f91_0000, 0x8e22_0528, 0x8e33_0420, 0x8c46_0008, 0x2631_0538]), (Some(0x420), Some(0x538)));
        // lw s1,0(gp); lui s1,0x804d; addiu s1,s1,0x2fc: another thing's address
        assert_eq!(told(&[0x8f91_0000, 0x3c11_804d, 0x2631_02fc]), (None, None));
    }

    /// DV-4: `irq_enter_rcu` of kernels of Debian's.
    #[test]
    fn the_code_that_counts_an_interrupt_tells_where_the_count_is() {
        // lw v1,16(gp); lui a0,1; lw a1,0(gp); addu v1,v1,a0; sw v1,16(gp)
        let code = [0x8f83_0010, 0x3c04_0001, 0x8f85_0000, 0x0064_1821, 0xaf83_0010];
        for order in [ByteOrder::Little, ByteOrder::Big] {
            assert_eq!(place(order, &code), Some(CountPlace::OwnData(16)));
            assert_eq!(place(order, &code[..4]), None, "nothing is stored");
            assert_eq!(place(order, &[code[0], 0x2404_0001, code[2], code[3], code[4]]), None, "preemption alone");
        }
    }
}
