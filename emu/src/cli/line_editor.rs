//! A line that the user edits on a terminal in raw mode: history, movement, deletion and completion. The editor reads no
//! terminal itself: it takes bytes, and returns the bytes to print.

use std::collections::VecDeque;

/// The largest number of lines that the history keeps.
const MOST_LINES: usize = 1000;
/// The largest number of letters of a line.
const MOST_LETTERS: usize = 4096;
/// The largest number of completions that are shown.
const MOST_SHOWN: usize = 60;

/// The outcome of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edited {
    /// The line is not complete.
    Still,
    /// The line is complete.
    Line(String),
    /// The user gave the line up (Ctrl-C).
    GivenUp,
    /// The user wants no more lines (Ctrl-D on an empty line).
    End,
}

/// Returns the words that can stand where the last word of a text stands.
pub type Complete<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// The editor, with its history.
#[derive(Debug, Default)]
pub struct LineEditor {
    prompt: String,
    line: Vec<char>,
    /// The place of the cursor in the line.
    cursor: usize,
    history: VecDeque<String>,
    /// The line of the history that is shown; its length is that of the new line.
    shown: usize,
    /// The new line, while one of the history is shown.
    draft: Vec<char>,
    /// The bytes of an escape sequence or of a letter that is not complete.
    pending: Vec<u8>,
}

impl LineEditor {
    /// Begins a new line. Returns what to print.
    pub fn begin(&mut self, prompt: &str) -> String {
        self.prompt = prompt.into();
        self.line.clear();
        self.draft.clear();
        self.pending.clear();
        (self.cursor, self.shown) = (0, self.history.len());
        prompt.into()
    }

    /// Takes one byte that was typed. Adds what to print to `out`.
    pub fn key(&mut self, byte: u8, complete: Complete<'_>, out: &mut String) -> Edited {
        if !self.pending.is_empty() || byte == 0x1b || byte >= 0x80 {
            self.pending.push(byte);
            self.sequence(out);
            return Edited::Still;
        }
        match byte {
            b'\r' | b'\n' => return self.entered(out),
            0x03 => {
                out.push_str("^C\r\n");
                return Edited::GivenUp;
            }
            0x04 if self.line.is_empty() => {
                out.push_str("\r\n");
                return Edited::End;
            }
            0x04 => self.delete(self.cursor, self.cursor + 1),
            0x08 | 0x7f => self.delete(self.cursor.saturating_sub(1), self.cursor),
            b'\t' => self.complete(complete, out),
            0x01 => self.cursor = 0,
            0x05 => self.cursor = self.line.len(),
            0x02 => self.cursor = self.cursor.saturating_sub(1),
            0x06 => self.cursor = (self.cursor + 1).min(self.line.len()),
            0x0b => self.delete(self.cursor, self.line.len()),
            0x0c => out.push_str("\x1b[H\x1b[2J"),
            0x0e => self.recall(false),
            0x10 => self.recall(true),
            0x15 => self.delete(0, self.cursor),
            0x17 => self.delete(self.word_before(), self.cursor),
            0x20..=0x7e => {
                self.insert(char::from(byte));
                // The usual case: a letter at the end of the line.
                if self.cursor == self.line.len() {
                    out.push(char::from(byte));
                    return Edited::Still;
                }
            }
            _ => return Edited::Still,
        }
        self.redraw(out);
        Edited::Still
    }

    fn entered(&mut self, out: &mut String) -> Edited {
        out.push_str("\r\n");
        let line: String = self.line.iter().collect();
        let is_new = !line.trim().is_empty() && self.history.back() != Some(&line);
        if is_new {
            self.history.push_back(line.clone());
        }
        if self.history.len() > MOST_LINES {
            self.history.pop_front();
        }
        Edited::Line(line)
    }

