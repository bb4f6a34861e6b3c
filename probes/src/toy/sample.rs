//! A small toy kernel for tests, with a function for each case that the engine treats specially.

use super::guest::ToyGuest;
use super::isa::TOY;
use super::program::{Function, Op::*};
use crate::guest::Blacklisted;
use trapline_isa::arch::Isa;

/// The functions. CPUs start at the first.
#[rustfmt::skip]
pub const FUNCTIONS: &[Function<'static>] = &[
    ("main", &[Mov(0, 5), Mov(1, 7), Call("vfs_read"), Halt]),
    //              +0         +3             +6              +11        +14
    ("vfs_read", &[Add(0, 1), AddStep(0, 2), Call("helper"), Add(0, 4), Ret]),
    //            +0       +2      +4
    ("helper", &[Push(1), Pop(2), Ret]),
    ("vfs_write", &[Load(0, 3), Store(3, 0), Ret]),
    ("recurse", &[Add(2, 255), Jnz(1, 1), Ret, Add(1, 255), Call("recurse"), Ret]),
    ("outer", &[Nop, Call("vfs_read"), Ret]),
    ("tail", &[Add(0, 1), Jmp("helper")]),
    ("fill", &[Mov(0, 0x5a), Mov(1, 40), Mov(2, 0x6100), Fill, Halt]),
    ("landing", &[Landing, Add(0, 1), Ret]),
    ("stdcall", &[Add(0, 1), RetPop(16)]),
    ("handler", &[Add(0, 100), Push(0), Call("helper"), Store(4, 0), Call("jprobe_return")]),
    ("handler_that_returns", &[Add(0, 100), Ret]),
    ("jprobe_return", &[Break, Nop]),
    ("irq_handler", &[AddStep(6, 1), Call("vfs_irq"), Iret]),
    ("vfs_irq", &[Add(5, 1), Ret]),
    ("probe_core", &[Nop, Ret]),
    ("probe_core.constprop.0", &[Nop, Ret]),
    ("__switch_to", &[Nop, Ret]),
    ("__pfx_vfs_read", &[Nop, Ret]),
    ("traps", &[Trap, Ret]),
    ("own_breakpoint", &[Break, Halt]),
    ("init_setup", &[Add(0, 1), Ret]),
];

/// The sample kernel on an ISA, with this many CPUs.
pub fn kernel_on(isa: &'static Isa, cpus: usize) -> ToyGuest {
    let mut guest = ToyGuest::new(isa, cpus, FUNCTIONS);
    let start = guest.address("probe_core");
    guest.blacklist.push(Blacklisted { range: start..start + 16, name: "probe_core".into(), listed: true });
    guest
}

/// The sample kernel on [`TOY`].
pub fn kernel(cpus: usize) -> ToyGuest {
    kernel_on(&TOY, cpus)
}
