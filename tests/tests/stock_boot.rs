//! Debian's own kernels boot to a shell and power off, and probes do not change what they do.
//!
//! The kernels come from `TRAPLINE_IMAGES` or the cache of `trapline images pull`. A test without its kernel is counted
//! as skipped.

use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::kernels;
use trapline::boot::whole::Whole;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Counts, Stop};
use trapline::probed::Session;
use trapline::snapshot::file::Key;
use trapline_harness::guests::{self, STOCKS, Unpacks, facts_of};
use trapline_harness::{self as harness, Test, each, on, tests};
use trapline_probes::ProbeSummary;
use trapline_probes::events::set::EventSet;
use trapline_probes::guest::Symbol;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_probes::records::Record;
use trapline_tests::{Run, assert_same};

const SCRIPT: &[u8] = b"
echo hello from $(uname -m)
i=0; while [ $i -lt 5 ]; do cat /proc/version /proc/stat >/tmp/out; i=$((i+1)); done
sleep 1
read line < /proc/version; echo $line
exit 7
";
const LONG: u64 = 60_000_000_000;
/// One of this many functions of the text is probed.
const STRIDE: usize = 16;
/// Kernels with fewer functions use the smaller stride.
const FEW: usize = 16_000;
const STRIDE_OF_FEW: usize = 2;
/// The stride in init text, most of which runs once.
const INIT_STRIDE: usize = 1;

struct Stock {
    file: Vec<u8>,
    kernel: Kernel,
    busybox: Vec<u8>,
    command_line: String,
}

/// The kernel of that name.
fn stock(name: &str) -> Stock {
    let found = harness::stock(name);
    let file = std::fs::read(&found.local.kernel).expect("the kernel's file");
    let kernel = Kernel::from_bytes(&file).expect("a kernel");
    let busybox = std::fs::read(found.busybox).expect("busybox");
    let command_line = format!("{} mitigations=off", found.stock.command_line);
    Stock { file, kernel, busybox, command_line }
}

impl Stock {
    /// A session with a script, or with a shell on the console.
    fn session(&self, script: Option<&[u8]>) -> Session {
        self.session_of(script, None)
    }

    fn session_of(&self, script: Option<&[u8]>, whole: Option<Whole>) -> Session {
        Session::new(self.kernel.clone(), &self.config(script, whole)).expect("a machine")
    }

    fn config(&self, script: Option<&[u8]>, whole: Option<Whole>) -> Config {
        let initrd: Arc<[u8]> = initramfs::with_busybox(&self.busybox, script, &[]).into();
        let command_line = self.command_line.clone();
        let whole = whole.map(Arc::new);
        Config { command_line, initrd: Some(initrd), whole, record_events: true, ..Config::default() }
    }

    /// The functions to probe.
    fn chosen(&self) -> Vec<Symbol> {
        let tables = &self.kernel.tables;
        let init = self.kernel.symbols.extents(tables.init_text.clone().expect("init text"));
        let text = self.kernel.symbols.extents(tables.text.clone());
        let stride = if text.len() < FEW { STRIDE_OF_FEW } else { STRIDE };
        text.into_iter().step_by(stride).chain(init.into_iter().step_by(INIT_STRIDE)).collect()
    }
}

fn run(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    finished(session, stop)
}

