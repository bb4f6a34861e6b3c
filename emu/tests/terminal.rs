//! The guest's console on a terminal: typed bytes reach the guest, and the terminal's settings are restored however the
//! run ends.
//!
//! The kernel is in `TRAPLINE_IMAGES` or the cache of `trapline images pull`. Otherwise the tests are skipped.

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};
use trapline_harness::{self as harness, each, on, tests};

const IMAGE: &str = "debian/amd64";
/// Guests on boards with other serial ports.
const OTHERS: [&str; 2] = ["debian/mipsel", "debian/mips64el"];
/// The time to wait for output. It is long, because a busy computer is slow.
const PATIENCE: Duration = Duration::from_secs(200);

/// A terminal with `trapline run` on it.
struct Seat {
    keyboard: File,
    /// The terminal's other end. It stays open after the run, so that the terminal's settings can be read.
    terminal: File,
    child: Child,
    screen: String,
}

impl Seat {
    fn run(image: &str, args: &[&str]) -> Seat {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&keyboard).and_then(|()| unlockpt(&keyboard)).expect("it can be opened");
        let name = ptsname(&keyboard, Vec::new()).expect("its name");
        let terminal = File::from(rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end"));
        rustix::io::ioctl_fionbio(&keyboard, true).expect("reads that do not wait");
        let end = || terminal.try_clone().expect("one more");
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
        command.args(["run", image]).args(args).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("it runs");
        Seat { keyboard: keyboard.into(), terminal, child, screen: String::new() }
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.terminal)
            .expect("its state")
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    fn look(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = self.keyboard.read(&mut bytes) {
            self.screen += &String::from_utf8_lossy(&bytes[..count]);
        }
        thread::sleep(Duration::from_millis(10));
    }

    /// Waits until the condition holds.
    fn until(&mut self, what: &str, is_so: impl Fn(&Seat) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < PATIENCE, "{what} did not come:\n{}", self.screen);
            assert!(self.child.try_wait().expect("its state").is_none(), "it ended before {what}:\n{}", self.screen);
            self.look();
        }
    }

    fn until_printed(&mut self, text: &str) {
        self.until(text, |seat| seat.screen.contains(text));
    }

    fn keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).expect("it can be typed on");
    }

    fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            self.look();
            if let Some(status) = self.child.try_wait().expect("its state") {
                self.look();
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it did not end:\n{}", self.screen);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_heard_and_answered(image: &str, function: &str, ended: &str) {
    let mut seat = Seat::run(image, &["-e", &format!("p:name {function}")]);
    seat.until_printed("/ # ");
    assert!(!seat.echoes(), "{image}: the guest does the echo");
    seat.keys(b"uname -a\r");
    seat.until_printed("Linux (none) 6.");
    seat.keys(b"sh -c 'echo star''ted; cat'\r");
    seat.until_printed("\nstarted");
    seat.keys(b"\x03");
    seat.until_printed("^C");
    seat.keys(b"poweroff -f\r");
    let status = seat.end();
    assert_eq!(status.code(), Some(0), "{image}: {}", seat.screen);
    assert!(seat.screen.contains(ended) && seat.screen.contains("uname-"), "{image}: {}", seat.screen);
    assert!(seat.echoes(), "{image}: the terminal is as it was");
}

/// DV-4
fn a_person_at_the_shell_is_heard_and_answered() {
    is_heard_and_answered(IMAGE, "__do_sys_newuname", "the guest halted");
}

/// DV-4: the console works on other boards' serial ports, too.
fn a_person_at_other_shells_is_heard_and_answered(image: &'static str) {
    is_heard_and_answered(image, "sys_newuname", "the guest powered off");
}

/// DV-4
fn one_can_leave_at_any_time() {
    let mut seat = Seat::run(IMAGE, &[]);
    seat.until("the terminal's being taken", |seat| !seat.echoes());
    seat.keys(b"\x01x");
    assert_eq!(seat.end().code(), Some(0), "{}", seat.screen);
    assert!(seat.screen.contains("Ctrl-A x leaves") && seat.screen.contains("the user left with Ctrl-A x"), "{}", seat.screen);
    assert!(seat.echoes(), "the terminal is as it was");
}

