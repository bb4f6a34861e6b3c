//! Armed everywhere: each address of the oracle's tables that may be probed is, on a stock kernel at its shell, while a script is busy.
//!
//! Needs the tables and the kernels (tests/src/oracle.rs); where they are not at hand it says so and is content.

use trapline::boot::Kernel;
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline::still::StillGuest;
use trapline_probes::Engine;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::oracle::{self, ORACLES, Row};
use trapline_tests::stock::AtShell;
use trapline_tests::{LONG, Run, assert_same};

/// Lines for the shell, none longer than it takes from a terminal. Each turn forks, pipes, signals, compresses, makes, links, moves and removes
/// files, mounts, reads of `/proc` and `/sys`, and talks over the loopback device; so wherever a batch is armed it meets all of that. All
/// that it says goes into one sum; then it ends the guest.
const SCRIPT: &[u8] = b"t() {
cd /tmp; seq 1 80 | gzip -9 | gunzip | md5sum; mkdir -p d/e; cp /init d/x; ln -s x d/l; ln d/x d/h; mv d/x d/z; chmod 4755 d/z;
chown 1:1 d/z; touch d/e/n; cat d/h d/l; dd if=/dev/zero of=d/big bs=4k count=40; dd if=d/big of=d/big bs=512 seek=3 count=9 conv=notrunc; sync;
stat -f d; mkfifo d/f; cat d/f & echo fifo > d/f; wait; mknod d/c c 1 9; head -c 9 d/c; find d | sort; du d; rm -r d;
mkdir -p m; mount -t tmpfs -o size=1m t m; echo x > m/x; cat m/x; mount -o remount,ro m; echo y > m/y; mount -o bind m m; umount m; umount m; df; mount;
cat /proc/meminfo /proc/stat /proc/vmstat /proc/zoneinfo /proc/interrupts /proc/self/maps /proc/self/smaps /proc/self/stat /proc/self/mountinfo \\
/proc/iomem /proc/net/dev /proc/net/route /proc/net/unix /proc/slabinfo /proc/timer_list /proc/locks | md5sum; ls -l /proc/sys/kernel /proc/self/fd /sys/kernel | md5sum;
cat /sys/devices/system/cpu/* /proc/sys/kernel/* | md5sum; echo 5 > /proc/sys/vm/swappiness; echo 3 > /proc/sys/vm/drop_caches; ulimit -n 200;
ifconfig lo 127.0.0.1 up; ping -c 1 -w 1 127.0.0.1; nc -l -p 99 -w 1 & usleep 9000; echo tcp | nc -w 1 127.0.0.1 99; wait; ifconfig -a; route; netstat -an; ip addr; ip route; arp;
sleep 9 & kill -STOP $!; kill -CONT $!; kill $!; wait; sh -c 'trap true USR1; kill -USR1 $$'; sh -c 'kill -SEGV $$'; setsid true; taskset 1 true;
(exec < /dev/null; read x); ps; uptime; free; dmesg | tail -1; hostname h; unshare -m true; timeout 1 sleep 0.01; date; usleep 3000; cd /
}
for i in $(seq 1 6); do t; done 2>&1 | md5sum; exit 9\n";

/// Rows that are armed together.
const BATCH: usize = 500;

enum Probe {
    Entry(Kprobe),
    Back(Kretprobe),
}

impl Probe {
    fn of(row: &Row) -> Probe {
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

/// Whether the row may be probed, by itself, in a still copy of the booted kernel.
fn is_accepted(live: &Kernel, guest: &mut StillGuest<'_>, row: &Row) -> bool {
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

/// KP-1, KP-13, RP-1, BY-4
#[test]
fn every_row_that_may_be_probed_is_armed_under_a_busy_script_and_taken_back() {
    for oracle in ORACLES {
        let name = oracle.name;
        let Some(table) = oracle::table(&format!("{name}-direct.open.tsv.gz")) else {
            println!("{name}: skipped: its tables are not there");
            continue;
        };
        let Some(stock) = oracle::at_shell(oracle) else { continue };
        let started = stock.session().machine().now();
        let mut plain = busy(&stock);
        let unprobed = end(&mut plain);
        assert_eq!(unprobed.0.stop, Stop::PowerOff(9), "{name}: {}", unprobed.0.console);
        let lasts = plain.machine().now() - started;

        let rows = oracle::rows(&table);
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
}
