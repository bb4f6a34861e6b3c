//! `--vmcore FILE`: the file is an ELF core dump of the guest as it is without probes, and drgn can read it.
//!
//! The stock kernels are those in `TRAPLINE_IMAGES` or the cache of `trapline images pull`.

use goblin::elf::Elf;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use trapline::Kernel;
use trapline_harness::{self as harness, Folder, Test, guests, kernel, python, python_module, tests};

/// A program header of memory.
const LOAD: u32 = 1;

/// Runs the program. Returns its standard output and its standard error.
fn trapline(args: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {err}\n{out}");
    (out, err)
}

/// AN-1, OP-7: a run with probes and a run without leave the same core dump. Only dead stack words, and the link
/// register, may hold the pad's address.
fn probes_leave_nothing_in_a_core_dump(name: &'static str) {
    const CALLS: [&str; 9] =
        ["quicksort", "fibonacci", "schedule", "do_syscall", "vfs_read", "pipe_read", "do_wait", "recurser", "sorter"];
    let room = Folder::new(name);
    let (probed, plain, nothing, trace) = (room.file("probed"), room.file("plain"), room.file("nothing"), room.file("trace"));
    fs::write(&nothing, "").unwrap();
    let run = |args: &[&str], file: &str, time: &str| {
        let args = [&["run", name, "--quiet", "--summary", "none", "--until", time, "--vmcore", file], args].concat();
        assert!(trapline(&args).1.contains("is the guest at "), "{args:?}");
        fs::read(file).unwrap()
    };
    let calls: Vec<String> = CALLS.iter().map(|function| format!("r {function}")).collect();
    let events: Vec<&str> = calls.iter().flat_map(|event| ["-e", event]).chain(["-e", "p vfs_read", "--out", &trace]).collect();
    let text = Kernel::from_bytes(trapline_images::find(name).unwrap().bytes).unwrap().tables.text.clone();
    for (time, events) in [("90us", &events[events.len() - 4..]), ("650us", &events[..])] {
        let (with, without) = (run(events, &probed, time), run(&["-f", &nothing], &plain, time));
        let elf = Elf::parse(&with).unwrap();
        assert_eq!((elf.header.e_type, with.len()), (goblin::elf::header::ET_CORE, without.len()), "{name}");
        assert_eq!(elf.iter_note_headers(&with).unwrap().count(), 1, "{name}: one CPU");
        assert!(elf.program_headers.iter().any(|row| row.p_type == LOAD && row.p_vaddr != 0), "{name}: {elf:?}");
        let word = if elf.is_64 { 8 } else { 4 };
        let words = with.chunks(word).zip(without.chunks(word)).filter(|(one, other)| one != other);
        // Thumb code has a bit of its own in addresses, and SPARC keeps the address of the call.
        let number = |bytes: &[u8]| {
            let little = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            let big = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            (if elf.little_endian { little } else { big }) & !15
        };
        // The engine leaves true return addresses in link registers, which functions save before they get their own.
        let old: Vec<u64> = words.map(|(one, _)| number(one)).filter(|word| !text.contains(word)).collect();
        let pad = old.iter().copied().max().unwrap_or(0);
        assert!(old.iter().all(|word| pad - word <= 16) && old.len() < 64, "{name} at {time}: {old:x?}");
        assert!(time != "90us" || old.is_empty(), "{name}: {old:x?}");
    }
    assert!(fs::read_to_string(&trace).unwrap().contains("vfs_read"), "{name}: there are hits");
}

