//! Connects events to the engine: adds, removes and enables their probes. Each probe's handler runs the event's fetch
//! programs and writes a record to the engine's ring.

use super::error::{Code, EventError};
use super::fetch::Programs;
use super::format::{DEEPEST, put_stack};
use super::memory::Memory;
use super::parse::{self, Definition, EventCommand, Location, Removal};
use super::set::{Applied, Attached, EventSet, Member, bound_again};
use super::triggers::events_of;
use super::watch;
use crate::context::{Frame, Hit};
use crate::engine::Engine;
use crate::guest::{Guest, Symbol};
use crate::probe::{Flow, Jprobe, Kprobe, Kretprobe};
use crate::records::EventId;
use crate::unwind::Stacks;
use crate::user::{Place, UserProbe};
use crate::watch::{Access, Watchpoint};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::plan::{Errno, Refusal};

impl EventSet {
    /// Executes one line of `kprobe_events`. Returns the event that a probe was added to, if one was added.
    pub fn apply(&mut self, engine: &mut Engine, guest: &mut dyn Guest, line: &str) -> Result<Option<EventId>, EventError> {
        match parse::line(line)? {
            None => Ok(None),
            Some(command) => self.carry_out(engine, guest, command).map(|applied| applied.added),
        }
    }

    /// Executes a parsed line.
    pub fn carry_out(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        command: EventCommand,
    ) -> Result<Applied, EventError> {
        match command {
            EventCommand::Add(definition) => {
                self.add(engine, guest, definition).map(|event| Applied { added: Some(event), removed: Vec::new() })
            }
            EventCommand::Remove(removal) => self.remove(engine, guest, &removal).map(|removed| Applied { added: None, removed }),
        }
    }

    /// Adds a probe to its event. The probe is disabled, unless the event exists and is enabled.
    pub fn add(&mut self, engine: &mut Engine, guest: &mut dyn Guest, definition: Definition) -> Result<EventId, EventError> {
        let prepared = self.prepare(guest, &|at, into| engine.read_original(guest, at, into), definition)?;
        if engine.policy().is_linux() && prepared.is_there {
            refuse_notrace(guest, &prepared.definition)?;
        }
        let probe = match prepared.is_there {
            true => register(
                engine,
                guest,
                &prepared.definition,
                &prepared.programs,
                prepared.event,
                (self.is_enabled(prepared.event), &self.stacks),
            )?,
            false => Attached::Pending,
        };
        if engine.state.watch.get(prepared.event).is_some() {
            prepared.programs.set_watched(true);
        }
        Ok(self.insert(prepared, probe))
    }

    /// Removes the probes that the line names and unregisters them. Returns them with their counters.
    pub fn remove(&mut self, engine: &mut Engine, guest: &mut dyn Guest, removal: &Removal) -> Result<Vec<Member>, EventError> {
        let members = self.take(removal)?;
        unregister(engine, guest, &members);
        self.forget_watched(engine, &events_of(&members));
        self.forget_removed(|| engine.records().events());
        Ok(members)
    }

    /// Removes all events, enabled or not, as truncating the kernel's file does.
    pub fn clear(&mut self, engine: &mut Engine, guest: &mut dyn Guest) {
        let members = self.take_all();
        unregister(engine, guest, &members);
        self.forget_watched(engine, &events_of(&members));
        self.forget_removed(|| engine.records().events());
    }

    /// Enables or disables all probes of an event. Probes whose text is gone or not loaded yet are skipped. If one
    /// cannot be enabled, none is. While triggers need the probes, they stay armed and only their records are held back.
    pub fn enable(&mut self, engine: &mut Engine, guest: &mut dyn Guest, event: EventId, enabled: bool) -> Result<(), Refusal> {
        match self.switch_softly(engine, event, enabled) {
            true => Ok(()),
            false => self.arm(engine, guest, event, enabled),
        }
    }

    /// Switches the records of an event whose probes triggers keep armed. Returns false for other events.
    fn switch_softly(&mut self, engine: &mut Engine, event: EventId, enabled: bool) -> bool {
        let is_armed = self.is_enabled(event);
        match engine.state.watch.get_mut(event) {
            Some(watched) if watched.soft_mode > 0 && is_armed => {
                watched.soft_disabled = !enabled;
                true
            }
            _ => false,
        }
    }

