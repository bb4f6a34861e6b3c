//! Stacks counted by record, as folded stacks: one line `comm;root;...;leaf COUNT` for each distinct stack, sorted.
//! flamegraph.pl, speedscope and Perfetto's UI read such lines. [`Flame`](super::flame) draws the same counts.

use super::values::comm;
use super::{End, Seen, Sink, flame};
use std::collections::BTreeMap;
use std::io::{self, Write};
use trapline_probes::events::format::Reader;
use trapline_probes::events::places::Places;

/// The most distinct stacks that are kept. Records with further stacks are counted together for each task name.
const MOST_STACKS: usize = 500_000;
/// The frame that stands for stacks beyond that number.
const NOT_KEPT: &str = "[further stacks]";

/// The form in which counted stacks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Folded stacks.
    Folded,
    /// A flame graph as SVG.
    Flame,
}

/// Counts stacks and writes them at the end.
pub struct Stacks<W> {
    to: W,
    form: Form,
    counts: BTreeMap<String, u64>,
    most: usize,
    places: Places,
    line: String,
}

impl<W: Write> Stacks<W> {
    /// A sink that writes to `to`.
    pub fn new(to: W, form: Form) -> Stacks<W> {
        Stacks { to, form, counts: BTreeMap::new(), most: MOST_STACKS, places: Places::default(), line: String::new() }
    }

    fn count(&mut self, root: usize) {
        if let Some(count) = self.counts.get_mut(&self.line) {
            *count += 1;
            return;
        }
        if self.counts.len() >= self.most {
            self.line.truncate(root);
            self.line.push(';');
            self.line.push_str(NOT_KEPT);
        }
        *self.counts.entry(self.line.clone()).or_insert(0) += 1;
    }
}

impl<W: Write> Sink for Stacks<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let header = &seen.record.header;
        self.line.clear();
        push_frame(&mut self.line, &comm(header));
        let root = self.line.len();
        let mut values = Reader::new(&seen.record.payload);
        for field in &seen.format.fields {
            (0..field.count.unwrap_or(1)).for_each(|_| {
                values.next(field.stored);
            });
        }
        match seen.format.stack {
            None => {
                self.line.push(';');
                push_frame(&mut self.line, self.places.name(header.ip, seen.symbols));
            }
            Some(stack) => {
                let frames: Vec<u64> = values.stack().collect();
                for (number, address) in frames.iter().enumerate().rev() {
                    // ftrace marks frames that it is not sure of in the same way. The first frame is always sure.
                    self.line.push_str(if stack.is_guessed && number > 0 { ";? " } else { ";" });
                    push_frame(&mut self.line, self.places.name(*address, seen.symbols));
                }
            }
        }
        self.count(root);
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &End<'_>) -> io::Result<()> {
        match self.form {
            Form::Folded => self.counts.iter().try_for_each(|(stack, count)| writeln!(self.to, "{stack} {count}"))?,
            Form::Flame => self.to.write_all(flame::draw(&self.counts).as_bytes())?,
        }
        self.to.flush()
    }
}

/// Appends a frame without the characters that have a meaning in the line.
fn push_frame(line: &mut String, frame: &str) {
    line.extend(frame.chars().map(|letter| if letter == ';' || letter.is_control() { '_' } else { letter }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_probes::context::Frame;
    use trapline_probes::events::format::{Format, Stack, put_stack};
    use trapline_probes::events::set::EventSet;
    use trapline_probes::guest::Symbol;
    use trapline_probes::records::{EventId, Header, Ring};

    fn folded(stacks: &[(&[u8], &[u64])], is_guessed: bool, most: usize) -> String {
        let fields = Vec::new();
        let (group, event) = ("g".into(), "e".into());
        let format =
            Format { group, event, returns: false, mirrors: false, in_program: false, fields, stack: Some(Stack { is_guessed }) };
        let mut out = Vec::new();
        let mut sink = Box::new(Stacks::new(&mut out, Form::Folded));
        sink.most = most;
        for (name, stack) in stacks {
            let mut comm = [0; 16];
            comm[..name.len()].copy_from_slice(name);
            let mut ring = Ring::with_capacity(4096);
            let frames: Vec<Frame> = stack.iter().map(|address| Frame { address: *address, ..Frame::default() }).collect();
            ring.push(&Header { event: EventId(0), pid: 7, comm, ..Header::default() }, |payload| put_stack(payload, &frames));
            let record = ring.pop().expect("a record");
            let symbols = |address: u64| Some(Symbol { name: format!("f{address}"), start: address, size: 1, module: None });
            let seen = Seen { record: &record, format: &format, events: &EventSet::default(), symbols: &symbols, lines: None };
            sink.record(&seen).expect("it is counted");
        }
        let symbols = || Vec::new();
        sink.finish(&End { shown: 0, made: 0, time: 0, cpus: 1, unknown: &[], events: &EventSet::default(), symbols: &symbols })
            .expect("it is written");
        String::from_utf8(out).expect("text")
    }

    /// DV-4: stacks are counted root first, by task name, and sorted.
    #[test]
    fn equal_stacks_become_one_line() {
        let stacks: [(&[u8], &[u64]); 5] =
            [(b"sh", &[3, 2, 1]), (b"cat", &[3, 1]), (b"sh", &[3, 2, 1]), (b"sh", &[2, 1]), (b"a;b\x01", &[1])];
        assert_eq!(folded(&stacks, false, 100), "a_b_;f1 1\ncat;f1;f3 1\nsh;f1;f2 1\nsh;f1;f2;f3 2\n");
        assert_eq!(folded(&stacks[..1], true, 100), "sh;? f1;? f2;f3 1\n");
    }

    /// DV-4: the number of stacks in memory is bounded, and no record is lost from the counts.
    #[test]
    fn further_stacks_are_counted_together() {
        let stacks: [(&[u8], &[u64]); 5] = [(b"sh", &[1]), (b"sh", &[2]), (b"sh", &[3]), (b"sh", &[4]), (b"sh", &[1])];
        assert_eq!(folded(&stacks, false, 2), "sh;[further stacks] 2\nsh;f1 2\nsh;f2 1\n");
    }
}
