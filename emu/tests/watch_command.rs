//! Watchpoints on the command line: the commands of docs/watchpoints.md, and their output.
#![cfg(feature = "cpu")]

use std::process::{Command, Stdio};

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Splits a command line with single quotes into words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_string)),
            _ => words.push(part.to_string()),
        }
    }
    words
}

/// BY-3: every command of the document runs, hits its watchpoints and prints records.
#[test]
fn the_documents_commands_run() {
    let document = include_str!("../../docs/watchpoints.md");
    let commands: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("    trapline ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words = words(command);
        let (status, out, err) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(status, Some(0), "{command}: {err}");
        assert!(out.lines().count() > 3 || out.contains("]: "), "{command}: {out}{err}");
        assert!(!out.contains("changed unseen\",\"count\":1") && !err.contains("missed: "), "{command}: {out}{err}");
    }
}

/// BY-3: the document's event file follows each open file from its opening to its end.
#[test]
fn the_documents_event_file_follows_objects() {
    let document = include_str!("../../docs/watchpoints.md");
    let lines: Vec<&str> =
        document.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with("echo ")).collect();
    assert_eq!(lines.len(), 5);
    let file = std::env::temp_dir().join(format!("trapline-life-{}.events", std::process::id()));
    std::fs::write(&file, lines.join("\n") + "\n").expect("the file can be written");
    let (status, out, err) = run(&["run", "tiny/x86_64", "-q", "-f", file.to_str().expect("a name")]);
    std::fs::remove_file(&file).expect("it was written");
    assert_eq!(status, Some(0), "{err}");
    let records: Vec<&str> = out.lines().filter(|line| line.contains(" position: ")).collect();
    assert!(records.len() > 20, "{out}{err}");
    assert!(records.iter().any(|record| record.contains("vfs_read") || record.contains("text_read")), "{out}");
    let number = |record: &str, name: &str| {
        let value = record.split_whitespace().find_map(|word| word.strip_prefix(name)).expect("the value is there").to_string();
        value.parse::<u32>().expect("a number")
    };
    // The first write of each new file sets its position to 0.
    assert!(records.iter().any(|record| number(record, "is=") == 0), "{out}");
    assert!(records.iter().any(|record| number(record, "is=") > number(record, "was=")), "{out}");
}

/// BY-3: the document's scripts print who writes a field of any object, and that no update of the counter is lost.
#[test]
fn the_documents_scripts_follow_objects_and_counters() {
    let document = include_str!("../../docs/watchpoints.md");
    let printed = |with: &str| {
        let command = document.lines().filter_map(|line| line.strip_prefix("    trapline ")).find(|line| line.contains(with));
        let words = words(command.unwrap_or_else(|| panic!("a command with {with}")));
        let (status, out, err) = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(status, Some(0), "{err}");
        out
    };
    let life = printed("get_empty_file+retval+file.pos");
    assert!(life.contains("@writers[do_filp_open]: ") && life.contains("@closed: "), "{life}");
    let counter = printed("watchpoint:context_switches");
    assert!(counter.contains("@updates[__schedule]: ") && !counter.contains("@lost"), "{counter}");
    let other = printed("watchpoint:outstanding");
    assert!(other.contains("@other[kfree_skb]: "), "{other}");
}

/// BY-3: an argument that is NULL points to no object, so nothing is watched, even if the field's offset is mapped
/// memory.
#[test]
fn an_argument_that_is_null_is_not_watched() {
    let (status, out, err) =
        run(&["trace", "tiny/x86_64", "-q", "-e", "BEGIN { printf(\"at %lx\\n\", kaddr(\"context_switches\")); exit() }"]);
    assert_eq!(status, Some(0), "{err}");
    let address = out.lines().find_map(|line| line.strip_prefix("at ")).unwrap_or_else(|| panic!("{out}"));
    let script = format!(
        "watchpoint:sched_init+arg0+0x{address}:4:w {{ @null = count(); }} watchpoint:0x{address}:4:w {{ @there = count(); }}"
    );
    let (status, out, err) = run(&["trace", "tiny/x86_64", "-q", "-e", &script]);
    assert_eq!(status, Some(0), "{err}");
    assert!(out.contains("@there: ") && !out.contains("@null"), "{out}");
}

/// BY-3: a record has the accessing instruction, the values, and who made the access. The summary has the watchpoint.
#[test]
fn records_and_summary_have_the_watchpoint() {
    let (status, out, err) =
        run(&["run", "tiny/x86_64", "-q", "--json", "-e", "w:task w@tasks:64 at=$addr new=$value old=$old who=$who rw=$rw"]);
    assert_eq!(status, Some(0), "{err}");
    let rows: Vec<serde_json::Value> =
        out.lines().chain(err.lines()).filter_map(|line| serde_json::from_str(line).ok()).collect();
    let records: Vec<_> = rows.iter().filter(|row| row["event"] == "task").collect();
    assert!(records.len() > 10, "{out}{err}");
    assert!(records.iter().all(|record| record["args"]["who"] == "instruction" && record["args"]["rw"] == "w"), "{out}");
    let (status, _, err) = run(&["run", "tiny/x86_64", "-e", "w:x w@no_such_variable:8"]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("no symbol has the name 'no_such_variable'"), "{err}");
}
