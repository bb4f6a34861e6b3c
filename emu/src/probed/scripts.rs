//! Runs scripts in bpftrace's language on a session (BY-1). [`Facts`] gives the compiler symbols and types of the kernel's
//! image, [`Script`] is a compiled script, and [`Tracing`] one that was started. The engine runs scripts at hits; this file
//! starts and ends them and runs their timers.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use trapline::{boot::Kernel, machine::Config, probed::{Session, scripts::{Facts, How, Script}}};
//! # let bytes = trapline_images::find("tiny/x86_64").ok_or("not built in")?.bytes;
//! let kernel = Kernel::from_bytes(bytes)?;
//! let script = Script::compile("kprobe:vfs_read { @[comm] = count(); }", &Facts::of(&kernel), &Default::default())
//!     .map_err(|errors| errors[0].clone())?;
//! let mut session = Session::new(kernel, &Config::default())?;
//! let mut tracing = session.start_script(script, &How::default())?;
//! session.trace_until(std::slice::from_mut(&mut tracing), 2_000_000_000);
//! session.end_script(&mut tracing);
//! print!("{}", String::from_utf8_lossy(&session.take_script_output(&tracing).0));
//! # Ok(())
//! # }
//! ```

use super::{Session, kernel_stack};
use crate::boot::btf::Btf;
use crate::boot::btf::types::GuestTypes;
use crate::boot::guest_files::{FileError, GuestFiles};
use crate::boot::{Kernel, exports, system_calls, tracepoints};
use crate::machine::Stop;
use crate::symbols::pattern::Pattern;
use crate::symbols::{Entry, Symbols};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use trapline_isa::arch::Isa;
use trapline_probes::Refusal;
use trapline_probes::guest::Cpu;
use trapline_probes::tracepoint::Tracepoint;
use trapline_probes::unwind::Stacks;
use trapline_probes::user::Usdt;
use trapline_script::attach::{Attached, Outside, ScriptId};
use trapline_script::past::Past;
use trapline_script::run::{Secret, Settings};
use trapline_script::show::Style;
use trapline_script::types::Types;
use trapline_script::{Knowledge, Options, PointKind, Program, ScriptError, SystemCallShown, compile};

/// The compiler's source of knowledge about a kernel: symbols, types, tracepoints and system calls of its image.
pub struct Facts<'a> {
    kernel: &'a Kernel,
    types: Option<GuestTypes<'a>>,
    /// The kernel's tracepoints, computed at first use.
    tracepoints: OnceCell<Vec<Arc<Tracepoint>>>,
    /// The names that exactly one function has, sorted.
    functions: OnceCell<Vec<&'a str>>,
    /// The names of the system calls by number. The whole image is read for them.
    system_calls: OnceCell<Arc<[String]>>,
    /// Exports that were searched for in the image.
    exported: RefCell<HashMap<String, Option<u64>>>,
    /// The guest's files, for probes in user programs.
    files: GuestFiles,
}

/// The largest number of exported names that are searched for. Each search reads the whole image.
const MOST_EXPORTS: usize = 256;

impl<'a> Facts<'a> {
    /// Facts with the type information of the image, if it has any.
    pub fn of(kernel: &'a Kernel) -> Facts<'a> {
        Facts::made(kernel, Btf::of(kernel))
    }

    /// Facts with type information from a file.
    pub fn with_types(kernel: &'a Kernel, types: Btf<'a>) -> Facts<'a> {
        Facts::made(kernel, Some(types))
    }

    fn made(kernel: &'a Kernel, types: Option<Btf<'a>>) -> Facts<'a> {
        Facts {
            kernel,
            types: types.map(GuestTypes::new),
            tracepoints: OnceCell::new(),
            functions: OnceCell::new(),
            system_calls: OnceCell::new(),
            exported: RefCell::default(),
            files: GuestFiles::default(),
        }
    }

    /// Sets the guest's files whose functions scripts may name.
    pub fn know_files(&mut self, files: GuestFiles) {
        self.files = files;
    }
}

