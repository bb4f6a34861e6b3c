//! `--turns` and `trapline races`: a seed is found with which a planted race happens. With this seed it happens each
//! time.
//!
//! The tests need the amd64 kernel. Otherwise they are skipped.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use trapline_harness::{self as harness, on, tests};

const KERNEL: &str = "debian/amd64";
/// The program with the race (images/programs/race.c).
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../images/programs/prebuilt/race-amd64");

struct Said {
    status: i32,
    out: String,
    err: String,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Folder(std::env::temp_dir().join(format!("trapline-races-{name}-{}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        fs::write(folder.0.join("script"), "taskset 3 /race || exit 1\n").unwrap();
        folder
    }

    /// Runs trapline on a guest with the program and the script. The snapshot cache is the folder's own.
    fn trapline(&self, command: &str, args: &[&str]) -> Said {
        let found = harness::stock(KERNEL);
        let script = self.0.join("script");
        let push = format!("{PROGRAM}:/race");
        let same = ["--cpus", "2", "--from-boot", "--push", &push, "--script", script.to_str().unwrap()];
        let mut command_line = Command::new(env!("CARGO_BIN_EXE_trapline"));
        command_line.env("TRAPLINE_IMAGES", &found.local.folder).env("XDG_CACHE_HOME", &self.0);
        let output = command_line.arg(command).arg(KERNEL).args(same).args(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// The guest time and the reason of a run's end, as the summary prints them.
fn end(said: &Said) -> String {
    said.out
        .lines()
        .filter(|line| line.contains("guest time"))
        .map(|line| line.split(" in ").next().unwrap_or_default())
        .collect()
}

/// CP-6, CP-7
fn a_race_is_found_by_a_seed_that_then_fails_each_time() {
    let folder = Folder::new("found");
    let found = folder.trapline("races", &["--seeds", "60", "--jobs", "2", "--json"]);
    assert_eq!(found.status, 1, "{}\n{}", found.err, found.out);
    let result: serde_json::Value = serde_json::from_str(found.out.trim()).expect("a line of JSON");
    let seed = result["seed"].as_u64().expect("a seed");
    assert_eq!(result["ended"], "the guest powered off with status 1");
    let repeat = result["repeat"].as_str().expect("a command");
    assert!(repeat.starts_with("trapline run debian/amd64 --cpus 2 --from-boot"), "{repeat}");
    assert!(repeat.ends_with(&format!("--turns {seed}:20000ns")), "{repeat}");

    let turns = format!("{seed}:20us");
    let again: Vec<Said> = [&[][..], &["-e", "p:read vfs_read", "-e", "r:done vfs_write"]]
        .into_iter()
        .map(|probes| folder.trapline("run", &[&["--quiet", "--turns", &turns], probes].concat()))
        .collect();
    for said in &again {
        assert!(said.status == 1 && said.err.contains("status 1"), "seed {seed}: {}\n{}", said.err, said.out);
    }
    assert_eq!(end(&again[0]), end(&again[1]), "the run with probes is the same");
    assert!(!end(&again[0]).is_empty(), "{}", again[0].out);
}

/// BY-2, BY-3, CP-7: in the run with the seed that was found, the event file of docs/watchpoints.md shows the two
/// processes that store the same number.
fn a_watchpoint_in_a_program_shows_the_lost_update() {
    let folder = Folder::new("watched");
    let found = folder.trapline("races", &["--seeds", "60", "--json"]);
    let result: serde_json::Value = serde_json::from_str(found.out.trim()).expect("a line of JSON");
    let turns = format!("{}:20us", result["seed"].as_u64().expect("a seed"));
    let document = include_str!("../../docs/watchpoints.md");
    let of_programs = &document[document.find("## A lost update in a program").expect("it is there")..];
    let lines: Vec<&str> = of_programs.lines().filter(|line| line.starts_with("echo '") && line.contains("events")).collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    let events = folder.0.join("lost.events");
    fs::write(&events, lines.join("\n") + "\n").unwrap();
    let said = folder.trapline("run", &["--quiet", "--json", "--turns", &turns, "-f", events.to_str().unwrap()]);
    assert!(said.status == 1 && said.err.contains("status 1"), "{}\n{}", said.err, said.out);
    let records: Vec<serde_json::Value> = said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let stores: Vec<&serde_json::Value> = records.iter().filter(|record| record["event"] == "count").collect();
    assert_eq!(stores.len(), 12, "{}", said.out);
    assert!(stores.iter().all(|store| store["comm"] == "race" && store["pid"].as_u64() > Some(1)), "{}", said.out);
    let lost = stores.iter().filter(|store| store["args"]["is"].as_u64() != store["args"]["was"].as_u64().map(|was| was + 1));
    assert!(lost.count() > 0, "{}", said.out);
    let processes: std::collections::BTreeSet<Option<u64>> = stores.iter().map(|store| store["pid"].as_u64()).collect();
    assert_eq!(processes.len(), 2, "{}", said.out);
    // An address and a process: its own stores alone.
    let made = folder.trapline("run", &["--quiet", "--json", "--turns", &turns, "-e", "p:made /race:0x1033 at=%ax"]);
    let of_event = |said: &Said| -> Vec<serde_json::Value> {
        said.out
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|line| line["event"].is_string())
            .collect()
    };
    let made = of_event(&made);
    let (at, process) =
        (made[0]["args"]["at"].as_str().expect("an address").to_string(), made[0]["pid"].as_u64().expect("a process"));
    let watch = format!("w:own w@{at}:8 pid={process} is=$value:u64");
    let own = of_event(&folder.trapline("run", &["--quiet", "--json", "--turns", &turns, "-e", &watch]));
    let expected: Vec<u64> = stores
        .iter()
        .filter(|store| store["pid"].as_u64() == Some(process))
        .filter_map(|store| store["args"]["is"].as_u64())
        .collect();
    let seen: Vec<u64> = own.iter().filter_map(|record| record["args"]["is"].as_u64()).collect();
    assert_eq!(seen, expected, "{watch}");
}

/// CP-7: a program's exit() is a failure, and ends the search at the first seed.
fn a_program_that_calls_exit_ends_the_search() {
    let folder = Folder::new("program");
    let found =
        folder.trapline("races", &["--seeds", "3", "--first", "5", "-e", "kprobe:do_exit /comm == \"race\"/ { exit(); }"]);
    assert_eq!(found.status, 1, "{}\n{}", found.err, found.out);
    assert!(found.out.starts_with("seed 5: the script ended with status 0\n  trapline trace debian/amd64"), "{}", found.out);
    let none =
        folder.trapline("races", &["--seeds", "2", "-e", "kprobe:do_exit /comm == \"none\"/ { exit(); }", "--length", "100ns"]);
    assert!(none.status == 0 && none.out.starts_with("none of 2 seeds fails"), "{}\n{}", none.err, none.out);
}

/// DV-4: contradictory options are refused before anything boots.
fn turns_need_several_cpus() {
    let trapline = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 4] = [
        (&["run", "tiny/x86_64", "--turns", "7"],                       "one CPU takes no turns"),
        (&["run", "tiny/x86_64", "--cpus", "2", "--turns", "7:2s"],     "no length of a turn"),
        (&["races", "tiny/x86_64"],                                     "one CPU takes no turns"),
        (&["races", "tiny/x86_64", "--cpus", "2", "--turns", "7"],      "leave `--turns` out"),
    ];
    for (args, why) in cases {
        let (status, err) = trapline(args);
        assert!(status == 2 && err.contains(why), "{args:?}: {status} {err}");
    }
}

fn main() -> ExitCode {
    let kernel = tests![
        a_race_is_found_by_a_seed_that_then_fails_each_time,
        a_watchpoint_in_a_program_shows_the_lost_update,
        a_program_that_calls_exit_ends_the_search
    ];
    harness::run([on(KERNEL, kernel), tests![turns_need_several_cpus]])
}
