//! The pane that shows records as they come, below the guest's console on the user's terminal (Ctrl-A l).
//!
//! The terminal scrolls the rows above the pane only (DECSTBM). The pane is drawn where the guest has written whole characters
//! and control sequences, and the cursor is saved and restored around it. A program of the guest that sets the scrolled rows
//! itself, such as an editor, writes over the pane until the next record comes.

use rustix::termios::tcgetwinsize;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A terminal with fewer rows or columns has no pane.
const LEAST: (u16, u16) = (15, 20);
/// The most rows of a pane, and the part of the terminal that it takes at most.
const MOST_ROWS: u16 = 12;
const PART: u16 = 3;
/// The time between two drawings at least.
const PAUSE: Duration = Duration::from_millis(40);

/// Whether a pane is open, for the end of the process.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// The pane. Dropping it gives its rows back to the console.
pub struct Pane {
    size: Size,
    /// The newest lines.
    lines: VecDeque<String>,
    /// Lines came that are not drawn yet.
    is_stale: bool,
    drawn: Instant,
}

/// The size of the terminal and of the pane in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    rows: u16,
    columns: u16,
}

impl Size {
    /// The size of the terminal at standard output, if a pane fits.
    fn now() -> Option<Size> {
        let size = tcgetwinsize(io::stdout()).ok()?;
        Some(Size { rows: size.ws_row, columns: size.ws_col }).filter(|size| size.rows >= LEAST.0 && size.columns >= LEAST.1)
    }

    /// The rows of the pane, with its title.
    fn height(self) -> u16 {
        (self.rows / PART).min(MOST_ROWS)
    }

    /// The rows that are left for the console.
    fn console(self) -> u16 {
        self.rows - self.height()
    }
}

impl Pane {
    /// Opens a pane, if standard output is a terminal that is large enough.
    pub fn open() -> Option<Pane> {
        if !io::stdout().is_terminal() {
            return None;
        }
        let pane = Pane { size: Size::now()?, lines: VecDeque::new(), is_stale: true, drawn: Instant::now() };
        IS_OPEN.store(true, Ordering::Relaxed);
        let height = pane.size.height();
        // The console moves up until the pane's rows are free.
        let room = "\n".repeat(height.into());
        write(&format!("{room}\x1b[{height}A{}", pane.drawing()));
        Some(pane)
    }

    /// Adds lines.
    pub fn add(&mut self, text: &str) {
        let most = usize::from(MOST_ROWS);
        self.lines.extend(text.lines().map(|line| shown(line.trim_start())));
        self.lines.drain(..self.lines.len().saturating_sub(most));
        self.is_stale |= !text.is_empty();
    }

    /// Draws the pane, if there is something new. Called between whole control sequences of the guest.
    pub fn draw(&mut self) {
        if !self.is_stale || self.drawn.elapsed() < PAUSE {
            return;
        }
        // The user may have made the terminal larger or smaller.
        let Some(size) = Size::now() else { return };
        self.size = size;
        write(&self.drawing());
        (self.is_stale, self.drawn) = (false, Instant::now());
    }

