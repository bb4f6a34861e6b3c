//! The safe face of the CPU core: run, be called back, read and write registers.
//!
//! Each kind of callback gets its own context type, because each allows different things (docs/unicorn.md, "who may
//! write the pc"): the wrong call does not compile.

mod contexts;

pub use contexts::{BlockContext, InstructionContext, SyscallContext, TrapContext};

use super::ffi::write_request;
use super::kinds::{CoreKind, Register};
use super::line::{self, Line};
use super::live::{self, TlbEntry, Translations};
use super::ram::Ram;
#[cfg(test)]
pub(crate) use super::stores::By;
use super::stores::{self, Stores};
use core::ffi::{c_int, c_void};
use core::ptr::{NonNull, null, null_mut};
use unicorn_engine_sys::{self as sys, ControlType, uc_engine, uc_error};

/// What the CPU core reports. All calls come from the thread that runs it, one at a time.
pub trait Events: 'static {
    /// A block of guest code is about to run, and has not counted itself in the core's [`Line`]. It may be offered
    /// again after a stop.
    fn block(&mut self, pc: u64, size: u32, cpu: BlockContext<'_>);
    /// Whether the block that starts there is always to call: asked when it is translated, and not again.
    fn always_wants(&self, pc: u64) -> bool;
    /// Whether `register_in` and `register_out` may have to do with this register: asked when an instruction that names
    /// it is translated.
    fn answers(&self, cpu: &Handle, register: u32) -> bool;
    /// An access where there is neither RAM nor a device: the run has failed and ends at the next block that calls.
    fn no_memory(&mut self);
    /// An exception, a trap or a software interrupt, between two instructions.
    fn interrupt(&mut self, cpu: &TrapContext, vector: u32);
    /// Bytes that are no instruction, or one that this CPU has not.
    fn invalid_instruction(&mut self, cpu: &TrapContext);
    /// A read where there is no RAM, inside a block.
    fn memory_in(&mut self, cpu: &InstructionContext, physical: u64, size: u32) -> u64;
    /// A write where there is no RAM, inside a block.
    fn memory_out(&mut self, cpu: &InstructionContext, physical: u64, size: u32, value: u64);
    /// A read of a port by an instruction for that, inside a block.
    fn port_in(&mut self, cpu: &InstructionContext, port: u64, size: u32) -> u64;
    /// A write to a port by an instruction for that, inside a block.
    fn port_out(&mut self, cpu: &InstructionContext, port: u64, size: u32, value: u64);
    /// An instruction asks which CPU this is (CPUID): the handler fills the registers of the answer.
    fn identify(&mut self, cpu: &InstructionContext);
    /// An instruction reads the clock (RDTSC): the handler fills the registers of the answer.
    fn read_clock(&mut self, cpu: &InstructionContext);
    /// A system call that the core leaves entirely to us (SYSCALL).
    fn system_call(&mut self, cpu: &SyscallContext);
    /// A read of one of the CPU's registers, by the number that the ISA's instructions have for it: the value, if it is
    /// ours to give.
    fn register_in(&mut self, cpu: &InstructionContext, register: u32) -> Option<u64>;
    /// A write to one: whether it was ours to take.
    fn register_out(&mut self, cpu: &InstructionContext, register: u32, value: u64) -> bool;
}

/// A running engine as everyone may read it. Copying it is free; it lives as long as its [`Core`].
#[derive(Clone, Copy)]
pub struct Handle {
    engine: NonNull<Engine>,
}

/// What a handle leads to.
pub(super) struct Engine {
    uc: *mut uc_engine,
    kind: &'static CoreKind,
    /// The core's own state, and how much of it may be touched; nothing of one that is not laid out as an image.
    state: *mut u8,
    state_bytes: usize,
    /// The general registers in it, each of so many bytes.
    general: *const u8,
    general_count: u8,
    general_bytes: u8,
    /// The pc in it, of as many bytes.
    pc: *mut u8,
    /// Behind it, where there is such a word, the address of what runs next but one.
    next_pc: *mut u8,
    /// The core's cache of translations for its kernel's accesses, where it is known.
    translations: *const Translations,
    shape: TlbEntry,
    cpu: *mut c_void,
}

impl Handle {
    #[inline]
    fn engine(&self) -> &Engine {
        // SAFETY: the core that gave this handle has it in a box, and outlives every context that holds a handle.
        unsafe { self.engine.as_ref() }
    }

