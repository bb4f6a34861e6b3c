//! The interface between the engine and the CPU cores that this project implements itself (`trapline-core`).
//!
//! The engine uses such a core as it uses Unicorn: it reads and writes the CPU's state as bytes at offsets, runs the core
//! until it is stopped, and is called before blocks.

use super::engine::{BlockContext, Events, Handle, InstructionContext, TrapContext};
use super::kinds::{Library, Register};
use super::line;
use super::ram::Ram;
use super::stores::Layout;
use super::watched::Watched;
use core::ffi::c_void;
use trapline_core::parisc::number;
use trapline_core::{Access, Host, Line, ia64};
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::{Arch, Mode};

/// A core of ours. Its state does not move while the core exists. It consists of cells, because the machine also changes
/// it while the core runs.
pub trait OwnCore {
    /// The address of the state, its size in bytes, and the number of bytes at its start that belong to a CPU.
    fn state(&self) -> (*mut u8, usize, usize);
    /// The word of the state that ends a run before the next block, if it is not 0.
    fn stop(&self) -> *mut u32;
    /// The words in which blocks count time.
    fn line(&self) -> &Line;
    /// Runs until stopped.
    fn run(&mut self, host: &mut OwnHost<'_, false>);
    /// Runs until stopped, and reports each load and store to the host.
    fn run_telling(&mut self, host: &mut OwnHost<'_, true>);
    /// Makes the first block of the next run one instruction long.
    fn begin_alone(&mut self);
    /// Drops all decoded code.
    fn drop_all(&mut self);
    /// Sets whether each instruction is a block of its own, and drops all decoded code.
    fn set_one_by_one(&mut self, one_by_one: bool);
    /// The number of pages with decoded code.
    fn pages_with_code(&self) -> usize;
    /// Another CPU of the machine is on the core now.
    fn switched(&self);
}

/// Implements [`OwnCore`] for a core of `trapline-core`. Those cores have the same functions, but each runs on a host of its own
/// kind, so they have no common trait.
macro_rules! own_core {
    ($core:ty, $state:ty, $saved:expr, $switched:expr) => {
        impl OwnCore for $core {
            fn state(&self) -> (*mut u8, usize, usize) {
                (core::ptr::from_ref(<$core>::state(self)).cast_mut().cast(), size_of::<$state>(), $saved)
            }
            fn stop(&self) -> *mut u32 {
                <$core>::state(self).stop.as_ptr()
            }
            fn line(&self) -> &trapline_core::Line {
                &<$core>::state(self).line
            }
            fn run(&mut self, host: &mut OwnHost<'_, false>) {
                <$core>::run(self, host);
            }
            fn run_telling(&mut self, host: &mut OwnHost<'_, true>) {
                <$core>::run(self, host);
            }
            fn begin_alone(&mut self) {
                <$core>::begin_alone(self);
            }
            fn drop_all(&mut self) {
                <$core>::drop_all(self);
            }
            fn set_one_by_one(&mut self, one_by_one: bool) {
                <$core>::set_one_by_one(self, one_by_one);
            }
            fn pages_with_code(&self) -> usize {
                <$core>::pages_with_code(self)
            }
            fn switched(&self) {
                let switched: fn(&$state) = $switched;
                switched(<$core>::state(self));
            }
        }
    };
}
pub(super) use own_core;

extern "C" fn no_invalidation(_: *mut c_void, _: usize, _: usize) {}
extern "C" fn no_address(_: *mut c_void, _: *mut c_void) -> usize {
    usize::MAX
}
extern "C" fn no_guard(_: *mut c_void, _: usize, _: usize) {}

/// The [`Library`] of a core of ours, which uses no function of Unicorn: its architecture is arbitrary.
pub(super) const fn library(address_bytes: usize, layout: &'static line::Layout) -> Library {
    Library {
        arch: Arch::PPC,
        mode: Mode::BIG_ENDIAN,
        instructions: Vec::new,
        has_choice_of_pages: false,
        invalidate: no_invalidation,
        ram_address: no_address,
        live_translations: 0,
        stores: Layout { modes: 1, smallest_page_bits: 12, address_bytes, guard: no_guard },
        layout,
    }
}

/// The register number of the pc of a core of ours, which has no register numbers.
pub fn no_number() -> Register {
    Register(0)
}

/// The [`Host`] of a core of ours: the guest's RAM, and the machine's callbacks. The core reports loads and stores to it
/// only if `TELLS` is true, because reports make the core slower.
pub struct OwnHost<'a, const TELLS: bool> {
    pub(super) handle: Handle,
    pub(super) ram: &'a Ram,
    pub(super) events: &'a mut dyn Events,
    pub(super) tells: Tells<'a>,
}

/// The reports of loads and stores that the machine has asked for.
#[derive(Clone, Copy, Default)]
pub struct Tells<'a> {
    /// The ranges whose accesses are reported after they were made.
    pub(super) watched: Option<&'a Watched>,
    /// Whether each access is reported before it is made.
    pub(super) each: bool,
    /// Whether the RAM records the pages that are written.
    pub(super) notes_pages: bool,
}

