//! `trapline run --from-boot` and `trapline check --booted`: a stock kernel boots once, and later runs restore it from
//! a snapshot.
//!
//! The tests need kernels in `TRAPLINE_IMAGES` or the cache. Otherwise they are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use trapline_harness::{self as harness, Folder, each, tests};

struct Said {
    status: i32,
    out: String,
    err: String,
}

fn trapline(cache: Option<&Path>, args: &[&str]) -> Said {
    trapline_with(cache, None, args)
}

/// Runs trapline with the kernels in that folder, because the folder of its own cache has none.
fn trapline_with(cache: Option<&Path>, images: Option<&PathBuf>, args: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    if let Some(images) = images {
        command.env("TRAPLINE_IMAGES", images);
    }
    if let Some(cache) = cache {
        command.env("XDG_CACHE_HOME", cache);
    }
    let output = command.args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

fn a_kernel_without_a_shell_cannot_begin_there() {
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 2] = [
        (&["run", "tiny/x86_64", "--from-boot"],    "has no shell to start at"),
        (&["check", "tiny/x86_64", "--booted"],     "nothing in its text changes"),
    ];
    for (args, why) in cases {
        let said = trapline(None, args);
        assert!(said.status == 2 && said.err.contains(why), "{args:?}: {} {}", said.status, said.err);
    }
}

/// DV-4: the first run boots and saves a snapshot, the next ones restore it. A damaged snapshot is reported and made
/// again.
fn a_stock_kernel_boots_once_and_runs_scripts_from_its_shell(name: &'static str) {
    let found = harness::stock(name);
    let images = found.local.folder;
    let trapline = |cache, args: &[&str]| trapline_with(cache, Some(&images), args);
    let cache = Folder::new(&format!("from-boot-{}", found.stock.flavour));
    let script = cache.0.join("script");
    let lines: String = (0..400).map(|line| format!("# line {line}: 'quoted', \\ and $dollars\n")).collect();
    fs::write(&script, format!("{lines}echo from the script: $((6*7)); printf 'a\\tb\\n' | md5sum\nexit 3\n")).unwrap();
    let args = ["run", name, "--from-boot", "--script", script.to_str().unwrap(), "-e", "r:done vfs_read"];

    let first = trapline(Some(&cache.0), &args);
    assert_eq!(first.status, 1, "{}\n{}", first.err, first.out);
    assert!(first.err.contains("boots to its shell") && first.err.contains("status 3"), "{}", first.err);
    assert!(first.out.contains("from the script: 42") && !first.out.contains("WARNING:"), "{}", first.out);
    let second = trapline(Some(&cache.0), &args);
    assert!(!second.err.contains("boots to its shell"), "{}", second.err);
    let guest = |said: &Said| said.out.split(" of guest time in ").next().unwrap_or_default().to_string();
    assert_eq!(guest(&first), guest(&second), "the same run, records and all");

    let kept: Vec<PathBuf> =
        fs::read_dir(cache.0.join("trapline/snapshots")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let mut bytes = fs::read(&kept[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&kept[0], &bytes).unwrap();
    let mended = trapline(Some(&cache.0), &["check", name, "--booted", "vfs_read"]);
    assert!(mended.status == 0 && mended.err.contains("checksum is wrong"), "{}", mended.err);
    let again = trapline(Some(&cache.0), &["check", name, "--booted", "vfs_read"]);
    assert!(again.err.contains("comes from") && again.out == mended.out && again.out.contains("vfs_read"), "{}", again.err);
}

/// DV-4: an event of `trace --event` that waits for its module is armed when the module comes.
fn an_event_beside_scripts_waits_for_its_module(name: &'static str) {
    let images = harness::stock(name).local.folder;
    let script = Folder::new("module");
    let work = script.0.join("work.sh");
    fs::write(&work, "true\n").unwrap();
    let options = ["--module", "dummy", "-q", "--event", "p:up dummy:dummy_dev_init", "--script", work.to_str().unwrap()];
    let args = [&["trace", name, "-e", "BEGIN { printf(\"begun\\n\"); }"][..], &options].concat();
    let said = trapline_with(None, Some(&images), &args);
    assert_eq!(said.status, 0, "{}\n{}", said.err, said.out);
    assert!(said.out.contains("begun\n") && said.out.contains(": up: (dummy_dev_init+0x0/"), "{}", said.out);
}

fn main() -> ExitCode {
    harness::run([
        tests![a_kernel_without_a_shell_cannot_begin_there],
        each!(["debian/amd64", "debian/mipsel"], a_stock_kernel_boots_once_and_runs_scripts_from_its_shell),
        each!(["debian/amd64"], an_event_beside_scripts_waits_for_its_module),
    ])
}
