//! `--on-panic report`: says at the end of a run which word of memory was wrong at the guest's first oops or panic, and who
//! wrote it last.

use super::Failure;
use super::guest::Guest;
use super::output::Paint;
use crate::debugger::cause;
use crate::history::tape::Tape;
use crate::history::timeline::Timeline;
use crate::probed::Session;
use std::path::Path;
use std::time::Duration;

/// The argument `--on-panic`.
#[derive(clap::Args, Clone, Debug)]
pub struct OnPanicArg {
    /// At the guest's first oops or panic, says which word of memory was wrong (a pointer, a list, the stack protector's word)
    /// and who wrote it last. For this the run is repeated once, without probes, after it has ended
    #[arg(long, value_enum, value_name = "DO")]
    on_panic: Option<OnPanic>,
}

/// Things to do at a panic
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnPanic {
    /// Says who wrote the word that was wrong
    Report,
}

/// The number of page versions that the repeated run keeps for steps back: 256 MiB.
const MOST_PAGES: usize = 65_536;

impl OnPanicArg {
    /// Keeps the run's input from now on, if the option is given, because a report repeats the run.
    pub fn prepare(&self, tape: &mut Tape) {
        if self.on_panic.is_some() {
            tape.keep();
        }
    }

    /// Says on standard error why the guest has failed, if it has. `recording` is the file of the run's recording.
    pub fn report(&self, session: &Session, tape: &mut Tape, guest: &Guest, recording: Option<&Path>) -> Result<(), Failure> {
        let (Some(OnPanic::Report), Some(first)) = (self.on_panic, session.first_failure()) else { return Ok(()) };
        let symbols = session.symbols();
        let names = |address: u64| {
            let at = symbols.partition_point(|symbol| symbol.start <= address).checked_sub(1);
            let Some(symbol) = at.and_then(|at| symbols.get(at)).filter(|symbol| address - symbol.start < symbol.size.max(1))
            else {
                return session.kernel().symbols.describe(address);
            };
            let module = symbol.module.as_ref().map(|module| format!(" [{module}]")).unwrap_or_default();
            match address - symbol.start {
                0 => format!("{}{module}", symbol.name),
                offset => format!("{}+{offset:#x}{module}", symbol.name),
            }
        };
        let failed = |error: crate::history::timeline::TimelineError| Failure::failed(format!("--on-panic: {error}"));
        let booted = guest.snapshot()?;
        if let Some(door) = guest.door() {
            door.close();
        }
        let mut timeline = Timeline::with_input(guest.observed(booted.as_ref())?, tape.take_kept()).map_err(failed)?;
        drop(booted);
        timeline.keep_pages(MOST_PAGES);
        if !cause::go_to_first(&mut timeline, &guest.kernel).map_err(failed)? || timeline.place().ticks != first {
            return Err(Failure::failed(format!(
                "--on-panic: the repeated run does not fail as this one did: it is at {} of guest time, {}",
                timeline.now(),
                names(timeline.place().pc),
            )));
        }
        let time = timeline.machine().now();
        let lines = cause::explain(&mut timeline, &guest.kernel, &names).map_err(failed)?;
        eprintln!("\nwhy the kernel failed at {:?} of guest time:", Duration::from_nanos(time));
        for line in lines {
            eprintln!("  {line}");
        }
        say_how_to_go_on(guest, time, recording);
        Ok(())
    }
}

/// The time before the failure from which a replay begins.
const BEFORE: u64 = 10_000_000;

fn say_how_to_go_on(guest: &Guest, time: u64, recording: Option<&Path>) {
    let note = Paint::for_errors().advice("note:");
    match recording {
        Some(file) => {
            let (file, from) = (file.display(), time.saturating_sub(BEFORE));
            eprintln!("{note} the 10 ms before it under gdb, forwards and backwards:");
            eprintln!("  trapline symbols {} --elf kernel.elf", guest.name);
            eprintln!(
                "  gdb-multiarch kernel.elf -ex 'set remotetimeout 600' -ex 'target remote | trapline gdb {file} --stdio' -ex 'monitor seek {from}ns' -ex 'maintenance flush register-cache'"
            );
            eprintln!("{note} with probes: trapline replay {file} --from {from}ns -e 'kprobe:* {{ @[func] = count(); }}'");
        }
        None => eprintln!("{note} with `--record FILE` this run can be replayed under gdb: `trapline gdb FILE`"),
    }
}
