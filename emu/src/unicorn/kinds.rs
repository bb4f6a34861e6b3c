//! [`CoreKind`]: the static facts about a kind of CPU core, from which [`Core::new`](super::engine::Core::new) makes one. The
//! files in `cpus/` have a [`Library`] for each of Unicorn's builds; the folders in `cpu/` have the kinds.

use super::engine::Handle;
use super::line;
use super::own::OwnCore;
use super::ram::Ram;
use super::stores::Layout;
use core::ffi::{c_int, c_void};
use unicorn_engine_sys::{Arch, Mode};

/// A register, by Unicorn's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub(super) c_int);

/// Unicorn's build for one family of CPUs: its internal functions, whose names end in the family's name, and the layout of
/// its private structures.
pub struct Library {
    pub(super) arch: Arch,
    pub(super) mode: Mode,
    /// The instructions that the core passes to callbacks, by Unicorn's numbers; each callback gets the argument of
    /// `whom`.
    pub(super) instructions: fn() -> Vec<(c_int, *mut c_void)>,
    /// Whether the page size can be chosen.
    pub(super) has_choice_of_pages: bool,
    /// Drops the code translated from these RAM addresses (docs/unicorn.md, "dropping translated code").
    pub(super) invalidate: unsafe extern "C" fn(uc: *mut c_void, start: usize, end: usize),
    /// The RAM address of a host pointer into mapped memory; all ones if it is not in mapped memory.
    pub(super) ram_address: unsafe extern "C" fn(uc: *mut c_void, host: *mut c_void) -> usize,
    /// The distance in bytes from the TLB descriptor of the kernel's MMU mode to the CPU state, which follows it.
    pub(super) live_translations: usize,
    /// The layout of its TLB.
    pub(super) stores: Layout,
    /// The offsets and functions that the C part of this build exports.
    pub(super) layout: &'static line::Layout,
}

/// Makes a core of our own that runs code in this memory.
pub type MakeOwn = fn(&Ram) -> Box<dyn OwnCore>;

/// A kind of core, as the machine asks for it.
pub struct CoreKind {
    /// Unicorn's build. For a core of our own: functions that do nothing.
    pub library: &'static Library,
    /// Makes a core of our own; `None` if Unicorn is the core.
    pub own: Option<MakeOwn>,
    /// The CPU model, by its number in Unicorn's own list; `None` for Unicorn's default.
    pub model: Option<i32>,
    /// The number of bits of a physical address. Addresses without RAM belong to the board.
    pub physical_bits: u32,
    /// Converts an address to Unicorn's form of a pc, where the two differ. Called before each run, so on AArch64 it also
    /// prepares the core for a 32-bit program.
    pub encode_pc: fn(&Handle, u64) -> u64,
    /// Whether its guests have the other byte order than this build of Unicorn. Values of device accesses are then swapped.
    pub turned_round: bool,
    /// The offset of the pc in the CPU state; it is as wide as an address. An exception's callback continues at another
    /// address by writing it there.
    pub live_pc: usize,
    /// Whether the state has a second pc behind the first one: the address of the next instruction but one (SPARC's npc). It is
    /// pc + 4 unless the instruction at the pc is in the delay slot of a taken branch.
    pub has_next_pc: bool,
    /// Offset and number of its general registers, in the order of their numbers in `isa`; each is as wide as an
    /// address.
    pub live_general: (usize, u8),
    /// The pc's register number, to check that nobody writes the pc like other registers.
    pub pc: fn() -> Register,
}

impl CoreKind {
    /// Whether instructions of user programs can be probed: the core must end blocks in front of them, which a core of ours
    /// does not.
    pub fn observes_programs(&self) -> bool {
        self.own.is_none()
    }
}
