//! [`EventSet`]: the events and their probes. It checks whether a definition fits the kernel and the existing events,
//! and writes the text of `kprobe_events` and `kprobe_profile`.

use super::error::{Code, EventError, Span};
use super::fetch::{Programs, Scope, unknown_symbol};
use super::format::{Field, Format, Stack};
use super::memory;
use super::names::Names;
use super::parse::{Definition, Location, Removal};
use super::text::is_identifier;
use super::watch::KERNEL_STACK;
use crate::guest::{Guest, Site};
use crate::probe::{Jprobe, Kprobe, Kretprobe};
use crate::records::EventId;
use crate::unwind::Stacks;
use crate::user::{Place, UserProbe};
use crate::watch::Watchpoint;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use trapline_isa::entry::{BEGINNING, Beginning};
use trapline_isa::mem::Fault;
use trapline_isa::plan::{Errno, Policy};

/// The group of events that name none.
pub const DEFAULT_GROUP: &str = "kprobes";

/// All events, in the order in which their probes were added.
#[derive(Debug, Default)]
pub struct EventSet {
    members: BTreeMap<u32, Member>,
    /// The number of the next new member.
    next_member: u32,
    /// The events that exist, and where their members are.
    names: Names,
    /// The format of each event. Those of removed events stay for records that are not yet read.
    known: BTreeMap<EventId, Known>,
    /// The id of the next new event.
    next: u32,
    /// Events without probes whose format is still known. The one that was removed first is at the front.
    removed: VecDeque<EventId>,
    /// The length of `removed` at which it is next searched for formats that no record needs.
    look_at: usize,
    /// Counts the members and formats that were visited, so that tests can compare the work of two sizes.
    pub(super) looked_at: u64,
    /// If set, new events record the call chain of each hit.
    pub(super) stacks: Option<Arc<Stacks>>,
}

/// An event that exists or was removed recently.
#[derive(Debug)]
struct Known {
    format: Format,
    enabled: bool,
}

/// The most probes that all events together may have.
const MOST_MEMBERS: usize = 65_535;

/// The largest number of places in the message about an ambiguous name.
const MOST_PLACES: usize = 8;

/// The number of removed events whose format is kept. Older formats are kept only while the ring has records of them.
const MOST_REMOVED: usize = 256;
/// The number of further removals before the removed events are searched for those that nobody needs any more.
const REMOVED_AT_ONCE: usize = 32;

/// One probe of an event.
#[derive(Clone, Debug)]
pub struct Member {
    /// The event that it belongs to.
    pub event: EventId,
    /// Its definition, with group and event names filled in.
    pub definition: Definition,
    /// Its fetch programs.
    pub programs: Arc<Programs>,
    /// The probe itself.
    pub probe: Attached,
    /// Counters of earlier probes of this member, from before its module was unloaded.
    pub(super) before: Before,
}

/// Counters of probes that no longer exist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    hits: u64,
    misses: u64,
}

/// The probe of a definition, once it is registered.
#[derive(Clone, Debug)]
pub enum Attached {
    /// A breakpoint probe.
    Kprobe(Kprobe),
    /// A return probe.
    Kretprobe(Kretprobe),
    /// A probe at a function's entry whose handler sees the arguments.
    Jprobe(Jprobe),
    /// A probe in a user program.
    User(UserProbe),
    /// A watchpoint of a watch event.
    Watchpoint(Watchpoint),
    /// Not registered yet: its module is not loaded.
    Pending,
}

/// A definition that passed every check except the registration of its probe.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The event that it creates or joins.
    pub event: EventId,
    /// The definition, with its names filled in.
    pub definition: Definition,
    /// Its fetch programs.
    pub programs: Arc<Programs>,
    /// Whether its symbol exists. If not, it names a module that may be loaded later.
    pub is_there: bool,
    format: Format,
}

/// Reads kernel text as it was before any probe was written.
pub(super) type OriginalText<'a> = &'a dyn Fn(u64, &mut [u8]) -> Result<(), Fault>;

/// The changes that a line has made.
#[derive(Debug)]
pub struct Applied {
    /// The event that a probe was added to.
    pub added: Option<EventId>,
    /// The probes that were removed, with their counters.
    pub removed: Vec<Member>,
}

