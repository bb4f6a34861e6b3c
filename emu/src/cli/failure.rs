//! A command's failure: a sentence, advice and an exit status.

use super::paint::Paint;
use crate::history::tape::TapeError;
use crate::outputs::records::OutputError;
use std::fmt::Write;

/// A failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: Status,
    message: String,
    advice: Vec<String>,
    /// A complete drawing, printed instead of message and advice.
    drawn: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Failed = 1,
    Usage = 2,
    Again = 75,
    /// The reader of our output closed the pipe: nothing is reported, and the exit status is 0.
    Unheard = 0,
}

impl Failure {
    /// The guest or a probe failed: exit status 1.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { status: Status::Failed, message: message.into(), advice: Vec::new(), drawn: None }
    }

    /// The command line is wrong: exit status 2.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { status: Status::Usage, ..Failure::failed(message) }
    }

    /// This computer failed, not the guest, so another try may succeed: exit status 75.
    pub fn again(message: impl Into<String>) -> Failure {
        Failure { status: Status::Again, ..Failure::failed(message) }
    }

    /// A usage error with a complete drawing: exit status 2.
    pub fn drawn(text: String) -> Failure {
        Failure { drawn: Some(text), ..Failure::usage("") }
    }

    /// A failed probe with a complete drawing: exit status 1.
    pub fn probe_drawn(text: String) -> Failure {
        Failure { drawn: Some(text), ..Failure::failed("") }
    }

    /// The output could not be written. A closed pipe is not reported.
    pub fn output(error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure { status: Status::Unheard, ..Failure::failed("") },
            _ => Failure::failed(format!("the output cannot be written: {error}")),
        }
    }

    /// Adds a line of advice.
    pub fn advise(mut self, advice: impl Into<String>) -> Failure {
        let advice = advice.into();
        self.advice.extend((!advice.is_empty()).then_some(advice));
        self
    }

    /// Adds similar names as a suggestion.
    pub fn perhaps(self, names: &[String]) -> Failure {
        match names {
            [] => self,
            names => self.advise(format!("did you mean {}?", quoted(names))),
        }
    }

    /// The sentence without advice.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The exit status of the process.
    pub fn status(&self) -> u8 {
        self.status as u8
    }

    /// The text to print.
    pub fn render(&self, paint: Paint) -> String {
        match (&self.drawn, self.status) {
            (_, Status::Unheard) => String::new(),
            (Some(drawn), _) => drawn.clone(),
            (None, _) => {
                let mut text = format!("{} {}\n", paint.error("error:"), self.message);
                for advice in &self.advice {
                    let _ = writeln!(text, "  {} {advice}", paint.advice("help:"));
                }
                text
            }
        }
    }
}

impl From<TapeError> for Failure {
    fn from(error: TapeError) -> Failure {
        Failure::failed(error.to_string())
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Failure {
        match error {
            OutputError::Create { .. } => Failure::usage(error.to_string()),
            OutputError::Stdout(error) => Failure::output(&error),
            error => Failure::failed(error.to_string())
                .advise("large outputs also need room in the folder for temporary files, which TMPDIR names"),
        }
    }
}

/// Quotes names in a list, such as "`a`, `b` or `c`".
fn quoted(names: &[String]) -> String {
    let mut quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.pop() {
        Some(last) if !quoted.is_empty() => format!("{} or {last}", quoted.join(", ")),
        last => last.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-4
    #[test]
    fn a_failure_says_what_is_wrong_and_what_was_perhaps_meant() {
        let names = ["vfs_read".to_string(), "vfs_readv".to_string()];
        let failure = Failure::usage("no symbol is called `vfs_raed`").perhaps(&names);
        let expected = "error: no symbol is called `vfs_raed`\n  help: did you mean `vfs_read` or `vfs_readv`?\n";
        assert_eq!(failure.render(Paint::none()), expected);
        assert_eq!(failure.status(), 2);
        assert_eq!(Failure::failed("x").perhaps(&[]).render(Paint::none()), "error: x\n");
    }

    /// DV-1: `trapline check IMAGE | head` does not fail.
    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        let failure = Failure::output(&std::io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.status(), failure.render(Paint::none())), (0, String::new()));
    }
}
