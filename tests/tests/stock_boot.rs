//! Stock boot: Debian's own kernels boot to a shell and end, and nothing that they do depends on probes.
//!
//! The kernels are those that `TRAPLINE_IMAGES` or the cache of `trapline images pull` holds; without them the tests say so and pass.

use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_images::Wanted;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::{Run, assert_same};

const SCRIPT: &[u8] = b"
echo hello from $(uname -m)
i=0; while [ $i -lt 5 ]; do cat /proc/version /proc/stat >/tmp/out; i=$((i+1)); done
sleep 1
read line < /proc/version; echo $line
exit 7
";
const LONG: u64 = 60_000_000_000;
/// Every so many functions of the text are probed.
const STRIDE: usize = 16;
/// And of the init text, most of which runs once.
const INIT_STRIDE: usize = 1;

struct Stock {
    kernel: Kernel,
    busybox: Vec<u8>,
    command_line: String,
}

/// The kernel of that name, if it is on this computer.
fn stock(name: &str) -> Option<Stock> {
    let wanted = Wanted::parse(name)?;
    let local = trapline_images::locate(&wanted, &trapline_images::folders());
    let Some((local, busybox)) = local.and_then(|local| local.busybox.clone().map(|busybox| (local, busybox))) else {
        println!("{name} is not on this computer: `trapline images pull {name}` brings it; nothing was tested");
        return None;
    };
    let kernel = Kernel::from_bytes(&std::fs::read(&local.kernel).expect("the kernel's file")).expect("a kernel");
    let busybox = std::fs::read(busybox).expect("busybox");
    let command_line = format!("{} mitigations=off", wanted.stock.command_line);
    Some(Stock { kernel, busybox, command_line })
}

impl Stock {
    /// With a script, or with a shell on the console.
    fn session(&self, script: Option<&[u8]>) -> Session {
        let initrd: Arc<[u8]> = initramfs::with_busybox(&self.busybox, script, &[]).into();
        let command_line = self.command_line.clone();
        let config = Config { command_line, initrd: Some(initrd), record_events: true, ..Config::default() };
        Session::new(self.kernel.clone(), &config).expect("a machine")
    }
}

fn run(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

fn boots_and_is_the_same_under_probes(name: &str, machine: &str) {
    let Some(stock) = stock(name) else { return };
    let plain = run(&mut stock.session(Some(SCRIPT)));
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}: the script's status; console:\n{}", plain.console);
    assert!(plain.console.contains(&format!("hello from {machine}")), "{name}:\n{}", plain.console);
    assert!(!plain.console.contains("WARNING:"), "{name}:\n{}", plain.console);

    let mut probed = stock.session(Some(SCRIPT));
    let tables = &stock.kernel.tables;
    let init = stock.kernel.symbols.extents(tables.init_text.clone().expect("init text"));
    let text = stock.kernel.symbols.extents(tables.text.clone());
    let chosen = text.iter().step_by(STRIDE).chain(init.iter().step_by(INIT_STRIDE));
    let mut probes = Vec::new();
    for (number, function) in chosen.enumerate() {
        let (entry, back) =
            (Kprobe::at_address(function.start).pre(|_| Flow::Continue), Kretprobe::at_address(function.start).maxactive(64));
        if probed.register_kprobe(&entry).is_ok() {
            probes.push((function, entry));
        }
        // Every other one is also a return probe; what may not be probed is another family's business.
        if number % 2 == 0 {
            let _ = probed.register_kretprobe(&back.handler(|_| ()));
        }
    }
    probed.with_engine(|engine, _| engine.set_optimization_delay(0));
    let seen = run(&mut probed);
    let hit = probes.iter().filter(|(_, probe)| probe.hits() > 0).count();
    let sum = |count: fn(&Kprobe) -> u64| probes.iter().map(|(_, probe)| count(probe)).sum::<u64>();
    let (hits, optimised) = (sum(Kprobe::hits), optimised(&mut probed));
    println!(
        "{name}: {} functions probed, {optimised} of them by a jump, {hit} of them hit; {}; {} missed while the guest changed its text, {} times",
        probes.len(),
        cost(&probed, hits),
        sum(Kprobe::passed),
        probed.engine().counts().withdrawals,
    );
    println!("{name}: {:?}", probed.text_work());
    if let Some(at) = seen.console.find("Call Trace") {
        let from = seen.console[..at].char_indices().rev().nth(1500).map_or(0, |(from, _)| from);
        panic!("{name}: the guest is in trouble:\n{}", &seen.console[from..]);
    }
    assert_same(name, &plain, &seen);
    let stay = probes.iter().filter(|(_, probe)| !probe.is_gone()).count();
    assert!(optimised * 10 >= stay * 8, "{name}: {optimised} jumps");
    let faults = probed.machine().counts().window_faults;
    assert!(faults * 20 < hits, "{name}: the window had to be shown {faults} times for {hits} hits");
    assert!(hit >= 1000, "{name}: {} functions probed, {hit} hit", probes.len());
    for (function, probe) in &probes {
        let is_init = init.iter().any(|other| other.start == function.start);
        assert_eq!(probe.is_gone(), is_init, "{name}: {} after the boot", function.name);
    }
}

