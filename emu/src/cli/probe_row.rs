//! The row of a probe in the summary of a run.

use super::summary::{Count, ProbeRow};
use std::collections::BTreeMap;
use trapline_probes::ProbeSummary;
use trapline_probes::events::set::{Attached, Member};
use trapline_probes::watch::Watchpoint;

/// The guest time at which the probe of an event was first armed, by group and name.
pub type Armed = BTreeMap<(String, String), u64>;

/// The address of an event's probe, and its row in the summary.
pub fn row(member: &Member, armed: &Armed, summaries: &[ProbeSummary]) -> (Option<u64>, ProbeRow) {
    let name = member.name().to_string();
    let place = member.definition.location.to_string();
    let (kprobe, no_instance) = match &member.probe {
        Attached::Kprobe(probe) => (probe, 0),
        Attached::Kretprobe(probe) => (probe.kprobe(), probe.nmissed()),
        Attached::Jprobe(probe) => (probe.kprobe(), 0),
        Attached::User(probe) => {
            let mode = if probe.is_by_content() { "in programs (pages by content)" } else { "in programs" };
            let mode = if probe.is_disabled() { format!("{mode} [DISABLED]") } else { mode.into() };
            let misses = vec![Count::new("return not followed", probe.missed())];
            let armed_ns = armed.get(&(member.group().into(), member.name().into())).copied();
            return (None, ProbeRow { name, place, mode, armed_ns, hits: member.hits(), misses, ..ProbeRow::default() });
        }
        Attached::Watchpoint(watchpoint) => return (None, watched(member, watchpoint, armed)),
        Attached::Pending => return (None, ProbeRow { name, place, mode: "waits for its module".into(), ..ProbeRow::default() }),
    };
    let known = summaries.iter().find(|summary| Some(summary.address) == kprobe.address());
    let mut mode = known.map_or("-", |summary| summary.mode.name()).to_string();
    if kprobe.is_gone() {
        mode += " [GONE]";
    } else if let Some(waits) = known.and_then(|summary| summary.waits.as_ref()) {
        mode = format!("waits: {}", waits.why);
    } else if kprobe.is_disabled() {
        mode += " [DISABLED]";
    }
    let misses = vec![
        Count::new("inside another probe", kprobe.nmissed()),
        Count::new("ended by a newer probe", kprobe.skipped()),
        Count::new("no free instance", no_instance),
        Count::new("while the guest changed its text", kprobe.passed()),
        Count::new("before its module was loaded again", member.earlier_misses()),
    ];
    let armed_ns = armed.get(&(member.group().into(), member.name().into())).copied();
    (kprobe.address(), ProbeRow { name, place, mode, armed_ns, hits: member.hits(), misses, ..ProbeRow::default() })
}

fn watched(member: &Member, watchpoint: &Watchpoint, armed: &Armed) -> ProbeRow {
    ProbeRow {
        name: member.name().into(),
        place: member.definition.location.to_string(),
        mode: if watchpoint.is_enabled() { "watched" } else { "watched [DISABLED]" }.into(),
        armed_ns: armed.get(&(member.group().into(), member.name().into())).copied(),
        hits: watchpoint.hits(),
        misses: vec![Count::new("changed unseen", watchpoint.changed_unseen()), Count::new("not set", watchpoint.not_set())],
        ..ProbeRow::default()
    }
}
