//! The command line that Ctrl-A c opens on the guest's console. The guest stands still while a command is typed and
//! carried out. It has a history and completes commands, files, events and symbols.

use super::Failure;
use super::assembly::{Syntax, Writer};
use super::commands::{self, Command};
use super::debug_files::Infos;
use super::dwarf;
use super::event_error::{Script, read_events};
use super::line_editor::{Edited, LineEditor};
use super::output::Paint;
use super::place::{self, Where};
use super::report;
use super::shell::{self, Statement};
use super::source_lines::SourceLines;
use super::vmcore::VmcoreFile;
use crate::debugger::lists::{Task, TaskFields};
use crate::probed::Session;
use crate::tracefs::{About, Tracefs};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use trapline_isa::mem::Memory;
use trapline_probes::events::set::Member;
use trapline_probes::guest::Cpu;

const PROMPT: &str = "trapline> ";
/// The command that the key Ctrl-A l gives.
pub const LIVE: &str = "live";
/// Bytes that `mem` shows by default, and at most.
const BYTES: u64 = 64;
const MOST_BYTES: u64 = 4096;
/// Instructions that `disasm` shows by default, and at most.
const INSTRUCTIONS: usize = 10;
const MOST_INSTRUCTIONS: usize = 1000;
/// The most symbols offered as completions.
const MOST_COMPLETIONS: usize = 100;

/// The commands, with their help.
const COMMANDS: &[(&str, &str)] = &[
    ("continue", "lets the guest go on; so does Ctrl-D"),
    ("quit", "ends the run"),
    ("p:", "p:NAME PLACE ARGS, r:..., w:..., -:NAME: lines of kprobe_events or perf probe; new events are enabled"),
    ("events", "lists the events"),
    ("list", "lists the probes, as debugfs does"),
    ("profile", "shows hits and misses"),
    ("blacklist", "lists what may not be probed"),
    ("enable", "enable [GROUP/][EVENT]: switches events, or all probes"),
    ("disable", "disable [GROUP/][EVENT]"),
    ("knob", "knob on, knob off: allows or forbids optimisation"),
    ("echo", "echo TEXT > FILE: writes a tracing file, such as events/kprobes/NAME/trigger (docs/events.md)"),
    ("cat", "cat FILE: shows a tracing file, such as trace or events/kprobes/NAME/hist"),
    ("snapshot", "exchanges the records of the files trace and snapshot"),
    ("dump", "dump FILE: writes the guest as a core dump, for drgn, crash and gdb"),
    (LIVE, "shows records as they come, or no longer; so does Ctrl-A l"),
    ("time", "shows the guest's time"),
    ("regs", "shows the registers"),
    ("bt", "shows who called"),
    ("where", "where [PLACE]: shows which function that is; without PLACE, for each CPU"),
    ("tasks", "lists the guest's tasks"),
    ("mem", "mem PLACE [BYTES]: shows memory of the running task and the kernel"),
    ("disasm", "disasm PLACE [COUNT]: shows instructions as they are now, probes included"),
    ("help", "shows this list"),
];

/// The end of the user's asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The guest continues.
    Continue,
    /// The run ends.
    Leave,
}

/// The parts of a run that commands of the console may change.
pub struct Asked<'a, 'l> {
    /// The guest, the events and the newest records.
    pub about: About<'a>,
    /// The tracing files.
    pub files: &'a mut Tracefs,
    /// Probes that were removed, with their counts.
    pub removed: &'a mut Vec<Member>,
    /// Whether records are shown as they come.
    pub live: &'a mut bool,
    /// Source lines, if there is debug information.
    pub lines: Option<&'l SourceLines<'l>>,
}

impl Asked<'_, '_> {
    /// The source line of an address, with ` at ` in front; empty if it is not known.
    fn source(&self, address: u64) -> String {
        let text = self.lines.map(|lines| lines.text(address)).unwrap_or_default();
        if text.is_empty() { text } else { format!(" at {text}") }
    }
}

/// Waits for the next byte that is typed. `None`: the terminal is gone.
pub type Keys<'a> = &'a mut dyn FnMut() -> Option<u8>;
/// Receives each command before it is carried out.
pub type Told<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

/// The command line.
#[derive(Default)]
pub struct Asker {
    editor: LineEditor,
    words: Words,
}

/// The words that can be completed.
#[derive(Default)]
struct Words {
    /// Sorted.
    symbols: Vec<String>,
    others: Vec<String>,
}

