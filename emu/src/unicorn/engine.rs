//! The safe interface of the CPU core: runs it, gets its callbacks, reads and writes registers. In this file an *engine*
//! is Unicorn's (`uc_engine`), not the probe engine.
//!
//! Each kind of callback gets its own context type, because each allows different operations (docs/unicorn.md, "who may
//! write the pc"): a forbidden operation does not compile.

mod callbacks;
mod contexts;
mod handle;

pub(super) use callbacks::{whom, whom_while_running};
pub use contexts::{BlockContext, InstructionContext, SyscallContext, TrapContext};
pub(super) use handle::Engine;
pub use handle::Handle;

use super::cpu_location::{self, TlbEntry, Translations};
use super::ffi::write_request;
use super::kinds::CoreKind;
use super::line::{self, Line};
use super::own::{OwnCore, OwnHost, Tells};
use super::ram::Ram;
#[cfg(test)]
pub(crate) use super::stores::By;
use super::stores::{self, Stores};
use super::watched::{Access, Watched, WatchedRange};
use callbacks::{
    Points, always_wants, answers, block, breaks_at, each_access, fetch_refused, high_read, high_write, hole_read, hole_write,
    interrupt, invalid, is_window, low_read, low_write, no_memory, pauses, points, register_in, register_out, user_hit,
    watches_own,
};
use core::cell::{Cell, OnceCell};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null, null_mut};
use unicorn_engine_sys::{self as sys, ControlType, uc_engine, uc_error};

/// The callbacks of the CPU core. They run on the thread that runs the core, one at a time.
pub trait Events: 'static {
    /// A block of guest code is about to run. It is not yet counted in the core's [`Line`]. After a stop the same block
    /// may be reported again.
    fn block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>);
    /// Whether the block at this pc must always call [`Events::block`]; asked once, when it is translated.
    fn always_wants(&self, pc: u64) -> bool;
    /// Whether the address is in the probe window. Asked when the translator meets a jump that the probe engine could have
    /// written.
    fn is_window(&self, pc: u64) -> bool;
    /// Whether a block must end in front of this address, if [`Core::ask_for_breaks`] asked for these calls.
    fn breaks_at(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// Whether `register_in` and `register_out` may answer for this register; asked when an instruction that names it
    /// is translated.
    fn answers(&self, cpu: &Handle, register: u32) -> bool;
    /// An access to an address without RAM or device. The run has failed, and ends at the next call of
    /// [`Events::block`].
    fn no_memory(&mut self);
    /// An exception, a trap or a software interrupt, between two instructions.
    fn interrupt(&mut self, cpu: &TrapContext, vector: u32);
    /// An undefined instruction, or one that this CPU does not have.
    fn invalid_instruction(&mut self, cpu: &TrapContext);
    /// A read from an address without RAM, inside a block.
    fn memory_in(&mut self, cpu: &InstructionContext, physical: u64, size: u32) -> u64;
    /// A write to an address without RAM, inside a block.
    fn memory_out(&mut self, cpu: &InstructionContext, physical: u64, size: u32, value: u64);
    /// A port read by an instruction for ports, inside a block.
    fn port_in(&mut self, cpu: &InstructionContext, port: u64, size: u32) -> u64;
    /// A port write by an instruction for ports, inside a block.
    fn port_out(&mut self, cpu: &InstructionContext, port: u64, size: u32, value: u64);
    /// CPUID: the handler sets the registers of the result.
    fn identify(&mut self, cpu: &InstructionContext);
    /// RDTSC: the handler sets the registers of the result.
    fn read_clock(&mut self, cpu: &InstructionContext);
    /// SYSCALL, which the core leaves entirely to the handler.
    fn system_call(&mut self, cpu: &SyscallContext);
    /// A read of a CPU register, by the number that the ISA's instructions use: returns the value if the handler
    /// emulates the register.
    fn register_in(&mut self, cpu: &InstructionContext, register: u32) -> Option<u64>;
    /// A write to a CPU register: returns whether the handler emulates the register.
    fn register_out(&mut self, cpu: &InstructionContext, register: u32, value: u64) -> bool;
    /// The points in the page of RAM at this host address, which holds the code at `pc`. The slice has the number of
    /// points, then two words for each: its offset in the page, and the point's number. Asked when code of the page is
    /// translated.
    fn points(&mut self, cpu: &InstructionContext, page: u64, pc: u64) -> Option<&[u32]>;
    /// The CPU is about to run the instruction at a point.
    fn user_hit(&mut self, pc: u64, point: u32);
    /// PAUSE, YIELD or WFE: the guest waits for another CPU in a loop. The pc is behind the instruction.
    fn pauses(&mut self, cpu: &InstructionContext);
    /// An access to the watched range of this number was made, inside a block. `pc` is `None` if no translated code made
    /// it; the pc of the CPU state is valid then.
    fn accessed(&mut self, cpu: &InstructionContext, range: u32, access: &Access, pc: Option<u64>) {
        let _ = (cpu, range, access, pc);
    }
    /// The core has walked the guest's page tables itself while something is watched, and may have written to them.
    fn walked(&mut self, cpu: &InstructionContext, pc: Option<u64>) {
        let _ = (cpu, pc);
    }
    /// A load or a store that translated code is about to make, if [`Core::tell_each_access`] asked for these calls.
    fn each_access(&mut self, cpu: &InstructionContext, address: u64, size: u32, is_store: bool, pc: u64) {
        let _ = (cpu, address, size, is_store, pc);
    }
}

