//! The cost of a record from the ring buffer to text: an event with two arguments on the benchmark loop, written to
//! /dev/null.

use super::bench_loop::{BenchLoop, TARGET};
use crate::outputs::records::{self, Format, Records};
use trapline_probes::events::parse::{self, EventCommand};
use trapline_probes::events::set::EventSet;

/// The output formats.
pub const FORMATS: &[(&str, Format)] = &[("trace", Format::Trace), ("json", Format::Json)];

/// A session in its benchmark loop, with one event and a writer of its records.
pub struct Recorded {
    bench: BenchLoop,
    events: EventSet,
    records: Records,
}

impl Recorded {
    /// Starts the guest with that name and defines the event.
    pub fn new(guest: &str, format: Format) -> Result<Recorded, String> {
        let mut bench = BenchLoop::tiny(guest)?;
        let mut events = EventSet::default();
        let line = parse::line(&format!("p:target {TARGET} one=$arg1 two=$arg2"));
        let Ok(Some(EventCommand::Add(definition))) = line else { return Err("the event cannot be read".into()) };
        bench.session().with_engine(|engine, guest| {
            events.add(engine, guest, definition).map_err(|error| error.to_string())?;
            events.enable_all(engine, guest, true).map_err(|refusal| refusal.to_string())
        })?;
        let about = records::about(bench.session().kernel().arch.isa(), 1);
        let records = Records::new(format, &["/dev/null".into()], &about).map_err(|error| error.to_string())?;
        Ok(Recorded { bench, events, records })
    }

    /// Lets the guest run for that many nanoseconds of virtual time. Returns the number of records in the ring buffer.
    pub fn make(&mut self, nanoseconds: u64) -> Result<u64, String> {
        self.bench.run(nanoseconds)?;
        Ok(self.bench.session().with_engine(|engine, _| engine.records().len()) as u64)
    }

    /// Takes all records out of the ring buffer and writes them.
    pub fn take(&mut self) -> Result<(), String> {
        let (events, records) = (&self.events, &mut self.records);
        let taken = self.bench.session().with_engine(|engine, guest| records.take(events, engine, guest));
        taken.map_err(|error| error.to_string())
    }
}
