//! The machine: a CPU core, a board, RAM, a clock, and one probe engine as its listener.
//!
//! `assemble.rs` creates it, `run.rs` decides what runs next, the core calls `hooks.rs`, and `blocks.rs` handles block
//! starts. The machine names no type of any engine and stores no probes. The trait [`Listener`] holds everything that
//! it must know of an engine to keep time and interrupts unaffected by probes.

mod accesses;
mod assemble;
mod between_runs;
mod blocks;
mod checkpoint;
mod coverage;
mod exact;
mod fetched;
mod firmware;
mod gate;
mod happening;
mod history;
mod hooks;
mod listener;
mod run;
mod service;
mod steps;
mod turns;
mod user_code;
mod watchdog;

use crate::boards::{At, Board};
use crate::clock::{Stopped, Ticks};
use crate::config::Ties;
use crate::cpu::mappings::MappingPlace;
use crate::cpu::user_places::UserPlaces;
use crate::cpu::{Choice, Model, Shown, View, WindowPlace};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{BlockContext, Core, Handle};
use crate::unicorn::ram::Ram;
use trapline_isa::arch::Isa;

use accesses::Seen;

pub use crate::config::{Config, Draws};
pub use crate::snapshot::Counts;
pub use checkpoint::{Checkpoint, PAGE_BYTES};
use coverage::Coverage;
use exact::Exact;
pub use exact::{Place, StopsAt};
use fetched::Fetched;
use gate::Gate;
pub use happening::{Happening, What};
pub use listener::{Attention, Detours, Excepted, Follower, Listener, ProbeWindow, Traps, UserCode, Watcher};
pub use run::Stop;
use steps::Steps;
pub use steps::{MOST_STEPS, Step};
use turns::Turns;
use watchdog::Watchdog;

/// A machine with a kernel in it.
pub struct Machine<L: Listener> {
    core: Core<Inner<L>>,
    inner: Inner<L>,
    /// The message of the core's crash. A crashed core never runs again.
    crashed: Option<String>,
}

