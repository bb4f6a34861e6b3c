//! The three words in which translated code counts time by itself (`translator/loop.c`), and where they lie.
//!
//! They are three of the CPU core's own that this core never uses. The C part says where, from the core's own headers;
//! that it has looked at the headers of the very core that runs, and that the code counts, is proved for each kind
//! before the first machine of it is made.

use super::engine::{Core, Handle};
use super::live::{Cpu, Memory};
use super::witness::{Witness, unfit};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

/// What `loop.c` tells of a kind of core. The first six are distances in bytes.
#[repr(C)]
pub(super) struct Layout {
    engine_to_cpu: usize,
    cpu_to_engine: usize,
    pub(super) cpu_to_state: usize,
    cpu_to_line: usize,
    /// From the CPU to the pointer to its table of functions.
    pub(super) cpu_to_functions: usize,
    /// From that table's start to the function that fills in a translation.
    pub(super) functions_to_fill: usize,
    device_access_pc: unsafe extern "C" fn(cpu: *mut c_void, pc: *mut u64) -> bool,
    /// What belongs to the CPU's state and lies beside it, where a saved state does not have it.
    pub(super) beside_bytes: unsafe extern "C" fn(cpu: *mut c_void) -> usize,
    pub(super) save_beside: unsafe extern "C" fn(cpu: *mut c_void, to: *mut u8),
    pub(super) load_beside: unsafe extern "C" fn(cpu: *mut c_void, from: *const u8),
    /// What translated code remembers of the blocks that it has found (`translator/jumps.h`).
    pub(super) found_bytes: usize,
    /// Fills in the translation of an address, if that is simple (`translator/walk.h`).
    pub(super) walk: unsafe extern "C" fn(cpu: *mut c_void, address: u64, access: c_int, mode: c_int) -> bool,
    /// What is kept of an address in a mode, and beside it, in eight words.
    pub(super) kept: unsafe extern "C" fn(cpu: *mut c_void, address: u64, mode: c_int, to: *mut u64),
    /// Before a translation is filled in: for how many there is room (`translator/sizes.h`).
    pub(super) choose_size: unsafe extern "C" fn(cpu: *mut c_void, address: u64, mode: c_int),
    /// Whether translated code lies in the page that begins here in the host's memory (`translator/pages.h`).
    pub(super) holds_code: unsafe extern "C" fn(cpu: *mut c_void, host: *mut c_void) -> bool,
    /// Lets stores to that page go the quick way, if none does.
    pub(super) release: unsafe extern "C" fn(cpu: *mut c_void, host: *mut c_void) -> bool,
    /// Sets what the library leaves unset in an engine of this kind that has just been given memory.
    pub(super) make_ready: unsafe extern "C" fn(uc: *mut c_void),
}

#[repr(C)]
#[derive(Default)]
struct Words {
    start: u64,
    count: i64,
    size: u64,
}

/// The words of one core, which outlives everything that has them. Copying it copies where they are.
#[derive(Clone, Copy, Debug)]
pub struct Line(NonNull<Words>);

impl Line {
    /// Until it is known where they are: nothing is to be read or written.
    pub(super) const fn nowhere() -> Line {
        Line(NonNull::dangling())
    }
    /// Where the block starts.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        // SAFETY: the words live as long as their core, and no translated code runs while this does: that goes for all
        // of these.
        unsafe { (*self.0.as_ptr()).start }
    }
    /// Bytes of it that count.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).size }
    }
    /// The time at its end, less the time from which on the start of a block calls.
    #[inline(always)]
    pub fn count(&self) -> i64 {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).count }
    }
    /// A block of so many bytes that count.
    #[inline(always)]
    pub fn set_block(&mut self, start: u64, size: u64) {
        // SAFETY: as in `start`.
        unsafe { ((*self.0.as_ptr()).start, (*self.0.as_ptr()).size) = (start, size) }
    }
    /// See [`Line::count`].
    #[inline(always)]
    pub fn set_count(&mut self, count: i64) {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).count = count }
    }
}

#[cfg(test)]
impl Line {
    /// Words of no core.
    pub fn of_no_core() -> Line {
        Line(NonNull::from(Box::leak(Box::default())))
    }

    /// What code does at the start of a block with which the CPU goes on where one has written into itself.
    pub fn cut_short_as_code_does(&mut self, start: u64) {
        let run = start.wrapping_sub(self.start()).min(self.size());
        self.set_count(self.count() - (self.size() - run) as i64);
        self.set_block(self.start(), run);
    }

    /// What code does at the start of a block; true: it calls instead.
    pub fn count_as_code_does(&mut self, start: u64, size: u64) -> bool {
        let calls = self.count() >= 0;
        if !calls {
            self.set_count(self.count() + size as i64);
            self.set_block(start, size);
        }
        calls
    }
}

/// Where they are in this engine, if it is laid out as the C part says.
pub(super) fn find(handle: Handle, found: &Cpu) -> Result<(*mut c_void, Line), String> {
    let unknown = || unfit("where the CPU keeps what counts time");
    let (layout, uc, memory) = (handle.kind().library.layout, handle.raw() as usize, Memory::of_this_process()?);
    let cpu = memory.word(uc + layout.engine_to_cpu).ok_or_else(unknown)?;
    if memory.word(cpu.wrapping_add(layout.cpu_to_engine)) != Some(uc) || cpu.wrapping_add(layout.cpu_to_state) != found.state {
        return Err(unknown());
    }
    let line = NonNull::new((cpu + layout.cpu_to_line) as *mut Words).ok_or_else(unknown)?;
    Ok((cpu as *mut c_void, Line(line)))
}

/// The address of the instruction whose access to a device is being answered.
pub(super) fn device_access_pc(handle: &Handle, cpu: *mut c_void) -> Option<u64> {
    let mut pc = 0;
    // SAFETY: the core's own CPU; the function only looks at it and at tables of the core's.
    unsafe { (handle.kind().library.layout.device_access_pc)(cpu, &raw mut pc) }.then_some(pc)
}

/// Proves that the code of such a core counts, and where it stops: in a loop at this address, of one block of so many
/// bytes, that adds one to what `turns` reads. The core stands in front of it.
pub(crate) fn self_check(core: &mut Core<Witness>, code: u64, bytes: u64, turns: impl Fn(&Handle) -> u64) -> Result<(), String> {
    const TURNS: u64 = 10;
    let mut line = core.line();
    let before = turns(&core.handle());
    line.set_count(-((TURNS * bytes) as i64));
    let mut witness = Witness { ends_at_blocks: 1, ..Witness::default() };
    core.run(&mut witness);
    let seen = (turns(&core.handle()) - before, line.start(), line.size(), line.count(), witness.blocks);
    if seen != (TURNS, code, bytes, 0, 1) {
        return Err(unfit("that translated code counts"));
    }
    // Now it calls at each turn, and leaves the counting to whom it calls.
    let mut witness = Witness { ends_at_blocks: TURNS + 1, ..Witness::default() };
    core.run(&mut witness);
    let seen = (turns(&core.handle()) - before, line.start(), line.size(), line.count(), witness.blocks);
    if seen != (2 * TURNS, code, bytes, 0, TURNS + 1) {
        return Err(unfit("that translated code calls"));
    }
    let pages = core.pages_with_code();
    core.flush_translations();
    if pages == 0 || core.pages_with_code() != 0 {
        return Err(unfit("which pages hold translated code"));
    }
    Ok(())
}
