//! Measures a hit of the guest's own kprobes under QEMU's TCG, for comparison: `cargo run -p trapline-benches --bin
//! guest_kprobes`.
//!
//! Debian's amd64 kernel boots under qemu-system-x86_64. Its shell reads /dev/zero byte by byte, without a probe and
//! with one on the path of each read, made through the guest's tracefs. Records are off, so a hit only runs the
//! handler. The measure is the user time of the QEMU process between two console lines, which other load on the host
//! disturbs little. `--write` puts the figures into docs/overhead.md.

use std::io::{BufRead, BufReader};
use std::process::{Child, ExitCode, Stdio};
use std::{env, fs};
use trapline::boot::initramfs;
use trapline_benches::{peer, section, user_time};
use trapline_images::Wanted;

/// Number of rounds. The median counts.
const ROUNDS: usize = 3;
/// Number of reads per run.
const READS: u64 = 300_000;
/// A function that each read calls once. It has room for a jump behind its ftrace site.
const FUNCTION: &str = "ksys_read";

/// A way to probe the function: a line of kprobe_events, and whether jump optimisation is on.
struct Way {
    name: &'static str,
    what: &'static str,
    event: &'static str,
    optimize: bool,
}

const WAYS: [Way; 3] = [
    Way { name: "plain", what: "a kprobe, by breakpoint", event: "p:probe ksys_read+5", optimize: false },
    Way { name: "optimised", what: "a kprobe, by jump", event: "p:probe ksys_read+5", optimize: true },
    Way { name: "return", what: "a return probe, entered by ftrace", event: "r:probe ksys_read", optimize: true },
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let write = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("usage: guest_kprobes [--write]");
            return ExitCode::FAILURE;
        }
    };
    match measure(write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("guest_kprobes: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The guest's script. A console line starts and ends each run, and the guest's own hit counts follow.
fn script() -> String {
    let mut text = String::from(
        "mount -t tracefs none /sys/kernel/tracing; mount -t debugfs none /sys/kernel/debug; cd /sys/kernel/tracing; echo 0 > tracing_on\n",
    );
    let run = |name: &str| {
        format!(
            "echo \"begin $(cat /proc/uptime) {name}\"; dd if=/dev/zero of=/dev/null bs=1 count={READS} 2>/dev/null; echo end {name}\n"
        )
    };
    // The first run lets QEMU translate the code.
    text.push_str(&run("warm"));
    let mut round = run("none");
    for way in &WAYS {
        round.push_str(&format!(
            "echo {} > /proc/sys/debug/kprobes-optimization; echo '{}' > kprobe_events; echo 1 > events/kprobes/probe/enable; sleep 1\n",
            u8::from(way.optimize),
            way.event
        ));
        round.push_str("echo \"list $(cat /sys/kernel/debug/kprobes/list)\"\n");
        round.push_str(&run(&format!("warm-{}", way.name)));
        round.push_str(&run(way.name));
        round.push_str("echo \"profile $(cat kprobe_profile)\"; echo 0 > events/kprobes/probe/enable; echo > kprobe_events\n");
    }
    text.push_str(&round.repeat(ROUNDS));
    text
}

/// A run: its name, QEMU's user time in seconds, and the guest's list of probes before and hit counts after it.
#[derive(Default)]
struct Run {
    name: String,
    seconds: f64,
    list: String,
    profile: String,
}

fn measure(write: bool) -> Result<(), String> {
    let wanted = Wanted::parse("debian/amd64").ok_or("no such kernel")?;
    let local = trapline_images::locate(&wanted, &trapline_images::folders())
        .ok_or("debian/amd64 is not on this computer, `trapline images pull debian/amd64` brings it")?;
    let busybox =
        fs::read(local.busybox.as_deref().ok_or("the kernel has no busybox beside it")?).map_err(|error| error.to_string())?;
    const PROGRAM: &str = "qemu-system-x86_64";
    let peers = peer::all();
    let peer = peers.first().ok_or(format!("there is no {PROGRAM}: scripts/peer.sh brings it"))?;
    let initrd = env::temp_dir().join(format!("trapline-guest-kprobes-{}", std::process::id()));
    fs::write(&initrd, initramfs::with_busybox(&busybox, Some(script().as_bytes()), &[])).map_err(|error| error.to_string())?;
    let child = peer
        .command(PROGRAM)
        .args(["-accel", "tcg", "-m", "512", "-nographic", "-no-reboot"])
        // Linux writes no jump if returns use a thunk, so switch mitigations off.
        .args(["-append", &format!("{} mitigations=off", wanted.stock.command_line)])
        .arg("-kernel")
        .arg(&local.kernel)
        .arg("-initrd")
        .arg(&initrd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("qemu-system-x86_64 cannot be run ({error}); Debian's package is qemu-system-x86"));
    let runs = child.and_then(|mut child| {
        let runs = watch(&mut child);
        let ended = child.wait();
        runs.and_then(|runs| ended.map(|_| runs).map_err(|error| error.to_string()))
    });
    // This is the host's temporary folder, so a failure to delete it does no harm.
    let _ = fs::remove_file(&initrd);
    let table = format!("{}\nMeasured under {}.\n", table(&runs?)?, peer.name());
    print!("{table}");
    if write { section::replace("guest-kprobes", &table) } else { Ok(()) }
}

/// Reads the console to its end and times the runs.
fn watch(child: &mut Child) -> Result<Vec<Run>, String> {
    let pid = child.id();
    let console = child.stdout.take().ok_or("QEMU has no console")?;
    let (mut runs, mut started, mut list) = (Vec::<Run>::new(), 0.0, String::new());
    for line in BufReader::new(console).split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let line = String::from_utf8_lossy(&line).trim_end().to_string();
        if let Some(rest) = line.strip_prefix("list ") {
            list = rest.to_string();
        } else if line.starts_with("begin ") {
            started = user_time::of(pid)?;
        } else if let Some(name) = line.strip_prefix("end ") {
            let seconds = user_time::of(pid)? - started;
            runs.push(Run { name: name.to_string(), seconds, list: list.clone(), profile: String::new() });
        } else if let (Some(profile), Some(run)) = (line.strip_prefix("profile "), runs.last_mut()) {
            run.profile = profile.to_string();
        }
    }
    Ok(runs)
}

fn table(runs: &[Run]) -> Result<String, String> {
    let find = |name: &str| {
        let found: Vec<&Run> = runs.iter().filter(|run| run.name == name).collect();
        let all = found.len() == ROUNDS;
        all.then_some(found).ok_or_else(|| format!("the guest did not run `{name}` {ROUNDS} times"))
    };
    let without = user_time::median(find("none")?.iter().map(|run| run.seconds));
    let mut table = format!(
        "| how | us/hit | what |\n| --- | --- | --- |\n| none | - | a read of one byte and a write take {:.2} us |\n",
        without * 1e6 / READS as f64
    );
    for way in &WAYS {
        let mut each = Vec::new();
        for run in find(way.name)? {
            each.push((run.seconds - without) * 1e6 / way.hits_of(run)?);
        }
        table.push_str(&format!("| {} | {:.2} | {} |\n", way.name, user_time::median(each), way.what));
    }
    Ok(table)
}

impl Way {
    /// The number of hits of a run. Fails if the probe was not of this kind.
    fn hits_of(&self, run: &Run) -> Result<f64, String> {
        if run.list.contains("[OPTIMIZED]") != (self.name == "optimised")
            || run.list.contains("[FTRACE]") != (self.name == "return")
        {
            return Err(format!("`{}` in {FUNCTION} did not become what it was to be: {}", self.event, run.list));
        }
        // The probe was hit in two runs, the first of which was a warm-up.
        let hits: u64 = run.profile.split_whitespace().nth(1).and_then(|word| word.parse().ok()).ok_or("no hits were counted")?;
        if hits < 2 * READS {
            return Err(format!("{hits} hits of {} reads were counted", 2 * READS));
        }
        Ok(hits as f64 / 2.0)
    }
}