    fn drawing(&self) -> String {
        let Size { columns, .. } = self.size;
        let (top, rows) = (self.size.console(), usize::from(self.size.height()) - 1);
        let title: String = format!("{:-<width$}", "-- records (Ctrl-A l closes) ", width = columns.into());
        let mut text = format!("\x1b7\x1b[1;{top}r\x1b[{};1H\x1b[K{}", top + 1, cut(&title, columns));
        let newest = self.lines.iter().skip(self.lines.len().saturating_sub(rows)).map(String::as_str);
        for (row, line) in (top + 2..).zip(newest.chain(std::iter::repeat("")).take(rows)) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[{row};1H\x1b[K{}", cut(line, columns));
        }
        text + "\x1b8"
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        close();
    }
}

/// Gives the rows of an open pane back to the console. Called however the process ends.
pub fn close() {
    if IS_OPEN.swap(false, Ordering::Relaxed)
        && let Some(size) = Size::now()
    {
        write(&format!("\x1b7\x1b[r\x1b[{};1H\x1b[J\x1b8", size.console() + 1));
    }
}

fn write(text: &str) {
    let mut out = io::stdout();
    // A terminal that is gone ends the run elsewhere.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A line without characters that a terminal would obey.
fn shown(line: &str) -> String {
    line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn cut(line: &str, columns: u16) -> &str {
    let end = line.char_indices().nth(columns.into()).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

/// Follows the guest's console, and knows whether it is in the middle of a character or of a control sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// Between two.
    #[default]
    Between,
    /// Behind ESC.
    Escape,
    /// In a sequence that a letter ends (CSI).
    Sequence,
    /// In a text that BEL or ESC ends (OSC, DCS).
    Text,
    /// Inside a multi-byte character, with the number of missing bytes.
    Character(u8),
}

impl Reading {
    /// Follows the next bytes.
    pub fn follow(self, bytes: &[u8]) -> Reading {
        bytes.iter().fold(self, |state, byte| match (state, byte) {
            (_, 0x1b) => Reading::Escape,
            (Reading::Escape, b'[') => Reading::Sequence,
            (Reading::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Reading::Text,
            (Reading::Escape, 0x20..=0x2f) => Reading::Escape,
            (Reading::Sequence, 0x20..=0x3f) => Reading::Sequence,
            (Reading::Text, byte) if *byte != 0x07 => Reading::Text,
            (Reading::Character(missing), 0x80..=0xbf) if missing > 1 => Reading::Character(missing - 1),
            (Reading::Between, 0xc2..=0xdf) => Reading::Character(1),
            (Reading::Between, 0xe0..=0xef) => Reading::Character(2),
            (Reading::Between, 0xf0..=0xf4) => Reading::Character(3),
            _ => Reading::Between,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-2: nothing is drawn into a control sequence or a character of the guest.
    #[test]
    fn whole_sequences_and_characters_are_known() {
        #[rustfmt::skip]
        let cases: [(&[u8], Reading); 16] = [
            (b"", Reading::Between), (b"ls\r\n", Reading::Between), (b"\x1b", Reading::Escape), (b"\x1b[", Reading::Sequence),
            (b"\x1b[1;3", Reading::Sequence), (b"\x1b[1;31m", Reading::Between), (b"\x1b]0;title", Reading::Text),
            (b"\x1b]0;title\x07", Reading::Between), (b"\x1b]0;title\x1b", Reading::Escape), (b"\x1b]0;title\x1b\\", Reading::Between),
            (b"\x1b(", Reading::Escape), (b"\x1b(B", Reading::Between), ("\u{e4}".as_bytes(), Reading::Between),
            (b"\xc3", Reading::Character(1)), (b"\xe2\x82", Reading::Character(1)), (b"\xe2x", Reading::Between),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Reading::default().follow(bytes), expected, "{bytes:?}");
            let one_by_one = bytes.iter().fold(Reading::default(), |state, byte| state.follow(&[*byte]));
            assert_eq!(one_by_one, expected, "{bytes:?} one by one");
        }
    }

    /// AN-2: the newest lines fill the pane, no line is longer than a row, and the cursor is where it was.
    #[test]
    fn the_newest_lines_are_in_the_pane() {
        let size = Size { rows: 24, columns: 20 };
        let mut pane = Pane { size, lines: VecDeque::new(), is_stale: false, drawn: Instant::now() };
        assert_eq!((size.height(), size.console()), (8, 16));
        for number in 0..30 {
            pane.add(&format!("record {number} is a line of its own\n"));
        }
        pane.add("bad\x1b[2Jthing\n");
        let text = pane.drawing();
        assert!(
            text.starts_with("\x1b7\x1b[1;16r\x1b[17;1H\x1b[K-- records (Ctrl-A l\x1b[18;1H\x1b[Krecord 24 is a line "),
            "{text:?}"
        );
        assert!(text.ends_with("\x1b[23;1H\x1b[Krecord 29 is a line \x1b[24;1H\x1b[Kbad?[2Jthing\x1b8"), "{text:?}");
    }
}
