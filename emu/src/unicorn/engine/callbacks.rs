//! The functions that the core calls. Each finds the machine's [`Events`] by the pointer that the core was given, and passes the
//! call on with the context of its kind.

use super::{BlockContext, Callbacks, Events, Handle, InstructionContext, Shared, TrapContext};
use core::ffi::{c_int, c_void};
use core::ptr::null;
use unicorn_engine_sys::uc_engine;

/// # Safety
/// `user` must be the pointer given in `hook`, during a run.
unsafe fn who<'a, E>(user: *mut c_void) -> (&'a Handle, &'a mut E) {
    // SAFETY: the box exists as long as the engine; `events` was set by `run`, which borrows it for its duration, and
    // callbacks do not nest.
    unsafe {
        let callbacks = &*user.cast::<Callbacks<E>>();
        (&callbacks.shared.handle, &mut *callbacks.events)
    }
}

/// Like `who`, without knowing `E`: for callbacks of single instructions and of devices.
///
/// # Safety
/// `user` must be the pointer that [`who`] accepts.
pub(in crate::unicorn) unsafe fn whom<'a>(user: *mut c_void) -> (Handle, &'a mut dyn Events) {
    // SAFETY: as in `who`; `shared` is the first field of `Callbacks`, for any `E`.
    unsafe {
        let shared = &*user.cast::<Shared>();
        match shared.events {
            Some(events) => (shared.handle, &mut *events),
            // Unicorn makes no callbacks outside of a run.
            None => std::process::abort(),
        }
    }
}

/// Like `whom`; `None` outside of a run.
///
/// # Safety
/// `user` must be the pointer that [`who`] accepts.
pub(in crate::unicorn) unsafe fn whom_while_running<'a>(user: *mut c_void) -> Option<(Handle, &'a mut dyn Events)> {
    // SAFETY: as in `whom`.
    unsafe {
        let shared = &*user.cast::<Shared>();
        shared.events.map(|events| (shared.handle, &mut *events))
    }
}

// The callbacks below have the signatures that unicorn.h gives for their kinds of hook. None unwinds. `block` is
// C-unwind and not made to abort on a panic, because that would cost a stack frame in every guest block: translated
// code cannot be unwound, so a panic ends the program there, too.

pub(super) extern "C-unwind" fn block<E: Events>(_: *mut uc_engine, pc: u64, size: u32, user: *mut c_void) {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.block(pc, size, BlockContext(handle));
}

pub(super) extern "C" fn always_wants(user: *mut c_void, pc: u64) -> bool {
    // SAFETY: see `whom`; code is translated during runs only.
    let (_, events) = unsafe { whom(user) };
    events.always_wants(pc)
}

pub(super) extern "C" fn is_window(user: *mut c_void, pc: u64) -> bool {
    // SAFETY: as in `always_wants`.
    let (_, events) = unsafe { whom(user) };
    events.is_window(pc)
}

pub(super) extern "C" fn breaks_at(user: *mut c_void, pc: u64) -> bool {
    // SAFETY: as in `always_wants`.
    let (_, events) = unsafe { whom(user) };
    events.breaks_at(pc)
}

/// Called when the guest's own debug registers begin or cease to watch memory, or watch other memory.
pub(super) extern "C" fn watches_own(user: *mut c_void, watches: bool) {
    // SAFETY: `shared` is the first field of `Callbacks`, for any `E`. Only fields in cells are written.
    let shared = unsafe { &*user.cast::<Shared>() };
    shared.watches.own.set(watches);
    // SAFETY: the tables live as long as the core has them.
    unsafe { shared.watches.show(&shared.handle) };
}

pub(super) extern "C" fn answers(user: *mut c_void, register: u32) -> bool {
    // SAFETY: as in `always_wants`.
    let (handle, events) = unsafe { whom(user) };
    events.answers(&handle, register)
}

/// Called by an instruction that `loop.c` has instrumented; the result goes to `value`.
pub(super) extern "C" fn register_in(user: *mut c_void, register: u32, value: *mut u64) -> bool {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    let answer = events.register_in(&InstructionContext(handle), register);
    if let Some(answer) = answer {
        // SAFETY: `value` points to a variable of the caller.
        unsafe { value.write(answer) };
    }
    answer.is_some()
}

pub(super) extern "C" fn register_out(user: *mut c_void, register: u32, value: u64) -> bool {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.register_out(&InstructionContext(handle), register, value)
}

pub(super) type Points = extern "C" fn(*mut c_void, *const u8, u64) -> *const u32;

