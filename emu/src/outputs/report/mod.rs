//! The page of `--report`: one self-contained HTML file about a run. [`Collected`] gathers what it shows in a bounded
//! amount of memory; [`page`] writes it.

mod flow;
mod html;
pub mod page;

use super::text::add_lines;
use super::values::comm;
use super::{Seen, flame};
use flow::{Flow, Hits};
use std::collections::BTreeMap;
use trapline_probes::events::format::{Field, Reader, Value};
use trapline_probes::events::places::Places;
use trapline_probes::events::trace;

/// The largest number of tasks with rows of their own. Hits of further tasks are counted together.
const MOST_TASKS: usize = 64;
/// The largest number of distinct backtraces that are kept.
const MOST_STACKS: usize = 20_000;
/// The largest number of arguments with a histogram.
const MOST_HISTOGRAMS: usize = 64;
/// The largest number of records whose text is kept: the first ones.
const MOST_LINES: usize = 200;
/// The name of the row of further tasks, and of further backtraces.
const FURTHER: &str = "further ones";
/// Buckets of a histogram: negative numbers, 0, and a bucket for each power of 2.
const BUCKETS: usize = 66;

/// The counts, hits and histograms that the page shows.
#[derive(Default)]
pub struct Collected {
    events: Vec<String>,
    /// The names of tasks, each with its number, and their hits by event.
    tasks: Vec<Task>,
    task_rows: BTreeMap<(u32, String), usize>,
    cpus: Vec<u64>,
    flow: Flow,
    hits: Hits,
    histograms: BTreeMap<(usize, String), [u64; BUCKETS]>,
    stacks: BTreeMap<String, u64>,
    /// The text of the first records.
    lines: String,
    line_count: usize,
    places: Places,
    records: u64,
    lost: u64,
}

/// A task and its hits.
#[derive(Clone, Debug, Default)]
struct Task {
    name: String,
    pid: Option<u32>,
    /// Hits by event.
    hits: Vec<u64>,
}

impl Collected {
    /// Takes a record in.
    pub fn record(&mut self, seen: &Seen<'_>) {
        let header = &seen.record.header;
        self.records += 1;
        let event = self.event(&seen.format.event);
        let task = self.task(header.pid, comm(header));
        if let Some(task) = self.tasks.get_mut(task) {
            task.hits.resize(task.hits.len().max(event + 1), 0);
            if let Some(hits) = task.hits.get_mut(event) {
                *hits += 1;
            }
        }
        let cpu = usize::from(header.cpu);
        self.cpus.resize(self.cpus.len().max(cpu + 1), 0);
        if let Some(hits) = self.cpus.get_mut(cpu) {
            *hits += 1;
        }
        self.flow.add(header.time, cpu, task);
        self.hits.add(header.time, cpu, task, event);
        let mut values = Reader::new(&seen.record.payload);
        for field in &seen.format.fields {
            for _ in 0..field.count.unwrap_or(1) {
                let value = values.next(field.stored);
                self.count(event, field, &value);
            }
        }
        if seen.format.stack.is_some() {
            let mut stack = comm(header).replace(';', "_");
            let frames: Vec<u64> = values.stack().collect();
            for address in frames.iter().rev() {
                stack.push(';');
                stack.push_str(&self.places.name(*address, seen.symbols).replace(';', "_"));
            }
            let stack = if self.stacks.len() < MOST_STACKS || self.stacks.contains_key(&stack) { stack } else { FURTHER.into() };
            *self.stacks.entry(stack).or_insert(0) += 1;
        }
        if self.line_count < MOST_LINES {
            self.line_count += 1;
            let start = self.lines.len();
            trace::write(&mut self.lines, seen.record, seen.format, &mut self.places, seen.symbols);
            if let Some(lines) = seen.lines {
                add_lines(&mut self.lines, start, seen, lines);
            }
        }
    }

    /// Notes that records were lost.
    pub fn lost(&mut self, count: u64) {
        self.lost += count;
    }

    fn event(&mut self, name: &str) -> usize {
        match self.events.iter().position(|known| known == name) {
            Some(number) => number,
            None => {
                self.events.push(name.into());
                self.events.len() - 1
            }
        }
    }

    fn task(&mut self, pid: u32, name: String) -> usize {
        if let Some(row) = self.task_rows.get(&(pid, name.clone())) {
            return *row;
        }
        if self.tasks.len() > MOST_TASKS {
            return MOST_TASKS;
        }
        let row = self.tasks.len();
        if row == MOST_TASKS {
            self.tasks.push(Task { name: FURTHER.into(), ..Task::default() });
            return row;
        }
        self.task_rows.insert((pid, name.clone()), row);
        self.tasks.push(Task { name, pid: Some(pid), hits: Vec::new() });
        row
    }

    /// Counts a number in the histogram of its argument.
    fn count(&mut self, event: usize, field: &Field, value: &Value<'_>) {
        let bucket = match *value {
            Value::Unsigned(number) | Value::Hex(number) => bucket(number),
            Value::Signed(number) if number < 0 => 0,
            Value::Signed(number) => bucket(number.unsigned_abs()),
            _ => return,
        };
        let key = (event, field.name.clone());
        if self.histograms.len() >= MOST_HISTOGRAMS && !self.histograms.contains_key(&key) {
            return;
        }
        if let Some(count) = self.histograms.entry(key).or_insert([0; BUCKETS]).get_mut(bucket) {
            *count += 1;
        }
    }

    /// The flame graph, if records have backtraces.
    fn flame(&self) -> Option<String> {
        let svg = flame::draw(&self.stacks);
        let inside = svg.split_once("?>").map_or(svg.as_str(), |(_, inside)| inside).trim().to_string();
        (!self.stacks.is_empty()).then_some(inside)
    }
}

/// The bucket of a number that is not negative: 1 for 0, 2 for 1, 3 for 2 and 3, 4 for 4 to 7 and so on.
fn bucket(number: u64) -> usize {
    65 - number.leading_zeros() as usize
}

/// The numbers in a bucket, as text.
fn bucket_name(bucket: usize) -> String {
    match bucket {
        0 => "below 0".into(),
        1 => "0".into(),
        2 => "1".into(),
        _ => {
            let low = 1u64 << (bucket - 2);
            format!("{low} to {}", low + (low - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-4: the buckets are powers of 2 and leave no number out.
    #[test]
    fn each_number_has_its_bucket() {
        for (number, name) in [(0, "0"), (1, "1"), (2, "2 to 3"), (3, "2 to 3"), (4, "4 to 7"), (1023, "512 to 1023")] {
            assert_eq!(bucket_name(bucket(number)), name);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_name(BUCKETS - 1), format!("{} to {}", 1u64 << 63, u64::MAX));
    }
}