impl EventSet {
    /// Makes events that are added from now on record the call chain of each hit, like ftrace's option `stacktrace`.
    pub fn leave_stacks(&mut self, stacks: Stacks) {
        self.stacks = Some(Arc::new(stacks));
    }

    /// Checks a definition against the kernel and the existing events, and fills in its names.
    pub(super) fn prepare(
        &self,
        guest: &dyn Guest,
        original: OriginalText<'_>,
        mut definition: Definition,
    ) -> Result<Prepared, EventError> {
        let target = resolve(&definition, guest, original)?;
        let scope = scope(&definition, &target);
        let programs = Arc::new(Programs::bind(&definition.arguments, scope, guest)?);
        let default = if scope.watches { memory::GROUP } else { DEFAULT_GROUP };
        let group = definition.group.get_or_insert_with(|| default.to_owned()).clone();
        if definition.event.is_none() {
            let name = definition.default_event();
            if !is_identifier(&name) {
                let message = "this symbol gives no valid event name; give a name: `p:NAME ...`";
                return Err(definition.location_at.error(Code::BAD_EVENT_NAME, message));
            }
            definition.event = Some(name);
        }
        let event = definition.event.clone().unwrap_or_default();
        let fields = definition.arguments.iter().map(|argument| Field {
            name: argument.name.clone(),
            stored: argument.kind.stored(guest.isa().word),
            count: argument.count,
        });
        let stack = self.stacks.as_ref().map(|stacks| Stack { is_guessed: stacks.rule.is_none() });
        let (returns, mirrors) = (definition.returns, definition.mirrors);
        let in_program = target.file_offset.is_some();
        let stack = stack.filter(|_| !in_program);
        let format = Format { group, event, returns, mirrors, in_program, fields: fields.collect(), stack };
        if self.members.len() >= MOST_MEMBERS {
            let why = "there are 65,535 events already, and Linux has no more numbers for them: remove some";
            return Err(definition.command_at.error(Code::FAIL_REG_PROBE, why).with_errno(Errno::ENOMEM));
        }
        let event = match self.find(&format.group, &format.event) {
            Some(existing) => self.joins(existing, &format, &definition).map(|()| existing)?,
            None => EventId(self.next),
        };
        Ok(Prepared { event, definition, programs, is_there: target.is_there, format })
    }

    /// Checks whether a definition may become another probe of an existing event.
    fn joins(&self, existing: EventId, format: &Format, definition: &Definition) -> Result<(), EventError> {
        let Some(Known { format: known, .. }) = self.known.get(&existing) else { return Ok(()) };
        let refused = |at: Span, code, why: String| Err(at.error(code, why).with_errno(Errno::EEXIST));
        let name = format!("{}/{}", known.group, known.event);
        let watches = |definition: &Definition| matches!(definition.location, Location::Memory(_));
        // All probes of an event are of one kind, so looking at the first one is enough.
        let first = self.members_of(existing).next();
        let is_other = first.is_some_and(|member| watches(&member.definition) != watches(definition));
        if (known.returns, known.mirrors) != (format.returns, format.mirrors) || is_other {
            let why = format!(
                "the event {name} exists and its probes are of another kind (probe, return probe, jprobe or watchpoint): choose another name"
            );
            return refused(definition.command_at, Code::DIFF_PROBE_TYPE, why);
        }
        if known.fields != format.fields {
            let same = known.fields.iter().zip(&format.fields).take_while(|(one, other)| one == other).count();
            let at = definition.arguments.get(same).map_or(end_of(definition), |argument| argument.at);
            let why = format!(
                "the event {name} exists with other arguments from here on: fetch the same names and types, or choose another name"
            );
            return refused(at, Code::DIFF_ARG_TYPE, why);
        }
        if self.names.has(&known.group, &known.event, definition) {
            return refused(
                definition.command_at,
                Code::SAME_PROBE,
                format!("the event {name} has exactly this probe already: leave this line out"),
            );
        }
        Ok(())
    }

    /// Adds a prepared definition and its probe. The set must not have changed since the preparation.
    pub(super) fn insert(&mut self, prepared: Prepared, probe: Attached) -> EventId {
        let Prepared { event, definition, programs, format, .. } = prepared;
        if event.0 == self.next {
            self.known.insert(event, Known { format, enabled: false });
            self.next += 1;
        }
        let member = Member { event, definition, programs, probe, before: Before::default() };
        let number = self.next_member;
        self.next_member += 1;
        self.names.insert((member.group(), member.name()), event, &member.definition, number);
        self.members.insert(number, member);
        event
    }