/// The end of a run of the core.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// [`BlockContext::stop`] or HLT ended the run.
    Stopped,
    /// The core failed, with this message of Unicorn's.
    Failed(String),
}

/// One CPU core with its memory map. `E` gets the callbacks.
pub struct Core<E: Events> {
    handle: Handle,
    callbacks: Box<Callbacks<E>>,
    engine: Box<Engine>,
    stores: *mut Stores,
    line: Line,
    /// The watched ranges. The core has a pointer to this box, so it is dropped only after the core got another one.
    watched: Option<Box<Watched>>,
    /// Memory in which translated code caches blocks (`translator/jumps.h`). `callbacks` holds its address, so it must
    /// live as long.
    _found: Box<[u64]>,
    ram: Ram,
    /// Whether the core has crashed and is never freed ([`Core::abandon`]).
    is_abandoned: bool,
    /// The core, if it is one of ours.
    own: Option<Box<dyn OwnCore>>,
    /// Whether a core of ours records the pages that it writes ([`Core::note_pages`]).
    own_notes_pages: bool,
}

/// The argument of every callback. `who` gives typed access, for callbacks that run often; `whom` gives access through
/// a trait object, for code that does not know `E`.
#[repr(C)]
struct Callbacks<E> {
    shared: Shared,
    events: *mut E,
}

/// The part of [`Callbacks`] that does not depend on `E`. The fields up to `watches_own` are `struct trapline_machine` of
/// `translator/machine.h`, in the same order.
#[repr(C)]
struct Shared {
    always_wants: extern "C" fn(*mut c_void, u64) -> bool,
    answers: extern "C" fn(*mut c_void, u32) -> bool,
    register_in: extern "C" fn(*mut c_void, u32, *mut u64) -> bool,
    register_out: extern "C" fn(*mut c_void, u32, u64) -> bool,
    pauses: extern "C" fn(*mut c_void),
    found: *mut u64,
    one_by_one: bool,
    points: Option<Points>,
    user_hit: extern "C" fn(*mut c_void, u64, u64),
    each_access: Option<extern "C" fn(*mut c_void, u64, u64, u64)>,
    is_window: extern "C" fn(*mut c_void, u64) -> bool,
    breaks_at: Option<extern "C" fn(*mut c_void, u64) -> bool>,
    watches_own: extern "C" fn(*mut c_void, bool),
    handle: Handle,
    watches: Watches,
    /// The physical address of the end of RAM, from which the upper device range starts.
    high: u64,
    /// The physical address of the devices in the middle of RAM, if there are any.
    hole: u64,
    /// The receiver of the callbacks during a run, otherwise `None`.
    events: Option<*mut dyn Events>,
}

/// The tables of watched pages that the core may have.
struct Watches {
    /// Null until the core is complete.
    stores: Cell<*mut Stores>,
    /// The table of the ranges that [`Core::watch`] has set; null without any.
    ranges: Cell<*const Watched>,
    /// The table without ranges.
    nothing: OnceCell<Box<Watched>>,
    /// Whether the guest's own debug registers watch memory.
    own: Cell<bool>,
}

