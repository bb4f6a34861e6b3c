//! Arms every probe that the oracle's tables allow, on a stock kernel at its shell, while a script keeps the guest
//! busy. Afterwards the run and all of RAM must equal those of an unprobed run.
//!
//! Needs the tables and the kernels (tests/src/oracle.rs). A kernel that is missing is counted as skipped.

use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline::still::StillGuest;
use trapline_harness::{self as harness, Test};
use trapline_probes::Engine;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::oracle::{self, ORACLES, Oracle, OracleRow};
use trapline_tests::stock::AtShell;
use trapline_tests::{LONG, Run, assert_same};

/// The script forks, pipes, reads, writes, compresses, sleeps and prints one line. Then it ends the guest.
const SCRIPT: &[u8] = b"work() { for i in 1 2 3 4; do seq 1 400 | gzip -9 | gunzip | md5sum; ls -lR /proc/sys/kernel | wc -c; mkdir -p /tmp/$i; cp /init /tmp/$i/x; cat /proc/version /proc/filesystems > /tmp/$i/y; sleep 0.01; done; find /tmp -type f | sort | xargs md5sum; }; work | md5sum; exit 9\n";

/// Number of rows that are armed at the same time.
const BATCH: usize = 500;

enum Probe {
    Entry(Kprobe),
    Back(Kretprobe),
}

impl Probe {
    fn of(row: &OracleRow) -> Probe {
        let entry = || Kprobe::at_address(row.address).pre(|_| Flow::Continue);
        match &*row.kind {
            "r" => Probe::Back(Kretprobe::at_address(row.address).maxactive(64).handler(|_| ())),
            "q" => Probe::Entry(entry().post(|_| ())),
            _ => Probe::Entry(entry()),
        }
    }

    fn register(&self, session: &mut Session) -> bool {
        match self {
            Probe::Entry(probe) => session.register_kprobe(probe).is_ok(),
            Probe::Back(probe) => session.register_kretprobe(probe).is_ok(),
        }
    }

    fn unregister(&self, session: &mut Session) {
        match self {
            Probe::Entry(probe) => session.unregister_kprobe(probe),
            Probe::Back(probe) => session.unregister_kretprobe(probe),
        }
    }

    fn hits(&self) -> u64 {
        match self {
            Probe::Entry(probe) => probe.hits(),
            Probe::Back(probe) => probe.hits(),
        }
    }
}

/// Whether the row may be probed alone, in a stopped copy of the booted kernel.
fn is_accepted(live: &Kernel, guest: &mut StillGuest<'_>, row: &OracleRow) -> bool {
    let mut engine = Engine::new(live.arch.isa(), 1);
    match Probe::of(row) {
        Probe::Entry(probe) => {
            let accepted = engine.register_kprobe(guest, &probe).is_ok();
            engine.unregister_kprobe(guest, &probe);
            accepted
        }
        Probe::Back(probe) => {
            let accepted = engine.register_kretprobe(guest, &probe).is_ok();
            engine.unregister_kretprobe(guest, &probe);
            accepted
        }
    }
}

fn busy(stock: &AtShell) -> Session {
    let mut session = stock.session();
    session.machine_mut().take_console();
    session.machine_mut().console_input(SCRIPT);
    session
}

fn end(session: &mut Session) -> (Run, Vec<u8>) {
    let stop = session.run_until(60 * LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    let mut ram = vec![0; machine.guest_ram_bytes() as usize];
    assert!(machine.ram().read(machine.ram().base(), &mut ram));
    (Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }, ram)
}

/// The rows of the kernel's table, and the kernel at its shell.
fn rows_and_guest(oracle: &Oracle) -> (Vec<OracleRow>, AtShell) {
    let table = oracle::table(&format!("{}-direct.open.tsv.gz", oracle.name)).expect("the test needs it");
    (oracle::rows(&table), oracle::at_shell(oracle).expect("a machine boots it"))
}

