//! The summary of a run: each probe with its mode, hits, misses by cause, and cost. It reports every miss.

use super::output::{Align, Cell, Paint, Table, thousands};
use serde::Serialize;
use std::fmt::Write;
use trapline_probes::Calls;

/// The summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The reason why the run ended.
    pub ended: String,
    /// Guest time in nanoseconds.
    pub virtual_ns: u64,
    /// Host time in nanoseconds.
    pub host_ns: u64,
    /// One row for each probe.
    pub probes: Vec<ProbeRow>,
    /// The number of records written.
    pub records: u64,
    /// The calls that return probes have seen. `None` without return probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<FollowedCalls>,
    /// Losses that belong to no probe, such as records that were dropped because the ring buffer was full.
    pub losses: Vec<Count>,
    /// The first lines of the engine's log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// The guest's reads and patches of its own text at probes, which were taken out meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text_work: Vec<TextWork>,
}

/// The calls that return probes have seen. The entries are the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FollowedCalls {
    /// Calls seen at their entry.
    pub entries: u64,
    /// Calls that have returned.
    pub returns: u64,
    /// Calls that have not returned yet.
    pub in_flight: u64,
    /// Calls that will never return, because their task has ended or has left them.
    pub ended: u64,
    /// Calls that no instance was free for, or that were not followed for another reason.
    pub missed: u64,
}

impl FollowedCalls {
    /// The calls of an engine, if it has followed any.
    pub fn of(calls: Calls) -> Option<FollowedCalls> {
        let Calls { entries, returns, in_flight, abandoned, declined, missed } = calls;
        (entries > 0).then_some(FollowedCalls { entries, returns, in_flight, ended: abandoned, missed: missed + declined })
    }

    /// The equation, such as `12 entries = 10 returns + 2 in flight`.
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "return probes: {} entries = {} returns + {} in flight",
            thousands(self.entries),
            thousands(self.returns),
            thousands(self.in_flight)
        );
        for (count, what) in [(self.ended, "of ended tasks"), (self.missed, "missed")] {
            if count > 0 {
                let _ = write!(text, " + {} {what}", thousands(count));
            }
        }
        text
    }
}

/// A guest function that reads or patches the kernel's text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TextWork {
    /// The name of the function.
    pub function: String,
    /// The number of its calls that met probes.
    pub times: u64,
    /// Guest time in it, in nanoseconds.
    pub virtual_ns: u64,
}

/// The row of one probe: its place, its mode, its counts and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbeRow {
    /// The event's name.
    pub name: String,
    /// The place, such as `vfs_read+0x4`.
    pub place: String,
    /// The source line, with `--lines`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The mode, such as `plain`, `boosted` or `emulated`, with the marks of debugfs's list, such as `[GONE]`.
    pub mode: String,
    /// The guest time in nanoseconds when it was first armed. `None` if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub armed_ns: Option<u64>,
    /// The number of times that its handlers ran.
    pub hits: u64,
    /// The numbers of hits at which its handlers did not run, by cause.
    pub misses: Vec<Count>,
    /// Host nanoseconds per hit, if measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_hit: Option<f64>,
}

/// A count with its cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The cause, in words.
    pub cause: String,
    /// The number of occurrences.
    pub count: u64,
}

impl Count {
    /// Makes a count.
    pub fn new(cause: impl Into<String>, count: u64) -> Count {
        Count { cause: cause.into(), count }
    }
}

impl ProbeRow {
    /// The sum of all misses.
    pub fn missed(&self) -> u64 {
        self.misses.iter().map(|miss| miss.count).sum()
    }
}