/// A text without the terminal's escape sequences.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_string();
    let behind = |piece: &str| {
        piece.find(|letter: char| letter.is_ascii_alphabetic()).map_or(String::new(), |at| piece[at + 1..].to_string())
    };
    pieces.fold(first, |text, piece| text + &behind(piece))
}

impl Seat {
    /// Types a command on trapline's command line. Returns the screen when the next prompt has come.
    fn ask(&mut self, line: &str, answer: &str) -> String {
        self.screen.clear();
        self.keys(line.as_bytes());
        self.keys(b"\r");
        self.until_printed(answer);
        self.until("the next prompt", |seat| plain(&seat.screen).trim_end().ends_with("trapline>"));
        plain(&self.screen)
    }
}

/// AN-2: each kind of event and each switch can be typed on the command line.
fn events_and_switches_are_given_while_the_guest_stands() {
    let mut seat = Seat::run(IMAGE, &["--summary", "none"]);
    seat.until_printed("/ # ");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    seat.ask("p:open do_sys_openat2 file=+0($arg2):ustring", "open");
    seat.ask("r:done do_sys_openat2 fd=$retval:s64", "done");
    seat.ask("w:look w@jiffies:8", "look");
    // Parameters and their members by the kernel's types; a source line needs debug information.
    seat.ask("p:named vfs_open name=path->dentry->d_name.name:string", "named");
    let events = seat.ask("events", "w:");
    assert!(events.contains(":kprobes/done do_sys_openat2 fd=$retval:s64"), "{events}");
    // By debug information, if there is some, it has places in registers.
    let is_named = events.contains("p:kprobes/named vfs_open name=+0(+40(+8($arg1))):string");
    assert!(is_named || events.contains("p:kprobes/named vfs_open name=+0(+40(+8(%di))):string"), "{events}");
    // Without debug information there are no lines at all; with it this one has no code.
    seat.ask("p:never vfs_read:400", "error");
    seat.ask("disable open", "disable open");
    assert!(seat.ask("cat events/kprobes/open/enable", "0").contains("\n0"), "{}", seat.screen);
    assert!(seat.ask("cat events/kprobes/done/enable", "1").contains("\n1"), "{}", seat.screen);
    seat.ask("enable kprobes/open", "enable");
    assert!(seat.ask("cat events/kprobes/open/enable", "1").contains("\n1"), "{}", seat.screen);
    seat.ask("knob off", "knob off");
    assert!(!seat.ask("list", "do_sys_openat2").contains("[OPTIMIZED]"), "{}", seat.screen);
    seat.ask("knob on", "knob on");
    seat.ask("-:named", "EBUSY");
    seat.ask("disable named", "disable named");
    seat.ask("-:named", "named");
    assert!(!seat.ask("events", "open").contains("named vfs_open"), "{}", seat.screen);
    seat.keys(b"\x04");
    seat.screen.clear();
    seat.keys(b"cat /proc/version; echo do''ne\r");
    seat.until_printed("\ndone");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    let profile = seat.ask("profile", "look");
    let hits = |event: &str| {
        let row = profile.lines().find(|line| line.split_whitespace().next() == Some(event));
        row.and_then(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or_else(|| panic!("{event}: {profile}"))
    };
    assert!(hits("open") > 0 && hits("open") == hits("done") && hits("look") > 0, "{profile}");
    assert!(seat.ask("cat trace", "done").contains("file=\"/proc/version\""), "{}", seat.screen);
    seat.ask("snapshot", "cat snapshot");
    assert!(!seat.ask("cat trace", "tracer").contains("/proc/version\""), "{}", seat.screen);
    assert!(seat.ask("cat snapshot", "tracer").contains("/proc/version\""), "{}", seat.screen);
    seat.keys(b"quit\r");
    assert_eq!(seat.end().code(), Some(0), "{}", seat.screen);
}

/// AN-2, LV-1, LV-2: with debug information the command line prints source lines, and accepts them as places.
fn source_lines_are_asked_for_on_the_console() {
    let Some(dwarf) = vmlinux() else { return };
    let mut seat = Seat::run(IMAGE, &["--summary", "none", "--dwarf", dwarf.to_str().expect("a name")]);
    seat.until_printed("/ # ");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    seat.ask("where vfs_read+114", "at fs/read_write.c:462");
    seat.ask("where", " at ");
    seat.ask("bt", ".c:");
    seat.ask("disasm vfs_read+114 6", "fs/read_write.c:462:");
    seat.ask("p:vfs_read:12 count ret", "count ret");
    seat.ask("events", "p:probe/vfs_read_L12 vfs_read+114 count=%r14:x64 ret=%bx:s64");
    seat.ask("p:bad vfs_read:4", "no statement begins in line 4");
    seat.keys(b"quit\r");
    assert_eq!(seat.end().code(), Some(0), "{}", seat.screen);
}

/// Debian's vmlinux with debug information, if it is on this computer.
fn vmlinux() -> Option<PathBuf> {
    let local = trapline_images::locate(&trapline_images::Wanted::parse(IMAGE)?, &trapline_images::folders())?;
    let given = std::env::var_os("TRAPLINE_DWARF").map(PathBuf::from);
    given.into_iter().chain(local.debug()).find(|file| file.is_file())
}

/// AN-2, DV-4: Ctrl-A c opens a command line. Events, filters and histograms can be made there while the guest stands
/// still.
fn a_person_asks_while_the_guest_stands_still() {
    let mut seat = Seat::run(IMAGE, &["--summary", "none"]);
    seat.until_printed("/ # ");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    let mut ask = |line: &str, answer: &str| seat.ask(line, answer);
    ask("help", "shows who called");
    ask("p:open do_sys_openat2 file=+0($arg2):ustring", "open");
    ask("p:bad nothing_has_this_name", "ENOENT");
    ask("echo 'hist:keys=file' > events/kprobes/open/trigger", "trigger");
    ask("events", "p:kprobes/open do_sys_openat2 file=+0($arg2):ustring");
    ask("tasks", "kthreadd");
    let (registers, back) = (ask("regs", "registers of CPU 0"), ask("bt", "registers of CPU 0"));
    assert!(registers.contains("CPU 0 is at") && back.contains("CPU 0 is at"), "{registers}\n{back}");
    ask("mem linux_banner 16", "Linux versi");
    ask("where vfs_read+0x4", "vfs_read+0x4/0x");
    ask("disasm vfs_read 3", "vfs_read");
    ask("list", "do_sys_openat2+0x0");
    ask("time", "s of guest time");
    ask("nonsense", "is no command");
    let core = std::env::temp_dir().join(format!("trapline-asked-{}.vmcore", std::process::id()));
    ask(&format!("dump {}", core.display()), "is the guest at");
    assert!(std::fs::metadata(&core).is_ok_and(|facts| facts.len() > 1 << 28), "all memory is in it");
    std::fs::remove_file(&core).expect("our file");
    // The line before the last comes back by the arrow key, and a name is completed.
    ask("time", "s of guest time");
    ask("nonsense", "is no command");
    ask("\x1b[A\x1b[A", "s of guest time");
    ask("where vfs_symlin\t", "vfs_symlink+0x0");
    seat.keys(b"continue\r");
    seat.screen.clear();
    seat.keys(b"cat /proc/version\r");
    seat.until_printed("Linux version");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    seat.keys(b"cat events/kprobes/open/hist\r");
    seat.until_printed("{ file: /proc/version   ");
    seat.keys(b"live\r");
    seat.until_printed("records are shown");
    // Ctrl-D lets the guest go on.
    seat.keys(b"\x04");
    seat.screen.clear();
    seat.keys(b"cat /proc/stat > /dev/null\r");
    seat.until_printed("open: (do_sys_openat2+0x0/");
    seat.until_printed("file=\"/proc/stat\"");
    seat.keys(b"\x01l");
    seat.until_printed("no longer shown");
    let file = std::env::temp_dir().join(format!("trapline-asked-{}.csv", std::process::id()));
    seat.keys(b"\x01f");
    seat.until_printed("file for records: ");
    seat.keys(format!("{}\r", file.display()).as_bytes());
    seat.until_printed("records go to");
    seat.keys(b"cat /proc/uptime > /dev/null; echo do''ne\r");
    seat.until_printed("\ndone");
    // Keys that arrive together with Ctrl-A c are for the command line, too.
    seat.keys(b"\x01cquit\r");
    assert_eq!(seat.end().code(), Some(0), "{}", seat.screen);
    assert!(seat.echoes(), "the terminal is as it was");
    let written = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("our file");
    assert!(written.contains("/proc/uptime") && !written.contains("/proc/stat"), "{written}");
}

/// AN-2, TT-2: the replay executes the commands of the recorded run again, at the same places, with the same answers.
fn a_replay_repeats_the_commands_of_a_person() {
    let file = |ending: &str| std::env::temp_dir().join(format!("trapline-typed-{}.{ending}", std::process::id()));
    let (recording, core) = (file("rec"), file("vmcore"));
    let dump = format!("dump {}", core.display());
    let mut seat = Seat::run(IMAGE, &["--from-boot", "--summary", "none", "--record", recording.to_str().expect("a name")]);
    seat.until_printed("/ # ");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    let mut answers = Vec::new();
    let mut asked = |seat: &mut Seat, line: &str, answer: &str| answers.push((line.to_string(), seat.ask(line, answer)));
    asked(&mut seat, "time", "s of guest time");
    asked(&mut seat, "p:open do_sys_openat2 file=+0($arg2):ustring", "open");
    asked(&mut seat, "nonsense", "is no command");
    asked(&mut seat, "regs", "registers of CPU 0");
    asked(&mut seat, "mem jiffies 8", "ffff");
    seat.ask(&dump, "is the guest at");
    std::fs::remove_file(&core).expect("the core dump");
    seat.keys(b"continue\r");
    seat.screen.clear();
    seat.keys(b"cat /proc/version; echo do''ne\r");
    seat.until_printed("\ndone");
    seat.keys(b"\x01c");
    seat.until_printed("trapline> ");
    asked(&mut seat, "time", "s of guest time");
    asked(&mut seat, "profile", "open");
    asked(&mut seat, "cat trace", "/proc/version");
    seat.keys(b"continue\r");
    seat.keys(b"\x01l");
    seat.until_printed("records are shown");
    seat.keys(b"\x01x");
    assert_eq!(seat.end().code(), Some(0), "{}", seat.screen);
    let mut replay = Command::new(env!("CARGO_BIN_EXE_trapline"));
    let output = replay.arg("replay").arg(&recording).output().expect("it runs");
    std::fs::remove_file(&recording).expect("the recording");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && err.contains(" 10 commands, "), "{err}\n{out}");
    let mut rest = out.as_str();
    for (line, answer) in &answers {
        let (_, behind) = rest.split_once(&format!("\ntrapline> {line}\n")).unwrap_or_else(|| panic!("{line} in {out}"));
        // The first line of the screen is the command as it was typed, the last one is the next prompt.
        let answer = answer.replace('\r', "");
        let answer = answer.split_once('\n').map_or("", |(_, answer)| answer.trim_end().trim_end_matches("trapline>").trim_end());
        if line == "nonsense" {
            assert!(err.contains("`nonsense` is no command"), "{err}");
        } else {
            assert!(behind.starts_with(answer), "{line}: {answer}\nagain:\n{behind}");
        }
        rest = behind;
    }
    assert!(out.contains(&format!("trapline> {dump}\n(not repeated")) && !core.exists(), "{out}");
}

