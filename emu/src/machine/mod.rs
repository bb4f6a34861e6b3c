//! The machine: a CPU core, a board, RAM and a clock, and one listener that may claim traps.
//!
//! `hooks.rs` is called by the core, and by it `blocks.rs` where code starts; `run.rs` decides what runs next;
//! what a probe is nobody here knows. What the listener keeps in the probe window they do: copies, detours and the pad take no time of the
//! guest's, so the machine asks what each address there stands for.

mod blocks;
mod fetched;
mod firmware;
mod gate;
mod hooks;
mod run;
mod snapshot;
mod watchdog;

use crate::arches;
use crate::boards::{Board, Spec};
use crate::boot::Kernel;
use crate::boot::whole::Whole;
use crate::clock::{Detour, Place, Stopped, Ticks, ticks};
use crate::cpu::{Choice, Model, Shown, TaskPlace, View, WindowPlace};
use crate::error::MachineError;
use crate::unicorn::engine::{BlockContext, Core, Handle};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{self, Image};
use std::ops::Range;
use trapline_isa::arch::Isa;
use trapline_probes::guest::Answer;

pub use crate::config::Config;
pub use crate::snapshot::Counts;
use fetched::Fetched;
use gate::Gate;
pub use run::Stop;
use watchdog::Watchdog;

/// A probe engine as the machine sees it: whose breakpoints these are, what stands in the window, and who is told when a CPU comes there.
pub trait Listener: 'static {
    /// What an address of the probe window stands for.
    fn place(&self, pc: u64) -> Place;
    /// A breakpoint in kernel code: ours?
    fn breakpoint(&mut self, cpu: &mut View) -> Answer;
    /// An exception whose pc lies in the probe window, or of a handler in guest code; puts the pc back to where it belongs.
    fn fault(&mut self, cpu: &mut View, vector: u32) -> Answer;
    /// The trap of a step that the guest takes through its own code, with the pc in the probe window; puts it back to where it belongs.
    fn stepped(&mut self, cpu: &mut View) -> Answer {
        let _ = cpu;
        Answer::NotOurs
    }
    /// An interrupt is about to be taken inside the probe window; puts the pc back to where it belongs.
    fn interrupted(&mut self, cpu: &mut View);
    /// The detour that starts so far behind the start of the probe window; one with [`Detour::NEVER`] for its end is none.
    fn detour(&self, offset: u64) -> Option<&Detour> {
        let _ = offset;
        None
    }
    /// What the copy that starts there is of: its address, and its length.
    fn copy(&self, pc: u64) -> Option<(u64, u8)> {
        let _ = pc;
        None
    }
    /// The CPU has come to the start of a detour; its pc is shown as the probe's address and stays what it is; `point` is that of the detour.
    fn escaped(&mut self, cpu: &mut View, point: u32) {
        let _ = (cpu, point);
    }
    /// The same where there is nothing special about it, and the listener is not [busy](Listener::is_busy); then
    /// [`Listener::wants_attention`] need not be asked. False: there is, and nothing has been done.
    fn escaped_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// The same where it is a return probe's.
    fn entered_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        let _ = (cpu, point);
        false
    }
    /// Whether the return pad starts there.
    fn returns_at(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// The CPU has come to the start of a faithful detour, and has saved nothing yet.
    fn saving(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU has come to the trampoline that faithful detours call; its pc stays what it is.
    fn called(&mut self, cpu: &mut View) {
        let _ = cpu;
    }
    /// The CPU has come to the return pad. False: it cannot go on from there.
    fn returned(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        true
    }
    /// Whether the CPU's coming to this address is to be told. Asked when its code is translated, and at places where a run may be ended; so
    /// while more addresses are told than when the machine was made, [`Listener::follows`] says yes.
    fn watches(&self, pc: u64) -> bool {
        let _ = pc;
        false
    }
    /// The CPU has come to such an address and has not executed what is there. True: the machine stops in front of it. It may be told
    /// again, of the same coming.
    fn arrived(&mut self, cpu: &mut View) -> bool {
        let _ = cpu;
        false
    }
    /// What people call an address, in a report.
    fn name(&self, pc: u64) -> String {
        format!("{pc:#x}")
    }
    /// Whether it is in the middle of something on that CPU. That changes in [`Listener::breakpoint`], [`Listener::fault`],
    /// [`Listener::stepped`] and [`Listener::interrupted`] alone.
    fn is_busy(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }
    /// Whether it takes the time of each hit; that may change between runs.
    fn times(&self) -> bool {
        false
    }
    /// Whether every piece of code that runs is to be told. That changes in [`Listener::arrived`] and between runs alone.
    fn follows(&self) -> bool {
        false
    }
    /// The CPU runs the code in this range, or its beginning.
    fn passed(&mut self, range: Range<u64>) {
        let _ = range;
    }
    /// The time at which the machine should stop for the listener, at the next place where it may.
    fn attention_at(&self) -> Option<Ticks> {
        None
    }
    /// Asked after what happened above: should the machine stop at the next place where it may?
    fn wants_attention(&self) -> bool {
        false
    }
}

/// Nobody: a machine without probes.
impl Listener for () {
    fn place(&self, _: u64) -> Place {
        Place::Guest
    }
    fn breakpoint(&mut self, _: &mut View) -> Answer {
        Answer::NotOurs
    }
    fn fault(&mut self, _: &mut View, _: u32) -> Answer {
        Answer::NotOurs
    }
    fn interrupted(&mut self, _: &mut View) {}
}

/// Something that happened to a CPU, for comparing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Which CPU.
    pub cpu: usize,
    /// What.
    pub what: What,
    /// Where, as the guest sees it.
    pub pc: u64,
    /// When.
    pub time: Ticks,
}

