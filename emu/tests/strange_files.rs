//! Gives each file argument something that is no file of its kind. The program ends soon, with a message.
#![cfg(feature = "cpu")]

mod program;

use program::{Ended, start};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use trapline_harness::Folder;

/// The limit of a run. The program waits much less for a pipe.
const MOST: Duration = Duration::from_secs(100);
/// The limit of resident memory.
const MOST_MEMORY_KIB: u64 = 1 << 20;

/// The arguments before and behind the file, by the file's meaning.
const ARGUMENTS: [(&str, &[&str], &[&str]); 9] = [
    ("image", &["run"], &["--quiet"]),
    ("image to check", &["check"], &["vfs_read"]),
    ("image to trace", &["trace"], &["-e", "BEGIN { exit(); }"]),
    ("symbols", &["run", "tiny/x86_64", "--quiet", "--symbols"], &[]),
    ("events", &["run", "tiny/x86_64", "--quiet", "-f"], &[]),
    ("script", &["trace", "tiny/x86_64", "--quiet"], &[]),
    ("second script", &["trace", "tiny/x86_64", "--quiet", "-e", "BEGIN { exit(); }", "--with"], &[]),
    ("types", &["trace", "tiny/x86_64", "--quiet", "-e", "BEGIN { exit(); }", "--btf"], &[]),
    ("console input", &["run", "tiny/x86_64", "--quiet", "--console-input"], &[]),
];

/// Paths that are not ordinary files, each with a name for messages.
fn strange(folder: &Folder) -> Vec<(&'static str, PathBuf)> {
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success(), "mkfifo is part of every Unix");
    let sparse = folder.write("sparse", b"");
    File::options().write(true).open(&sparse).unwrap().set_len(10 << 30).unwrap();
    vec![
        ("a named pipe that nobody writes to", pipe),
        ("/dev/zero", "/dev/zero".into()),
        ("a directory", folder.0.clone()),
        ("an empty file", folder.write("empty", b"")),
        ("a sparse file of 10 GiB", sparse),
        ("no file", folder.0.join("nowhere")),
        (
            "random bytes",
            folder.write(
                "random",
                &(0..1_u32 << 16).map(|number| (number.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect::<Vec<u8>>(),
            ),
        ),
    ]
}

/// KP-4, DV-4, BY-1: no file argument makes the program hang, crash or use unbounded memory. The message names an
/// unreadable file.
#[test]
fn strange_files_are_refused() {
    let folder = Folder::new("strange");
    let strange = strange(&folder);
    let mut running = Vec::new();
    let mut ended = Vec::new();
    for (argument, before, behind) in ARGUMENTS {
        for (what, file) in &strange {
            running.push(start(format!("{argument}: {what}"), before, file, behind));
            // Those that wait for the pipe cost nothing; others are not run all at once.
            if running.len() > ARGUMENTS.len() + 2 {
                ended.extend(running.extract_if(.., |one| !one.what.contains("pipe")).map(|one| one.end(MOST)));
            }
        }
    }
    ended.extend(running.into_iter().map(|one| one.end(MOST)));
    assert_eq!(ended.len(), ARGUMENTS.len() * strange.len());
    for Ended { what, status, said, memory } in ended {
        // An empty list of events or of symbols is one, and so is any key.
        let may_work = ["events: an empty file", "second script", "symbols", "console input", "script: an empty file"];
        let is_fine = status == Some(0) && may_work.iter().any(|works| what.starts_with(works));
        assert!(is_fine || matches!(status, Some(1 | 2)), "{what}: status {status:?}\n{said}");
        assert!(is_fine || said.contains("error"), "{what}: it said nothing\n{said}");
        assert!(!said.contains("panicked"), "{what}:\n{said}");
        assert!(memory < MOST_MEMORY_KIB, "{what}: {memory} KiB");
        let unreadable = ["a named pipe", "/dev/zero", "a directory", "a sparse file", "no file"];
        let reads_it = !what.starts_with("console input");
        if unreadable.iter().any(|name| what.ends_with(name)) && reads_it {
            assert_ne!(status, Some(0), "{what}");
        }
    }
}

/// A file that is truncated while it is read gives the bytes that it still has.
#[test]
fn a_file_that_shrinks_is_read_to_its_end() {
    let folder = Folder::new("shrinking");
    let file = folder.write("shrinks", &vec![b' '; 32 << 20]);
    let running = start("a script that shrinks".into(), &["trace", "tiny/x86_64", "--quiet"], &file, &[]);
    for size in (0..32_u64).rev() {
        File::options().write(true).open(&file).unwrap().set_len(size << 20).unwrap();
    }
    let Ended { what, status, said, .. } = running.end(MOST);
    assert!(matches!(status, Some(1 | 2)) && said.contains("error"), "{what}: {status:?}\n{said}");
}
