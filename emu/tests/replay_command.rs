//! `trapline run --record` and `trapline replay`, on built-in and stock kernels.
//!
//! The tests on stock kernels need kernels in `TRAPLINE_IMAGES` or the cache; without them they are skipped.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use trapline_harness::{self as harness, Folder, Test, each, guests, member, tests};

struct Said {
    status: i32,
    out: String,
    err: String,
}

fn trapline(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn good(args: &[&str]) -> Said {
    let said = trapline(args);
    assert_eq!(said.status, 0, "{args:?}: {}\n{}", said.err, said.out);
    said
}

/// The console of `run` or of a plain `replay`.
fn console(said: &Said) -> &str {
    said.out.split("\nthe guest powered off").next().unwrap()
}

/// The number of marks that a plain replay found equal.
fn marks(said: &Said) -> u64 {
    let words = said.err.split(" marks equal").next().unwrap();
    words.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{}", said.err))
}

const STOCK: [&str; 9] = [
    "debian/amd64",
    "debian/i386",
    "debian/arm64",
    "debian/armhf",
    "debian/ppc64el",
    "debian/s390x",
    "debian/riscv64",
    "debian/mipsel",
    "debian/mips64el",
];
const BARE: [&str; 2] = ["-e", "# nothing"];
const PROBED: [&str; 6] = ["-e", "p schedule", "-e", "r vfs_read", "-e", "p do_timer_interrupt"];
const QUESTIONS: [(&str, &str); 3] = [
    ("kprobes", "kprobe:* { @hits = count(); }"),
    ("return probes", "kretprobe:vfs_read { @ = hist(retval); } kretprobe:schedule { @woken = count(); }"),
    ("a timer", "interval:us:7 { @ticks = count(); }"),
];

/// TT-2: a recording replays the same run: without probes, with a probe on every function, with return probes, and with
/// a timer that stops it at other places. Its marks are compared on the way, and its console is the same.
fn a_tiny_run_is_replayed(name: &'static str) {
    let folder = Folder::new(&format!("replay-{}", name.replace('/', "-")));
    for (cpus, probes) in [("1", &BARE[..]), ("2", &BARE[..]), ("1", &PROBED[..]), ("2", &PROBED[..])] {
        let what = format!("{name}, {cpus} CPUs, recorded with {} probes", probes.len() / 2);
        let file = folder.0.join("run.rec");
        let file = file.to_str().unwrap();
        let records = folder.0.join("records");
        let options = ["run", name, "--cpus", cpus, "--record", file, "--out", records.to_str().unwrap()];
        let recorded = good(&[&options[..], probes].concat());
        let plain = good(&["replay", file]);
        assert_eq!(plain.out.trim_end(), console(&recorded).trim_end(), "{what}");
        assert!(marks(&plain) >= 5, "{what}: {}", plain.err);
        for (question, script) in QUESTIONS {
            let asked = good(&["replay", file, "-e", script]);
            assert!(asked.out.contains("@"), "{what}, {question}: {}", asked.out);
            assert!(asked.err.contains(plain.out.trim_end()), "{what}, {question}: the console is the same\n{}", asked.err);
        }
    }
}

/// TT-1: a recording with any end is replayed up to its last complete frame.
fn a_recording_is_replayed_up_to_its_last_whole_frame() {
    let folder = Folder::new("replay-cut");
    let file = folder.0.join("run.rec");
    good(&["run", "tiny/arm64", "--record", file.to_str().unwrap(), "-q", BARE[0], BARE[1]]);
    let bytes = fs::read(&file).unwrap();
    let whole = good(&["replay", file.to_str().unwrap()]);
    let mut seen = Vec::new();
    for cut in [bytes.len() - 1, bytes.len() - 80, bytes.len() / 2, bytes.len() / 2 + 13] {
        let cut = folder.write("cut.rec", &bytes[..cut]);
        let said = good(&["replay", cut.to_str().unwrap()]);
        assert!(said.err.contains("the recording was not finished") && said.err.contains("no whole frame"), "{}", said.err);
        assert!(said.err.contains("the recording ends here"), "{}", said.err);
        assert!(whole.out.starts_with(&said.out), "{}", said.out);
        seen.push(marks(&said));
    }
    assert!(seen[0] == marks(&whole) && seen[2] > 0 && seen[2] < seen[0], "{seen:?} of {}", marks(&whole));
}

/// TT-2: a different mark ends the replay with a message. Here the recording belongs to another command line.
fn a_replay_that_differs_is_noticed_and_wrong_files_are_refused() {
    let folder = Folder::new("replay-refused");
    let file = |name: &str| folder.0.join(name).to_str().unwrap().to_string();
    let (one, other) = (file("one.rec"), file("other.rec"));
    good(&["run", "tiny/i386", "--record", &one, "-q", "--until", "300us", BARE[0], BARE[1]]);
    good(&["run", "tiny/i386", "--record", &other, "--append", "x", "-q", "--until", "400us", BARE[0], BARE[1]]);
    // The head of one with the arguments of the other, made by the only way to make one: asking for it.
    let changed = fs::read(&one).unwrap();
    let at = changed.windows(9).position(|bytes| bytes == b"tiny/i386").unwrap();
    let mut changed = changed;
    changed[at + 5..at + 9].copy_from_slice(b"ppc6");
    let changed = folder.write("changed.rec", &changed).to_str().unwrap().to_string();
    let text = folder.write("text", b"not a recording, but long enough for one").to_str().unwrap().to_string();
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 6] = [
        (&["replay", &changed],                             "its head is damaged"),
        (&["replay", &text],                                "it is no recording of trapline"),
        (&["replay", "/nowhere.rec"],                       "cannot be read"),
        (&["replay", &one, "--from", "1s"],                 "lies behind the end of the replay"),
        (&["replay", &one, "--unsafe", "-e", "BEGIN { }"],  "changes the guest"),
        (&["replay", &one, "--from", "1"],                  "write a number and its unit"),
    ];
    for (args, why) in cases {
        let said = trapline(args);
        assert!(said.status == 2 && said.err.contains(why), "{args:?}: {} {}", said.status, said.err);
    }
    let said = trapline(&["trace", "tiny/i386", "--unsafe", "--record", &file("x.rec"), "-e", "BEGIN { }"]);
    assert!(said.status == 2 && said.err.contains("--record: a script with override()"), "{}", said.err);
    assert!(!PathBuf::from(file("x.rec")).exists());
}

