//! Colours, only where someone looks.

use std::io::{self, IsTerminal};

/// Colours, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    colours: bool,
}

impl Paint {
    /// For standard output, if a person reads it.
    pub fn for_output() -> Paint {
        Paint { colours: io::stdout().is_terminal() && wanted() }
    }

    /// For standard error, if a person reads it.
    pub fn for_errors() -> Paint {
        Paint { colours: io::stderr().is_terminal() && wanted() }
    }

    /// Plain text.
    #[cfg(test)]
    pub fn none() -> Paint {
        Paint { colours: false }
    }

    /// Colours, whoever looks.
    #[cfg(test)]
    pub fn colourful() -> Paint {
        Paint { colours: true }
    }

    /// Whether there are colours.
    pub fn has_colours(self) -> bool {
        self.colours
    }

    /// What went wrong.
    pub fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// What to do about it.
    pub fn advice(self, text: &str) -> String {
        self.with("1;36", text)
    }

    /// In the color of a yes.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// In the color of a no.
    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// Names of things.
    pub fn name(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What is only there for reference.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// The convention of <https://no-color.org>.
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