    /// Removes the events that a line `-:...` names. The caller unregisters the probes. Removes nothing if one of them is
    /// enabled.
    pub(super) fn take(&mut self, removal: &Removal) -> Result<Vec<Member>, EventError> {
        let chosen = self.names.chosen(removal);
        self.looked_at += chosen.len() as u64;
        if chosen.is_empty() {
            let why = "there is no such event: kprobe_events lists the existing ones";
            return Err(removal.at.error(Code::NO_SUCH_EVENT, why).with_errno(Errno::ENOENT));
        }
        let mut members = chosen.iter().filter_map(|number| self.members.get(number));
        if let Some(busy) = members.find(|member| self.is_enabled(member.event)) {
            let why = format!("the event {}/{} is enabled: disable it first", busy.group(), busy.name());
            return Err(removal.at.error(Code::EVENT_IN_USE, why).with_errno(Errno::EBUSY));
        }
        let gone: Vec<Member> = chosen.iter().filter_map(|number| self.members.remove(number)).collect();
        for member in &gone {
            self.removed.extend(self.names.remove((member.group(), member.name()), &member.definition));
        }
        Ok(gone)
    }

    /// Removes all probes.
    pub(super) fn take_all(&mut self) -> Vec<Member> {
        self.removed.extend(self.names.events(None, None));
        self.names = Names::default();
        core::mem::take(&mut self.members).into_values().collect()
    }

    /// The event of that name, if it exists.
    pub fn find(&self, group: &str, name: &str) -> Option<EventId> {
        self.names.find(group, name)
    }

    /// The events of this group and name, each once. A part that is not given matches any.
    pub fn named(&self, group: Option<&str>, name: Option<&str>) -> Vec<EventId> {
        self.names.events(group, name)
    }

    /// The probes of all events, in the order in which they were added.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &Member> {
        self.members.values()
    }

    /// The probes of one event.
    pub(super) fn members_of(&self, event: EventId) -> impl Iterator<Item = &Member> {
        let format = self.format(event).filter(|format| self.find(&format.group, &format.event) == Some(event));
        let numbers = format.into_iter().flat_map(|format| self.names.members(&format.group, &format.event));
        numbers.filter_map(|number| self.members.get(&number))
    }

    /// The probes of all events by their numbers, for attaching pending ones.
    pub(super) fn by_number(&mut self) -> &mut BTreeMap<u32, Member> {
        &mut self.members
    }

    /// The layout of an event's records. Still known for a while after the event's removal.
    pub fn format(&self, event: EventId) -> Option<&Format> {
        Some(&self.known.get(&event)?.format)
    }

    /// Makes the format of records that hold only a call chain known.
    pub(super) fn know_stacks(&mut self, is_guessed: bool) {
        let format = Format {
            group: "ftrace".to_owned(),
            event: "kernel_stack".to_owned(),
            returns: false,
            mirrors: false,
            in_program: false,
            fields: Vec::new(),
            stack: Some(Stack { is_guessed }),
        };
        self.known.insert(KERNEL_STACK, Known { format, enabled: false });
    }

    /// Whether the event's probes are armed: it is enabled, or triggers need its hits.
    pub fn is_enabled(&self, event: EventId) -> bool {
        self.known.get(&event).is_some_and(|known| known.enabled)
    }

    pub(super) fn set_enabled(&mut self, event: EventId, enabled: bool) {
        if let Some(known) = self.known.get_mut(&event) {
            known.enabled = enabled;
        }
    }

    /// Drops the formats of the events removed longest ago, unless the ring has records of them.
    pub(super) fn forget_removed(&mut self, unread: impl FnOnce() -> BTreeSet<EventId>) {
        if self.removed.len() < self.look_at.max(MOST_REMOVED + REMOVED_AT_ONCE) {
            return;
        }
        let unread = unread();
        self.looked_at += self.removed.len() as u64;
        let mut too_many = self.removed.len() - MOST_REMOVED;
        self.removed.retain(|event| {
            let stays = too_many == 0 || unread.contains(event);
            if !stays {
                too_many -= 1;
                self.known.remove(event);
            }
            stays
        });
        // If many stay because of their records, the next search waits for half as many removals.
        self.look_at = self.removed.len() + REMOVED_AT_ONCE.max((self.removed.len() - MOST_REMOVED) / 2);
    }

    /// The text of `kprobe_events`.
    pub fn text(&self) -> String {
        self.members().map(|member| format!("{}\n", member.shown())).collect()
    }

    /// The text of `kprobe_profile`.
    pub fn profile(&self) -> String {
        let mut text = String::new();
        for member in self.members() {
            let _ = writeln!(text, "  {:<44} {:>15} {:>15}", member.name(), member.hits(), member.misses());
        }
        text
    }
}

