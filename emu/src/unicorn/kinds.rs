//! A kind of core: Unicorn's build for a family of CPUs, and the selected CPU model.

use super::engine::Handle;
use super::line;
use super::live;
use super::own::OwnCore;
use super::ram::Ram;
use super::stores::Layout;
use core::ffi::{c_int, c_void};
use std::sync::OnceLock;
use unicorn_engine_sys::{Arch, Mode};

/// A register, by Unicorn's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub(super) c_int);

/// Unicorn's build for one family of CPUs. It is in the file of the family's name, with the functions for that family
/// only.
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
    /// The location of the state of such a core, after it was first searched.
    pub(super) live: OnceLock<live::Route>,
    /// The distance from the TLB for kernel accesses to the state behind it.
    pub(super) live_translations: usize,
    /// The layout of its TLB.
    pub(super) stores: Layout,
    /// The locations of the words in which translated code counts.
    pub(super) layout: &'static line::Layout,
}

/// Makes a core of our own that runs code in this memory.
pub type MakeOwn = fn(&Ram) -> Box<dyn OwnCore>;

/// A kind of core, as the machine asks for it.
pub struct CoreKind {
    /// Unicorn's build. Of a core of our own, functions that do nothing.
    pub library: &'static Library,
    /// Makes a core of our own; `None` if Unicorn is the core.
    pub own: Option<MakeOwn>,
    /// The CPU model, by its number in Unicorn's own list; `None` for Unicorn's default.
    pub model: Option<i32>,
    /// The number of bits of a physical address. Addresses without RAM belong to the board.
    pub physical_bits: u32,
    /// Converts an address to Unicorn's form of a pc, where the two differ.
    pub encode_pc: fn(&Handle, u64) -> u64,
    /// Whether its guests have another byte order than Unicorn was built for.
    pub turned_round: bool,
    /// Offset of the pc in the core's state; as wide as an address. Writing it there is all that a callback of an
    /// exception has to do.
    pub live_pc: usize,
    /// Whether the address of the next instruction but one is behind it; that is pc + 4 unless a branch was taken.
    pub has_next_pc: bool,
    /// Offset and number of its general registers, in the order of their numbers in `isa`; each is as wide as an
    /// address.
    pub live_general: (usize, u8),
    /// The pc's register number. The pc is not written with the function for registers.
    pub pc: fn() -> Register,
}

impl CoreKind {
    /// Whether the core ends blocks in front of observed instructions of programs. A core of ours does not.
    pub fn observes_programs(&self) -> bool {
        self.own.is_none()
    }
}