impl Asker {
    /// A command line with an empty history.
    pub fn new(session: &Session) -> Asker {
        let mut symbols: Vec<String> = session.symbols().into_iter().map(|symbol| symbol.name).collect();
        symbols.sort_unstable();
        symbols.dedup();
        Asker { editor: LineEditor::default(), words: Words { symbols, others: Vec::new() } }
    }

    /// Asks for commands until one makes the guest continue.
    pub fn ask(&mut self, keys: Keys<'_>, told: Told<'_>, asked: &mut Asked<'_, '_>) -> Result<Next, Failure> {
        loop {
            let commands = COMMANDS.iter().map(|(name, _)| (*name).to_string());
            self.words.others = commands.chain(Tracefs::list(&asked.about)).collect();
            let line = match self.line(PROMPT, keys)? {
                None => return Ok(Next::Leave),
                Some(Edited::End) => return Ok(Next::Continue),
                Some(Edited::Line(line)) => line,
                Some(_) => continue,
            };
            match line.trim() {
                "" => {}
                "continue" | "c" => return Ok(Next::Continue),
                "quit" | "q" | "exit" => return Ok(Next::Leave),
                line => {
                    told(line)?;
                    answer(line, asked)?;
                }
            }
        }
    }

    /// Asks for the name of a file. `None` if the user gives none.
    pub fn ask_for_file(&mut self, keys: Keys<'_>) -> Result<Option<String>, Failure> {
        match self.line("file for records: ", keys)? {
            Some(Edited::Line(line)) => Ok(Some(line.trim().to_string()).filter(|name| !name.is_empty())),
            _ => Ok(None),
        }
    }

    /// Reads a line that the user edits. `None` if the terminal is gone.
    fn line(&mut self, prompt: &str, keys: Keys<'_>) -> Result<Option<Edited>, Failure> {
        let words = &self.words;
        print(&self.editor.begin(prompt))?;
        while let Some(key) = keys() {
            let mut out = String::new();
            let edited = self.editor.key(key, &|before| words.completions(before), &mut out);
            print(&out)?;
            if edited != Edited::Still {
                return Ok(Some(edited));
            }
        }
        Ok(None)
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Carries out a command of a recorded run again, and prints it with its answer.
pub fn repeat(line: &str, asked: &mut Asked<'_, '_>) -> Result<(), Failure> {
    print(&format!("\n{PROMPT}{line}\n"))?;
    match line.split_whitespace().next() {
        Some("dump") => print("(not repeated, because it writes a file)\n"),
        _ => answer(line, asked),
    }
}

/// Carries out a command and prints its answer.
pub fn answer(line: &str, asked: &mut Asked<'_, '_>) -> Result<(), Failure> {
    match carry_out(line, asked) {
        Ok(text) => print(&if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }),
        Err(failure) => {
            eprint!("{}", failure.render(Paint::for_errors()));
            Ok(())
        }
    }
}

/// Carries out a command and returns the text to print.
fn carry_out(line: &str, asked: &mut Asked<'_, '_>) -> Result<String, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let session = &mut *asked.about.session;
    match words[..] {
        ["help" | "?", ..] => Ok(help()),
        ["events"] => Ok(asked.about.events.text()),
        ["time"] => Ok(time(session.machine().now())),
        ["regs"] => Ok(registers(session)),
        ["bt"] => {
            let report = session.report();
            Ok(report::render_with_lines(&report, &|address| asked.lines.map(|lines| lines.text(address)).unwrap_or_default()))
        }
        ["where"] => Ok(places(asked)),
        ["where", place] => place_of(asked, place),
        ["tasks"] => tasks(session),
        ["mem", place] => memory(session, place, BYTES),
        ["mem", place, bytes] => memory(session, place, count(bytes, MOST_BYTES)?),
        ["disasm", place] => disassembly(asked, place, INSTRUCTIONS),
        ["disasm", place, number] => {
            let number = count(number, MOST_INSTRUCTIONS as u64)?;
            disassembly(asked, place, usize::try_from(number).unwrap_or(INSTRUCTIONS))
        }
        ["dump", file] => VmcoreFile::new(Path::new(file))?.write(session).map(|()| String::new()),
        ["snapshot"] => {
            asked.about.kept.swap();
            Ok("the records so far are in the file snapshot: `cat snapshot` shows them\n".into())
        }
        [LIVE] => {
            *asked.live = !*asked.live;
            Ok(format!("records are {} as they come\n", if *asked.live { "shown" } else { "no longer shown" }))
        }
        _ if shell::is_command(line) => shell_command(line, asked),
        _ => event_command(line, asked),
    }
}

