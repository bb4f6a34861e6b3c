//! Shell commands on tracing files in an event file: `echo TEXT > FILE`, `cat FILE`, `sleep SECONDS`, `cd FOLDER`.
//!
//! People keep such lines in scripts. Only these commands are understood; there are no variables, pipes and loops.

use crate::tracefs::Path;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `echo TEXT > FILE`, or `>>`.
    Write {
        /// The file.
        path: String,
        /// The text, with its newline.
        text: String,
        /// Whether the file is not emptied first.
        appends: bool,
    },
    /// `cat FILE...`
    Read(Vec<String>),
    /// `sleep SECONDS`: guest time in nanoseconds.
    Sleep(u64),
    /// `cd` to the tracing folder, and `set` of the shell.
    Nothing,
}

/// A refused command: the position in the line in bytes, its length, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellError {
    /// The position in bytes.
    pub column: usize,
    /// The number of wrong bytes.
    pub length: usize,
    /// The reason, and what to write instead.
    pub why: &'static str,
}

/// The commands that lines begin with.
const COMMANDS: &[&str] = &["echo", "cat", "sleep", "cd", "set", ">"];

/// Whether a line is a shell command rather than a line of kprobe_events.
pub fn is_command(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with('>') || line.split(char::is_whitespace).next().is_some_and(|first| COMMANDS.contains(&first))
}

/// A word of a line, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    at: usize,
    length: usize,
    /// It is `>` or `>>` outside of quotes.
    redirects: bool,
}

fn error<T>(word: Option<&Word>, line: &str, why: &'static str) -> Result<T, ShellError> {
    let (column, length) = word.map_or((line.trim_end().len(), 0), |word| (word.at, word.length));
    Err(ShellError { column, length, why })
}

const NO_FILE: &str = "write a tracing file: kprobe_events, events/GROUP/EVENT/trigger, /sys/kernel/tracing/trace";
const ONE_FILE: &str = "one file stands behind the `>`";

/// Parses a line that [`is_command`] accepts.
pub fn parse(line: &str) -> Result<Statement, ShellError> {
    let words = words(line)?;
    let redirection = words.iter().position(|word| word.redirects);
    let (before, behind) = words.split_at(redirection.unwrap_or(words.len()));
    let target = match behind {
        [] => None,
        [redirect, file] if !file.redirects && Path::is_one(&file.text) => Some((file.text.clone(), redirect.text == ">>")),
        [_, file] if !file.redirects => return error(Some(file), line, NO_FILE),
        [_, _, wrong, ..] => return error(Some(wrong), line, ONE_FILE),
        _ => return error(None, line, NO_FILE),
    };
    let texts: Vec<&str> = before.iter().map(|word| word.text.as_str()).collect();
    match (&texts[..], target) {
        ([], Some((path, appends))) => Ok(Statement::Write { path, text: String::new(), appends }),
        (["echo", "-n", rest @ ..], Some((path, appends))) => Ok(Statement::Write { path, text: rest.join(" "), appends }),
        (["echo", "-e", rest @ ..], Some((path, appends))) => {
            let text = rest.join(" ").replace("\\n", "\n").replace("\\t", "\t") + "\n";
            Ok(Statement::Write { path, text, appends })
        }
        (["echo", rest @ ..], Some((path, appends))) => Ok(Statement::Write { path, text: rest.join(" ") + "\n", appends }),
        (["echo", ..], None) => error(None, line, "write `> FILE` behind the text: only tracing files are written"),
        (["cat", files @ ..], None) if !files.is_empty() => match before.iter().skip(1).find(|word| !Path::is_one(&word.text)) {
            Some(wrong) => error(Some(wrong), line, NO_FILE),
            None => Ok(Statement::Read(files.iter().map(|file| (*file).to_string()).collect())),
        },
        (["cat"], None) => error(None, line, NO_FILE),
        (["sleep", time], None) => match seconds(time) {
            Some(nanoseconds) => Ok(Statement::Sleep(nanoseconds)),
            None => error(before.get(1), line, "write a time: sleep 1, sleep 0.05, sleep 20ms"),
        },
        (["set" | "cd", ..], None) => Ok(Statement::Nothing),
        (_, Some(_)) => error(behind.first(), line, "only `echo TEXT` can be sent to a file"),
        _ => error(before.first(), line, "the commands are echo TEXT > FILE, cat FILE, sleep SECONDS and cd FOLDER"),
    }
}

/// Seconds as a decimal number, or a number with a unit, in nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    if let Some(Some(time)) = super::until::guest_time(text) {
        return Some(time);
    }
    let (whole, fraction) = text.strip_suffix('s').unwrap_or(text).split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() + fraction.len() == 0 || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Splits a line into words, as the shell does: quotes, backslashes, comments.
