//! Where machine and engine meet: a [`Session`] is a machine with a probe engine as its listener.

pub mod guest;
mod memory;
pub mod report;
mod snapshot;
pub mod timing;
pub mod watch;
pub mod window;

use crate::boot::Kernel;
use crate::clock::{Place, Ticks, ticks};
use crate::cpu::{View, WindowPlace};
use crate::error::MachineError;
use crate::machine::{Config, Listener, Machine, Stop};
use guest::{Facts, Live};
use std::sync::Arc;
use std::time::Instant;
use timing::Timing;
use trapline_isa::plan::{Policy, Refusal};
use trapline_isa::regs::Registers;
use trapline_probes::Engine;
use trapline_probes::guest::{Answer, Guest};
use trapline_probes::probe::{Jprobe, Kprobe, Kretprobe};
use watch::Notes;
use window::Window;

/// The engine as the machine's listener.
pub struct Probes {
    engine: Engine,
    window: Window,
    facts: Facts,
    notes: Arc<Notes>,
    timing: Option<Timing>,
}

impl Listener for Probes {
    fn place(&self, pc: u64) -> Place {
        self.window.stands_for(pc)
    }

    fn breakpoint(&mut self, cpu: &mut View<'_>) -> Answer {
        let answer = match self.timing.is_some() {
            true => self.timed_breakpoint(cpu),
            false => self.engine.breakpoint(cpu),
        };
        if let Some(task) = self.notes.take_exited() {
            self.engine.task_exited(task);
        }
        answer
    }

    fn fault(&mut self, cpu: &mut View<'_>, vector: u32) -> Answer {
        self.engine.fault(cpu, vector)
    }

    fn interrupted(&mut self, cpu: &mut View<'_>) {
        self.engine.interrupted(cpu);
    }

    fn escaped(&mut self, cpu: &mut View<'_>) {
        let started = self.timing.is_some().then(Instant::now);
        let pc = cpu.pc();
        self.engine.escaped(cpu);
        if let (Some(timing), Some(started)) = (&mut self.timing, started) {
            timing.note(pc, started, true);
        }
        if let Some(task) = self.notes.take_exited() {
            self.engine.task_exited(task);
        }
    }

    fn returned(&mut self, cpu: &mut View<'_>) -> bool {
        let goes_on = self.engine.returned_to_pad(cpu);
        if let Some(task) = self.notes.take_exited() {
            self.engine.task_exited(task);
        }
        goes_on
    }

    fn attention_at(&self) -> Option<Ticks> {
        self.engine.wants_attention_at().map(ticks)
    }

    fn wants_attention(&self) -> bool {
        self.notes.init_freed()
    }
}

impl Probes {
    fn new(kernel: &Kernel, config: &Config, policy: Policy, place: WindowPlace) -> Probes {
        Probes {
            engine: Engine::new(kernel.arch.isa(), config.cpus).with_policy(policy),
            window: Window::new(place),
            facts: Facts::new(kernel.clone()),
            notes: Arc::default(),
            timing: None,
        }
    }

    fn timed_breakpoint(&mut self, cpu: &mut View<'_>) -> Answer {
        let started = Instant::now();
        let pc = cpu.pc();
        let answer = self.engine.breakpoint(cpu);
        let origin = self.window.origin_of(pc);
        if let Some(timing) = &mut self.timing {
            timing.note(origin.unwrap_or(pc), started, origin.is_none());
        }
        answer
    }
}

/// A kernel in a machine, with probes.
pub struct Session {
    machine: Machine<Probes>,
}

impl Session {
    /// A machine at the kernel's entry, no probes but the internal ones.
    pub fn new(kernel: Kernel, config: &Config) -> Result<Session, MachineError> {
        Session::with_policy(kernel, config, Policy::Best)
    }

    /// The same with another policy.
    pub fn with_policy(kernel: Kernel, config: &Config, policy: Policy) -> Result<Session, MachineError> {
        Session::around(Machine::new(&kernel, config, |place| Probes::new(&kernel, config, policy, place))?)
    }

