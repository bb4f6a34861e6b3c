//! The running task, to which `thread_info` in gp points; and the location of its number, its name and the preemption
//! count. They are found in the code that prints or changes them (`cpu/tasks.rs`), because Debian's kernels have no
//! type information.

use super::state::get;
use crate::boot::Kernel;
use crate::cpu::moment::{CountPlace, HARD_INTERRUPT, Moments};
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
        ByteOrder::Little => |_, code: &[u8]| count(ByteOrder::Little, code),
        ByteOrder::Big => |_, code: &[u8]| count(ByteOrder::Big, code),
    };
    Moments {
        count_by_code,
        own_data: |handle| get(handle, GP, 0),
        flags: CountPlace::OwnData(word),
        need_resched: 2,
        ..Moments::NONE
    }
}

/// The locations found in the code that prints the running task. It loads the task's address through gp, then the
/// number, and computes the address of the name; each of these two may be derived from the other.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let isa = kernel.arch.isa();
    let (pid, comm) = members(isa.order, isa.word, &bytes);
    TaskPlace { current: None, pid, comm, ..TaskPlace::default() }
}

/// The first field of the task that is loaded, and the first whose address is computed.
fn members(order: ByteOrder, word: usize, code: &[u8]) -> (Option<u64>, Option<u64>) {
    let is_task = |access: &Access| (access.base, access.distance) == (THREAD, 0) && access.kind == Kind::of_word(word);
    let (mut pid, mut comm) = (None, None);
    // For each register, the offset in the task that it points to.
    let mut leads: [Option<i64>; 32] = [None; 32];
    for access in accesses(order, code) {
        let from = leads[access.base as usize].map(|base| base + access.distance);
        let into = &mut leads[access.register as usize];
        match (access.kind, from.map(u64::try_from)) {
            _ if is_task(&access) && pid.or(comm).is_none() => *into = Some(0),
            (Kind::Address, Some(Ok(place))) => {
                comm = comm.or(Some(place));
                *into = from;
            }
            (Kind::Load, Some(Ok(place))) => {
                pid = pid.or(Some(place));
                *into = None;
            }
            (Kind::Store, _) => (),
            _ => *into = None,
        }
    }
    (pid, comm)
}

/// The place of the preemption count: the field that this code loads through gp and stores again, if it also has the
/// constant of an interrupt.
fn count(order: ByteOrder, code: &[u8]) -> Option<CountPlace> {
    let code: Vec<Access> = accesses(order, code).collect();
    let adds = code.iter().any(|access| access.kind == Kind::Upper && access.distance << 16 == HARD_INTERRUPT as i64);
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
    /// The instruction `ld`.
    LoadDouble,
    /// The instruction `sw`.
    Store,
    /// The instructions `addiu` and `daddiu`.
    Address,
    /// The instruction `lui`.
    Upper,
}

impl Kind {
    fn of_word(bytes: usize) -> Kind {
        if bytes == 8 { Kind::LoadDouble } else { Kind::Load }
    }
}

/// An instruction with a base register and a displacement.
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
            0x37 => Kind::LoadDouble,
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

    fn place(order: ByteOrder, code: &[u32]) -> Option<CountPlace> {
        let bytes = |word: &u32| if order == ByteOrder::Little { word.to_le_bytes() } else { word.to_be_bytes() };
        count(order, &code.iter().flat_map(bytes).collect::<Vec<u8>>())
    }

    /// DV-4: `dump_stack_print_info` of a kernel of Debian's, and of a small kernel that derives the number from the
    /// name.
    #[test]
    fn the_code_that_prints_a_task_tells_where_its_number_and_name_are() {
        let told = |code: &[u32]| {
            let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_be_bytes()).collect();
            members(ByteOrder::Big, 4, &bytes)
        };
        // lw s1,0(gp); lw s3,0x420(s1); addiu s1,s1,0x538
        assert_eq!(told(&[0x8f91_0000, 0x8e33_0420, 0x2631_0538]), (Some(0x420), Some(0x538)));
        // lw s1,0(gp); addiu s1,s1,0x2fc; lw s3,-0x104(s1)
        assert_eq!(told(&[0x8f91_0000, 0x2631_02fc, 0x8e33_fefc]), (Some(0x1f8), Some(0x2fc)));
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
