//! One wave: its probes are registered at the start of a run, which is compared with the unprobed one.

use super::reduce::reduce;
use super::{Guests, Kind, refusal};
use crate::probed::Session;
use crate::verify::{Differs, Reference, Side};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// The largest number of runs that are made to reduce a wave that differs.
const MOST_RUNS: u32 = 60;

/// The result of a wave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// Its number in the sweep.
    pub wave: u64,
    /// The kind of its probes, by name.
    pub kind: String,
    /// The number of addresses.
    pub places: u64,
    /// The number of probes that were registered.
    pub armed: u64,
    /// The number of probes that were jumps at the end.
    pub jumps: u64,
    /// The number of probes that were hit.
    pub hit: u64,
    /// The number of hits of all probes together.
    pub hits: u64,
    /// Hits and returns whose handlers did not run.
    pub missed: u64,
    /// Refused addresses by rule.
    pub refused: BTreeMap<String, u64>,
    /// The difference, if the run is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<Found>,
}

/// A difference between a wave's run and the unprobed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The guest time in nanoseconds of the comparison that saw it.
    pub at: u64,
    /// The first difference from the unprobed run.
    pub what: String,
    /// The probes that cause it, by their places.
    pub probes: Vec<String>,
    /// The number of runs that were made to find them.
    pub runs: u32,
    /// Whether none of these probes can be left out.
    pub is_least: bool,
}

/// A registered probe.
enum Probe {
    Entry(Kprobe),
    Return(Kretprobe),
}

impl Probe {
    fn hits(&self) -> u64 {
        match self {
            Probe::Entry(probe) => probe.hits(),
            Probe::Return(probe) => probe.hits(),
        }
    }

    fn missed(&self) -> u64 {
        match self {
            Probe::Entry(probe) => probe.nmissed(),
            Probe::Return(probe) => probe.nmissed() + probe.kprobe().nmissed(),
        }
    }
}

/// Runs a wave, and reduces it if it differs. An error is a reason to try again.
pub(super) fn run(
    guests: &dyn Guests,
    reference: &Reference,
    number: u64,
    kind: Kind,
    addresses: &[u64],
) -> Result<Wave, String> {
    let (mut wave, differs) = once(guests, reference, kind, addresses)?;
    wave.wave = number;
    wave.differs = match differs {
        None => None,
        Some(seen) => Some(found(guests, reference, kind, addresses, seen)?),
    };
    Ok(wave)
}

fn found(guests: &dyn Guests, reference: &Reference, kind: Kind, addresses: &[u64], seen: Differs) -> Result<Found, String> {
    let mut last = seen;
    let reduced = reduce(addresses, MOST_RUNS, &mut |part: &[u64]| -> Result<bool, String> {
        let differs = once(guests, reference, kind, part)?.1;
        if let Some(differs) = &differs {
            last = differs.clone();
        }
        Ok(differs.is_some())
    })?;
    let describe = |address: &u64| format!("{} ({address:#x})", guests.kernel().symbols.describe(*address));
    let probes = reduced.set.iter().map(describe).collect();
    Ok(Found { at: last.at, what: last.what, probes, runs: reduced.runs, is_least: reduced.is_least })
}

/// Makes one run with probes at these addresses.
fn once(guests: &dyn Guests, reference: &Reference, kind: Kind, addresses: &[u64]) -> Result<(Wave, Option<Differs>), String> {
    let mut run = guests.start(Side::Probed, false)?;
    let mut wave = Wave { kind: kind.name().into(), places: addresses.len() as u64, ..Wave::default() };
    let probes = register(run.session(), kind, addresses, &mut wave.refused);
    let differs = reference.compare(&mut *run).err();
    wave.armed = probes.len() as u64;
    wave.hit = probes.iter().filter(|probe| probe.hits() > 0).count() as u64;
    wave.hits = probes.iter().map(Probe::hits).sum();
    wave.missed = probes.iter().map(Probe::missed).sum();
    wave.jumps = run.session().with_engine(|engine, guest| {
        let jumps = engine.summary(guest).into_iter().filter(|summary| summary.optimized);
        jumps.count() as u64
    });
    Ok((wave, differs))
}

/// Registers the probes. Refusals are counted by their rule.
fn register(session: &mut Session, kind: Kind, addresses: &[u64], refused: &mut BTreeMap<String, u64>) -> Vec<Probe> {
    let (isa, symbols) = (session.kernel().arch.isa(), session.kernel().symbols.clone());
    session.with_engine(|engine, guest| {
        engine.set_optimization(guest, kind != Kind::Kprobe);
        engine.set_optimization_delay(0);
        let mut probes = Vec::with_capacity(addresses.len());
        for address in addresses {
            let entry = Kprobe::at_address(*address).pre(|_| Flow::Continue);
            let (registered, probe) = match kind {
                Kind::Return => {
                    let probe = Kretprobe::at_address(*address).handler(|_| ());
                    (engine.register_kretprobe(guest, &probe), Probe::Return(probe))
                }
                Kind::Kprobe | Kind::Optimised => (engine.register_kprobe(guest, &entry), Probe::Entry(entry)),
            };
            match registered {
                Ok(()) => probes.push(probe),
                Err(refusal) => {
                    let function = symbols.containing(*address).map(|symbol| symbol.name).unwrap_or_default();
                    *refused.entry(refusal::rule(isa, &refusal, &function)).or_default() += 1;
                }
            }
        }
        probes
    })
}
