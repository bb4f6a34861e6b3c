//! Writes the page: facts, probes, misses, timeline, hits by task and CPU, histograms, flame graph and records.

use super::flow::COLUMNS;
use super::html::{Cell, escaped, table, time};
use super::{Collected, MOST_LINES, bucket_name};
use crate::outputs::numbers::thousands;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The height of a row of the timeline, in pixels.
const ROW: usize = 18;
/// The width of a column, in pixels, and of the names beside it.
const COLUMN: usize = 4;
const NAMES: usize = 190;
/// The largest number of backtraces in the table.
const MOST_STACKS: usize = 20;

/// A probe, as the page shows it.
#[derive(Clone, Debug, Default)]
pub struct Probe {
    /// The event's name.
    pub name: String,
    /// The place, such as `vfs_read+0x4`.
    pub place: String,
    /// The way in which a hit runs, such as `optimized`.
    pub mode: String,
    /// The guest time when it was first armed.
    pub armed: Option<u64>,
    /// The number of hits.
    pub hits: u64,
    /// Misses by cause.
    pub misses: Vec<(String, u64)>,
    /// Host nanoseconds per hit.
    pub cost: Option<u64>,
}

/// The facts about a run that are not in its records.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The heading of the page.
    pub title: String,
    /// Names and values, in order.
    pub facts: Vec<(String, String)>,
    /// One row for each probe.
    pub probes: Vec<Probe>,
    /// Losses by cause.
    pub losses: Vec<(String, u64)>,
    /// Texts with their headings, such as histograms of triggers.
    pub texts: Vec<(String, String)>,
}

/// Writes the page.
pub fn write(facts: &Facts, collected: &Collected) -> String {
    let title = escaped(&facts.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header><h1>{title}</h1></header>\n<nav aria-label=\"Sections\"><ul>"
    );
    let sections: [(&str, &str, String); 8] = [
        ("run", "The run", run(facts)),
        ("probes", "Probes", probes(facts)),
        ("misses", "Misses and losses", misses(facts)),
        ("timeline", "Timeline", timeline(collected)),
        ("tasks", "Tasks and CPUs", tasks(collected)),
        ("histograms", "Histograms", histograms(facts, collected)),
        ("flame", "Callers", callers(collected)),
        ("records", "First records", records(collected)),
    ];
    for (id, heading, _) in &sections {
        let _ = write!(out, "<li><a href=\"#{id}\">{heading}</a></li>");
    }
    out += "</ul></nav>\n<main id=\"content\">\n";
    for (id, heading, content) in &sections {
        let _ = write!(
            out,
            "<section id=\"{id}\" aria-labelledby=\"{id}-heading\"><h2 id=\"{id}-heading\">{heading}</h2>\n{content}</section>\n"
        );
    }
    out += "</main>\n<footer>Written by trapline. The file is complete in itself.</footer>\n";
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        data(collected)
    );
    out
}

fn run(facts: &Facts) -> String {
    let rows: String = facts
        .facts
        .iter()
        .map(|(name, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value)))
        .collect();
    format!("<dl>\n{rows}</dl>\n")
}

fn probes(facts: &Facts) -> String {
    if facts.probes.is_empty() {
        return "<p>There were no probes.</p>\n".into();
    }
    let most = facts.probes.iter().map(|probe| probe.hits).max().unwrap_or(0).max(1);
    let row = |probe: &Probe| {
        vec![
            Cell::Text(probe.name.clone()),
            Cell::Text(probe.place.clone()),
            Cell::Text(probe.mode.clone()),
            probe.armed.map_or(Cell::Empty, Cell::Number),
            Cell::Bar(probe.hits, share(probe.hits, most)),
            Cell::Number(probe.misses.iter().map(|(_, count)| count).sum()),
            probe.cost.map_or(Cell::Empty, Cell::Number),
        ]
    };
    let columns = ["event", "place", "mode", "armed at (ns)", "hits", "misses", "host ns per hit"];
    table("Probes with their hits", &columns, &facts.probes.iter().map(row).collect::<Vec<_>>())
}

