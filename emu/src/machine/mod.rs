//! The machine: a CPU core, a board, RAM and a clock, and one probe engine that listens.
//!
//! `assemble.rs` puts it together, `run.rs` decides what runs next, `hooks.rs` is called by the core, and by it
//! `blocks.rs` where code starts. The machine knows no type of any engine's and keeps no probes; what it has to know of
//! how an engine works, because neither time nor interrupts may show it, is all in one trait, [`Listener`].

mod assemble;
mod between_runs;
mod blocks;
mod fetched;
mod firmware;
mod gate;
mod happening;
mod hooks;
mod listener;
mod run;
mod watchdog;

use crate::boards::Board;
use crate::clock::{Stopped, Ticks, ticks};
use crate::cpu::{Choice, Model, Shown, View, WindowPlace};
use crate::unicorn::engine::{BlockContext, Core, Handle};
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{self, CoreState};
use trapline_isa::arch::Isa;

pub use crate::config::Config;
pub use crate::snapshot::Counts;
use fetched::Fetched;
use gate::Gate;
pub use happening::{Happening, What};
pub use listener::Listener;
pub use run::Stop;
use watchdog::Watchdog;

/// A machine with a kernel in it.
pub struct Machine<L: Listener> {
    core: Core<Inner<L>>,
    inner: Inner<L>,
    /// The sentence about the core's crash, after which it never runs again.
    crashed: Option<String>,
}

/// What is done with a block that goes through the gate: its address, its size, the core, how far behind the gate's
/// start it is.
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
    pub(crate) reset: CoreState,
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
    pub(crate) scratch: CoreState,
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
    /// How often devices have been asked before that.
    pub(crate) early_accesses: u32,
}

/// A CPU's state while another one runs, and what the core's saved state does not hold.
pub(crate) struct SleepingCpu {
    pub(crate) state: CoreState,
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
    /// The board lets this CPU sleep until its next interrupt.
    Sleep,
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

impl<L: Listener> Machine<L> {
    /// Whether the kernel says where it keeps what ftrace's letters for the moment tell, beside whether interrupts are
    /// off.
    pub fn tells_moment(&self) -> bool {
        self.inner.view.moment.count.is_some()
    }

    /// What its board is called.
    pub fn board_name(&self) -> &'static str {
        self.inner.board_name
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
    pub fn unread_input(&mut self) -> usize {
        self.inner.board.console().unread()
    }

    /// Somebody types on the guest's console. When that is, is up to the caller: between the same two runs it is the
    /// same run.
    pub fn console_input(&mut self, bytes: &[u8]) {
        self.inner.board.console().receive(bytes);
    }

    /// Nobody types any more: behind what was typed comes the end of file.
    pub fn console_input_ends(&mut self) {
        self.inner.board.console().end();
    }

    /// Makes runs end when this comes on the console.
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

    /// Looks at a CPU as a handler would, also at one whose turn it is not. It is not told of anything.
    pub fn look_at<R>(&mut self, cpu: usize, with: impl FnOnce(&mut View) -> R) -> R {
        let running = self.inner.view.current;
        if cpu == running || cpu >= self.inner.cpus.len() {
            return self.look(with);
        }
        self.inner.cpus[running].clock = self.inner.view.clock.stopped();
        self.switch_to(cpu);
        let answer = self.look(with);
        self.inner.cpus[cpu].clock = self.inner.view.clock.stopped();
        self.switch_to(running);
        answer
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

    /// Where exceptions will return to that the guest has not looked at yet.
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

/// The longest that a guest-code handler may run, in blocks, before the guest counts as hung.
pub(crate) const FROZEN_MOST: u64 = 20_000_000;

/// A turn of one CPU while another waits.
pub(crate) fn slice() -> Ticks {
    ticks(5_000)
}

#[cfg(test)]
mod tests;