/// The handler of a block in the gate's range. Arguments: address, size, core, offset from the gate's start.
type AtGate<L> = fn(&mut Inner<L>, u64, u32, BlockContext<'_>, u64);

/// All of the machine except the core, which calls into it.
pub(crate) struct Inner<L> {
    pub(crate) view: View,
    pub(crate) board: Box<dyn Board>,
    pub(crate) board_name: &'static str,
    /// Whether the board has devices that access guest memory.
    pub(crate) has_masters: bool,
    /// The CPU model that the guest sees.
    pub(crate) cpu: &'static Choice,
    /// Bytes of RAM that the board reports to the guest.
    pub(crate) guest_ram_bytes: u64,
    /// The physical address of the page tables that CPUs start with. They are the last thing in memory.
    pub(crate) entry_tables: u64,
    /// The core's state after a reset.
    pub(crate) reset: CoreState,
    pub(crate) listener: L,
    pub(crate) window: WindowPlace,
    pub(crate) gate: Gate,
    pub(crate) at_gate: AtGate<L>,
    /// Whether the listener was busy when `gate` and `at_gate` were set.
    pub(crate) was_busy: bool,
    /// The page-table entry that maps the window, while the CPU is there.
    pub(crate) shown: Option<Shown>,
    /// The window pages that the core has fetched from.
    pub(crate) fetched: Fetched,
    /// A buffer for a CPU state, for use inside callbacks.
    pub(crate) scratch: CoreState,
    pub(crate) cpus: Vec<SleepingCpu>,
    pub(crate) turns: Turns,
    /// The fault address register of the running CPU, as the guest knows it.
    pub(crate) fault_address: u64,
    /// Whether a handler in guest code (a jprobe's) runs. Virtual time stands still meanwhile.
    pub(crate) frozen: bool,
    /// The number of blocks of that handler so far; the limit is [`FROZEN_MOST`].
    pub(crate) frozen_blocks: u64,
    /// The time from which on block starts are examined. [`Inner::set_next_look`] sets it.
    pub(crate) next_look: Ticks,
    /// Whether every block is reported, by the configuration.
    pub(crate) every_block: bool,
    /// The blocks that ran, if they are collected.
    pub(crate) coverage: Option<Box<Coverage>>,
    /// The instructions that run, if they are recorded.
    pub(crate) steps: Option<Box<Steps>>,
    /// The exact places where the run stops, or which it only records.
    pub(crate) exact: Option<Box<Exact>>,
    /// Whether every block is reported at present, for one of the reasons in [`Inner::set_gate`].
    pub(crate) reports_every_block: bool,
    /// The reason for which the core shall stop, once there is one.
    pub(crate) stop_reason: Option<StopReason>,
    /// The reason that [`StopReason::Place`] has replaced. It takes effect when the run continues.
    pub(crate) waiting: Option<StopReason>,
    /// The virtual time at which the run ends.
    pub(crate) limit: Ticks,
    /// The virtual time at which the turn of the running CPU ends.
    pub(crate) slice_end: Ticks,
    /// Console output that was not taken yet.
    pub(crate) console: Vec<u8>,
    /// The console text at which the run ends.
    pub(crate) console_watch: Option<Vec<u8>>,
    pub(crate) happenings: Option<Vec<Happening>>,
    pub(crate) counts: Counts,
    pub(crate) watchdog: Watchdog,
    /// The function at whose entry the run shall end.
    pub(crate) arrival: Option<u64>,
    /// The number of device accesses before that function.
    pub(crate) early_accesses: u32,
    /// The watched areas.
    pub(crate) watched: Vec<Seen>,
    /// The ties of its devices to the world outside.
    pub(crate) ties: Ties,
}

/// The state of a CPU that does not run, with the parts that the core's saved state does not hold.
pub(crate) struct SleepingCpu {
    pub(crate) state: CoreState,
    pub(crate) clock: Stopped,
    pub(crate) fault_address: u64,
    pub(crate) halted: bool,
    pub(crate) frozen: bool,
    /// Whether it waits for another CPU to start it.
    pub(crate) parked: bool,
}

/// The reason why the core shall stop at the next block start where it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// An interrupt is due.
    Interrupt,
    /// It is another CPU's turn.
    Switch,
    /// The board lets this CPU sleep until its next interrupt.
    Sleep,
    /// The limit of virtual time is reached.
    Limit,
    /// The guest powered off.
    PowerOff(u8),
    /// The console printed the awaited text.
    ConsoleText,
    /// The listener wants attention.
    Attention,
    /// The run has reached a place at which it was asked to stop.
    Place,
    /// The guest cannot continue.
    Shutdown(String),
}

