//! Runs a guest in slices of guest time until something ends it. A command adds its own [`Work`] between the slices; the
//! places where a run stops do not change what the guest does.

use super::Failure;
use super::end::End;
use super::forwards::{self, Forwards};
use super::guest::Guest;
use super::last_words::{self, LastWords};
use super::paint::Paint;
use super::pulled::Parcels;
use super::typist::Typing;
use super::until::Limits;
use crate::clock::nanoseconds;
use crate::history::tape::Tape;
use crate::machine::Stop;
use crate::probed::Session;
use std::io::{self, Write};

/// Destinations of the guest's console output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nowhere: the user asked for quiet.
    Nowhere,
    /// To standard output.
    Output,
    /// To standard error, because standard output carries records or a script's output.
    Errors,
}

impl Shown {
    /// Prints text there.
    pub fn print(self, text: &[u8]) -> Result<(), Failure> {
        let written = match self {
            Shown::Nowhere => Ok(()),
            Shown::Errors => io::stderr().write_all(text),
            Shown::Output => io::stdout().write_all(text).and_then(|()| io::stdout().flush()),
        };
        written.map_err(|error| Failure::output(&error))
    }
}

/// A command's own work between the slices of a run.
pub trait Work {
    /// The length of the next slice in nanoseconds.
    fn slice(&self) -> u64;

    /// The guest time in nanoseconds at which the next slice ends at the latest.
    fn next(&self) -> u64 {
        u64::MAX
    }

    /// Called before each slice. An [`End`] ends the run. Console input goes to the tape.
    fn before(&mut self, session: &mut Session, tape: &mut Tape) -> Result<Option<End>, Failure>;

    /// Runs the guest until this guest time in nanoseconds.
    fn advance(&mut self, session: &mut Session, until: u64) -> Stop {
        session.run_until(until)
    }

    /// Whether the guest has had no probes. Probes leave traces in registers: the return pad's address, or the window's
    /// entry in a TLB.
    fn is_unprobed(&self) -> bool {
        false
    }

    /// Repeats a command that was typed on trapline's own command line in the recorded run.
    fn repeat(&mut self, _session: &mut Session, _command: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// Called with the console output of each slice.
    fn heard(&mut self, _console: &[u8]) {}

    /// Takes the records and other output of the last slice.
    fn take(&mut self, session: &mut Session) -> Result<(), Failure>;

    /// Called when a module's init function is about to run.
    fn module_came(&mut self, session: &mut Session);

    /// Executes the commands that are due now. Called before the first slice, and after each one.
    fn carry_out_due(&mut self, _session: &mut Session) -> Result<(), Failure> {
        Ok(())
    }
}

/// A guest that runs.
pub struct Driver {
    /// The machine, with its probes' engine.
    pub session: Session,
    /// The input of the guest's console.
    pub tape: Tape,
    typing: Typing,
    last_words: LastWords,
    limits: Limits,
    /// Whether to give up on a guest that prints nothing: a stock kernel, unless the user set a time limit.
    may_give_up: bool,
    shown: Shown,
    /// The files that come out of the guest.
    parcels: Parcels,
    /// The sockets behind forwarded ports. A replay has none.
    forwards: Option<Forwards>,
}

impl Driver {
    /// A driver of this guest.
    pub fn new(session: Session, tape: Tape, guest: &Guest, shown: Shown) -> Driver {
        let may_give_up = guest.kernel.is_stock() && guest.limits.time.is_none() && !guest.is_booted() && !tape.is_again();
        let typing = Typing::new(guest.typist().filter(|_| !tape.is_again()), &session);
        let limits = guest.limits.clone();
        let shown = if guest.quiet { Shown::Nowhere } else { shown };
        let parcels = Parcels::to_nowhere(&guest.pulled);
        let door = guest.door().filter(|_| !tape.is_again());
        let forwards = door.map(|door| Forwards::new(door.clone()));
        if forwards.is_some() {
            forwards::say_what_repeats(tape.is_recorded());
        }
        Driver { session, tape, typing, last_words: LastWords::default(), limits, may_give_up, shown, parcels, forwards }
    }

