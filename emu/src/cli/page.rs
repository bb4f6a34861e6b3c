//! `--report FILE.html`: one page about the run.

use super::Failure;
use super::guest::Guest;
use super::out_file::OutFile;
use super::summary::{Summary, time};
use crate::outputs::report::Collected;
use crate::outputs::report::page::{self, Facts, Probe};
use std::io::Write;
use std::path::Path;

/// The file that the page is written to when the run has ended.
pub struct PageFile(OutFile);

impl PageFile {
    /// Opens the file.
    pub fn new(path: &Path) -> Result<PageFile, Failure> {
        OutFile::new(path).map(PageFile)
    }

    /// Writes the page. `texts` are histograms with their events' names.
    pub fn write(
        mut self,
        (guest, board): (&Guest, &str),
        summary: &Summary,
        texts: Vec<(String, String)>,
        collected: &Collected,
    ) -> Result<(), Failure> {
        let page = page::write(&facts(guest, board, summary, texts), collected);
        self.0.file.write_all(page.as_bytes()).map_err(self.0.failed())
    }
}

fn facts(guest: &Guest, board: &str, summary: &Summary, texts: Vec<(String, String)>) -> Facts {
    let pairs = |counts: &[super::summary::Count]| counts.iter().map(|count| (count.cause.clone(), count.count)).collect();
    let probe = |row: &super::summary::ProbeRow| Probe {
        name: row.name.clone(),
        place: row.source.as_ref().map_or_else(|| row.place.clone(), |source| format!("{} at {source}", row.place)),
        mode: row.mode.clone(),
        armed: row.armed_ns,
        hits: row.hits,
        misses: pairs(&row.misses),
        cost: row.ns_per_hit.map(|ns| ns.round() as u64),
    };
    let mut facts: Vec<(String, String)> = [
        ("Image", guest.name.clone()),
        ("Ended", summary.ended.clone()),
        ("Guest time", time(summary.virtual_ns)),
        ("Time on the host", time(summary.host_ns)),
        ("Machine", format!("{}, {board}, {} CPUs", guest.kernel.arch.name(), guest.cpus)),
        ("Kernel's command line", guest.command_line().to_string()),
        ("Records", super::output::thousands(summary.records)),
        ("trapline", env!("CARGO_PKG_VERSION").into()),
        ("Command", std::env::args().collect::<Vec<_>>().join(" ")),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    if let Some(calls) = &summary.calls {
        facts.push(("Calls".into(), calls.sentence()));
    }
    Facts {
        title: format!("trapline: {}", guest.name),
        facts,
        probes: summary.probes.iter().map(probe).collect(),
        losses: pairs(&summary.losses),
        texts,
    }
}
