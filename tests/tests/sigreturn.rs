//! Programs of an unprivileged user that change the frame which sigreturn restores. Whatever the kernel accepts must
//! not crash the CPU core. On z/Architecture such a program gets access-register mode; elsewhere it gets modes and
//! status bits that no compiler uses.
//!
//! The program is images/programs/sigreturn.c. It changes each word of the frame in three ways, and each bit of the
//! words with modes, each in a child process.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::{self as harness, each};

/// Guest time after which a run has hung, in nanoseconds.
const LONG: u64 = 600_000_000_000;
/// Checks that busybox and the shell still work afterwards.
const SCRIPT: &[u8] = b"/lies; echo status=$?; ls / | sort | head -n 2; echo alive\n";

/// The program's counts on QEMU 7.2 with the same kernel. RISC-V's frame has no words with modes, so only a wrong pc or
/// stack pointer kills a child.
const MEASURED: &[(&str, [u32; 3])] = &[("debian/riscv64", [440, 8, 0])];

/// C7: privileges, modes and addresses by sigreturn.
fn lies_in_a_signal_frame_stay_in_the_guest(name: &'static str) {
    let found = harness::stock(name);
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let isa = name.strip_prefix("debian/").expect("a name of Debian's");
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../images/programs/prebuilt"));
    let files = [("lies".to_string(), read(&programs.join(format!("sigreturn-{isa}"))))];
    let initrd: Arc<[u8]> = initramfs::with_busybox(&read(&found.busybox), Some(SCRIPT), &files).into();
    let config = Config { command_line: found.stock.command_line.into(), initrd: Some(initrd), ..Config::default() };
    let kernel = Kernel::from_bytes(&read(&found.local.kernel)).expect("a kernel");
    let mut session = Session::new(kernel, &config).expect("a machine");
    let stop = session.run_until(LONG);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    assert_eq!(stop, Stop::PowerOff(0), "{console}");
    assert!(console.contains("status=0") && console.contains("alive"), "{console}");
    let line = console.lines().find(|line| line.starts_with("sigreturn: ")).unwrap_or_else(|| panic!("{console}"));
    let counts: Vec<u32> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|count| count.parse().ok()).collect();
    let [went_on, killed, hung] = counts[..] else { panic!("{line}") };
    println!("{name}: {line}");
    // Three lies for each word of 1 KiB, and those about single bits. Most words are of no consequence; some must be.
    assert!(went_on + killed > 3 * 128 && went_on > killed && hung <= killed, "{line}");
    match MEASURED.iter().find(|(measured, _)| *measured == name) {
        Some((_, expected)) => assert_eq!([went_on, killed, hung], *expected, "{line}"),
        None => assert!(killed > 8, "{line}"),
    }
}

fn main() -> ExitCode {
    let debian = harness::guests::stock().filter(|name| name.starts_with("debian/"));
    harness::run([each!(debian, lies_in_a_signal_frame_stay_in_the_guest)])
}
