//! `--net` in stock kernels: init gets an address by DHCP, and programs reach the closed network's servers. A run repeats, is
//! the same under probes, and continues from a snapshot in the middle of a connection.
//!
//! Needs kernels with their modules (`trapline images pull --modules`); without them a test is skipped.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::devices::virtio::{Attached, net::Card};
use trapline::machine::{Config, Machine, Stop};
use trapline::probed::Session;
use trapline::{folders, network};
use trapline_harness::{self as harness, Folder, Test};
use trapline_probes::probe::Kprobe;
use trapline_tests::stock::modules_of;
use trapline_tests::{Run, assert_same, probes_among};

const LONG: u64 = 60_000_000_000;
#[rustfmt::skip]
const GUESTS: &[&str] = &[
    "debian/s390x", "debian/amd64", "debian/arm64", "debian/i386", "debian/armhf", "debian/riscv64", "debian/mipsel", "debian/mips64el",
];
const MODULES: &[&str] = &["virtio_mmio", "virtio_pci", "virtio_net"];
/// The smallest number of probes that are armed in the probed run.
const PROBES: usize = 1000;

const SCRIPT: &str = "
ip -4 addr show eth0 | grep inet
ip route
cat /etc/resolv.conf
ping -c 2 -W 1 10.0.2.2 | grep received
nslookup www.trapline.internal 10.0.2.3 | grep -A 1 www
nslookup example.org 10.0.2.3 2>&1 | grep -q NXDOMAIN && echo there is no such name
wget -q -O - http://10.0.2.2/sub/note || exit 3
wget -q -O - http://10.0.2.2/ | grep -c href
echo the network is up
wget -q -O /tmp/large http://10.0.2.2/large && md5sum < /tmp/large
wget -q -O - http://10.0.2.2/link 2>&1
wget -q -O - http://10.0.2.2/../secret 2>&1
wget -q -O - http://192.0.2.1/ 2>&1 | grep -c unreachable
i=0; while [ $i -lt 20 ]; do wget -q -O /dev/null http://10.0.2.2/sub/note || exit 4; i=$((i+1)); done
echo complaints $(dmesg | grep -c -i -e stall -e 'call trace' -e 'nobody cared' -e 'tx hang')
exit 7
";

struct Stock {
    kernel: Kernel,
    config: Config,
    _folder: Folder,
}

fn stock(name: &str) -> Stock {
    let found = harness::stock_with(name, |local| local.module("virtio_net").is_some());
    let read = |path: PathBuf| fs::read(path).expect("its file");
    let folder = Folder::new(&format!("networks-{}", found.stock.flavour));
    let www = folder.0.join("www");
    fs::create_dir_all(www.join("sub")).expect("a folder");
    fs::write(www.join("sub/note"), "a note of the host\n").expect("written");
    fs::write(folder.0.join("secret"), "the secret\n").expect("written");
    symlink("../secret", www.join("link")).expect("a link");
    let large: Vec<u8> = (0..3_000_000u32).map(|at| ((at / 3) ^ (at >> 11)) as u8).collect();
    fs::write(www.join("large"), large).expect("written");
    let network = network::closed(Some(folders::open_folder(&www).expect("a folder")));
    let devices = initramfs::Devices { has_network: true, ..initramfs::Devices::default() };
    let files = modules_of(&found.local, MODULES);
    let archive = initramfs::with_devices(&read(found.busybox.clone()), Some(SCRIPT.as_bytes()), &files, &devices);
    let config = Config {
        command_line: found.stock.command_line.into(),
        initrd: Some(Arc::from(archive)),
        attached: vec![Attached::Network(Card { network })],
        record_events: true,
        ..Config::default()
    };
    Stock { kernel: Kernel::from_bytes(&read(found.local.kernel.clone())).expect("a kernel"), config, _folder: folder }
}

fn finished(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.take_happenings() }
}