impl Watches {
    /// Gives the core its table, and changes the flags of its TLB entries.
    ///
    /// # Safety
    /// The table of ranges must live until another one was shown. The handle must be that of the core.
    unsafe fn show(&self, handle: &Handle) {
        let table = match (self.ranges.get().is_null(), self.own.get()) {
            (true, true) => self.nothing.get().map_or(null(), |nothing| core::ptr::from_ref(&**nothing)),
            _ => self.ranges.get(),
        };
        if !self.stores.get().is_null() {
            // SAFETY: as for the caller. Nothing else uses the stores or the TLB during this call.
            unsafe {
                (*self.stores.get()).set_watched(table);
                (handle.kind().library.layout.watch)(handle.cpu(), table);
            }
        }
    }
}

impl<E: Events> Core<E> {
    /// Makes a core of this kind on this RAM.
    pub fn new(kind: &'static CoreKind, ram: &Ram) -> Result<Core<E>, String> {
        if let Some(make) = kind.own {
            return Core::of_ours(kind, ram, make(ram));
        }
        let library = kind.library;
        let mut uc = null_mut();
        // SAFETY: plain calls of Unicorn, every result checked; `ram` is kept beside the engine and outlives it.
        unsafe {
            check("open", sys::uc_open(library.arch, library.mode, &raw mut uc))?;
            let mut core = Core::wrap(
                Engine {
                    uc,
                    kind,
                    state: null_mut(),
                    state_bytes: 0,
                    general: null(),
                    general_count: 0,
                    general_bytes: 0,
                    pc: null_mut(),
                    next_pc: null_mut(),
                    translations: null(),
                    shape: TlbEntry::of(&library.stores),
                    cpu: null_mut(),
                    stop: null_mut(),
                    own_bytes: 0,
                },
                ram,
            );
            if let Some(model) = kind.model {
                check("model", sys::uc_ctl(uc, write_request(ControlType::CPU_MODEL, 1), model))?;
            }
            if library.has_choice_of_pages {
                // Unicorn's own choice may be smaller: more TLB entries, and blocks of code that end at each page.
                check("page size", sys::uc_ctl(uc, write_request(ControlType::UC_PAGE_SIZE, 1), 1u32 << stores::PAGE_BITS))?;
            }
            check("exits", sys::uc_ctl(uc, write_request(ControlType::UC_USE_EXITS, 1), 1 as c_int))?;
            for piece in ram.pieces() {
                let start = ram.pointer(piece.start, 0).ok_or("no memory")?;
                check("map", sys::uc_mem_map_ptr(uc, piece.start, piece.end - piece.start, ALL_ACCESS, start.cast()))?;
            }
            (library.layout.make_ready)(uc.cast());
            core.map_devices(0, ram.base())?;
            core.map_devices(core.callbacks.shared.hole, ram.pieces().nth(1).map_or(0, |second| second.start))?;
            core.map_devices(ram.end(), 1 << kind.physical_bits)?;
            core.hook(sys::HookType::BLOCK, block::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::INTR, interrupt::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::INSN_INVALID, invalid::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::MEM_FETCH_PROT, fetch_refused as *mut c_void, 0)?;
            core.hook(sys::HookType::MEM_UNMAPPED, no_memory as *mut c_void, 0)?;
            for (instruction, callback) in (library.instructions)() {
                core.hook(sys::HookType::INSN, callback, instruction)?;
            }
            let cpu = cpu_location::find(core.handle)?;
            (core.engine.state, core.engine.state_bytes) = (cpu.state as *mut u8, cpu.state_bytes);
            let ((start, count), bytes) = (kind.live_general, library.stores.address_bytes);
            // Each register is read with 8 bytes, so 8 bytes must be readable behind the last one.
            let general = core.handle.live(start, bytes * usize::from(count) + 8).ok_or("a CPU core without registers")?;
            (core.engine.general, core.engine.general_count, core.engine.general_bytes) = (general, count, bytes as u8);
            core.engine.pc = core.handle.live(kind.live_pc, bytes).ok_or("a CPU core without a pc")?;
            if kind.has_next_pc {
                core.engine.next_pc = core.handle.live(kind.live_pc + bytes, bytes).ok_or("a CPU core without its other pc")?;
            }
            core.engine.translations = Translations::before(cpu.state, library.live_translations)?;
            let (cpu_itself, line) = line::find(core.handle, &cpu)?;
            (core.engine.cpu, core.line) = (cpu_itself, line);
            core.handle = Handle { engine: NonNull::from(&*core.engine) };
            core.callbacks.shared.handle = core.handle;
            core.stores = stores::watch(core.handle, ram, &cpu)?;
            let callbacks = (&raw mut *core.callbacks).cast();
            let watches = &core.callbacks.shared.watches;
            watches.stores.set(core.stores);
            watches.nothing.get_or_init(|| Watched::nothing(callbacks));
            Ok(core)
        }
    }