impl Summary {
    /// The summary as text for people.
    pub fn render(&self, paint: Paint) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}; {} of guest time in {}", self.ended, time(self.virtual_ns), time(self.host_ns));
        if !self.probes.is_empty() {
            text.push('\n');
            text += &self.table().render(paint);
        }
        let lost: Vec<&Count> = self.losses.iter().filter(|loss| loss.count > 0).collect();
        if self.records > 0 || !lost.is_empty() {
            let _ = write!(text, "\n{} records", thousands(self.records));
            for loss in lost {
                let _ = write!(text, "; {}", paint.bad(&format!("{} {}", thousands(loss.count), loss.cause)));
            }
            text.push('\n');
        }
        if let Some(calls) = &self.calls {
            let _ = writeln!(text, "{}", calls.sentence());
        }
        if let [_, ..] = self.text_work[..] {
            text += &self.told_of_text_work();
        }
        text
    }

    /// A sentence about text work: the three functions with the longest time by name, the others as a sum.
    fn told_of_text_work(&self) -> String {
        const NAMED: usize = 3;
        let mut works: Vec<&TextWork> = self.text_work.iter().collect();
        works.sort_by_key(|work| std::cmp::Reverse(work.virtual_ns));
        let told = |work: &&TextWork| format!("{} {} ({})", work.function, thousands(work.times), time(work.virtual_ns));
        let mut parts: Vec<String> = works.iter().take(NAMED).map(told).collect();
        let others = works.iter().skip(NAMED).map(|work| work.times).sum::<u64>();
        if others > 0 {
            parts.push(format!("others {}", thousands(others)));
        }
        format!("the guest read or patched its text at probes (taken out meanwhile): {}\n", parts.join(", "))
    }

    fn table(&self) -> Table {
        let place = |probe: &ProbeRow| match &probe.source {
            Some(source) => format!("{} at {source}", probe.place),
            None => probe.place.clone(),
        };
        const COLUMNS: &[(&str, Align)] = &[
            ("probe", Align::Left),
            ("place", Align::Left),
            ("mode", Align::Left),
            ("armed at", Align::Right),
            ("hits", Align::Right),
            ("missed", Align::Right),
            ("ns/hit", Align::Right),
            ("", Align::Left),
        ];
        let mut table = Table::new(COLUMNS);
        for probe in &self.probes {
            let missed = probe.missed();
            let happened = probe.misses.iter().filter(|miss| miss.count > 0);
            let causes: Vec<String> = happened.map(|miss| format!("{} {}", thousands(miss.count), miss.cause)).collect();
            table.row(vec![
                Cell::styled(&probe.name, Paint::name),
                Cell::plain(place(probe)),
                Cell::plain(&probe.mode),
                Cell::plain(probe.armed_ns.map_or("-".into(), time)),
                Cell::plain(thousands(probe.hits)),
                Cell::styled(thousands(missed), if missed > 0 { Paint::bad } else { Paint::faint }),
                Cell::plain(probe.ns_per_hit.map_or("-".into(), |ns| format!("{ns:.0}"))),
                Cell::plain(if causes.is_empty() { String::new() } else { format!("missed: {}", causes.join(", ")) }),
            ]);
        }
        table
    }
}

/// Formats nanoseconds with a fitting unit, such as `1.234 s`.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, hits: u64, misses: &[(&str, u64)]) -> ProbeRow {
        let misses = misses.iter().map(|(cause, count)| Count::new(*cause, *count)).collect();
        ProbeRow {
            name: name.into(),
            place: "vfs_read+0x0".into(),
            source: None,
            mode: "boosted".into(),
            armed_ns: Some(1_500_000),
            hits,
            misses,
            ns_per_hit: None,
        }
    }

    fn work(function: &str, times: u64, virtual_ns: u64) -> TextWork {
        TextWork { function: function.into(), times, virtual_ns }
    }

    /// KP-10, RP-3: the table shows every miss with its cause.
    #[test]
    fn no_miss_is_silent() {
        let summary = Summary {
            ended: "the guest powered off".into(),
            virtual_ns: 1_500_000,
            host_ns: 2_000_000_000,
            probes: vec![
                row("read", 12345, &[("inside another probe", 0)]),
                row("ret", 10, &[("inside another probe", 2), ("no free instance", 1000)]),
            ],
            records: 7,
            calls: Some(FollowedCalls { entries: 2_345, returns: 1_330, in_flight: 10, ended: 5, missed: 1_000 }),
            losses: vec![Count::new("records for which the buffer had no room", 3), Count::new("log lines", 0)],
            log: vec!["a line".into()],
            text_work: vec![work("a", 1, 10), work("b", 1_234, 3_000_000), work("c", 1, 20), work("d", 1, 9)],
        };
        let expected = "\
the guest powered off; 1.500 ms of guest time in 2.000 s

probe  place         mode     armed at    hits  missed  ns/hit
read   vfs_read+0x0  boosted  1.500 ms  12,345       0       -
ret    vfs_read+0x0  boosted  1.500 ms      10   1,002       -  missed: 2 inside another probe, 1,000 no free instance

7 records; 3 records for which the buffer had no room
return probes: 2,345 entries = 1,330 returns + 10 in flight + 5 of ended tasks + 1,000 missed
the guest read or patched its text at probes (taken out meanwhile): b 1,234 (3.000 ms), c 1 (20 ns), a 1 (10 ns), others 1
";
        assert_eq!(summary.render(Paint::none()), expected);
    }

    /// DV-4
    #[test]
    fn a_run_without_probes_says_so_by_saying_little() {
        let summary = Summary { ended: "the limit was reached".into(), virtual_ns: 999, host_ns: 1_000, ..Summary::default() };
        assert_eq!(summary.render(Paint::none()), "the limit was reached; 999 ns of guest time in 1.000 us\n");
    }
}