/// The md5 sum of the large file.
const SUM: &str = "08e4342e99dc58ac2db69a6097641ad4  -";

/// NW-1, NW-3
fn a_guest_is_in_a_network_the_same_under_probes(name: &'static str) {
    let stock = stock(name);
    let run = |probes: &[Kprobe]| {
        let mut session = Session::new(stock.kernel.clone(), &stock.config).expect("a machine");
        let armed = probes.iter().filter(|probe| session.register_kprobe(probe).is_ok()).count();
        (finished(&mut session), armed)
    };
    let (plain, _) = run(&[]);
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}: {}", plain.console);
    let says = |text: &str| assert!(plain.console.contains(text), "{name}: `{text}` is not in\n{}", plain.console);
    [
        "inet 10.0.2.15/24",
        "default via 10.0.2.2 dev eth0",
        "search trapline.internal\r\nnameserver 10.0.2.3",
        "2 packets received",
        "10.0.2.2\r\nthere is no such name\r\na note of the host\r\n2\r\nthe network is up\r\n",
        SUM,
        "complaints 0",
    ]
    .into_iter()
    .for_each(says);
    assert!(!plain.console.contains("the secret"), "{name}: {}", plain.console);
    let (again, _) = run(&[]);
    assert_same(name, &plain, &again);

    let probes = probes_among(&stock.kernel, &["tcp_", "ip_", "udp_", "dev_", "sock_", "skb_"], PROBES);
    let (probed, armed) = run(&probes);
    assert_same(name, &plain, &probed);
    let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
    assert!(armed >= PROBES && hit > 100, "{name}: {armed} probes, {hit} hit");
}

/// NW-4: the snapshot is made while the large file is on its way.
fn a_snapshot_continues_in_a_connection(name: &'static str) {
    const ON_ITS_WAY: u64 = 3_000_000;
    let stock = stock(name);
    let mut machine = Machine::new(&stock.kernel, &stock.config, |_| ()).expect("a machine");
    machine.stop_at_console_text(Some("the network is up"));
    assert_eq!(machine.run_until(LONG), Stop::ConsoleText, "{name}: {}", String::from_utf8_lossy(machine.console()));
    machine.stop_at_console_text(None);
    let until = machine.now() + ON_ITS_WAY;
    assert_eq!(machine.run_until(until), Stop::Limit, "{name}");
    let snapshot = machine.snapshot().expect("a snapshot");
    let end = |machine: &mut Machine<()>| {
        let stop = machine.run_until(LONG);
        (stop, machine.time(), String::from_utf8_lossy(&machine.take_console()).into_owned())
    };
    let continued = end(&mut machine);
    assert!(continued.0 == Stop::PowerOff(7) && continued.2.contains(SUM), "{name}: {}", continued.2);
    let mut restored = Machine::from_snapshot(&stock.kernel, &stock.config, &snapshot, |_| ()).expect("a machine");
    assert_eq!(end(&mut restored), continued, "{name}");

    let other = Config { attached: vec![Attached::Network(Card { network: network::closed(None) })], ..stock.config };
    let refused = Machine::from_snapshot(&stock.kernel, &other, &snapshot, |_| ()).map(|_| ()).expect_err("another network");
    assert!(refused.to_string().contains("network has other contents"), "{name}: {refused}");
}

fn main() -> ExitCode {
    let with = |family: &str, test: fn(&'static str), name: &'static str| {
        let kernel = harness::complete(name, "--modules ", |local| local.module("virtio_net").is_some());
        Test::new(harness::member(family, name), move || test(name)).needs(kernel)
    };
    let same = "a_guest_is_in_a_network_the_same_under_probes";
    let continued = "a_snapshot_continues_in_a_connection";
    harness::run([
        GUESTS.iter().map(|name| with(same, a_guest_is_in_a_network_the_same_under_probes, name)).collect(),
        GUESTS[..3].iter().map(|name| with(continued, a_snapshot_continues_in_a_connection, name)).collect(),
    ])
}