    /// Wraps a core of ours (`core/`) in place of one of Unicorn's.
    fn of_ours(kind: &'static CoreKind, ram: &Ram, own: Box<dyn OwnCore>) -> Result<Core<E>, String> {
        let (state, state_bytes, own_bytes) = own.state();
        let bytes = kind.library.stores.address_bytes;
        let (start, count) = kind.live_general;
        let fits = start + bytes * usize::from(count) + 8 <= state_bytes && kind.live_pc + bytes + 8 <= state_bytes;
        if !fits || own_bytes > state_bytes {
            return Err("a CPU core without registers".into());
        }
        // SAFETY: the offsets were checked.
        let (general, pc, next_pc) = unsafe { (state.add(start), state.add(kind.live_pc), state.add(kind.live_pc + bytes)) };
        let engine = Engine {
            uc: null_mut(),
            kind,
            state,
            state_bytes,
            general,
            general_count: count,
            general_bytes: bytes as u8,
            pc,
            next_pc: if kind.has_next_pc { next_pc } else { null_mut() },
            translations: null(),
            shape: TlbEntry::of(&kind.library.stores),
            cpu: state.cast(),
            stop: own.stop(),
            own_bytes,
        };
        let mut core = Core::wrap(engine, ram);
        core.line = Line::of_own(own.line());
        ram.join_own();
        core.own = Some(own);
        Ok(core)
    }

    /// Maps a range of physical addresses to the callbacks for devices, which get the offset from the start.
    fn map_devices(&self, start: u64, end: u64) -> Result<(), String> {
        if start >= end {
            return Ok(());
        }
        let (read, write) = match start {
            0 => (low_read as MemoryRead, low_write as MemoryWrite),
            _ if start == self.callbacks.shared.hole => (hole_read as MemoryRead, hole_write as MemoryWrite),
            _ => (high_read as MemoryRead, high_write as MemoryWrite),
        };
        let user = (&raw const *self.callbacks).cast_mut().cast();
        // SAFETY: the callbacks have the signatures of this call; `user` is in a box that is dropped after the engine
        // is closed.
        let answer = unsafe { sys::uc_mmio_map(self.handle.raw(), start, end - start, Some(read), user, Some(write), user) };
        check("bus", answer)
    }

