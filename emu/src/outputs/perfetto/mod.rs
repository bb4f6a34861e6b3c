//! Perfetto's trace format, for ui.perfetto.dev and trace_processor.
//!
//! Each task has a track. An entry probe whose function has a return probe begins a slice there, and the return ends
//! it. Other records are instants. An event named `sched_switch` draws the CPU tracks: it must be at a place where the
//! new task is running already, such as `finish_task_switch`. Each event has a counter of its hits per millisecond.

mod wire;

use super::values::{comm, put};
use super::{End, Seen, Sink};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use trapline_probes::events::format::{Field, Format, Reader, Value};
use trapline_probes::events::places::{Places, Symbols};
use trapline_probes::events::set::{Attached, EventSet};
use trapline_probes::records::{EventId, Header};
use wire::Message;

/// The event that records a CPU's next task.
const SWITCH: &str = "sched_switch";
/// The longest stack of open slices of one task. Deeper calls are instants.
const MOST_OPEN: usize = 512;
/// The time over which hits are counted, in nanoseconds.
const INTERVAL: u64 = 1_000_000;
/// The clock of all times: nanoseconds since the guest's boot.
const BOOT_CLOCK: u64 = 6;
/// The only writer of packets.
const SEQUENCE: u64 = 1;
/// The priority of a task that nothing is known of.
const USUAL_PRIORITY: u64 = 120;

/// The kinds of track events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

/// Writes Perfetto's format.
pub struct Perfetto<W> {
    to: W,
    has_begun: bool,
    tasks: HashMap<(u32, u16), Task>,
    counters: HashMap<EventId, Counter>,
    /// The track of the lost records and their number, once there are any.
    lost: Option<(u64, u64)>,
    /// The task that each CPU runs, as far as the records tell.
    running: HashMap<u16, (u32, String)>,
    returns: Returns,
    /// The number of tracks.
    tracks: u64,
    last: u64,
    places: Places,
}

/// A task's track and its open slices.
struct Task {
    track: u64,
    /// The functions whose slices are open, and when they began.
    open: Vec<(u64, u64)>,
    /// The function whose slice ended last, and when.
    ended: Option<(u64, u64)>,
    last: u64,
}

/// Hits of an event in the present interval.
struct Counter {
    track: u64,
    interval: u64,
    hits: u64,
}

/// The addresses with return probes.
#[derive(Default)]
struct Returns {
    /// The number of probes when the addresses were collected.
    of: usize,
    addresses: HashSet<u64>,
}

impl Returns {
    fn contain(&mut self, events: &EventSet, address: u64) -> bool {
        if self.of != events.members().len() {
            self.of = events.members().len();
            let probes = events.members().filter_map(|member| match &member.probe {
                Attached::Kretprobe(probe) => probe.kprobe().address(),
                _ => None,
            });
            self.addresses.extend(probes);
        }
        self.addresses.contains(&address)
    }
}

impl<W: Write> Perfetto<W> {
    /// A sink that writes to `to`.
    pub fn new(to: W) -> Perfetto<W> {
        Perfetto {
            to,
            has_begun: false,
            tasks: HashMap::new(),
            counters: HashMap::new(),
            lost: None,
            running: HashMap::new(),
            returns: Returns::default(),
            tracks: 0,
            last: 0,
            places: Places::default(),
        }
    }

    fn packet(&mut self, packet: Message) -> io::Result<()> {
        if !self.has_begun {
            self.has_begun = true;
            let clock = Message::new().number(1, BOOT_CLOCK).number(2, 0);
            let snapshot = Message::new().message(1, clock).number(2, BOOT_CLOCK);
            self.packet(Message::new().number(13, 1).number(87, 1).message(6, snapshot))?;
        }
        let packet = packet.number(10, SEQUENCE);
        self.to.write_all(Message::new().text(1, packet.bytes()).bytes())
    }

    fn descriptor(&mut self, time: u64, descriptor: Message) -> io::Result<u64> {
        self.tracks += 1;
        let track = self.tracks;
        self.packet(Message::new().number(8, time).message(60, descriptor.number(1, track)))?;
        Ok(track)
    }

