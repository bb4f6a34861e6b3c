//! The cost of arming: the time for many probes, registered in one batch or one by one, and the host memory per probe.
//! Memory is the growth of the process's resident set, with the probe objects but without the bytes of their slots,
//! which are guest memory. Memory that was freed earlier would be reused unnoticed. Therefore each row is measured in a
//! process of its own, which prints its result as [`Row::line`].

use super::many::{self, Many};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Goal: CPU seconds to arm a guest's maximal number of probes in one batch.
pub const GOAL_SECONDS: f64 = 1.0;
/// Goal: bytes of host memory for each of these probes.
pub const GOAL_BYTES: f64 = 300.0;

/// The optimiser's delay in nanoseconds: the engine's default.
const DELAY: u64 = 100_000;
/// Bytes of guest memory for a probe's copies and detour.
const SLOT: usize = 96;
/// The smallest number of probes for which memory is reported. Fewer take less than the host's unit of allocation.
const FEWEST_FOR_MEMORY: usize = 10_000;

/// Seconds that a piece of work took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    /// CPU time of this thread.
    pub on_cpu: f64,
    /// Wall-clock time.
    pub on_wall: f64,
}

/// The probes that a row measures.
#[derive(Clone, Copy)]
pub struct Probes {
    /// The guest whose functions are probed.
    pub many: &'static Many,
    /// The number of probes.
    pub count: usize,
    /// Whether all are registered in one call.
    pub batch: bool,
}

/// All rows: several numbers of probes on the first guest, then the largest possible number on each other guest.
pub fn rows() -> Vec<Probes> {
    let numbers = [1, 1_000, many::FIRST.most].into_iter().flat_map(|count| [(count, true), (count, false)]);
    let first = numbers.map(|(count, batch)| Probes { many: many::FIRST, count, batch });
    let others = many::ALL.iter().skip(1).map(|many| Probes { many, count: many.most, batch: true });
    first.chain(others).collect()
}

impl Probes {
    /// The command-line words from which [`Probes::read`] makes an equal value.
    pub fn words(&self) -> [String; 3] {
        [self.many.name.into(), self.count.to_string(), self.how().into()]
    }

    /// Parses the words of a command line.
    pub fn read([guest, count, how]: [&str; 3]) -> Result<Probes, String> {
        let many = many::find(guest).ok_or_else(|| format!("`{guest}` is not a guest with many functions"))?;
        let count = count.parse().map_err(|_| format!("`{count}` is not a number of probes"))?;
        Ok(Probes { many, count, batch: how == BATCH })
    }

    fn how(&self) -> &'static str {
        if self.batch { BATCH } else { "single" }
    }
}

const BATCH: &str = "batch";

/// The measured result for all probes of a row together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Writing breakpoints, copies and detours.
    pub arm: Time,
    /// Writing the jumps in place of the breakpoints.
    pub optimise: Time,
    /// Taking the probes away.
    pub disarm: Time,
    /// Bytes of host memory that the probes take.
    pub bytes: f64,
}

impl Row {
    /// Measures in this process.
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

    /// Measures in a child process: runs `program` with `argument` and [`Probes::words`], and parses the [`Row::line`]
    /// that it prints.
    pub fn measured_by(program: &Path, argument: &str, of: Probes) -> Result<Row, String> {
        let output = Command::new(program).arg(argument).args(of.words()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        Row::read(said.trim())
            .ok_or_else(|| format!("{}: {said}{}", of.words().join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    /// The figures in the form that [`Row::read`] parses.
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

    /// Bytes of host memory per probe. `None` if there are too few probes to tell.
    fn bytes_each(&self, of: Probes) -> Option<f64> {
        (of.count >= FEWEST_FOR_MEMORY && self.bytes > 0.0).then(|| self.bytes / of.count as f64)
    }

    /// The goals that this result misses, each as a sentence. Goals apply to a batch of the largest possible number of
    /// probes.
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

    /// The table's cells, per probe: microseconds of CPU time, with wall-clock time in brackets, and bytes.
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

/// CPU time of this thread.
fn time_on_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The resident set of this process in bytes; 0 if the host does not report it.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OH-3: a line round-trips through `read`, and only rows with a full batch are held to the goals.
    #[test]
    fn a_row_round_trips_and_is_checked_against_its_goals() {
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
    fn armed_probes_are_hit_and_removed() {
        for many in many::ALL {
            let of = Probes { many, count: 20, batch: true };
            let read = Probes::read(of.words().each_ref().map(String::as_str)).expect("its own words");
            let row = Row::measure(read).expect("20 probes");
            assert!(row.arm.on_wall > 0.0 && row.disarm.on_wall > 0.0 && row.bytes_each(of).is_none(), "{}", many.name);
        }
        assert!(Probes::read(["many/x86_64", "many", BATCH]).is_err() && Probes::read(["tiny/x86_64", "1", BATCH]).is_err());
    }
}
