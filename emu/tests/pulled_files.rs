//! `--pull`: files come out of stock kernels of several ISAs, and what does not come is said. `--rng`: random numbers follow
//! from a seed.
//!
//! If a kernel is not on this computer, its tests are skipped.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use trapline_harness::{self as harness, Folder, Test, on, tests};

/// The kernels: consoles of five kinds, and both byte orders.
const GUESTS: &[&str] = &["debian/amd64", "debian/arm64", "debian/s390x", "debian/mipsel", "debian/ppc64el"];

/// Makes a file of a size that is no multiple of anything, and one with a strange name, and says a checksum.
const SCRIPT: &str = "
dd if=/dev/urandom of=/tmp/noise bs=997 count=101 2>/dev/null
md5sum < /tmp/noise
echo quoted > \"/tmp/it's\"
printf 'no end of line'
exit 7
";

struct Said {
    status: i32,
    out: String,
    err: String,
}

/// Runs trapline with this kernel at hand. The current folder and the cache are `folder`.
fn trapline(name: &str, folder: &Path, args: &[&str]) -> Said {
    let found = harness::stock(name);
    let mut command_line = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command_line.env("TRAPLINE_IMAGES", &found.local.folder).env("XDG_CACHE_HOME", folder).current_dir(folder);
    let output = command_line.args(args).stdin(Stdio::null()).output().expect("trapline starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { status: output.status.code().expect("a status"), out: text(output.stdout), err: text(output.stderr) }
}

fn md5(file: &Path) -> String {
    let output = Command::new("md5sum").arg(file).output().expect("md5sum starts");
    String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap_or_default().into()
}

/// MM-2: files come whole, their text is not shown, a missing file is said, and the guest's status stays.
fn files_come_out(name: &'static str) {
    let folder = Folder::new(&format!("pulled-{}", name.replace('/', "-")));
    fs::write(folder.0.join("script"), SCRIPT).expect("written");
    #[rustfmt::skip]
    let args = ["run", name, "--script", "script", "--pull", "/tmp/noise", "--pull", "/tmp/it's:quoted", "--pull", "/tmp/nothing:n"];
    let said = trapline(name, &folder.0, &args);
    assert!(said.err.contains("status 7") && said.err.contains("the guest has no file `/tmp/nothing`"), "{}", said.err);
    assert_eq!(said.status, 1, "{}", said.err);
    assert!(said.out.contains(&md5(&folder.0.join("noise"))), "{name}:\n{}", said.out);
    assert_eq!(fs::read_to_string(folder.0.join("quoted")).expect("a file"), "quoted\n");
    assert!(said.out.contains("no end of line\r\n") && !said.out.contains("trapline-pull"), "{name}:\n{}", said.out);
    assert!(said.out.len() < 60_000, "{name}: {} bytes are shown", said.out.len());
}

/// MM-2: a file comes out of a guest that starts at its shell, and out of a replay nothing is written.
fn files_come_out_of_a_booted_guest() {
    let folder = Folder::new("pulled-booted");
    let (name, file) = ("debian/arm64", folder.0.join("z"));
    let trace = ["trace", name, "-e", "kprobe:vfs_read { @ = count(); }", "--record", "rec"];
    let args = ["--from-boot", "--script", "seq 1 5 > /tmp/z", "--pull", "/tmp/z"];
    let said = trapline(name, &folder.0, &[&trace[..], &args].concat());
    assert_eq!((said.status, fs::read_to_string(&file).expect("a file")), (0, "1\n2\n3\n4\n5\n".into()), "{}", said.err);
    fs::write(&file, "mine").expect("written");
    let again = trapline(name, &folder.0, &["replay", "rec"]);
    assert!(again.status == 0 && !again.out.contains("trapline-pull"), "{}{}", again.out, again.err);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "mine");
}

/// MM-2: commands that write no file of a guest say so, and so does a name that cannot be written.
fn files_are_refused_where_none_is_written() {
    let folder = Folder::new("pulled-refused");
    let name = "debian/amd64";
    #[rustfmt::skip]
    let cases = [
        ("verify",  "/tmp/z",               "only `trapline run` and `trapline trace` take files out of a guest"),
        ("run",     "/tmp/z:no/such/file",  "`no/such/file` cannot be written"),
        ("run",     "/tmp/",                "`/tmp/` is not the path of a file in the guest"),
    ];
    for (command, pull, why) in cases {
        let said =
            trapline(name, &folder.0, &[command, name, "-e", "p vfs_read", "--script", "seq 1 5 > /tmp/z", "--pull", pull]);
        assert!(said.status == 2 && said.err.contains(why), "{command} {pull}: {}\n{}", said.status, said.err);
    }
}

/// RN-1: random numbers of the hardware follow from the seed, with probes too.
fn random_numbers_follow_from_a_seed() {
    let (name, folder) = ("debian/arm64", Folder::new("random"));
    let script = "cat /sys/class/misc/hw_random/rng_current; head -c 5000 /dev/hwrng | md5sum";
    let numbers = |args: &[&str]| {
        let said = trapline(name, &folder.0, &[&["run", name, "--script", script], args].concat());
        assert!(said.status == 0 && said.out.contains("virtio_rng.0"), "{}{}", said.out, said.err);
        said.out.split("virtio_rng.0").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default().to_string()
    };
    let first = numbers(&["--rng"]);
    assert_eq!(first.len(), 32, "{first}");
    assert_eq!(numbers(&["--rng", "-e", "p vfs_read"]), first);
    assert_ne!(numbers(&["--rng=5"]), first);
}

fn main() -> ExitCode {
    let files = |name: &'static str| {
        Test::new(harness::member("files_come_out", name), move || files_come_out(name)).needs(harness::kernel(name))
    };
    let modules = harness::complete("debian/arm64", "--modules ", |local| local.module("virtio_rng").is_some());
    let random = Test::new("random_numbers_follow_from_a_seed", random_numbers_follow_from_a_seed).needs(modules);
    harness::run([
        GUESTS.iter().map(|name| files(name)).collect(),
        on("debian/arm64", tests![files_come_out_of_a_booted_guest]),
        on("debian/amd64", tests![files_are_refused_where_none_is_written]),
        vec![random],
    ])
}