/// KP-1, KP-13, RP-1, BY-4
fn every_allowed_row_can_be_armed_under_a_busy_script(oracle: &Oracle) {
    let name = oracle.name;
    let (rows, stock) = rows_and_guest(oracle);
    let started = stock.session().machine().now();
    let mut plain = busy(&stock);
    let unprobed = end(&mut plain);
    assert_eq!(unprobed.0.stop, Stop::PowerOff(9), "{name}: {}", unprobed.0.console);
    let lasts = plain.machine().now() - started;

    let live = stock.snapshot.live(&stock.kernel);
    let mut still = StillGuest::booted(&live);
    let accepted: Vec<bool> = rows.iter().map(|row| is_accepted(&live, &mut still, row)).collect();
    let numbers: Vec<usize> = (0..rows.len()).collect();
    let batches: Vec<&[usize]> = numbers.chunks(BATCH).collect();
    let mut session = busy(&stock);
    let (mut armed, mut hit, mut hits) = (0, 0, 0);
    for (number, batch) in batches.iter().enumerate() {
        let mut probes = Vec::new();
        for row in *batch {
            let probe = Probe::of(&rows[*row]);
            let registered = probe.register(&mut session);
            assert_eq!(registered, accepted[*row], "{name}: {:#x} {}", rows[*row].address, rows[*row].kind);
            probes.extend(registered.then_some(probe));
        }
        let until = started + lasts * (number as u64 + 1) / (batches.len() as u64 + 1);
        assert_eq!(session.run_until(until), Stop::Limit, "{name}: batch {number}");
        probes.iter().for_each(|probe| probe.unregister(&mut session));
        armed += probes.len();
        hit += probes.iter().filter(|probe| probe.hits() > 0).count();
        hits += probes.iter().map(Probe::hits).sum::<u64>();
    }
    assert_eq!(session.with_engine(|engine, guest| engine.summary(guest).len()), 0, "{name}: all are taken back");
    let probed = end(&mut session);
    println!("{name}: {armed} of {} rows armed, {hit} of them hit, {hits} hits, in {lasts} ns of guest time", rows.len());
    assert_same(name, &unprobed.0, &probed.0);
    let first = unprobed.1.iter().zip(&probed.1).position(|(one, other)| one != other);
    assert_eq!(first, None, "{name}: the first byte of RAM that differs");
    assert!(armed > rows.len() / 2 && hit >= 5 && hits > 500, "{name}: {armed} armed, {hit} hit, {hits} hits");
}

/// KP-1, BY-4: the rows that crashed the oracle's guests under Linux's own probes. Each is refused, or is hit without
/// harm.
fn rows_that_crash_under_linux_are_refused_or_harmless(oracle: &Oracle) {
    let name = oracle.name;
    let (mut rows, stock) = rows_and_guest(oracle);
    rows.retain(|row| row.result == "crash");
    let mut session = busy(&stock);
    let probes: Vec<(&OracleRow, Probe)> = rows.iter().map(|row| (row, Probe::of(row))).collect();
    let accepted: Vec<_> = probes.iter().filter(|(_, probe)| probe.register(&mut session)).collect();
    println!("{name}: {} of {} rows that a guest died of are accepted", accepted.len(), rows.len());
    if accepted.is_empty() {
        return;
    }
    let (probed, plain) = (end(&mut session), end(&mut busy(&stock)));
    assert_same(name, &plain.0, &probed.0);
    for (row, probe) in accepted {
        let (symbol, offset, hits) = (&row.symbol, row.offset, probe.hits());
        println!("{name}: {symbol}+{offset:#x} `{}`: {hits} hits", row.insn);
        assert!(hits > 0, "{name}: {symbol}+{offset:#x}");
    }
}

fn main() -> ExitCode {
    // Some tables are of kernels that no machine boots. Only the conformance tests use those.
    let booted = || ORACLES.iter().filter(|oracle| oracle.stock.is_some());
    let test = |family: &str, oracle: &'static Oracle, test: fn(&Oracle)| {
        Test::new(harness::member(family, oracle.name), move || test(oracle)).needs(oracle::need(oracle))
    };
    let every_row = every_allowed_row_can_be_armed_under_a_busy_script;
    let deadly_rows = rows_that_crash_under_linux_are_refused_or_harmless;
    harness::run([
        booted().map(|oracle| test("every_allowed_row_can_be_armed", oracle, every_row)).collect(),
        booted().map(|oracle| test("rows_that_crash_under_linux_are_refused_or_harmless", oracle, deadly_rows)).collect(),
    ])
}
