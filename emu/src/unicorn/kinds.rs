//! What a kind of core is: what the library was built with for a family of CPUs, and which of them is wanted.

use super::engine::Handle;
use super::line;
use super::live;
use super::stores::Layout;
use core::ffi::{c_int, c_void};
use std::sync::OnceLock;
use unicorn_engine_sys::{Arch, Mode};

/// A register by the library's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(pub(super) c_int);

/// What the library was built with for one family: stands in the file of its name, with what is offered for it alone.
pub struct Library {
    pub(super) arch: Arch,
    pub(super) mode: Mode,
    /// Instructions that the core leaves to us, by the library's numbers, and the callback of each, which is given what
    /// `whom` takes.
    pub(super) instructions: fn() -> Vec<(c_int, *mut c_void)>,
    /// The size of its pages is ours to choose.
    pub(super) has_choice_of_pages: bool,
    /// Drops the code translated from these RAM addresses (docs/unicorn.md, "dropping translated code").
    pub(super) invalidate: unsafe extern "C" fn(uc: *mut c_void, start: usize, end: usize),
    /// The RAM address of a host pointer into mapped memory; all ones when it is not in any.
    pub(super) ram_address: unsafe extern "C" fn(uc: *mut c_void, host: *mut c_void) -> usize,
    /// Where the state of such a core lies, once that has been looked for.
    pub(super) live: OnceLock<live::Route>,
    /// How far in front of it the cache of translations lies that a kernel's accesses go by.
    pub(super) live_translations: usize,
    /// Where its cached address translations lie.
    pub(super) stores: Layout,
    /// Where things are that translated code counts in.
    pub(super) layout: &'static line::Layout,
}

/// A kind of core, as the machine asks for it.
pub struct CoreKind {
    /// What it is built from.
    pub library: &'static Library,
    /// The CPU model, by its number in the library's own list; `None`: its own choice.
    pub model: Option<i32>,
    /// Physical addresses have so many bits: where no RAM is, they belong to the board.
    pub physical_bits: u32,
    /// What the library wants to be given as a pc, where that is not the address alone.
    pub encode_pc: fn(&Handle, u64) -> u64,
    /// Its guests have the other order of bytes than the library was built for.
    pub turned_round: bool,
    /// Where the pc lies in the core's state, as wide as an address: writing it there is all that a callback of an
    /// exception has to do.
    pub live_pc: usize,
    /// Behind it is the address of what runs next but one, which is 4 bytes on unless a branch has been taken.
    pub has_next_pc: bool,
    /// Where its general registers begin, and how many there are, in the order of their numbers in `isa`; each as wide
    /// as an address.
    pub live_general: (usize, u8),
    /// The pc, which has its own ways to be written.
    pub pc: fn() -> Register,
}