    /// Arms or disarms all probes of an event.
    pub(super) fn arm(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        enabled: bool,
    ) -> Result<(), Refusal> {
        let probes: Vec<Kprobe> = self.members_of(event).filter_map(|member| live(&member.probe)).collect();
        let programs: Vec<UserProbe> = self.members_of(event).filter_map(|member| of_program(&member.probe)).collect();
        self.enable_probes(engine, guest, event, (&probes, &programs), enabled)
    }

    fn enable_probes(
        &mut self,
        engine: &mut Engine,
        guest: &mut dyn Guest,
        event: EventId,
        (probes, programs): (&[Kprobe], &[UserProbe]),
        enabled: bool,
    ) -> Result<(), Refusal> {
        for (done, probe) in probes.iter().enumerate() {
            if let Err(refusal) = switch(engine, guest, probe, enabled) {
                for undone in &probes[..done] {
                    if let Err(another) = switch(engine, guest, undone, !enabled) {
                        engine.say(alloc::format!("{undone} could not be switched back: {another}"));
                    }
                }
                return Err(refusal);
            }
        }
        programs.iter().for_each(|probe| probe.set_disabled(!enabled));
        for member in self.members_of(event) {
            if let Attached::Watchpoint(watchpoint) = &member.probe {
                engine.enable_watchpoint(watchpoint, enabled);
            }
        }
        self.set_enabled(event, enabled);
        Ok(())
    }

    /// Enables or disables every event. Stops at the first refusal.
    pub fn enable_all(&mut self, engine: &mut Engine, guest: &mut dyn Guest, enabled: bool) -> Result<(), Refusal> {
        let mut events: BTreeMap<EventId, (Vec<Kprobe>, Vec<UserProbe>)> = BTreeMap::new();
        for member in self.members() {
            let (probes, programs) = events.entry(member.event).or_default();
            probes.extend(live(&member.probe));
            programs.extend(of_program(&member.probe));
        }
        events.into_iter().try_for_each(|(event, (probes, programs))| match self.switch_softly(engine, event, enabled) {
            true => Ok(()),
            false => self.enable_probes(engine, guest, event, (&probes, &programs), enabled),
        })
    }

    /// Registers the probes and watchpoints that waited for a module, after it was loaded. Returns those that could not
    /// be registered; they keep waiting.
    pub fn module_came(&mut self, engine: &mut Engine, guest: &mut dyn Guest) -> Vec<(EventId, EventError)> {
        let mut failed = Vec::new();
        let waiting = self.by_number().iter().filter(|(_, member)| live(&member.probe).is_none());
        let numbers: Vec<u32> = waiting.map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(member) = self.by_number().get(&number).cloned() else { continue };
            let name = match &member.definition.location {
                Location::Symbol { name, .. } => Some(name.as_str()).filter(|name| name.contains(':')),
                Location::Memory(memory) => memory.module_symbol(),
                Location::Address(_) | Location::File { .. } => None,
            };
            if name.is_none_or(|name| guest.symbol(name).is_none()) {
                continue;
            }
            unregister(engine, guest, core::slice::from_ref(&member));
            let enabled = self.is_enabled(member.event);
            let bound = bound_again(&member.definition, guest, &|at, into| engine.read_original(guest, at, into)).map(Arc::new);
            let registered = bound.and_then(|programs| {
                programs.set_watched(member.programs.is_watched());
                register(engine, guest, &member.definition, &programs, member.event, (enabled, &self.stacks))
                    .map(|probe| (probe, programs))
            });
            let (probe, programs) = registered.unwrap_or_else(|error| {
                failed.push((member.event, error));
                (Attached::Pending, Arc::clone(&member.programs))
            });
            if let Some(member) = self.by_number().get_mut(&number) {
                member.replace(probe, programs);
            }
        }
        failed
    }
}

