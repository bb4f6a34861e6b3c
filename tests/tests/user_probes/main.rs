//! Probes in user programs of stock kernels (BY-2): the run is the same, and nothing in the guest can tell.

mod calls;
mod ends;
mod memory;
mod narrow;
mod own;
mod surface;
mod tools;

use ends::calls_that_end_in_any_way_are_seen;
use memory::stores_of_a_program_are_seen_with_its_task;
use narrow::a_32_bit_program_continues_from_a_snapshot;
use own::hits_equal_those_of_the_guests_own_uprobes;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use surface::{each_program_starts_once, lines_and_scripts_probe_programs};
use tools::scripts_of_debian_that_probe_programs_run;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Happening, Stop};
use trapline::probed::Session;
use trapline_harness::guests::{Family, facts_of};
use trapline_harness::{self as harness, each};
use trapline_probes::user::{Place, UserProbe};

/// Guest time after which a run has hung, in nanoseconds.
const LONG: u64 = 600_000_000_000;

/// Programs that fork, execute, map and copy.
const SCRIPT: &[u8] = b"\
for n in 1 2 3; do ls / | sort | head -n 2 | wc; done
(echo a; (echo b; exit 3); echo $?) | cat
cp /bin/busybox /copy; cmp /copy /bin/busybox && echo equal
md5sum < /bin/busybox
echo 1 > /proc/sys/vm/drop_caches
sh -c 'echo again; kill -9 $$'; echo $?
grep -c x /bin/busybox | wc -c
";

/// The end of a run.
struct Ended {
    stop: Stop,
    now: u64,
    console: String,
    happenings: Vec<Happening>,
}

/// A stock guest that runs a script.
pub struct Stock {
    kernel: Kernel,
    /// The configuration of its machine.
    pub config: Config,
    /// The program that it runs.
    pub busybox: Vec<u8>,
}

impl Stock {
    /// The guest of that name with this script.
    pub fn new(name: &str, script: &[u8]) -> Stock {
        Stock::with_files(name, script, &[])
    }

    /// Boots the guest with further files in its initial file system.
    pub fn with_files(name: &str, script: &[u8], files: &[(String, Vec<u8>)]) -> Stock {
        let found = harness::stock(name);
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let busybox = read(&found.busybox);
        let initrd: Arc<[u8]> = initramfs::with_busybox(&busybox, Some(script), files).into();
        let command_line = found.stock.command_line.into();
        let config = Config { command_line, initrd: Some(initrd), record_events: true, ..Config::default() };
        Stock { kernel: Kernel::from_bytes(&read(&found.local.kernel)).expect("a kernel"), config, busybox }
    }

    /// The guest's kernel.
    pub fn kernel(&self) -> Kernel {
        self.kernel.clone()
    }