impl Tells<'_> {
    /// Whether any report was asked for.
    pub(super) fn any(&self) -> bool {
        self.watched.is_some() || self.each || self.notes_pages
    }
}

impl<const TELLS: bool> OwnHost<'_, TELLS> {
    fn report(&mut self, access: &Access, order: ByteOrder) {
        if access.is_store && self.tells.notes_pages {
            self.ram.note(access.physical, access.size.into());
        }
        if let Some(watched) = self.tells.watched {
            watched.look_at(access, order, &InstructionContext(self.handle), self.events);
        }
    }
}

impl<const TELLS: bool> Host for OwnHost<'_, TELLS> {
    const TELLS: bool = TELLS;

    fn accesses(&mut self, pc: u32, address: u32, size: u32, is_store: bool) {
        if self.tells.each {
            self.events.each_access(&InstructionContext(self.handle), address.into(), size, is_store, pc.into());
        }
    }
    fn accessed(&mut self, access: &Access) {
        self.report(access, ByteOrder::Big);
    }
    fn breaks_at(&mut self, pc: u64) -> bool {
        self.events.breaks_at(pc)
    }
    #[inline(always)]
    fn load(&mut self, physical: u64, size: u32) -> Option<u32> {
        self.ram.fetch(physical, size)
    }
    #[inline(always)]
    fn store(&mut self, physical: u64, size: u32, value: u32) -> bool {
        self.ram.put(physical, size, value)
    }
    fn device_in(&mut self, physical: u64, size: u32) -> u32 {
        self.events.memory_in(&InstructionContext(self.handle), physical, size) as u32
    }
    fn device_out(&mut self, physical: u64, size: u32, value: u32) {
        self.events.memory_out(&InstructionContext(self.handle), physical, size, value.into());
    }
    fn block(&mut self, pc: u64, size: u32) {
        self.events.block(pc, size, BlockContext(&self.handle));
    }
    fn always_wants(&mut self, pc: u64) -> bool {
        self.events.always_wants(pc)
    }
    fn exception(&mut self, number: u32) {
        self.events.interrupt(&TrapContext(self.handle), number);
    }
    fn read_clock(&mut self) {
        self.events.read_clock(&InstructionContext(self.handle));
    }
    fn external_interrupts(&mut self) -> u32 {
        self.events.register_in(&InstructionContext(self.handle), number::EIRR_WORD).unwrap_or(0) as u32
    }
    fn writes_control(&mut self, register: u32, value: u32) {
        self.events.register_out(&InstructionContext(self.handle), register, value.into());
    }
    fn has_code(&mut self, page: u64) {
        self.ram.note_code(page, 1, true);
    }
    fn dropped(&mut self) -> Option<u64> {
        self.ram.next_dropped()
    }
}

impl<const TELLS: bool> ia64::Host for OwnHost<'_, TELLS> {
    const TELLS: bool = TELLS;

    fn accesses(&mut self, pc: u64, address: u64, size: u32, is_store: bool) {
        if self.tells.each {
            self.events.each_access(&InstructionContext(self.handle), address, size, is_store, pc);
        }
    }
    fn accessed(&mut self, access: &Access) {
        self.report(access, ByteOrder::Little);
    }
    fn breaks_at(&mut self, pc: u64) -> bool {
        self.events.breaks_at(pc)
    }
    #[inline(always)]
    fn load(&mut self, physical: u64, size: u32) -> Option<u64> {
        self.ram.fetch_little(physical, size)
    }
    #[inline(always)]
    fn store(&mut self, physical: u64, size: u32, value: u64) -> bool {
        self.ram.put_little(physical, size, value)
    }
    fn device_in(&mut self, physical: u64, size: u32) -> u64 {
        self.events.memory_in(&InstructionContext(self.handle), physical, size)
    }
    fn device_out(&mut self, physical: u64, size: u32, value: u64) {
        self.events.memory_out(&InstructionContext(self.handle), physical, size, value);
    }
    fn block(&mut self, pc: u64, size: u32) {
        self.events.block(pc, size, BlockContext(&self.handle));
    }
    fn always_wants(&mut self, pc: u64) -> bool {
        self.events.always_wants(pc)
    }
    fn exception(&mut self, _: &ia64::State, vector: u32) {
        self.events.interrupt(&TrapContext(self.handle), vector);
    }
    fn clock(&mut self) -> u64 {
        self.events.read_clock(&InstructionContext(self.handle));
        self.handle.ia64().map_or(0, |state| state.application[usize::from(ia64::ar::ITC)].get())
    }
    fn has_code(&mut self, page: u64) {
        self.ram.note_code(page, 1, true);
    }
    fn dropped(&mut self) -> Option<u64> {
        self.ram.next_dropped()
    }
}