fn help() -> String {
    COMMANDS.iter().fold(String::new(), |text, (name, what)| text + &format!("  {name:<10} {what}\n"))
}

fn shell_command(line: &str, asked: &mut Asked<'_, '_>) -> Result<String, Failure> {
    let wrong = |error: shell::ShellError| Failure::usage(format!("column {}: {}", error.column + 1, error.why));
    let refused = |error: crate::tracefs::FileError| Failure::failed(error.to_string());
    let text = match shell::parse(line).map_err(wrong)? {
        Statement::Write { path, text, appends } => {
            asked.files.write(&mut asked.about, &path, &text, appends).map_err(refused)?;
            String::new()
        }
        Statement::Read(paths) => {
            let mut text = String::new();
            for path in paths {
                text += &asked.files.read(&mut asked.about, &path).map_err(refused)?;
            }
            text
        }
        Statement::Sleep(_) => return Err(Failure::usage("the guest sleeps while you type: `continue` lets it go on")),
        Statement::Nothing => String::new(),
    };
    asked.removed.extend(asked.files.take_removed());
    Ok(text)
}

fn event_command(line: &str, asked: &mut Asked<'_, '_>) -> Result<String, Failure> {
    let none = Infos { kernel: None, modules: Vec::new() };
    let infos = asked.lines.map_or(&none, SourceLines::infos);
    match dwarf::expanded(line, asked.about.session.kernel(), infos) {
        None => plain_command(line, asked),
        Some(Ok(lines)) => lines.iter().try_fold(String::new(), |text, line| Ok(text + &plain_command(line, asked)?)),
        Some(Err(why)) => Err(Failure::usage(why)),
    }
}

fn plain_command(line: &str, asked: &mut Asked<'_, '_>) -> Result<String, Failure> {
    let script = || Script { source: "your line".into(), text: line.into() };
    let unknown = Failure::usage(format!("`{line}` is no command")).advise("`help` lists the commands");
    let command = Command::parse(line, |_| Ok(read_events(script())?.pop())).map_err(|failure| {
        // A wrong line of kprobe_events has a drawing of its own.
        if line.contains(':') { failure } else { unknown }
    })?;
    let done = commands::carry_out(&command, asked.about.session, asked.about.events)?;
    asked.removed.extend(done.removed);
    Ok(done.text)
}

fn count(text: &str, most: u64) -> Result<u64, Failure> {
    match text.parse() {
        Ok(number @ 1..) if number <= most => Ok(number),
        _ => Err(Failure::usage(format!("`{text}` is no number from 1 to {most}"))),
    }
}

fn time(nanoseconds: u64) -> String {
    format!("{}.{:09} s of guest time\n", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

fn registers(session: &mut Session) -> String {
    let mut report = session.report();
    report.calls.clear();
    report::render(&report)
}

fn places(asked: &mut Asked<'_, '_>) -> String {
    let mut text = String::new();
    for (number, (address, name)) in asked.about.session.report().cpus.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "CPU {number}: {address:#x} {name}{}", asked.source(*address));
    }
    text
}

/// The address of a place, in the kernel or in a module.
fn address(session: &mut Session, place: &str) -> Result<u64, Failure> {
    match Where::parse(place)? {
        Where::Address(address) => Ok(address),
        Where::Symbol { name, offset } => {
            let found = session.with_engine(|_, guest| guest.symbol(&name));
            match found {
                Some(symbol) => Ok(symbol.start.wrapping_add(offset.into())),
                None => Ok(place::find(&session.kernel().symbols, &name)?.start.wrapping_add(offset.into())),
            }
        }
        Where::Every(_) | Where::Pattern(_) => {
            Err(Failure::usage(format!("`{place}` is more than one place")).advise("write SYMBOL, SYMBOL+0x10 or 0xADDRESS"))
        }
    }
}

fn place_of(asked: &mut Asked<'_, '_>, place: &str) -> Result<String, Failure> {
    let address = address(asked.about.session, place)?;
    let source = asked.source(address);
    let found = asked.about.session.with_engine(|_, guest| guest.symbol_at(address));
    Ok(match found {
        Some(symbol) => {
            let module = symbol.module.map(|module| format!(" [{module}]")).unwrap_or_default();
            format!("{address:#x} {}+{:#x}/{:#x}{module}{source}\n", symbol.name, address - symbol.start, symbol.size)
        }
        None => format!("{address:#x} is in no function\n"),
    })
}