fn share(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(100)
}

fn misses(facts: &Facts) -> String {
    let of_probe = |probe: &Probe| {
        let name = probe.name.clone();
        let some = probe.misses.iter().filter(|(_, count)| *count > 0);
        some.map(move |(cause, count)| (name.clone(), cause.clone(), *count)).collect::<Vec<_>>()
    };
    let losses =
        facts.losses.iter().filter(|(_, count)| *count > 0).map(|(cause, count)| ("the run".to_string(), cause.clone(), *count));
    let rows: Vec<Vec<Cell>> = facts
        .probes
        .iter()
        .flat_map(of_probe)
        .chain(losses)
        .map(|(name, cause, count)| vec![Cell::Text(name), Cell::Text(cause), Cell::Number(count)])
        .collect();
    match rows[..] {
        [] => "<p>No hit was missed, and no record was lost.</p>\n".into(),
        _ => table("Hits that were missed and records that were lost, by cause", &["event", "cause", "count"], &rows),
    }
}

/// The rows of the timeline: a name and its columns.
fn rows(collected: &Collected) -> Vec<(String, &[u32])> {
    let cpus = collected.flow.cpus.iter().enumerate().map(|(number, row)| (format!("CPU {number}"), row.as_slice()));
    let tasks = collected.tasks.iter().zip(&collected.flow.tasks).map(|(task, row)| (task.label(), row.as_slice()));
    cpus.chain(tasks).collect()
}

fn timeline(collected: &Collected) -> String {
    if collected.records == 0 {
        return "<p>There were no hits.</p>\n".into();
    }
    let (rows, span) = (rows(collected), collected.flow.span());
    let (width, height) = (NAMES + COLUMNS * COLUMN, rows.len() * ROW + 24);
    let mut out = format!(
        "<p>Hits over guest time, for each CPU and each task. A column is {}; the darker, the more hits. The tables below have the numbers.</p>\n\
         <div id=\"controls\" hidden></div>\n<p id=\"shown\" role=\"status\" aria-live=\"polite\"></p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline\">\
         <svg id=\"lanes\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Hits over time: {} rows\">\n",
        time(span / COLUMNS as u64),
        rows.len(),
    );
    for (number, (name, columns)) in rows.iter().enumerate() {
        let y = number * ROW;
        let most = columns.iter().copied().max().unwrap_or(0).max(1);
        let _ = write!(out, "<text x=\"0\" y=\"{}\">{}</text><g>", y + ROW - 5, escaped(&shortened(name)));
        for (column, count) in columns.iter().enumerate().filter(|(_, count)| **count > 0) {
            let strength = 0.25 + 0.75 * f64::from(*count) / f64::from(most);
            let x = NAMES + column * COLUMN;
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"{COLUMN}\" height=\"{}\" opacity=\"{strength:.2}\"/>",
                y + 2,
                ROW - 4
            );
        }
        out += "</g>\n";
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{NAMES}\" y=\"{0}\">{1}</text><text class=\"axis\" text-anchor=\"end\" x=\"{width}\" y=\"{0}\">{2}</text>\n</svg></div>\n",
        height - 6,
        time(collected.flow.start()),
        time(collected.flow.start().saturating_add(span))
    );
    out
}

/// A name that fits beside the timeline.
fn shortened(name: &str) -> String {
    const MOST: usize = 25;
    match name.chars().count() {
        0..=MOST => name.into(),
        _ => name.chars().take(MOST - 2).chain("..".chars()).collect(),
    }
}

impl super::Task {
    fn label(&self) -> String {
        match self.pid {
            Some(pid) => format!("{}-{pid}", self.name),
            None => self.name.clone(),
        }
    }
}