    /// With the probes that every session has.
    fn around(machine: Machine<Probes>) -> Result<Session, MachineError> {
        let mut session = Session { machine };
        session.watch()?;
        Ok(session)
    }

    fn watch(&mut self) -> Result<(), MachineError> {
        let probes = self.machine.listener();
        let internal = watch::internal_probes(&probes.notes, |name| probes.facts.kernel().symbols.address_of(name).is_some());
        for probe in &internal {
            self.register_kprobe(probe)
                .map_err(|refusal| MachineError::Config(format!("the machine's own probe was refused: {refusal}")))?;
        }
        Ok(())
    }

    /// The engine and the guest that it works on: for everything that has no method of its own here.
    pub fn with_engine<R>(&mut self, with: impl FnOnce(&mut Engine, &mut dyn Guest) -> R) -> R {
        let now = self.machine.now();
        let (probes, parts) = self.machine.parts();
        let mut guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        // What is due is done by the time that it is.
        probes.engine.tick(&mut guest, now);
        let answer = with(&mut probes.engine, &mut guest);
        probes.engine.tick(&mut guest, now);
        answer
    }

    /// Registers a kprobe.
    pub fn register_kprobe(&mut self, probe: &Kprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_kprobe(guest, probe))
    }

    /// Takes one back.
    pub fn unregister_kprobe(&mut self, probe: &Kprobe) {
        self.with_engine(|engine, guest| engine.unregister_kprobe(guest, probe));
    }

    /// Registers a return probe.
    pub fn register_kretprobe(&mut self, probe: &Kretprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_kretprobe(guest, probe))
    }

    /// Takes one back.
    pub fn unregister_kretprobe(&mut self, probe: &Kretprobe) {
        self.with_engine(|engine, guest| engine.unregister_kretprobe(guest, probe));
    }

    /// Registers a jprobe.
    pub fn register_jprobe(&mut self, probe: &Jprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_jprobe(guest, probe))
    }

    /// Takes one back.
    pub fn unregister_jprobe(&mut self, probe: &Jprobe) {
        self.with_engine(|engine, guest| engine.unregister_jprobe(guest, probe));
    }

    /// Runs until the virtual time, in nanoseconds, or for another reason; what the guest's own doings mean for the probes is dealt with on the way.
    pub fn run_until(&mut self, nanoseconds: u64) -> Stop {
        loop {
            let stop = self.machine.run_until(nanoseconds);
            if self.machine.listener().notes.init_freed() {
                self.init_text_is_gone();
            }
            if stop != Stop::Attention {
                return stop;
            }
            self.with_engine(|_, _| ());
        }
    }

    fn init_text_is_gone(&mut self) {
        self.with_probes(|probes| {
            probes.notes.init_dealt_with();
            probes.facts.init_is_freed();
        });
        if let Some(range) = self.machine.listener().facts.init_range() {
            self.with_engine(|engine, guest| engine.kill_range(guest, range));
        }
    }

    fn with_probes(&mut self, with: impl FnOnce(&mut Probes)) {
        let (probes, _) = self.machine.parts();
        with(probes);
    }

    /// From now on notes what the hits of all present probes cost on the host: two looks at the host's clock a trap.
    pub fn time_hits(&mut self) {
        let addresses = self.with_engine(|engine, guest| engine.summary(guest)).into_iter().map(|summary| summary.address);
        let timing = Timing::of(addresses);
        self.with_probes(|probes| probes.timing = Some(timing));
    }

    /// Host nanoseconds from trap to resume, for each hit at this address; a return probe's return is not in it.
    pub fn host_ns_per_hit(&self, address: u64) -> Option<f64> {
        self.machine.listener().timing.as_ref()?.per_hit(address)
    }

    /// The machine.
    pub fn machine(&self) -> &Machine<Probes> {
        &self.machine
    }

    /// The machine, to run it step by step or look into it.
    pub fn machine_mut(&mut self) -> &mut Machine<Probes> {
        &mut self.machine
    }

    /// The kernel that runs.
    pub fn kernel(&self) -> &Kernel {
        self.machine.listener().facts.kernel()
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.machine.listener().engine
    }
}
