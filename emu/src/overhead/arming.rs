//! What arming costs: the time of many probes, in one batch and one by one, and the host memory that each takes.
//!
//! Memory is what the process holds more with the probes than before they were made, the probe objects among it,
//! without the bytes of their slots, which are the guest's. Memory that was freed before would be used again unseen, so
//! each row wants a process of its own: [`Row::line`] is how it tells.

use super::many::{self, Many};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Seconds of a CPU in which as many probes as a guest has functions are armed in one batch.
pub const GOAL_SECONDS: f64 = 1.0;
/// Bytes of host memory that each of them takes.
pub const GOAL_BYTES: f64 = 300.0;

/// The optimiser's wait, as it is unless it is changed; in nanoseconds.
const DELAY: u64 = 100_000;
/// Bytes of guest memory that a probe's copies and detour take.
const SLOT: usize = 96;
/// Fewer probes than this take less memory than the host gives out at a time.
const FEWEST_FOR_MEMORY: usize = 10_000;

/// Seconds of one piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// Of this thread on a CPU.
    pub on_cpu: f64,
    /// By the clock on the wall.
    pub on_wall: f64,
}

/// What a row is of.
#[derive(Clone, Copy)]
pub struct Probes {
    /// The functions that are probed.
    pub many: &'static Many,
    /// How many probes there are.
    pub count: usize,
    /// In one batch.
    pub batch: bool,
}

/// The rows: several numbers of probes on the first guest, then as many as can be on each of the others.
pub fn rows() -> Vec<Probes> {
    let numbers = [1, 1_000, many::FIRST.most].into_iter().flat_map(|count| [(count, true), (count, false)]);
    let first = numbers.map(|(count, batch)| Probes { many: many::FIRST, count, batch });
    let others = many::ALL.iter().skip(1).map(|many| Probes { many, count: many.most, batch: true });
    first.chain(others).collect()
}

impl Probes {
    /// The words that [`Probes::read`] reads.
    pub fn words(&self) -> [String; 3] {
        [self.many.name.into(), self.count.to_string(), self.how().into()]
    }

    /// From a command line.
    pub fn read([guest, count, how]: [&str; 3]) -> Result<Probes, String> {
        let many = many::find(guest).ok_or_else(|| format!("`{guest}` is no guest of many functions"))?;
        let count = count.parse().map_err(|_| format!("`{count}` is no number of probes"))?;
        Ok(Probes { many, count, batch: how == BATCH })
    }

    fn how(&self) -> &'static str {
        if self.batch { BATCH } else { "single" }
    }
}

const BATCH: &str = "batch";

/// One row, of all its probes together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Breakpoints, copies, detours.
    pub arm: Time,
    /// Jumps in place of the breakpoints.
    pub optimise: Time,
    /// Away again.
    pub disarm: Time,
    /// Bytes of host memory.
    pub bytes: f64,
}