    /// A session at the kernel's entry.
    pub fn session(&self) -> Session {
        Session::new(self.kernel.clone(), &self.config).expect("a machine")
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn run(session: &mut Session) -> Ended {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Ended { stop, now: machine.now(), console, happenings: machine.take_happenings() }
}

fn assert_same(what: &str, plain: &Ended, probed: &Ended) {
    assert_eq!(plain.console, probed.console, "{what}");
    for (number, (one, other)) in plain.happenings.iter().zip(&probed.happenings).enumerate() {
        assert_eq!(one, other, "{what}: event {number}");
    }
    assert_eq!((&plain.stop, plain.now), (&probed.stop, probed.now), "{what}");
}

/// BY-2: with a probe at the entry and at the returns of every function of busybox that is called, and at many other
/// instructions, every interrupt, exception and system call has the same pc and time. The guest reads its own file
/// unchanged, and the calls return.
fn programs_run_the_same_with_every_function_probed(name: &'static str) {
    let stock = Stock::new(name, SCRIPT);
    let plain = run(&mut stock.session());
    assert_eq!(plain.stop, Stop::PowerOff(0), "{}", plain.console);
    assert!(plain.console.contains("equal"), "{}", plain.console);

    let mut session = stock.session();
    let (functions, others) = calls::places(&stock.busybox);
    let [entered, returned, passed] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let register = |session: &mut Session, probe: UserProbe| {
        session.register_user(&probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
    };
    let path = "/bin/busybox";
    for offset in &functions {
        let (entered, returned) = (Arc::clone(&entered), Arc::clone(&returned));
        let entry = UserProbe::at(path, Place::Offset(*offset), move |_| count(&entered));
        register(&mut session, entry);
        let ret = UserProbe::returning(path, Place::Offset(*offset), move |_| count(&returned));
        register(&mut session, ret);
    }
    for offset in &others {
        let passed = Arc::clone(&passed);
        let other = UserProbe::at(path, Place::Offset(*offset), move |_| count(&passed));
        register(&mut session, other);
    }
    let probed = run(&mut session);
    assert_same(name, &plain, &probed);
    let [entered, returned, passed] = [entered, returned, passed].map(|count| count.load(Ordering::Relaxed));
    let counts = session.engine().user_counts();
    println!(
        "{name}: {} functions, {entered} entered, {returned} returned; {} others, {passed}; {counts:?}",
        functions.len(),
        others.len()
    );
    assert!(passed > 10_000, "{name}: {passed}");
    assert!(functions.len() < 100 || entered > 50_000, "{name}: {entered} entered");
    // Programs that end have not returned from what they were in; so has nobody who called it.
    assert!(returned <= entered && entered - returned < entered / 100 + 2_000, "{name}: {entered} entered, {returned} returned");
}

/// BY-2: busybox for 32 bits runs under a 64-bit kernel and is probed like any other program: entries and returns. On
/// Intel's CPU it enters the kernel by SYSENTER, and the kernel's pages are isolated from programs.
fn programs_of_32_bits_are_probed([name, narrow]: [&'static str; 2], cpu: Option<&str>) {
    const WORK: &[u8] = b"\
/narrow/busybox echo from 32 bits
/narrow/busybox sh -c 'for i in 1 2 3; do echo $i | cat; done; ls / | sort | head -n 2'
echo status=$?
";
    let foreign = Stock::new(narrow, b"").busybox;
    let files = [("narrow/busybox".to_string(), foreign.clone())];
    let mut stock = Stock::with_files(name, WORK, &files);
    stock.config.cpu = cpu.map(str::to_string);
    stock.config.command_line = stock.config.command_line.replace("mitigations=off", "");
    let plain = run(&mut stock.session());
    assert_eq!(plain.stop, Stop::PowerOff(0), "{}", plain.console);
    assert!(plain.console.contains("from 32 bits") && plain.console.contains("status=0"), "{}", plain.console);
    let mut session = stock.session();
    let (functions, others) = calls::places(&foreign);
    let entries: Vec<UserProbe> =
        functions.iter().chain(&others).map(|offset| UserProbe::at("/narrow/busybox", Place::Offset(*offset), |_| ())).collect();
    let returns: Vec<UserProbe> =
        functions.iter().map(|offset| UserProbe::returning("/narrow/busybox", Place::Offset(*offset), |_| ())).collect();
    for probe in entries.iter().chain(&returns) {
        session.register_user(probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
    }
    let probed = run(&mut session);
    assert_same(name, &plain, &probed);
    let sum = |probes: &[UserProbe]| probes.iter().map(UserProbe::hits).sum::<u64>();
    let (entered, returned) = (sum(&entries[..functions.len()]), sum(&returns));
    println!("{name}: {} hits, {entered} calls, {returned} returned, {:?}", sum(&entries), session.engine().user_counts());
    assert!(sum(&entries) > 1_000, "{name}");
    assert!(returned <= entered && entered - returned < entered / 50 + 200, "{name}: {entered} calls, {returned} returned");
}

/// 64-bit kernels whose CPU core runs 32-bit programs, and the kernel whose busybox they get.
const NARROW: [([&str; 2], Option<&str>); 4] = [
    (["debian/amd64", "debian/i386"], None),
    (["debian/amd64", "debian/i386"], Some("intel")),
    (["debian/mips64el", "debian/mipsel"], None),
    (["debian/arm64", "debian/armhf"], None),
];

fn main() -> ExitCode {
    let debian = || harness::guests::stock().filter(|name| name.starts_with("debian/"));
    // Other kernels know a file by its content, so a copy of busybox is busybox.
    let with_types = || {
        harness::guests::stock_in(Family::OwnUprobes)
            .filter(|name| debian().any(|of| of == *name) && facts_of(name).types.is_some())
    };
    let narrow = NARROW.into_iter().map(|(pair, cpu)| {
        let on = cpu.map_or(String::new(), |cpu| format!("_on_{cpu}"));
        let name = harness::member(&format!("programs_of_32_bits_are_probed{on}"), pair[0]);
        let test = harness::Test::new(name, move || programs_of_32_bits_are_probed(pair, cpu));
        pair.into_iter().fold(test, |test, kernel| test.needs(harness::kernel(kernel)))
    });
    let apart = ["debian/arm64", "debian/armhf"];
    let name = harness::member("a_32_bit_program_continues_from_a_snapshot", apart[0]);
    let saved = harness::Test::new(name, move || a_32_bit_program_continues_from_a_snapshot(apart))
        .needs(harness::kernel(apart[0]))
        .needs(harness::kernel(apart[1]));
    // Each kernel with the program of its own ISA, and with those of 32 bits that it runs too.
    let own = harness::guests::stock_in(Family::Calls)
        .filter(|name| name.starts_with("debian/"))
        .map(|name| [name, name.strip_prefix("debian/").unwrap_or_default()]);
    let others = [
        ["debian/amd64", "i386"],
        ["debian/mips64el", "mipsel"],
        ["debian/mips64el", "mipsn32"],
        ["debian/s390x", "s390"],
        ["debian/arm64", "armhf"],
    ];
    let pairs: Vec<[&'static str; 2]> = own.chain(others).collect();
    let stores = pairs.clone().into_iter().map(|pair| {
        let [kernel, isa] = pair;
        let name = format!("{}_{isa}", harness::member("stores_of_a_program_are_seen_with_its_task", kernel));
        harness::Test::new(name, move || stores_of_a_program_are_seen_with_its_task(pair)).needs(harness::kernel(kernel))
    });
    let ends = pairs.into_iter().map(|pair| {
        let [kernel, isa] = pair;
        let family = if kernel.ends_with(isa) { String::new() } else { format!("_of_{isa}") };
        let name = harness::member(&format!("calls{family}_that_end_in_any_way_are_seen"), kernel);
        harness::Test::new(name, move || calls_that_end_in_any_way_are_seen(pair)).needs(harness::kernel(kernel))
    });
    harness::run([
        ends.collect(),
        stores.collect(),
        each!(
            debian(),
            programs_run_the_same_with_every_function_probed,
            each_program_starts_once,
            lines_and_scripts_probe_programs
        ),
        vec![
            harness::Test::new(harness::member("scripts_of_debian_that_probe_programs_run", "debian/amd64"), || {
                scripts_of_debian_that_probe_programs_run("debian/amd64")
            })
            .needs(harness::kernel("debian/amd64"))
            .needs(tools::tools()),
        ],
        each!(with_types(), hits_equal_those_of_the_guests_own_uprobes),
        narrow.collect(),
        vec![saved],
    ])
}