/// Called when code of this page is translated. The list is read before the next callback.
pub(super) extern "C" fn points(user: *mut c_void, page: *const u8, pc: u64) -> *const u32 {
    // SAFETY: as in `always_wants`.
    let (handle, events) = unsafe { whom(user) };
    events.points(&InstructionContext(handle), page as u64, pc).map_or(null(), |list| list.as_ptr())
}

pub(super) extern "C" fn user_hit(user: *mut c_void, pc: u64, point: u64) {
    // SAFETY: see `whom`.
    let (_, events) = unsafe { whom(user) };
    events.user_hit(pc, point as u32);
}

/// Called by PAUSE, YIELD and WFE. The CPU state already is that after the instruction.
pub(super) extern "C" fn pauses(user: *mut c_void) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.pauses(&InstructionContext(handle));
}

/// Called by the code that `each_access.h` adds to blocks.
pub(super) extern "C" fn each_access(user: *mut c_void, address: u64, kind: u64, pc: u64) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.each_access(&InstructionContext(handle), address, (kind & 0xff) as u32, kind >> 8 != 0, pc);
}

pub(super) extern "C" fn no_memory(_: *mut uc_engine, _: c_int, _: u64, _: c_int, _: i64, user: *mut c_void) -> bool {
    // SAFETY: see `whom`.
    let (_, events) = unsafe { whom(user) };
    events.no_memory();
    false
}

pub(super) extern "C" fn interrupt<E: Events>(_: *mut uc_engine, vector: u32, user: *mut c_void) {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.interrupt(&TrapContext(*handle), vector);
}

pub(super) extern "C" fn invalid<E: Events>(_: *mut uc_engine, user: *mut c_void) -> bool {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.invalid_instruction(&TrapContext(*handle));
    true
}

/// Refuses a fetch from a device: the run fails, as it does without this callback. With this callback the core does not
/// search its whole TLB for each block that it translates, a search that `stores` makes unnecessary (docs/unicorn.md).
pub(super) extern "C" fn fetch_refused(_: *mut uc_engine, _: c_int, _: u64, _: c_int, _: i64, _: *mut c_void) -> bool {
    false
}

/// Converts the value of a device access between Unicorn and the board. If the guest's byte order is not the one that
/// Unicorn was built for, Unicorn has swapped the bytes, and this swaps them back.
fn in_order(handle: Handle, value: u64, size: u32) -> u64 {
    match handle.kind().turned_round {
        true => value.swap_bytes() >> (64 - 8 * size.clamp(1, 8)),
        false => value,
    }
}

pub(super) extern "C" fn low_read(_: *mut uc_engine, offset: u64, size: u32, user: *mut c_void) -> u64 {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    in_order(handle, events.memory_in(&InstructionContext(handle), offset, size), size)
}

pub(super) extern "C" fn low_write(_: *mut uc_engine, offset: u64, size: u32, value: u64, user: *mut c_void) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.memory_out(&InstructionContext(handle), offset, size, in_order(handle, value, size));
}

pub(super) extern "C" fn high_read(_: *mut uc_engine, offset: u64, size: u32, user: *mut c_void) -> u64 {
    // SAFETY: see `whom`.
    let ((handle, events), high) = unsafe { (whom(user), (*user.cast::<Shared>()).high) };
    in_order(handle, events.memory_in(&InstructionContext(handle), high + offset, size), size)
}

pub(super) extern "C" fn high_write(_: *mut uc_engine, offset: u64, size: u32, value: u64, user: *mut c_void) {
    // SAFETY: see `whom`.
    let ((handle, events), high) = unsafe { (whom(user), (*user.cast::<Shared>()).high) };
    events.memory_out(&InstructionContext(handle), high + offset, size, in_order(handle, value, size));
}

pub(super) extern "C" fn hole_read(_: *mut uc_engine, offset: u64, size: u32, user: *mut c_void) -> u64 {
    // SAFETY: see `whom`.
    let ((handle, events), hole) = unsafe { (whom(user), (*user.cast::<Shared>()).hole) };
    in_order(handle, events.memory_in(&InstructionContext(handle), hole + offset, size), size)
}

pub(super) extern "C" fn hole_write(_: *mut uc_engine, offset: u64, size: u32, value: u64, user: *mut c_void) {
    // SAFETY: see `whom`.
    let ((handle, events), hole) = unsafe { (whom(user), (*user.cast::<Shared>()).hole) };
    events.memory_out(&InstructionContext(handle), hole + offset, size, in_order(handle, value, size));
}
