//! The result of a sweep as a table and as JSON.

use super::output::{Align, Cell, Paint, Table, thousands};
use crate::sweep::part::Summary;
use crate::sweep::{Kind, Wave};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The counts of a sweep or a part.
#[derive(Serialize)]
pub struct Totals<'a> {
    name: &'a str,
    policy: &'a str,
    shard: &'a str,
    run: &'a str,
    instructions: u64,
    functions: u64,
    identical: bool,
    kinds: Vec<OfKind<'a>>,
}

/// The counts of the waves of one kind.
#[derive(Default, Serialize)]
struct OfKind<'a> {
    kind: &'a str,
    waves: u64,
    places: u64,
    armed: u64,
    jumps: u64,
    hit: u64,
    hits: u64,
    missed: u64,
    refused: BTreeMap<&'a str, u64>,
    differ: Vec<&'a Wave>,
}

impl<'a> OfKind<'a> {
    fn of(kind: Kind, summary: &'a Summary) -> OfKind<'a> {
        let mut all = OfKind { kind: kind.name(), ..OfKind::default() };
        for wave in summary.waves.values().filter(|wave| wave.kind == all.kind) {
            all.waves += 1;
            all.places += wave.places;
            all.armed += wave.armed;
            all.jumps += wave.jumps;
            all.hit += wave.hit;
            all.hits += wave.hits;
            all.missed += wave.missed;
            wave.refused.iter().for_each(|(rule, count)| *all.refused.entry(rule).or_default() += count);
            all.differ.extend(wave.differs.is_some().then_some(wave));
        }
        all
    }
}

/// The counts.
pub fn totals(summary: &Summary) -> Totals<'_> {
    let identity = &summary.identity;
    let kinds = Kind::ALL.iter().map(|kind| OfKind::of(*kind, summary)).filter(|kind| kind.waves > 0).collect();
    Totals {
        name: &identity.name,
        policy: &identity.policy,
        shard: &identity.shard,
        run: &identity.run,
        instructions: identity.instructions,
        functions: identity.functions,
        identical: summary.is_identical(),
        kinds,
    }
}

/// The counts as text.
pub fn text(summary: &Summary, paint: Paint) -> String {
    const COLUMNS: &[(&str, Align)] = &[
        ("probes", Align::Left),
        ("waves", Align::Right),
        ("places", Align::Right),
        ("armed", Align::Right),
        ("refused", Align::Right),
        ("jumps", Align::Right),
        ("hit", Align::Right),
        ("hits", Align::Right),
        ("missed", Align::Right),
        ("differ", Align::Right),
    ];
    let totals = totals(summary);
    let verdict = if totals.identical { paint.good("identical") } else { paint.bad("different") };
    let mut text = format!("{verdict}: {}, policy {}, shard {}, run {}\n", totals.name, totals.policy, totals.shard, totals.run);
    let (instructions, functions) = (thousands(totals.instructions), thousands(totals.functions));
    let _ = writeln!(text, "{instructions} instructions of {functions} functions were executed\n");
    let mut table = Table::new(COLUMNS);
    for kind in &totals.kinds {
        let numbers = [
            kind.waves,
            kind.places,
            kind.armed,
            kind.places - kind.armed.min(kind.places),
            kind.jumps,
            kind.hit,
            kind.hits,
            kind.missed,
            kind.differ.len() as u64,
        ];
        let cells = numbers.iter().map(|number| Cell::plain(thousands(*number)));
        table.row([Cell::styled(kind.kind, Paint::name)].into_iter().chain(cells).collect());
    }
    text += &table.render(paint);
    for kind in &totals.kinds {
        for (rule, count) in &kind.refused {
            let _ = writeln!(text, "{} refused {}: {rule}", kind.kind, thousands(*count));
        }
    }
    for wave in totals.kinds.iter().flat_map(|kind| &kind.differ) {
        if let Some(found) = &wave.differs {
            let (at, what, runs) = (thousands(found.at), &found.what, found.runs);
            let how = if found.is_least { "none can be left out" } else { "not reduced further" };
            let probes = found.probes.join(", ");
            let _ = writeln!(
                text,
                "wave {} ({}) differs by {at} ns of guest time in {what}: {probes} ({runs} runs, {how})",
                wave.wave, wave.kind
            );
        }
    }
    text
}