    /// Makes a core around this engine. The caller sets the fields that must first be found in the running engine.
    fn wrap(engine: Engine, ram: &Ram) -> Core<E> {
        let engine = Box::new(engine);
        let handle = Handle { engine: NonNull::from(&*engine) };
        let mut found = vec![0; handle.kind().library.layout.found_bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        let shared = Shared {
            always_wants,
            answers,
            register_in,
            register_out,
            pauses,
            found: found.as_mut_ptr(),
            one_by_one: false,
            points: None,
            user_hit,
            each_access: None,
            is_window,
            breaks_at: None,
            watches_own,
            handle,
            watches: Watches {
                stores: Cell::new(null_mut()),
                ranges: Cell::new(null()),
                nothing: OnceCell::new(),
                own: Cell::new(false),
            },
            high: ram.end(),
            hole: ram.pieces().next().map_or(0, |first| first.end),
            events: None,
        };
        let callbacks = Box::new(Callbacks { shared, events: null_mut() });
        Core {
            handle,
            callbacks,
            engine,
            stores: null_mut(),
            line: Line::nowhere(),
            watched: None,
            _found: found,
            ram: ram.clone(),
            is_abandoned: false,
            own: None,
            own_notes_pages: false,
        }
    }

    /// # Safety
    /// `callback` must have the signature that this kind of hook calls.
    unsafe fn hook(&self, kind: sys::HookType, callback: *mut c_void, instruction: c_int) -> Result<(), String> {
        let user = (&raw const *self.callbacks).cast_mut().cast();
        let mut hook = 0;
        // SAFETY: begin > end means everywhere; `user` is in a box that is dropped after the engine is closed.
        let answer =
            unsafe { sys::uc_hook_add(self.handle.raw(), &raw mut hook, kind.0 as c_int, callback, user, 1, 0, instruction) };
        check("hook", answer)
    }

    /// Runs from the current pc until stopped.
    pub fn run(&mut self, events: &mut E) -> Ended {
        if let Some(own) = &mut self.own {
            let tells = Tells {
                watched: self.watched.as_deref(),
                each: self.callbacks.shared.each_access.is_some(),
                notes_pages: self.own_notes_pages,
            };
            let (handle, ram) = (self.handle, &self.ram);
            match tells.any() {
                true => own.run_telling(&mut OwnHost { handle, ram, events, tells }),
                false => own.run(&mut OwnHost { handle, ram, events, tells }),
            }
            return Ended::Stopped;
        }
        let events: *mut E = events;
        self.callbacks.events = events;
        self.callbacks.shared.events = Some(events);
        let kind = self.handle.kind();
        let pc = (kind.encode_pc)(&self.handle, self.handle.pc());
        // SAFETY: the callbacks access `events` only during this call, while this function does not.
        let answer = unsafe { sys::uc_emu_start(self.handle.raw(), pc, 0, 0, 0) };
        (self.callbacks.events, self.callbacks.shared.events) = (null_mut(), None);
        match answer {
            uc_error::OK => Ended::Stopped,
            other => Ended::Failed(other.to_string()),
        }
    }

    /// Gives up a core that has crashed. Its memory is never freed, because its own lists may be corrupt.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        if !self.stores.is_null() {
            stores::leave(self.stores);
        }
    }

    /// Read access, between runs.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The words in which translated code counts time. With their initial values every block calls [`Events::block`].
    pub fn line(&self) -> Line {
        self.line
    }

    /// Write access, between runs; the same as in an exception's callback.
    pub fn stopped(&self) -> TrapContext {
        TrapContext(self.handle)
    }

    /// Drops all translated code; needed after guest memory was replaced from outside.
    pub fn flush_translations(&mut self) {
        if let Some(own) = &mut self.own {
            return own.drop_all();
        }
        // SAFETY: plain call without arguments; no translated code runs between runs.
        unsafe { sys::uc_ctl(self.handle.raw(), write_request(ControlType::TB_FLUSH, 0)) };
    }

    /// Sets whether every instruction is translated as a block of its own, and drops all translated code.
    pub fn set_one_by_one(&mut self, one_by_one: bool) {
        if let Some(own) = &mut self.own {
            return own.set_one_by_one(one_by_one);
        }
        self.callbacks.shared.one_by_one = one_by_one;
        self.flush_translations();
    }

    /// Sets whether [`Events::points`] is called when code is translated, and drops all translated code.
    pub fn ask_for_points(&mut self, asks: bool) {
        self.callbacks.shared.points = asks.then_some(points as Points);
        self.flush_translations();
    }

    /// Watches these ranges, and no others from now on. No TLB entry is flushed, so the guest cannot notice.
    pub fn watch(&mut self, ranges: &[WatchedRange]) {
        let callbacks = (&raw mut *self.callbacks).cast();
        let watched = Watched::of(ranges, callbacks);
        if self.own.is_some() {
            self.watched = watched;
            return;
        }
        let table = watched.as_ref().map_or(null(), |watched| core::ptr::from_ref(&**watched));
        let watches = &self.callbacks.shared.watches;
        watches.ranges.set(table);
        // SAFETY: between runs. The core gets the new table before the old one is freed; it changes the flags of its TLB
        // entries only.
        unsafe { watches.show(&self.handle) };
        self.watched = watched;
    }

    /// Sets whether translated code calls [`Events::each_access`] in front of every load and store, and drops all
    /// translated code.
    pub fn tell_each_access(&mut self, tell: bool) {
        self.callbacks.shared.each_access = tell.then_some(each_access);
        self.flush_translations();
    }

    /// Starts or ends recording which pages of RAM are written, by the guest or by the machine. Flushes the TLB.
    pub fn note_pages(&mut self, on: bool) {
        if self.own.is_some() {
            self.own_notes_pages = on;
            return self.ram.note_pages(on);
        }
        // SAFETY: between runs, while the engine exists; `stores` is not used by anybody else now.
        unsafe { (*self.stores).note_pages(on) };
        self.flush_tlb();
    }

    /// Takes the numbers of the pages that were written since the recording was started, or since the last call. Flushes
    /// the TLB.
    pub fn take_noted_pages(&mut self) -> Vec<u32> {
        let pages = self.ram.take_noted();
        self.flush_tlb();
        pages
    }

    /// Makes the first block of the next run one instruction long. Translated blocks are kept.
    pub fn begin_alone(&mut self) {
        if let Some(own) = &mut self.own {
            return own.begin_alone();
        }
        // SAFETY: between runs, while the engine exists.
        unsafe { (self.handle.kind().library.layout.next_alone)(self.engine.cpu) };
    }

    /// Sets whether [`Events::breaks_at`] is called when code is translated. Keeps translated code: the caller must drop the
    /// blocks that would change.
    pub fn ask_for_breaks(&mut self, asks: bool) {
        self.callbacks.shared.breaks_at = asks.then_some(breaks_at);
    }

    /// The number of RAM pages that have translated code.
    pub(super) fn pages_with_code(&self) -> usize {
        if let Some(own) = &self.own {
            return own.pages_with_code();
        }
        // SAFETY: called between runs, while the engine exists.
        unsafe { (*self.stores).pages_with_code(self.engine.cpu) }
    }

    /// Tells the core that it has the state of another CPU of the machine now.
    pub fn switched(&self) {
        if let Some(own) = &self.own {
            own.switched();
        }
        self.flush_tlb();
    }

    /// Flushes the core's TLB; needed after page tables were changed from outside.
    pub fn flush_tlb(&self) {
        if self.own.is_some() {
            // A core of ours drops its cached translations at the start of each run.
            return;
        }
        // SAFETY: plain call without arguments.
        unsafe { sys::uc_ctl(self.handle.raw(), write_request(ControlType::TLB_FLUSH, 0)) };
    }
}

