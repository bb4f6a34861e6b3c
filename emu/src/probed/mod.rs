//! [`Session`]: a kernel in a machine, with a probe engine. It is the type that users of the library and the command line work
//! with: they register probes and run the guest through it.
//!
//! [`Probes`] joins the two sides: it implements the machine's traits of the listener ([`Traps`], [`ProbeWindow`] and others)
//! by calls of the engine ([`Engine`]). During a run the guest's text cannot be changed. So `Probes` stops the machine when
//! there is such work, and [`Session::run_until`] does it before it continues: it removes probes from text that the guest
//! frees or patches, and follows the loading of modules.

mod code;
mod core_dump;
pub mod guest;
mod guest_alone;
mod kernel_stack;
mod memory;
pub mod modules;
mod panics;
pub mod patchers;
pub mod report;
mod script_names;
pub mod scripts;
pub mod timing;
mod unprobed;
mod unwinders;
pub mod watch;
pub mod window;

use crate::boot::Kernel;
use crate::boot::guest_files::GuestFiles;
use crate::boot::module::{self, Module};
use crate::clock::GuestTime;
use crate::clock::{DetourTiming, Meaning, Ticks, ticks};
use crate::cpu::{View, WindowPlace};
use crate::error::MachineError;
use crate::machine::{Attention, Config, Detours, Follower, Machine, ProbeWindow, Stop, Traps, UserCode, Watcher};
pub use core_dump::{Mapped, TrueMemory};
use guest::{Facts, Live};
use modules::{ModuleNote, Modules};
use panics::Panics;
use patchers::{Done, Patchers};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use timing::Timing;
use trapline_isa::detour::Form;
use trapline_isa::mem::Memory;
use trapline_isa::plan::{Policy, Refusal};
use trapline_isa::regs::Registers;
use trapline_probes::Engine;
use trapline_probes::guest::{Answer, Cpu, Guest};
use trapline_probes::probe::{Jprobe, Kprobe, Kretprobe};
use trapline_probes::user::UserProbe;
use trapline_probes::watch::{Access, Watchpoint};
pub use unprobed::TextPiece;
use unwinders::Unwinders;
use watch::{Exited, Notes};
use window::WindowAllocator;

/// The probe engine as the machine's listener.
pub struct Probes {
    engine: Engine,
    window: WindowAllocator,
    facts: Facts,
    notes: Arc<Notes>,
    patchers: Patchers,
    unwinders: Unwinders,
    panics: Panics,
    /// Whether the CPU stands at a true return address and must go to the return pad instead (`unwinders.rs`).
    by_pad: bool,
    /// The measured host time of hits, if wanted.
    timing: Option<Timing>,
    /// Called in front of every access of translated code, if wanted.
    each_access: Option<Box<dyn FnMut(EachAccess)>>,
}

/// A load or a store that translated code is about to make, watched or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EachAccess {
    /// The address of the instruction.
    pub pc: u64,
    /// Guest time in nanoseconds.
    pub time: u64,
    /// The accessed address.
    pub address: u64,
    /// The number of bytes.
    pub size: u32,
    /// Whether it is a store.
    pub is_write: bool,
}

impl Traps for Probes {
    fn breakpoint(&mut self, cpu: &mut View) -> Answer {
        let answer = match self.timing.is_some() {
            true => self.timed_breakpoint(cpu),
            false => self.engine.breakpoint(cpu),
        };
        self.settle_notes(cpu);
        answer
    }

    fn fault(&mut self, cpu: &mut View, vector: u32) -> Answer {
        self.engine.fault(cpu, vector)
    }

    fn stepped(&mut self, cpu: &mut View) -> Answer {
        let answer = self.engine.stepped(cpu);
        self.settle_notes(cpu);
        answer
    }

    fn interrupted(&mut self, cpu: &mut View) {
        self.engine.interrupted(cpu);
    }