fn memory(session: &mut Session, place: &str, bytes: u64) -> Result<String, Failure> {
    const ROW: u64 = 16;
    let start = address(session, place)?;
    let mut text = String::new();
    for at in (0..bytes).step_by(ROW as usize) {
        let from = start.wrapping_add(at);
        let mut row = vec![0; ROW.min(bytes - at) as usize];
        let is_read = session.machine_mut().look(|view| {
            let kernel = view.read(from, &mut row);
            kernel.or_else(|_| view.read_user(from, &mut row)).is_ok()
        });
        if !is_read {
            let _ = writeln!(text, "{from:016x}: cannot be read");
            break;
        }
        let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String = row.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' }).collect();
        let _ = writeln!(text, "{from:016x}: {:<47}  {letters}", hex.join(" "));
    }
    Ok(text)
}

fn disassembly(asked: &mut Asked<'_, '_>, place: &str, number: usize) -> Result<String, Failure> {
    /// At least the length of the longest instruction, in bytes.
    const LONGEST: usize = 16;
    let lines = asked.lines;
    let session = &mut *asked.about.session;
    let start = address(session, place)?;
    let isa = session.kernel().arch.isa();
    let (first, mut bytes) = (isa.group_start(start), Vec::new());
    session.machine_mut().look(|view| {
        let mut byte = [0];
        while bytes.len() < number * LONGEST && view.read(first.wrapping_add(bytes.len() as u64), &mut byte).is_ok() {
            bytes.extend_from_slice(&byte);
        }
    });
    let kernel = session.kernel();
    let writer = Writer::new(kernel.arch, Syntax::default(), &kernel.symbols)?;
    let (mut text, mut at, mut shown) = (String::new(), start, String::new());
    for _ in 0..number {
        // A line of source stands above its instructions.
        let source = lines.map(|lines| lines.text(at)).unwrap_or_default();
        if source != shown {
            let _ = writeln!(text, "{source}:");
            shown = source;
        }
        let rest =
            usize::try_from(isa.group_start(at).wrapping_sub(first)).ok().and_then(|done| bytes.get(done..)).unwrap_or_default();
        match (isa.decode)(at, rest) {
            Ok(insn) => {
                let _ = writeln!(text, "{at:#x}: {}", writer.text(&insn));
                at = insn.next();
            }
            Err(_) => {
                let why = if rest.is_empty() { "read" } else { "decoded" };
                let _ = writeln!(text, "{at:#x}: cannot be {why}");
                break;
            }
        }
    }
    Ok(text)
}

/// The tasks on the kernel's list, by the kernel's types.
fn tasks(session: &mut Session) -> Result<String, Failure> {
    let fields = TaskFields::of(session.kernel()).ok_or_else(|| {
        Failure::failed("the places of a task's fields are not known: this kernel has no types (BTF)")
            .advise("`regs`, `bt` and `where` show what runs")
    })?;
    let tasks = session.machine_mut().look(|view| fields.tasks(view));
    let mut text = String::from("    PID   TGID STATE COMM\n");
    for Task { pid, process, state, comm, .. } in tasks {
        let _ = writeln!(text, "{pid:>7}{process:>7} {state:>5} {comm}");
    }
    Ok(text)
}

impl Words {
    /// The words that the last word could become: commands and files, and behind the first word symbols too.
    fn completions(&self, line: &str) -> Vec<String> {
        let begin = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = line.get(begin..).unwrap_or_default();
        let mut found: Vec<String> = self.others.iter().filter(|other| other.starts_with(word)).cloned().collect();
        if begin > 0 && !word.is_empty() {
            let from = self.symbols.partition_point(|symbol| symbol.as_str() < word);
            let symbols = self.symbols.iter().skip(from).take_while(|symbol| symbol.starts_with(word));
            found.extend(symbols.take(MOST_COMPLETIONS).cloned());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-2: commands, files and symbols are completed.
    #[test]
    fn words_are_completed() {
        let words = Words {
            symbols: ["vfs_open", "vfs_read", "vfs_write"].map(String::from).into(),
            others: ["profile", "trace", "tracing_on", "events/enable"].map(String::from).into(),
        };
        #[rustfmt::skip]
        let cases: [(&str, &[&str]); 6] = [
            ("pro", &["profile"]), ("cat tra", &["trace", "tracing_on"]), ("p:x vfs_r", &["vfs_read"]), ("vfs_r", &[]),
            ("cat events/", &["events/enable"]), ("p:x vfs_", &["vfs_open", "vfs_read", "vfs_write"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words.completions(line), expected, "{line}");
        }
    }
}
