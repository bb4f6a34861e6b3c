//! The only way to a guest's console: input that is typed live, live input that is recorded, or a recording's input.
//!
//! Input is typed only where a run has ended at its limit. A run with this limit ends at the same place again, whatever
//! other stops and probes it has. So a recording stores the limit as the place, in ticks of the clock; four ticks are a
//! nanosecond.

use super::mark::Printed;
use super::recording::{Frame, Mark, PARTS, Recorder, Recording};
use crate::clock::{GuestTime, Ticks, nanoseconds};
use crate::machine::{Listener, Machine, Stop};
use std::collections::VecDeque;
use std::io;
use thiserror::Error;

/// The least and the most virtual time between two marks. A short run has marks too.
const INTERVALS: (Ticks, Ticks) = (ticks_of_milliseconds(1) / 20, ticks_of_milliseconds(10));
/// A guest that ended its recorded run by itself is given this much time more to do so.
const GRACE: Ticks = ticks_of_milliseconds(1000);

const fn ticks_of_milliseconds(milliseconds: u64) -> Ticks {
    milliseconds * 4_000_000
}

/// The reason why a recording or a replay cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The file cannot be written.
    #[error("the recording cannot be written: {0}")]
    Unwritable(#[from] io::Error),
    /// The replayed run is another one than the recorded run.
    #[error("the replayed run differs from the recorded one at {at} of guest time: {what}")]
    Differs {
        /// The guest time.
        at: GuestTime,
        /// The first difference.
        what: String,
    },
}

/// The input of a guest's console.
#[derive(Debug)]
pub struct Tape {
    kind: Kind,
    /// Input that waits for a place where it may be typed.
    waiting: VecDeque<Input>,
    /// The place of the machine. `None` while it stands somewhere else than at the limit of its run.
    place: Option<Ticks>,
    printed: Printed,
    /// Commands of the recorded run whose place a replay has reached.
    commands: VecDeque<String>,
    done: Done,
    /// The frames so far, if they are kept.
    kept: Option<Vec<Frame>>,
}

#[derive(Debug)]
enum Kind {
    Live,
    Recorded { recorder: Recorder, begins: Ticks, next_mark: Ticks, last: Option<Mark> },
    Again { frames: VecDeque<Frame>, end: Ticks },
}

#[derive(Debug)]
enum Input {
    Keys(Vec<u8>),
    End,
}

/// The amounts that a tape has handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that were typed.
    pub keys: u64,
    /// Commands on trapline's own command line.
    pub commands: u64,
    /// Marks that were written, or compared and found equal.
    pub marks: u64,
}

impl Tape {
    /// A tape for a machine that has not run yet, and whose run is not recorded.
    pub fn live<L: Listener>(machine: &Machine<L>) -> Tape {
        Tape::new(Kind::Live, machine)
    }

    /// A tape that records.
    pub fn recorded<L: Listener>(machine: &Machine<L>, recorder: Recorder) -> Tape {
        let begins = machine.time();
        let next_mark = begins + INTERVALS.0;
        Tape::new(Kind::Recorded { recorder, begins, next_mark, last: None }, machine)
    }

    /// A tape that types again.
    pub fn again<L: Listener>(machine: &Machine<L>, recording: Recording) -> Tape {
        let end = recording.end();
        Tape::new(Kind::Again { frames: recording.frames.into(), end }, machine)
    }

    fn new<L: Listener>(kind: Kind, machine: &Machine<L>) -> Tape {
        let place = Some(machine.time());
        Tape {
            kind,
            waiting: VecDeque::new(),
            place,
            printed: Printed::default(),
            commands: VecDeque::new(),
            done: Done::default(),
            kept: None,
        }
    }

    /// Keeps the input in memory from now on, and the marks of a recording, so that the run can be repeated.
    pub fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Whether the input is kept.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Takes the kept frames.
    pub fn take_kept(&mut self) -> Vec<Frame> {
        self.kept.take().unwrap_or_default()
    }

    /// Whether this tape types a recording, and accepts no other input.
    pub fn is_again(&self) -> bool {
        matches!(self.kind, Kind::Again { .. })
    }

    /// Whether this tape records.
    pub fn is_recorded(&self) -> bool {
        matches!(self.kind, Kind::Recorded { .. })
    }

    /// The amounts that it has handled so far.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Types bytes as soon as possible.
    pub fn keys(&mut self, keys: &[u8]) {
        if !keys.is_empty() {
            self.waiting.push_back(Input::Keys(keys.to_vec()));
        }
    }