    #[inline]
    fn is_busy(&self, cpu: usize) -> bool {
        self.engine.is_busy(cpu)
    }

    fn times(&self) -> bool {
        self.timing.is_some()
    }
}

impl ProbeWindow for Probes {
    fn meaning(&self, pc: u64) -> Meaning {
        self.window.stands_for(pc)
    }

    #[inline(always)]
    fn detour(&self, offset: u64) -> Option<&DetourTiming> {
        self.window.detour(offset)
    }

    #[inline(always)]
    fn copy(&self, pc: u64) -> Option<(u64, u8)> {
        self.window.copy(pc)
    }

    fn in_front(&self, pc: u64) -> u64 {
        self.window.in_front(pc)
    }

    fn original(&self, pc: u64) -> Option<u64> {
        match self.window.stands_for(pc) {
            Meaning::Copy { origin, .. } => Some(origin.wrapping_add(self.in_front(pc))),
            // A copy of several instructions.
            Meaning::WayBack { .. } => self.window.origin_of(pc),
            _ => None,
        }
    }

    #[inline(always)]
    fn returns_at(&self, pc: u64) -> bool {
        self.window.pad() == Some(pc)
    }
}

impl Detours for Probes {
    fn jumped_in(&mut self, cpu: &mut View, point: u32) {
        let started = self.timing.is_some().then(Instant::now);
        let pc = cpu.pc();
        self.engine.jumped_in(cpu, point);
        if let (Some(timing), Some(started)) = (&mut self.timing, started) {
            timing.note(pc, started, true);
        }
        self.settle_notes(cpu);
    }

    #[inline(always)]
    fn jumped_in_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        self.engine.jumped_in_simply(cpu, point)
    }

    #[inline(always)]
    fn entered_simply(&mut self, cpu: &mut View, point: u32) -> bool {
        self.engine.entered_simply(cpu, point)
    }

    fn saving(&mut self, cpu: &mut View) {
        self.engine.saving(cpu);
    }

    fn called(&mut self, cpu: &mut View) {
        let started = self.timing.is_some().then(Instant::now);
        self.engine.called(cpu);
        if let (Some(timing), Some(started)) = (&mut self.timing, started) {
            // The engine has set the pc to the probed address.
            timing.note(cpu.pc(), started, true);
        }
        self.settle_notes(cpu);
    }

    #[inline(always)]
    fn returned(&mut self, cpu: &mut View) -> bool {
        let goes_on = self.engine.returned_to_pad(cpu);
        self.settle_notes(cpu);
        goes_on
    }
}

impl Follower for Probes {
    #[inline]
    fn watches(&self, pc: u64) -> bool {
        self.patchers.watch(pc) || self.unwinders.watch(pc) || self.panics.watch(pc)
    }

    fn arrived(&mut self, cpu: &mut View) -> bool {
        self.patchers.arrived(cpu, &self.engine);
        self.panics.arrived(cpu.pc(), cpu.clock.time());
        self.by_pad |= self.unwinders.arrived(cpu, &self.engine);
        // Without probes in the text, the machine need not stop: `Session::with_engine` updates the engine before the next
        // probe is written.
        self.by_pad || self.have_news() && !self.engine.is_empty()
    }

    #[inline]
    fn follows(&self) -> bool {
        !self.engine.withdrawn().is_empty() || self.patchers.are_at_work() || self.unwinders.are_at_work()
    }

    fn passed(&mut self, cpu: &mut View, range: Range<u64>) {
        self.unwinders.goes_on(cpu, &self.engine);
        self.engine.passed_by(range);
    }

    fn rests(&mut self, cpu: &mut View) {
        self.unwinders.rest(cpu);
    }

    fn gives_way(&mut self, cpu: &mut View) -> bool {
        self.patchers.interrupted(cpu) && self.have_news() && !self.engine.is_empty()
    }

    fn turns(&mut self, next: usize) -> bool {
        self.patchers.turns(next);
        self.have_news() && !self.engine.is_empty()
    }
}