impl Row {
    /// Measures it here.
    pub fn measure(of: Probes) -> Result<Row, String> {
        let Probes { many, count, batch } = of;
        let mut bench = many.bench_loop(count)?;
        bench.session().with_engine(|engine, _| engine.set_optimization_delay(DELAY));
        let before = resident();
        let probes = many.probes(count);
        let watch = Watch::start();
        if batch {
            let registered = bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes));
            registered.map_err(|refusal| refusal.to_string())?;
        } else {
            for probe in &probes {
                bench.session().register_kprobe(probe).map_err(|refusal| refusal.to_string())?;
            }
        }
        let arm = watch.stop();
        let bytes = resident().saturating_sub(before).saturating_sub((count * SLOT) as u64) as f64;
        let watch = Watch::start();
        bench.run(2 * DELAY)?;
        let optimise = watch.stop();
        if probes.first().is_none_or(|probe| probe.hits() == 0) {
            return Err("the probe on the function that is called was not hit".into());
        }
        let watch = Watch::start();
        if batch {
            bench.session().with_engine(|engine, guest| engine.unregister_kprobes(guest, &probes));
        } else {
            probes.iter().for_each(|probe| bench.session().unregister_kprobe(probe));
        }
        Ok(Row { arm, optimise, disarm: watch.stop(), bytes })
    }

    /// Has a process of its own measure it: `program`, called with this argument and [`Probes::words`], prints the
    /// [`Row::line`].
    pub fn measured_by(program: &Path, argument: &str, of: Probes) -> Result<Row, String> {
        let output = Command::new(program).arg(argument).args(of.words()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        Row::read(said.trim())
            .ok_or_else(|| format!("{}: {said}{}", of.words().join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    /// Its figures.
    pub fn line(&self) -> String {
        let times = [self.arm, self.optimise, self.disarm];
        let mut line = self.bytes.to_string();
        for Time { on_cpu, on_wall } in times {
            // Writing to a String cannot fail.
            let _ = write!(line, " {on_cpu} {on_wall}");
        }
        line
    }

    fn read(line: &str) -> Option<Row> {
        let figures: Vec<f64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [bytes, times @ ..] = &figures[..] else { return None };
        let times: Vec<Time> = times.chunks_exact(2).map(|time| Time { on_cpu: time[0], on_wall: time[1] }).collect();
        let [arm, optimise, disarm] = times[..] else { return None };
        Some(Row { arm, optimise, disarm, bytes: *bytes })
    }

    /// Bytes of host memory that each probe takes; none where that cannot be told.
    fn bytes_each(&self, of: Probes) -> Option<f64> {
        (of.count >= FEWEST_FOR_MEMORY && self.bytes > 0.0).then(|| self.bytes / of.count as f64)
    }

    /// What it is over, of the goals for a batch of as many as can be.
    pub fn over_the_goals(&self, of: Probes) -> Vec<String> {
        let Probes { many: Many { name, most, .. }, count, batch } = of;
        if (count, batch) != (*most, true) {
            return Vec::new();
        }
        let time = (self.arm.on_cpu >= GOAL_SECONDS)
            .then(|| format!("{name}: arming {count} probes takes {:.2} s, goal {GOAL_SECONDS}", self.arm.on_cpu));
        let bytes = self.bytes_each(of).filter(|bytes| *bytes >= GOAL_BYTES);
        let bytes = bytes.map(|bytes| format!("{name}: a probe takes {bytes:.0} bytes, goal {GOAL_BYTES}"));
        time.into_iter().chain(bytes).collect()
    }

    /// The headings of [`Row::cells`].
    pub const HEADINGS: [&'static str; 7] = ["guest", "probes", "how", "arm, us", "optimise, us", "disarm, us", "bytes"];

    /// For each probe: microseconds on a CPU and, in brackets, by the clock on the wall; bytes.
    pub fn cells(&self, of: Probes) -> [String; 7] {
        let micro = 1e6 / of.count.max(1) as f64;
        let time = |time: Time| format!("{:.2} ({:.2})", time.on_cpu * micro, time.on_wall * micro);
        let bytes = self.bytes_each(of).map_or("-".into(), |bytes| format!("{bytes:.0}"));
        let [guest, count, how] = of.words();
        let [arm, optimise, disarm] = [self.arm, self.optimise, self.disarm].map(time);
        [guest, count, how, arm, optimise, disarm, bytes]
    }
}

struct Watch {
    on_cpu: Duration,
    started: Instant,
}

impl Watch {
    fn start() -> Watch {
        Watch { on_cpu: time_on_cpu(), started: Instant::now() }
    }

    fn stop(&self) -> Time {
        let on_cpu = time_on_cpu().saturating_sub(self.on_cpu);
        Time { on_cpu: on_cpu.as_secs_f64(), on_wall: self.started.elapsed().as_secs_f64() }
    }
}

/// Of this thread.
fn time_on_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Bytes of this process in the host's memory; 0 where the host does not say.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OH-3: what a process of its own says is what it has measured, and goals are for the rows that they are of.
    #[test]
    fn a_row_is_read_as_it_was_told_and_held_to_its_goals() {
        let time = |on_cpu: f64| Time { on_cpu, on_wall: 2.0 * on_cpu };
        let (arm, optimise, disarm) = (time(1.5), time(0.5), time(0.25));
        let all = Probes { many: many::FIRST, count: 100_000, batch: true };
        let row = Row { arm, optimise, disarm, bytes: 2.5e7 };
        assert_eq!(Row::read(&row.line()), Some(row));
        assert_eq!(Row::read("arming: no memory"), None);
        assert_eq!(row.cells(all)[3..], ["15.00 (30.00)", "5.00 (10.00)", "2.50 (5.00)", "250"]);
        assert_eq!(row.over_the_goals(all).len(), 1);
        assert_eq!(Row { arm: time(0.9), bytes: 3e7, ..row }.over_the_goals(all).len(), 1);
        assert!(row.over_the_goals(Probes { batch: false, ..all }).is_empty());
        assert!(Row { arm: time(0.9), ..row }.over_the_goals(all).is_empty());
    }

    #[test]
    fn each_guest_has_a_row_that_goals_are_of() {
        let held = |of: &Probes| (of.count, of.batch) == (of.many.most, true);
        let names: Vec<&str> = rows().iter().filter(|of| held(of)).map(|of| of.many.name).collect();
        assert_eq!(names, many::ALL.iter().map(|many| many.name).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_armed_is_hit_and_goes_again() {
        for many in many::ALL {
            let of = Probes { many, count: 20, batch: true };
            let read = Probes::read(of.words().each_ref().map(String::as_str)).expect("its own words");
            let row = Row::measure(read).expect("20 probes");
            assert!(row.arm.on_wall > 0.0 && row.disarm.on_wall > 0.0 && row.bytes_each(of).is_none(), "{}", many.name);
        }
        assert!(Probes::read(["many/x86_64", "many", BATCH]).is_err() && Probes::read(["tiny/x86_64", "1", BATCH]).is_err());
    }
}
