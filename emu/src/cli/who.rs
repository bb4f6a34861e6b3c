//! `trapline who`: finds the last writes to some bytes of memory in a recorded run.

use super::Failure;
use super::driver::{Driver, Shown};
use super::output::{self, Paint};
use super::place::{self, Where};
use super::replay::{self, Plain};
use super::until::Limits;
use crate::boot::Kernel;
use crate::clock::nanoseconds;
use crate::symbols::Symbols;
use serde::Serialize;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trapline_probes::context::Frame;
use trapline_probes::unwind::Stacks;
use trapline_probes::watch::{Access, Area, MOST_BYTES, WatchHit, Watchpoint};

/// Says who last wrote to some bytes of memory in a recorded run
///
/// BYTES is SYMBOL, SYMBOL+OFFSET or 0xADDRESS, and :LENGTH if it is not one word. The run is repeated with a watchpoint on
/// them, which changes nothing in the guest. It sees stores of instructions, and of the CPU, devices and the firmware.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The recording, from `run --record` or `trace --record`
    file: PathBuf,
    /// The memory
    bytes: String,
    /// Takes the address as a physical one
    #[arg(long)]
    physical: bool,
    /// Only writes before this guest time (50ms, 2s)
    #[arg(long, value_name = "TIME", value_parser = replay::time)]
    before: Option<u64>,
    /// The number of writes to show, the last one at the end
    #[arg(short, long, value_name = "WRITES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    number: u16,
    /// Prints a line of JSON for each write
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline run tiny/x86_64 --record one.rec
  trapline who one.rec tasks
  trapline who one.rec tasks:64 --before 1ms
  trapline who one.rec 0xffffffff81004040:16 -n 5 --json

Exit status: 0 found, 1 nobody wrote to these bytes or the run was another one, 2 the command line was wrong";

const FORMS: &str = "BYTES is SYMBOL, SYMBOL+OFFSET or 0xADDRESS, and :LENGTH for other lengths than one word";
/// CPUs take turns of a few microseconds. When one has come to a time, another may be behind it by less than this many
/// nanoseconds.
const LAG: u64 = 1_000_000;
/// The largest number of callers.
const CALLERS: usize = 24;

/// A write to the bytes.
struct Seen {
    access: Access,
    pc: u64,
    cpu: usize,
    pid: u32,
    comm: String,
    callers: Vec<u64>,
}

/// The last writes, oldest first.
type Writes = Arc<Mutex<VecDeque<Seen>>>;

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let (recording, guest_args, kernel) = replay::recorded(&args.file)?;
    let area = args.area(&kernel)?;
    let end = nanoseconds(recording.end());
    let mut guest = guest_args.guest(&recording.head.image.clone(), kernel)?;
    let until = args.before.map(|before| before.saturating_add(LAG)).filter(|until| *until < end);
    (guest.quiet, guest.limits) = (true, Limits { time: until, text: None });
    let (mut session, tape) = replay::ready(recording, &guest)?;
    let (writes, stacks) = (Writes::default(), session.stacks());
    let are_guessed = stacks.rule.is_none();
    let watchpoint = args.watchpoint(area, stacks, &writes);
    session
        .register_watchpoint(&watchpoint)
        .map_err(|refusal| Failure::failed(format!("`{}` cannot be watched: {refusal}", args.bytes)))?;
    let mut driver = Driver::new(session, tape, &guest, Shown::Nowhere);
    match until {
        Some(_) => driver.run_part(&mut Plain)?,
        None => driver.run(&mut Plain)?,
    };
    driver.session.compare_watched();
    if watchpoint.changed_unseen() > 0 {
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} these bytes also changed {} times without a write that was seen", watchpoint.changed_unseen());
    }
    let symbols = &driver.session.kernel().symbols;
    let writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
    if writes.is_empty() {
        let until = Duration::from_nanos(args.before.unwrap_or(end).min(end));
        return Err(Failure::failed(format!("nobody wrote to `{}` in this recording up to {until:?} of guest time", args.bytes)));
    }
    let mut text = String::new();
    for seen in writes.iter() {
        text += &match args.json {
            true => json(seen, symbols)?,
            false => people(seen, symbols, are_guessed, area.physical),
        };
    }
    output::emit(&text)
}