#[cfg(test)]
impl<E: Events> Core<E> {
    /// Whether the core's TLB has an entry for this address with which stores take the fast path.
    pub(crate) fn stores_quickly(&self, address: u64) -> bool {
        // SAFETY: called between runs, while the engine exists.
        unsafe { (*self.stores).quick(address) }
    }

    /// See [`Stores::fill_by`].
    pub(crate) fn fill_by(&self, by: By, address: u64, access: i32, mode: i32) -> Option<[u64; 13]> {
        // SAFETY: as in `stores_quickly`; the core has as many modes as its layout says.
        unsafe { (*self.stores).fill_by(self.engine.cpu, by, address, access, mode) }
    }
}

impl<E: Events> Drop for Core<E> {
    fn drop(&mut self) {
        if self.is_abandoned || self.own.is_some() {
            return;
        }
        if !self.stores.is_null() {
            stores::leave(self.stores);
        }
        // SAFETY: opened in `new`, closed once; the RAM and the callbacks are dropped after this.
        unsafe { sys::uc_close(self.handle.raw()) };
        if !self.stores.is_null() {
            stores::forget(self.stores);
        }
    }
}

const ALL_ACCESS: u32 = 7;

type MemoryRead = unsafe extern "C" fn(*mut uc_engine, u64, u32, *mut c_void) -> u64;
type MemoryWrite = unsafe extern "C" fn(*mut uc_engine, u64, u32, u64, *mut c_void);

fn check(what: &str, answer: uc_error) -> Result<(), String> {
    if answer == uc_error::OK { Ok(()) } else { Err(format!("the CPU core refused ({what}): {answer}")) }
}