fn tasks(collected: &Collected) -> String {
    if collected.records == 0 {
        return "<p>There were no hits.</p>\n".into();
    }
    let events: Vec<&str> = collected.events.iter().map(String::as_str).take(12).collect();
    let columns: Vec<&str> = ["task", "hits"].into_iter().chain(events.iter().copied()).collect();
    let row = |task: &super::Task| {
        let sum: u64 = task.hits.iter().sum();
        let each = (0..events.len()).map(|event| Cell::Number(task.hits.get(event).copied().unwrap_or(0)));
        [Cell::Text(task.label()), Cell::Bar(sum, share(sum, collected.records))].into_iter().chain(each).collect::<Vec<_>>()
    };
    let by_task = table("Hits by task and event", &columns, &collected.tasks.iter().map(row).collect::<Vec<_>>());
    let cpu = |(number, hits): (usize, &u64)| {
        vec![Cell::Text(format!("CPU {number}")), Cell::Bar(*hits, share(*hits, collected.records))]
    };
    by_task + &table("Hits by CPU", &["CPU", "hits"], &collected.cpus.iter().enumerate().map(cpu).collect::<Vec<_>>())
}

fn histograms(facts: &Facts, collected: &Collected) -> String {
    let mut out = String::new();
    for ((event, argument), counts) in &collected.histograms {
        let total: u64 = counts.iter().sum();
        let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let rows: Vec<Vec<Cell>> = filled
            .map(|(bucket, count)| vec![Cell::Text(bucket_name(bucket)), Cell::Bar(*count, share(*count, total))])
            .collect();
        let event = collected.events.get(*event).map_or("", String::as_str);
        out += &table(&format!("Values of {argument} of {event}"), &["value", "hits"], &rows);
    }
    for (name, text) in &facts.texts {
        let _ = write!(out, "<h3>{}</h3>\n<pre tabindex=\"0\">{}</pre>\n", escaped(name), escaped(text));
    }
    if out.is_empty() { "<p>No event has a number as an argument.</p>\n".into() } else { out }
}

fn callers(collected: &Collected) -> String {
    let Some(svg) = collected.flame() else {
        return "<p>The records have no backtraces: <code>--stacktrace</code> adds them.</p>\n".into();
    };
    let mut stacks: Vec<(&String, &u64)> = collected.stacks.iter().collect();
    stacks.sort_by(|one, other| other.1.cmp(one.1));
    let total: u64 = collected.stacks.values().sum();
    let row =
        |(stack, count): &(&String, &u64)| vec![Cell::Text(stack.replace(';', " → ")), Cell::Bar(**count, share(**count, total))];
    let rows: Vec<Vec<Cell>> = stacks.iter().take(MOST_STACKS).map(row).collect();
    format!("<div class=\"scroll light\" tabindex=\"0\" role=\"region\" aria-label=\"Flame graph\">{svg}</div>\n")
        + &table("The most frequent backtraces, the outermost function first", &["backtrace", "records"], &rows)
}

fn records(collected: &Collected) -> String {
    if collected.records == 0 {
        return "<p>There were no records.</p>\n".into();
    }
    let shown = collected.line_count.min(MOST_LINES);
    format!(
        "<details><summary>The first {shown} of {} records</summary>\n<pre tabindex=\"0\">{}</pre></details>\n",
        thousands(collected.records),
        escaped(&collected.lines)
    )
}

/// The data of the zoomable timeline, as JSON without any character that ends a script.
fn data(collected: &Collected) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default().replace('<', "\\u003c").replace('>', "\\u003e");
    let list = |items: Vec<String>| items.join(",");
    let names = rows(collected).into_iter().map(|(name, _)| text(&name)).collect();
    let events = collected.events.iter().map(|event| text(event)).collect();
    let hits = collected.hits.kept.iter().map(|hit| format!("{},{},{},{}", hit.time, hit.cpu, hit.task, hit.event)).collect();
    format!(
        "{{\"cpus\":{},\"rows\":[{}],\"events\":[{}],\"start\":{},\"span\":{},\"each\":{},\"hits\":[{}]}}",
        collected.flow.cpus.len(),
        list(names),
        list(events),
        collected.flow.start(),
        collected.flow.span(),
        collected.hits.each,
        list(hits)
    )
}
