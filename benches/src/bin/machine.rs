//! Whole machines: what a boot of each stock kernel takes, beside QEMU, and with probes armed that nothing hits.
//!
//! The contestants take turns, each a process of its own; what counts is the median of their user times. Kernels are those of
//! `TRAPLINE_IMAGES` and of `trapline images pull`. `machine --help` says the rest.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::{env, fs};
use trapline::boot::{Kernel, initramfs, payload};
use trapline::machine::{Config, Stop, What};
use trapline::probed::Session;
use trapline_benches::section;
use trapline_images::{Local, Stock, Wanted};
use trapline_isa::function::decode_at;
use trapline_probes::probe::{Flow, Kprobe};

const HELP: &str = "\
What a boot of each Debian kernel on this computer takes, in seconds of user time: with 0, 10 and 1,000 probes armed that nothing hits, and under
QEMU (the qemu-system-* that are installed). They take turns, and the median of their rounds counts.

usage: machine [--rounds N] [--json] [--write]

  --rounds N  how often each boots; 3 unless said, which takes some 5 minutes on an idle computer
  --json      a line of JSON for each kernel
  --write     the table goes into docs/overhead.md
  --help      this text";

const SCRIPT: &[u8] = b"echo the shell is there\n";
/// Guest nanoseconds after which a boot has failed.
const LONG: u64 = 60_000_000_000;
/// How many probes are armed.
const ARMED: [usize; 3] = [0, 10, 1_000];
/// Functions of networks and file systems that these machines have not.
const IDLE: [&str; 8] = ["tcp_", "udp_", "ip6_", "ipv6_", "inet6_", "icmp", "xfrm_", "fib"];

/// A kernel and its rival.
struct Contest {
    name: &'static str,
    qemu: &'static str,
    arguments: &'static [&'static str],
}

const CONTESTS: &[Contest] = &[
    Contest { name: "debian/amd64", qemu: "qemu-system-x86_64", arguments: &[] },
    Contest { name: "debian/i386", qemu: "qemu-system-i386", arguments: &[] },
    // It has no Cortex-A8 on this board.
    Contest { name: "debian/armhf", qemu: "qemu-system-arm", arguments: &["-M", "virt,highmem=off", "-cpu", "cortex-a15"] },
    Contest { name: "debian/arm64", qemu: "qemu-system-aarch64", arguments: &["-M", "virt", "-cpu", "cortex-a72"] },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["boot", folder, armed] => {
            armed.parse().map_err(|_| "how many?".to_string()).and_then(|armed| boot(Path::new(folder), armed))
        }
        ["count", folder] => count(Path::new(folder)),
        ["--help"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Options::parse(&words).and_then(|options| measure_all(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("machine: {why}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    json: bool,
    write: bool,
    rounds: usize,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options { json: false, write: false, rounds: 3 };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => options.json = true,
                "--write" => options.write = true,
                "--rounds" => {
                    let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                    options.rounds = number.ok_or("--rounds wants a number from 1 on")?;
                }
                other => return Err(format!("`{other}` is none of --rounds N, --json, --write, --help")),
            }
        }
        Ok(options)
    }
}

/// What was found out about one kernel; seconds are of user time.
#[derive(Default)]
struct Figures {
    name: String,
    /// With none, ten and a thousand probes armed.
    ours: Vec<f64>,
    qemu: Option<f64>,
    guest_seconds: f64,
    instructions: f64,
}

impl Figures {
    fn ratio(&self) -> Option<f64> {
        self.qemu.map(|qemu| self.ours[0] / qemu)
    }

    fn cells(&self) -> Vec<String> {
        let seconds = |value: f64| format!("{value:.2}");
        let mut cells = vec![self.name.clone(), seconds(self.ours[0])];
        cells.push(self.qemu.map_or_else(|| "-".into(), seconds));
        cells.push(self.ratio().map_or_else(|| "-".into(), seconds));
        cells.extend(self.ours[1..].iter().map(|value| seconds(*value)));
        cells.push(seconds(self.guest_seconds));
        cells.push(format!("{:.0}", self.instructions / 1e6));
        cells.push(format!("{:.0}", self.instructions / 1e6 / self.ours[0]));
        cells
    }

    fn json(&self) -> String {
        let ours: Vec<String> =
            ARMED.iter().zip(&self.ours).map(|(armed, time)| format!("\"user_s_{armed}_armed\":{time:.3}")).collect();
        let qemu = self.qemu.map_or_else(|| "null".into(), |time| format!("{time:.3}"));
        format!(
            "{{\"kernel\":\"{}\",{},\"qemu_user_s\":{qemu},\"guest_s\":{:.6},\"instructions\":{:.0}}}",
            self.name,
            ours.join(","),
            self.guest_seconds,
            self.instructions
        )
    }
}

const HEADINGS: [&str; 9] = [
    "kernel",
    "user s",
    "QEMU, user s",
    "ratio",
    "10 armed, user s",
    "1,000 armed, user s",
    "guest s",
    "instructions, millions",
    "millions a second",
];

fn measure_all(options: &Options) -> Result<(), String> {
    let mut all = Vec::new();
    for contest in CONTESTS {
        match measure(contest, options.rounds) {
            Ok(figures) => {
                match options.json {
                    true => println!("{}", figures.json()),
                    false => println!("{}", figures.cells().join("  ")),
                }
                all.push(figures);
            }
            Err(why) => eprintln!("{}: {why}; it is left out", contest.name),
        }
    }
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut table = row(&HEADINGS.map(String::from)) + &row(&HEADINGS.map(|_| "---".to_string()));
    all.iter().for_each(|figures| table.push_str(&row(&figures.cells())));
    let how = match options.rounds {
        1 => "Each has booted once.".into(),
        rounds => format!("Medians of {rounds} boots each, in turn."),
    };
    table.push_str(&format!("\n{how}\n"));
    match (options.write, all.is_empty()) {
        (true, false) => section::replace("machine", &table),
        _ => Ok(()),
    }
}

/// What both contestants boot, in a folder of its own.
fn measure(contest: &Contest, rounds: usize) -> Result<Figures, String> {
    let wanted = Wanted::parse(contest.name).ok_or("no such kernel")?;
    let local = trapline_images::locate(&wanted, &trapline_images::folders())
        .ok_or_else(|| format!("it is not on this computer, `trapline images pull {}` brings it", contest.name))?;
    let folder = env::temp_dir().join(format!("trapline-machine-{}-{}", std::process::id(), wanted.stock.architecture));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let answer = prepare(&folder, wanted.stock, &local).and_then(|()| take_turns(contest, wanted.stock, &folder, rounds));
    // It is the host's temporary folder: what stays there is no matter.
    let _ = fs::remove_dir_all(&folder);
    answer
}

fn prepare(folder: &Path, stock: &Stock, local: &Local) -> Result<(), String> {
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).map_err(|error| format!("{name}: {error}"));
    let busybox = local.busybox.as_deref().ok_or("it has no busybox beside it")?;
    let kernel = read(&local.kernel)?;
    // QEMU takes no kernel that is compressed with xz from outside, and bzImages and zImages whole.
    let packed = local.kernel.extension().is_some_and(|extension| extension == "xz");
    match packed {
        true => write("kernel", &payload::unpack(&kernel).map_err(|error| error.to_string())?)?,
        false => write("kernel", &kernel)?,
    }
    write("initrd", &initramfs::with_busybox(&read(busybox)?, Some(SCRIPT), &[]))?;
    write("command_line", stock.command_line.as_bytes())
}

