//! What Unicorn's API lacks: the whole CPU state as an image that can be edited, and dropping translated code by address.
//!
//! Offsets are those of the pinned version on a 64-bit host; [`self_check`] proves each operation against a known result
//! before the first machine is made.

use super::engine::{BlockContext, Ended, InstructionContext, SyscallContext, TrapContext};
use super::engine::{Core, Events, Handle};
use super::ffi;
use super::ram::Ram;
use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::OnceLock;
use unicorn_engine_sys::{self as sys, RegisterX86, uc_context, uc_error};

/// The state of a CPU as the core saves it: a byte copy of its own structure behind a header.
///
/// Named fields stand in `cpu/<arch>/state.rs`; here are only bytes at offsets.
pub struct Image {
    context: *mut uc_context,
    len: usize,
}

/// Bytes of the library's own in front of the state.
const HEADER: usize = 40;

impl Image {
    /// Room for one state of this engine.
    pub fn new(handle: Handle) -> Result<Image, String> {
        let mut context = null_mut();
        // SAFETY: plain calls; the result is checked.
        let (answer, len) =
            unsafe { (sys::uc_context_alloc(handle.raw(), &raw mut context), sys::uc_context_size(handle.raw())) };
        if answer != uc_error::OK || len < HEADER {
            return Err(format!("the CPU core cannot save its state: {answer}"));
        }
        Ok(Image { context, len: len - HEADER })
    }

    /// Takes the state of the core.
    pub fn save(&mut self, handle: Handle) {
        // SAFETY: allocated for this engine; saving is a plain copy, legal in every callback.
        unsafe { sys::uc_context_save(handle.raw(), self.context) };
    }

    /// Gives it back.
    pub fn restore(&self, handle: Handle) {
        // SAFETY: as in `save`.
        unsafe { sys::uc_context_restore(handle.raw(), self.context) };
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The 8-byte value at an offset; 0 beyond the end.
    pub fn get64(&self, offset: usize) -> u64 {
        // SAFETY: `at` has checked the bounds.
        self.at(offset, 8).map_or(0, |at| unsafe { at.cast::<u64>().read_unaligned() })
    }

    /// The 4-byte value at an offset; 0 beyond the end.
    pub fn get32(&self, offset: usize) -> u32 {
        // SAFETY: `at` has checked the bounds.
        self.at(offset, 4).map_or(0, |at| unsafe { at.cast::<u32>().read_unaligned() })
    }

    /// Sets 8 bytes; nothing beyond the end.
    pub fn set64(&mut self, offset: usize, value: u64) {
        if let Some(at) = self.at(offset, 8) {
            // SAFETY: `at` has checked the bounds.
            unsafe { at.cast::<u64>().write_unaligned(value) }
        }
    }

    /// Sets 4 bytes; nothing beyond the end.
    pub fn set32(&mut self, offset: usize, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            // SAFETY: `at` has checked the bounds.
            unsafe { at.cast::<u32>().write_unaligned(value) }
        }
    }

    fn at(&self, offset: usize, len: usize) -> Option<*mut u8> {
        // SAFETY: the block is HEADER + len bytes long.
        (offset + len <= self.len).then(|| unsafe { self.context.cast::<u8>().add(HEADER + offset) })
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: allocated by uc_context_alloc, freed once.
        unsafe { sys::uc_context_free(self.context) };
    }
}

/// Drops the code that was translated from these physical addresses, whatever the guest's page tables say.
pub fn drop_translations(handle: Handle, ram: &Ram, physical: u64, len: usize) {
    const PAGE: u64 = 4096;
    let mut from = physical;
    let end = physical + len as u64;
    while from < end {
        let to = end.min((from / PAGE + 1) * PAGE);
        let Some(host) = ram.pointer(from, (to - from) as usize) else { return };
        // SAFETY: `host` lies in memory that is mapped into this engine; both functions only look at its tables.
        unsafe {
            let uc = handle.raw().cast::<c_void>();
            let start = ffi::qemu_ram_addr_from_host_x86_64(uc, host.cast());
            if start != usize::MAX {
                ffi::tb_invalidate_phys_range_x86_64(uc, start, start + (to - from) as usize);
            }
        }
        from = to;
    }
}

/// Proves, once per process, that the offsets and the private calls do on this host what they are used for.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

fn check() -> Result<(), String> {
    let unfit = |what: &str| {
        Err(format!(
            "this build of the CPU core does not pass its self-check ({what}): trapline needs Unicorn 2.1.5 on a 64-bit Linux host"
        ))
    };
    let ram = Ram::new(4 << 20).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<Nobody> = Core::x86(&ram)?;
    let mut image = Image::new(core.handle())?;
    if let Err(field) = crate::cpu::x86::state::self_check(&core.stopped(), &mut image) {
        return unfit(field);
    }

    // inc eax; hlt, then inc ebx in its place: the second must be seen after the drop.
    const CODE: u64 = 0x10_0000;
    crate::cpu::x86::state::enter_flat_32(&core.stopped(), &mut image, CODE);
    ram.write(CODE, &[0x40, 0xf4]);
    let run = |core: &mut Core<Nobody>| {
        core.stopped().set_pc(CODE);
        core.run(&mut Nobody { last: None }) == Ended::Stopped
    };
    core.stopped().write(RegisterX86::RAX, 0);
    core.stopped().write(RegisterX86::RBX, 0);
    let ran = run(&mut core);
    ram.write(CODE, &[0x43]);
    drop_translations(core.handle(), &ram, CODE, 1);
    let ran = ran && run(&mut core);
    let seen = (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX));
    if !ran || seen != (1, 1) {
        return unfit("dropping translated code");
    }

    // int3; its pc must be the address behind it.
    ram.write(CODE, &[0xcc, 0xf4]);
    drop_translations(core.handle(), &ram, CODE, 2);
    core.stopped().set_pc(CODE);
    let mut witness = Nobody { last: None };
    core.run(&mut witness);
    if witness.last != Some((3, CODE + 1)) {
        return unfit("how a breakpoint arrives");
    }
    Ok(())
}

/// A listener for the self-check that only remembers the last trap.
struct Nobody {
    last: Option<(u32, u64)>,
}

impl Events for Nobody {
    fn block(&mut self, _: &BlockContext, _: u64, _: u32) {}
    fn interrupt(&mut self, cpu: &TrapContext, vector: u32) {
        self.last = Some((vector, cpu.handle().read(RegisterX86::RIP)));
    }
    fn invalid_instruction(&mut self, _: &TrapContext) {}
    fn port_in(&mut self, _: &InstructionContext, _: u16, _: u32) -> u32 {
        0
    }
    fn port_out(&mut self, _: &InstructionContext, _: u16, _: u32, _: u32) {}
    fn cpuid(&mut self, _: &InstructionContext) {}
    fn rdtsc(&mut self, _: &InstructionContext) {}
    fn syscall(&mut self, _: &SyscallContext) {}
}
