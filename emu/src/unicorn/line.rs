//! The three words in which translated code counts time (`translator/loop.c`), and their location.
//!
//! The words lie in a part of Unicorn's CPU structure that Unicorn does not use. The C part computes their offset from
//! Unicorn's headers. Before the first machine with a kind of core, a self-check proves that these headers describe the
//! running core, and that translated code counts.
//!
//! `Layout` is the table that the C part exports: offsets and functions. [`Line`] reads and writes the words.

use super::cpu_location::{Cpu, Memory};
use super::engine::{Core, Handle};
use super::recording_events::{RecordingEvents, unfit};
use super::watched::Watched;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr::NonNull;

/// The offsets and functions of a kind of core, from the end of `loop.c`. The first seven fields are offsets in bytes. The
/// argument `cpu` of the functions is Unicorn's CPU structure.
#[repr(C)]
pub(super) struct Layout {
    pub(super) engine_to_cpu: usize,
    cpu_to_engine: usize,
    pub(super) cpu_to_state: usize,
    /// In the CPU structure, the pointer to the state. The next word is the pointer to the counter of instructions.
    pub(super) cpu_to_state_pointer: usize,
    cpu_to_line: usize,
    /// In the CPU structure, the pointer to its table of functions (QEMU's `CPUClass`).
    pub(super) cpu_to_functions: usize,
    /// In that table, the pointer to the function that fills a TLB entry (`tlb_fill`).
    pub(super) functions_to_fill: usize,
    /// Writes the address of the instruction whose device access is in progress. Returns false outside of translated code.
    device_access_pc: unsafe extern "C" fn(cpu: *mut c_void, pc: *mut u64) -> bool,
    /// The size in bytes of the CPU state that lies outside the state structure. It must be saved and restored beside it.
    pub(super) beside_bytes: unsafe extern "C" fn(cpu: *mut c_void) -> usize,
    pub(super) save_beside: unsafe extern "C" fn(cpu: *mut c_void, to: *mut u8),
    pub(super) load_beside: unsafe extern "C" fn(cpu: *mut c_void, from: *const u8),
    /// The size in bytes of the cache of blocks that translated code uses for jumps (`translator/jumps.h`).
    pub(super) found_bytes: usize,
    /// Fills the TLB entry of an address if the fast page-table walk can (`translator/walk.h`). Returns false, having changed
    /// nothing, if Unicorn must walk.
    pub(super) walk: unsafe extern "C" fn(cpu: *mut c_void, address: u64, access: c_int, mode: c_int) -> bool,
    /// Writes the TLB's data for an address in an MMU mode, other than the entry itself, as eight words.
    pub(super) kept: unsafe extern "C" fn(cpu: *mut c_void, address: u64, mode: c_int, to: *mut u64),
    /// Sets the size of the TLB; called before an entry is filled (`translator/tlb_size.h`).
    pub(super) choose_size: unsafe extern "C" fn(cpu: *mut c_void, address: u64, mode: c_int),
    /// Whether the page at this host address has translated code (`translator/pages.h`).
    pub(super) holds_code: unsafe extern "C" fn(cpu: *mut c_void, host: *mut c_void) -> bool,
    /// Clears the slow-store flag of the page at this host address. Returns false, having done nothing, if the page has
    /// translated code.
    pub(super) release: unsafe extern "C" fn(cpu: *mut c_void, host: *mut c_void) -> bool,
    /// Initializes the parts of a new engine that Unicorn leaves uninitialized. Called after RAM was mapped.
    pub(super) make_ready: unsafe extern "C" fn(uc: *mut c_void),
    /// Sets the table of watched pages, or null, and the flags of all TLB entries (`translator/access.c`).
    pub(super) watch: unsafe extern "C" fn(cpu: *mut c_void, watched: *const Watched),
    /// Sets TLB_WATCHPOINT in the TLB entry of an address, if its page is watched.
    pub(super) flag: unsafe extern "C" fn(cpu: *mut c_void, address: u64, mode: c_int),
    /// Writes the address of the instruction to which this host address in translated code belongs. Returns false if it is in
    /// no block.
    pc_of_host: unsafe extern "C" fn(cpu: *mut c_void, host: usize, pc: *mut u64) -> bool,
    /// Writes the physical addresses of the page-table entries in which a walk by Unicorn may set accessed or dirty bits, at
    /// most eight. Returns their number.
    pub(super) rows: unsafe extern "C" fn(cpu: *mut c_void, address: u64, rows: *mut u64) -> c_uint,
    /// Makes the next block that the core looks up one instruction long.
    pub(super) next_alone: unsafe extern "C" fn(cpu: *mut c_void),
    /// Makes the guest's own debug registers take effect, after another state was loaded (`translator/break_sets.h`).
    pub(super) follow: unsafe extern "C" fn(cpu: *mut c_void),
    /// Makes changes of the state take effect that the core keeps elsewhere while it runs. Called before a run, on AArch64.
    pub(super) begin: unsafe extern "C" fn(cpu: *mut c_void),
    /// Writes the registers to where they are read, if the core keeps them elsewhere while it runs. Called in the callback of an
    /// exception, on AArch64.
    pub(super) show: unsafe extern "C" fn(cpu: *mut c_void),
}