/// Kinds of happenings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An interrupt was delivered: its number.
    Interrupt(u32),
    /// An exception was delivered: its vector, and its error code if it has one.
    Exception(u32, Option<u32>),
    /// A system call instruction ran.
    SystemCall,
    /// The CPU went to sleep.
    Halt,
    /// The guest read the clock.
    ClockRead,
}

/// A machine with a kernel in it.
pub struct Machine<L: Listener> {
    core: Core<Inner<L>>,
    inner: Inner<L>,
}

/// What is done with a block that goes through the gate: its address, its size, the core, how far behind the gate's start it is.
type AtGate<L> = fn(&mut Inner<L>, u64, u32, BlockContext<'_>, u64);

/// All of the machine but the core, which calls into this.
pub(crate) struct Inner<L> {
    pub(crate) view: View,
    pub(crate) board: Box<dyn Board>,
    pub(crate) board_name: &'static str,
    /// Which CPU the guest finds.
    pub(crate) cpu: &'static Choice,
    /// Bytes of RAM that the guest knows of.
    pub(crate) told: u64,
    /// Where the tables begin that CPUs are started with; nothing is behind them.
    pub(crate) entry_tables: u64,
    /// The core's state after a reset.
    pub(crate) reset: Image,
    pub(crate) listener: L,
    pub(crate) window: WindowPlace,
    pub(crate) gate: Gate,
    pub(crate) at_gate: AtGate<L>,
    /// The listener was, when these two were set.
    pub(crate) was_busy: bool,
    /// The entry by which the guest's page tables show the window, while the CPU is there.
    pub(crate) shown: Option<Shown>,
    /// Which pages of the window the core has fetched from.
    pub(crate) fetched: Fetched,
    /// Room for one state, used inside callbacks.
    pub(crate) scratch: Image,
    pub(crate) cpus: Vec<SleepingCpu>,
    /// Its fault address register as the guest knows it.
    pub(crate) fault_address: u64,
    /// A handler in guest code runs; no time passes.
    pub(crate) frozen: bool,
    pub(crate) frozen_blocks: u64,
    /// The time at which a block start must be looked at; [`Inner::set_next_look`] sets it.
    pub(crate) next_look: Ticks,
    /// Every block is told, as the configuration says.
    pub(crate) every_block: bool,
    pub(crate) wish: Option<Wish>,
    pub(crate) limit: Ticks,
    pub(crate) slice_end: Ticks,
    pub(crate) console: Vec<u8>,
    pub(crate) console_watch: Option<Vec<u8>>,
    pub(crate) happenings: Option<Vec<Happening>>,
    pub(crate) counts: Counts,
    pub(crate) watchdog: Watchdog,
    /// The function at whose entry the run is to end.
    pub(crate) arrival: Option<u64>,
}

/// A CPU's state while another one runs, and what the core's saved state does not hold.
pub(crate) struct SleepingCpu {
    pub(crate) state: Image,
    pub(crate) clock: Stopped,
    pub(crate) fault_address: u64,
    pub(crate) halted: bool,
    pub(crate) frozen: bool,
}

/// Why the run is to end at the next place where it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// An interrupt is due.
    Interrupt,
    /// Another CPU's turn.
    Switch,
    /// The time is over.
    Limit,
    /// The board was switched off.
    PowerOff(u8),
    /// The awaited text was printed.
    ConsoleText,
    /// The listener asked for it.
    Attention,
    /// The guest can take no more exceptions.
    Shutdown(String),
}

