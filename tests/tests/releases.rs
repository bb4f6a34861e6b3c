//! Compares the decisions of the policies `linux-6.12` and `linux-7.2` with those of these kernels on RISC-V, address by
//! address. The tables (../shared/oracle) hold what the kernels answered through the tracing interface.
//!
//! Each kernel is booted to its shell here, because it patches its text: 6.12 makes two nops of 4 bytes out of the four
//! compressed ones at a function's start. Needs the tables and the kernels, in `TRAPLINE_IMAGES` or ../shared/kernels.

use std::process::ExitCode;
use trapline::boot::Kernel;
use trapline::still::StillGuest;
use trapline_harness::{self as harness, Need, Test, tests};
use trapline_isa::plan::Policy;
use trapline_probes::Engine;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::oracle::{self, OracleRow, file_of};
use trapline_tests::stock;

/// A kernel with a table: its release, its file, and the policy that decides as it does.
struct Release {
    name: &'static str,
    file: &'static str,
    policy: Policy,
}

const RELEASES: [Release; 2] = [
    Release {
        name: "6.12.107+deb13-riscv64",
        file: "6.12.107+deb13-riscv64/vmlinux-6.12.107+deb13-riscv64",
        policy: Policy::LINUX_6_12,
    },
    Release {
        name: "7.2.13+deb14-riscv64",
        file: "7.2.13+deb14-riscv64/vmlinuz-7.2.13+deb14-riscv64",
        policy: Policy::LINUX_7_2,
    },
];
const BUSYBOX: &str = "busybox/busybox-riscv64";
const STOCK: &str = "debian/riscv64";

/// Decides on each row of a kernel's table.
fn decisions_are_those_of_the_release(release: &Release) {
    let Release { name, file, policy } = *release;
    let rows = oracle::rows(&oracle::table(&format!("{name}.open.tsv.gz")).expect("the table"));
    let path = file_of(file).expect("the kernel");
    let kernel = Kernel::from_bytes(&std::fs::read(&path).expect("the kernel's file")).expect("a kernel");
    let stock = trapline_images::stocks().iter().find(|stock| stock.name == STOCK).expect("its row");
    let live = stock::live(stock, &kernel, &path, &file_of(BUSYBOX).expect("the busybox"));
    let mut guest = StillGuest::booted(&live);
    let (mut compared, mut of_the_tracer) = (0, 0);
    let mut wrong = Vec::new();
    for row in rows.iter().filter(|row| row.result != "deferred") {
        let ours = answer(&live, &mut guest, policy, row);
        compared += 1;
        if ours == row.result {
            continue;
        }
        // The tracing interface refuses functions without a site of ftrace before it asks for a probe.
        if row.notrace && row.result == "EINVAL" && ours == "ok" {
            of_the_tracer += 1;
            continue;
        }
        wrong.push(format!(
            "{:#x} {} {}+{:#x} `{}`: theirs {}, ours {ours}",
            row.address, row.kind, row.symbol, row.offset, row.insn, row.result
        ));
    }
    println!("{name}: {compared} rows, {of_the_tracer} refused by the tracing interface alone, {} differ", wrong.len());
    assert!(compared > 1_000 && wrong.is_empty(), "{name}: {} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Registers a lone probe of the row's kind; the result or its errno.
fn answer(kernel: &Kernel, guest: &mut StillGuest<'_>, policy: Policy, row: &OracleRow) -> &'static str {
    let mut engine = Engine::new(kernel.arch.isa(), 1).with_policy(policy);
    let registered = if row.kind == "r" {
        let probe = Kretprobe::at_address(row.address).maxactive(16);
        engine.register_kretprobe(guest, &probe).map(|()| engine.unregister_kretprobe(guest, &probe))
    } else {
        let probe = Kprobe::at_address(row.address).pre(|_| Flow::Continue);
        engine.register_kprobe(guest, &probe).map(|()| engine.unregister_kprobe(guest, &probe))
    };
    registered.map_or_else(|refusal| refusal.errno.name(), |()| "ok")
}

fn decisions_of_6_12() {
    decisions_are_those_of_the_release(&RELEASES[0]);
}

fn decisions_of_7_2() {
    decisions_are_those_of_the_release(&RELEASES[1]);
}

/// KP-15, DV-1: the blacklist found in the image has the entries of the running kernel's own list, in its order.
fn the_blacklist_is_that_of_the_release(release: &Release) {
    let Release { name, file, .. } = *release;
    let table = oracle::table(&format!("{name}.blacklist.txt.gz")).expect("the table");
    let bytes = std::fs::read(file_of(file).expect("the kernel")).expect("the kernel's file");
    let ours = oracle::blacklist(&Kernel::from_bytes(&bytes).expect("a kernel"));
    let theirs: Vec<&str> = table.lines().collect();
    let first = ours.iter().zip(&theirs).find(|(one, other)| one != *other);
    assert!(first.is_none() && ours.len() == theirs.len(), "{name}: {first:?}, {} and {}", ours.len(), theirs.len());
    println!("{name}: {} entries of the blacklist are the same", ours.len());
}

fn blacklist_of_6_12() {
    the_blacklist_is_that_of_the_release(&RELEASES[0]);
}

fn blacklist_of_7_2() {
    the_blacklist_is_that_of_the_release(&RELEASES[1]);
}

fn need(release: &Release) -> Need {
    let missing = if oracle::table(&format!("{}.open.tsv.gz", release.name)).is_none() {
        Some("tables of Linux's decisions: they are in ../shared/oracle, and no package installs them".to_string())
    } else if file_of(release.file).is_none() || file_of(BUSYBOX).is_none() {
        Some(format!(
            "{} and {BUSYBOX}, which the tables were made with: put them into a folder of TRAPLINE_IMAGES",
            release.file
        ))
    } else {
        None
    };
    Need { what: release.name.to_string(), missing }
}

fn main() -> ExitCode {
    let tests: Vec<Test> = tests![decisions_of_6_12, decisions_of_7_2, blacklist_of_6_12, blacklist_of_7_2];
    let with_needs = tests.into_iter().zip(RELEASES.iter().cycle()).map(|(test, release)| test.needs(need(release)));
    harness::run([with_needs.collect()])
}
