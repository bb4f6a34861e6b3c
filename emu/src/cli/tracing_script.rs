//! The shell commands of event files in a run: they are carried out in their order, `sleep` lets guest time pass.
//! Commands that only read, at the end of a file that never sleeps, wait for the end of the run.

use super::event_error::{Script, draw_text};
use super::output::Paint;
use super::shell::{self, Statement};
use crate::tracefs::{About, Tracefs};
use std::collections::VecDeque;
use std::sync::Arc;

/// A command with its place in its file.
#[derive(Clone, Debug)]
pub struct Placed {
    statement: Statement,
    script: Arc<Script>,
    offset: usize,
    length: usize,
    /// It waits for the end of the run.
    at_end: bool,
}

impl Placed {
    /// Parses a line that begins at this offset of the script. The error is a drawing.
    pub fn parse(script: &Arc<Script>, offset: usize, line: &str) -> Result<Placed, String> {
        match shell::parse(line) {
            Ok(statement) => {
                Ok(Placed { statement, script: Arc::clone(script), offset, length: line.trim_end().len(), at_end: false })
            }
            Err(error) => Err(draw_text(
                script,
                (offset + error.column, error.length),
                ("this command is not understood", error.why),
                Paint::for_errors(),
            )),
        }
    }
}

/// Moves the reads at the end of a script to the end of the run, if the script has no sleep. Otherwise they would read before the
/// guest has run.
pub fn settle(all: &mut [Placed]) {
    if all.iter().any(|placed| matches!(placed.statement, Statement::Sleep(_))) {
        return;
    }
    for placed in all.iter_mut().rev() {
        match placed.statement {
            Statement::Read(_) | Statement::Nothing => placed.at_end = true,
            _ => break,
        }
    }
}

/// The commands that are still to be carried out.
#[derive(Debug, Default)]
pub struct TracingScript {
    steps: VecDeque<Placed>,
    /// Guest time in nanoseconds before which nothing is carried out.
    not_before: u64,
    /// The files.
    pub files: Tracefs,
    /// The number of commands that failed.
    pub refused: usize,
}

impl TracingScript {
    /// A script of these commands.
    pub fn new(steps: Vec<Placed>) -> TracingScript {
        TracingScript { steps: steps.into(), ..TracingScript::default() }
    }

    /// Whether a command reads or writes the files `trace` or `snapshot`, or may take snapshots.
    pub fn needs_records(&self) -> bool {
        let is_of_records = |path: &str| path.ends_with("trace") || path.ends_with("snapshot");
        self.steps.iter().any(|placed| match &placed.statement {
            Statement::Read(paths) => paths.iter().any(|path| is_of_records(path)),
            Statement::Write { path, .. } => is_of_records(path),
            Statement::Sleep(_) | Statement::Nothing => false,
        })
    }

    /// The guest time of the next command.
    pub fn next(&self) -> u64 {
        match self.steps.front() {
            Some(placed) if !placed.at_end => self.not_before,
            _ => u64::MAX,
        }
    }

    /// Carries out the commands that are due at this guest time. Returns the text of the files that were read.
    pub fn carry_out(&mut self, about: &mut About<'_>, now: u64, is_end: bool) -> String {
        let mut text = String::new();
        while self.steps.front().is_some_and(|placed| is_end && placed.at_end || !placed.at_end && (self.not_before <= now))
            && let Some(placed) = self.steps.pop_front()
        {
            let done = match &placed.statement {
                Statement::Nothing => Ok(()),
                Statement::Sleep(time) => {
                    self.not_before = now.saturating_add(*time);
                    Ok(())
                }
                Statement::Write { path, text, appends } => self.files.write(about, path, text, *appends),
                Statement::Read(paths) => paths.iter().try_for_each(|path| {
                    text += &self.files.read(about, path)?;
                    Ok(())
                }),
            };
            if let Err(error) = done {
                let place = (placed.offset, placed.length);
                let title = format!("{}: the command failed", error.errno.name());
                eprint!("{}", draw_text(&placed.script, place, (&title, &error.why), Paint::for_errors()));
                self.refused += 1;
            }
        }
        text
    }

    /// The commands that were never carried out, because the run ended before.
    pub fn left(&self) -> usize {
        self.steps.len()
    }
}