    fn event(&mut self, time: u64, kind: Kind, track: u64, more: impl FnOnce(Message) -> Message) -> io::Result<()> {
        self.last = self.last.max(time);
        let event = Message::new().number(9, kind as u64).number(11, track);
        self.packet(Message::new().number(8, time).message(11, more(event)))
    }

    /// The task's track and the time, which never goes back on a track.
    fn task(&mut self, header: &Header) -> io::Result<((u32, u16), u64)> {
        // Each CPU has an idle task, and all have the number 0.
        let key = (header.pid, if header.pid == 0 { header.cpu } else { 0 });
        if !self.tasks.contains_key(&key) {
            let name = comm(header);
            let process = Message::new().number(1, header.pid.into()).text(6, &name);
            let number = u64::from(header.pid);
            // A CPU's idle task is no thread of a process.
            let track = match header.pid {
                0 => self.descriptor(header.time, Message::new().text(2, format!("{name} of CPU {}", header.cpu)))?,
                _ => {
                    let parent = self.descriptor(header.time, Message::new().message(3, process))?;
                    let thread = Message::new().number(1, number).number(2, number).text(5, &name);
                    self.descriptor(header.time, Message::new().number(5, parent).message(4, thread))?
                }
            };
            self.tasks.insert(key, Task { track, open: Vec::new(), ended: None, last: header.time });
        }
        let mut time = header.time;
        if let Some(task) = self.tasks.get_mut(&key) {
            time = time.max(task.last);
            task.last = time;
        }
        Ok((key, time))
    }

    fn slice_or_instant(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let header = &seen.record.header;
        let (key, time) = self.task(header)?;
        let arguments = annotations(seen, &mut self.places);
        let is_paired = seen.format.returns || self.returns.contain(seen.events, header.ip);
        let Some(task) = self.tasks.get_mut(&key) else { return Ok(()) };
        let (track, depth, here) = (task.track, task.open.len(), (header.ip, time));
        let innermost = task.open.iter().rposition(|(function, _)| *function == header.ip);
        // Other probes of the same entry or return make no slice of their own.
        let is_another = if seen.format.returns { task.ended == Some(here) } else { task.open.last() == Some(&here) };
        let kind = match (seen.format.returns, innermost) {
            _ if is_another || !is_paired => Kind::Instant,
            (true, Some(index)) => {
                task.open.truncate(index);
                task.ended = Some(here);
                // Calls above it have returned without a record.
                for _ in index + 1..depth {
                    self.event(time, Kind::End, track, |event| event)?;
                }
                Kind::End
            }
            (false, _) if depth < MOST_OPEN => {
                task.open.push(here);
                Kind::Begin
            }
            _ => Kind::Instant,
        };
        let name = match kind {
            Kind::Begin => self.places.name(header.ip, seen.symbols).to_string(),
            _ => seen.format.event.clone(),
        };
        self.event(time, kind, track, |event| {
            let event = if kind == Kind::End { event } else { event.text(23, &name).text(22, &seen.format.group) };
            with(event, arguments)
        })
    }

    /// A CPU has switched to the record's task.
    fn switched(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let header = &seen.record.header;
        let next = (header.pid, comm(header));
        let Some((pid, name)) = self.running.insert(header.cpu, next.clone()) else { return Ok(()) };
        let mut switch = Message::new().text(1, name).number(2, pid.into()).number(3, USUAL_PRIORITY);
        if let Some(state) = named_number(seen.record.payload.as_slice(), seen.format, "prev_state") {
            switch = switch.number(4, state);
        }
        let switch = switch.text(5, &next.1).number(6, next.0.into()).number(7, USUAL_PRIORITY);
        let event = Message::new().number(1, header.time).number(2, pid.into()).message(4, switch);
        self.last = self.last.max(header.time);
        self.packet(Message::new().message(1, Message::new().number(1, header.cpu.into()).message(2, event)))
    }