impl<L: Listener> Machine<L> {
    /// The columns of a trace that are not known on this kernel, in the trace header's words.
    pub fn unknown_columns(&self) -> Vec<&'static str> {
        let view = &self.inner.view;
        let task = (!view.tasks.is_known(view.model)).then_some("TASK-PID");
        task.into_iter().chain(view.moment.unknown()).collect()
    }

    /// The name of the board, such as `virt`.
    pub fn board_name(&self) -> &'static str {
        self.inner.board_name
    }

    /// Virtual time of the running CPU, in nanoseconds.
    pub fn now(&self) -> u64 {
        crate::clock::nanoseconds(self.inner.view.clock.time())
    }

    /// Virtual time of the running CPU in the clock's own unit.
    pub fn time(&self) -> Ticks {
        self.inner.view.clock.time()
    }

    /// Takes the console output.
    pub fn take_console(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inner.console)
    }

    /// The console output that was not taken yet.
    pub fn console(&self) -> &[u8] {
        &self.inner.console
    }

    /// Takes the first `bytes` bytes of the console output, or all of it if there is less.
    pub fn take_console_bytes(&mut self, bytes: usize) -> Vec<u8> {
        let console = &mut self.inner.console;
        console.drain(..bytes.min(console.len())).collect()
    }

    /// The number of input bytes that the guest has not read.
    pub fn unread_input(&mut self) -> usize {
        self.inner.board.console().unread()
    }

    /// Adds console input. Runs are equal if input is added between the same two runs.
    pub fn console_input(&mut self, bytes: &[u8]) {
        let at = self.input_comes();
        self.inner.board.console().receive(bytes);
        self.inner.shorten_turn(at);
    }

    /// Ends the console input: an end of file follows the bytes added so far.
    pub fn console_input_ends(&mut self) {
        let at = self.input_comes();
        self.inner.board.console().end();
        self.inner.shorten_turn(at);
    }

    /// The time at which input arrives: the present time of the running CPU. A sleeping CPU that it wakes may have an earlier
    /// clock, so the console holds the input until then.
    fn input_comes(&mut self) -> At {
        let at = At { cpu: self.inner.view.current, now: self.inner.view.clock.time() };
        self.inner.board.console().hold_until(at.now);
        at
    }

    /// Ends runs when the console prints this text. `None` cancels that.
    pub fn stop_at_console_text(&mut self, text: Option<&str>) {
        self.inner.console_watch = text.map(|text| text.as_bytes().to_vec());
    }

    /// The owner of the probe engine, which the machine calls at traps and in the probe window.
    pub fn listener(&self) -> &L {
        &self.inner.listener
    }

    /// The listener, with the parts of the machine that it needs between runs.
    pub fn parts(&mut self) -> (&mut L, Parts<'_>) {
        let inner = &mut self.inner;
        let parts = Parts {
            handle: self.core.handle(),
            model: inner.view.model,
            isa: inner.view.isa,
            ram: &inner.view.ram,
            user_places: &mut inner.view.user_places,
            mapping: inner.view.mapping,
            cpus: &inner.cpus,
            current: inner.view.current,
        };
        (&mut inner.listener, parts)
    }

    /// The log of events, if the configuration asked for it.
    pub fn happenings(&self) -> &[Happening] {
        self.inner.happenings.as_deref().unwrap_or_default()
    }

    /// Takes the log of events, so that a long run needs little memory for it.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        self.inner.happenings.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The blocks of kernel code that ran, if the configuration asked for them: the length of each, by its address.
    pub fn covered(&self) -> std::collections::BTreeMap<u64, u32> {
        self.inner.coverage.as_ref().map(|coverage| coverage.blocks()).unwrap_or_default()
    }

    /// Counters of traps, interrupts and other events.
    pub fn counts(&self) -> Counts {
        self.inner.counts
    }

    /// The registers of the running CPU, for a report.
    pub fn registers(&self) -> Vec<(&'static str, u64)> {
        let mask = self.inner.view.mask;
        let values = (self.inner.view.model.registers.dump)(&self.core.handle());
        values.into_iter().map(|(name, value)| (name, value & mask)).collect()
    }

    /// The number of the running CPU.
    pub fn current_cpu(&self) -> usize {
        self.inner.view.current
    }

    /// Whether the running CPU is in kernel mode.
    pub fn in_kernel(&self) -> bool {
        (self.inner.view.model.registers.in_kernel)(&self.core.handle())
    }

    /// The pc of every CPU. It may be in the window.
    pub fn pcs(&mut self) -> Vec<u64> {
        let (_, parts) = self.parts();
        parts.pcs()
    }

    /// Guest RAM, including the part that the guest does not know.
    pub fn ram(&self) -> &Ram {
        &self.inner.view.ram
    }

    /// Bytes of RAM that the board reports to the guest.
    pub fn guest_ram_bytes(&self) -> u64 {
        self.inner.guest_ram_bytes
    }

    /// Sets the pc of the running CPU and wakes it.
    pub fn set_pc(&mut self, pc: u64) {
        self.core.stopped().set_pc(pc);
        self.inner.view.clock.resume(0, None);
        let current = self.inner.view.current;
        self.inner.cpus[current].halted = false;
        (self.inner.stop_reason, self.inner.waiting) = (None, None);
    }

    /// Writes guest memory by physical address, and drops the translation blocks made from it. Returns false outside of RAM.
    pub fn write_physical(&mut self, physical: u64, bytes: &[u8]) -> bool {
        self.inner.view.ram.write(physical, bytes)
    }

    /// Gives access to a CPU as in a handler. Switches to that CPU and back if needed. The listener is not called.
    pub fn look_at<R>(&mut self, cpu: usize, with: impl FnOnce(&mut View) -> R) -> R {
        self.look_at_with_listener(cpu, |_, view| with(view))
    }

    /// Like [`Machine::look_at`], with the listener as well. The machine calls no method of it.
    pub fn look_at_with_listener<R>(&mut self, cpu: usize, with: impl FnOnce(&mut L, &mut View) -> R) -> R {
        let running = self.inner.view.current;
        if cpu == running || cpu >= self.inner.cpus.len() {
            return self.look_with_listener(with);
        }
        self.inner.cpus[running].clock = self.inner.view.clock.stopped();
        self.switch_to(cpu);
        let answer = self.look_with_listener(with);
        self.inner.cpus[cpu].clock = self.inner.view.clock.stopped();
        self.switch_to(running);
        answer
    }

    /// Gives access to the running CPU as in a handler.
    pub fn look<R>(&mut self, with: impl FnOnce(&mut View) -> R) -> R {
        self.look_with_listener(|_, view| with(view))
    }

    fn look_with_listener<R>(&mut self, with: impl FnOnce(&mut L, &mut View) -> R) -> R {
        let pc = (self.inner.view.model.registers.pc)(&self.core.handle());
        let (listener, view) = self.inner.show(pc);
        with(listener, view)
    }
}

