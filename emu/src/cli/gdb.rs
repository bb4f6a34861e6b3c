//! `trapline gdb`: a guest under gdb, forwards and backwards.

use super::guest::GuestArgs;
use super::output::{self, Paint};
use super::run::DEFAULT_IMAGE;
use super::{Failure, replay};
use crate::debugger::{Debugger, Patience, ServeError, Served, Streams, serve};
use crate::history::timeline::Timeline;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// Runs a guest under gdb, which can also go backwards
///
/// IMAGE is a kernel, or a recording of `run --record`. gdb's own commands work as on any remote target: breakpoints,
/// watchpoints, steps, and reverse-continue, reverse-stepi, reverse-next, reverse-finish. Nothing is written to the guest for
/// them, and the run stays the same.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The kernel, or a recording
    #[arg(default_value = DEFAULT_IMAGE)]
    image: String,
    #[command(flatten)]
    guest: GuestArgs,
    /// The port of this computer on which gdb connects; 0 chooses a free one
    #[arg(long, default_value_t = 1234, conflicts_with = "stdio")]
    port: u16,
    /// Talks to gdb over standard input and output, for `target remote | trapline gdb IMAGE --stdio`
    #[arg(long)]
    stdio: bool,
}

const EXAMPLES: &str = "\
Examples:
  trapline gdb tiny/x86_64
  trapline symbols debian/arm64 --elf arm64.elf
  gdb-multiarch arm64.elf -ex 'target remote | trapline gdb debian/arm64 --from-boot --stdio'
  trapline gdb monday.rec --port 4000

Exit status: 0 gdb has gone, 1 the guest failed or the run was another one, 2 the command line was wrong";

pub(super) fn main(args: &Args) -> Result<(), Failure> {
    let patience = args.stdio.then(Patience::begin);
    let mut debugger = args.debugger()?;
    drop(patience);
    if args.stdio {
        let streams = Streams::after_waiting().map_err(|error| Failure::failed(format!("gdb has gone: {error}")))?;
        return end(serve(&mut debugger, streams));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port));
    let address = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = address.map_err(|error| {
        Failure::usage(format!("port {} cannot be opened: {error}", args.port)).advise("give another one: --port 0 chooses it")
    })?;
    output::emit(&format!(
        "gdb can connect: target remote :{}\n`monitor help` lists more commands; the guest waits for gdb\n",
        address.port()
    ))?;
    let note = Paint::for_errors().advice("note:");
    loop {
        let (stream, _) = accepted(&listener)?;
        match serve(&mut debugger, stream) {
            Ok(Served::Gone) => eprintln!("{note} gdb has gone; it can connect again, and the guest waits where it is"),
            Err(error @ ServeError::Protocol(_)) => eprintln!("{note} {error}; the connection is closed"),
            other => return end(other),
        }
    }
}

fn accepted(listener: &TcpListener) -> Result<(std::net::TcpStream, std::net::SocketAddr), Failure> {
    loop {
        match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            accepted => return accepted.map_err(|error| Failure::failed(format!("gdb cannot connect: {error}"))),
        }
    }
}

fn end(served: Result<Served, ServeError>) -> Result<(), Failure> {
    served.map(|_| ()).map_err(|error| Failure::failed(error.to_string()))
}

impl Args {
    /// The guest at its start.
    fn debugger(&self) -> Result<Debugger, Failure> {
        let (guest, recording) = match replay::is_recording(Path::new(&self.image)) {
            true => {
                let (recording, args, kernel) = replay::recorded(Path::new(&self.image))?;
                (args.guest(&recording.head.image.clone(), kernel)?, Some(recording))
            }
            false => (self.guest.guest_to_compare(&self.image, self.guest.kernel(&self.image)?)?, None),
        };
        let booted = match &recording {
            Some(recording) => {
                replay::say_what_is_missing(recording);
                replay::start_of(recording, &guest)?
            }
            None => guest.snapshot()?,
        };
        let machine = guest.observed(booted.as_ref())?;
        let timeline = Timeline::new(machine, recording).map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Debugger::new(timeline, guest.kernel))
    }
}