fn take_turns(contest: &Contest, stock: &Stock, folder: &Path, rounds: usize) -> Result<Figures, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let with_qemu = Command::new(contest.qemu).arg("--version").output().is_ok();
    if !with_qemu {
        eprintln!("{}: {} is not installed; it is measured alone", contest.name, contest.qemu);
    }
    let mut times = vec![Vec::new(); ARMED.len() + usize::from(with_qemu)];
    for round in 0..rounds {
        for turn in 0..times.len() {
            // Another one begins each round, so that none is always behind the same one.
            let who = (round + turn) % times.len();
            times[who].push(match ARMED.get(who) {
                Some(armed) => user_time(Command::new(&this).arg("boot").arg(folder).arg(armed.to_string()))?.0,
                None => boot_rival(contest, stock, folder)?,
            });
        }
    }
    let (_, counted) = user_time(Command::new(&this).arg("count").arg(folder))?;
    let mut numbers = counted.split_whitespace().filter_map(|word| word.parse().ok());
    let (Some(guest_seconds), Some(instructions)) = (numbers.next(), numbers.next()) else {
        return Err("nothing was counted".into());
    };
    let mut ours: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    let qemu = ours.split_off(ARMED.len()).pop();
    Ok(Figures { name: contest.name.into(), ours, qemu, guest_seconds, instructions })
}

fn boot_rival(contest: &Contest, stock: &Stock, folder: &Path) -> Result<f64, String> {
    let mut command = Command::new(contest.qemu);
    command.args(contest.arguments).args(["-accel", "tcg", "-m", "512", "-nographic", "-no-reboot"]);
    command.arg("-kernel").arg(folder.join("kernel")).arg("-initrd").arg(folder.join("initrd"));
    let (time, said) = user_time(command.args(["-append", stock.command_line]))?;
    if said.contains("the shell is there") { Ok(time) } else { Err(format!("{} did not get to the shell", contest.qemu)) }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs it to its end: seconds of user time, and what it printed.
fn user_time(command: &mut Command) -> Result<(f64, String), String> {
    let before = childrens_ticks()?;
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", command.get_program().to_string_lossy(), output.status));
    }
    let ticks = childrens_ticks()? - before;
    Ok((ticks as f64 / TICKS_PER_SECOND, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// What /proc counts in, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// User time of all children that have ended: proc(5), the 16th word of `stat`; the second, in brackets, may hold blanks.
fn childrens_ticks() -> Result<u64, String> {
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().nth(13).and_then(|word| word.parse().ok()).ok_or_else(|| "/proc/self/stat is not as expected".into())
}

fn session(folder: &Path, record_events: bool) -> Result<Session, String> {
    let read = |name: &str| fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let kernel = Kernel::from_bytes(&read("kernel")?).map_err(|error| error.to_string())?;
    let command_line = String::from_utf8_lossy(&read("command_line")?).into_owned();
    let initrd: Option<Arc<[u8]>> = Some(read("initrd")?.into());
    let config = Config { command_line, initrd, record_events, ..Config::default() };
    Session::new(kernel, &config).map_err(|error| error.to_string())
}

/// Hits of all idle probes together that do not show in the time.
const FEW_HITS: u64 = 1_000;

/// A boot, in a process of its own, with probes armed that are not hit.
fn boot(folder: &Path, armed: usize) -> Result<(), String> {
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
    // Setting up the network comes through some of them, once or twice.
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

/// Guest time between two looks at what runs.
const LOOK: u64 = 1_000_000;

/// A boot that prints the guest's seconds and how many instructions it ran. Time counts bytes of code, less what the CPU slept; how long
/// an instruction is on average is seen at a thousand places or so, the functions that run as time goes by.
fn count(folder: &Path) -> Result<(), String> {
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
            // To the end of the block, or what is as good as one for a mean.
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