    fn count(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        let (id, time) = (seen.record.header.event, seen.record.header.time);
        if !self.counters.contains_key(&id) {
            let unit = Message::new().text(6, "hits/ms");
            let name = format!("{}/{} hits", seen.format.group, seen.format.event);
            let track = self.descriptor(time, Message::new().text(2, name).message(8, unit))?;
            self.counters.insert(id, Counter { track, interval: time / INTERVAL, hits: 0 });
        }
        let Some(counter) = self.counters.get_mut(&id) else { return Ok(()) };
        let (track, ended, hits, now) = (counter.track, counter.interval, counter.hits, time / INTERVAL);
        if now <= ended {
            counter.hits += 1;
            return Ok(());
        }
        (counter.interval, counter.hits) = (now, 1);
        self.event(ended * INTERVAL, Kind::Counter, track, |event| event.number(30, hits))?;
        match now == ended + 1 {
            true => Ok(()),
            false => self.event((ended + 1) * INTERVAL, Kind::Counter, track, |event| event.number(30, 0)),
        }
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        self.count(seen)?;
        match seen.format.event == SWITCH {
            true => self.switched(seen),
            false => self.slice_or_instant(seen),
        }
    }

    fn lost(&mut self, count: u64) -> io::Result<()> {
        let time = self.last;
        let (track, before) = match self.lost {
            Some(lost) => lost,
            None => (self.descriptor(time, Message::new().text(2, "records lost").message(8, Message::new()))?, 0),
        };
        let lost = before + count;
        self.lost = Some((track, lost));
        self.event(time, Kind::Counter, track, |event| event.number(30, lost))
    }

    fn finish(mut self: Box<Self>, end: &End<'_>) -> io::Result<()> {
        let time = end.time.max(self.last);
        let open: Vec<(u64, usize)> = self.tasks.values().map(|task| (task.track, task.open.len())).collect();
        for (track, depth) in open {
            for _ in 0..depth {
                self.event(time, Kind::End, track, |event| event)?;
            }
        }
        let counters: Vec<(u64, u64, u64)> =
            self.counters.values().map(|counter| (counter.interval, counter.track, counter.hits)).collect();
        for (interval, track, hits) in counters {
            self.event(interval * INTERVAL, Kind::Counter, track, |event| event.number(30, hits))?;
        }
        self.to.flush()
    }
}

fn with(event: Message, annotations: Vec<Message>) -> Message {
    annotations.into_iter().fold(event, |event, annotation| event.message(4, annotation))
}

/// The place and the arguments of a record.
fn annotations(seen: &Seen<'_>, places: &mut Places) -> Vec<Message> {
    let (header, format) = (&seen.record.header, seen.format);
    let named = |name: &str| Message::new().text(10, name);
    let mut all = vec![named("place").text(6, places.text(header.ip, seen.symbols))];
    if format.returns {
        all.push(named("returns to").text(6, places.text(header.return_ip, seen.symbols)));
    }
    let mut values = Reader::new(&seen.record.payload);
    for field in &format.fields {
        let of_all =
            (0..field.count.unwrap_or(1)).map(|_| annotated(Message::new(), values.next(field.stored), places, seen.symbols));
        all.push(match field.count {
            None => of_all.fold(named(&field.name), Message::joined),
            Some(_) => of_all.fold(named(&field.name), |named, value| named.message(12, value)),
        });
    }
    if format.stack.is_some() {
        let of_all = values.stack().map(|address| Message::new().text(6, places.text(address, seen.symbols)));
        all.push(of_all.fold(named("stack"), |named, value| named.message(12, value)));
    }
    all
}

fn annotated(into: Message, value: Value<'_>, places: &mut Places, symbols: Symbols<'_>) -> Message {
    match value {
        Value::Unsigned(number) => into.number(3, number),
        Value::Signed(number) => into.signed(4, number),
        Value::Hex(number) => into.number(7, number),
        text => {
            let mut shown = String::new();
            put(&mut shown, text, places, symbols);
            into.text(6, shown)
        }
    }
}

/// The value of the argument of that name, if the record has one and it is a number.
fn named_number(payload: &[u8], format: &Format, name: &str) -> Option<u64> {
    let mut values = Reader::new(payload);
    for Field { name: its_name, stored, count } in &format.fields {
        let value = values.next(*stored);
        (1..count.unwrap_or(1)).for_each(|_| {
            values.next(*stored);
        });
        if its_name == name {
            return match value {
                Value::Unsigned(number) | Value::Hex(number) => Some(number),
                Value::Signed(number) => Some(number as u64),
                _ => None,
            };
        }
    }
    None
}