impl Facts<'_> {
    /// The system calls that have tracepoints.
    pub fn system_calls(&self) -> Vec<SystemCallShown> {
        SystemCallShown::all(self)
    }
}

impl<'a> Facts<'a> {
    fn exported(&self, name: &str) -> Option<u64> {
        let mut known = self.exported.borrow_mut();
        if let Some(found) = known.get(name) {
            return *found;
        }
        let found = (known.len() < MOST_EXPORTS).then(|| exports::find(self.kernel, name)).flatten();
        known.insert(name.into(), found);
        found
    }

    fn named_functions(&self) -> &[&'a str] {
        let collect = || {
            let texts = texts(&self.kernel.symbols);
            let is_code = |entry: &&Entry| entry.is_text() && texts.iter().any(|text| text.contains(&entry.address));
            let mut names: Vec<&str> = self.kernel.symbols.places().iter().filter(is_code).map(|entry| &*entry.name).collect();
            names.sort_unstable();
            // A name shared by several functions cannot be used.
            names
                .chunk_by(|one, other| one == other)
                .filter_map(|same| if let [name] = same { Some(*name) } else { None })
                .collect()
        };
        self.functions.get_or_init(collect)
    }
}

impl Knowledge for Facts<'_> {
    fn isa(&self) -> &'static Isa {
        self.kernel.arch.isa()
    }

    fn types(&self) -> Option<&dyn Types> {
        self.types.as_ref().map(|types| types as &dyn Types)
    }

    fn address(&self, name: &str) -> Option<u64> {
        self.kernel.symbols.address_of(name)
    }

    fn data(&self, name: &str) -> Option<u64> {
        self.address(name).or_else(|| self.exported(name))
    }

    fn tracepoints(&self, group: &str, name: &str) -> Vec<Arc<Tracepoint>> {
        let all = self
            .tracepoints
            .get_or_init(|| self.types.as_ref().map_or_else(Vec::new, |types| tracepoints::of(self.kernel, types.btf())));
        let (group, name) = (Pattern::new(group), Pattern::new(name));
        let is_meant = |event: &&Arc<Tracepoint>| group.matches(&event.group) && name.matches(&event.name);
        all.iter().filter(is_meant).cloned().collect()
    }

    fn system_call_names(&self) -> Arc<[String]> {
        Arc::clone(self.system_calls.get_or_init(|| system_calls::names(self.kernel).into()))
    }

    fn functions(&self, wanted: &str, _returns: bool) -> Vec<String> {
        let wanted = Pattern::new(wanted);
        self.named_functions().iter().filter(|name| wanted.matches(name)).map(|name| name.to_string()).collect()
    }

    fn program_functions(&self, path: &str, wanted: &str) -> Result<Vec<String>, String> {
        let path = self.files.resolved(path);
        let program = self.files.program(&path).map_err(|error| error.to_string())?;
        if program.functions().is_empty() {
            return Err(FileError::NoSymbols(path).to_string());
        }
        let wanted = Pattern::new(wanted);
        let names = program.functions().iter().map(|function| function.name.as_str()).filter(|name| wanted.matches(name));
        let mut names: Vec<String> = names.map(String::from).collect();
        names.dedup();
        Ok(names)
    }

    fn program_offset(&self, path: &str, address: u64) -> Option<u64> {
        self.files.program(&self.files.resolved(path)).ok()?.offset_at(address)
    }

    fn program_address(&self, path: &str, name: &str) -> Option<u64> {
        let program = self.files.program(&self.files.resolved(path)).ok()?;
        program.address_at(program.offset_of(name)?)
    }

    fn program_path(&self, name: &str) -> Option<String> {
        self.files.located(name)
    }

    fn program_size(&self, path: &str) -> u64 {
        self.files.program(&self.files.resolved(path)).map_or(0, |program| program.size() as u64)
    }

    fn usdt(&self, path: &str, provider: &str, name: &str) -> Result<Vec<Usdt>, String> {
        let path = self.files.resolved(path);
        let program = self.files.program(&path).map_err(|error| error.to_string())?;
        Ok(program.usdt(self.kernel.arch.isa(), provider, name))
    }

    fn names(&self) -> u64 {
        self.named_functions().len() as u64
    }
}

