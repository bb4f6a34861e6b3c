//! Workloads in a booted guest. Each contestant boots once. The guest's script runs one workload after another and
//! prints a line before each and after the last. The user time of a workload is the user time of the contestant's
//! process between two such lines.

use crate::contest::{self, Contest, Contestant, Prepared};
use crate::{Options, guest};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use trapline_benches::peer::Peer;
use trapline_benches::user_time::{self, median};

/// A workload: a command for the guest's shell. Its output is ignored, but its exit status must be 0.
pub struct Work {
    pub name: &'static str,
    /// A description for the table.
    what: &'static str,
    command: &'static str,
}

/// All workloads. Each takes QEMU between half a second and two.
pub const WORKS: &[Work] = &[
    Work {
        name: "syscalls",
        what: "250,000 reads and writes of a byte (dd)",
        command: "dd if=/dev/zero of=/dev/null bs=1 count=250000",
    },
    Work {
        name: "sha",
        what: "sha256sum of 32 MiB",
        command: "[ \"$(dd if=/dev/zero bs=1M count=32 | sha256sum)\" = \
                  \"83ee47245398adee79bd9c0a8bc57b821e92aba10f5f9ade8a5d1fae4d8c4302  -\" ]",
    },
    Work {
        name: "shell",
        what: "a loop of the shell, 40,000 times",
        command: "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done",
    },
    Work {
        name: "pipe",
        what: "60,000 times 64 bytes through a pipe",
        command: "dd if=/dev/zero bs=64 count=60000 | dd of=/dev/null bs=64",
    },
    Work {
        name: "fork",
        what: "250 programs started",
        command: "i=0; while [ $i -lt 250 ]; do /bin/busybox true; i=$((i+1)); done",
    },
    Work { name: "gzip", what: "gzip of 16 MiB", command: "dd if=/dev/zero bs=1M count=16 | gzip" },
    Work {
        name: "faults",
        what: "80,000 pages touched for the first time",
        command: "i=0; while [ $i -lt 10 ]; do dd if=/dev/zero of=/dev/null bs=32M count=1; i=$((i+1)); done",
    },
];

/// The table's headings.
pub fn headings(peers: &[Peer]) -> Vec<String> {
    ["kernel", "work", "user s"].map(String::from).into_iter().chain(contest::peer_headings(peers)).collect()
}

/// Upper bound for the boot and all workloads of one contestant.
const MOST: Duration = Duration::from_secs(900);
/// The mark after the last workload.
const END: &str = "end";

/// The user times of one workload with one kernel, in seconds.
pub struct Figures {
    kernel: &'static str,
    work: &'static Work,
    ours: f64,
    /// The other build's result.
    beside: Option<f64>,
    /// The result of each QEMU, in the order of the headings.
    peers: Vec<Option<f64>>,
}

impl Figures {
    pub fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.kernel.to_string(), self.work.what.to_string(), format!("{:.2}", self.ours)];
        cells.extend(contest::peer_cells(self.ours, &self.peers));
        if let Some(beside) = self.beside {
            cells.push(format!("beside: {beside:.2}"));
            cells.push(format!("{:.2}", self.ours / beside));
        }
        cells
    }

    pub fn json(&self, peers: &[Peer]) -> String {
        let optional = |value: Option<f64>| value.map_or_else(|| "null".into(), |value| format!("{value:.3}"));
        format!(
            "{{\"kernel\":\"{}\",\"work\":\"{}\",\"user_s\":{:.3},\"beside_user_s\":{},\"peers_user_s\":{}}}",
            self.kernel,
            self.work.name,
            self.ours,
            optional(self.beside),
            contest::peer_json(peers, &self.peers)
        )
    }
}