/// Registers the probe of a definition, with a handler that writes the event's records.
fn register(
    engine: &mut Engine,
    guest: &mut dyn Guest,
    definition: &Definition,
    programs: &Arc<Programs>,
    event: EventId,
    (enabled, stacks): (bool, &Option<Arc<Stacks>>),
) -> Result<Attached, EventError> {
    let place = match &definition.location {
        Location::Memory(memory) => {
            return register_watchpoint(engine, guest, memory, (definition, programs, event), (enabled, stacks));
        }
        Location::Address(address) => Kprobe::at_address(*address),
        Location::Symbol { name, offset } => Kprobe::at(name.as_str()).offset(*offset),
        Location::File { path, place } => {
            let probe = in_program(definition, (path, place), programs, event);
            engine.register_user(guest, &probe).map_err(|refusal| failed(definition, refusal))?;
            probe.set_disabled(!enabled);
            return Ok(Attached::User(probe));
        }
    };
    let place = if enabled { place } else { place.disabled() };
    let (programs, stacks) = (Arc::clone(programs), stacks.clone());
    if stacks.is_some() {
        programs.leave_stacks();
    }
    let registered = if definition.returns {
        let probe = Kretprobe::on(place).maxactive(definition.maxactive as i32).handler(move |hit| {
            leave(hit, event, &programs, &stacks, None);
        });
        engine.register_kretprobe(guest, &probe).map(|()| Attached::Kretprobe(probe))
    } else if definition.mirrors {
        let probe = Jprobe::on(place).host(move |hit| {
            leave(hit, event, &programs, &stacks, None);
        });
        engine.register_jprobe(guest, &probe).map(|()| Attached::Jprobe(probe))
    } else {
        let probe = place.pre(move |hit| {
            leave(hit, event, &programs, &stacks, None);
            Flow::Continue
        });
        engine.register_kprobe(guest, &probe).map(|()| Attached::Kprobe(probe))
    };
    registered.map_err(|refusal| failed(definition, refusal))
}

/// The error of a line whose probe was refused.
fn failed(definition: &Definition, refusal: Refusal) -> EventError {
    let code = match refusal.errno {
        Errno::EILSEQ => Code::BAD_INSN_BNDRY,
        Errno::ENOENT => Code::BAD_PROBE_ADDR,
        _ => Code::FAIL_REG_PROBE,
    };
    definition.location_at.error(code, refusal.why).with_errno(refusal.errno)
}

/// A probe in a user program, whose handler writes the event's records.
fn in_program(definition: &Definition, (path, place): (&str, &Place), programs: &Arc<Programs>, event: EventId) -> UserProbe {
    let programs = Arc::clone(programs);
    match definition.returns {
        true => UserProbe::returning(path, place.clone(), move |hit| leave(hit, event, &programs, &None, None)),
        false => UserProbe::at(path, place.clone(), move |hit| leave(hit, event, &programs, &None, None)),
    }
}

/// Registers the watchpoint of a watch event. One on memory of a module that is not loaded is only prepared.
fn register_watchpoint(
    engine: &mut Engine,
    guest: &mut dyn Guest,
    memory: &Memory,
    (definition, programs, event): (&Definition, &Arc<Programs>, EventId),
    (enabled, stacks): (bool, &Option<Arc<Stacks>>),
) -> Result<Attached, EventError> {
    let at = definition.location_at;
    let (programs, stacks) = (Arc::clone(programs), stacks.clone());
    if stacks.is_some() {
        programs.leave_stacks();
    }
    let watchpoint = Watchpoint::on(memory.area(guest, at)?).on_hit(move |hit| {
        let access = *hit.access();
        leave(hit, event, &programs, &stacks, Some(&access));
    });
    engine.enable_watchpoint(&watchpoint, enabled);
    if memory.is_nowhere() {
        engine.prepare_watchpoint(&watchpoint);
        return Ok(Attached::Watchpoint(watchpoint));
    }
    let refused = |refusal: Refusal| at.error(Code::FAIL_REG_PROBE, refusal.why).with_errno(refusal.errno);
    engine.register_watchpoint(guest, &watchpoint).map_err(refused)?;
    Ok(Attached::Watchpoint(watchpoint))
}