impl Member {
    /// The event's group.
    pub fn group(&self) -> &str {
        self.definition.group.as_deref().unwrap_or(DEFAULT_GROUP)
    }

    /// The event's name.
    pub fn name(&self) -> &str {
        self.definition.event.as_deref().unwrap_or_default()
    }

    /// Hits for which a record was written or attempted. For a return probe: returns.
    pub fn hits(&self) -> u64 {
        self.before.hits
            + match &self.probe {
                Attached::Kprobe(probe) => probe.hits(),
                Attached::Jprobe(probe) => probe.hits(),
                Attached::Kretprobe(probe) => probe.returns(),
                Attached::User(probe) => probe.hits(),
                Attached::Watchpoint(watchpoint) => watchpoint.hits(),
                Attached::Pending => 0,
            }
    }

    /// Hits whose handler could not run.
    pub fn misses(&self) -> u64 {
        self.before.misses
            + match &self.probe {
                Attached::Kprobe(probe) => probe.nmissed(),
                Attached::Jprobe(probe) => probe.kprobe().nmissed(),
                Attached::Kretprobe(probe) => probe.nmissed() + probe.kprobe().nmissed(),
                Attached::User(probe) => probe.missed(),
                Attached::Watchpoint(watchpoint) => watchpoint.changed_unseen(),
                Attached::Pending => 0,
            }
    }

    /// The misses that the present probe does not count, because they happened before its module was loaded again.
    pub fn earlier_misses(&self) -> u64 {
        self.before.misses
    }

    /// Replaces the probe and keeps the counts.
    pub(super) fn replace(&mut self, probe: Attached, programs: Arc<Programs>) {
        self.programs = programs;
        self.before = Before { hits: self.hits(), misses: self.misses() };
        self.probe = probe;
    }

    /// The definition in the form that `kprobe_events` shows.
    fn shown(&self) -> Definition {
        let mut definition = self.definition.clone();
        if let Attached::Kretprobe(probe) = &self.probe {
            definition.maxactive = u32::try_from(probe.active_limit()).unwrap_or(definition.maxactive);
        }
        definition
    }
}

fn end_of(definition: &Definition) -> Span {
    let last = definition.arguments.last().map_or(definition.location_at, |argument| argument.at);
    Span { column: last.column + last.length, length: 0 }
}

struct Target {
    entry: bool,
    is_there: bool,
    /// The offset in its file, of a place in a user program.
    file_offset: Option<u64>,
}

/// The programs of a probe whose module has come, with the addresses of its symbols.
pub(super) fn bound_again(
    definition: &Definition,
    guest: &dyn Guest,
    original: OriginalText<'_>,
) -> Result<Programs, EventError> {
    let target = resolve(definition, guest, original)?;
    Programs::bind(&definition.arguments, scope(definition, &target), guest)
}

fn scope(definition: &Definition, target: &Target) -> Scope {
    Scope {
        returns: definition.returns,
        entry: target.entry,
        by_symbol: matches!(definition.location, Location::Symbol { .. } | Location::File { place: Place::Symbol(..), .. }),
        file_offset: target.file_offset,
        watches: matches!(definition.location, Location::Memory(_)),
        waits: !target.is_there,
    }
}

