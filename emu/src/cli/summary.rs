//! The end of a run: each probe with its hits, its misses by cause, how it ran, what it cost. No miss is silent.

use super::output::{Align, Cell, Paint, Table, thousands};
use serde::Serialize;
use std::fmt::Write;

/// All that is told about a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Why it ended.
    pub ended: String,
    /// Nanoseconds of the guest's own time.
    pub virtual_ns: u64,
    /// Nanoseconds of ours.
    pub host_ns: u64,
    /// Each probe.
    pub probes: Vec<ProbeRow>,
    /// Records that were made.
    pub records: u64,
    /// What was lost elsewhere than at a probe, such as `records for which the buffer had no room`.
    pub losses: Vec<Count>,
    /// What the engine had to say, the first lines of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// What the guest did to its own text where probes stood; they were out of its way meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text_work: Vec<TextWork>,
}

/// A function with which the guest reads or changes its text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TextWork {
    /// Its name.
    pub function: String,
    /// How often it met probes.
    pub times: u64,
    /// The guest's own time in it.
    pub virtual_ns: u64,
}

/// One probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProbeRow {
    /// The event's name, or the letter of the kind.
    pub name: String,
    /// `vfs_read+0x4`
    pub place: String,
    /// How it ran: `plain`, `boosted`, `emulated`, and what its list line shows, such as `[GONE]`.
    pub mode: String,
    /// When it was armed: guest time; none if it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub armed_ns: Option<u64>,
    /// How often its handlers ran.
    pub hits: u64,
    /// How often they should have run and did not, by cause; causes that never happened may be left out.
    pub misses: Vec<Count>,
    /// Host time that one hit took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_per_hit: Option<f64>,
}

/// A cause, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The cause, in words.
    pub cause: String,
    /// How often.
    pub count: u64,
}

impl Count {
    /// So many of this.
    pub fn new(cause: impl Into<String>, count: u64) -> Count {
        Count { cause: cause.into(), count }
    }
}

impl ProbeRow {
    /// All misses.
    pub fn missed(&self) -> u64 {
        self.misses.iter().map(|miss| miss.count).sum()
    }
}

impl Summary {
    /// The table.
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
        if let [_, ..] = self.text_work[..] {
            text += &self.told_of_text_work();
        }
        text
    }

    /// The guest's longest works on its text by name, the others together.
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
        format!("the guest worked on its text where probes stood, which were out of it meanwhile: {}\n", parts.join(", "))
    }

    fn table(&self) -> Table {
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
                Cell::plain(&probe.place),
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

/// `1.234 s`
fn time(ns: u64) -> String {
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

    /// KP-10, RP-3: whatever was missed stands in the table, with its cause.
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
the guest worked on its text where probes stood, which were out of it meanwhile: b 1,234 (3.000 ms), c 1 (20 ns), a 1 (10 ns), others 1
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
