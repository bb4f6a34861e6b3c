//! The file `error_log`: the last errors, each with a caret under the wrong place.

use std::collections::VecDeque;
use std::fmt::Write;

/// The number of errors that are kept.
const MOST: usize = 8;

/// The errors, oldest first.
#[derive(Debug, Default)]
pub struct Log {
    errors: VecDeque<String>,
}

impl Log {
    /// Adds an error: the time in nanoseconds, the part of the kernel that found it, its text, the command and the
    /// position in it.
    pub fn add(&mut self, time: u64, part: &str, text: &str, command: &str, at: usize) {
        let (seconds, microseconds) = (time / 1_000_000_000, time / 1000 % 1_000_000);
        let mut error = format!("[{seconds:>5}.{microseconds:06}] {part}: error: {text}\n");
        let _ = writeln!(error, "  Command: {command}");
        let _ = writeln!(error, "{}^", " ".repeat("  Command: ".len() + at));
        if self.errors.len() == MOST {
            self.errors.pop_front();
        }
        self.errors.push_back(error);
    }

    /// Empties the file.
    pub fn clear(&mut self) {
        self.errors.clear();
    }

    /// The file's text.
    pub fn text(&self) -> String {
        self.errors.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-4: the caret stands under the wrong place, and eight errors are kept.
    #[test]
    fn errors_are_logged_as_by_linux() {
        let mut log = Log::default();
        (0..10).for_each(|at| log.add(1_234_567_890, "trace_kprobe", "Invalid maxactive number", "rx vfs_read", at));
        assert_eq!(log.text().matches("error:").count(), 8);
        let last =
            "[    1.234567] trace_kprobe: error: Invalid maxactive number\n  Command: rx vfs_read\n                    ^\n";
        assert!(log.text().ends_with(last), "{}", log.text());
        log.clear();
        assert_eq!(log.text(), "");
    }
}