fn resolve(definition: &Definition, guest: &dyn Guest, original: OriginalText<'_>) -> Result<Target, EventError> {
    let at = definition.location_at;
    let entry_of = |start: u64, offset: u64| offset == 0 || is_entry(guest, original, start, offset);
    let target = match &definition.location {
        Location::File { path, place } => {
            let (entry, offset) = match place {
                Place::Offset(offset) => (false, *offset),
                Place::Symbol(name, distance) => {
                    let found = guest.file_symbol(&guest.file_path(path), name);
                    let start = found.map_err(|no| at.error(Code::BAD_PROBE_ADDR, no.why).with_errno(no.errno))?;
                    (*distance == 0, start.wrapping_add(*distance))
                }
            };
            Target { entry, is_there: true, file_offset: Some(offset) }
        }
        Location::Address(address) => {
            if guest.isa().word < 8 && *address >> 32 != 0 {
                return Err(at.error(Code::BAD_PROBE_ADDR, "this kernel's addresses have 32 bits: write a smaller one"));
            }
            let entry =
                guest.symbol_at(*address).is_some_and(|symbol| entry_of(symbol.start, address.wrapping_sub(symbol.start)));
            Target { entry, is_there: true, file_offset: None }
        }
        Location::Memory(memory) => {
            let is_there = memory.module_symbol().is_none_or(|name| guest.symbol(name).is_some());
            if is_there {
                memory.area(guest, at)?;
            }
            Target { entry: false, is_there, file_offset: None }
        }
        Location::Symbol { name, offset } => {
            let in_module = name.contains(':');
            if !in_module {
                is_unique(name, guest).map_err(|(code, errno, why)| at.error(code, why).with_errno(errno))?;
            }
            match guest.symbol(name) {
                Some(symbol) => Target { entry: entry_of(symbol.start, u64::from(*offset)), is_there: true, file_offset: None },
                // The entry of an unloaded function is unknown. Offset 0 is an entry on every ISA.
                None => Target { entry: *offset == 0, is_there: !in_module, file_offset: None },
            }
        }
    };
    if let Location::File { .. } = definition.location {
        return Ok(target);
    }
    if definition.mirrors && !target.entry {
        return Err(at.error(Code::BAD_JPROBE, "a jprobe must be at a function's entry: name the function without an offset"));
    }
    if definition.returns && !target.entry {
        return Err(
            at.error(Code::BAD_RETPROBE, "a return probe must be at a function's entry: name the function without an offset")
        );
    }
    Ok(target)
}

fn is_unique(name: &str, guest: &dyn Guest) -> Result<(), (Code, Errno, String)> {
    match guest.symbols_named(name) {
        0 => Err((Code::BAD_PROBE_ADDR, Errno::ENOENT, unknown_symbol(name, guest))),
        1 => Ok(()),
        many => {
            let why = format!(
                "{many} symbols have the name '{name}': name the one that is meant by its place{}",
                places_of(name, guest)
            );
            Err((Code::NON_UNIQ_SYMBOL, Errno::EADDRNOTAVAIL, why))
        }
    }
}

/// The places of all symbols of a name, in the form in which perf writes them: `: _text+3566048 or _text+3566100`.
fn places_of(name: &str, guest: &dyn Guest) -> String {
    let text = guest.symbol("_text").map(|symbol| symbol.start);
    let place = |address: u64| match text.and_then(|text| u32::try_from(address.checked_sub(text)?).ok()) {
        Some(offset) => format!("_text+{offset}"),
        None => format!("{address:#x}"),
    };
    let places: Vec<String> = guest.addresses_named(name).into_iter().take(MOST_PLACES).map(place).collect();
    if places.is_empty() { ", an address".to_owned() } else { format!(", {}", places.join(" or ")) }
}

/// Whether this offset from a function's symbol is the function's entry.
fn is_entry(guest: &dyn Guest, original: OriginalText<'_>, start: u64, offset: u64) -> bool {
    let mut first = [0; BEGINNING];
    // The function may be shorter than the buffer and at the end of the text, so try shorter reads.
    let readable = [BEGINNING, BEGINNING / 2, BEGINNING / 4];
    let Some(readable) = readable.into_iter().find(|len| original(start, &mut first[..*len]).is_ok()) else { return false };
    let is_ftrace = |offset: u64| guest.site_at(start.wrapping_add(offset)) == Some(Site::Ftrace);
    let beginning = Beginning { bytes: &first[..readable], is_ftrace: &is_ftrace };
    offset <= BEGINNING as u64 && (guest.isa().entry)(&beginning, offset, Policy::Best).is_some()
}
