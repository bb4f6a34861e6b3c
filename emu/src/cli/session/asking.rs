//! The user's questions and wishes while the guest stands still, by keys behind Ctrl-A, and the records that are shown meanwhile.

use super::super::ask::{self, Asked, Asker, Next};
use super::super::console::Console;
use super::super::driver::Shown;
use super::super::end::End;
use super::super::pane::{Pane, Reading};
use super::super::terminal::{HELP, Wish};
use super::super::{Failure, output};
use super::Run;
use crate::history::tape::Tape;
use crate::outputs::kept::Kept;
use crate::outputs::records::{self, Format};
use crate::probed::Session;
use crate::tracefs::About;
use std::path::PathBuf;

impl Run<'_> {
    /// Does what the user asks for by a key behind Ctrl-A, while the guest stands still.
    pub(super) fn grant(&mut self, wish: Wish, session: &mut Session, tape: &mut Tape) -> Result<Option<End>, Failure> {
        println!();
        match wish {
            Wish::Help => print!("{HELP}"),
            Wish::Live => {
                tape.asked(tape.place(session.machine()), ask::LIVE)?;
                self.with_asked(session, |asked, _| ask::answer(ask::LIVE, asked))?;
            }
            Wish::File => self.ask_for_file(session)?,
            Wish::Ask => {
                let mut asker = self.asker.take().unwrap_or_else(|| Asker::new(session));
                let at = tape.place(session.machine());
                let mut told = |command: &str| Ok(tape.asked(at, command)?);
                let next = self.with_asked(session, |asked, console| asker.ask(&mut || console.next_key(), &mut told, asked))?;
                self.asker = Some(asker);
                return Ok(Some(End::Left).filter(|_| next == Next::Leave));
            }
        }
        Ok(None)
    }

    /// Runs a closure that may change the parts of the run, for a command line that the user has typed.
    pub(super) fn with_asked<R>(
        &mut self,
        session: &mut Session,
        with: impl FnOnce(&mut Asked<'_, '_>, &mut Console) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Run { console, events, records, script, removed, lines, pane, .. } = self;
        let mut live = records.is_live();
        let mut none = Kept::default();
        let kept = records.kept().as_mut().unwrap_or(&mut none);
        let about = About { session, events: &mut events.set, kept };
        let mut asked = Asked { about, files: &mut script.files, removed, live: &mut live, lines: *lines };
        let done = with(&mut asked, console)?;
        records.set_live(live);
        *pane = if live { pane.take().or_else(|| if console.has_terminal() { Pane::open() } else { None }) } else { None };
        events.note_armed(session);
        session.time_hits();
        Ok(done)
    }

    /// Shows the records that came.
    pub(super) fn show_live(&mut self) -> Result<(), Failure> {
        let text = self.records.take_live();
        match &mut self.pane {
            None if text.is_empty() => Ok(()),
            None => Shown::Output.print(text.as_bytes()),
            Some(pane) => {
                pane.add(&text);
                if self.reading == Reading::Between {
                    pane.draw();
                }
                Ok(())
            }
        }
    }

    /// Asks for a file, and writes records there from now on.
    fn ask_for_file(&mut self, session: &mut Session) -> Result<(), Failure> {
        let Run { console, asker, records, .. } = self;
        let asker = asker.get_or_insert_with(|| Asker::new(session));
        let Some(name) = asker.ask_for_file(&mut || console.next_key())? else { return Ok(()) };
        let (isa, cpus) = (session.engine().isa(), session.with_engine(|_, guest| guest.cpus()));
        let path = PathBuf::from(&name);
        match records.also(Format::Trace.of_file(&path), &path, &records::about(isa, cpus)) {
            Ok(()) => println!("(records go to {name}, too)"),
            Err(error) => eprintln!("{} {error}", output::Paint::for_errors().error("error:")),
        }
        Ok(())
    }
}
