//! The part that runs in a child process: one machine, started from the files of a folder, until it powers off.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop, What};
use trapline::probed::Session;
use trapline_isa::function::decode_at;
use trapline_probes::probe::{Flow, Kprobe};

/// The file names in that folder.
pub const KERNEL: &str = "kernel";
pub const INITRD: &str = "initrd";
pub const COMMAND_LINE: &str = "command_line";

/// The commands of the child process.
pub const BOOT: &str = "boot";
pub const COUNT: &str = "count";
pub const WORK: &str = "work";

/// The end of the console lines that mark progress.
pub const MARK: &str = "is next";

/// Guest time after which a boot has failed, in nanoseconds.
const LONG: u64 = 60_000_000_000;
/// Guest time after which the work has failed, in nanoseconds.
const LONG_WORK: u64 = 3_600_000_000_000;
/// Prefixes of functions for networks and file systems that these machines do not have.
const IDLE: [&str; 8] = ["tcp_", "udp_", "ip6_", "ipv6_", "inet6_", "icmp", "xfrm_", "fib"];
/// The idle probes together may have this many hits without visible effect on the time.
const FEW_HITS: u64 = 1_000;

fn session(folder: &Path, record_events: bool) -> Result<Session, String> {
    let read = |name: &str| fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let kernel = Kernel::from_bytes(&read(KERNEL)?).map_err(|error| error.to_string())?;
    let command_line = String::from_utf8_lossy(&read(COMMAND_LINE)?).into_owned();
    let initrd: Option<Arc<[u8]>> = Some(read(INITRD)?.into());
    let config = Config { command_line, initrd, record_events, ..Config::default() };
    Session::new(kernel, &config).map_err(|error| error.to_string())
}

/// Runs the guest's script. Prints the console up to each mark as soon as it appears.
pub fn work(folder: &Path) -> Result<(), String> {
    let mut session = session(folder, false)?;
    loop {
        session.machine_mut().stop_at_console_text(Some(&format!("{MARK}\r\n")));
        let stop = session.run_until(LONG_WORK);
        let text = session.machine_mut().take_console();
        let mut out = io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush()).map_err(|error| error.to_string())?;
        if stop != Stop::ConsoleText {
            return powers_off(stop);
        }
    }
}

/// Boots with armed probes that are not hit.
pub fn boot(folder: &Path, armed: usize) -> Result<(), String> {
    let mut session = session(folder, false)?;
    let functions = session.kernel().symbols.extents(session.kernel().tables.text.clone());
    let idle = functions.iter().filter(|function| IDLE.iter().any(|start| function.name.starts_with(start)));
    let mut probes = Vec::new();
    for function in idle.filter(|function| !function.name.contains("init")) {
        if probes.len() == armed {
            break;
        }
        let probe = Kprobe::at_address(function.start).pre(|_| Flow::Continue);
        if session.register_kprobe(&probe).is_ok() {
            probes.push(probe);
        }
    }
    if probes.len() < armed {
        return Err(format!("only {} functions to probe", probes.len()));
    }
    powers_off(session.run_until(LONG))?;
    let hits: u64 = probes.iter().map(Kprobe::hits).sum();
    // The network set-up calls some of them once or twice.
    if hits > FEW_HITS {
        return Err(format!("the probes that were to lie idle were hit {hits} times"));
    }
    Ok(())
}

fn powers_off(stop: Stop) -> Result<(), String> {
    match stop {
        Stop::PowerOff(0) => Ok(()),
        other => Err(format!("the guest did not power off: {other:?}")),
    }
}

/// Guest time between two samples of the pc, in nanoseconds.
const LOOK: u64 = 1_000_000;

/// Boots and prints the guest's seconds and its estimated number of instructions. Virtual time counts bytes of code
/// (sleep excluded). The average instruction length is estimated at about a thousand sampled places.
pub fn count(folder: &Path) -> Result<(), String> {
    let mut session = session(folder, true)?;
    let isa = session.kernel().arch.isa();
    let (mut bytes, mut instructions) = (0u64, 0u64);
    let mut until = LOOK;
    loop {
        match session.run_until(until) {
            Stop::Limit => until = session.machine().now().max(until) + LOOK,
            stop => break powers_off(stop)?,
        }
        let pcs = session.machine_mut().pcs();
        for pc in pcs {
            // Up to the end of the block, or a length that serves as well for an average.
            const BLOCK: usize = 8;
            let kernel = session.kernel();
            let mut at = pc;
            for _ in 0..BLOCK {
                let Ok(insn) = decode_at(isa, at, &mut |address, into| kernel.read(address, into)) else { break };
                (bytes, instructions) = (bytes + insn.next().wrapping_sub(at), instructions + 1);
                at = insn.next();
            }
        }
    }
    let mut asleep = 0;
    let happenings = session.machine().happenings();
    for (one, next) in happenings.iter().zip(happenings.iter().skip(1)) {
        if one.what == What::Halt {
            asleep += next.time.saturating_sub(one.time);
        }
    }
    let ran = session.machine().time().saturating_sub(asleep);
    let seconds = session.machine().now() as f64 / 1e9;
    println!("{seconds} {:.0}", ran as f64 * instructions as f64 / bytes.max(1) as f64);
    Ok(())
}