const LARGE_PAGE: u64 = 2 << 20;

impl<L: Listener> Machine<L> {
    /// The kernel's board with this kernel loaded, every CPU where the kernel first runs its own text; the listener is told where the
    /// probe window lies.
    pub fn new(kernel: &Kernel, config: &Config, listener: impl FnOnce(WindowPlace) -> L) -> Result<Machine<L>, MachineError> {
        let mut machine = Machine::assemble(kernel, config, listener, true)?;
        if let Some(address) = kernel.first_function() {
            machine.arrive(address)?;
        }
        Ok(machine)
    }

    /// The board and its CPUs, with the kernel in memory if it is to be loaded.
    fn assemble(
        kernel: &Kernel,
        config: &Config,
        listener: impl FnOnce(WindowPlace) -> L,
        loaded: bool,
    ) -> Result<Machine<L>, MachineError> {
        let machine = arches::of(kernel.arch).machine()?;
        let (model, spec) = (machine.model, machine.board(kernel));
        let cpu = model.choice(config.cpu.as_deref(), kernel)?;
        (model.self_check)().map_err(MachineError::Core)?;
        let told = checked_ram(spec, config)?;
        let window_bytes = config.window.next_multiple_of(LARGE_PAGE).min(model.window.most);
        let hidden = spec.ram_start + told;
        let tables = hidden + window_bytes;
        let entry_tables = tables + (model.window.table_bytes)(window_bytes);
        let total = (entry_tables + model.entry.table_bytes - spec.ram_start).next_multiple_of(LARGE_PAGE);
        let ram = Ram::at(spec.ram_start, total as usize)
            .ok_or_else(|| MachineError::Config(format!("the host has no {total} bytes of memory for the guest")))?;
        let info = if loaded { load_all(kernel, spec, config, &ram, told)? } else { 0 };
        let window = WindowPlace { start: model.window.start, len: window_bytes, physical: hidden, tables };
        (model.window.prepare)(&ram, &window);

        let core = Core::new(cpu.core, &ram).map_err(MachineError::Core)?;
        let mut scratch = Image::new(core.handle()).map_err(MachineError::Core)?;
        let mut cpus = Vec::new();
        let reset = snapshot::image(core.handle())?;
        let entry = config.whole.as_ref().map_or(kernel.entry, |whole| whole.entry);
        for number in 0..config.cpus {
            reset.restore(core.handle());
            (model.entry.enter)(&core.stopped(), &mut scratch, &ram, entry_tables, entry, number as u64, info);
            let state = snapshot::image(core.handle())?;
            cpus.push(SleepingCpu { state, clock: Stopped::default(), fault_address: 0, halted: false, frozen: false });
        }
        cpus[0].state.restore(core.handle());
        core.flush_tlb();

        let inner = Inner {
            view: View::new(core.stopped(), core.line(), model, ram, TaskPlace::of(kernel, model)),
            board: (spec.devices)(config.cpus),
            board_name: spec.name,
            cpu,
            told,
            entry_tables,
            reset,
            listener: listener(window),
            window,
            gate: Gate::default(),
            at_gate: Inner::odd_block,
            was_busy: false,
            shown: None,
            fetched: Fetched::of(&window),
            scratch,
            cpus,
            fault_address: 0,
            frozen: false,
            frozen_blocks: 0,
            next_look: 0,
            every_block: config.every_block,
            wish: None,
            limit: Ticks::MAX,
            slice_end: 0,
            console: Vec::new(),
            console_watch: None,
            happenings: config.record_events.then(Vec::new),
            counts: Counts::default(),
            watchdog: Watchdog::default(),
            arrival: None,
        };
        Ok(Machine { core, inner })
    }

