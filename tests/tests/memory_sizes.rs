//! Stock kernels on much memory. The kernel finds all of it, on x86 with a hole for the devices below 4 GiB, and probes do
//! not change the run.
//!
//! If a kernel is not on this computer, its tests are skipped.

use std::process::ExitCode;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::{self as harness, Test};
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::{assert_same, run};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// The kernels with the sizes that are tested. On x86, 3 GiB fit below the hole and a page more does not. On
/// z/Architecture, a table ends at each multiple of 2 GiB: in the middle of the probe window, or in front of it.
const GUESTS: &[(&str, &[u64])] = &[
    ("debian/amd64", &[3 * GIB + 2 * MIB, 8 * GIB]),
    ("debian/arm64", &[8 * GIB]),
    ("debian/ppc64el", &[8 * GIB]),
    ("debian/riscv64", &[8 * GIB]),
    ("debian/s390x", &[8 * GIB - 4 * MIB, 8 * GIB]),
];

/// Prints the memory that the kernel has found, and uses some of it.
const SCRIPT: &str = "
grep MemTotal /proc/meminfo
dd if=/dev/zero of=/tmp/zeros bs=1M count=32 2>/dev/null
md5sum < /tmp/zeros
exit 7
";

/// MM-1: the kernel has the memory that was asked for but for what it keeps for itself, and the run is the same with
/// probes.
fn has_its_memory(name: &'static str, bytes: u64) {
    let found = harness::stock(name);
    let kernel = Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel");
    let busybox = std::fs::read(found.busybox).expect("busybox");
    let initrd = initramfs::with_busybox(&busybox, Some(SCRIPT.as_bytes()), &[]).into();
    let command_line = found.stock.command_line.into();
    let config = Config { command_line, initrd: Some(initrd), ram: Some(bytes), record_events: true, ..Config::default() };
    let session = || Session::new(kernel.clone(), &config).expect("a machine");
    let plain = run(&mut session());
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}:\n{}", plain.console);
    let total = plain.console.split("MemTotal:").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("it says");
    let kib: u64 = total.parse().expect("a number");
    assert!((bytes * 9 / 10..bytes).contains(&(kib << 10)), "{name}: {kib} KiB of {} KiB", bytes >> 10);

    let mut probed = session();
    let entry = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
    let back = Kretprobe::at("vfs_write").maxactive(64).handler(|_| ());
    probed.register_kprobe(&entry).unwrap_or_else(|why| panic!("{name}: {why}"));
    probed.register_kretprobe(&back).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_same(name, &plain, &run(&mut probed));
    assert!(entry.hits() > 40 && back.hits() > 10, "{name}: {} and {} hits", entry.hits(), back.hits());
}

fn main() -> ExitCode {
    let sizes = GUESTS.iter().flat_map(|(name, sizes)| sizes.iter().map(move |bytes| (*name, *bytes)));
    let test = |(name, bytes): (&'static str, u64)| {
        Test::new(format!("has_its_memory::{}_{}m", name.replace('/', "_"), bytes / MIB), move || has_its_memory(name, bytes))
            .needs(harness::kernel(name))
    };
    harness::run([sizes.map(test).collect()])
}