/// AN-1: `--vmcore-at` dumps the guest at the first hit that passes the event's filter. The run continues as without
/// it.
fn a_core_dump_is_made_at_a_hit() {
    let room = Folder::new("hit");
    let (core, script) = (room.file("core"), room.file("script"));
    fs::write(&script, "echo 'p:read vfs_read count=$arg3' > kprobe_events\necho 'count > 0' > events/kprobes/read/filter\n")
        .unwrap();
    for cpus in ["1", "2"] {
        let run = |more: &[&str]| {
            trapline(&[&["run", "tiny/x86_64", "--cpus", cpus, "-e", "p:read vfs_read count=$arg3"], more].concat())
        };
        let (plain, _) = run(&[]);
        let (out, err) = run(&["--vmcore", &core, "--vmcore-at", "read"]);
        let records = |text: &str| text.lines().filter(|line| line.contains("read: (")).map(str::to_string).collect::<Vec<_>>();
        assert_eq!(records(&plain), records(&out), "the run is the same");
        let first = records(&out)[0].split(": read:").next().unwrap().rsplit(' ').next().unwrap().replace('.', "");
        let at: u64 = err.split("is the guest at ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let hit = first.parse::<u64>().unwrap() * 1000;
        assert!((hit.saturating_sub(1000)..hit + 2000).contains(&at), "at {at}, the hit was at {hit}");
        let bytes = fs::read(&core).unwrap();
        let notes = Elf::parse(&bytes).unwrap().iter_note_headers(&bytes).unwrap().count();
        assert_eq!(notes.to_string(), cpus, "a note for each CPU");
    }
    let wrong: [(&[&str], &str); 3] = [
        (&["--vmcore-at", "read"], "--vmcore"),
        (&["--vmcore", &core, "--vmcore-at", "nothing"], "--vmcore-at: there is no such event"),
        (&["--vmcore", "/nowhere/at/all"], "/nowhere/at/all"),
    ];
    for (args, words) in wrong {
        let output =
            Command::new(env!("CARGO_BIN_EXE_trapline")).args(["run", "-e", "p:read vfs_read"]).args(args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && err.contains(words), "{args:?}: {err}");
    }
}

/// A drgn script without types: prints the release, and a function's address and first bytes, by kallsyms.
const BY_KALLSYMS: &str = r#"
import drgn, sys
from drgn.helpers.linux.kallsyms import load_vmlinux_kallsyms
prog = drgn.Program()
prog.set_core_dump(sys.argv[1])
prog.register_symbol_finder("kallsyms", load_vmlinux_kallsyms(prog), enable_index=0)
function = prog.symbol("vfs_read")
print("release", prog["UTS_RELEASE"].string_().decode())
print("function", hex(function.address))
print("bytes", prog.read(function.address, 8).hex())
"#;

/// Runs the guest to its shell and writes a core dump there.
fn dumped(name: &str, room: &Folder, script: &str) -> (String, String) {
    let (core, file) = (room.file("core"), room.file("script"));
    fs::write(&file, script).unwrap();
    // Linux reads memory of programs at a program's address only. Programs of z/Architecture have all addresses.
    let kernel = Kernel::from_bytes(&fs::read(harness::stock(name).local.kernel).unwrap()).unwrap();
    let address = if name == "debian/s390x" { u64::MAX - 4095 } else { kernel.symbols.address_of("vfs_read").unwrap() };
    let open = format!("p:open do_sys_openat2 path=+u0($arg2):string kernel=+u0(\\{address}):string");
    let args = ["run", name, "--from-boot", "--script", &file, "--until", "console:the end", "--summary", "none"];
    let (out, err) = trapline(
        &[
            &args[..],
            &["-e", "p:mark vfs_read", "-e", "r:back vfs_read", "-e", &open, "--out", &room.file("trace"), "--vmcore", &core],
        ]
        .concat(),
    );
    assert!(!err.contains("VMCOREINFO yet"), "{err}");
    let trace = fs::read_to_string(room.file("trace")).unwrap();
    let opened: Vec<&str> = trace.lines().filter(|line| line.contains(" open: (")).collect();
    assert!(opened.iter().any(|line| line.contains("path=\"/proc/version\"")), "{name}: {opened:?}");
    assert!(opened.iter().all(|line| line.ends_with("kernel=(fault)")), "{name}: {opened:?}");
    (core, out)
}

fn drgn(script: &str, args: &[&str]) -> String {
    let output =
        Command::new(python("drgn").unwrap()).args(["-c", script]).args(args).env_remove("DEBUGINFOD_URLS").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// AN-1: drgn finds the kernel's symbols in the memory of the dump, and text without breakpoints.
fn drgn_reads_a_core_dump(name: &'static str) {
    let room = Folder::new(name);
    let (core, out) = dumped(name, &room, "uname -r\ncat /proc/version\necho the end\nsleep 5\n");
    let said = drgn(BY_KALLSYMS, &[&core]);
    let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_string();
    assert!(out.lines().any(|line| line.trim() == field("release")), "{name}: {said}\n{out}");
    let kernel = Kernel::from_bytes(&fs::read(harness::stock(name).local.kernel).unwrap()).unwrap();
    let address = u64::from_str_radix(field("function").trim_start_matches("0x"), 16).ok();
    assert_eq!(address, kernel.symbols.address_of("vfs_read"), "{name}: {said}");
    let digits = field("bytes");
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    assert!(bytes.len() == 8 && !(kernel.arch.isa().is_breakpoint)(0, &bytes), "{name}: a probed function: {said}");
}

/// A drgn script with the kernel's types: prints the tasks, and the stack of the first one, which sleeps.
const BY_TYPES: &str = r#"
import drgn, sys
from drgn.helpers.linux.pid import for_each_task
prog = drgn.Program()
prog.set_core_dump(sys.argv[1])
prog.load_debug_info([sys.argv[2]])
for task in for_each_task(prog):
    print("task", task.pid.value_(), task.comm.string_().decode())
for frame in prog.stack_trace(1):
    print("frame", frame.name)
for frame in prog.stack_trace(2):
    print("kthread", frame.name)
"#;

/// AN-1: with the kernel's debug information, drgn prints the same tasks as the guest, and their stacks.
fn drgn_lists_the_guests_tasks() {
    let Some(dwarf) = vmlinux() else { return };
    let room = Folder::new("tasks");
    let script = "for p in /proc/[0-9]*; do echo \"=$(cat $p/stat 2>/dev/null | cut -d' ' -f1,2)\"; done\n\
                  sed 's/^/+/' /proc/2/stack\ncat /proc/version\necho the end\nsleep 5\n";
    let (core, out) = dumped("debian/amd64", &room, script);
    let said = drgn(BY_TYPES, &[&core, dwarf.to_str().unwrap()]);
    let listed: Vec<String> = said.lines().filter_map(|line| line.strip_prefix("task ")).map(str::to_string).collect();
    let tasks: Vec<String> = out
        .lines()
        .filter_map(|line| line.trim().strip_prefix('='))
        .filter(|line| line.contains('('))
        .map(|line| line.replacen('(', "", 1).trim_end_matches(')').to_string())
        .collect();
    assert!(tasks.len() > 20, "{out}");
    // `cat` and `cut` are gone, and kernel threads that work carry the name of their work in /proc.
    let numbers =
        |list: &[String]| list.iter().filter_map(|task| task.split(' ').next()?.parse::<u32>().ok()).collect::<Vec<_>>();
    let (ours, theirs) = (numbers(&listed), numbers(&tasks));
    let missing: Vec<_> = theirs.iter().filter(|number| !ours.contains(number)).collect();
    assert!(missing.len() <= 2, "{missing:?}\n{said}\n{out}");
    let frames = |word: &str| {
        said.lines().filter_map(|line| line.strip_prefix(word)).map(|name| name.trim().to_string()).collect::<Vec<_>>()
    };
    let stack: Vec<&str> =
        out.lines().filter_map(|line| line.trim().strip_prefix('+')?.split("] ").nth(1)?.split('+').next()).collect();
    assert!(!stack.is_empty(), "{out}");
    let (kthread, shell) = (frames("kthread "), frames("frame "));
    assert!(shell.iter().any(|frame| frame == "__do_sys_wait4" || frame == "ksys_write" || frame == "ksys_read"), "{shell:?}");
    assert!(stack.iter().all(|function| kthread.iter().any(|frame| frame == function)), "{stack:?} {kthread:?}");
}

/// Debian's vmlinux with debug information, if it is on this computer.
fn vmlinux() -> Option<PathBuf> {
    let local = trapline_images::locate(&trapline_images::Wanted::parse("debian/amd64")?, &trapline_images::folders())?;
    let beside = local.kernel.with_file_name(format!("vmlinux-{}.debug", local.version));
    let given = std::env::var_os("TRAPLINE_DWARF").map(PathBuf::from);
    given.into_iter().chain([beside]).find(|file| file.is_file())
}

/// The guests whose core dumps every run of the tests reads: one little-endian and one big-endian.
const ALWAYS: [&str; 2] = ["debian/amd64", "debian/s390x"];
/// If this environment variable is set, the core dumps of all stock guests are read.
const ALL: &str = "TRAPLINE_ALL_DUMPS";

fn main() -> ExitCode {
    assert!(Path::new(env!("CARGO_BIN_EXE_trapline")).exists());
    let on_tiny = |name| {
        Test::new(harness::member("probes_leave_nothing_in_a_core_dump", name), move || probes_leave_nothing_in_a_core_dump(name))
    };
    let on_stock = |name| {
        let test = Test::new(harness::member("drgn_reads_a_core_dump", name), move || drgn_reads_a_core_dump(name));
        let is_read = ALWAYS.contains(&name) || std::env::var_os(ALL).is_some();
        let nightly = harness::Need {
            what: "time for the dumps of all guests".into(),
            missing: Some(format!("dumps of other guests, for a nightly job: set {ALL}=1")),
        };
        let test = if is_read { test } else { test.needs(nightly) };
        test.needs(kernel(name)).needs(python_module("drgn"))
    };
    let dwarf = harness::Need {
        what: "Debian's vmlinux with DWARF".into(),
        missing: vmlinux().is_none().then(|| "Debian's debug information: TRAPLINE_DWARF names the file".into()),
    };
    let tasks = Test::new("drgn_lists_the_guests_tasks", drgn_lists_the_guests_tasks);
    harness::run([
        guests::tiny().map(on_tiny).collect(),
        guests::stock().map(on_stock).collect(),
        vec![tasks.needs(kernel("debian/amd64")).needs(python_module("drgn")).needs(dwarf)],
        tests![a_core_dump_is_made_at_a_hit],
    ])
}