impl UserCode for Probes {
    #[inline]
    fn user_hit(&mut self, cpu: &mut View, point: u32) {
        self.engine.user_hit(cpu, point);
    }

    fn user_arrival(&mut self, cpu: &mut View) {
        self.engine.user_arrival(cpu);
    }

    fn user_fault(&mut self, cpu: &mut View) {
        self.engine.user_fault(cpu);
    }
}

impl Watcher for Probes {
    fn accessed(&mut self, cpu: &mut View, area: usize, access: &Access) {
        self.engine.accessed(cpu, area, access);
    }

    fn changed_unseen(&mut self, area: usize) {
        self.engine.changed_unseen(area);
    }

    fn each_access(&mut self, pc: u64, time: u64, address: u64, size: u32, is_write: bool) {
        if let Some(tell) = &mut self.each_access {
            tell(EachAccess { pc, time, address, size, is_write });
        }
    }
}

impl Attention for Probes {
    fn attention_at(&self) -> Option<Ticks> {
        self.engine.wants_attention_at().map(ticks)
    }

    fn wants_attention(&self) -> bool {
        self.notes.init_freed() || self.notes.modules.some() || self.engine.has_new_areas()
    }

    fn name(&self, pc: u64) -> String {
        let origin = self.window.origin_of(pc).unwrap_or(pc);
        let name = self.facts.kernel().symbols.describe(origin);
        let copy = if origin == pc { "" } else { "the copy of " };
        format!("{copy}{name}{}", if self.engine.is_probed(origin) { " (probed)" } else { "" })
    }
}

impl Probes {
    fn new(kernel: &Kernel, config: &Config, policy: Policy, place: WindowPlace) -> Probes {
        Probes {
            engine: Engine::new(kernel.arch.isa(), config.cpus).with_policy(policy),
            window: WindowAllocator::new(place, kernel.arch.isa()),
            facts: Facts::new(kernel.clone(), GuestFiles::new(config.initrd.clone(), config.files.clone())),
            notes: Arc::default(),
            patchers: Patchers::of(kernel),
            unwinders: Unwinders::of(kernel),
            panics: Panics::of(kernel),
            by_pad: false,
            timing: None,
            each_access: None,
        }
    }

    /// Whether the guest has begun or ended work on its text since the engine was last notified.
    fn have_news(&self) -> bool {
        self.patchers.work_on() != self.engine.withdrawn() || self.patchers.are_early() != self.engine.is_early()
    }

    /// Reports to the engine the exited tasks that internal probes have recorded.
    #[inline]
    fn settle_notes(&mut self, cpu: &View) {
        match self.notes.take_exited() {
            None => {}
            Some(Exited::Dying(task)) => self.engine.task_dies(cpu.number(), task),
            Some(Exited::Released(task)) => self.engine.task_exited(task),
        }
    }

