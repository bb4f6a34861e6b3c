//! The running task: a member of what gp points to in the kernel; and where its number, its name and the count of the
//! moment are, out of the code that prints or changes them (`cpu/tasks.rs` says which). Debian's kernels have no types.

use super::state::get;
use crate::boot::Kernel;
use crate::cpu::moment::{CountPlace, HARD_INTERRUPT, Moments};
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::mem::{ByteOrder, Memory};
use trapline_isa::mips::abi::GP;

/// The first word of the running task's `thread_info` is its address.
pub fn current(view: &mut View) -> u64 {
    let thread_info = get(&view.trap.handle(), GP, 0);
    view.read_number(thread_info, view.isa.word).unwrap_or(0)
}

/// How Linux keeps the moment: the count and the task's flags in its `thread_info`, the flags behind the first word.
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

/// The code that prints the running task's number loads its address by gp, then the number, and makes the address of
/// the name.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((_, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let isa = kernel.arch.isa();
    let code: Vec<Access> = accesses(isa.order, &bytes).collect();
    let is_task = |access: &Access| (access.base, access.distance) == (THREAD, 0) && access.kind == Kind::of_word(isa.word);
    let Some(load) = code.iter().position(is_task) else { return TaskPlace::default() };
    let member = |kind| {
        let found = code[load + 1..].iter().find(|access| (access.kind, access.base) == (kind, code[load].register));
        found.map(|access| access.distance)
    };
    TaskPlace { current: None, pid: member(Kind::Load), comm: member(Kind::Address), ..TaskPlace::default() }
}

/// Where the count of the moment is: what this code loads by gp and stores there again, with the constant of an
/// interrupt beside it.
fn count(order: ByteOrder, code: &[u8]) -> Option<CountPlace> {
    let code: Vec<Access> = accesses(order, code).collect();
    let adds = code.iter().any(|access| access.kind == Kind::Upper && access.distance << 16 == HARD_INTERRUPT);
    let by_thread = |access: &&Access| access.base == THREAD;
    let is_stored = |load: &Access| code.contains(&Access { kind: Kind::Store, ..*load });
    let mut loads = code.iter().filter(by_thread).filter(|access| access.kind == Kind::Load);
    loads.find(|load| adds && is_stored(load)).map(|load| CountPlace::OwnData(load.distance))
}

/// What is done with a register and a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `lw`
    Load,
    /// `ld`
    LoadDouble,
    /// `sw`
    Store,
    /// `addiu`, `daddiu`
    Address,
    /// `lui`
    Upper,
}

impl Kind {
    fn of_word(bytes: usize) -> Kind {
        if bytes == 8 { Kind::LoadDouble } else { Kind::Load }
    }
}

/// An instruction that goes some way from a register, upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    kind: Kind,
    register: u32,
    base: u32,
    distance: u64,
}

/// gp leads to the task's `thread_info`.
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
        let distance = u64::from(word & 0xffff);
        (distance < 0x8000).then_some(Access { kind, register: word >> 16 & 31, base: word >> 21 & 31, distance })
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
