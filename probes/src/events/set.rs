//! [`EventSet`]: the events and their probes. It checks whether a definition fits the kernel and the existing events,
//! and writes the text of `kprobe_events` and `kprobe_profile`. `set/target.rs` looks up a definition's place in the guest, and
//! `set/member.rs` has the probe of one definition.

mod member;
mod target;

pub use member::{Attached, Member};
pub(super) use target::{OriginalText, bound_again};

use super::error::{Code, EventError, Span};
use super::fetch::Programs;
use super::format::{Field, Format, Stack};
use super::memory;
use super::names::Names;
use super::parse::{Definition, Location, Removal};
use super::text::is_identifier;
use super::watch::KERNEL_STACK;
use crate::guest::Guest;
use crate::records::EventId;
use crate::unwind::Stacks;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use member::Before;
use target::{resolve, scope};
use trapline_isa::plan::Errno;

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

/// The number of removed events whose format is kept. Older formats are kept only while the ring has records of them.
const MOST_REMOVED: usize = 256;
/// The number of further removals before the removed events are searched for those that nobody needs any more.
const REMOVED_AT_ONCE: usize = 32;

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

/// The position behind the last word of a definition.
fn end_of(definition: &Definition) -> Span {
    let last = definition.arguments.last().map_or(definition.location_at, |argument| argument.at);
    Span { column: last.column + last.length, length: 0 }
}
