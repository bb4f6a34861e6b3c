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
const STRIDE: usize = 40;

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
    let text = stock.kernel.tables.text.clone();
    let functions = stock.kernel.symbols.extents(text);
    let mut probes = Vec::new();
    for (number, function) in functions.iter().enumerate().filter(|(number, _)| number % STRIDE == 0) {
        let (entry, back) =
            (Kprobe::at_address(function.start).pre(|_| Flow::Continue), Kretprobe::at_address(function.start).maxactive(64));
        if probed.register_kprobe(&entry).is_ok() {
            probes.push(entry);
        }
        // Every other one is also a return probe; what may not be probed is another family's business.
        if number % (2 * STRIDE) == 0 {
            let _ = probed.register_kretprobe(&back.handler(|_| ()));
        }
    }
    let optimised = optimise(&mut probed);
    let seen = run(&mut probed);
    let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
    let hits = probes.iter().map(Kprobe::hits).sum();
    println!(
        "{name}: {} functions probed, {optimised} of them by a jump, {hit} of them hit; {}",
        probes.len(),
        cost(&probed, hits)
    );
    assert_same(name, &plain, &seen);
    assert!(optimised * 10 >= probes.len() * 8, "{name}: {optimised} jumps");
    let faults = probed.machine().counts().window_faults;
    assert!(faults * 20 < hits, "{name}: the window had to be shown {faults} times for {hits} hits");
    assert!(probes.len() >= 500 && hit >= 50, "{name}: {} functions probed, {hit} hit", probes.len());
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
    let optimised = optimise(&mut probed);
    let seen = run(&mut probed);
    let hits = probes.iter().map(Kprobe::hits).sum();
    println!("{} functions probed, {optimised} by a jump; {}", probes.len(), cost(&probed, hits));
    assert_same("debian/amd64", &plain, &seen);
    assert!(optimised >= JUMPS, "{optimised} jumps");
}

/// Lets the optimiser come now; how many jumps there are.
fn optimise(session: &mut Session) -> usize {
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
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
