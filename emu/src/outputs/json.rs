//! Records as JSON, one object per line, written at once.

use super::{End, Seen, Sink};
use std::io::{self, Write};
use trapline_probes::events::json;
use trapline_probes::events::places::Places;

/// The source lines of a record.
#[derive(serde::Serialize)]
struct Sources {
    source: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack_sources: Vec<String>,
}

/// Writes lines of JSON.
pub struct Json<W> {
    to: W,
    places: Places,
    line: String,
}

impl<W: Write> Json<W> {
    /// A sink that writes to `to`.
    pub fn new(to: W) -> Json<W> {
        Json { to, places: Places::default(), line: String::new() }
    }
}

impl<W: Write> Sink for Json<W> {
    fn record(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        self.line.clear();
        json::write(&mut self.line, seen.record, seen.format, &mut self.places, seen.symbols);
        if let Some(lines) = seen.lines {
            let (own, stack) = seen.addresses();
            let more = Sources { source: lines(own), stack_sources: stack.into_iter().map(lines).collect() };
            if let (Some(open), Ok(more)) = (self.line.strip_suffix("}\n").map(str::len), serde_json::to_string(&more)) {
                self.line.truncate(open);
                self.line.push(',');
                self.line.push_str(more.strip_prefix('{').unwrap_or("}"));
                self.line.push('\n');
            }
        }
        self.to.write_all(self.line.as_bytes())
    }

    fn finish(mut self: Box<Self>, _: &End<'_>) -> io::Result<()> {
        self.to.flush()
    }
}
