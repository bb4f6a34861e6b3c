//! `--at TIME COMMAND`: commands on probes while the guest runs, as a user of Linux would give them through debugfs,
//! sysctl and kprobe_events.

use super::Failure;
use super::event_error::Event;
use crate::probed::Session;
use trapline_probes::events::error::EventError;
use trapline_probes::events::parse::EventCommand;
use trapline_probes::events::set::{EventSet, Member};
use trapline_probes::guest::Guest;
use trapline_probes::records::EventId;
use trapline_probes::{Engine, Refusal};

/// A command with its time.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Guest time, in nanoseconds.
    pub at: u64,
    /// The text of the command.
    pub text: String,
    /// The parsed command.
    pub command: Command,
}

/// A command.
#[derive(Clone, Debug)]
pub enum Command {
    /// Switches all probes, like debugfs `kprobes/enabled`.
    Global(bool),
    /// Switches events, like `events/GROUP/EVENT/enable`.
    Switch(Chosen, bool),
    /// Allows or forbids optimisation, like the sysctl `debug.kprobes-optimization`.
    Knob(bool),
    /// Shows a file.
    Show(View),
    /// A line of kprobe_events.
    Event(Event),
}

/// A selection of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    group: Option<String>,
    /// The event's name. `None` selects all events of the group.
    name: Option<String>,
}

/// A file of tracefs or debugfs whose text can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// debugfs `kprobes/list`.
    List,
    /// `kprobe_profile`.
    Profile,
    /// debugfs `kprobes/blacklist`.
    Blacklist,
}

const COMMANDS: &str = "a command is `enable` or `disable`, alone or with [GROUP/]EVENT, `knob on`, `knob off`, `list`, `profile`, \
                        `blacklist`, or a line of kprobe_events (p:..., r:..., j:..., w:..., -:...)";

impl Command {
    /// Parses a command. `event` parses a line of kprobe_events.
    pub fn parse(text: &str, event: impl FnOnce(&str) -> Result<Option<Event>, Failure>) -> Result<Command, Failure> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_event = |word: &str| {
            let head = word.split(':').next().unwrap_or_default();
            word.starts_with('-') || ["p", "r", "j", "w"].iter().any(|kind| head.strip_prefix(kind).is_some_and(all_digits))
        };
        match words[..] {
            ["enable"] => Ok(Command::Global(true)),
            ["disable"] => Ok(Command::Global(false)),
            ["enable", event] => Ok(Command::Switch(Chosen::parse(event), true)),
            ["disable", event] => Ok(Command::Switch(Chosen::parse(event), false)),
            ["knob", "on"] => Ok(Command::Knob(true)),
            ["knob", "off"] => Ok(Command::Knob(false)),
            ["list"] => Ok(Command::Show(View::List)),
            ["profile"] => Ok(Command::Show(View::Profile)),
            ["blacklist"] => Ok(Command::Show(View::Blacklist)),
            [first, ..] if is_event(first) => match event(text)? {
                Some(event) => Ok(Command::Event(event)),
                None => Err(unknown(text)),
            },
            _ => Err(unknown(text)),
        }
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn unknown(text: &str) -> Failure {
    Failure::usage(format!("--at: `{text}` is not a command")).advise(COMMANDS)
}

impl Chosen {
    /// Parses `[GROUP/]EVENT`.
    pub fn parse(text: &str) -> Chosen {
        let (group, name) = match text.split_once('/') {
            Some((group, name)) => (Some(group.to_string()), name),
            None => (None, text),
        };
        Chosen { group, name: Some(name.to_string()).filter(|name| !name.is_empty()) }
    }

    /// The selected events, without duplicates.
    pub fn of(&self, events: &EventSet) -> Vec<EventId> {
        events.named(self.group.as_deref(), self.name.as_deref())
    }
}

/// The result of a command.
#[derive(Default)]
pub struct Done {
    /// The text to print.
    pub text: String,
    /// Probes that were removed, with their counts.
    pub removed: Vec<Member>,
}

/// Carries out a command. New events are enabled at once, like those that a run starts with.
pub fn carry_out(command: &Command, session: &mut Session, events: &mut EventSet) -> Result<Done, Failure> {
    session.with_engine(|engine, guest| match command {
        Command::Global(enabled) => {
            engine.set_enabled(guest, *enabled);
            Ok(Done::default())
        }
        Command::Knob(allowed) => {
            engine.set_optimization(guest, *allowed);
            Ok(Done::default())
        }
        Command::Show(view) => Ok(Done { text: show(*view, events, engine, guest), ..Done::default() }),
        Command::Switch(chosen, enabled) => {
            let ids = chosen.of(events);
            if ids.is_empty() {
                return Err(
                    Failure::failed("there is no such event").advise("`--at TIME list` and `profile` show those that there are")
                );
            }
            let switched: Result<(), Refusal> = ids.into_iter().try_for_each(|id| events.enable(engine, guest, id, *enabled));
            switched.map(|()| Done::default()).map_err(|refusal| Failure::failed(refusal.to_string()))
        }
        Command::Event(event) => {
            let removed = apply(event, events, engine, guest).map_err(|error| event.failed(&error))?;
            Ok(Done { removed, ..Done::default() })
        }
    })
}

fn apply(event: &Event, events: &mut EventSet, engine: &mut Engine, guest: &mut dyn Guest) -> Result<Vec<Member>, EventError> {
    let applied = events.carry_out(engine, guest, event.line.clone())?;
    // A probe that joins an enabled event is enabled already.
    if let (Some(id), EventCommand::Add(definition)) = (applied.added, &event.line)
        && !events.is_enabled(id)
        && let Err(refusal) = events.enable(engine, guest, id, true)
    {
        engine.say(format!("the event of `{definition}` cannot be enabled: {refusal}"));
    }
    Ok(applied.removed)
}

/// The text of such a file.
pub fn show(view: View, events: &EventSet, engine: &Engine, guest: &dyn Guest) -> String {
    match view {
        View::List => engine.list(guest),
        View::Profile => events.profile(),
        View::Blacklist => engine.blacklist_view(guest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-2, DV-3, DV-4: commands are recognised, and other texts are refused.
    #[test]
    fn commands_are_read() {
        #[rustfmt::skip]
        let cases = [
            ("enable",            Some("Global(true)")),
            ("disable",           Some("Global(false)")),
            ("disable open",      Some("Switch(Chosen { group: None, name: Some(\"open\") }, false)")),
            ("enable files/open", Some("Switch(Chosen { group: Some(\"files\"), name: Some(\"open\") }, true)")),
            ("enable files/",     Some("Switch(Chosen { group: Some(\"files\"), name: None }, true)")),
            (" knob  off ",       Some("Knob(false)")),
            ("knob",              None),
            ("knob maybe",        None),
            ("list",              Some("Show(List)")),
            ("profile",           Some("Show(Profile)")),
            ("blacklist",         Some("Show(Blacklist)")),
            ("list all",          None),
            ("reboot",            None),
            ("",                  None),
            ("# nothing",         None),
        ];
        for (text, expected) in cases {
            let command = Command::parse(text, |_| Ok(None));
            assert_eq!(command.ok().map(|command| format!("{command:?}")).as_deref(), expected, "{text:?}");
        }
        for text in ["p:open do_sys_open", "r7:done vfs_read n=$retval", "j vfs_read", "-:open", "p vfs_read"] {
            let mut asked = None;
            let _ = Command::parse(text, |line| {
                asked = Some(line.to_string());
                Ok(None)
            });
            assert_eq!(asked.as_deref(), Some(text), "a line of kprobe_events");
        }
    }
}