/// TT-2: probes are attached at --from, and --last counts back from the end.
fn a_part_of_a_run_is_replayed() {
    let folder = Folder::new("replay-part");
    let file = folder.0.join("run.rec");
    let file = file.to_str().unwrap();
    good(&["trace", "tiny/x86_64", "--record", file, "-q", "-e", "kprobe:do_fork { @ = count(); }"]);
    let script =
        "kprobe:schedule { if (@first == 0) { @first = nsecs } @last = nsecs; @count = count(); } END { print(@first); }";
    let ask = |more: &[&str]| {
        let said = good(&[&["replay", file, "-q", "-e", script][..], more].concat());
        let number = |name: &str| -> u64 {
            let line = said.out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{}", said.out));
            line.split(": ").nth(1).unwrap().parse().unwrap()
        };
        (number("@first"), number("@last"), number("@count"))
    };
    let whole = ask(&[]);
    let middle = (whole.0 + whole.1) / 2;
    let first = ask(&["--to", &format!("{middle}ns")]);
    let second = ask(&["--from", &format!("{middle}ns")]);
    assert!(first.0 == whole.0 && first.1 <= middle, "{first:?} of {whole:?}");
    assert!(second.0 >= middle && second.1 == whole.1, "{second:?} of {whole:?}");
    assert_eq!(first.2 + second.2, whole.2, "both parts are the whole");
    let last = ask(&["--last", "100us"]);
    assert!(last.1 == whole.1 && last.0 > whole.0 && last.2 < whole.2, "{last:?} of {whole:?}");
}

const ASKED: &str =
    "kprobe:vfs_* { @calls[func] = count(); } kretprobe:vfs_read { @reads = count(); } interval:us:50 { @ticks = count(); }";

fn is_replayed(name: &str, what: &str, more: &[&str]) {
    harness::stock(name);
    let folder = Folder::new(&format!("replay-{what}-{}", name.replace('/', "-")));
    let script = folder.write(
        "work.sh",
        b"echo hello; cat /proc/stat | md5sum; i=0; while [ $i -lt 5 ]; do i=$((i+1)); cat /proc/uptime >/dev/null; done; date\n",
    );
    let [file, script, records] = [folder.0.join("run.rec"), script, folder.0.join("records")];
    let [file, script, records] = [&file, &script, &records].map(|path| path.to_str().unwrap());
    let options = ["run", name, "--from-boot", "--script", script, "--record", file, "--out", records];
    let recorded = good(&[&options[..], more].concat());
    let plain = good(&["replay", file]);
    assert_eq!(plain.out.trim_end(), console(&recorded).trim_end(), "{name}");
    assert!(plain.out.contains("hello") && marks(&plain) >= 20, "{name}: {}", plain.err);
    let asked = good(&["replay", file, "-e", ASKED]);
    assert!(asked.out.contains("@ticks") && asked.err.contains(plain.out.trim_end()), "{name}: {}", asked.err);
}