    /// Virtual time of the running CPU, in nanoseconds.
    pub fn now(&self) -> u64 {
        crate::clock::nanoseconds(self.inner.view.clock.time())
    }

    /// The same in the clock's own unit.
    pub fn time(&self) -> Ticks {
        self.inner.view.clock.time()
    }

    /// What the guest has printed since the last call.
    pub fn take_console(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inner.console)
    }

    /// What the guest has printed and nobody has taken yet.
    pub fn console(&self) -> &[u8] {
        &self.inner.console
    }

    /// Takes the first bytes of that, as many as are asked for.
    pub fn take_console_bytes(&mut self, bytes: usize) -> Vec<u8> {
        let console = &mut self.inner.console;
        console.drain(..bytes.min(console.len())).collect()
    }

    /// How much was typed and the guest has not read yet.
    pub fn unread_input(&self) -> usize {
        self.inner.board.unread_input()
    }

    /// Somebody types on the guest's console. When that is, is up to the caller: between the same two runs it is the same run.
    pub fn console_input(&mut self, bytes: &[u8]) {
        self.inner.board.console_input(bytes);
    }

    /// Nobody types any more: behind what was typed comes the end of file.
    pub fn console_input_ends(&mut self) {
        self.inner.board.console_input_ends();
    }

    /// Makes runs end when the console's text ends with this.
    pub fn stop_at_console_text(&mut self, text: Option<&str>) {
        self.inner.console_watch = text.map(|text| text.as_bytes().to_vec());
    }

    /// The listener.
    pub fn listener(&self) -> &L {
        &self.inner.listener
    }

    /// The listener, and everything around it that it needs between runs.
    pub fn parts(&mut self) -> (&mut L, Parts<'_>) {
        let inner = &mut self.inner;
        let parts = Parts {
            handle: self.core.handle(),
            model: inner.view.model,
            isa: inner.view.isa,
            ram: &inner.view.ram,
            cpus: &inner.cpus,
            current: inner.view.current,
        };
        (&mut inner.listener, parts)
    }

    /// What happened, if the configuration asked for a log.
    pub fn happenings(&self) -> &[Happening] {
        self.inner.happenings.as_deref().unwrap_or_default()
    }

    /// How often things happened.
    pub fn counts(&self) -> Counts {
        self.inner.counts
    }

    /// The registers of the running CPU, for a report.
    pub fn registers(&self) -> Vec<(&'static str, u64)> {
        let mask = self.inner.view.mask;
        let values = (self.inner.view.model.registers.dump)(&self.core.handle());
        values.into_iter().map(|(name, value)| (name, value & mask)).collect()
    }

    /// Which CPU was running.
    pub fn current_cpu(&self) -> usize {
        self.inner.view.current
    }

    /// Whether the running CPU stands in code of the kernel's privilege.
    pub fn in_kernel(&self) -> bool {
        (self.inner.view.model.registers.in_kernel)(&self.core.handle())
    }

    /// The pc of every CPU, as the core has it.
    pub fn pcs(&mut self) -> Vec<u64> {
        let (_, parts) = self.parts();
        parts.pcs()
    }

    /// Guest RAM, the engine's own part included.
    pub fn ram(&self) -> &Ram {
        &self.inner.view.ram
    }

    /// Bytes of RAM that the guest knows of.
    pub fn guest_ram_bytes(&self) -> u64 {
        self.inner.told
    }

    /// Puts the running CPU elsewhere.
    pub fn set_pc(&mut self, pc: u64) {
        self.core.stopped().set_pc(pc);
        self.inner.view.clock.resume(0, None);
        let current = self.inner.view.current;
        self.inner.cpus[current].halted = false;
        self.inner.wish = None;
    }

    /// Writes guest memory by physical address and drops what was translated from it.
    pub fn write_physical(&mut self, physical: u64, bytes: &[u8]) -> bool {
        let written = self.inner.view.ram.write(physical, bytes);
        surgery::drop_translations(self.core.handle(), &self.inner.view.ram, physical, bytes.len());
        written
    }

    /// Looks at the running CPU as a handler would.
    pub fn look<R>(&mut self, with: impl FnOnce(&mut View) -> R) -> R {
        let pc = (self.inner.view.model.registers.pc)(&self.core.handle());
        let (_, view) = self.inner.show(pc);
        with(view)
    }
}