/// BY-4, OP-7, OP-11: 64 bits.
#[test]
fn debian_amd64_boots_and_is_the_same_under_probes() {
    boots_and_is_the_same_under_probes("debian/amd64", "x86_64");
}

/// BY-4, OP-7, OP-11: 32 bits.
#[test]
fn debian_i386_boots_and_is_the_same_under_probes() {
    boots_and_is_the_same_under_probes("debian/i386", "i686");
}

/// OP-7, OP-11: as many functions as there are that may have a jump, up to this many. `cargo test -p trapline-tests --test stock_boot --
/// --ignored --nocapture` shows the numbers.
#[test]
#[ignore = "a long run"]
fn debian_amd64_is_the_same_under_ten_thousand_jumps() {
    const JUMPS: usize = 10_000;
    let Some(stock) = stock("debian/amd64") else { return };
    let plain = run(&mut stock.session(Some(SCRIPT)));
    let mut probed = stock.session(Some(SCRIPT));
    let functions = stock.kernel.symbols.extents(stock.kernel.tables.text.clone());
    let mut probes = Vec::new();
    for function in functions.iter().step_by(functions.len() / (JUMPS * 5 / 4)) {
        let probe = Kprobe::at_address(function.start).pre(|_| Flow::Continue);
        // What may not be probed is another family's business.
        if probed.register_kprobe(&probe).is_ok() {
            probes.push(probe);
        }
    }
    probed.with_engine(|engine, _| engine.set_optimization_delay(0));
    let seen = run(&mut probed);
    let optimised = optimised(&mut probed);
    let hits = probes.iter().map(Kprobe::hits).sum();
    println!("{} functions probed, {optimised} by a jump; {}", probes.len(), cost(&probed, hits));
    assert_same("debian/amd64", &plain, &seen);
    assert!(optimised >= JUMPS, "{optimised} jumps");
}

/// How many jumps there are.
fn optimised(session: &mut Session) -> usize {
    let summary = session.with_engine(|engine, guest| engine.summary(guest));
    summary.iter().filter(|line| line.mode == Mode::Optimized).count()
}

/// What hits have cost beside their handlers.
fn cost(session: &Session, hits: u64) -> String {
    let counts = session.machine().counts();
    format!("{hits} hits, {} traps, {} fetches from the window made good", counts.claimed, counts.window_faults)
}

/// BY-4: another family of ISAs.
#[test]
fn debian_arm64_boots_and_is_the_same_under_probes() {
    boots_and_is_the_same_under_probes("debian/arm64", "aarch64");
}

/// DV-4: somebody types at the shell.
#[test]
fn the_shell_on_the_console_does_what_is_typed() {
    let Some(stock) = stock("debian/amd64") else { return };
    let mut session = stock.session(None);
    session.machine_mut().stop_at_console_text(Some("# "));
    assert_eq!(session.run_until(LONG), Stop::ConsoleText);
    session.machine_mut().console_input(b"echo typed $((6 * 7)); exit 5\n");
    let run = run(&mut session);
    assert_eq!(run.stop, Stop::PowerOff(5), "{}", run.console);
    assert!(run.console.contains("typed 42"), "{}", run.console);
}
