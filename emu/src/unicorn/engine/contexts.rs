//! What each kind of callback may do: a type for each, so that the wrong call does not compile (docs/unicorn.md, "who
//! may write the pc").

use super::Handle;
use crate::unicorn::kinds::Register;
use crate::unicorn::line;
use crate::unicorn::surgery::CoreState;
use unicorn_engine_sys as sys;

/// In the callback of an exception: everything may be written, the pc in batch form only.
pub struct TrapContext(pub(super) Handle);
/// In the callback of a block: the core may be stopped, and nothing else. It holds what that callback gets without
/// looking.
#[derive(Clone, Copy)]
pub struct BlockContext<'a>(pub(super) &'a Handle);
/// In the callback of an instruction inside a block: registers but not the pc, and no stop.
pub struct InstructionContext(pub(in crate::unicorn) Handle);
/// In the callback of SYSCALL: the saved image is edited; the core adds the instruction's length to the pc afterwards.
pub struct SyscallContext(pub(in crate::unicorn) Handle);

impl TrapContext {
    /// Reading.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// Sets a register other than the pc.
    pub fn write(&self, register: impl Into<Register>, value: u64) {
        self.0.write(register.into(), value);
    }
    /// Sets 8 bytes of the state at this offset of an image: a field of which the core keeps nothing else.
    #[inline]
    pub fn set_live64(&self, offset: usize, value: u64) {
        if let Some(at) = self.0.live(offset, 8) {
            // SAFETY: `live` has checked the bounds; the core takes such fields as they are when this callback returns.
            unsafe { at.cast::<u64>().write_unaligned(value) }
        }
    }
    /// The same of 4 bytes.
    #[inline]
    pub fn set_live32(&self, offset: usize, value: u32) {
        if let Some(at) = self.0.live(offset, 4) {
            // SAFETY: as in `set_live64`.
            unsafe { at.cast::<u32>().write_unaligned(value) }
        }
    }
    /// Makes execution go on elsewhere, in code of the kind that the CPU's state says where there are several.
    #[inline]
    pub fn set_pc(&self, pc: u64) {
        let engine = self.0.engine();
        // SAFETY: as in `Handle::pc`. The core looks the next block up by what stands there: after an exception's
        // callback, and when a run begins.
        unsafe {
            match engine.general_bytes {
                4 => engine.pc.cast::<u32>().write_unaligned(pc as u32),
                _ => engine.pc.cast::<u64>().write_unaligned(pc),
            }
        }
        self.set_next_pc(pc.wrapping_add(4));
    }
    /// Makes it go on there behind the instruction at the pc, where the CPU holds such an address; the pc comes first.
    #[inline]
    pub fn set_next_pc(&self, next: u64) {
        let engine = self.0.engine();
        if !engine.next_pc.is_null() {
            // SAFETY: such a word lies there, as `Core::new` has found.
            unsafe { engine.next_pc.cast::<u64>().write_unaligned(next) }
        }
    }
    /// Ends the run before anything else is executed; for a guest that cannot go on.
    pub fn stop(&self) {
        // SAFETY: plain call; the core looks at the request before it looks up the next block.
        unsafe { sys::uc_emu_stop(self.0.raw()) };
    }
    /// Lets the state be edited where it lies: fields of which the core keeps nothing else.
    pub fn edit<R>(&self, with: impl FnOnce(&mut CoreState) -> R) -> R {
        let engine = self.0.engine();
        // SAFETY: the state is `state_bytes` long and outlives the engine's callbacks; nothing else runs.
        with(&mut unsafe { CoreState::itself(engine.state, engine.state_bytes) })
    }
}

impl BlockContext<'_> {
    /// Reading.
    #[inline]
    pub fn handle(&self) -> Handle {
        *self.0
    }
    /// Ends the run in front of this block; it will be offered again.
    pub fn stop(&self) {
        // SAFETY: legal in a block callback; takes effect before the block's first instruction.
        unsafe { sys::uc_emu_stop(self.0.raw()) };
    }
}

impl InstructionContext {
    /// Reading.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// In the answer to a read or write where there is no RAM: the instruction that makes it.
    pub fn device_access_pc(&self) -> Option<u64> {
        line::device_access_pc(&self.0, self.0.engine().cpu)
    }
    /// Sets a register other than the pc.
    pub fn write(&self, register: impl Into<Register>, value: u64) {
        self.0.write(register.into(), value);
    }
    /// As [`TrapContext::set_live64`].
    #[inline]
    pub fn set_live64(&self, offset: usize, value: u64) {
        TrapContext(self.0).set_live64(offset, value);
    }
    /// As [`TrapContext::set_live32`].
    #[inline]
    pub fn set_live32(&self, offset: usize, value: u32) {
        TrapContext(self.0).set_live32(offset, value);
    }
}

impl SyscallContext {
    /// Reading.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// As [`TrapContext::edit`].
    pub fn edit<R>(&self, with: impl FnOnce(&mut CoreState) -> R) -> R {
        TrapContext(self.0).edit(with)
    }
}
