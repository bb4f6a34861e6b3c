//! Runs the built program on a file that may make it hang, and returns how it ended.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program while it runs.
pub struct Running {
    pub what: String,
    child: Child,
    started: Instant,
}

/// The end of the program.
pub struct Ended {
    pub what: String,
    /// The exit status. `None` if a signal ended it.
    pub status: Option<i32>,
    pub said: String,
    /// The largest resident memory that was seen, in KiB.
    pub memory: u64,
}

/// Starts the program with these arguments before and behind the file.
pub fn start(what: String, before: &[&str], file: &Path, behind: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command.args(before).arg(file).args(behind).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Running { what, child: command.spawn().unwrap(), started: Instant::now() }
}

impl Running {
    /// Waits for the program's end. A program that runs longer than `most` fails the test.
    pub fn end(mut self, most: Duration) -> Ended {
        let mut memory = 0;
        let mut errors = self.child.stderr.take().unwrap();
        // A pipe that nobody empties would stop the program.
        let reader = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = errors.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let status = loop {
            let about = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
            let peak = about.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
            memory = memory.max(peak.unwrap_or(0));
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if self.started.elapsed() > most => {
                    let _ = self.child.kill();
                    panic!("{}: it did not end within {most:?}", self.what);
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        Ended { what: self.what, status, said: reader.join().unwrap(), memory }
    }
}
