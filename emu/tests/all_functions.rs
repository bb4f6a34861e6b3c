//! Probes and return probes on all functions of stock kernels, from the first instruction of the boot: the run is the same.
//!
//! The kernels but debian/amd64 take some minutes together, so they run if `TRAPLINE_ALL_FUNCTIONS` is set.

use std::process::{Command, ExitCode};
use trapline_harness::{self as harness, Folder, Need, Test, kernel, member};

const KERNELS: &[&str] = &[
    "debian/amd64",
    "debian/i386",
    "debian/arm64",
    "debian/armhf",
    "debian/mipsel",
    "debian/mips64el",
    "debian/riscv64",
    "debian/ppc64el",
    "debian/s390x",
];

/// KP-1, RP-1, OP-1: only the probes' own bytes differ, and no run ends early.
fn the_run_is_the_same_with_all_functions_probed(name: &'static str) {
    let room = Folder::new(&format!("all-{}", name.replace('/', "-")));
    let script = room.0.join("work.sh");
    std::fs::write(&script, "echo hello; ls / | wc -l; exit 0\n").unwrap();
    for program in ["kprobe:* { @[func] = count(); }", "kretprobe:* { @[func] = count(); }"] {
        let mut verify = Command::new(env!("CARGO_BIN_EXE_trapline"));
        verify.args(["verify", name, "--quiet", "--program", program, "--script"]).arg(&script);
        let output = verify.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("identical"), "{name}: {program}\n{text}");
        let probes = text
            .lines()
            .find_map(|line| line.strip_prefix("probes")?.trim().split_once(':').map(|(count, _)| count.replace(',', "")));
        let probes: u64 = probes.unwrap_or_default().parse().unwrap_or(0);
        assert!(probes > 30_000, "{name}: {program}: {probes} probes\n{text}");
    }
}

fn main() -> ExitCode {
    let asked = std::env::var_os("TRAPLINE_ALL_FUNCTIONS").is_some();
    let test = |name: &&'static str| {
        let name = *name;
        let test = Test::new(member("the_run_is_the_same_with_all_functions_probed", name), move || {
            the_run_is_the_same_with_all_functions_probed(name)
        });
        let nightly = Need {
            what: "minutes for all functions".into(),
            missing: (!asked && name != "debian/amd64")
                .then(|| "a slow test, for a nightly job: set TRAPLINE_ALL_FUNCTIONS=1".into()),
        };
        test.needs(kernel(name)).needs(nightly)
    };
    harness::run([KERNELS.iter().map(test).collect()])
}