/// TT-2: a stock kernel's run with typed input replays equally, without probes and with probes and a timer, which stop
/// it at many other places.
fn a_stock_run_is_replayed(name: &'static str) {
    is_replayed(name, "plain", &[]);
}

/// TT-2: a run that was recorded with probes replays equally.
fn a_probed_stock_run_is_replayed(name: &'static str) {
    is_replayed(name, "probed", &["-e", "p:open do_sys_openat2", "-e", "r:read vfs_read"]);
}

/// TT-2: a run on two CPUs replays equally.
fn a_stock_run_of_two_cpus_is_replayed(name: &'static str) {
    is_replayed(name, "two", &["--cpus", "2"]);
}

/// TT-1: a recording whose process was killed is replayed up to its last complete frame.
fn a_killed_recording_is_replayed(name: &'static str) {
    harness::stock(name);
    let folder = Folder::new(&format!("replay-killed-{}", name.replace('/', "-")));
    let script = folder.write("work.sh", b"while :; do cat /proc/stat | md5sum; done\n");
    let path = folder.0.join("run.rec");
    let args = ["run", name, "--from-boot", "-q", "--script", script.to_str().unwrap(), "--record", path.to_str().unwrap()];
    for size in [3000, 5000] {
        let _ = fs::remove_file(&path);
        let mut child = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).stdin(Stdio::null()).spawn().unwrap();
        let started = std::time::Instant::now();
        while fs::metadata(&path).map_or(0, |about| about.len()) < size {
            assert!(started.elapsed().as_secs() < 300, "{name}: the recording does not grow");
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let said = good(&["replay", path.to_str().unwrap()]);
        assert!(
            said.err.contains("the recording was not finished") && said.err.contains("the recording ends here"),
            "{}",
            said.err
        );
        assert!(marks(&said) >= 20, "{name}: {}", said.err);
    }
}

/// The writes in the recording, as a watch event of the whole run prints them: time, address, old and new value, pc.
fn told_by_a_watch_event(name: &str, cpus: &str) -> Vec<(u64, String, u64, u64)> {
    let watch = "w:task w@tasks:64 at=$addr new=$value old=$old";
    let said = good(&["run", name, "--cpus", cpus, "-q", "--json", "-e", watch]);
    let rows = said.out.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let number = |row: &serde_json::Value, name: &str| -> u64 {
        let value = &row["args"][name];
        let text = value.as_str().map(|text| text.trim_start_matches("0x"));
        text.map_or_else(|| value.as_u64(), |text| u64::from_str_radix(text, 16).ok()).unwrap_or_else(|| panic!("{row}"))
    };
    let one = |row: serde_json::Value| {
        let at = row["args"]["at"].as_str().map_or_else(|| format!("{:#x}", number(&row, "at")), str::to_string);
        (
            row["time_ns"].as_u64().or(row["ns"].as_u64()).unwrap_or_else(|| panic!("{row}")),
            at,
            number(&row, "old"),
            number(&row, "new"),
        )
    };
    rows.filter(|row| row["event"] == "task").map(one).collect()
}

/// TT-3: the last writes, and the last ones before a time, are those that a watch event of the whole run prints.
fn the_last_writer_is_found(name: &'static str) {
    let folder = Folder::new(&format!("who-{}", name.replace('/', "-")));
    let file = folder.0.join("run.rec");
    let file = file.to_str().unwrap();
    for cpus in ["1", "2"] {
        let told = told_by_a_watch_event(name, cpus);
        assert!(told.len() > 10, "{name}: {} writes", told.len());
        good(&["run", name, "--cpus", cpus, "--record", file, "-q", BARE[0], BARE[1]]);
        let ask = |before: Option<u64>| -> Vec<(u64, String, u64, u64)> {
            let before = before.map(|time| format!("{time}ns"));
            let more: Vec<&str> = before.iter().flat_map(|time| ["--before", time.as_str()]).collect();
            let said = good(&[&["who", file, "tasks:64", "-n", "3", "--json"][..], &more].concat());
            let number = |value: &serde_json::Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
            let one = |line: &str| {
                let row: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(row["pc"]["symbol"].as_str().unwrap().contains('+') && row["by"] == "instruction", "{line}");
                (
                    row["time_ns"].as_u64().unwrap(),
                    row["address"].as_str().unwrap().to_string(),
                    number(&row["old"]),
                    number(&row["new"]),
                )
            };
            said.out.lines().map(one).collect()
        };
        assert_eq!(ask(None), told[told.len() - 3..], "{name}, {cpus} CPUs");
        let middle = told[told.len() / 2].0;
        let earlier: Vec<_> = told.iter().filter(|one| one.0 < middle).cloned().collect();
        assert_eq!(ask(Some(middle)), earlier[earlier.len() - 3..], "{name}, {cpus} CPUs, before {middle}");
    }
    let said = good(&["who", file, "tasks"]);
    assert!(
        said.out.contains(" became 0x") && said.out.contains("in task `") && said.out.contains("innermost first"),
        "{}",
        said.out
    );
}