/// The address ranges of the kernel's own code.
pub(super) fn texts(symbols: &Symbols) -> Vec<Range<u64>> {
    let range = |start, end| Some(symbols.address_of(start)?..symbols.address_of(end)?);
    [range("_stext", "_etext"), range("_sinittext", "_einittext")].into_iter().flatten().collect()
}

/// A compiled script.
pub struct Script {
    program: Program,
    past: Option<Box<dyn Past>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("program", &self.program).field("has_past", &self.past.is_some()).finish()
    }
}

impl Script {
    /// Compiles a script for a kernel. Returns all errors.
    pub fn compile(text: &str, facts: &Facts<'_>, options: &Options) -> Result<Script, Vec<ScriptError>> {
        compile(text, facts, options).map(|program| Script { program, past: None })
    }

    /// Gives the script access to the past of a recorded run, for questions such as who wrote a word last
    /// ([`Options::has_past`]).
    pub fn with_past(self, past: impl Past + 'static) -> Script {
        Script { past: Some(Box::new(past)), ..self }
    }

    /// The compiled program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// The settings for running a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// The format of its output.
    pub style: Style,
    /// The seed of `rand`.
    pub seed: u64,
    /// The secret of the maps' hash function. `None`: random numbers of the host, so that a guest cannot choose keys that
    /// collide. Measurements set one, so that they count the same host instructions every time.
    pub secret: Option<Secret>,
}

/// A secret from the host's random numbers.
fn random_secret() -> Secret {
    let random = || RandomState::new().build_hasher().finish();
    Secret(random(), random())
}

/// The guest's wall-clock time at its start, in nanoseconds since 1970: 2026-01-01, as in `devices/rtc.rs`.
const EPOCH: u64 = 1_767_225_600_000_000_000;

/// A script that was started on a session.
#[derive(Debug)]
pub struct Tracing {
    id: ScriptId,
    probes: Vec<(String, Attached)>,
    refused: Vec<(String, Refusal)>,
    clocks: Vec<Clock>,
    /// The number of its attach points, refused ones included.
    points: usize,
    has_ended: bool,
}

/// A timer of a script (`interval`, `profile`). Times are guest times in nanoseconds.
#[derive(Debug)]
struct Clock {
    kind: PointKind,
    period: u64,
    next: u64,
}

impl Tracing {
    /// Its probes, with the names of their attach points.
    pub fn probes(&self) -> &[(String, Attached)] {
        &self.probes
    }

    /// The functions that matched a pattern but may not be probed, with the reasons.
    pub fn refused(&self) -> &[(String, Refusal)] {
        &self.refused
    }

    /// The number of attach points without the refused ones.
    pub fn attached(&self) -> usize {
        self.points - self.refused.len()
    }

    /// The virtual time at which its next timer fires.
    pub fn next_tick(&self) -> Option<u64> {
        self.clocks.iter().map(|clock| clock.next).min()
    }
}

/// An attach point of a script that the engine refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: {refusal}")]
pub struct Unattached {
    /// The attach point.
    pub name: String,
    /// Its place in the script.
    pub at: trapline_script::error::Span,
    /// The reason.
    pub refusal: Refusal,
}

