//! Read access to a core: registers by their places in the CPU state, and the core's TLB. The contexts of the callbacks add what
//! their callback may change (`contexts.rs`).

use super::super::cpu_location::{TlbEntry, Translations};
use super::super::kinds::{CoreKind, Register};
use super::super::ram::Ram;
use core::ffi::c_void;
use core::ptr::NonNull;
use unicorn_engine_sys::{self as sys, uc_engine};

/// Read access to a running engine. Copying it is cheap. It is valid as long as its [`Core`](super::Core).
#[derive(Clone, Copy)]
pub struct Handle {
    pub(super) engine: NonNull<Engine>,
}

/// The data behind a handle.
pub(in crate::unicorn) struct Engine {
    /// Unicorn's handle; null for a core of ours.
    pub(super) uc: *mut uc_engine,
    pub(super) kind: &'static CoreKind,
    /// The CPU state inside the core (QEMU's `CPUArchState`), and the number of its bytes that may be accessed. Null until
    /// found.
    pub(super) state: *mut u8,
    pub(super) state_bytes: usize,
    /// The address of the first general register, the number of registers, and the bytes of each.
    pub(super) general: *const u8,
    pub(super) general_count: u8,
    pub(super) general_bytes: u8,
    /// The address of the pc, which is as wide as a general register.
    pub(super) pc: *mut u8,
    /// The address of the second pc (SPARC's npc, the back of PA-RISC's queue): eight bytes with the address of the next
    /// instruction but one. Null on cores without one.
    pub(super) next_pc: *mut u8,
    /// The core's TLB for kernel accesses, once found.
    pub(super) translations: *const Translations,
    /// The layout of the TLB's entries.
    pub(super) shape: TlbEntry,
    /// Unicorn's CPU structure (QEMU's `CPUState`); null until found.
    pub(super) cpu: *mut c_void,
    /// Null and 0 for Unicorn's cores. For a core of ours: the word that stops it, and the number of bytes at the start of
    /// the state that belong to a CPU and are saved.
    pub(super) stop: *mut u32,
    pub(super) own_bytes: usize,
}

impl Handle {
    #[inline]
    pub(super) fn engine(&self) -> &Engine {
        // SAFETY: the core that gave this handle keeps the engine in a box, and outlives every context that holds a
        // handle.
        unsafe { self.engine.as_ref() }
    }

