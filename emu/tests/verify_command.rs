//! `trapline verify`: its output, its messages for wrong input, and its exit status.
#![cfg(feature = "cpu")]

use std::process::{Command, Stdio};

const TINY: &str = "tiny/x86_64";

struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

fn verify(args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    let output = command.arg("verify").args(args).stdin(Stdio::null()).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn file(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("text").into()
}

fn row<'a>(said: &'a Said, name: &str) -> &'a str {
    said.out
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name}: {}{}", said.out, said.err))
        .trim()
}

/// BY-4: events of the command line and of a file, and scripts: the runs are identical, with the same hash.
#[test]
fn equal_runs_are_identical_whatever_the_probes() {
    let events = file("verify.events", "p:opened sys_open\nr:read vfs_read n=$retval\n");
    let script = file("verify.bt", "kprobe:vfs_* { @[func] = count(); } kretprobe:sys_read { @read = hist(retval); }");
    let exits = "kprobe:vfs_read { if (++@n > 5) { exit(); } }";
    #[rustfmt::skip]
    let cases: [&[&str]; 6] = [
        &[],
        &["-e", "p vfs_read", "-e", "r:done vfs_read n=$retval", "--no-optimize"],
        &["-f", &events, "--policy", "linux-6.1"],
        &[&script],
        &["-f", &events, "--program", "kprobe:* { @all = count(); } interval:ms:1 { @ticks = count(); }"],
        &["--program", exits],
    ];
    let mut hashes = Vec::new();
    for case in cases {
        let said = verify(&[&[TINY, "--quiet"], case].concat());
        assert!(said.status == Some(0) && said.out.starts_with("identical\n"), "{case:?}: {}{}", said.out, said.err);
        assert!(!row(&said, "probes").contains(": 0 hits"), "{case:?}: {}", said.out);
        assert_eq!(row(&said, "ended"), "the guest powered off", "{case:?}");
        hashes.push(row(&said, "hash").to_string());
    }
    assert!(hashes[0].len() == 64 && hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    let other = verify(&[TINY, "--quiet", "--cpus", "2"]);
    assert_ne!(row(&other, "hash"), hashes[0], "another machine is another run");
}

/// BY-4: a script that changes the guest is found at its probe, and the exit status is 1.
#[test]
fn a_script_that_changes_the_guest_is_found() {
    let program = "kprobe:vfs_read /++@n == 9/ { override(3); }";
    let said = verify(&[TINY, "--quiet", "--unsafe", "--program", program]);
    assert_eq!(said.status, Some(1), "{}{}", said.out, said.err);
    assert!(
        said.out.starts_with("different\n") && said.err.contains("differs from the unprobed one"),
        "{}{}",
        said.out,
        said.err
    );
    let place = row(&said, "in ");
    assert!(place.contains("<vfs_read>") && place.ends_with("(probed)"), "{}", said.out);
    assert!(row(&said, "unprobed then").contains("<vfs_read+0x"), "{}", said.out);
    assert!(!row(&said, "probed then").contains("<vfs_read"), "{}", said.out);
    assert!(!row(&said, "equal events").starts_with("0,") && !row(&said, "probes").contains(": 9 hits"), "{}", said.out);

    let said = verify(&[TINY, "--quiet", "--unsafe", "--json", "--program", program]);
    assert_eq!(said.status, Some(1));
    let result: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    let place = &result["difference"]["place"];
    assert_eq!((result["verdict"].as_str(), place["instruction"]["symbol"].as_str()), (Some("different"), Some("vfs_read")));
    assert!(place["exact"] == true && place["unprobed_next"]["instruction"].is_string(), "{result:#}");
}

/// BY-4: the JSON output has the verdict, the hash and all counts. The guest's console goes to standard error.
#[test]
fn json_has_the_same_facts() {
    let (said, text) = (verify(&[TINY, "--json"]), verify(&[TINY, "-q"]));
    assert_eq!(said.status, Some(0), "{}", said.err);
    let result: serde_json::Value = serde_json::from_str(&said.out).expect("one line of JSON");
    assert_eq!((result["verdict"].as_str(), result["hash"].as_str()), (Some("identical"), Some(row(&text, "hash"))));
    for name in ["virtual_ns", "events", "interrupts", "registers", "memory_bytes", "hits", "console_bytes"] {
        assert!(result[name].as_u64().is_some_and(|value| value > 0), "{name}: {result:#}");
    }
    assert!(said.err.contains("checksum:") && !text.err.contains("checksum:"), "{}", said.err);
}

/// KP-4: a wrong command line gets a message and exit status 2, a refused probe exit status 1.
#[test]
fn bad_input_gets_a_sentence() {
    let empty = file("empty.bt", "");
    #[rustfmt::skip]
    let cases: [(&[&str], i32, &str); 9] = [
        (&["tiny/nosuch"],                                       2, "tiny/nosuch"),
        (&[TINY, "-e", "p vfs_raed"],                            1, "vfs_read"),
        (&[TINY, "-e", "p:"],                                    2, "EINVAL"),
        (&[TINY, "-f", "/nosuch/file"],                          2, "/nosuch/file"),
        (&[TINY, "--program", "kprobe:vfs_read {"],              2, "error"),
        (&[TINY, "--program", "kprobe:vfs_read { override(1); }"], 2, "unsafe"),
        (&[TINY, &empty],                                        2, "error"),
        (&[TINY, "--until", "soon"],                             2, "a limit is a guest time"),
        (&[TINY, "--cpus", "3"],                                 2, "3"),
    ];
    for (args, status, why) in cases {
        let said = verify(args);
        assert!(said.status == Some(status) && said.err.contains(why), "{args:?}: {:?} {}{}", said.status, said.out, said.err);
    }
}

/// BY-4: limits of guest time and of console text end both runs at the same place.
#[test]
fn limits_end_both_runs() {
    for (limit, ended) in [("100us", "the limit was reached"), ("console:tiny", "the console printed the awaited text")] {
        let said = verify(&[TINY, "-q", "--until", limit, "-e", "p vfs_read", "-e", "r schedule"]);
        assert_eq!((said.status, row(&said, "ended")), (Some(0), ended), "{}", said.err);
    }
}