    #[inline]
    pub(super) fn kind(&self) -> &'static CoreKind {
        self.engine().kind
    }

    /// The 8 bytes of the state at this offset of an image; 0 beyond the end. Right between instructions and in every
    /// callback, for fields that the core does not keep elsewhere while it runs (the arithmetic flags).
    #[inline]
    pub fn live64(&self, offset: usize) -> u64 {
        // SAFETY: `live` has checked the bounds, and nothing else runs.
        self.live(offset, 8).map_or(0, |at| unsafe { at.cast::<u64>().read_unaligned() })
    }

    /// As many words of 8 bytes, one behind the other; 0 beyond the end.
    #[inline]
    pub fn live_words<const COUNT: usize>(&self, offset: usize) -> [u64; COUNT] {
        // SAFETY: as in `live64`.
        self.live(offset, 8 * COUNT).map_or([0; COUNT], |at| unsafe { at.cast::<[u64; COUNT]>().read_unaligned() })
    }

    /// The 4 bytes there.
    #[inline]
    pub fn live32(&self, offset: usize) -> u32 {
        // SAFETY: as in `live64`.
        self.live(offset, 4).map_or(0, |at| unsafe { at.cast::<u32>().read_unaligned() })
    }

    /// The physical address of a word of 4 or 8 bytes, if the core has just accessed its page so, with the rights of a
    /// kernel.
    #[inline(always)]
    pub fn cached_physical(&self, ram: &Ram, address: u64, size: usize, write: bool) -> Option<u64> {
        let engine = self.engine();
        let at = NonNull::new(engine.translations.cast_mut())?;
        // SAFETY: set in `Core::new` alone, as `find` wants it.
        let host = unsafe { at.as_ref().find(&engine.shape, address, size as u64, write) };
        host.and_then(|host| ram.physical_of(host))
    }

    /// A general register by its number in `isa`, in the lowest bits: where registers are of 4 bytes, those above are
    /// another one's.
    #[inline]
    pub fn general(&self, number: u8) -> Option<u64> {
        let engine = self.engine();
        let at = usize::from(number) * usize::from(engine.general_bytes);
        // SAFETY: so many words lie there, as `Core::new` has found, and more of the state behind them.
        (number < engine.general_count).then(|| unsafe { engine.general.add(at).cast::<u64>().read_unaligned() })
    }

    #[inline]
    fn live(&self, offset: usize, len: usize) -> Option<*mut u8> {
        let engine = self.engine();
        // SAFETY: the state is `state_bytes` long.
        (offset.wrapping_add(len) <= engine.state_bytes).then(|| unsafe { engine.state.add(offset) })
    }

    /// A register's value, zero-extended.
    pub fn read(&self, register: impl Into<Register>) -> u64 {
        let mut value = 0u64;
        // SAFETY: no register that is read here is wider than 8 bytes; the engine outlives every context that holds a
        // handle.
        unsafe { sys::uc_reg_read(self.raw(), register.into().0, (&raw mut value).cast()) };
        value
    }

    /// The pc.
    #[inline]
    pub fn pc(&self) -> u64 {
        let engine = self.engine();
        // SAFETY: a word as wide as a register lies there, as `Core::new` has found.
        unsafe {
            match engine.general_bytes {
                4 => engine.pc.cast::<u32>().read_unaligned().into(),
                _ => engine.pc.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Whether a block at that pc is no delay slot: a run that ends in front of one cannot go on.
    #[inline]
    pub fn goes_straight_on(&self, pc: u64) -> bool {
        let engine = self.engine();
        // SAFETY: such a word lies there, as `Core::new` has found.
        engine.next_pc.is_null() || unsafe { engine.next_pc.cast::<u64>().read_unaligned() } == pc.wrapping_add(4)
    }

    /// Sets a register other than the pc.
    fn write(&self, register: Register, value: u64) {
        debug_assert!(register != (self.kind().pc)(), "the pc has its own ways");
        // SAFETY: as in `read`.
        unsafe { sys::uc_reg_write(self.raw(), register.0, (&raw const value).cast()) };
    }

    #[inline]
    pub(super) fn raw(&self) -> *mut uc_engine {
        self.engine().uc
    }

    /// The core's own CPU; null until it has been found.
    #[inline]
    pub(super) fn cpu(&self) -> *mut c_void {
        self.engine().cpu
    }
}

/// How a run of the core ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// By [`BlockContext::stop`] or by HLT.
    Stopped,
    /// The core gave up, in its own words.
    Failed(String),
}

/// One CPU core with its memory map. `E` is who is called back.
pub struct Core<E: Events> {
    handle: Handle,
    callbacks: Box<Callbacks<E>>,
    engine: Box<Engine>,
    stores: *mut Stores,
    line: Line,
    /// Translated code's own; `callbacks` says where it is.
    _found: Box<[u64]>,
    _ram: Ram,
    is_abandoned: bool,
}

/// What a callback is given, of whichever kind it is: where time counts, by `who`; otherwise by `whom`, which need not
/// know `E`.
#[repr(C)]
struct Callbacks<E> {
    shared: Shared,
    events: *mut E,
}

#[repr(C)]
struct Shared {
    /// `struct trapline_machine` of `translator/loop.c`.
    always_wants: extern "C" fn(*mut c_void, u64) -> bool,
    answers: extern "C" fn(*mut c_void, u32) -> bool,
    register_in: extern "C" fn(*mut c_void, u32, *mut u64) -> bool,
    register_out: extern "C" fn(*mut c_void, u32, u64) -> bool,
    found: *mut u64,
    handle: Handle,
    /// The physical address behind RAM.
    high: u64,
    events: Option<*mut dyn Events>,
}

impl<E: Events> Core<E> {
    /// A core of this kind over this RAM.
    pub fn new(kind: &'static CoreKind, ram: &Ram) -> Result<Core<E>, String> {
        let library = kind.library;
        let mut uc = null_mut();
        // SAFETY: plain calls of the library; every result is checked; `ram` is kept beside the engine and outlives it.
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
                },
                ram,
            );
            if let Some(model) = kind.model {
                check("model", sys::uc_ctl(uc, write_request(ControlType::CPU_MODEL, 1), model))?;
            }
            if library.has_choice_of_pages {
                // Its own choice may be smaller: more translations of addresses, and blocks of code that end there.
                check("page size", sys::uc_ctl(uc, write_request(ControlType::UC_PAGE_SIZE, 1), 1u32 << stores::PAGE_BITS))?;
            }
            check("exits", sys::uc_ctl(uc, write_request(ControlType::UC_USE_EXITS, 1), 1 as c_int))?;
            let start = ram.pointer(ram.base(), 0).ok_or("no memory")?;
            check("map", sys::uc_mem_map_ptr(uc, ram.base(), ram.len(), ALL_ACCESS, start.cast()))?;
            (library.layout.make_ready)(uc.cast());
            core.map_devices(0, ram.base())?;
            core.map_devices(ram.end(), 1 << kind.physical_bits)?;
            core.hook(sys::HookType::BLOCK, block::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::INTR, interrupt::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::INSN_INVALID, invalid::<E> as *mut c_void, 0)?;
            core.hook(sys::HookType::MEM_FETCH_PROT, fetch_refused as *mut c_void, 0)?;
            core.hook(sys::HookType::MEM_UNMAPPED, no_memory as *mut c_void, 0)?;
            for (instruction, callback) in (library.instructions)() {
                core.hook(sys::HookType::INSN, callback, instruction)?;
            }
            let cpu = live::find(core.handle)?;
            (core.engine.state, core.engine.state_bytes) = (cpu.state as *mut u8, cpu.state_bytes);
            let ((start, count), bytes) = (kind.live_general, library.stores.address_bytes);
            // The last one is read by 8 bytes, too.
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
            Ok(core)
        }
    }

    /// What is between these physical addresses is answered by callbacks, which are told the offset from the start.
    fn map_devices(&self, start: u64, end: u64) -> Result<(), String> {
        if start >= end {
            return Ok(());
        }
        let (read, write) = match start {
            0 => (low_read as MemoryRead, low_write as MemoryWrite),
            _ => (high_read as MemoryRead, high_write as MemoryWrite),
        };
        let user = (&raw const *self.callbacks).cast_mut().cast();
        // SAFETY: the callbacks have the signatures of this call; `user` lives in a box that is dropped after the
        // engine is closed.
        let answer = unsafe { sys::uc_mmio_map(self.handle.raw(), start, end - start, Some(read), user, Some(write), user) };
        check("bus", answer)
    }

    fn wrap(engine: Engine, ram: &Ram) -> Core<E> {
        let engine = Box::new(engine);
        let handle = Handle { engine: NonNull::from(&*engine) };
        let mut found = vec![0; handle.kind().library.layout.found_bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        let shared = Shared {
            always_wants,
            answers,
            register_in,
            register_out,
            found: found.as_mut_ptr(),
            handle,
            high: ram.end(),
            events: None,
        };
        let callbacks = Box::new(Callbacks { shared, events: null_mut() });
        Core {
            handle,
            callbacks,
            engine,
            stores: null_mut(),
            line: Line::nowhere(),
            _found: found,
            _ram: ram.clone(),
            is_abandoned: false,
        }
    }

    /// # Safety
    /// `callback` must have the signature that this kind of hook calls.
    unsafe fn hook(&self, kind: sys::HookType, callback: *mut c_void, instruction: c_int) -> Result<(), String> {
        let user = (&raw const *self.callbacks).cast_mut().cast();
        let mut hook = 0;
        // SAFETY: begin > end means everywhere; `user` lives in a box that is dropped after the engine is closed.
        let answer =
            unsafe { sys::uc_hook_add(self.handle.raw(), &raw mut hook, kind.0 as c_int, callback, user, 1, 0, instruction) };
        check("hook", answer)
    }

    /// Runs from the present pc until stopped.
    pub fn run(&mut self, events: &mut E) -> Ended {
        let events: *mut E = events;
        self.callbacks.events = events;
        self.callbacks.shared.events = Some(events);
        let kind = self.handle.kind();
        let pc = (kind.encode_pc)(&self.handle, self.handle.pc());
        // SAFETY: the callbacks reach `events` only during this call, while this function does not touch it.
        let answer = unsafe { sys::uc_emu_start(self.handle.raw(), pc, 0, 0, 0) };
        (self.callbacks.events, self.callbacks.shared.events) = (null_mut(), None);
        match answer {
            uc_error::OK => Ended::Stopped,
            other => Ended::Failed(other.to_string()),
        }
    }

    /// Gives up a core that has crashed. Its memory is never freed, because its own lists may be damaged.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Reading, between runs.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// The words in which its code counts time. Until somebody changes them every block calls.
    pub fn line(&self) -> Line {
        self.line
    }

    /// Writing, between runs: as in an exception's callback.
    pub fn stopped(&self) -> TrapContext {
        TrapContext(self.handle)
    }

    /// Forgets all translated code: after memory was exchanged from here.
    pub fn flush_translations(&self) {
        // SAFETY: plain call, no arguments; no translated code is running between runs.
        unsafe { sys::uc_ctl(self.handle.raw(), write_request(ControlType::TB_FLUSH, 0)) };
    }

    /// Pages of RAM in which translated code lies.
    pub(super) fn pages_with_code(&self) -> usize {
        // SAFETY: between runs, and as long as the engine lives.
        unsafe { (*self.stores).pages_with_code(self.engine.cpu) }
    }

    /// Forgets cached address translations: after page tables were written or exchanged from here.
    pub fn flush_tlb(&self) {
        // SAFETY: plain call, no arguments.
        unsafe { sys::uc_ctl(self.handle.raw(), write_request(ControlType::TLB_FLUSH, 0)) };
    }
}