    /// Opens the files that come out of the guest, unless the run is a replay.
    pub fn pulling(self, guest: &Guest) -> Result<Driver, Failure> {
        if self.tape.is_again() {
            return Ok(self);
        }
        Ok(Driver { parcels: Parcels::to_files(&guest.pulled)?, ..self })
    }

    /// The result of the run, or the failure of a file that has not come out of the guest. If both failed, the file's
    /// failure is printed.
    pub fn with_pulled(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        let pulled = self.parcels.all_came();
        if let (Err(_), Err(failure)) = (&result, &pulled) {
            eprint!("{}", failure.render(Paint::for_errors()));
        }
        result.and(pulled)
    }

    /// Runs the guest to its end.
    pub fn run(&mut self, work: &mut impl Work) -> Result<End, Failure> {
        let end = self.run_on(work)?;
        self.tape.end(self.session.machine(), end.is_by_guest(), &end.reason())?;
        self.shown.print(&self.parcels.rest())?;
        Ok(end)
    }

    /// Runs the guest to its limits or its end. The run may continue afterwards, so the recording is not finished.
    pub fn run_part(&mut self, work: &mut impl Work) -> Result<End, Failure> {
        self.run_on(work)
    }

    fn run_on(&mut self, work: &mut impl Work) -> Result<End, Failure> {
        let limit = self.limits.time.unwrap_or(u64::MAX);
        self.session.machine_mut().stop_at_console_text(self.limits.text.as_deref());
        work.carry_out_due(&mut self.session)?;
        loop {
            if let Some(end) = work.before(&mut self.session, &mut self.tape)? {
                return Ok(end);
            }
            if let Some(forwards) = &mut self.forwards {
                forwards.carry(self.session.machine().now());
            }
            self.type_what_is_due(work.is_unprobed())?;
            while let Some(command) = self.tape.next_command() {
                work.repeat(&mut self.session, &command)?;
            }
            if self.tape.is_over() {
                return Ok(End::Recorded);
            }
            let exactly = self.tape.next_stop();
            let next = work.next().min(self.typing.next()).min(nanoseconds(exactly));
            let slice_end = self.session.machine().now().saturating_add(work.slice()).min(limit).min(next);
            let mut stop = work.advance(&mut self.session, slice_end);
            if stop == Stop::Limit && slice_end == nanoseconds(exactly) {
                // Four ticks share a nanosecond.
                stop = self.session.run_until_ticks(exactly);
            }
            self.tape.stopped(self.session.machine(), &stop);
            if let Some(forwards) = &self.forwards {
                self.tape.came(self.session.machine(), forwards.came(self.tape.is_kept()))?;
            }
            self.show_console(work)?;
            work.take(&mut self.session)?;
            if stop == Stop::Attention {
                work.module_came(&mut self.session);
                continue;
            }
            work.carry_out_due(&mut self.session)?;
            if stop == Stop::Limit && self.is_silent() {
                return Ok(End::Silent);
            }
            if stop != Stop::Limit || slice_end == limit {
                return Ok(End::of(stop, &self.last_words));
            }
        }
    }

    fn type_what_is_due(&mut self, is_unprobed: bool) -> Result<(), Failure> {
        if self.tape.may_type()
            && let Some(piece) = self.typing.piece(&mut self.session)
        {
            self.tape.keys(&piece);
        }
        // The engine has probes of its own, which note the end of tasks, for example. Their hits leave the same traces.
        let is_unhit = self.session.engine().counts().hits == 0;
        Ok(self.tape.go_on(self.session.machine_mut(), is_unprobed && is_unhit)?)
    }

    fn is_silent(&self) -> bool {
        self.may_give_up && self.last_words.are_none() && self.session.machine().now() >= last_words::LONGEST_SILENCE
    }

    fn show_console(&mut self, work: &mut impl Work) -> Result<(), Failure> {
        let console = self.session.machine_mut().take_console();
        self.tape.heard(&console);
        self.last_words.listen(&console);
        work.heard(&console);
        let console = self.parcels.take_from(console);
        if console.is_empty() { Ok(()) } else { self.shown.print(&console) }
    }
}