/// The parts of the machine that the engine needs between runs.
pub struct Parts<'a> {
    pub(crate) handle: Handle,
    pub(crate) model: &'static Model,
    pub(crate) isa: &'static Isa,
    pub(crate) ram: &'a Ram,
    user_places: &'a mut Option<Box<UserPlaces>>,
    mapping: Option<MappingPlace>,
    pub(crate) cpus: &'a [SleepingCpu],
    pub(crate) current: usize,
}

impl Parts<'_> {
    /// The observed instructions of user programs.
    pub(crate) fn user_places(&mut self) -> &mut UserPlaces {
        user_code::places(self.user_places, self.mapping)
    }

    pub(crate) fn pcs(&self) -> Vec<u64> {
        let pc = |(number, cpu): (usize, &SleepingCpu)| match number == self.current {
            true => (self.model.registers.pc)(&self.handle),
            false => (self.model.registers.saved_pc)(&cpu.state),
        };
        self.cpus.iter().enumerate().map(pc).collect()
    }

    /// The exception return addresses in registers of all CPUs, such as ELR_EL1. They may point into text.
    pub(crate) fn returns(&self) -> Vec<u64> {
        let mut pcs = Vec::new();
        for place in (self.model.registers.returns)(&self.handle) {
            let returns = |(number, cpu): (usize, &SleepingCpu)| match (number == self.current, self.isa.word) {
                (true, 8) => self.handle.live64(place),
                (true, _) => self.handle.live32(place).into(),
                (false, 8) => cpu.state.get64(place),
                (false, _) => cpu.state.get32(place).into(),
            };
            pcs.extend(self.cpus.iter().enumerate().map(returns));
        }
        pcs
    }
}

/// The largest number of blocks of a handler in guest code. Beyond it, the guest counts as hung.
pub(crate) const FROZEN_MOST: u64 = 20_000_000;

#[cfg(test)]
mod tests;