/// AN-2: Ctrl-A l on a terminal with enough rows opens a pane below the console. Its rows are given back however the
/// run ends.
fn records_are_shown_in_a_pane_below_the_console() {
    const OPEN: &str = "\x1b[1;16r\x1b[17;1H\x1b[K-- records (Ctrl-A l closes) ---";
    const CLOSED: &str = "\x1b[r\x1b[17;1H\x1b[J";
    let seat = || {
        let mut seat =
            Seat::run(IMAGE, &["--from-boot", "--summary", "none", "-e", "p:open do_sys_openat2 file=+0($arg2):ustring"]);
        let size = Winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&seat.terminal, size).expect("a size");
        seat.until_printed("/ # ");
        seat.keys(b"\x01l");
        seat.until_printed(OPEN);
        seat.screen.clear();
        seat
    };
    let mut closed = seat();
    closed.keys(b"cat /proc/version\r");
    closed.until_printed("Linux version");
    closed.until_printed("file=\"/proc/version\"");
    let (_, drawn) = closed.screen.rsplit_once(OPEN).expect("a pane that is drawn again");
    let rows = drawn.split("\x1b8").next().unwrap_or_default();
    assert!(rows.contains("open: (do_sys_openat2+0x0/") && rows.contains("\x1b[24;1H"), "{drawn:?}");
    closed.keys(b"\x01l");
    closed.until_printed(CLOSED);
    closed.screen.clear();
    closed.keys(b"cat /proc/stat > /dev/null; echo do''ne\r");
    closed.until_printed("\ndone");
    assert!(!closed.screen.contains("file="), "{}", closed.screen);
    closed.keys(b"\x01x");
    assert_eq!(closed.end().code(), Some(0), "{}", closed.screen);
    let mut left = seat();
    left.keys(b"\x01x");
    assert!(left.end().code() == Some(0) && left.screen.contains(CLOSED), "{:?}", left.screen);
    let mut killed = seat();
    let child = rustix::process::Pid::from_child(&killed.child);
    rustix::process::kill_process(child, rustix::process::Signal::TERM).expect("a signal");
    assert!(killed.end().signal() == Some(15) && killed.screen.contains(CLOSED), "{:?}", killed.screen);
}