    /// Carries out an escape sequence or adds a letter of several bytes, once it is complete.
    fn sequence(&mut self, out: &mut String) {
        let is_escape = self.pending.first() == Some(&0x1b);
        if !is_escape {
            match std::str::from_utf8(&self.pending) {
                Ok(text) => {
                    let letters: Vec<char> = text.chars().collect();
                    letters.into_iter().for_each(|letter| self.insert(letter));
                }
                // An unfinished letter.
                Err(error) if error.error_len().is_none() && self.pending.len() < 4 => return,
                Err(_) => {}
            }
            self.pending.clear();
            return self.redraw(out);
        }
        match self.pending[1..] {
            [] | [b'[' | b'O'] => return,
            [b'[', .., last] if !(0x40..=0x7e).contains(&last) && self.pending.len() < 16 => return,
            [b'[' | b'O', b'A'] => self.recall(true),
            [b'[' | b'O', b'B'] => self.recall(false),
            [b'[' | b'O', b'C'] => self.cursor = (self.cursor + 1).min(self.line.len()),
            [b'[' | b'O', b'D'] => self.cursor = self.cursor.saturating_sub(1),
            [b'[' | b'O', b'H'] | [b'[', b'1' | b'7', b'~'] => self.cursor = 0,
            [b'[' | b'O', b'F'] | [b'[', b'4' | b'8', b'~'] => self.cursor = self.line.len(),
            [b'[', b'3', b'~'] => self.delete(self.cursor, self.cursor + 1),
            [b'b'] => self.cursor = self.word_before(),
            [b'f'] => self.cursor = self.word_behind(),
            _ => {}
        }
        self.pending.clear();
        self.redraw(out);
    }

    fn insert(&mut self, letter: char) {
        if self.line.len() < MOST_LETTERS && !letter.is_control() {
            self.line.insert(self.cursor.min(self.line.len()), letter);
            self.cursor += 1;
        }
    }

    fn delete(&mut self, from: usize, to: usize) {
        let to = to.min(self.line.len());
        if from < to {
            self.line.drain(from..to);
            self.cursor = from;
        }
    }

    fn word_before(&self) -> usize {
        let before = self.line.get(..self.cursor).unwrap_or_default();
        let blanks = before.iter().rev().take_while(|letter| letter.is_whitespace()).count();
        let word = before.iter().rev().skip(blanks).take_while(|letter| !letter.is_whitespace()).count();
        self.cursor - blanks - word
    }

    fn word_behind(&self) -> usize {
        let behind = self.line.get(self.cursor..).unwrap_or_default();
        let blanks = behind.iter().take_while(|letter| letter.is_whitespace()).count();
        let word = behind.iter().skip(blanks).take_while(|letter| !letter.is_whitespace()).count();
        self.cursor + blanks + word
    }

    /// Shows an older or a newer line of the history.
    fn recall(&mut self, older: bool) {
        let wanted = if older { self.shown.checked_sub(1) } else { Some(self.shown + 1) };
        let Some(wanted) = wanted.filter(|wanted| *wanted <= self.history.len()) else { return };
        if self.shown == self.history.len() {
            self.draft = std::mem::take(&mut self.line);
        }
        self.line = match self.history.get(wanted) {
            Some(line) => line.chars().collect(),
            None => std::mem::take(&mut self.draft),
        };
        (self.shown, self.cursor) = (wanted, self.line.len());
    }

    /// Completes the word in front of the cursor as far as all candidates agree, and shows them if that adds nothing.
    fn complete(&mut self, complete: Complete<'_>, out: &mut String) {
        let before: String = self.line.iter().take(self.cursor).collect();
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let mut candidates = complete(&before);
        candidates.retain(|candidate| candidate.starts_with(word));
        let Some(first) = candidates.first() else { return };
        let common = candidates.iter().fold(first.as_str(), |common, other| {
            let same = common.char_indices().zip(other.chars()).take_while(|((_, one), other)| one == other);
            let end = same.last().map_or(0, |((at, letter), _)| at + letter.len_utf8());
            common.get(..end).unwrap_or_default()
        });
        let added: Vec<char> = common.get(word.len()..).unwrap_or_default().chars().collect();
        let is_only = candidates.len() == 1;
        if added.is_empty() && !is_only {
            let more = candidates.len().saturating_sub(MOST_SHOWN);
            let shown: Vec<&str> = candidates.iter().take(MOST_SHOWN).map(String::as_str).collect();
            out.push_str("\r\n");
            out.push_str(&shown.join("  "));
            if more > 0 {
                out.push_str(&format!("  and {more} more"));
            }
            out.push_str("\r\n");
        }
        added.into_iter().chain(is_only.then_some(' ')).for_each(|letter| self.insert(letter));
    }

