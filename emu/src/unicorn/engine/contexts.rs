//! The operations that each kind of callback may do: one type for each, so that a forbidden operation does not compile
//! (docs/unicorn.md, "who may write the pc").

use super::Handle;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::kinds::Register;
use crate::unicorn::line;
use core::mem::ManuallyDrop;
use unicorn_engine_sys as sys;

/// In the callback of an exception: all registers may be written; the pc only with `set_pc`.
pub struct TrapContext(pub(in crate::unicorn) Handle);
/// In the callback of a block: the core may be stopped, and nothing else. It holds a reference, so that the callback
/// costs no copy.
#[derive(Clone, Copy)]
pub struct BlockContext<'a>(pub(in crate::unicorn) &'a Handle);
/// In the callback of an instruction inside a block: registers except the pc may be written; no stop.
pub struct InstructionContext(pub(in crate::unicorn) Handle);
/// In the callback of SYSCALL: the state may be edited; the core then adds the instruction's length to the pc.
pub struct SyscallContext(pub(in crate::unicorn) Handle);

impl TrapContext {
    /// Read access.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// Sets a register other than the pc.
    pub fn write(&self, register: impl Into<Register>, value: u64) {
        self.0.write(register.into(), value);
    }
    /// Sets 8 bytes of the state at an offset. The core must have no copy or derived value of the field.
    #[inline]
    pub fn set_live64(&self, offset: usize, value: u64) {
        if let Some(at) = self.0.live(offset, 8) {
            // SAFETY: `live` has checked the bounds; the core reads such fields again when this callback returns.
            unsafe { at.cast::<u64>().write_unaligned(value) }
        }
    }
    /// Like [`TrapContext::set_live64`], with 4 bytes.
    #[inline]
    pub fn set_live32(&self, offset: usize, value: u32) {
        if let Some(at) = self.0.live(offset, 4) {
            // SAFETY: as in `set_live64`.
            unsafe { at.cast::<u32>().write_unaligned(value) }
        }
    }
    /// Continues execution at another address. On ISAs with several instruction sets the CPU's state chooses one.
    #[inline]
    pub fn set_pc(&self, pc: u64) {
        let engine = self.0.engine();
        // SAFETY: as in `Handle::pc`. The core looks up the next block by this value after an exception's callback, and
        // when a run begins.
        unsafe {
            match engine.general_bytes {
                4 => engine.pc.cast::<u32>().write_unaligned(pc as u32),
                _ => engine.pc.cast::<u64>().write_unaligned(pc),
            }
        }
        self.set_next_pc(pc.wrapping_add(4));
    }
    /// On cores with a second pc, sets the address at which execution continues after the instruction at the pc. To be
    /// called after `set_pc`.
    #[inline]
    pub fn set_next_pc(&self, next: u64) {
        let engine = self.0.engine();
        if !engine.next_pc.is_null() {
            // SAFETY: `Core::new` has checked that eight bytes are there.
            unsafe { engine.next_pc.cast::<u64>().write_unaligned(next) }
        }
    }
    /// Ends the run before the next instruction; for a guest that cannot continue.
    pub fn stop(&self) {
        if self.0.stop_own() {
            return;
        }
        // SAFETY: plain call; the core checks the request before it looks up the next block.
        unsafe { sys::uc_emu_stop(self.0.raw()) };
    }
    /// Edits the state in place. The core must have no copy or derived value of the edited fields.
    #[inline]
    pub fn edit<R>(&self, with: impl FnOnce(&mut CoreState) -> R) -> R {
        let engine = self.0.engine();
        // SAFETY: the state has `state_bytes` bytes and outlives the engine's callbacks; nothing else runs.
        let mut itself = ManuallyDrop::new(unsafe { CoreState::itself(engine.state, engine.state_bytes) });
        // It owns nothing. To drop it would cost each system call and exception 26 host instructions.
        with(&mut itself)
    }
    /// Makes the guest's own debug registers take effect, after [`TrapContext::edit`] has written them.
    pub fn follow_debug_registers(&self) {
        if !self.0.cpu().is_null() {
            // SAFETY: it is the core's own CPU.
            unsafe { (self.0.kind().library.layout.follow)(self.0.cpu()) };
        }
    }
}

impl BlockContext<'_> {
    /// Read access.
    #[inline]
    pub fn handle(&self) -> Handle {
        *self.0
    }
    /// Ends the run before this block; the next run reports it again.
    pub fn stop(&self) {
        if self.0.stop_own() {
            return;
        }
        // SAFETY: allowed in a block callback; takes effect before the block's first instruction.
        unsafe { sys::uc_emu_stop(self.0.raw()) };
    }
}

impl InstructionContext {
    /// Read access.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// During a device access: the address of the instruction that makes it.
    pub fn device_access_pc(&self) -> Option<u64> {
        line::device_access_pc(&self.0, self.0.engine().cpu)
    }
    /// Sets a register other than the pc.
    pub fn write(&self, register: impl Into<Register>, value: u64) {
        self.0.write(register.into(), value);
    }
    /// Like [`TrapContext::set_live64`].
    #[inline]
    pub fn set_live64(&self, offset: usize, value: u64) {
        TrapContext(self.0).set_live64(offset, value);
    }
    /// Like [`TrapContext::set_live32`].
    #[inline]
    pub fn set_live32(&self, offset: usize, value: u32) {
        TrapContext(self.0).set_live32(offset, value);
    }
}

impl SyscallContext {
    /// Read access.
    #[inline]
    pub fn handle(&self) -> Handle {
        self.0
    }
    /// Like [`TrapContext::edit`].
    pub fn edit<R>(&self, with: impl FnOnce(&mut CoreState) -> R) -> R {
        TrapContext(self.0).edit(with)
    }
    /// Like [`TrapContext::write`].
    pub fn write(&self, register: impl Into<Register>, value: u64) {
        self.0.write(register.into(), value);
    }
}
