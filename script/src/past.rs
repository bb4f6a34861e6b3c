//! `last_write` and `last_writer`: questions of a script about the past of the run.
//!
//! A script runs in the middle of a run and cannot look back by itself. `trapline replay` gives it a [`Past`], which repeats
//! the recorded run in a second machine up to the hit that asks. Without one the compiler refuses both functions.

use super::ast::Expr;
use super::compile::Compiler;
use super::error::{ScriptError, Span};
use super::numbers::MOST_WARNINGS;
use super::program::{Any, Bytes, Num};
use super::run::Runner;
use super::show::put;
use super::types::Type;
use super::values::Typed;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use trapline_probes::guest::Instant;
use trapline_probes::watch::MOST_BYTES;

/// The past of a run.
pub trait Past: Send {
    /// Returns the last write to some bytes before a place of the run. `None`: nobody has written to them.
    fn last_write(&mut self, question: &Question) -> Result<Option<Write>, Unanswered>;
}

/// A question for the last write to some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The address of the first byte.
    pub address: u64,
    /// The physical address that it has now. `None`: no memory is mapped there.
    pub physical: Option<u64>,
    /// The number of bytes.
    pub length: u64,
    /// The place of the run.
    pub before: Instant,
}

/// A write to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The address of the instruction that made it or was interrupted by it.
    pub pc: u64,
    /// Guest time in nanoseconds.
    pub time: u64,
    /// The number of the CPU.
    pub cpu: usize,
    /// The pid of the running task.
    pub pid: u32,
    /// The name of the running task, zero-padded.
    pub comm: [u8; 16],
    /// The number in memory before the write.
    pub old: u64,
    /// The number that was written.
    pub value: u64,
    /// The name of the party that wrote. `None`: an instruction.
    pub by: Option<&'static str>,
}

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Too many questions were asked.
    TooMany,
    /// The run cannot be repeated: a sentence.
    Failed(String),
}

impl Compiler<'_> {
    /// `last_write(address[, length])` and `last_writer(address[, length])`.
    pub(super) fn last_write(&mut self, name: &str, arguments: &[Expr], at: Span) -> Result<Typed, ScriptError> {
        self.between(name, arguments, 1, 2, at)?;
        if !self.options.has_past {
            return Err(at.error(format!(
                "{name}() asks for the past of a run, which only a recording has: make one with `--record FILE`, then `trapline replay FILE SCRIPT`"
            )));
        }
        let (address, kind) = self.number(&arguments[0])?;
        let length = match (arguments.get(1), kind) {
            (Some(length), _) => self.whole_constant(length, "the number of bytes")?,
            (None, Type::Object(kind)) => self.known.size_of(&kind).unwrap_or(self.known.word.into()).into(),
            (None, _) => self.known.word.into(),
        };
        if !(1..=i128::from(MOST_BYTES)).contains(&length) {
            return Err(at.error(format!("{name}() looks for a write to 1 to {MOST_BYTES} bytes, not {length}")));
        }
        let length = length as u64;
        Ok(match name {
            "last_writer" => (Any::Num(Num::LastWriter(Box::new(address), length)), Type::Symbol),
            _ => (Any::Bytes(Bytes::LastWrite(Box::new(address), length)), Type::Text(0)),
        })
    }
}

impl Runner<'_> {
    /// Asks for the last write. Returns `Some(None)` if there was none since the start, and `None` if there is no
    /// answer, which is counted.
    fn ask(&mut self, address: &Num, length: u64) -> Option<Option<Write>> {
        let address = self.num(address);
        let question = self.context.instant().map(|before| {
            let physical = self.context.physical_of(address);
            Question { address, physical, length, before }
        });
        let answer = match (&mut self.state.past, question) {
            (Some(past), Some(question)) => past.last_write(&question),
            _ => Err(Unanswered::TooMany),
        };
        if let Err(Unanswered::Failed(why)) = &answer
            && self.state.warned.len() < MOST_WARNINGS
        {
            put(&mut self.state.warned, format_args!("WARNING: {}: last_write() has no answer: {why}\n", self.probe));
        }
        self.state.unanswered += u64::from(answer.is_err());
        answer.ok()
    }

    /// The address of the last instruction that has written. 0 if there was none, or if there is no answer.
    #[cold]
    pub(super) fn last_writer(&mut self, address: &Num, length: u64) -> u64 {
        self.ask(address, length).flatten().map_or(0, |write| write.pc)
    }

    /// Appends a line on the last write. It is empty if the question has no answer.
    #[cold]
    pub(super) fn line_on_last_write(&mut self, address: &Num, length: u64) {
        let Some(answer) = self.ask(address, length) else { return };
        let Some(Write { pc, time, cpu, pid, comm, old, value, by }) = answer else {
            self.state.scratch.extend_from_slice(b"nobody");
            return;
        };
        let out = &mut self.state.scratch;
        match self.state.view.names.symbol(pc) {
            Some((name, offset)) => put(out, format_args!("{name}+{offset:#x}")),
            None => put(out, format_args!("{pc:#x}")),
        }
        out.extend_from_slice(b", ");
        out.extend_from_slice(comm.split(|byte| *byte == 0).next().unwrap_or_default());
        let time = Duration::from_nanos(time);
        put(out, format_args!(" ({pid}), CPU {cpu}, {time:?}: {old:#x} -> {value:#x}"));
        if let Some(by) = by {
            put(out, format_args!(", by: {by}"));
        }
    }
}