    /// Ends the input as soon as possible.
    pub fn input_ends(&mut self) {
        self.waiting.push_back(Input::End);
    }

    /// Records a command of trapline's own command line, before it is carried out. The machine may stand anywhere.
    pub fn asked(&mut self, at: Ticks, command: &str) -> Result<(), TapeError> {
        if let Kind::Recorded { recorder, .. } = &mut self.kind {
            let at = at.max(recorder.reached());
            recorder.write(&Frame::Asked { at, command: command.into() })?;
            self.done.commands += 1;
        }
        Ok(())
    }

    /// Records events that the network has taken from the host's sockets in the last run. The machine may stand anywhere.
    pub fn came<L: Listener>(&mut self, machine: &Machine<L>, events: impl Iterator<Item = Vec<u8>>) -> Result<(), TapeError> {
        let at = self.place(machine);
        if let Kind::Recorded { recorder, .. } = &mut self.kind {
            for event in events {
                let at = at.max(recorder.reached());
                recorder.write(&Frame::Came { at, event })?;
            }
        }
        Ok(())
    }

    /// The place of the machine, or the nearest one if it does not stand at the limit of its run.
    pub fn place<L: Listener>(&self, machine: &Machine<L>) -> Ticks {
        self.place.unwrap_or(machine.time().min(machine.limit()))
    }

    /// The next command of the recorded run whose place a replay has reached.
    pub fn next_command(&mut self) -> Option<String> {
        self.commands.pop_front()
    }

    /// Whether input may be typed at once.
    pub fn may_type(&self) -> bool {
        self.place.is_some()
    }

    /// The limit of virtual time for the next run.
    pub fn next_stop(&self) -> Ticks {
        match &self.kind {
            Kind::Live => Ticks::MAX,
            Kind::Recorded { next_mark, .. } => *next_mark,
            Kind::Again { frames, end } => match frames.front() {
                Some(Frame::End { by_guest: true, .. }) => end.saturating_add(GRACE),
                Some(frame) => frame.at(),
                None => *end,
            },
        }
    }

    /// Adds what the guest has printed.
    pub fn heard(&mut self, console: &[u8]) {
        if !matches!(self.kind, Kind::Live) {
            self.printed.add(console);
        }
    }

    /// Notes how a run has ended.
    pub fn stopped<L: Listener>(&mut self, machine: &Machine<L>, stop: &Stop) {
        self.place = (*stop == Stop::Limit).then(|| machine.limit());
    }

    /// Does all that is due at the machine's place: types, and makes or compares marks. `with_registers` says whether
    /// the registers are the guest's own.
    pub fn go_on<L: Listener>(&mut self, machine: &mut Machine<L>, with_registers: bool) -> Result<(), TapeError> {
        let Some(at) = self.place else { return Ok(()) };
        match &mut self.kind {
            Kind::Live => self.type_waiting(machine, at),
            Kind::Recorded { next_mark, .. } => {
                let is_due = at >= *next_mark;
                self.type_waiting(machine, at)?;
                if is_due { self.mark(machine, at, with_registers) } else { Ok(()) }
            }
            Kind::Again { .. } => {
                self.waiting.clear();
                self.type_again(machine, at, with_registers)
            }
        }
    }

    /// Whether a replay has come to the place where the recording ends. The guest has not ended by itself there.
    pub fn is_over(&self) -> bool {
        match &self.kind {
            Kind::Again { frames, end } => frames.is_empty() && self.place.is_some_and(|at| at >= *end),
            _ => false,
        }
    }