/// Writes the record of a hit, with its call chain if that is wanted. `access` is that of a watchpoint.
#[inline]
fn leave(hit: &mut Hit<'_>, event: EventId, programs: &Programs, stacks: &Option<Arc<Stacks>>, access: Option<&Access>) {
    match programs.is_plain() {
        true => {
            hit.emit(event, |cpu, payload| programs.run(cpu, access, payload));
        }
        false => leave_more(hit, event, programs, stacks, access),
    }
}

/// Writes the record of a hit that has a call chain, a filter or triggers.
#[cold]
fn leave_more(hit: &mut Hit<'_>, event: EventId, programs: &Programs, stacks: &Option<Arc<Stacks>>, access: Option<&Access>) {
    match stacks {
        _ if programs.is_watched() => watch::leave(hit, event, (programs, access), stacks),
        Some(stacks) => {
            let mut frames = [Frame::default(); DEEPEST];
            let count = stacks.of(hit, &mut frames);
            hit.emit(event, |cpu, payload| {
                programs.run(cpu, access, payload);
                put_stack(payload, &frames[..count]);
            });
        }
        None => {}
    }
}

/// Refuses an event in a notrace function, as Linux does for its events (though not for its kprobes). A function with a
/// suffix, such as `.isra.0`, counts as the one without it.
fn refuse_notrace(guest: &dyn Guest, definition: &Definition) -> Result<(), EventError> {
    let symbol = match &definition.location {
        Location::Memory(_) => None,
        Location::Address(address) => guest.symbol_at(*address),
        Location::Symbol { name, offset } => {
            guest.symbol(name).and_then(|symbol| guest.symbol_at(symbol.start.wrapping_add(u64::from(*offset))))
        }
        Location::File { .. } => None,
    };
    let Some(symbol) = symbol else { return Ok(()) };
    let is_traced = |symbol: &Symbol| guest.is_traced(symbol.start..symbol.start.wrapping_add(symbol.size));
    let whole = symbol.name.split_once('.').and_then(|(whole, _)| guest.symbol(whole));
    if is_traced(&symbol) != Some(false) || whole.is_some_and(|whole| is_traced(&whole) != Some(false)) {
        return Ok(());
    }
    let why = format!(
        "{} is a notrace function, where Linux 6.1 makes no events: --policy best probes it, and so does a kprobe of a module",
        symbol.name
    );
    Err(definition.location_at.error(Code::FAIL_REG_PROBE, why))
}

fn unregister(engine: &mut Engine, guest: &mut dyn Guest, members: &[Member]) {
    let kprobes: Vec<Kprobe> = members.iter().filter_map(|member| probe_of(&member.probe)).collect();
    engine.unregister_kprobes(guest, &kprobes);
    for probe in members.iter().filter_map(|member| of_program(&member.probe)) {
        engine.unregister_user(guest, &probe);
    }
    for member in members {
        if let Attached::Watchpoint(watchpoint) = &member.probe {
            engine.unregister_watchpoint(watchpoint);
        }
    }
}

fn switch(engine: &mut Engine, guest: &mut dyn Guest, probe: &Kprobe, enabled: bool) -> Result<(), Refusal> {
    if enabled { engine.enable_kprobe(guest, probe) } else { engine.disable_kprobe(guest, probe) }
}

/// The kprobe of either kind, `None` if it is not registered.
fn probe_of(probe: &Attached) -> Option<Kprobe> {
    match probe {
        Attached::Kprobe(probe) => Some(probe.clone()),
        Attached::Kretprobe(probe) => Some(probe.kprobe().clone()),
        Attached::Jprobe(probe) => Some(probe.kprobe().clone()),
        Attached::User(_) | Attached::Watchpoint(_) | Attached::Pending => None,
    }
}

/// The probe in a user program, if it is one.
fn of_program(probe: &Attached) -> Option<UserProbe> {
    if let Attached::User(probe) = probe { Some(probe.clone()) } else { None }
}

/// The kprobe of either kind, `None` if it is not registered or its text was freed.
fn live(probe: &Attached) -> Option<Kprobe> {
    probe_of(probe).filter(|probe| !probe.is_gone())
}