    #[cold]
    fn timed_breakpoint(&mut self, cpu: &mut View) -> Answer {
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

/// A kernel in a machine, with a probe engine.
pub struct Session {
    machine: Machine<Probes>,
    stops_at_modules: bool,
}

impl Session {
    /// Creates a machine at the kernel's entry, with the internal probes only.
    pub fn new(kernel: Kernel, config: &Config) -> Result<Session, MachineError> {
        Session::with_policy(kernel, config, Policy::Best)
    }

    /// Creates a session with another policy.
    pub fn with_policy(kernel: Kernel, config: &Config, policy: Policy) -> Result<Session, MachineError> {
        Session::around(Machine::new(&kernel, config, |place| Probes::new(&kernel, config, policy, place))?)
    }

    /// A session around a machine, with the internal probes.
    fn around(machine: Machine<Probes>) -> Result<Session, MachineError> {
        let mut session = Session { machine, stops_at_modules: false };
        session.watch()?;
        Ok(session)
    }

    /// Registers the internal probes.
    fn watch(&mut self) -> Result<(), MachineError> {
        let probes = self.machine.listener();
        let internal = watch::internal_probes(&probes.notes, |name| probes.facts.kernel().symbols.address_of(name).is_some());
        for probe in &internal {
            self.register_kprobe(probe)
                .map_err(|refusal| MachineError::Config(format!("the machine's own probe was refused: {refusal}")))?;
        }
        Ok(())
    }

    /// Calls a function with the engine and its guest. Brings the engine up to date before and after.
    pub fn with_engine<R>(&mut self, with: impl FnOnce(&mut Engine, &mut dyn Guest) -> R) -> R {
        let now = self.machine.now();
        let (probes, parts) = self.machine.parts();
        let news = probes.have_news().then(|| (probes.patchers.work_on().clone(), probes.patchers.are_early()));
        let mut guest = Live { parts, window: &mut probes.window, facts: &mut probes.facts };
        if let Some((from, early)) = news {
            probes.engine.withdraw(&mut guest, from);
            probes.engine.set_early(&mut guest, early);
        }
        // Due work is done with the current time.
        probes.engine.tick(&mut guest, now);
        probes.engine.carry_out_watch_requests(&mut guest);
        let answer = with(&mut probes.engine, &mut guest);
        probes.engine.tick(&mut guest, now);
        if probes.engine.has_new_areas() {
            self.machine.compare_watched();
            let areas = self.machine.parts().0.engine.areas();
            self.machine.watch(&areas);
        }
        answer
    }

    /// Registers a watchpoint, which watches from the next run on.
    pub fn register_watchpoint(&mut self, watchpoint: &Watchpoint) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_watchpoint(guest, watchpoint))
    }

    /// Removes a watchpoint.
    pub fn unregister_watchpoint(&mut self, watchpoint: &Watchpoint) {
        self.with_engine(|engine, _| engine.unregister_watchpoint(watchpoint));
    }

    /// Sets whether a watchpoint watches.
    pub fn enable_watchpoint(&mut self, watchpoint: &Watchpoint, enabled: bool) {
        self.with_engine(|engine, _| engine.enable_watchpoint(watchpoint, enabled));
    }

    /// Counts the watched bytes that have changed without an access that was seen
    /// ([`Watchpoint::changed_unseen`]).
    pub fn compare_watched(&mut self) {
        self.machine.compare_watched();
    }

    /// Calls a function in front of every load and store of translated code, watched or not; `None` ends that. The guest
    /// runs several times slower meanwhile. Accesses by the core's helper functions are not among them.
    pub fn tell_each_access(&mut self, tell: Option<Box<dyn FnMut(EachAccess)>>) {
        self.machine.tell_each_access(tell.is_some());
        self.with_probes(|probes| probes.each_access = tell);
    }

