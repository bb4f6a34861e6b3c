//! The tracing files compared with Linux's own: a histogram equals the guest's, and Linux's selftests of kprobe events
//! end as they do on Linux.
//!
//! The selftests are in Debian's package linux-source-6.1. A small driver runs them in the host's bash and passes what
//! they write to our files, while the guest works in a loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::outputs::kept::Kept;
use trapline::probed::Session;
use trapline::tracefs::{About, Tracefs};
use trapline_harness::{self as harness, Need, Test, kernel, tool};
use trapline_probes::events::set::EventSet;
use trapline_probes::events::watch::SNAPSHOT;

const GUEST: &str = "debian/amd64";
const LONG: u64 = 60_000_000_000;

fn session(script: &str) -> Session {
    let found = harness::stock(GUEST);
    let kernel = Kernel::from_bytes(&fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel");
    let busybox = fs::read(found.busybox).expect("busybox");
    let initrd: Arc<[u8]> = initramfs::with_busybox(&busybox, Some(script.as_bytes()), &[]).into();
    let command_line = format!("{} mitigations=off", found.stock.command_line);
    Session::new(kernel, &Config { command_line, initrd: Some(initrd), ..Config::default() }).expect("a machine")
}

/// Histograms of one event, and whether the column of keys must be removed, because its values differ from run to run.
const HISTOGRAMS: &[&str] = &[
    "hist:keys=count",
    "hist:keys=count.log2:sort=count",
    "hist:keys=count.buckets=100:vals=count:sort=hitcount.descending",
    "hist:keys=common_pid:vals=count,count.hex:sort=count.descending,common_pid",
    "hist:keys=common_pid.execname,count.hex:sort=common_pid",
    "hist:keys=name:vals=count.percent,count.graph",
    "hist:keys=__probe_ip.sym,common_cpu:size=128",
    "hist:keys=__probe_ip.sym-offset:vals=count",
    "hist:keys=count.syscall:sort=count.descending",
    "hist:keys=common_preempt_count,count:sort=hitcount,count",
];

/// DV-4: a histogram of the guest's kernel and ours of the same event in the same run have the same text.
fn a_histogram_is_the_guest_s_own() {
    const EVENT: &str = "p:entry vfs_read count=$arg3:u64 name=$comm";
    const FILTER: &str = " if COMM == \"md5sum\" || COMM == \"wc\"";
    let mut script = String::from("mkdir -p /t; mount -t tracefs t /t; cd /t\n");
    script += &format!("echo '{EVENT}' > kprobe_events\n");
    for histogram in HISTOGRAMS {
        script += &format!("echo '{histogram}{FILTER}' >> events/kprobes/entry/trigger || echo REFUSED '{histogram}'\n");
    }
    script += "md5sum /proc/version /init; wc /proc/stat; md5sum /proc/kallsyms; wc -l /proc/meminfo /proc/version\n";
    script += "echo BEGIN; cat events/kprobes/entry/hist; echo END; exit 5\n";
    let mut session = session(&script);
    let (mut events, mut kept, mut files) = (EventSet::default(), Kept::default(), Tracefs::default());
    let about = &mut About { session: &mut session, events: &mut events, kept: &mut kept };
    files.write(about, "kprobe_events", EVENT, true).expect("an event");
    for histogram in HISTOGRAMS {
        let written = files.write(about, "events/kprobes/entry/trigger", &format!("{histogram}{FILTER}"), true);
        written.unwrap_or_else(|error| panic!("{histogram}: {error}"));
    }
    assert_eq!(about.session.run_until(LONG), Stop::PowerOff(5));
    let console = String::from_utf8_lossy(&about.session.machine_mut().take_console()).replace('\r', "");
    let guest_s = console.split_once("BEGIN\n").and_then(|(_, rest)| rest.split_once("END\n")).map(|(text, _)| text);
    let guest_s = guest_s.unwrap_or_else(|| panic!("the guest shows no histogram:\n{console}"));
    let ours = files.read(about, "events/kprobes/entry/hist").expect("the file");
    println!("{ours}");
    assert!(!console.contains("REFUSED"), "{console}");
    assert_eq!(guest_s.matches("# event histogram").count(), HISTOGRAMS.len(), "{guest_s}");
    assert_eq!(ours, guest_s);
    let hits = ours.split("Hits: ").nth(1).and_then(|rest| rest.lines().next()).and_then(|hits| hits.parse::<u32>().ok());
    assert!(hits > Some(100), "{hits:?}");
}

const PACKAGE: &str = "/usr/src/linux-source-6.1.tar.xz";
const TESTS: &str = "linux-source-6.1/tools/testing/selftests/ftrace/test.d";

/// Linux's tests and their results, as docs/conformance.md lists them.
const SELFTESTS: &[(&str, i32)] = &[
    ("add_and_remove", 0),
    ("busy_check", 0),
    ("kprobe_args", 0),
    ("kprobe_args_comm", 0),
    ("kprobe_args_string", 0),
    ("kprobe_args_symbol", 0),
    ("kprobe_args_syntax", 0),
    ("kprobe_args_type", 0),
    ("kprobe_args_user", 0),
    ("kprobe_eventname", 0),
    // It needs the function tracer, which is not here.
    ("kprobe_ftrace", 4),
    // It needs a sample module, which Debian's kernel does not have.
    ("kprobe_module", 2),
    ("kprobe_multiprobe", 0),
    ("kprobe_non_uniq_symbol", 0),
    ("kprobe_syntax_errors", 0),
    ("kretprobe_args", 0),
    ("kretprobe_maxactive", 0),
    ("kretprobe_return_suffix", 0),
    ("multiple_kprobes", 0),
    ("probepoint", 0),
    ("profile", 0),
    // There are no uprobe_events.
    ("uprobe_syntax_errors", 4),
];

/// The guest forks, opens files, makes symbolic links and events of its own.
const WORK: &str = "\
mkdir -p /t; mount -t tracefs t /t; cat /proc/version; echo READY
while :; do (true); echo > /dev/null; ln -s foo /bar; rm /bar; echo 'p:test kernel_clone' > /t/kprobe_events; echo > /t/kprobe_events; done
";

/// Our files, and their copies in a folder.
struct Served {
    session: Session,
    events: EventSet,
    kept: Kept,
    files: Tracefs,
    folder: PathBuf,
    copies: BTreeMap<String, String>,
}

impl Served {
    fn about(&mut self) -> (About<'_>, &mut Tracefs) {
        let about = About { session: &mut self.session, events: &mut self.events, kept: &mut self.kept };
        (about, &mut self.files)
    }

    /// Runs the guest for a while, and takes its records.
    fn work(&mut self, time: Duration) {
        let mut left = time.as_micros();
        while left > 0 {
            let slice = left.min(500);
            left -= slice;
            self.session.run_for(Duration::from_micros(slice as u64));
            let kept = &mut self.kept;
            self.session.with_engine(|engine, _| {
                while let Some(record) = engine.records().pop() {
                    if record.header.event == SNAPSHOT { kept.swap() } else { kept.add(&record) }
                }
            });
        }
    }

    /// Updates the copies.
    fn copy(&mut self) {
        let (mut about, files) = self.about();
        let mut now = BTreeMap::new();
        for name in Tracefs::list(&about) {
            if let Ok(text) = files.read(&mut about, &name) {
                now.insert(format!("tracing/{name}"), text);
            }
        }
        let list = files.read(&mut about, "/sys/kernel/debug/kprobes/list").expect("the list");
        now.insert("kprobes/list".into(), list);
        for (name, text) in &now {
            if self.copies.get(name) != Some(text) {
                let file = self.folder.join(name);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                fs::write(file, text).expect("a copy");
            }
        }
        for gone in self.copies.keys().filter(|name| !now.contains_key(*name)) {
            let file = self.folder.join(gone);
            fs::remove_file(&file).expect("a copy");
            // A folder that still has files stays.
            let _ = file.parent().map(fs::remove_dir);
        }
        self.copies = now;
    }

    /// Executes a write of the driver. Returns its status.
    fn write(&mut self, request: &str) -> i32 {
        let [appends, file, text] = request.split('\t').collect::<Vec<_>>()[..] else { panic!("{request}") };
        let text = fs::read_to_string(text).expect("the text");
        let file = Path::new(file).strip_prefix(&self.folder).expect("a copy").to_string_lossy().into_owned();
        self.copies.remove(&file);
        let name = file.strip_prefix("tracing/").unwrap_or(&file).to_string();
        let (mut about, files) = self.about();
        let written = files.write(&mut about, &name, &text, appends == "1");
        let enables = written.is_ok() && name.ends_with("/enable") && text.trim() == "1";
        self.work(Duration::from_millis(if enables { 60 } else { 2 }));
        self.copy();
        i32::from(written.is_err())
    }
}

/// DV-4: Linux's tests of kprobe events end as they do on Linux.
fn linux_s_selftests_end_as_on_linux() {
    let scratch = std::env::temp_dir().join(format!("trapline-selftests-{}", std::process::id()));
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).expect("a folder");
    let names = [format!("{TESTS}/functions"), format!("{TESTS}/kprobe")];
    let unpacked = Command::new("tar").arg("-xJf").arg(PACKAGE).args(names).current_dir(&scratch).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "the package can be unpacked");
    let source = scratch.join(TESTS);
    let all: BTreeSet<String> = fs::read_dir(source.join("kprobe"))
        .expect("the tests")
        .filter_map(|file| Some(file.ok()?.file_name().to_str()?.strip_suffix(".tc")?.to_string()))
        .collect();
    let listed: BTreeSet<String> = SELFTESTS.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(all, listed, "the table has each test of the package");

    let mut session = session(WORK);
    session.machine_mut().stop_at_console_text(Some("READY"));
    assert_eq!(session.run_until(LONG), Stop::ConsoleText);
    session.machine_mut().stop_at_console_text(None);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).replace('\r', "");
    let version = console.lines().rev().find(|line| line.starts_with("Linux version")).expect("the version").to_string();
    let symbols: String = session.symbols().iter().map(|symbol| format!("{:016x} t {}\n", symbol.start, symbol.name)).collect();
    let data = ["linux_proc_banner", "_sdata"].map(|name| {
        let start = session.kernel().symbols.address_of(name).unwrap_or_else(|| panic!("{name}"));
        format!("{start:016x} D {name}\n")
    });
    let folder = scratch.join("copies");
    let mut served = Served {
        session,
        events: EventSet::default(),
        kept: Kept::default(),
        files: Tracefs::default(),
        folder: folder.clone(),
        copies: BTreeMap::new(),
    };
    let mut wrong = Vec::new();
    for (name, expected) in SELFTESTS {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("tmp")).expect("a folder");
        fs::write(folder.join("kallsyms"), symbols.clone() + &data.concat()).expect("a file");
        fs::write(folder.join("version"), format!("{version}\n")).expect("a file");
        fs::write(folder.join("driver.sh"), include_str!("driver.sh")).expect("a file");
        for (from, to) in [("functions".to_string(), "functions"), (format!("kprobe/{name}.tc"), "test.tc")] {
            let text = fs::read_to_string(source.join(from)).expect("a test");
            let text = text.replace("/proc/kallsyms", &folder.join("kallsyms").display().to_string());
            fs::write(folder.join(to), text.replace("/proc/version", &folder.join("version").display().to_string()))
                .expect("a file");
        }
        served.copies.clear();
        served.copy();
        let mut driver = Command::new("bash");
        driver.arg(folder.join("driver.sh")).args([folder.join("functions"), folder.join("test.tc")]).arg(&folder);
        let mut driver = driver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
        let (mut answers, requests) = (driver.stdin.take().expect("a pipe"), driver.stdout.take().expect("a pipe"));
        for request in BufReader::new(requests).lines() {
            let status = served.write(&request.expect("a line"));
            writeln!(answers, "{status}").expect("the driver reads");
        }
        let outcome = driver.wait().expect("bash").code();
        println!("{name}: {outcome:?}");
        if outcome != Some(*expected) {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(15).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            wrong.push(format!("{name}: {outcome:?}, not {expected}:\n{}\n", last.join("\n")));
        }
        let Served { session, events, .. } = &mut served;
        session.with_engine(|engine, guest| {
            events.enable_all(engine, guest, false).expect("they can be disabled");
            events.clear(engine, guest);
        });
        served.kept.clear();
    }
    fs::remove_dir_all(&scratch).expect("our folder");
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

fn main() -> ExitCode {
    let package = Need {
        what: "linux-source-6.1".into(),
        missing: (!Path::new(PACKAGE).exists()).then(|| "Linux's selftests: apt-get install linux-source-6.1".into()),
    };
    harness::run([vec![
        Test::new("a_histogram_is_the_guest_s_own", a_histogram_is_the_guest_s_own).needs(kernel(GUEST)),
        Test::new("linux_s_selftests_end_as_on_linux", linux_s_selftests_end_as_on_linux)
            .needs(kernel(GUEST))
            .needs(package)
            .needs(tool("bash", "bash")),
    ]])
}