/// What stands around the listener, between runs.
pub struct Parts<'a> {
    pub(crate) handle: Handle,
    pub(crate) model: &'static Model,
    pub(crate) isa: &'static Isa,
    pub(crate) ram: &'a Ram,
    pub(crate) cpus: &'a [SleepingCpu],
    pub(crate) current: usize,
}

impl Parts<'_> {
    pub(crate) fn pcs(&self) -> Vec<u64> {
        let pc = |(number, cpu): (usize, &SleepingCpu)| match number == self.current {
            true => (self.model.registers.pc)(&self.handle),
            false => (self.model.registers.saved_pc)(&cpu.state),
        };
        self.cpus.iter().enumerate().map(pc).collect()
    }
}

/// Bytes of RAM, if the board can have what is asked for.
fn checked_ram(spec: &Spec, config: &Config) -> Result<u64, MachineError> {
    let (name, most) = (spec.name, spec.cpus);
    if !(1..=most).contains(&config.cpus) {
        let plural = if most == 1 { "1 CPU".to_string() } else { format!("1 to {most} CPUs") };
        return Err(MachineError::Config(format!("{} CPUs were asked for: the {name} board has {plural}", config.cpus)));
    }
    let ram = config.ram.unwrap_or(spec.ram).next_multiple_of(LARGE_PAGE);
    if !(spec.least_ram..=spec.most_ram).contains(&ram) {
        let mib = |bytes: u64| bytes >> 20;
        let (asked, least, most) = (mib(ram), mib(spec.least_ram), mib(spec.most_ram));
        return Err(MachineError::Config(format!(
            "{asked} MiB of RAM were asked for: the {name} board has {least} to {most} MiB"
        )));
    }
    Ok(ram)
}

/// Loads the kernel and what the board gives it; where the boot information is.
fn load_all(kernel: &Kernel, spec: &Spec, config: &Config, ram: &Ram, told: u64) -> Result<u64, MachineError> {
    let most = spec.ram_start + told;
    let kernel_end = match &config.whole {
        None => load(kernel, ram, spec.name, most)?,
        Some(whole) => load_whole(whole, kernel, ram, spec.name, most)?,
    };
    let boot = (spec.boot)(config, told, kernel_end)?;
    for (physical, bytes) in &boot.pieces {
        ram.write(*physical, bytes);
    }
    Ok(boot.info)
}

/// Loads the kernel; where its last segment ends.
fn load(kernel: &Kernel, ram: &Ram, board: &str, most: u64) -> Result<u64, MachineError> {
    let mut last = 0;
    for segment in &kernel.segments {
        let end = segment.physical.saturating_add(segment.size);
        if end > most || !ram.write(segment.physical, &segment.bytes) {
            return Err(no_room(end, board, most));
        }
        last = last.max(end);
    }
    Ok(last)
}

/// Loads a file that unpacks itself; where the kernel or the room for unpacking ends, whichever is behind the other.
fn load_whole(whole: &Whole, kernel: &Kernel, ram: &Ram, board: &str, most: u64) -> Result<u64, MachineError> {
    let ends = kernel.segments.iter().map(|segment| segment.physical.saturating_add(segment.size));
    let end = ends.fold(whole.at.saturating_add(whole.room), u64::max);
    if end > most || !ram.write(whole.at, &whole.bytes) {
        return Err(no_room(end, board, most));
    }
    Ok(end)
}

fn no_room(end: u64, board: &str, most: u64) -> MachineError {
    MachineError::Config(format!("the kernel wants memory up to {end:#x}, the {board} board has it up to {most:#x}"))
}

/// The longest that a guest-code handler may run, in blocks, before the guest counts as hung.
pub(crate) const FROZEN_MOST: u64 = 20_000_000;

/// A turn of one CPU while another waits.
pub(crate) fn slice() -> Ticks {
    ticks(5_000)
}