impl Args {
    /// The bytes to watch.
    fn area(&self, kernel: &Kernel) -> Result<Area, Failure> {
        let (place, len) = match self.bytes.rsplit_once(':') {
            Some((place, len)) if len.starts_with(|first: char| first.is_ascii_digit()) => (place, number(len)),
            _ => (self.bytes.as_str(), Some(kernel.arch.isa().word as u64)),
        };
        let Some(len) = len.filter(|len| (1..=MOST_BYTES).contains(len)) else {
            return Err(
                Failure::usage(format!("the length in `{}` is no number from 1 to {MOST_BYTES}", self.bytes)).advise(FORMS)
            );
        };
        let start = match Where::parse(place) {
            Ok(Where::Address(address)) => address,
            Ok(Where::Symbol { name, offset }) if !self.physical => {
                place::find(&kernel.symbols, &name)?.start.wrapping_add(offset.into())
            }
            Ok(Where::Symbol { .. }) => {
                return Err(Failure::usage("--physical needs an address, not a symbol").advise(FORMS));
            }
            _ => return Err(Failure::usage(format!("`{}` names no bytes of memory", self.bytes)).advise(FORMS)),
        };
        Ok(Area { start, len, physical: self.physical, writes: true, ..Area::default() })
    }

    /// A watchpoint that keeps the last writes.
    fn watchpoint(&self, area: Area, stacks: Stacks, writes: &Writes) -> Watchpoint {
        let (before, most, writes) = (self.before.unwrap_or(u64::MAX), usize::from(self.number), Arc::clone(writes));
        Watchpoint::on(area).on_hit(move |hit| {
            if hit.access().time >= before {
                return;
            }
            let seen = seen(hit, &stacks);
            let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
            if writes.len() == most {
                writes.pop_front();
            }
            writes.push_back(seen);
        })
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn seen(hit: &mut WatchHit<'_>, stacks: &Stacks) -> Seen {
    let (access, pc) = (*hit.access(), hit.pc());
    let comm = hit.comm();
    let comm = comm.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut frames = [Frame::default(); CALLERS + 1];
    // The callers of a user program are not known.
    let count = match stacks.text.iter().any(|text| text.contains(&pc)) {
        true => stacks.of(hit, &mut frames),
        false => 0,
    };
    let callers = frames.iter().take(count).skip(1).map(|frame| frame.address).collect();
    Seen { access, pc, cpu: hit.cpu(), pid: hit.pid(), comm: String::from_utf8_lossy(comm).into_owned(), callers }
}

fn people(seen: &Seen, symbols: &Symbols, are_guessed: bool, physical: bool) -> String {
    let Access { address, size, value, old, by, time, .. } = seen.access;
    let at = if physical { format!("physical {address:#x}") } else { format!("{address:#x} {}", symbols.describe(address)) };
    let time = Duration::from_nanos(time);
    let mut text = format!("{:#x} {}\n", seen.pc, symbols.describe(seen.pc));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  wrote {size} bytes at {at}: {old:#x} became {value:#x}");
    let _ = writeln!(
        text,
        "  at {time:?} of guest time, on CPU {}, in task `{}` ({}), by: {}",
        seen.cpu,
        seen.comm,
        seen.pid,
        by.name()
    );
    if !seen.callers.is_empty() {
        text += match are_guessed {
            true => "  on the stack, innermost first (some may be left over from earlier calls):\n",
            false => "  called by, innermost first:\n",
        };
    }
    for caller in &seen.callers {
        let _ = writeln!(text, "    {caller:#x} {}", symbols.describe(*caller));
    }
    text
}

#[derive(Serialize)]
struct Place {
    address: String,
    symbol: String,
}

impl Place {
    fn of(address: u64, symbols: &Symbols) -> Place {
        Place { address: format!("{address:#x}"), symbol: symbols.describe(address) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    time_ns: u64,
    cpu: usize,
    pid: u32,
    comm: &'a str,
    by: &'static str,
    pc: Place,
    address: String,
    size: u64,
    old: String,
    new: String,
    callers: Vec<Place>,
}

fn json(seen: &Seen, symbols: &Symbols) -> Result<String, Failure> {
    let Access { address, size, value, old, by, time, .. } = seen.access;
    output::json_line(&Line {
        time_ns: time,
        cpu: seen.cpu,
        pid: seen.pid,
        comm: &seen.comm,
        by: by.name(),
        pc: Place::of(seen.pc, symbols),
        address: format!("{address:#x}"),
        size,
        old: format!("{old:#x}"),
        new: format!("{value:#x}"),
        callers: seen.callers.iter().map(|caller| Place::of(*caller, symbols)).collect(),
    })
}