    /// The run has ended. A recording gets its last frame; a replay is compared with it.
    pub fn end<L: Listener>(&mut self, machine: &Machine<L>, by_guest: bool, reason: &str) -> Result<(), TapeError> {
        let (time, at) = (machine.time(), self.place(machine));
        match &mut self.kind {
            Kind::Live => Ok(()),
            Kind::Recorded { recorder, .. } => {
                let at = at.max(recorder.reached());
                Ok(recorder.write(&Frame::End { at, time, by_guest, reason: reason.into() })?)
            }
            Kind::Again { frames, .. } => {
                let now = machine.now();
                match frames.front() {
                    Some(Frame::End { time: recorded, by_guest: true, reason: why, .. }) => {
                        if by_guest && (time, reason) == (*recorded, why.as_str()) {
                            frames.clear();
                            return Ok(());
                        }
                        let then = nanoseconds(*recorded);
                        Err(differs(
                            now,
                            format!("the recorded run ended at {then} ns because {why}, this one at {now} ns because {reason}"),
                        ))
                    }
                    Some(_) if by_guest => {
                        Err(differs(now, format!("this run ended because {reason}, and the recorded one went on")))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn type_waiting<L: Listener>(&mut self, machine: &mut Machine<L>, at: Ticks) -> Result<(), TapeError> {
        while let Some(input) = self.waiting.pop_front() {
            // Written before it is typed, so that no input is missing after a kill.
            if matches!(self.kind, Kind::Recorded { .. }) || self.kept.is_some() {
                self.note(&match &input {
                    Input::Keys(keys) => Frame::Typed { at, keys: keys.clone() },
                    Input::End => Frame::Ends { at },
                })?;
            }
            self.type_now(machine, &input);
        }
        Ok(())
    }

    /// Writes a frame into the recording, and keeps it if that is wanted.
    fn note(&mut self, frame: &Frame) -> Result<(), TapeError> {
        if let Kind::Recorded { recorder, .. } = &mut self.kind {
            recorder.write(frame)?;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(frame.clone());
        }
        Ok(())
    }

    fn type_now<L: Listener>(&mut self, machine: &mut Machine<L>, input: &Input) {
        match input {
            Input::Keys(keys) => {
                machine.console_input(keys);
                self.done.keys += keys.len() as u64;
            }
            Input::End => machine.console_input_ends(),
        }
    }

    fn mark<L: Listener>(&mut self, machine: &mut Machine<L>, at: Ticks, with_registers: bool) -> Result<(), TapeError> {
        let Kind::Recorded { begins, next_mark, last, .. } = &mut self.kind else { return Ok(()) };
        *next_mark = at + (at.saturating_sub(*begins) / 4).clamp(INTERVALS.0, INTERVALS.1);
        let mark = Mark::of(machine, &self.printed, with_registers);
        // A guest that sleeps needs no more marks.
        let sleeps = last.is_some_and(|last| {
            mark.registers.is_some() && (&last.parts[1..], last.registers) == (&mark.parts[1..], mark.registers)
        });
        if !sleeps {
            *last = Some(mark);
            self.note(&Frame::Mark { at, mark })?;
            self.done.marks += 1;
        }
        Ok(())
    }

    fn type_again<L: Listener>(&mut self, machine: &mut Machine<L>, at: Ticks, with_registers: bool) -> Result<(), TapeError> {
        loop {
            let Kind::Again { frames, .. } = &mut self.kind else { return Ok(()) };
            // The guest's own end is compared when the run has ended.
            let is_due = |frame: &&Frame| frame.at() <= at && !matches!(frame, Frame::End { by_guest: true, .. });
            let Some(frame) = frames.front().filter(is_due).cloned() else { return Ok(()) };
            frames.pop_front();
            match frame {
                Frame::Typed { keys, .. } => self.type_now(machine, &Input::Keys(keys)),
                Frame::Asked { command, .. } => {
                    self.commands.push_back(command);
                    self.done.commands += 1;
                }
                Frame::Ends { .. } => self.type_now(machine, &Input::End),
                Frame::Mark { mark, .. } => {
                    compare(&mark, &Mark::of(machine, &self.printed, with_registers))?;
                    self.done.marks += 1;
                }
                Frame::Came { .. } | Frame::End { .. } => {}
            }
        }
    }
}

fn differs(now: u64, what: String) -> TapeError {
    TapeError::Differs { at: now.into(), what }
}

pub(super) fn compare(recorded: &Mark, seen: &Mark) -> Result<(), TapeError> {
    let now = nanoseconds(seen.time);
    if (recorded.time, recorded.cpu) != (seen.time, seen.cpu) {
        let (then, now_ticks) = (recorded.time, seen.time);
        return Err(differs(now, format!("CPU {} was at tick {then}, CPU {} is at tick {now_ticks}", recorded.cpu, seen.cpu)));
    }
    if let Some(part) = (0..PARTS.len()).find(|part| recorded.parts[*part] != seen.parts[*part]) {
        return Err(differs(now, PARTS[part].into()));
    }
    match (recorded.registers, seen.registers) {
        (Some(recorded), Some(seen)) if recorded != seen => Err(differs(now, "the registers of the CPUs".into())),
        _ => Ok(()),
    }
}
