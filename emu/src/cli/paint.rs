//! Colours for terminals.

use std::io::{self, IsTerminal};

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    colours: bool,
}

impl Paint {
    /// Colours for standard output, if it is a terminal.
    pub fn for_output() -> Paint {
        Paint { colours: io::stdout().is_terminal() && wanted() }
    }

    /// Colours for standard error, if it is a terminal.
    pub fn for_errors() -> Paint {
        Paint { colours: io::stderr().is_terminal() && wanted() }
    }

    /// No colours.
    #[cfg(test)]
    pub fn none() -> Paint {
        Paint { colours: false }
    }

    /// Colours in any case.
    #[cfg(test)]
    pub fn colourful() -> Paint {
        Paint { colours: true }
    }

    /// Whether colours are used.
    pub fn has_colours(self) -> bool {
        self.colours
    }

    /// The style of an error's heading.
    pub fn error(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// The style of notes and advice.
    pub fn advice(self, text: &str) -> String {
        self.with("1;36", text)
    }

    /// The style of an accepted place or a good result.
    pub fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// The style of a refused place or a bad result.
    pub fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// The style of names.
    pub fn name(self, text: &str) -> String {
        self.with("1", text)
    }

    /// The style of secondary details.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Whether the user allows colours, by the convention of <https://no-color.org>.
fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