    /// Sets the form of detours for probes that are registered later at unprobed addresses.
    pub fn set_detour_form(&mut self, form: Form) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.set_detour_form(guest, form))
    }

    /// Registers a kprobe. It is armed when this returns, unless it is disabled.
    pub fn register_kprobe(&mut self, probe: &Kprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_kprobe(guest, probe))
    }

    /// Unregisters a kprobe. Its handlers do not run any more when this returns.
    pub fn unregister_kprobe(&mut self, probe: &Kprobe) {
        self.with_engine(|engine, guest| engine.unregister_kprobe(guest, probe));
    }

    /// Registers a return probe.
    pub fn register_kretprobe(&mut self, probe: &Kretprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_kretprobe(guest, probe))
    }

    /// Unregisters a return probe.
    pub fn unregister_kretprobe(&mut self, probe: &Kretprobe) {
        self.with_engine(|engine, guest| engine.unregister_kretprobe(guest, probe));
    }

    /// Registers a jprobe at a function's entry.
    pub fn register_jprobe(&mut self, probe: &Jprobe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_jprobe(guest, probe))
    }

    /// Unregisters a jprobe. Its handler does not run any more when this returns.
    pub fn unregister_jprobe(&mut self, probe: &Jprobe) {
        self.with_engine(|engine, guest| engine.unregister_jprobe(guest, probe));
    }

    /// Replaces the guest's files, by which programs are known.
    pub(crate) fn know_files(&mut self, files: GuestFiles) {
        let (probes, _) = self.machine.parts();
        probes.facts.set_files(files);
    }

    /// Registers a probe in a user program.
    pub fn register_user(&mut self, probe: &UserProbe) -> Result<(), Refusal> {
        self.with_engine(|engine, guest| engine.register_user(guest, probe))
    }

    /// Unregisters a probe in a user program.
    pub fn unregister_user(&mut self, probe: &UserProbe) {
        self.with_engine(|engine, guest| engine.unregister_user(guest, probe));
    }

    /// The guest time of the running CPU.
    pub fn guest_time(&self) -> GuestTime {
        self.machine.now().into()
    }

    /// Runs for this guest time, or until another reason to stop.
    pub fn run_for(&mut self, time: Duration) -> Stop {
        self.run_until(self.guest_time() + time)
    }

    /// Runs until this guest time, in nanoseconds since power-on or as a [`Duration`], or until another reason to stop.
    /// Handles guest events that concern probes: freed init text, modules, patched text.
    pub fn run_until(&mut self, time: impl Into<GuestTime>) -> Stop {
        self.run_until_ticks(ticks(time.into().nanoseconds()))
    }

    /// Like [`Session::run_until`], with a limit in the clock's own unit.
    pub fn run_until_ticks(&mut self, limit: Ticks) -> Stop {
        loop {
            let stop = self.machine.run_until_ticks(limit);
            self.go_by_pad();
            if self.machine.listener().notes.init_freed() {
                self.init_text_is_gone();
            }
            let has_new_module = self.follow_modules();
            let program_ends = self.machine.parts().0.engine.take_program_end();
            if stop != Stop::Attention || program_ends || has_new_module && self.stops_at_modules {
                return self.after_a_panic(stop);
            }
            self.with_engine(|_, _| ());
        }
    }

    /// Wraps the end of the machine in [`Stop::Panic`] if the kernel has panicked before.
    fn after_a_panic(&self, stop: Stop) -> Stop {
        match stop {
            Stop::PowerOff(_) | Stop::Dead(_) if self.machine.listener().panics.has_panicked => Stop::Panic(Box::new(stop)),
            stop => stop,
        }
    }

    /// The virtual time of the guest's first oops or panic.
    pub fn first_failure(&self) -> Option<Ticks> {
        self.machine.listener().panics.first
    }

    /// Sends the CPU to the return pad if an unwinder with a return probe has just returned past it.
    fn go_by_pad(&mut self) {
        let (probes, _) = self.machine.parts();
        if core::mem::take(&mut probes.by_pad)
            && let Some(pad) = probes.engine.return_pad()
        {
            self.machine.set_pc(pad);
        }
    }

    /// If `stop`, runs end with [`Stop::Attention`] before a module's init function runs, so that the caller can probe
    /// it.
    pub fn stop_at_modules(&mut self, stop: bool) {
        self.stops_at_modules = stop;
    }

    /// The names of the guest's modules.
    pub fn modules(&self) -> Vec<String> {
        self.machine.listener().facts.modules().names().map(str::to_string).collect()
    }

    /// A module by name.
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.machine.listener().facts.modules().named(name)
    }

    /// Handles the events of the guest's module loader. Returns whether a module is about to run its init function.
    fn follow_modules(&mut self) -> bool {
        let mut has_come = false;
        for note in self.machine.listener().notes.modules.take() {
            match note {
                ModuleNote::Placed(key, header, sections) => self.module_is_placed(key, header, sections),
                ModuleNote::Coming(key) => {
                    let came = self.change_modules(|modules| modules.coming(key));
                    has_come |= came.is_some();
                }
                ModuleNote::Live(key) => {
                    self.give_up(key, false);
                    self.change_modules(|modules| modules.live(key));
                }
                ModuleNote::Going(key) => {
                    self.give_up(key, true);
                    self.change_modules(|modules| modules.gone(key));
                }
            }
        }
        has_come
    }

    /// Reads a module whose loader has just relocated it.
    fn module_is_placed(&mut self, key: u64, header: u64, sections: u64) {
        let arch = self.kernel().arch;
        let placed = self.machine.look(|view| {
            let module = module::read(arch, &mut |at, into| view.read(at, into).is_ok(), header, sections)?;
            let mut modules = Modules::default();
            modules.placed(key, module, |page| view.physical(page));
            Some(modules)
        });
        match placed {
            Some(placed) => self.change_modules(|modules| modules.take_over(placed)),
            None => self.with_engine(|engine, _| {
                engine.say(format!("the module at {key:#x} cannot be read, so its symbols are unknown"));
            }),
        }
    }

    /// Handles module code that the guest frees: restores its bytes and marks its probes as gone.
    fn give_up(&mut self, key: u64, all: bool) {
        for range in self.machine.listener().facts.modules().given_up(key, all) {
            self.with_engine(|engine, guest| {
                let mut text = vec![0; (range.end - range.start) as usize];
                if engine
                    .read_original(guest, range.start, &mut text)
                    .and_then(|()| guest.patch_text(range.start, &text))
                    .is_err()
                {
                    engine.say(format!("the original text at {:#x} could not be restored", range.start));
                }
                engine.kill_range(guest, range);
            });
        }
    }

    fn change_modules<R>(&mut self, change: impl FnOnce(&mut Modules) -> R) -> R {
        let (probes, _) = self.machine.parts();
        probes.facts.change_modules(change)
    }

    /// Handles the init text that the guest has freed: its probes are gone.
    fn init_text_is_gone(&mut self) {
        self.with_probes(|probes| {
            probes.notes.init_dealt_with();
            probes.facts.init_is_freed();
        });
        if let Some(range) = self.machine.listener().facts.init_range() {
            self.with_engine(|engine, guest| engine.give_up_range(guest, range));
        }
    }

    fn with_probes(&mut self, with: impl FnOnce(&mut Probes)) {
        let (probes, _) = self.machine.parts();
        with(probes);
    }

    /// Starts to measure the host time of hits of all present probes, in addition to those measured already. It costs
    /// two reads of the host's clock per trap.
    pub fn time_hits(&mut self) {
        let addresses = self.with_engine(|engine, guest| engine.summary(guest)).into_iter().map(|summary| summary.address);
        self.with_probes(|probes| match &mut probes.timing {
            Some(before) => before.add(addresses),
            none => *none = Some(Timing::of(addresses)),
        });
    }

    /// Host nanoseconds per hit at this address, from trap to resume. The return of a return probe is not included.
    pub fn host_ns_per_hit(&self, address: u64) -> Option<f64> {
        self.machine.listener().timing.as_ref()?.per_hit(address)
    }

    /// The machine, for its console, RAM, clock and counts.
    pub fn machine(&self) -> &Machine<Probes> {
        &self.machine
    }

    /// The machine, to change it between two runs.
    pub fn machine_mut(&mut self) -> &mut Machine<Probes> {
        &mut self.machine
    }

    /// The guest's work on its own text at probes, by function.
    pub fn text_work(&self) -> &BTreeMap<&'static str, Done> {
        self.machine.listener().patchers.done()
    }

    /// The kernel that runs.
    pub fn kernel(&self) -> &Kernel {
        self.machine.listener().facts.kernel()
    }

    /// The engine, read-only.
    pub fn engine(&self) -> &Engine {
        &self.machine.listener().engine
    }
}