impl Layout {
    /// The layout of a core of ours. Only `device_access_pc` is ever called, with the address of the core's state.
    pub(super) const fn of_own(device_access_pc: unsafe extern "C" fn(state: *mut c_void, pc: *mut u64) -> bool) -> Layout {
        extern "C" fn no_bytes(_: *mut c_void) -> usize {
            0
        }
        extern "C" fn no_save(_: *mut c_void, _: *mut u8) {}
        extern "C" fn no_load(_: *mut c_void, _: *const u8) {}
        extern "C" fn no_walk(_: *mut c_void, _: u64, _: c_int, _: c_int) -> bool {
            false
        }
        extern "C" fn no_kept(_: *mut c_void, _: u64, _: c_int, _: *mut u64) {}
        extern "C" fn no_size(_: *mut c_void, _: u64, _: c_int) {}
        extern "C" fn no_page(_: *mut c_void, _: *mut c_void) -> bool {
            false
        }
        extern "C" fn nothing(_: *mut c_void) {}
        extern "C" fn no_watch(_: *mut c_void, _: *const Watched) {}
        extern "C" fn no_rows(_: *mut c_void, _: u64, _: *mut u64) -> c_uint {
            0
        }
        extern "C" fn no_host(_: *mut c_void, _: usize, _: *mut u64) -> bool {
            false
        }
        Layout {
            engine_to_cpu: 0,
            cpu_to_engine: 0,
            cpu_to_state: 0,
            cpu_to_state_pointer: 0,
            cpu_to_line: 0,
            cpu_to_functions: 0,
            functions_to_fill: 0,
            device_access_pc,
            beside_bytes: no_bytes,
            save_beside: no_save,
            load_beside: no_load,
            found_bytes: 0,
            walk: no_walk,
            kept: no_kept,
            choose_size: no_size,
            holds_code: no_page,
            release: no_page,
            make_ready: nothing,
            watch: no_watch,
            flag: no_size,
            pc_of_host: no_host,
            rows: no_rows,
            next_alone: nothing,
            follow: nothing,
            begin: nothing,
            show: nothing,
        }
    }
}

/// The three words in the core. [`Line`] has a method for each.
#[repr(C)]
#[derive(Default)]
struct Words {
    start: u64,
    count: i64,
    size: u64,
}

/// A pointer to the words of one core. The core outlives every copy of the pointer.
#[derive(Clone, Copy, Debug)]
pub struct Line(NonNull<Words>);

