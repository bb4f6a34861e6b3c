//! Disks of stock kernels. A guest reads and writes a file system on a disk. The run with probes is the same, the file
//! on the host does not change, and a snapshot contains the written blocks.
//!
//! The tests need kernels with their modules (`trapline images pull --modules`) and mkfs.ext4. Otherwise they are
//! skipped.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use trapline::boards;
use trapline::boot::{Kernel, initramfs};
use trapline::devices::virtio::{Attached, blk::Disk};
use trapline::disks;
use trapline::machine::{Config, Machine, Stop};
use trapline::probed::Session;
use trapline_harness::{self as harness, Folder, Test};
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::stock::modules_of;
use trapline_tests::{Run, assert_same};

const LONG: u64 = 60_000_000_000;
/// The stock kernels whose boards have disks.
#[rustfmt::skip]
const GUESTS: &[&str] = &[
    "debian/s390x", "debian/arm64", "debian/amd64", "debian/i386", "debian/armhf", "debian/riscv64", "debian/mipsel", "debian/mips64el",
];
/// Those among them that continue from a snapshot: one of each transport and board.
const SAVED: &[&str] = &["debian/s390x", "debian/arm64", "debian/amd64", "debian/mipsel"];
/// The modules of the drivers and of the file system. A kernel without one of them has it built in.
const MODULES: &[&str] = &["virtio_mmio", "virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// Writes 64 MiB, drops every cache, and reads them back.
const SCRIPT: &str = "
mkdir -p /mnt
mount -t ext4 /dev/vda /mnt || exit 1
cat /mnt/hello
i=0; while [ $i -lt 512 ]; do echo line $i of what is written to the disk and read again; i=$((i+1)); done > /tmp/k
i=0; while [ $i -lt 38 ]; do cat /tmp/k; i=$((i+1)); done > /tmp/m
i=0; while [ $i -lt 64 ]; do cat /tmp/m; i=$((i+1)); done > /mnt/data
md5sum < /mnt/data
umount /mnt
echo the disk was written
echo 3 > /proc/sys/vm/drop_caches
mount -t ext4 /dev/vda /mnt || exit 2
md5sum < /mnt/data
dd if=/dev/zero of=/dev/vdb count=1 2>/dev/null && exit 3
umount /mnt
exit 7
";

/// Writes 8 MiB on one CPU while another one reads them, and prints the disk's interrupts.
const ON_TWO_CPUS: &str = "
mkdir -p /mnt
mount -t ext4 /dev/vda /mnt || exit 1
taskset 2 dd if=/dev/urandom of=/tmp/data bs=64k count=128 2>/dev/null
taskset 1 cp /tmp/data /mnt/data; taskset 2 sync
echo 3 > /proc/sys/vm/drop_caches
[ \"$(taskset 1 md5sum < /mnt/data)\" = \"$(taskset 2 md5sum < /tmp/data)\" ] || exit 2
taskset 2 dd if=/dev/vdb of=/dev/null bs=64k count=64 2>/dev/null || exit 3
umount /mnt
grep -i -e virtio -e 'virtual i/o' /proc/interrupts
echo complaints $(dmesg | grep -c -i -e buggy -e stall -e 'i/o error' -e 'call trace' -e 'nobody cared')
exit 7
";

struct Stock {
    kernel: Kernel,
    config: Config,
    image: Vec<u8>,
    folder: Folder,
}

/// The kernel of that name with its drivers, and a new file system on two disks: a writable and a read-only one.
fn stock(name: &str, script: &str) -> Stock {
    let found = harness::stock_with(name, |local| local.module("virtio_blk").is_some());
    let read = |path: PathBuf| std::fs::read(path).expect("its file");
    let kernel = Kernel::from_bytes(&read(found.local.kernel.clone())).expect("a kernel");
    let files = modules_of(&found.local, MODULES);
    let folder = Folder::new(&format!("disks-{}", found.stock.flavour));
    let (tree, image) = (folder.0.join("tree"), folder.0.join("image"));
    std::fs::create_dir_all(&tree).expect("a folder");
    std::fs::write(tree.join("hello"), "hello from the base\n").expect("written");
    std::fs::File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("a file");
    let made = Command::new("mkfs.ext4").args(["-q", "-F", "-d"]).args([&tree, &image]).status().expect("mkfs.ext4 runs");
    assert!(made.success(), "{name}: mkfs.ext4");
    let disk = |read_only| Attached::Disk(Disk { base: disks::open(&image).expect("a disk"), read_only });
    let config = Config {
        command_line: found.stock.command_line.into(),
        initrd: Some(Arc::from(initramfs::with_busybox(&read(found.busybox), Some(script.as_bytes()), &files))),
        attached: vec![disk(false), disk(true)],
        record_events: true,
        ..Config::default()
    };
    Stock { kernel, config, image: read(image), folder }
}

fn finished(session: &mut Session, stop: Stop) -> Run {
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.take_happenings() }
}

/// The words of md5sum on a console.
fn sums(console: &str) -> Vec<&str> {
    console.lines().filter_map(|line| line.trim_end().strip_suffix("  -")).collect()
}

/// DK-1, DK-2, DK-6
fn a_disk_is_written_and_the_probed_run_is_the_same(name: &'static str) {
    let stock = stock(name, SCRIPT);
    let mut plain = Session::new(stock.kernel.clone(), &stock.config).expect("a machine");
    let stop = plain.run_until(LONG);
    let plain = finished(&mut plain, stop);
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}: {}", plain.console);
    let sums = sums(&plain.console);
    assert!(sums.len() == 2 && sums[0] == sums[1], "{name}: {}", plain.console);
    assert!(plain.console.contains("hello from the base"), "{name}: {}", plain.console);

    let mut probed = Session::new(stock.kernel.clone(), &stock.config).expect("a machine");
    let places = ["submit_bio", "vfs_write", "vfs_read", "bio_endio", "handle_mm_fault", "schedule"];
    let probes: Vec<Kprobe> = places.iter().map(|place| Kprobe::at(*place).pre(|_| Flow::Continue)).collect();
    for probe in &probes {
        probed.register_kprobe(probe).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let stop = probed.run_until(LONG);
    let seen = finished(&mut probed, stop);
    assert_same(name, &plain, &seen);
    assert!(probes.iter().all(|probe| probe.hits() > 0), "{name}");
    assert!(std::fs::read(stock.folder.0.join("image")).expect("the file") == stock.image, "{name}: the base was written");
}

/// DK-1, CP-1: a disk works on two CPUs, where a PC's IO-APIC sends its interrupts and any s390 CPU takes them, and the run with probes is the same.
fn a_disk_works_on_two_cpus(name: &'static str) {
    let mut stock = stock(name, ON_TWO_CPUS);
    stock.config.cpus = 2;
    let mut plain = Session::new(stock.kernel.clone(), &stock.config).expect("a machine");
    let stop = plain.run_until(LONG);
    let plain = finished(&mut plain, stop);
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}: {}", plain.console);
    assert!(plain.console.contains("complaints 0"), "{name}: {}", plain.console);
    let lines = plain.console.lines().filter(|line| line.contains("virtio") || line.contains("Virtual I/O")).count();
    assert!(lines >= 2, "{name}: {}", plain.console);
    if ["debian/amd64", "debian/i386"].contains(&name) {
        assert_eq!(plain.console.matches("-fasteoi   virtio").count(), 2, "{name}: by level\n{}", plain.console);
    }
    let mut probed = Session::new(stock.kernel.clone(), &stock.config).expect("a machine");
    let probes = ["submit_bio", "bio_endio", "schedule"].map(|place| Kprobe::at(place).pre(|_| Flow::Continue));
    for probe in &probes {
        probed.register_kprobe(probe).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let stop = probed.run_until(LONG);
    let seen = finished(&mut probed, stop);
    assert_same(name, &plain, &seen);
    assert!(probes.iter().all(|probe| probe.hits() > 0), "{name}");
}

/// Runs a machine to its end.
fn finished_alone(machine: &mut Machine<()>) -> (Stop, u64, String) {
    let stop = machine.run_until(LONG);
    (stop, machine.time(), String::from_utf8_lossy(&machine.take_console()).into_owned())
}

/// DK-4
fn a_snapshot_continues_with_the_written_disk(name: &'static str) {
    let stock = stock(name, SCRIPT);
    let mut machine = Machine::new(&stock.kernel, &stock.config, |_| ()).expect("a machine");
    machine.stop_at_console_text(Some("the disk was written"));
    assert_eq!(machine.run_until(LONG), Stop::ConsoleText, "{name}: {}", String::from_utf8_lossy(machine.console()));
    let snapshot = machine.snapshot().expect("a snapshot");
    let continued = finished_alone(&mut machine);
    assert_eq!(continued.0, Stop::PowerOff(7), "{name}: {}", continued.2);
    let sums = sums(&continued.2);
    assert!(sums.len() == 2 && sums[0] == sums[1], "{name}: {}", continued.2);

    let mut restored = Machine::from_snapshot(&stock.kernel, &stock.config, &snapshot, |_| ()).expect("a machine");
    assert_eq!(finished_alone(&mut restored), continued, "{name}");

    let without = Config { attached: Vec::new(), ..stock.config };
    let refused = Machine::from_snapshot(&stock.kernel, &without, &snapshot, |_| ()).map(|_| ()).expect_err("other disks");
    assert!(refused.to_string().contains("virtio devices"), "{name}: {refused}");
}

fn main() -> ExitCode {
    let with = |family: &str, test: fn(&'static str), name: &'static str| {
        let kernel = harness::complete(name, "--modules ", |local| local.module("virtio_blk").is_some());
        Test::new(harness::member(family, name), move || test(name)).needs(kernel).needs(harness::tool("mkfs.ext4", "e2fsprogs"))
    };
    assert!(boards::virtio_modules("virt").is_some(), "the boards of these guests have disks");
    let same = "a_disk_is_written_and_the_probed_run_is_the_same";
    let continued = "a_snapshot_continues_with_the_written_disk";
    let several = "a_disk_works_on_two_cpus";
    harness::run([
        GUESTS.iter().map(|name| with(same, a_disk_is_written_and_the_probed_run_is_the_same, name)).collect(),
        GUESTS[..4].iter().map(|name| with(several, a_disk_works_on_two_cpus, name)).collect(),
        SAVED.iter().map(|name| with(continued, a_snapshot_continues_with_the_written_disk, name)).collect(),
    ])
}