    #[inline]
    pub(in crate::unicorn) fn kind(&self) -> &'static CoreKind {
        self.engine().kind
    }

    /// Reads 8 bytes of the state at an offset; 0 beyond the end. The value is right between instructions and in every
    /// callback, except for fields that the core keeps elsewhere while it runs (the arithmetic flags).
    #[inline]
    pub fn live64(&self, offset: usize) -> u64 {
        // SAFETY: `live` has checked the bounds, and nothing else runs.
        self.live(offset, 8).map_or(0, |at| unsafe { at.cast::<u64>().read_unaligned() })
    }

    /// Reads several consecutive words of 8 bytes; 0 beyond the end.
    #[inline]
    pub fn live_words<const COUNT: usize>(&self, offset: usize) -> [u64; COUNT] {
        // SAFETY: as in `live64`.
        self.live(offset, 8 * COUNT).map_or([0; COUNT], |at| unsafe { at.cast::<[u64; COUNT]>().read_unaligned() })
    }

    /// Reads 4 bytes of the state at an offset; 0 beyond the end.
    #[inline]
    pub fn live32(&self, offset: usize) -> u32 {
        // SAFETY: as in `live64`.
        self.live(offset, 4).map_or(0, |at| unsafe { at.cast::<u32>().read_unaligned() })
    }

    /// The physical address of a word of 4 or 8 bytes, if the core's TLB has its page for such an access with kernel
    /// rights. A write also needs a page without translated code.
    #[inline(always)]
    pub fn cached_physical(&self, ram: &Ram, address: u64, size: usize, write: bool) -> Option<u64> {
        let engine = self.engine();
        let at = NonNull::new(engine.translations.cast_mut())?;
        // SAFETY: set in `Core::new` only, as `find` requires.
        let host = unsafe { at.as_ref().find(&engine.shape, address, size as u64, write) };
        host.and_then(|host| ram.physical_of(host))
    }

    /// Exchanges an 8-byte number if the core's TLB has its page for writes and the page has no translated code. Returns
    /// the old number.
    #[inline(always)]
    pub fn exchange_cached64(&self, ram: &Ram, address: u64, value: u64) -> Option<u64> {
        ram.exchange_data64(self.cached_physical(ram, address, 8, true)?, value)
    }

    /// Like [`Handle::exchange_cached64`], with 4 bytes.
    #[inline(always)]
    pub fn exchange_cached32(&self, ram: &Ram, address: u64, value: u32) -> Option<u32> {
        ram.exchange_data32(self.cached_physical(ram, address, 4, true)?, value)
    }

    /// Reads a general register by its number in `isa`. If registers have 4 bytes, only the low half of the result is
    /// valid.
    #[inline]
    pub fn general(&self, number: u8) -> Option<u64> {
        let engine = self.engine();
        let at = usize::from(number) * usize::from(engine.general_bytes);
        // SAFETY: `Core::new` has checked that these words, and 8 more bytes, lie in the state.
        (number < engine.general_count).then(|| unsafe { engine.general.add(at).cast::<u64>().read_unaligned() })
    }

    #[inline]
    pub(super) fn live(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let engine = self.engine();
        // SAFETY: the state is `state_bytes` long.
        (offset.wrapping_add(len) <= engine.state_bytes).then(|| unsafe { engine.state.add(offset) })
    }

    /// The address of the first byte of the CPU state.
    pub(in crate::unicorn) fn own_state(&self) -> *const u8 {
        self.engine().state
    }

    /// The size of a saved CPU state in bytes. `None` for Unicorn's cores.
    pub(in crate::unicorn) fn own_bytes(&self) -> Option<usize> {
        let bytes = self.engine().own_bytes;
        (bytes != 0).then_some(bytes)
    }

    /// Saves the CPU state of a core of ours to `image`, or restores it from there. `image` must have
    /// [`Handle::own_bytes`] bytes.
    pub(in crate::unicorn) fn copy_own(&self, image: *mut u8, restores: bool) {
        let engine = self.engine();
        let (from, to) = if restores { (image, engine.state) } else { (engine.state, image) };
        // SAFETY: the state has this many bytes, all in cells, and so has the image, which is other memory.
        unsafe { core::ptr::copy_nonoverlapping(from, to, engine.own_bytes) };
    }

    /// Stops a core of ours before the next block. Returns false, and does nothing, for Unicorn's cores.
    #[inline]
    pub(in crate::unicorn) fn stop_own(&self) -> bool {
        let stop = self.engine().stop;
        if stop.is_null() {
            return false;
        }
        // SAFETY: a cell in the state.
        unsafe { stop.write(1) };
        true
    }

    /// Reads a register of one of Unicorn's cores, zero-extended. It must not be called for a core of ours, which has no
    /// register numbers; the files of its ISA read the state instead. A check here would make every exception of Unicorn's
    /// cores slower.
    pub fn read(&self, register: impl Into<Register>) -> u64 {
        let mut value = 0u64;
        // SAFETY: no register that is read here is wider than 8 bytes; the engine outlives every context that holds a
        // handle, and is one of Unicorn's.
        unsafe { sys::uc_reg_read(self.raw(), register.into().0, (&raw mut value).cast()) };
        value
    }

    /// The pc.
    #[inline]
    pub fn pc(&self) -> u64 {
        let engine = self.engine();
        // SAFETY: `Core::new` has checked that a word as wide as a register is there.
        unsafe {
            match engine.general_bytes {
                4 => engine.pc.cast::<u32>().read_unaligned().into(),
                _ => engine.pc.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Whether the instruction at `pc`, which is next, is no delay slot. A run that ends in front of a delay slot cannot be
    /// continued.
    #[inline]
    pub fn goes_straight_on(&self, pc: u64) -> bool {
        let engine = self.engine();
        // SAFETY: `Core::new` has checked that eight bytes are there.
        engine.next_pc.is_null() || unsafe { engine.next_pc.cast::<u64>().read_unaligned() } == pc.wrapping_add(4)
    }

    /// Sets a register other than the pc. The contexts set the pc, each in the way that its callback allows.
    pub(super) fn write(&self, register: Register, value: u64) {
        debug_assert!(register != (self.kind().pc)(), "the contexts set the pc");
        // SAFETY: as in `read`.
        unsafe { sys::uc_reg_write(self.raw(), register.0, (&raw const value).cast()) };
    }

    #[inline]
    pub(in crate::unicorn) fn raw(&self) -> *mut uc_engine {
        self.engine().uc
    }

    /// Unicorn's CPU structure; null until found.
    #[inline]
    pub(in crate::unicorn) fn cpu(&self) -> *mut c_void {
        self.engine().cpu
    }
}