impl Line {
    /// A placeholder until the location is known; must not be read or written.
    pub(super) const fn nowhere() -> Line {
        Line(NonNull::dangling())
    }
    /// The words of a core of ours, which have this layout too.
    pub(super) fn of_own(line: &trapline_core::Line) -> Line {
        Line(NonNull::from(line).cast())
    }
    /// The start address of the last block.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        // SAFETY: the words exist as long as their core, and no translated code runs during this call. This holds for
        // all functions here.
        unsafe { (*self.0.as_ptr()).start }
    }
    /// The number of bytes by which the last block advanced the clock.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).size }
    }
    /// The clock at the end of the last block, minus the time from which on each block calls
    /// [`Events::block`](super::engine::Events::block), in bytes of code. It is negative until then.
    #[inline(always)]
    pub fn count(&self) -> i64 {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).count }
    }
    /// Sets the start address of the last block, and its bytes that advance the clock.
    #[inline(always)]
    pub fn set_block(&mut self, start: u64, size: u64) {
        // SAFETY: as in `start`.
        unsafe { ((*self.0.as_ptr()).start, (*self.0.as_ptr()).size) = (start, size) }
    }
    /// Sets [`Line::count`], and so the time at which blocks begin to call.
    #[inline(always)]
    pub fn set_count(&mut self, count: i64) {
        // SAFETY: as in `start`.
        unsafe { (*self.0.as_ptr()).count = count }
    }
}

#[cfg(test)]
impl Line {
    /// Words that belong to no core.
    pub fn of_no_core() -> Line {
        Line(NonNull::from(Box::leak(Box::default())))
    }

    /// Does what translated code does at the start of a block with which the CPU continues after code has modified
    /// itself.
    pub fn cut_short_as_code_does(&mut self, start: u64) {
        let run = start.wrapping_sub(self.start()).min(self.size());
        self.set_count(self.count() - (self.size() - run) as i64);
        self.set_block(self.start(), run);
    }

    /// Does what translated code does at the start of a block; returns whether it calls instead of counting.
    pub fn count_as_code_does(&mut self, start: u64, size: u64) -> bool {
        let calls = self.count() >= 0;
        if !calls {
            self.set_count(self.count() + size as i64);
            self.set_block(start, size);
        }
        calls
    }
}

/// Finds the CPU structure and the words of this engine. Fails if the pointers between engine, CPU and state are not where the
/// C part says.
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

/// The address of the instruction whose device access is in progress.
pub(super) fn device_access_pc(handle: &Handle, cpu: *mut c_void) -> Option<u64> {
    let mut pc = 0;
    // SAFETY: the pointer is the core's own CPU; the function only reads it and tables of the core.
    unsafe { (handle.kind().library.layout.device_access_pc)(cpu, &raw mut pc) }.then_some(pc)
}

/// The address of the instruction to which a host address in translated code belongs. `None` outside of translated code.
pub(super) fn pc_of_host(handle: &Handle, cpu: *mut c_void, host: usize) -> Option<u64> {
    let mut pc = 0;
    // SAFETY: as in `device_access_pc`.
    unsafe { (handle.kind().library.layout.pc_of_host)(cpu, host, &raw mut pc) }.then_some(pc)
}

/// Proves that translated code counts its bytes, and calls the machine when the count reaches 0. It runs a loop at `code`: one
/// block of `bytes` bytes, which increments the number that `turns` reads. The core must be at the start of the loop.
pub(crate) fn self_check(
    core: &mut Core<RecordingEvents>,
    code: u64,
    bytes: u64,
    turns: impl Fn(&Handle) -> u64,
) -> Result<(), String> {
    const TURNS: u64 = 10;
    let mut line = core.line();
    let before = turns(&core.handle());
    line.set_count(-((TURNS * bytes) as i64));
    let mut events = RecordingEvents { ends_at_blocks: 1, ..RecordingEvents::default() };
    core.run(&mut events);
    let seen = (turns(&core.handle()) - before, line.start(), line.size(), line.count(), events.blocks);
    if seen != (TURNS, code, bytes, 0, 1) {
        return Err(unfit("that translated code counts"));
    }
    // Now it calls at each turn, and does not count.
    let mut events = RecordingEvents { ends_at_blocks: TURNS + 1, ..RecordingEvents::default() };
    core.run(&mut events);
    let seen = (turns(&core.handle()) - before, line.start(), line.size(), line.count(), events.blocks);
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