impl Session {
    /// Runs a script's BEGIN block and attaches its probes. If a probe that is named exactly is refused, all are
    /// removed again.
    pub fn start_script(&mut self, script: Script, how: &How) -> Result<Tracing, Unattached> {
        let Script { program, past } = script;
        let now = self.machine().now();
        let settings = Settings {
            style: how.style,
            started: now,
            epoch: EPOCH,
            seed: how.seed,
            secret: how.secret.unwrap_or_else(random_secret),
            cpus: self.with_engine(|_, guest| guest.cpus()),
            names: Box::new(self.names_for(&program)),
        };
        let stacks = self.stacks();
        let points: Vec<_> = program.blocks.iter().map(|block| block.points.clone()).collect();
        let id = self.with_engine(|engine, _| ScriptId::add(engine, program, settings, stacks));
        let count = points.iter().map(Vec::len).sum();
        let mut tracing =
            Tracing { id, probes: Vec::new(), refused: Vec::new(), clocks: Vec::new(), points: count, has_ended: false };
        self.with_engine(|engine, _| {
            if let Some(running) = id.of(engine) {
                running.state().announce(count);
                if let Some(past) = past {
                    running.state().give_past(past);
                }
            }
        });
        self.run_script_at(id, &PointKind::Begin, now);
        for (block, points) in points.iter().enumerate() {
            for (number, point) in points.iter().enumerate() {
                if let PointKind::Interval(period) | PointKind::Profile(period) = point.kind {
                    if tracing.clocks.iter().all(|clock| clock.kind != point.kind) {
                        tracing.clocks.push(Clock { kind: point.kind.clone(), period, next: now.saturating_add(period) });
                    }
                    continue;
                }
                match self.with_engine(|engine, guest| id.attach(engine, guest, block, number)) {
                    Ok(Some(attached)) => tracing.probes.push((point.name.clone(), attached)),
                    Ok(None) => {}
                    Err(refusal) if point.of_pattern => tracing.refused.push((point.name.clone(), refusal)),
                    Err(refusal) => {
                        self.detach(&mut tracing);
                        return Err(Unattached { name: point.name.clone(), at: point.at, refusal });
                    }
                }
            }
        }
        Ok(tracing)
    }

    /// The way to unwind this guest's stacks: by tables, by frames, or by guessing from the words on them.
    pub fn stacks(&self) -> Stacks {
        self.machine().listener().facts.stacks()
    }

    /// Runs until this virtual time in nanoseconds, with the scripts' timers. Ends early if a script ends the tracing
    /// or the machine stops for another reason.
    pub fn trace_until(&mut self, scripts: &mut [Tracing], nanoseconds: u64) -> Stop {
        loop {
            let next = scripts.iter().filter_map(Tracing::next_tick).min().unwrap_or(u64::MAX);
            let stop = self.run_until(next.min(nanoseconds));
            self.tick_scripts(scripts);
            let ended = scripts.iter().any(|script| self.script_exit(script).is_some());
            if stop != Stop::Limit || ended || self.machine().now() >= nanoseconds {
                return stop;
            }
        }
    }

    /// Runs the scripts' timers that are due, each tick once.
    pub fn tick_scripts(&mut self, scripts: &mut [Tracing]) {
        let now = self.machine().now();
        for script in scripts {
            while let Some(clock) = script.clocks.iter_mut().filter(|clock| clock.next <= now).min_by_key(|clock| clock.next) {
                clock.next = clock.next.saturating_add(clock.period);
                let kind = clock.kind.clone();
                self.run_script_at(script.id, &kind, now);
            }
        }
    }