    /// Draws the line again, and puts the cursor at its place.
    fn redraw(&self, out: &mut String) {
        let line: String = self.line.iter().collect();
        out.push_str(&format!("\r{}{line}\x1b[K", self.prompt));
        let behind = self.line.len() - self.cursor.min(self.line.len());
        if behind > 0 {
            out.push_str(&format!("\x1b[{behind}D"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORDS: [&str; 4] = ["vfs_read", "vfs_readlink", "vfs_write", "list"];

    fn words(_: &str) -> Vec<String> {
        WORDS.map(String::from).to_vec()
    }

    fn typed(editor: &mut LineEditor, keys: &[u8]) -> (Vec<Edited>, String) {
        let mut out = editor.begin("> ");
        let mut all = Vec::new();
        for key in keys {
            match editor.key(*key, &words, &mut out) {
                Edited::Still => {}
                edited => {
                    all.push(edited);
                    out += &editor.begin("> ");
                }
            }
        }
        (all, out)
    }

    /// AN-2: keys move and delete as in a shell.
    #[test]
    fn keys_edit_as_in_a_shell() {
        #[rustfmt::skip]
        let cases: [(&[u8], &str); 16] = [
            (b"list\r",                         "list"),
            (b"lisx\x7ft\r",                    "list"),
            (b"ist\x01l\r",                     "list"),
            (b"ist\x1b[Hl\x1b[F!\r",            "list!"),
            (b"lst\x1b[D\x1b[Di\r",             "list"),
            (b"xlist\x1b[1~\x1b[3~\r",          "list"),
            (b"mem a b\x17\x17regs\r",          "mem regs"),
            (b"abc\x15list\r",                  "list"),
            (b"list abc\x02\x02\x02\x02\x0b\r", "list"),
            (b"lixst\x02\x02\x02\x04\r",        "list"),
            ("caf\u{e9} \u{1f600}\r".as_bytes(), "caf\u{e9} \u{1f600}"),
            (b"a\xff\xfeb\r",                   "ab"),
            (b"where vfs_w\t\r",                "where vfs_write "),
            (b"where vfs_r\t\r",                "where vfs_read"),
            (b"nothing\t\r",                    "nothing"),
            (b"a b\x1bb\x1bbx\x1bf\x1bf!\r",    "xa b!"),
        ];
        for (keys, expected) in cases {
            let (lines, _) = typed(&mut LineEditor::default(), keys);
            assert_eq!(lines, [Edited::Line(expected.into())], "{}", String::from_utf8_lossy(keys));
        }
        let (all, _) = typed(&mut LineEditor::default(), b"ab\x03\x04x\x04\r");
        assert_eq!(all, [Edited::GivenUp, Edited::End, Edited::Line("x".into())]);
    }

    /// AN-2: the arrow keys bring older lines back, and the new one is not lost.
    #[test]
    fn older_lines_come_back() {
        let mut editor = LineEditor::default();
        let (lines, _) = typed(&mut editor, b"one\rtwo\rtwo\r\x1b[A\x1b[A\rne\x10\x10\x10\x0e\x0e\x0ew\r");
        let expected = ["one", "two", "two", "one", "new"];
        assert_eq!(lines, expected.map(|line| Edited::Line(line.into())));
    }

    /// AN-2: candidates are shown if they do not agree any further.
    #[test]
    fn candidates_are_shown() {
        let (_, out) = typed(&mut LineEditor::default(), b"vfs_read\t");
        assert!(out.contains("vfs_read  vfs_readlink\r\n"), "{out:?}");
        assert!(out.ends_with("\r> vfs_read\x1b[K"), "{out:?}");
    }

    proptest! {
        /// Any bytes are edited without a panic, and the cursor stays in the line.
        #[test]
        fn any_bytes_are_edited(keys in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut editor = LineEditor::default();
            let _ = typed(&mut editor, &keys);
            prop_assert!(editor.cursor <= editor.line.len());
        }
    }
}