fn words(line: &str) -> Result<Vec<Word>, ShellError> {
    let mut words: Vec<Word> = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut letters = line.char_indices().peekable();
    let begin = |at| Word { text: String::new(), at, length: 0, redirects: false };
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some((end, _)), letter) if letter == end => quote = None,
            (Some(('"', _)), '\\') => {
                let escaped = letters.next_if(|(_, next)| matches!(next, '"' | '\\' | '$' | '`'));
                word.get_or_insert_with(|| begin(at)).text.push(escaped.map_or('\\', |(_, next)| next));
            }
            (Some(_), letter) => word.get_or_insert_with(|| begin(at)).text.push(letter),
            (None, '\'' | '"') => {
                word.get_or_insert_with(|| begin(at));
                quote = Some((letter, at));
            }
            (None, '\\') => {
                let text = &mut word.get_or_insert_with(|| begin(at)).text;
                text.extend(letters.next().map(|(_, next)| next));
            }
            (None, '#') if word.is_none() => break,
            (None, '>') => {
                words.extend(finished(&mut word, at));
                let doubled = letters.next_if(|(_, next)| *next == '>').is_some();
                let text = if doubled { ">>" } else { ">" };
                words.push(Word { text: text.into(), at, length: text.len(), redirects: true });
            }
            (None, '|' | ';' | '&' | '`' | '$' | '(' | ')' | '<') => {
                let why =
                    "this is more of the shell's language than trapline knows: put texts in quotes, and one command on a line";
                return Err(ShellError { column: at, length: letter.len_utf8(), why });
            }
            (None, letter) if letter.is_whitespace() => words.extend(finished(&mut word, at)),
            (None, letter) => word.get_or_insert_with(|| begin(at)).text.push(letter),
        }
    }
    if let Some((_, at)) = quote {
        return Err(ShellError { column: at, length: 1, why: "this quote is not closed" });
    }
    words.extend(finished(&mut word, line.len()));
    Ok(words)
}

fn finished(word: &mut Option<Word>, end: usize) -> Option<Word> {
    word.take().map(|word| Word { length: end.saturating_sub(word.at), ..word })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write(path: &str, text: &str, appends: bool) -> Statement {
        Statement::Write { path: path.into(), text: text.into(), appends }
    }

    /// DV-4: the lines that people write are understood.
    #[test]
    fn shell_lines_are_read() {
        let trigger = "events/kprobes/open/trigger";
        #[rustfmt::skip]
        let cases = [
            ("echo 'hist:keys=common_pid' > events/kprobes/open/trigger", write(trigger, "hist:keys=common_pid\n", false)),
            ("echo 'p:open do_sys_openat2' >> /sys/kernel/tracing/kprobe_events", write("/sys/kernel/tracing/kprobe_events", "p:open do_sys_openat2\n", true)),
            ("echo p:open do_sys_openat2 dfd=%ax>kprobe_events # new", write("kprobe_events", "p:open do_sys_openat2 dfd=%ax\n", false)),
            ("echo -n \"n == \\\"x\\\"\" > events/kprobes/open/filter", write("events/kprobes/open/filter", "n == \"x\"", false)),
            ("echo -:open >> kprobe_events", write("kprobe_events", "-:open\n", true)),
            ("echo 'a>b|c$d' > events/kprobes/open/filter", write("events/kprobes/open/filter", "a>b|c$d\n", false)),
            ("> kprobe_events", write("kprobe_events", "", false)),
            ("echo > kprobe_events", write("kprobe_events", "\n", false)),
            ("cat trace events/kprobes/open/hist", Statement::Read(vec!["trace".into(), "events/kprobes/open/hist".into()])),
            ("sleep 1", Statement::Sleep(1_000_000_000)),
            ("sleep 0.05", Statement::Sleep(50_000_000)),
            ("sleep 20ms", Statement::Sleep(20_000_000)),
            ("cd /sys/kernel/tracing", Statement::Nothing),
        ];
        for (line, expected) in cases {
            assert!(is_command(line), "{line}");
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for line in ["p:open do_sys_open", "r vfs_read", "-:open", "", "# echo x > trace", "echoes"] {
            assert!(!is_command(line), "{line}");
        }
    }

    /// DV-4: what is not understood is refused at its place.
    #[test]
    fn other_shell_lines_are_refused() {
        #[rustfmt::skip]
        let cases = [
            ("echo x > /etc/passwd", 9), ("echo x", 6), ("echo x >", 8), ("echo 'x > trace", 5), ("cat trace | grep x", 10), ("cat /etc/passwd", 4),
            ("echo $PATH > trace", 5), ("sleep long", 6), ("sleep", 0), ("cat", 3), ("echo x > trace y", 15), ("echo x > trace > trace", 15),
            ("cat trace > trace", 10), ("sleep 99999999999999999999", 6), ("echo x > >", 10),
        ];
        for (line, column) in cases {
            assert_eq!(parse(line).map_err(|error| error.column), Err(column), "{line}");
        }
    }

    proptest! {
        /// DV-4: any line is a statement, or an error that points to whole characters of it.
        #[test]
        fn any_line_is_a_statement_or_points_to_its_error(
            line in prop_oneof![".{0,60}", "(echo|cat|sleep|cd|>| |'|\"|\\\\|trace|kprobe_events|-n|-e|0\\.5|#|\u{e4}){0,12}"],
        ) {
            let _ = is_command(&line);
            if let Err(error) = parse(&line) {
                let end = error.column + error.length;
                prop_assert!(line.is_char_boundary(error.column) && line.is_char_boundary(end), "{error:?} in {line:?}");
            }
        }

        /// DV-4: a text in quotes arrives as it was written.
        #[test]
        fn a_quoted_text_arrives_as_it_is(text in "[^\n]{0,40}") {
            let single = format!("echo -n '{}' > kprobe_events", text.replace('\'', "'\\''"));
            prop_assert_eq!(parse(&single), Ok(write("kprobe_events", &text, false)));
        }
    }
}