#[cfg(test)]
impl<E: Events> Core<E> {
    /// Whether the core has a translation of this address by which stores go the quick way.
    pub(super) fn stores_quickly(&self, address: u64) -> bool {
        // SAFETY: between runs, and as long as the engine lives.
        unsafe { (*self.stores).quick(address) }
    }

    /// See [`Stores::fill_by`].
    pub(crate) fn fill_by(&self, by: By, address: u64, access: i32, mode: i32) -> Option<[u64; 13]> {
        // SAFETY: as in `stores_quickly`; the core has the modes that its layout counts.
        unsafe { (*self.stores).fill_by(self.engine.cpu, by, address, access, mode) }
    }
}

impl<E: Events> Drop for Core<E> {
    fn drop(&mut self) {
        if self.is_abandoned {
            return;
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

/// # Safety
/// `user` is the pointer given in `hook`, and a run is on.
unsafe fn who<'a, E>(user: *mut c_void) -> (&'a Handle, &'a mut E) {
    // SAFETY: the box is alive as long as the engine; `events` was set by `run`, whose caller lent it for just this
    // time, and callbacks do not nest.
    unsafe {
        let callbacks = &*user.cast::<Callbacks<E>>();
        (&callbacks.shared.handle, &mut *callbacks.events)
    }
}

/// The same for who need not know `E`: callbacks of single instructions and of devices.
///
/// # Safety
/// As for `who`.
pub(super) unsafe fn whom<'a>(user: *mut c_void) -> (Handle, &'a mut dyn Events) {
    // SAFETY: as in `who`; what is shared comes first in `Callbacks`, whatever `E` is.
    unsafe {
        let shared = &*user.cast::<Shared>();
        match shared.events {
            Some(events) => (shared.handle, &mut *events),
            // Outside of a run the library calls nobody.
            None => std::process::abort(),
        }
    }
}

// The callbacks below have the signatures that unicorn.h gives for their kinds of hook. None unwinds; `block` is not
// made to abort if it did, which would cost every block of the guest's a stack frame: translated code cannot be
// unwound, so a panic ends the program there, too.

extern "C-unwind" fn block<E: Events>(_: *mut uc_engine, pc: u64, size: u32, user: *mut c_void) {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.block(pc, size, BlockContext(handle));
}

extern "C" fn always_wants(user: *mut c_void, pc: u64) -> bool {
    // SAFETY: see `whom`: code is translated in runs only.
    let (_, events) = unsafe { whom(user) };
    events.always_wants(pc)
}

extern "C" fn answers(user: *mut c_void, register: u32) -> bool {
    // SAFETY: as in `always_wants`.
    let (handle, events) = unsafe { whom(user) };
    events.answers(&handle, register)
}

/// By an instruction that `loop.c` has made to ask; the value goes where it says.
extern "C" fn register_in(user: *mut c_void, register: u32, value: *mut u64) -> bool {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    let answer = events.register_in(&InstructionContext(handle), register);
    if let Some(answer) = answer {
        // SAFETY: a variable of the caller's.
        unsafe { value.write(answer) };
    }
    answer.is_some()
}

extern "C" fn register_out(user: *mut c_void, register: u32, value: u64) -> bool {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.register_out(&InstructionContext(handle), register, value)
}

extern "C" fn no_memory(_: *mut uc_engine, _: c_int, _: u64, _: c_int, _: i64, user: *mut c_void) -> bool {
    // SAFETY: see `whom`.
    let (_, events) = unsafe { whom(user) };
    events.no_memory();
    false
}

extern "C" fn interrupt<E: Events>(_: *mut uc_engine, vector: u32, user: *mut c_void) {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.interrupt(&TrapContext(*handle), vector);
}

extern "C" fn invalid<E: Events>(_: *mut uc_engine, user: *mut c_void) -> bool {
    // SAFETY: see `who`.
    let (handle, events) = unsafe { who::<E>(user) };
    events.invalid_instruction(&TrapContext(*handle));
    true
}

/// Fetching from a device: the run fails, as it does without this callback. That there is one spares the core a look
/// through all its translations of addresses for each block that it translates, which `stores` has made needless
/// (docs/unicorn.md).
extern "C" fn fetch_refused(_: *mut uc_engine, _: c_int, _: u64, _: c_int, _: i64, _: *mut c_void) -> bool {
    false
}

/// What a device is given or gives, of so many bytes: where the guest's order of bytes is not that of the library, it
/// has turned them round.
fn in_order(handle: Handle, value: u64, size: u32) -> u64 {
    match handle.kind().turned_round {
        true => value.swap_bytes() >> (64 - 8 * size.clamp(1, 8)),
        false => value,
    }
}

extern "C" fn low_read(_: *mut uc_engine, offset: u64, size: u32, user: *mut c_void) -> u64 {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    in_order(handle, events.memory_in(&InstructionContext(handle), offset, size), size)
}

extern "C" fn low_write(_: *mut uc_engine, offset: u64, size: u32, value: u64, user: *mut c_void) {
    // SAFETY: see `whom`.
    let (handle, events) = unsafe { whom(user) };
    events.memory_out(&InstructionContext(handle), offset, size, in_order(handle, value, size));
}

extern "C" fn high_read(_: *mut uc_engine, offset: u64, size: u32, user: *mut c_void) -> u64 {
    // SAFETY: see `whom`.
    let ((handle, events), high) = unsafe { (whom(user), (*user.cast::<Shared>()).high) };
    in_order(handle, events.memory_in(&InstructionContext(handle), high + offset, size), size)
}

extern "C" fn high_write(_: *mut uc_engine, offset: u64, size: u32, value: u64, user: *mut c_void) {
    // SAFETY: see `whom`.
    let ((handle, events), high) = unsafe { (whom(user), (*user.cast::<Shared>()).high) };
    events.memory_out(&InstructionContext(handle), high + offset, size, in_order(handle, value, size));
}