/// TT-9: at hits of probes of all kinds, `last_write` returns the last write that a watchpoint has reported by then.
fn scripts_ask_for_the_last_write(name: &'static str) {
    const SCRIPT: &str = r#"
        watchpoint:context_switches:4:w { @now = *(uint32 *)kaddr("context_switches"); @writer = func; }
        kprobe:schedule, kprobe:vfs_read, kretprobe:vfs_write /@asked < 40/ {
            @asked++;
            $line = last_write(kaddr("context_switches"), 4);
            printf("%x %x %d %s\n", @now, @writer == last_writer(kaddr("context_switches"), 4) ? 1 : 0, strlen($line), $line);
        }
        kprobe:vfs_read /@asked >= 40 && !@done/ {
            @done = 1;
            if (strcontains(last_write(kaddr("context_switches"), 4), "nobody")) { printf("wrong\n"); }
            printf("%s|%s|%d\n", last_write(kaddr("sys_call_table")), last_write(0), last_writer(0));
        }"#;
    let folder = Folder::new(&format!("past-{}", name.replace('/', "-")));
    let file = folder.0.join("run.rec");
    let file = file.to_str().unwrap();
    for cpus in ["1", "2"] {
        good(&["run", name, "--cpus", cpus, "--record", file, "-q", BARE[0], BARE[1]]);
        let said = good(&["replay", file, "-q", "-e", SCRIPT]);
        let lines: Vec<&str> = said.out.lines().filter(|line| line.contains(" -> 0x")).collect();
        assert_eq!(lines.len(), 40, "{name}, {cpus} CPUs: {}", said.out);
        let mut values = std::collections::BTreeSet::new();
        for line in lines {
            let [now, same, length, text] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert!(text.ends_with(&format!("-> 0x{now}")), "{name}, {cpus} CPUs: {line}");
            assert!(same == "1" && length == text.len().to_string() && text.contains("CPU ") && text.contains('+'), "{line}");
            values.insert(now);
        }
        assert!(values.len() >= 3, "{name}, {cpus} CPUs: {values:?}");
        assert!(said.out.contains("nobody|nobody|0\n") && !said.out.contains("wrong"), "{name}, {cpus} CPUs: {}", said.out);
    }
}

/// TT-9: on a stock kernel, the position that `vfs_read` gets was last written by its caller, with its present value.
fn scripts_of_stock_guests_ask_for_the_last_write(name: &'static str) {
    const SCRIPT: &str = r#"
        kprobe:vfs_read /arg3 != 0 && @asked < 30/ {
            @asked++;
            printf("%x %s\n", *(uint64 *)arg3, last_write(arg3, 8));
            @writers[last_writer(arg3, 8)] = count();
        }"#;
    harness::stock(name);
    let folder = Folder::new(&format!("past-{}", name.replace('/', "-")));
    let script = folder.write("work.sh", b"for i in 1 2 3 4; do cat /proc/stat | md5sum; done\n");
    let file = folder.0.join("run.rec");
    let [file, script] = [&file, &script].map(|path| path.to_str().unwrap());
    good(&["run", name, "--from-boot", "--script", script, "--record", file, "-q"]);
    let said = good(&["replay", file, "-q", "-e", SCRIPT]);
    let lines: Vec<&str> = said.out.lines().filter(|line| line.contains(" -> 0x")).collect();
    assert_eq!(lines.len(), 30, "{name}: {}\n{}", said.out, said.err);
    for line in lines {
        let (now, text) = line.split_once(' ').unwrap();
        assert!(text.ends_with(&format!("-> 0x{now}")) && text.starts_with("ksys_read+"), "{name}: {line}");
    }
    assert!(said.out.contains("@writers[ksys_read]: 30"), "{name}: {}", said.out);
}