    /// Runs a script's BEGIN, END or timer blocks of this kind: on every CPU for `profile`, on the first CPU otherwise.
    fn run_script_at(&mut self, id: ScriptId, kind: &PointKind, now: u64) {
        // The script belongs to the listener and the CPU to the machine. The script is taken out while it has access to
        // the CPU.
        let Some(mut running) = id.take(&mut self.machine.parts().0.engine) else { return };
        let isa = self.kernel().arch.isa();
        // BEGIN and END blocks run outside the guest's tasks, so they see its memory but get the name `trapline`.
        let name = matches!(kind, PointKind::Begin | PointKind::End).then_some("trapline");
        let cpus = if matches!(kind, PointKind::Profile(_)) { running.state().cpus() } else { 1 };
        let stacks = OnceCell::new();
        for cpu in 0..cpus as usize {
            // `interval` runs on the first CPU only.
            self.machine.look_at_with_listener(cpu, |listener, view| {
                let in_user = name.is_none() && !view.in_kernel();
                let mut kernel_stack = |cpu: &mut dyn Cpu, into: &mut [u64]| {
                    let stacks = stacks.get_or_init(|| listener.facts.stacks());
                    kernel_stack::write(cpu, &listener.engine, stacks, into)
                };
                running.run_at(kind, &mut Outside { cpu: view, now, name, in_user, kernel_stack: &mut kernel_stack, isa });
            });
        }
        id.give_back(&mut self.machine.parts().0.engine, running);
    }

    /// The status with which a script ended the tracing, if it did.
    pub fn script_exit(&mut self, script: &Tracing) -> Option<u64> {
        self.with_engine(|engine, _| script.id.of(engine).and_then(|running| running.state().exit()))
    }

    /// The reason why a script was stopped for breaking a limit, if it was.
    pub fn script_failure(&mut self, script: &Tracing) -> Option<&'static str> {
        self.with_engine(|engine, _| script.id.of(engine).and_then(|running| running.state().failure()))
    }

    /// Takes a script's output and its warnings.
    pub fn take_script_output(&mut self, script: &Tracing) -> (Vec<u8>, Vec<u8>) {
        self.with_engine(|engine, _| {
            script.id.of(engine).map_or_else(Default::default, |running| {
                let state = running.state();
                (state.take_output(), state.take_warnings())
            })
        })
    }

    /// The number of values that were lost because a map was full, by map.
    pub fn script_losses(&mut self, script: &Tracing) -> Vec<(String, u64)> {
        self.with_engine(|engine, _| {
            let lost = script.id.of(engine).map(|running| running.lost()).unwrap_or_default();
            lost.into_iter().map(|(name, count)| (name.to_string(), count)).collect()
        })
    }

    /// The number of times that a script asked for the last write of a word and got no answer.
    pub fn script_unanswered(&mut self, script: &Tracing) -> u64 {
        self.with_engine(|engine, _| script.id.of(engine).map_or(0, |running| running.state().unanswered()))
    }

    /// Removes a script's probes, runs its END block and prints its maps.
    pub fn end_script(&mut self, script: &mut Tracing) {
        if std::mem::replace(&mut script.has_ended, true) {
            return;
        }
        self.detach(script);
        let now = self.machine().now();
        self.with_engine(|engine, _| {
            if let Some(running) = script.id.of(engine) {
                running.state().forget_exit();
            }
        });
        self.run_script_at(script.id, &PointKind::End, now);
        self.with_engine(|engine, _| {
            if let Some(running) = script.id.of(engine) {
                running.print_maps();
            }
        });
    }

    fn detach(&mut self, script: &mut Tracing) {
        for (_, probe) in &script.probes {
            self.unregister_attached(probe);
        }
        script.clocks.clear();
    }

    fn unregister_attached(&mut self, probe: &Attached) {
        match probe {
            Attached::Kprobe(probe) => self.unregister_kprobe(probe),
            Attached::Kretprobe(probe) => self.unregister_kretprobe(probe),
            Attached::Watchpoint(watchpoint) => self.unregister_watchpoint(watchpoint),
            Attached::WatchObject(setter, watchpoint) => {
                self.unregister_attached(setter);
                self.unregister_watchpoint(watchpoint);
            }
            Attached::Tracepoint(probes) => self.with_engine(|engine, guest| engine.unregister_kprobes(guest, probes)),
            Attached::User(probe) => self.unregister_user(probe),
        }
    }
}
