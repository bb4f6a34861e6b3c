//! The text of an event's file `trigger`: a line for each trigger, as Linux writes it.

use super::{Action, Trigger};
use crate::engine::Engine;
use crate::events::memory;
use crate::events::set::EventSet;
use crate::events::watch::Watch;
use crate::records::EventId;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

impl EventSet {
    /// The lines of an event's triggers. Empty if it has none.
    pub fn triggers_text(&self, engine: &Engine, event: EventId) -> String {
        let watch = &engine.state.watch;
        watch.triggers(event).iter().map(|trigger| trigger.shown(watch) + "\n").collect()
    }
}

impl Trigger {
    /// The line in the form that the file `trigger` shows.
    pub(super) fn shown(&self, watch: &Watch) -> String {
        let mut text = match &self.action {
            Action::Record(true) => "traceon".to_owned(),
            Action::Record(false) => "traceoff".to_owned(),
            Action::Stack => "stacktrace".to_owned(),
            Action::Snapshot => "snapshot".to_owned(),
            Action::Switch { name: (group, event), enable, .. } => {
                format!("{}:{group}:{event}", if *enable { "enable_event" } else { "disable_event" })
            }
            Action::SwitchHist { name: (group, event), enable, .. } => {
                format!("{}:{group}:{event}", if *enable { "enable_hist" } else { "disable_hist" })
            }
            Action::Watch { name: (group, event), place, sets, .. } => {
                let command = if *sets { "set_wprobe" } else { "clear_wprobe" };
                let group = if group == memory::GROUP { String::new() } else { format!("{group}/") };
                let place = match place {
                    None => String::new(),
                    Some((field, 0)) => format!(":{}", field.name),
                    Some((field, offset)) => format!(":{}{offset:+}", field.name),
                };
                format!("{command}:{group}{event}{place}")
            }
            Action::Hist(number) => match watch.hists.get(*number) {
                Some(Some(hist)) => hist.spec.to_string(),
                _ => String::new(),
            },
        };
        match (&self.action, self.count) {
            (Action::Hist(_), _) => {}
            (_, None) => text.push_str(":unlimited"),
            (_, Some(count)) => text.push_str(&format!(":count={count}")),
        }
        if let Some(filter) = &self.filter_text {
            text.push_str(" if ");
            text.push_str(filter);
        }
        if let Action::Hist(_) = self.action {
            text.push_str(if self.is_paused { " [paused]" } else { " [active]" });
        }
        text
    }
}
