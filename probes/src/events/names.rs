//! The index of an event set: which events exist, and which probe is at which place. So a line that joins or removes
//! one of many events looks at that event only.

use super::parse::{Definition, Removal};
use crate::records::EventId;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The events that exist, by group and name.
#[derive(Debug, Default)]
pub(super) struct Names {
    events: BTreeMap<String, BTreeMap<String, Named>>,
    /// The groups that have an event of a name.
    groups: BTreeMap<String, BTreeSet<String>>,
}

/// An event that exists.
#[derive(Debug)]
struct Named {
    event: EventId,
    /// The numbers of its probes, by [`words`].
    members: BTreeMap<Vec<String>, u32>,
}

/// The location and the arguments of a definition, as `kprobe_events` shows them and as a removal names them. Two
/// probes of one event differ in these.
fn words(definition: &Definition) -> Vec<String> {
    let arguments = definition.arguments.iter().map(|argument| format!("{}={}", argument.name, argument.body));
    core::iter::once(definition.location.to_string()).chain(arguments).collect()
}

impl Names {
    /// The event of that name, if it exists.
    pub fn find(&self, group: &str, name: &str) -> Option<EventId> {
        self.named(group, name).map(|named| named.event)
    }

    fn named(&self, group: &str, name: &str) -> Option<&Named> {
        self.events.get(group)?.get(name)
    }

    /// Whether the event has a probe with this location and these arguments.
    pub fn has(&self, group: &str, name: &str, definition: &Definition) -> bool {
        self.named(group, name).is_some_and(|named| named.members.contains_key(&words(definition)))
    }

    /// The numbers of an event's probes.
    pub fn members(&self, group: &str, name: &str) -> impl Iterator<Item = u32> + '_ {
        self.named(group, name).into_iter().flat_map(|named| named.members.values().copied())
    }

    /// Adds a probe by its number. Creates the event if it does not exist.
    pub fn insert(&mut self, (group, name): (&str, &str), event: EventId, definition: &Definition, member: u32) {
        let events = self.events.entry(group.to_owned()).or_default();
        let named = events.entry(name.to_owned()).or_insert_with(|| Named { event, members: BTreeMap::new() });
        named.members.insert(words(definition), member);
        self.groups.entry(name.to_owned()).or_default().insert(group.to_owned());
    }

    /// Removes a probe. Returns the event if this was its last one.
    pub fn remove(&mut self, (group, name): (&str, &str), definition: &Definition) -> Option<EventId> {
        let events = self.events.get_mut(group)?;
        let named = events.get_mut(name)?;
        let event = named.event;
        named.members.remove(&words(definition));
        if !named.members.is_empty() {
            return None;
        }
        events.remove(name);
        if events.is_empty() {
            self.events.remove(group);
        }
        if let Some(groups) = self.groups.get_mut(name) {
            groups.remove(group);
            if groups.is_empty() {
                self.groups.remove(name);
            }
        }
        Some(event)
    }

    /// The events that these names select; a name that is not given selects all.
    fn selected<'a>(&'a self, group: Option<&'a str>, name: Option<&'a str>) -> Vec<&'a Named> {
        match (group, name) {
            (Some(group), Some(name)) => self.named(group, name).into_iter().collect(),
            (Some(group), None) => self.events.get(group).into_iter().flat_map(BTreeMap::values).collect(),
            (None, Some(name)) => {
                let groups = self.groups.get(name).into_iter().flatten();
                groups.filter_map(|group| self.named(group, name)).collect()
            }
            (None, None) => self.events.values().flat_map(BTreeMap::values).collect(),
        }
    }

    /// The events that these names select, each once.
    pub fn events(&self, group: Option<&str>, name: Option<&str>) -> Vec<EventId> {
        let mut events: Vec<EventId> = self.selected(group, name).into_iter().map(|named| named.event).collect();
        events.sort_unstable();
        events
    }

    /// The numbers of the probes that a removal names, in the order in which they were added: all of these events, or
    /// those with this location and these first arguments.
    pub fn chosen(&self, removal: &Removal) -> Vec<u32> {
        let named = self.selected(removal.group.as_deref(), removal.event.as_deref());
        let of = |named: &'_ Named| -> Vec<u32> {
            let from = named.members.range(removal.only.clone()..);
            from.take_while(|(words, _)| words.starts_with(&removal.only)).map(|(_, number)| *number).collect()
        };
        let mut chosen: Vec<u32> = named.into_iter().flat_map(of).collect();
        chosen.sort_unstable();
        chosen
    }
}
