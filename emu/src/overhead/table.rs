//! The overhead table of a guest: the host time that each mechanism adds to a call.
//!
//! The mechanisms take turns, round after round, for the same virtual time and so for the same number of calls. The
//! fastest turn of each counts, minus the fastest turn of the loop without a probe. Each turn begins behind an interrupt
//! of the guest's timer and contains the next one, so that all turns do the same work.

use super::bench_loop::BenchLoop;
use super::document;
use super::{Mechanism, SHAPE};
use std::time::Instant;
use trapline_isa::arch::Arch;

/// Virtual time of a turn in nanoseconds: about 2,000 calls. It is so short that even on a busy host some turns are
/// undisturbed.
const TURN: u64 = 20_000;
/// Turns of a mechanism in each round.
const TURNS: u32 = 20;
/// Virtual time in nanoseconds before a mechanism is timed, so that its code is translated, optimised and cached.
const WARM_UP: u64 = 20_000;

/// The cost of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The measured mechanism.
    pub mechanism: &'static Mechanism,
    /// Hits in one turn.
    pub hits: u64,
    /// Host nanoseconds of the fastest turn, minus those of the loop without a probe.
    pub added: f64,
}

impl Row {
    /// Microseconds that a hit adds.
    pub fn microseconds(&self) -> f64 {
        self.added / 1e3 / self.hits.max(1) as f64
    }
}

/// The results of a guest.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The guest's ISA.
    pub arch: Arch,
    /// Host nanoseconds of a call without a probe.
    pub unprobed: f64,
    /// One row for each mechanism except "none".
    pub rows: Vec<Row>,
}

impl Measurement {
    /// Measures a tiny kernel.
    pub fn of(guest: &str, rounds: u32) -> Result<Measurement, String> {
        let mut bench = BenchLoop::tiny(guest)?;
        let arch = bench.session().kernel().arch;
        let mechanisms: Vec<&Mechanism> = Mechanism::all_of(arch).collect();
        let mut quickest = vec![(f64::INFINITY, 0); mechanisms.len()];
        for _ in 0..rounds.max(1) {
            for (mechanism, (best, hits)) in mechanisms.iter().zip(&mut quickest) {
                let planted = bench.plant(mechanism)?;
                bench.run(WARM_UP)?;
                for _ in 0..TURNS {
                    bench.run_past_interrupt()?;
                    let (before, started) = (planted.hits(), Instant::now());
                    bench.run(TURN)?;
                    let time = started.elapsed().as_nanos() as f64;
                    if time < *best {
                        (*best, *hits) = (time, planted.hits() - before);
                    }
                }
                bench.take_away(planted);
            }
        }
        let calls = quickest.iter().map(|(_, hits)| *hits).max().unwrap_or(0);
        let alone = quickest.first().map_or(0.0, |(time, _)| *time);
        let rows = mechanisms.into_iter().zip(quickest).skip(1);
        let rows = rows.map(|(mechanism, (time, hits))| Row { mechanism, hits, added: time - alone }).collect();
        Ok(Measurement { arch, unprobed: alone / calls.max(1) as f64, rows })
    }

    /// The row of a mechanism.
    pub fn row(&self, letters: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.mechanism.letters == letters)
    }

    /// A mechanism's cost divided by that of k.
    pub fn ratio(&self, letters: &str) -> Option<f64> {
        Some(self.row(letters)?.microseconds() / self.row("k")?.microseconds())
    }

    /// Whether the costs have the shape of the document's tables, as far as the mechanisms exist: o < b < k, and each
    /// return probe costs more than its kprobe.
    pub fn has_the_documents_shape(&self) -> bool {
        let cost = |letters| self.row(letters).map(Row::microseconds);
        let pairs = SHAPE.iter().filter_map(|(less, more)| Some((cost(less)?, cost(more)?)));
        pairs.into_iter().all(|(less, more)| less < more)
    }

    /// The headings of [`Measurement::lines`]: ours, then the document's.
    pub fn headings(&self) -> Vec<String> {
        let ours = ["", "us/hit", "/k", "hits/s"].map(String::from);
        let theirs = document::tables(self.arch).flat_map(|table| [format!("{}, us", table.machine), "/k".to_string()]);
        ours.into_iter().chain(theirs).chain(std::iter::once("what".to_string())).collect()
    }

    /// One line for each mechanism.
    pub fn lines(&self) -> Vec<Vec<String>> {
        let figure = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let line = |row: &Row| {
            let (letters, cost) = (row.mechanism.letters, row.microseconds());
            let ours = [letters.to_string(), format!("{cost:.3}"), figure(self.ratio(letters)), format!("{:.0}", 1e6 / cost)];
            let theirs =
                document::tables(self.arch).flat_map(|table| [figure(table.figure(letters)), figure(table.ratio(letters))]);
            ours.into_iter().chain(theirs).chain(std::iter::once(row.mechanism.what.to_string())).collect()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OH-1: every mechanism is hit at every call, on each guest.
    #[test]
    fn every_mechanism_is_hit_once_for_each_call() {
        for guest in super::super::guests() {
            let measured = Measurement::of(guest, 1).expect("the guest stays in its loop");
            let calls = measured.rows[0].hits;
            assert!(calls > 500, "{guest}: {calls} calls");
            for row in &measured.rows {
                // A turn begins and ends anywhere in the loop.
                assert!(row.hits.abs_diff(calls) <= 2, "{guest} {}: {} hits of {calls}", row.mechanism.letters, row.hits);
            }
            assert_eq!(measured.lines()[0].len(), measured.headings().len());
        }
    }

    #[test]
    fn the_documents_figures_stand_beside_the_mechanism_that_they_are_of() {
        let xeon = document::tables(Arch::X86_64).find(|table| table.machine.starts_with("Xeon")).expect("a table");
        assert_eq!((xeon.figure("o"), xeon.figure("jr")), (Some(0.06), None));
        assert!(xeon.ratio("b").is_some_and(|ratio| (ratio - 0.434).abs() < 0.001));
        for table in [Arch::X86_64, Arch::I386, Arch::Ppc64le].into_iter().flat_map(document::tables) {
            for (letters, _) in table.figures {
                assert!(Mechanism::find(letters).is_some(), "{letters}");
            }
        }
    }
}
