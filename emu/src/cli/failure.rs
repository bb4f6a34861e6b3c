//! What a command says when it cannot do what was asked: a sentence, advice, an exit status.

use super::paint::Paint;
use std::fmt::Write;

/// A failed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: Status,
    message: String,
    advice: Vec<String>,
    /// Ready to print, in place of the rest.
    drawn: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Failed = 1,
    Usage = 2,
    /// The reader of our output went away: no one is left to be told.
    Unheard = 0,
}

impl Failure {
    /// The guest or a probe failed: exit status 1.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { status: Status::Failed, message: message.into(), advice: Vec::new(), drawn: None }
    }

    /// What was asked for cannot be meant: exit status 2.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { status: Status::Usage, ..Failure::failed(message) }
    }

    /// A usage error that is drawn already.
    pub fn drawn(text: String) -> Failure {
        Failure { drawn: Some(text), ..Failure::usage("") }
    }

    /// A probe that failed, drawn already.
    pub fn probe_drawn(text: String) -> Failure {
        Failure { drawn: Some(text), ..Failure::failed("") }
    }

    /// Output could not be written.
    pub fn output(error: &std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure { status: Status::Unheard, ..Failure::failed("") },
            _ => Failure::failed(format!("the output cannot be written: {error}")),
        }
    }

    /// The same, with a line of advice.
    pub fn advise(mut self, advice: impl Into<String>) -> Failure {
        let advice = advice.into();
        self.advice.extend((!advice.is_empty()).then_some(advice));
        self
    }

    /// The same, with names that were perhaps meant.
    pub fn perhaps(self, names: &[String]) -> Failure {
        match names {
            [] => self,
            names => self.advise(format!("did you mean {}?", quoted(names))),
        }
    }

    /// What the process exits with.
    pub fn status(&self) -> u8 {
        self.status as u8
    }

    /// The text for a person.
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

/// `a`, `b` or `c`
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

    /// DV-1: `trapline check IMAGE | head` is no failure.
    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        let failure = Failure::output(&std::io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.status(), failure.render(Paint::none())), (0, String::new()));
    }
}
