//! The five scripts of Debian's package bpftrace that probe programs, unmodified, on the programs that they are for.

use crate::{LONG, Stock};
use std::path::{Path, PathBuf};
use trapline::boot::guest_files::GuestFiles;
use trapline::boot::initramfs::Archive;
use trapline::machine::Stop;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_harness::Need;
use trapline_script::Options;

/// Each script with texts of its output.
const TOOLS: [(&str, &[&str]); 5] = [
    ("bashreadline", &["echo from bash\n", "exit\n"]),
    ("gethostlatency", &["getent", " localhost\n"]),
    // The program's handshake is a part of its first read or write.
    ("ssllatency", &["@hist[SSL_write]:", "@histF[SSL_read]:", "@stat[SSL_write]: "]),
    ("sslsnoop", &[" openssl ", "SSL_read\n", "SSL_write\n"]),
    ("threadsnoop", &[" xz "]),
];

/// The folder that `scripts/tools.sh --fetch` fills: the package's scripts, programs with their libraries, and a workload.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools")
}

/// The need of the scripts and of the programs.
pub fn tools() -> Need {
    let is_there = TOOLS.iter().all(|(tool, _)| folder().join(format!("package/usr/sbin/{tool}.bt")).exists());
    let missing = !is_there || !folder().join("programs.work").exists() || !folder().join("root").exists();
    let how = "Debian's bpftrace scripts and the programs they probe: scripts/tools.sh --fetch";
    Need { what: "bpftrace scripts".into(), missing: missing.then(|| how.into()) }
}

/// Adds the files below a folder, by their paths in the guest.
fn files_below(root: &Path, folder: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files_below(root, &path, into),
            false => {
                let name = path.strip_prefix(root).expect("it is below").to_str().expect("text").to_string();
                into.push((name, std::fs::read(&path).expect("a file")));
            }
        }
    }
}

/// BY-1, BY-2: all five run at once, and print what the programs did.
pub fn scripts_of_debian_that_probe_programs_run(name: &'static str) {
    let mut files = Vec::new();
    files_below(&folder().join("root"), &folder().join("root"), &mut files);
    let work = std::fs::read(folder().join("programs.work")).expect("a workload");
    let mut stock = Stock::with_files(name, &work, &files);
    // Since glibc 2.34 the functions of libpthread are in libc.
    let mut links = Archive::default();
    links.symlink("lib/x86_64-linux-gnu/libpthread.so", "libc.so.6");
    let initrd = stock.config.initrd.take().expect("an initial file system");
    stock.config.initrd = Some([&initrd[..], &links.finish()].concat().into());

    let mut session = stock.session();
    let mut facts = Facts::of(session.kernel());
    facts.know_files(GuestFiles::new(stock.config.initrd.clone(), stock.config.files.clone()));
    let options = Options { old: true, ..Options::default() };
    let scripts = TOOLS.map(|(tool, _)| {
        let text = std::fs::read_to_string(folder().join(format!("package/usr/sbin/{tool}.bt"))).expect("a script");
        Script::compile(&text, &facts, &options).unwrap_or_else(|errors| panic!("{tool}: {errors:?}"))
    });
    drop(facts);
    let mut tracing =
        scripts.map(|script| session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{name}: {error:?}")));
    let stop = session.trace_until(&mut tracing, LONG);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    assert_eq!(stop, Stop::PowerOff(0), "{console}");
    for (tracing, (tool, expected)) in tracing.iter_mut().zip(TOOLS) {
        session.end_script(tracing);
        let printed = String::from_utf8_lossy(&session.take_script_output(tracing).0).into_owned();
        for text in expected {
            assert!(printed.contains(text), "{tool}: no {text:?} in:\n{printed}\nconsole:\n{console}");
        }
    }
}