/// Measures all workloads with one kernel. In each round every contestant boots once and runs them one after another.
pub fn measure(contest: &Contest, options: &Options) -> Result<Vec<Figures>, String> {
    let works = &options.works;
    let prepared = contest.prepare(&script(works))?;
    let contestants = contest.contestants(options.beside.as_deref(), &options.peers)?;
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..options.rounds {
        // Rotate the order, so that no contestant always follows the same other one.
        for number in 0..contestants.len() {
            let who = (round + number) % contestants.len();
            times[who].push(watch(spawn(contest, &prepared, &contestants[who])?, works)?);
        }
    }
    let turns = |who: &Contestant| contestants.iter().position(|other| std::ptr::eq(who, other)).and_then(|at| times.get(at));
    let beside = contestants.get(1).filter(|who| matches!(who, Contestant::Build(_))).and_then(turns);
    let peer = |peer: &Peer| contestants.iter().find(|who| who.is(peer)).and_then(turns);
    let peers: Vec<_> = options.peers.iter().map(peer).collect();
    let of = |rounds: &Vec<Vec<f64>>, work: usize| median(rounds.iter().filter_map(|round| round.get(work).copied()));
    let ours = times.first().ok_or("no contestant does it")?;
    let row = |(number, work): (usize, &&'static Work)| Figures {
        kernel: contest.kernel,
        work,
        ours: of(ours, number),
        beside: beside.map(|times| of(times, number)),
        peers: peers.iter().map(|times| times.map(|times| of(times, number))).collect(),
    };
    Ok(works.iter().enumerate().map(row).collect())
}

/// The guest's script. A line marks the start of each workload and the end of the last.
fn script(works: &[&Work]) -> String {
    let mut script = String::new();
    for work in works {
        let Work { name, command, .. } = work;
        let _ = writeln!(script, "echo {name} {}\n{{ {command}; }} >/dev/null 2>&1 || echo {name} {FAILED}", guest::MARK);
    }
    let _ = writeln!(script, "echo {END} {}", guest::MARK);
    script
}

const FAILED: &str = "has failed in the guest";

fn spawn(contest: &Contest, prepared: &Prepared, who: &Contestant) -> Result<Child, String> {
    let mut command = match who {
        Contestant::Build(program) => Command::new(program),
        Contestant::Peer(peer) => contest.under(peer, prepared),
    };
    if let Contestant::Build(_) = who {
        command.arg(guest::WORK).arg(&prepared.folder);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    child.map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))
}

/// Waits for the contestant's process to end. Returns the user time of each workload in seconds.
fn watch(mut child: Child, works: &[&Work]) -> Result<Vec<f64>, String> {
    let watched = follow(&mut child, works);
    if watched.is_err() {
        // The process may have ended by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match (watched, status.success()) {
        (Ok(times), true) => Ok(times),
        (Ok(_), false) => Err(format!("all was done, but then: {status}")),
        (Err(why), _) => Err(why),
    }
}

fn follow(child: &mut Child, works: &[&Work]) -> Result<Vec<f64>, String> {
    let until = Instant::now() + MOST;
    let lines = lines_of(child)?;
    let names = works.iter().map(|work| work.name).chain([END]);
    let mut taken = Vec::new();
    for name in names {
        wait_for(&format!("{name} {}", guest::MARK), &lines, until)?;
        taken.push(user_time::of(child.id())?);
    }
    // Read to the end of the output, because a full pipe would block the process.
    while lines.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
    Ok(taken.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// Sends each line that the process prints as soon as it appears.
fn lines_of(child: &mut Child) -> Result<Receiver<String>, String> {
    let console = child.stdout.take().ok_or("it has no console")?;
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_string()).is_err() {
                break;
            }
        }
    });
    Ok(lines)
}

fn wait_for(mark: &str, lines: &Receiver<String>, until: Instant) -> Result<(), String> {
    let mut last = String::new();
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line.ends_with(mark) => return Ok(()),
            Ok(line) if line.ends_with(FAILED) => return Err(line),
            Ok(line) if line.is_empty() => {}
            Ok(line) => last = line,
            Err(RecvTimeoutError::Disconnected) => return Err(format!("it ended before `{mark}`; its last line was: {last}")),
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("it did not come to `{mark}` in time; its last line was: {last}"));
            }
        }
    }
}