/// DV-4
fn a_signal_gives_the_terminal_back() {
    let mut seat = Seat::run(IMAGE, &[]);
    seat.until("the terminal's being taken", |seat| !seat.echoes());
    let child = rustix::process::Pid::from_child(&seat.child);
    rustix::process::kill_process(child, rustix::process::Signal::TERM).expect("a signal");
    let status = seat.end();
    assert_eq!(status.signal(), Some(15), "{status}: {}", seat.screen);
    assert!(seat.echoes(), "the terminal is as it was");
}

/// DV-4: without a terminal, the bytes of the input file are typed when the guest's shell reads, and then end-of-file.
fn what_a_file_holds_is_typed_and_then_ended() {
    let run = |image: &str, input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
        let mut child = command.args(["run", image, "--console-input", "-", "--summary", "none"]);
        child =
            child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = child.spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        // One that refuses its input does not read it.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("its end")
    };
    let refused = run("tiny/x86_64", "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--console-input is for stock kernels"));
    let long = "x".repeat(900);
    let said = run(IMAGE, &format!("echo $((6 * 7))\necho {long} | wc -c\nfalse\n"));
    let console = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.status.code(), Some(1), "the shell's last status: {console}");
    assert!(console.contains("\n42\r\n") && console.contains("\n901\r\n"), "{console}");
}

fn main() -> ExitCode {
    let dwarf = harness::Need {
        what: "Debian's vmlinux with DWARF".into(),
        missing: vmlinux().is_none().then(|| "Debian's debug information: trapline images pull --dwarf debian/amd64".into()),
    };
    let with_lines = on(IMAGE, tests![source_lines_are_asked_for_on_the_console]);
    harness::run([
        with_lines.into_iter().map(|test| test.needs(dwarf.clone())).collect(),
        on(
            IMAGE,
            tests![
                a_person_at_the_shell_is_heard_and_answered,
                a_replay_repeats_the_commands_of_a_person,
                records_are_shown_in_a_pane_below_the_console,
                one_can_leave_at_any_time,
                a_person_asks_while_the_guest_stands_still,
                events_and_switches_are_given_while_the_guest_stands,
                a_signal_gives_the_terminal_back,
                what_a_file_holds_is_typed_and_then_ended,
            ],
        ),
        each!(OTHERS, a_person_at_other_shells_is_heard_and_answered),
    ])
}