/// TT-9: `last_write` in a run that was not recorded is refused with advice, and calls beyond the limit are counted.
fn questions_to_no_past_are_refused() {
    let ask = "kprobe:vfs_read { @[last_writer(arg1)] = count(); }";
    let said = trapline(&["trace", "tiny/i386", "-q", "-e", ask]);
    assert!(said.status == 2 && said.err.contains("last_writer() asks for the past of a run"), "{}", said.err);
    assert!(said.err.contains("`trapline replay FILE SCRIPT`"), "{}", said.err);
    let folder = Folder::new("past-refused");
    let file = folder.0.join("run.rec");
    let file = file.to_str().unwrap();
    let said = trapline(&["trace", "tiny/i386", "-q", "--record", file, "-e", ask]);
    assert!(said.status == 2 && said.err.contains("only a recording has"), "{}", said.err);
    good(&["run", "tiny/i386", "--record", file, "-q", BARE[0], BARE[1]]);
    let wrong = [
        ("last_write()", "takes 1 to 2 arguments"),
        ("last_write(arg0, 0)", "1 to 16777216 bytes, not 0"),
        ("last_write(arg0, arg1)", "known before the script runs"),
    ];
    for (call, why) in wrong {
        let said = trapline(&["replay", file, "-e", &format!("kprobe:vfs_read {{ print({call}); }}")]);
        assert!(said.status == 2 && said.err.contains(why), "{call}: {}", said.err);
    }
    // Each hit asks about another byte, so that no answer is known already.
    let many = r#"kprobe:vfs_read { for ($at : 0..1200) { $line = last_write(kaddr("tasks") + $at, 1); if ($line != "") { @answered++; } } exit(); }"#;
    let said = good(&["replay", file, "-q", "--from", "50us", "-e", many]);
    assert!(said.out.contains("@answered: 1000"), "{}", said.out);
    assert!(said.err.contains("200 questions for the last write were not answered"), "{}", said.err);
}

/// TT-3: bytes that nobody wrote to, and impossible ranges of bytes, get a message.
fn questions_without_an_answer_get_a_sentence() {
    let folder = Folder::new("who-nobody");
    let file = folder.0.join("run.rec");
    let file = file.to_str().unwrap();
    good(&["run", "tiny/i386", "--record", file, "-q", BARE[0], BARE[1]]);
    #[rustfmt::skip]
    let cases: [(&[&str], i32, &str); 6] = [
        (&["who", file, "tasks", "--before", "1ns"],    1, "nobody wrote to `tasks`"),
        (&["who", file, "tusks"],                       1, "did you mean"),
        (&["who", file, "tasks:0"],                     2, "is no number from 1 to"),
        (&["who", file, "task*"],                       2, "names no bytes of memory"),
        (&["who", file, "tasks", "--physical"],         2, "--physical needs an address"),
        (&["who", file, "0x123456789abcdef01"],         2, "names no bytes of memory"),
    ];
    for (args, status, why) in cases {
        let said = trapline(args);
        assert!(said.status == status && said.err.contains(why), "{args:?}: {} {}", said.status, said.err);
    }
}

/// TT-2: every command of docs/time-travel.md does what it says, in the order of the document.
fn the_documents_commands_work() {
    let folder = Folder::new("replay-document");
    let program = folder.0.join("trapline");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trapline"), &program).unwrap();
    let document = include_str!("../../docs/time-travel.md");
    let commands: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new("sh").args(["-c", command]).current_dir(&folder.0).env("PATH", path).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !out.is_empty(), "{command}: {out}\n{err}");
    }
}

fn main() -> ExitCode {
    harness::run([
        tests![
            a_recording_is_replayed_up_to_its_last_whole_frame,
            a_replay_that_differs_is_noticed_and_wrong_files_are_refused,
            a_part_of_a_run_is_replayed,
            the_documents_commands_work,
            questions_without_an_answer_get_a_sentence,
            questions_to_no_past_are_refused,
        ],
        guests::tiny()
            .map(|name| Test::new(member("a_tiny_run_is_replayed", name), move || a_tiny_run_is_replayed(name)))
            .collect(),
        ["tiny/x86_64", "tiny/s390x", "tiny/mips"]
            .map(|name| Test::new(member("the_last_writer_is_found", name), move || the_last_writer_is_found(name)))
            .into(),
        guests::tiny()
            .map(|name| Test::new(member("scripts_ask_for_the_last_write", name), move || scripts_ask_for_the_last_write(name)))
            .collect(),
        each!(["debian/amd64", "debian/arm64", "debian/s390x"], scripts_of_stock_guests_ask_for_the_last_write),
        each!(STOCK, a_stock_run_is_replayed),
        each!(["debian/amd64"], a_probed_stock_run_is_replayed),
        each!(["debian/s390x"], a_stock_run_of_two_cpus_is_replayed),
        each!(["debian/amd64"], a_killed_recording_is_replayed),
    ])
}