fn finished(session: &mut Session, stop: Stop) -> Run {
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

/// Events whose records are compared.
const EVENTS: &[&str] = &["p:open do_sys_openat2 file=+0($arg2):ustring flags=$arg3", "r:ret vfs_read n=$retval"];
/// Records are read from the ring after each slice of guest time, in nanoseconds.
const SLICE: u64 = 5_000_000;
/// RAM is hashed in pieces of this size.
const PIECE: u64 = 2 << 20;

/// A run under probes, with everything known at its end.
struct Probed {
    run: Run,
    session: Session,
    probes: Vec<Kprobe>,
    records: Vec<Record>,
}

/// The data that two equal runs must have in common: statistics, lists, log, and hashes of RAM.
#[derive(Debug, PartialEq)]
struct Traces {
    log: Vec<String>,
    list: String,
    summary: Vec<ProbeSummary>,
    engine: String,
    machine: String,
    text_work: String,
    ram: Vec<String>,
}

impl Probed {
    /// Probes the chosen functions; every second one also gets a return probe. Refusals are tested elsewhere.
    fn run(stock: &Stock) -> Probed {
        let mut session = stock.session(Some(SCRIPT));
        let mut probes = Vec::new();
        for (number, function) in stock.chosen().into_iter().enumerate() {
            let entry = Kprobe::at_address(function.start).pre(|_| Flow::Continue);
            if session.register_kprobe(&entry).is_ok() {
                probes.push(entry);
            }
            if number % 2 == 0 {
                let back = Kretprobe::at_address(function.start).maxactive(64);
                let _ = session.register_kretprobe(&back.handler(|_| ()));
            }
        }
        let mut events = EventSet::default();
        session.with_engine(|engine, guest| {
            for line in EVENTS {
                events.apply(engine, guest, line).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
            events.enable_all(engine, guest, true).expect("they can be enabled");
            engine.set_optimization_delay(0);
        });
        let mut records = Vec::new();
        let stop = loop {
            let stop = session.run_until(session.machine().now().saturating_add(SLICE).min(LONG));
            session.with_engine(|engine, _| records.extend(std::iter::from_fn(|| engine.records().pop())));
            if stop != Stop::Limit || session.machine().now() >= LONG {
                break stop;
            }
        };
        let run = finished(&mut session, stop);
        Probed { run, session, probes, records }
    }

    fn traces(&mut self) -> Traces {
        let text_work = format!("{:?}", self.session.text_work());
        let machine = self.session.machine();
        // The number of window faults depends on the host: the core resizes its TLB by wall-clock time
        // (docs/unicorn.md).
        let counts = format!("{:?}", Counts { window_faults: 0, ..machine.counts() });
        let ram = machine.ram();
        let mut piece = vec![0; PIECE as usize];
        let starts = (0..machine.guest_ram_bytes()).step_by(PIECE as usize);
        let hash = |start: u64| {
            assert!(ram.read(ram.base() + start, &mut piece), "RAM at {start:#x}");
            Key::hash(&piece)
        };
        let ram = starts.map(hash).collect();
        self.session.with_engine(|engine, guest| Traces {
            log: engine.take_log_lines(),
            list: engine.list(guest),
            summary: engine.summary(guest),
            engine: format!("{:?}, {} records lost", engine.counts(), engine.records().dropped()),
            machine: counts,
            text_work,
            ram,
        })
    }
}

/// BY-4: the same input gives the same run under probes, bit for bit.
fn assert_twice_the_same(name: &str, first: &mut Probed, second: &mut Probed) {
    assert_same(&format!("{name}, again"), &first.run, &second.run);
    let differs = first.records.iter().zip(&second.records).find(|(one, other)| one != other);
    assert_eq!((differs, first.records.len()), (None, second.records.len()), "{name}: records");
    assert!(first.records.len() > 100, "{name}: {} records", first.records.len());
    let (one, other) = (first.traces(), second.traces());
    let at = one.ram.iter().zip(&other.ram).position(|(one, other)| one != other);
    assert_eq!(at, None, "{name}: the first {PIECE} bytes of RAM that differ");
    assert_eq!(
        (&one.log, &one.engine, &one.machine, &one.text_work),
        (&other.log, &other.engine, &other.machine, &other.text_work),
        "{name}"
    );
    assert!(one == other, "{name}: the lists or the summaries differ: {}\n{}", one.list, other.list);
    println!(
        "{name}: twice the same: {} records, {} probes, {} MiB of RAM",
        first.records.len(),
        one.summary.len(),
        one.ram.len() * 2
    );
}

/// BY-4, OP-7, OP-11: a kernel boots, runs a script and powers off, with probes as without.
fn boots_and_is_the_same_under_probes(name: &'static str) {
    let (stock, facts) = (stock(name), facts_of(name));
    let plain = run(&mut stock.session(Some(SCRIPT)));
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}: the script's status; console:\n{}", plain.console);
    assert!(plain.console.contains(&format!("hello from {}", facts.machine)), "{name}:\n{}", plain.console);
    assert!(!plain.console.contains("WARNING:"), "{name}:\n{}", plain.console);

    let mut seen = Probed::run(&stock);
    let (probes, probed) = (&seen.probes, &mut seen.session);
    let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
    let sum = |count: fn(&Kprobe) -> u64| probes.iter().map(count).sum::<u64>();
    let (hits, optimised) = (sum(Kprobe::hits), optimised(probed));
    println!(
        "{name}: {} functions probed, {optimised} of them by a jump, {hit} of them hit; {}; {} missed while the guest changed its text, {} times",
        probes.len(),
        cost(probed, hits),
        sum(Kprobe::passed),
        probed.engine().counts().withdrawals,
    );
    println!("{name}: {:?}", probed.text_work());
    if let Some(at) = seen.run.console.find("Call Trace") {
        let from = seen.run.console[..at].char_indices().rev().nth(1500).map_or(0, |(from, _)| from);
        panic!("{name}: the guest is in trouble:\n{}", &seen.run.console[from..]);
    }
    assert_same(name, &plain, &seen.run);
    let stay = probes.iter().filter(|probe| !probe.is_gone()).count();
    assert!(optimised * 10 >= stay * 8, "{name}: {optimised} jumps");
    let faults = probed.machine().counts().window_faults;
    assert!(faults * facts.hits_per_fault < hits, "{name}: the window had to be shown {faults} times for {hits} hits");
    // A small kernel has fewer functions.
    assert!(hit >= 1000.min(probes.len() / 3), "{name}: {} functions probed, {hit} hit", probes.len());
    let init = stock.kernel.tables.init_text.clone().expect("init text");
    for probe in probes {
        let is_init = probe.address().is_some_and(|address| init.contains(&address));
        assert_eq!(probe.is_gone(), is_init, "{name}: {probe} after the boot");
    }
    if facts.boots_twice {
        assert_twice_the_same(name, &mut seen, &mut Probed::run(&stock));
    }
}

/// BY-4: with 1 GiB of RAM, the direct map takes the largest possible part of the address space.
fn debian_i386_with_a_gigabyte_is_the_same_under_probes(name: &'static str) {
    let stock = stock(name);
    let boot = |probes: &[Kprobe]| {
        let config = Config { ram: Some(1 << 30), ..stock.config(Some(b"exit 7\n"), None) };
        let mut session = Session::new(stock.kernel.clone(), &config).expect("a machine");
        for probe in probes {
            session.register_kprobe(probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
        }
        run(&mut session)
    };
    let plain = boot(&[]);
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}; console:\n{}", plain.console);
    let probes = ["do_sys_openat2", "vfs_read", "schedule"].map(|name| Kprobe::at(name).pre(|_| Flow::Continue));
    assert_same(name, &plain, &boot(&probes));
    assert!(probes.iter().all(|probe| probe.hits() > 0), "{name}: {probes:?}");
}

/// OP-7, OP-11: up to this many optimised functions. `--nocapture` shows the numbers.
fn debian_amd64_is_the_same_under_ten_thousand_jumps() {
    const JUMPS: usize = 10_000;
    let stock = stock("debian/amd64");
    let plain = run(&mut stock.session(Some(SCRIPT)));
    let mut probed = stock.session(Some(SCRIPT));
    let functions = stock.kernel.symbols.extents(stock.kernel.tables.text.clone());
    let mut probes = Vec::new();
    for function in functions.iter().step_by(functions.len() / (JUMPS * 5 / 4)) {
        let probe = Kprobe::at_address(function.start).pre(|_| Flow::Continue);
        // Refused probes are another test's subject.
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

/// Number of optimised probes.
fn optimised(session: &mut Session) -> usize {
    let summary = session.with_engine(|engine, guest| engine.summary(guest));
    summary.iter().filter(|line| line.mode == Mode::Optimized).count()
}

/// The cost of the hits, in traps and window faults.
fn cost(session: &Session, hits: u64) -> String {
    let counts = session.machine().counts();
    format!("{hits} hits, {} traps, {} fetches from the window made good", counts.claimed, counts.window_faults)
}

/// RP-10: return probes on exception entries are refused. The return address register belongs to the program there,
/// which would return to the pad.
fn exception_entries_on_mips_refuse_return_probes(name: &'static str) {
    let stock = stock(name);
    let mut session = stock.session(Some(SCRIPT));
    for entry in ["handle_sys", "handle_tlbl", "handle_tlbs", "handle_int", "handle_ri", "syscall_common", "illegal_syscall"] {
        let probe = Kretprobe::at(entry).handler(|_| ());
        let refusal = session.register_kretprobe(&probe).err().unwrap_or_else(|| panic!("{name}: {entry}")).to_string();
        assert!(refusal.contains("cannot be followed"), "{name}, {entry}: {refusal}");
    }
}

/// The image's own decompressor runs in the guest. Afterwards the boot is the same, only later, and probes work on
/// functions that run before the console prints a text.
fn unpacks_itself_and_boots_the_same(name: &'static str) {
    let stock = stock(name);
    let Unpacks { functions, says } = facts_of(name).unpacks.expect("it unpacks itself");
    let whole = kernels::of(stock.kernel.arch).whole(&stock.file).expect("it can be entered").expect("it unpacks itself");
    let boot = |whole: Option<Whole>| {
        let mut session = stock.session_of(Some(SCRIPT), whole);
        let began = session.machine().now();
        let probes = functions.map(|name| Kprobe::at(name).pre(|_| Flow::Continue));
        for probe in &probes {
            session.register_kprobe(probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
        }
        session.machine_mut().stop_at_console_text(Some(says));
        assert_eq!(session.run_until(LONG), Stop::ConsoleText, "{name}");
        assert_eq!(probes.map(|probe| probe.hits()), [1, 1], "{name}");
        let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
        let without_time = |line: &str| line.split_once("] ").map_or(line, |(_, text)| text).to_string();
        // A kernel may measure clock speeds and print them to the nanosecond, so these lines differ.
        let clocks = ["max_idle_ns", "CPU frequency", "wraps every"];
        let lines = console.lines().filter(|line| !clocks.iter().any(|words| line.contains(words)));
        (lines.map(without_time).collect::<Vec<String>>(), began)
    };
    let (unpacked, early) = boot(None);
    let (itself, late) = boot(Some(whole));
    assert_eq!(unpacked, itself, "{name}");
    assert!(late > early + 500_000_000, "{name}: it has unpacked itself in {} ns", late - early);
}

/// Kernels, the CPU to select, and the words in the guest that identify it.
#[rustfmt::skip]
const CPUS: [(&str, Option<&str>, &[&str]); 5] = [
    ("debian/amd64", None,               &["AuthenticAMD", "Not affected"]),
    ("debian/amd64", Some("intel"),      &["GenuineIntel", "Mitigation: PTI"]),
    ("debian/i386",  None,               &["AuthenticAMD", "Not affected"]),
    ("debian/arm64", None,               &["0xd07", "Not affected"]),
    ("debian/arm64", Some("cortex-a72"), &["0xd08", "Not affected"]),
];

/// DV-4: the guest identifies the selected CPU and acts accordingly: page-table isolation is on for Intel only.
fn the_guest_identifies_the_selected_cpu(name: &str, cpu: Option<&str>, expected: &[&str]) {
    const SCRIPT: &[u8] = b"dmesg | grep random:; cat /proc/cpuinfo /sys/devices/system/cpu/vulnerabilities/meltdown";
    let stock = stock(name);
    let initrd: Arc<[u8]> = initramfs::with_busybox(&stock.busybox, Some(SCRIPT), &[]).into();
    let command_line = stock.command_line.replace("mitigations=off", "");
    let config = Config { command_line, initrd: Some(initrd), cpu: cpu.map(String::from), ..Config::default() };
    let mut session = Session::new(stock.kernel.clone(), &config).expect("a machine");
    let run = run(&mut session);
    for words in expected {
        assert!(run.console.contains(words), "{name}, {cpu:?}: {words}: {}", run.console);
    }
    assert!(run.console.contains("random: crng init done"), "{name}: {}", run.console);
}

/// DV-4: an unknown CPU is refused with a list of the known ones.
fn an_unknown_cpu_is_refused_with_a_list() {
    for (name, names) in [("tiny/x86_64", "amd, intel"), ("tiny/arm64", "cortex-a57, cortex-a72"), ("tiny/arm", "cortex-a8")] {
        let kernel = Kernel::from_bytes(trapline_images::find(name).expect("built in").bytes).expect("a kernel");
        let config = Config { cpu: Some("68000".into()), ..Config::default() };
        let refusal = Session::new(kernel, &config).err().expect("no such CPU").to_string();
        assert!(refusal.contains("`68000`") && refusal.contains(names), "{name}: {refusal}");
    }
}

/// DV-4, BY-2: init and the shell of a 64-bit kernel may be programs of 32 bits.
fn arm64_runs_an_init_of_32_bits() {
    let (wide, narrow) = (stock("debian/arm64"), stock("debian/armhf"));
    let run = run(&mut Stock { busybox: narrow.busybox, ..wide }.session(Some(SCRIPT)));
    assert_eq!(run.stop, Stop::PowerOff(7), "{}", run.console);
    assert!(run.console.contains("hello from aarch64"), "{}", run.console);
}

/// DV-4: commands typed at the shell run, on each kind of serial port.
fn the_shell_executes_typed_commands(name: &'static str) {
    let stock = stock(name);
    let mut session = stock.session(None);
    session.machine_mut().stop_at_console_text(Some("# "));
    assert_eq!(session.run_until(LONG), Stop::ConsoleText, "{name}");
    session.machine_mut().console_input(b"echo typed $((6 * 7)); exit 5\n");
    let run = run(&mut session);
    assert_eq!(run.stop, Stop::PowerOff(5), "{name}: {}", run.console);
    assert!(run.console.contains("typed 42"), "{name}: {}", run.console);
}

/// DV-4: input that is typed before the guest reads it waits without loss, and end of file ends the shell.
fn input_waits_until_the_guest_reads_it(name: &'static str) {
    let stock = stock(name);
    let mut session = stock.session(None);
    let digits = "0123456789".repeat(12);
    session.machine_mut().console_input(format!("echo {digits} | md5sum\n").as_bytes());
    session.machine_mut().console_input_ends();
    let run = run(&mut session);
    assert!(matches!(run.stop, Stop::PowerOff(_)), "{name}: {:?}: {}", run.stop, run.console);
    assert!(run.console.contains("e83c31b72cb3682787ce44ce2d5ec9dc"), "{name}: {}", run.console);
}

/// DV-4: on a Malta board a guest ends by power-off, reboot or halt with the right status. A halted guest cannot be
/// woken.
fn mips_ends_by_poweroff_reboot_and_halt(name: &'static str) {
    let stock = stock(name);
    for way in ["poweroff", "reboot", "halt"] {
        let script = format!("printf '\\5' | dd of=/dev/port bs=1 seek=244 conv=notrunc 2>/dev/null; {way} -f; sleep 9");
        let run = run(&mut stock.session(Some(script.as_bytes())));
        let is_expected = match &run.stop {
            Stop::PowerOff(5) => way != "halt",
            Stop::Dead(why) => way == "halt" && why.contains("nothing will wake one"),
            _ => false,
        };
        assert!(is_expected, "{name}, {way}: {:?}\n{}", run.stop, run.console);
    }
}

fn main() -> ExitCode {
    harness::run([
        each!(STOCKS.iter().map(|facts| facts.name), boots_and_is_the_same_under_probes),
        each!(STOCKS.iter().filter(|facts| facts.unpacks.is_some()).map(|facts| facts.name), unpacks_itself_and_boots_the_same),
        on("debian/amd64", tests![debian_amd64_is_the_same_under_ten_thousand_jumps]),
        each!(["debian/i386", "debian/i386-pae"], debian_i386_with_a_gigabyte_is_the_same_under_probes),
        each!(["debian/mipsel", "debian/mips64el", "linux/mips"], exception_entries_on_mips_refuse_return_probes),
        each!(["debian/mipsel", "debian/mips64el", "linux/mips"], mips_ends_by_poweroff_reboot_and_halt),
        each!(guests::stock(), input_waits_until_the_guest_reads_it, the_shell_executes_typed_commands),
        on("debian/arm64", on("debian/armhf", tests![arm64_runs_an_init_of_32_bits])),
        tests![an_unknown_cpu_is_refused_with_a_list],
        CPUS.iter()
            .map(|(name, cpu, expected)| {
                let case =
                    format!("{}_{}", harness::member("the_guest_identifies_the_selected_cpu", name), cpu.unwrap_or("default"));
                let test = move || the_guest_identifies_the_selected_cpu(name, *cpu, expected);
                Test::new(case, test).needs(harness::kernel(name))
            })
            .collect(),
    ])
}
