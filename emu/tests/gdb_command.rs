//! `trapline gdb` and `trapline symbols --elf`, with gdb itself, on built-in and stock kernels.
//!
//! gdb-multiarch comes with `scripts/setup.sh readers`; without it the tests are skipped. Stock kernels come from
//! `TRAPLINE_IMAGES` or the cache.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use trapline::isa::arch::Arch;
use trapline_harness::{self as harness, Folder, Need, Test, guests, kernel, member, tests, tool};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trapline");
const GDB: &str = "gdb-multiarch";

fn trapline(args: &[&str]) {
    let output = Command::new(PROGRAM).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The file of a kernel's symbols.
fn symbols(folder: &Folder, image: &str) -> String {
    let file = folder.0.join("symbols.elf").to_str().unwrap().to_string();
    trapline(&["symbols", image, "--elf", &file]);
    file
}

/// Runs gdb with these commands on a guest, given by the arguments of `trapline gdb`. Returns all that it says.
fn gdb(symbols: &str, guest: &str, commands: &[&str]) -> String {
    let connect = format!("target remote | exec '{PROGRAM}' gdb {guest} --stdio 2>/dev/null");
    let before = ["set pagination off", "set confirm off", "set width 0", "set debuginfod enabled off", "set remotetimeout 120"];
    let mut gdb = Command::new(GDB);
    gdb.args(["-nx", "-batch", symbols]);
    for command in before.iter().copied().chain([connect.as_str()]).chain(commands.iter().copied()) {
        gdb.args(["-ex", command]);
    }
    let output = gdb.stdin(Stdio::null()).env("LC_ALL", "C").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The lines that `printf "NAME=..."` of the commands has printed.
fn said<'a>(all: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("{name}=");
    all.lines().filter_map(|line| line.split_once(&start).map(|(_, value)| value.trim())).collect()
}

const PC: &str = "printf \"pc=%#lx\\n\", $pc";

/// TT-7: on every ISA gdb sets breakpoints, steps and continues, forwards and backwards. It stops at both ends of the
/// run.
fn gdb_goes_both_ways(name: &'static str) {
    let folder = Folder::new(&format!("gdb-{}", name.replace('/', "-")));
    let elf = symbols(&folder, name);
    let all = gdb(
        &elf,
        name,
        &[
            "break vfs_write",
            "continue",
            "printf \"first=%#lx\\n\", $pc",
            "continue",
            "printf \"second=%#lx\\n\", $pc",
            "monitor time",
            "stepi",
            "printf \"step=%#lx\\n\", $pc",
            "stepi",
            "reverse-stepi",
            "printf \"back=%#lx\\n\", $pc",
            "reverse-stepi",
            "printf \"entry=%#lx\\n\", $pc",
            "reverse-stepi",
            "printf \"caller=%#lx\\n\", $pc",
            "stepi",
            "printf \"again=%#lx\\n\", $pc",
            "reverse-continue",
            "printf \"before=%#lx\\n\", $pc",
            "delete",
            "reverse-continue",
            "info threads",
            "continue",
            "monitor time",
            "x/2xb (char *)&vfs_write",
            "info registers pc",
        ],
    );
    let one = |what: &str| *said(&all, what).first().unwrap_or_else(|| panic!("{name}: no `{what}` in {all}"));
    assert_eq!(one("first"), one("second"), "{name}: {all}");
    assert_ne!(one("step"), one("second"), "{name}: {all}");
    assert_eq!((one("back"), one("entry")), (one("step"), one("second")), "{name}: {all}");
    assert_ne!(one("caller"), one("entry"), "{name}: {all}");
    assert_eq!((one("again"), one("before")), (one("entry"), one("entry")), "{name}: {all}");
    assert_eq!(all.matches("No more reverse-execution history").count(), 2, "{name}: the start and the end: {all}");
    assert!(all.contains("CPU 0") && all.contains("of guest time"), "{name}: {all}");
    assert!(!all.contains("unavailable") && !all.contains("Cannot access") && !all.contains("warning:"), "{name}: {all}");
}

/// TT-7: a watchpoint stops behind the store when running forwards, and before it when running backwards. `monitor who`
/// finds the store.
fn gdb_watches_memory(name: &'static str) {
    let folder = Folder::new(&format!("gdb-watch-{}", name.replace('/', "-")));
    let elf = symbols(&folder, name);
    let all = gdb(
        &elf,
        name,
        &[
            "watch *(unsigned long *)&tasks",
            "continue",
            "printf \"one=%#lx\\n\", *(unsigned long *)&tasks",
            "printf \"behind=%#lx\\n\", $pc",
            "reverse-continue",
            "printf \"none=%#lx\\n\", *(unsigned long *)&tasks",
            "printf \"front=%#lx\\n\", $pc",
            "delete",
            "stepi",
            "printf \"again=%#lx\\n\", $pc",
            "monitor who tasks",
        ],
    );
    let one = |what: &str| *said(&all, what).first().unwrap_or_else(|| panic!("{name}: no `{what}` in {all}"));
    assert!(all.matches("Hardware watchpoint").count() >= 3, "{name}: {all}");
    assert_ne!(one("one"), one("none"), "{name}: {all}");
    assert_eq!(one("again"), one("behind"), "{name}: one step lies between the stops: {all}");
    let who = all.lines().find(|line| line.contains(" wrote ")).unwrap_or_default();
    assert!(who.contains("by: instruction"), "{name}: {all}");
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_else(|_| panic!("{name}: {all}"));
    let isa = Arch::from_name(name.trim_start_matches("tiny/")).unwrap_or_else(|| panic!("the ISA of {name}")).isa();
    let (writer, front) = (number(who.split(' ').next().unwrap_or_default()), (isa.named_by)(number(one("front"))));
    // gdb extends the addresses of narrow ISAs by their sign.
    assert_eq!(writer as u32, front as u32, "{name}: {all}");
}

/// TT-7: gdb reads and writes registers and memory. A write discards the run's known future, and a message says so.
fn a_change_begins_another_future() {
    let folder = Folder::new("gdb-change");
    let elf = symbols(&folder, "tiny/x86_64");
    let commands = [
        "break vfs_write",
        "continue",
        "set var $rdx = 0",
        "printf \"rdx=%ld\\n\", $rdx",
        "monitor help",
        "set var *(char *)$rsi = 90",
        "printf \"byte=%d\\n\", *(char *)$rsi",
        "reverse-stepi",
        "monitor nothing",
        "monitor seek 5",
    ];
    let all = gdb(&elf, "tiny/x86_64", &commands);
    assert_eq!((said(&all, "rdx"), said(&all, "byte")), (vec!["0"], vec!["90"]), "{all}");
    assert!(all.contains("its run begins anew here"), "{all}");
    assert!(all.contains("No more reverse-execution history"), "{all}");
    assert!(all.contains("`nothing` is no command") && all.contains("`5` is no guest time"), "{all}");
}

/// TT-7: gdb goes through a recording, and the recording's marks are compared on the way.
fn a_recording_is_walked(cpus: &'static str) {
    let folder = Folder::new(&format!("gdb-recording-{cpus}"));
    let file = folder.0.join("one.rec").to_str().unwrap().to_string();
    trapline(&["run", "tiny/arm64", "--cpus", cpus, "--quiet", "--record", &file]);
    let elf = symbols(&folder, "tiny/arm64");
    let commands =
        ["continue", "break schedule", "reverse-continue", PC, "monitor tasks", "info threads", "reverse-continue", PC];
    let all = gdb(&elf, &file, &commands);
    let pcs = said(&all, "pc");
    assert!(pcs.len() == 2 && pcs[0] == pcs[1], "{all}");
    assert!(all.contains("No more reverse-execution history") && all.contains("task `"), "{all}");
    assert_eq!(all.matches("(CPU ").count(), cpus.parse::<usize>().unwrap(), "{all}");
}

/// TT-7: gdb goes through a booted stock kernel, with symbols and callers.
fn a_stock_kernel_is_walked(name: &'static str) {
    let folder = Folder::new(&format!("gdb-{}", name.replace('/', "-")));
    let elf = symbols(&folder, name);
    let commands = [
        "monitor type echo $((6*7))",
        "break vfs_read",
        "continue",
        PC,
        "backtrace 4",
        "finish",
        "printf \"walk=1\\n\"",
        "backtrace 12",
        "printf \"walked=1\\n\"",
        "monitor callers",
        "delete",
        "watch *(unsigned long *)&jiffies_64",
        "reverse-continue",
        "delete",
        "monitor time",
        "monitor tasks",
        "stepi",
        PC,
        "reverse-stepi",
        PC,
    ];
    let all = gdb(&elf, &format!("{name} --from-boot --quiet"), &commands);
    assert!(said(&all, "pc").len() == 3, "{name}: {all}");
    assert!(all.contains("in vfs_read ()") && all.contains("task `"), "{name}: {all}");
    // `monitor` commands print to another stream than gdb's own frames, which have `()` behind the name.
    let callers: Vec<&str> = all.lines().filter(|line| line.starts_with('#') && !line.contains("()")).collect();
    assert!(callers.len() >= 2 && callers[0].contains("read"), "{name}: the callers behind vfs_read are {callers:?}: {all}");
    // gdb unwinds by the file's call frame information, if there is any, and must find the same callers.
    let bytes = std::fs::read(&elf).unwrap();
    if bytes.windows(12).any(|name| name == b".debug_frame") {
        let callers = callers.join("\n");
        let (by_gdb, by_trapline) = (addresses(part(&all, "walk=1", "walked=1")), addresses(&callers));
        let both = by_trapline.len().min(12);
        assert_eq!(by_gdb.get(..both), by_trapline.get(..both), "{name}: {all}");
        println!("{name}: {both} callers");
    }
}

/// The lines from one that holds a text up to one that holds another, or all that follow.
fn part<'a>(all: &'a str, from: &str, to: &str) -> &'a str {
    let from = all.find(from).unwrap_or_else(|| panic!("no `{from}` in {all}"));
    all[from..].find(to).map_or(&all[from..], |to| &all[from..from + to])
}

/// The last eight digits of the addresses in a list of frames. gdb extends those of narrow ISAs by their sign.
fn addresses(frames: &str) -> Vec<&str> {
    let frames = frames.lines().filter(|line| line.starts_with('#'));
    let addresses = frames.filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("0x")));
    addresses.map(|digits| &digits[digits.len().saturating_sub(8)..]).collect()
}

/// The part of gdb's `thread apply all` about one thread.
fn thread_of<'a>(all: &'a str, task: &str) -> Vec<&'a str> {
    let mut lines = all.lines().skip_while(|line| !(line.starts_with("Thread ") && line.contains(&format!("({task}, "))));
    let head = lines.next();
    head.into_iter().chain(lines.take_while(|line| line.starts_with('#'))).collect()
}

/// TT-7: `monitor threads tasks` makes sleeping tasks threads of gdb. Their callers are those that trapline unwinds.
fn sleeping_tasks_are_threads(name: &'static str) {
    let folder = Folder::new(&format!("gdb-tasks-{}", name.replace('/', "-")));
    let elf = symbols(&folder, name);
    let commands = [
        "info threads",
        "printf \"wanted=1\\n\"",
        "monitor threads tasks",
        "thread apply all backtrace 8",
        "printf \"callers=2\\n\"",
        "monitor callers 2",
        "thread 2",
        "printf \"registers=2\\n\"",
        "info registers",
        "stepi",
        "printf \"stepped=1\\n\"",
        "info threads",
        "monitor threads cpus",
        "printf \"again=1\\n\"",
        "info threads",
        "monitor callers 1000000",
        "monitor threads",
    ];
    let all = gdb(&elf, &format!("{name} --from-boot --quiet"), &commands);
    let part = |from: &str, to: &str| part(&all, from, to);
    assert!(!part("", "wanted=1").contains("kthreadd/2") && all.contains("tasks sleep here"), "{name}: {all}");
    let kthreadd = thread_of(part("wanted=1", "callers=2"), "kthreadd/2");
    let mut callers: Vec<&str> = all.lines().filter(|line| line.starts_with('#') && !line.contains("()")).collect();
    // A task begins there: some kernels leave no mark of that on its stack.
    let first = callers.iter().position(|caller| caller.contains(" ret_from_fork"));
    callers.truncate(first.map_or(callers.len(), |first| first + 1));
    let (by_gdb, by_trapline) = (kthreadd.join("\n"), callers.join("\n"));
    assert!(by_trapline.contains(" schedule+0x") && by_trapline.contains(" kthreadd+0x"), "{name}: {by_trapline} {all}");
    assert!(
        callers.len() >= 3 && addresses(&by_gdb).starts_with(&addresses(&by_trapline)),
        "{name}: {by_gdb} {by_trapline} {all}"
    );
    assert!(part("registers=2", "stepped=1").contains("<unavailable>"), "{name}: {all}");
    assert!(
        part("stepped=1", "again=1").contains("kthreadd/2") && !part("again=1", "never").contains("kthreadd/2"),
        "{name}: {all}"
    );
    assert!(all.contains("`1000000` is not the number of a task that sleeps"), "{name}: {all}");
}

/// The folder of kernel headers with which the module for Debian's kernel is built.
const HEADERS: &str = "/lib/modules/6.1.0-56-amd64/build";

/// TT-7: gdb reads the symbols of a loaded module from the guest, and steps through its functions. It cannot read files
/// of the host in this way.
fn a_modules_symbols_are_read_from_the_guest() {
    let folder = Folder::new("gdb-module");
    let out = folder.0.to_str().unwrap();
    let mut make = Command::new("make");
    make.args(["-C", "images/faults", "KERNEL=6.1.0-56-amd64", &format!("OUT={out}")]);
    let built = make.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let elf = symbols(&folder, "debian/amd64");
    let commands = [
        "monitor type insmod /later/*.ko && echo twice >/proc/faults",
        "break proc_reg_write",
        "continue",
        "delete",
        "monitor modules",
        "add-symbol-file target:/modules/faults",
        "break loans_sum",
        "continue",
        "backtrace 12",
        "info symbol loans_sum",
        "add-symbol-file target:/modules/none",
        "add-symbol-file target:/etc/passwd",
        "monitor time",
    ];
    let all = gdb(&elf, &format!("debian/amd64 --from-boot --quiet --module {out}/faults.ko"), &commands);
    assert!(all.lines().any(|line| line == "add-symbol-file target:/modules/faults"), "{all}");
    assert!(all.contains("add-symbol-file faults.ko 0x"), "{all}");
    let frames: Vec<&str> = all.lines().filter(|line| line.starts_with('#') && line.contains(" in ")).collect();
    let wanted = ["loans_sum ()", "faults_write ()", "proc_reg_write ()", "vfs_write ()", "ksys_write ()"];
    let mut rest = frames.iter();
    for function in wanted {
        assert!(rest.any(|frame| frame.ends_with(function)), "{function}: {frames:#?} {all}");
    }
    assert!(all.contains("loans_sum in section .text"), "{all}");
    assert_eq!(all.matches("No such file or directory").count(), 2, "{all}");
    assert!(all.contains("of guest time (tick "), "{all}");
}

/// TT-7: every command of docs/gdb.md does what it says, in the order of the document.
fn the_documents_commands_work() {
    let folder = Folder::new("gdb-document");
    std::os::unix::fs::symlink(PROGRAM, folder.0.join("trapline")).unwrap();
    let document = include_str!("../../docs/gdb.md");
    let commands: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap_or_default());
        let output =
            Command::new("sh").args(["-c", command]).current_dir(&folder.0).env("PATH", path).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !err.contains("rror"), "{command}: {out}\n{err}");
    }
    assert!(Path::new(&folder.0.join("tiny.elf")).exists());
}

/// TT-7: wrong ports, images and files get a message.
fn wrong_arguments_get_a_sentence() {
    let folder = Folder::new("gdb-wrong");
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_string();
    let (recording, damaged, cut) = (path("one.rec"), path("damaged.rec"), path("cut.rec"));
    trapline(&["run", "tiny/x86_64", "--quiet", "--record", &recording]);
    let mut bytes = std::fs::read(&recording).unwrap();
    std::fs::write(&cut, &bytes[..9]).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&damaged, &bytes).unwrap();
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (nowhere, its_folder) = (path("no/x.elf"), path(""));
    #[rustfmt::skip]
    let cases: [(&[&str], &str); 10] = [
        (&["gdb", "tiny/none"],                             "tiny/none"),
        (&["gdb", "tiny/x86_64", "--stdio", "--port", "1"], "cannot be used with"),
        (&["gdb", "tiny/x86_64", "--port", "99999"],        "99999 is not in"),
        (&["gdb", "tiny/x86_64", "--port", &port],          "cannot be opened"),
        (&["gdb", &damaged, "--stdio"],                     "its head is damaged"),
        (&["gdb", &cut, "--stdio"],                         "it is no recording"),
        (&["gdb", "tiny/x86_64", "--from-boot", "--stdio"], "is no stock kernel"),
        (&["gdb", &its_folder, "--stdio"],                  "is a directory"),
        (&["symbols", "tiny/x86_64", "--elf", &nowhere],    "cannot be written"),
        (&["symbols", "tiny/x86_64", "--elf", &its_folder], "cannot be written"),
    ];
    for (args, why) in cases {
        let output = Command::new(PROGRAM).args(args).stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && err.contains(why), "{args:?}: {err}");
    }
}

/// TT-7: a recording that was cut off can be used up to its last complete frame, with a note.
fn a_cut_recording_is_walked() {
    let folder = Folder::new("gdb-cut");
    let file = folder.0.join("one.rec").to_str().unwrap().to_string();
    trapline(&["run", "tiny/x86_64", "--quiet", "--record", &file]);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 70]).unwrap();
    let listening = Listening::start(&folder, &file);
    let mut stream = listening.connect();
    let told = listening.ask(&mut stream, &[b"qSupported:swbreak+", b"vCont;c"], "$T");
    assert!(told.contains("replaylog:end"), "{told}");
    let errors = std::fs::read_to_string(&listening.errors).unwrap();
    assert!(errors.contains("the recording was not finished"), "{errors}");
}

/// TT-7: `monitor checkpoint` and `monitor restart` work. A place that no longer exists gets a message.
fn checkpoints_are_found_again(name: &'static str) {
    let folder = Folder::new(&format!("gdb-checkpoints-{}", name.replace('/', "-")));
    let elf = symbols(&folder, name);
    let flush = "maintenance flush register-cache";
    #[rustfmt::skip]
    let commands = [
        "break vfs_write", "continue", "stepi", "monitor checkpoint", PC, "continue", "continue", "monitor checkpoint", PC,
        "monitor restart 1", flush, PC, "monitor restart 2", flush, PC, "stepi", "reverse-stepi", PC, "monitor restart",
        "monitor restart 3", "monitor restart x", "monitor restart 1", flush, "set var *(char *)$sp = 0", "monitor restart 2", "monitor time",
    ];
    let all = gdb(&elf, name, &commands);
    let pcs = said(&all, "pc");
    assert!(
        pcs.len() == 5 && pcs[0] == pcs[2] && pcs[1] == pcs[3] && pcs[1] == pcs[4] && pcs[0] != pcs[1],
        "{name}: {pcs:?} {all}"
    );
    assert!(all.contains("checkpoint 1: ") && all.contains("checkpoint 2: "), "{name}: {all}");
    assert!(all.contains("`3` is no checkpoint") && all.contains("`x` is no checkpoint"), "{name}: {all}");
    assert!(all.lines().any(|line| line.contains("of guest time (tick ")), "{name}: {all}");
}

/// TT-7: the command in README.md works unchanged, also while the guest still boots. (gdb gives up after two seconds
/// without an answer.)
fn the_command_of_the_readme_works() {
    let folder = Folder::new("gdb-readme");
    std::os::unix::fs::symlink(PROGRAM, folder.0.join("trapline")).unwrap();
    let images = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let images = images.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache"))).unwrap_or_default();
    let cache = folder.0.join("cache/trapline");
    std::fs::create_dir_all(&cache).unwrap();
    let _ = std::os::unix::fs::symlink(images.join("trapline/images"), cache.join("images"));
    let lines = include_str!("../../README.md").lines().map(str::trim);
    let commands: Vec<&str> = lines.filter(|line| line.contains("--elf") || line.starts_with("gdb-multiarch")).collect();
    let [elf, gdb] = commands[..] else { panic!("{commands:?}") };
    // The session of a person, in a batch.
    let gdb = gdb.replace("gdb-multiarch ", "gdb-multiarch -nx -batch ") + " -ex 'monitor time' -ex 'printf \"pc=%#lx\\n\", $pc'";
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap_or_default());
    let mut all = String::new();
    for command in [elf, &gdb] {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&folder.0).env("PATH", &path).env("XDG_CACHE_HOME", folder.0.join("cache"));
        let output = shell.stdin(Stdio::null()).output().unwrap();
        all += &String::from_utf8_lossy(&output.stdout);
        all += &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {all}");
    }
    assert!(all.contains("boots to its shell") && all.contains("its snapshot is saved"), "the cache was empty: {all}");
    assert!(all.contains("of guest time (tick ") && said(&all, "pc").len() == 1, "{all}");
}

/// TT-7: while the guest boots, gdb is sent acknowledgements that it did not ask for, so that it does not give up.
fn gdb_is_kept_waiting_while_the_guest_boots() {
    let folder = Folder::new("gdb-waits");
    let images = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let images = images.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache"))).unwrap_or_default();
    let cache = folder.0.join("cache/trapline");
    std::fs::create_dir_all(&cache).unwrap();
    let _ = std::os::unix::fs::symlink(images.join("trapline/images"), cache.join("images"));
    let mut command = Command::new(PROGRAM);
    command.args(["gdb", "debian/arm64", "--from-boot", "--stdio", "--quiet"]).env("XDG_CACHE_HOME", folder.0.join("cache"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = [0];
    let read = child.stdout.as_mut().unwrap().read(&mut first);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(read.unwrap() == 1 && first == *b"+", "{first:?}");
}

/// A `trapline gdb` that listens on a free port. It is killed when the value is dropped.
struct Listening {
    child: Child,
    port: u16,
    errors: std::path::PathBuf,
}

impl Listening {
    fn start(folder: &Folder, image: &str) -> Listening {
        let errors = folder.0.join("errors");
        let mut command = Command::new(PROGRAM);
        command.args(["gdb", image, "--port", "0"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
        Listening { child, port, errors }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Sends these packets, and returns the answers up to the first one with this beginning.
    fn ask(&self, stream: &mut TcpStream, packets: &[&[u8]], awaited: &str) -> String {
        packets.iter().for_each(|packet| stream.write_all(&framed(packet)).unwrap());
        let (mut answers, mut bytes) = (String::new(), [0; 4096]);
        while !answers.split_once(awaited).is_some_and(|(_, rest)| rest.contains('#')) {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => panic!("no `{awaited}` in {answers}: {}", std::fs::read_to_string(&self.errors).unwrap()),
                Ok(len) => answers += &String::from_utf8_lossy(&bytes[..len]),
            }
        }
        answers
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn framed(packet: &[u8]) -> Vec<u8> {
    let sum = packet.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", packet, format!("#{sum:02x}").as_bytes()].concat()
}

/// Packets of gdb, valid and invalid.
#[rustfmt::skip]
const PACKETS: &[&[u8]] = &[
    b"?", b"g", b"G00", b"p0", b"p-1", b"pffffffffffff", b"P0=00", b"Pffff=11", b"m0,ffffffffffffffff", b"mffffffffffffffff,10", b"m0,0",
    b"M0,4:00", b"Mffffffff81100000,2:zz", b"X0,0:", b"Z0,0,0", b"Z0,ffffffffffffffff,99999", b"z0,1,1", b"z3,12,9", b"Z2,0,0",
    b"Z2,ffffffffffffffff,8", b"Z4,10,ffffffffffffffff", b"Z9,1,1", b"vCont;s:p1.1", b"vCont;s:p1.1;c", b"vCont;s:pffff.ffff;c", b"vCont;c:99",
    b"vCont;r1,2:1", b"vCont;s:-1", b"vCont;t", b"vCont;", b"s", b"c", b"bs", b"bc", b"Hg0", b"Hg99", b"Hc99", b"T99", b"qThreadExtraInfo,99",
    b"qXfer:features:read:target.xml:0,ffff", b"qXfer:features:read:target.xml:ffffffffff,ffff", b"qXfer:features:read:x:0,1", b"qRcmd,",
    b"qRcmd,zz", b"qRcmd,7365656b202d393973", b"qRcmd,77686f20ff", b"qRcmd,77686f207461736b733a34", b"qSupported:xmlRegisters=i386",
    b"vMustReplyEmpty", b"qfThreadInfo", b"D", b"R00", b"!", b"vRun;", b"QStartNoAckMode", b"}}}}", b"\x80\xff", &[b'A'; 5000],
];

const LETTERS: &[u8] = b"$#+-}*\x03vCqHm0123,;:";

/// TT-7: after any data on the connection, and any end of it, the next gdb is answered. Other computers cannot connect.
fn garbage_on_the_port_harms_nobody() {
    let folder = Folder::new("gdb-garbage");
    let listening = Listening::start(&folder, "tiny/x86_64");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default()).concat();
    let (port, listens) = (format!(":{:04X} ", listening.port), " 0A ");
    let sockets: Vec<&str> = tables.lines().filter(|line| line.contains(&port) && line.contains(listens)).collect();
    assert!(sockets.len() == 1 && sockets[0].contains(" 0100007F:"), "it listens on loopback alone: {sockets:?}");
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..300 {
        let mut stream = listening.connect();
        let mut bytes: Vec<u8> = Vec::new();
        for _ in 0..1 + random(8) {
            match random(4) {
                0 => bytes.extend((0..random(300)).map(|_| random(256) as u8)),
                1 => bytes.extend((0..random(100)).map(|_| LETTERS[random(LETTERS.len())])),
                _ => {
                    let mut packet = PACKETS[random(PACKETS.len())].to_vec();
                    if let (0, at) = (random(4), random(packet.len())) {
                        packet[at] = random(256) as u8;
                    }
                    // That would be the end.
                    if packet[0] != b'k' {
                        bytes.extend(framed(&packet));
                    }
                }
            }
        }
        // The other side may have closed the connection already.
        let _ = stream.write_all(&bytes);
        if round % 3 == 0 {
            let _ = stream.read(&mut [0; 16]);
        }
    }
    let mut stream = listening.connect();
    let answers = listening.ask(&mut stream, &[b"?", b"qRcmd,74696d65"], "$OK");
    assert!(answers.contains("$T05") && answers.contains("$O"), "{answers}");
    stream.write_all(&framed(b"k")).unwrap();
    let mut listening = listening;
    assert_eq!(listening.child.wait().unwrap().code(), Some(0));
    let errors = std::fs::read_to_string(&listening.errors).unwrap();
    assert!(errors.lines().all(|line| line.starts_with("note: ")) && errors.contains("gdb's protocol"), "{errors}");
}

/// TT-7: an interrupt stops a running guest. A new gdb finds no breakpoints of the previous one.
fn an_interrupt_stops_the_guest() {
    let folder = Folder::new("gdb-interrupt");
    let listening = Listening::start(&folder, "tiny/arm64");
    let vfs_write = trapline_image_function("tiny/arm64", "vfs_write");
    let mut stream = listening.connect();
    let set = format!("Z0,{vfs_write:x},4").into_bytes();
    listening.ask(&mut stream, &[b"qSupported:swbreak+", &set, b"vCont;c"], "swbreak");
    drop(stream);
    let mut stream = listening.connect();
    let told = listening.ask(&mut stream, &[b"qSupported:swbreak+", b"vCont;c"], "$T");
    assert!(told.contains("replaylog:end"), "{told}");
    stream.write_all(&framed(b"bc")).unwrap();
    stream.write_all(b"\x03").unwrap();
    let told = listening.ask(&mut stream, &[], "$T");
    assert!(told.contains("$T02") || told.contains("replaylog:begin"), "{told}");
}

/// TT-7: a refused write, and a write of no bytes, discard nothing.
fn a_refused_write_changes_nothing(name: &'static str) {
    let folder = Folder::new(&format!("gdb-refused-{}", name.replace('/', "-")));
    let listening = Listening::start(&folder, name);
    let set = format!("Z0,{:x},4", trapline_image_function(name, "vfs_write")).into_bytes();
    let mut stream = listening.connect();
    listening.ask(&mut stream, &[b"qSupported:swbreak+", &set, b"vCont;c"], "swbreak");
    listening.ask(&mut stream, &[b"X0,0:"], "$OK");
    // Nothing is mapped there in any of these kernels, nor behind it.
    for write in [&b"M7fff0000,1:00"[..], b"M7fff0ffc,8:0000000000000000", b"Mffffffffffffffff,2:0000"] {
        listening.ask(&mut stream, &[write], "$E");
    }
    let told = listening.ask(&mut stream, &[b"bs"], "$T");
    assert!(!told.contains("replaylog"), "{name}: the run before the place is forgotten: {told}");
    let told = listening.ask(&mut stream, &[b"qRcmd,68656c70"], "$OK");
    assert!(!told.contains(&hex("begins anew")), "{name}: {told}");
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn trapline_image_function(image: &str, name: &str) -> u64 {
    let output = Command::new(PROGRAM).args(["symbols", image, name, "--json"]).output().unwrap();
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let value: serde_json::Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    let address = value["address"].as_str().unwrap_or_else(|| panic!("{line}"));
    u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap()
}

fn main() -> ExitCode {
    let reader = || tool(GDB, GDB);
    let with_gdb = |tests: Vec<Test>| tests.into_iter().map(|test| test.needs(reader())).collect();
    let stock = guests::stock().map(|name| {
        Test::new(member("a_stock_kernel_is_walked", name), move || a_stock_kernel_is_walked(name)).needs(kernel(name))
    });
    let headers = Need {
        what: "the headers of Debian's kernel".into(),
        missing: (!Path::new(HEADERS).exists())
            .then(|| "the headers of Debian's kernel: apt-get install linux-headers-6.1.0-56-amd64".into()),
    };
    // Kernels with types, whose ISAs have a row of saved registers.
    let with_tasks = ["debian/amd64", "debian/arm64"].into_iter().map(|name| {
        Test::new(member("sleeping_tasks_are_threads", name), move || sleeping_tasks_are_threads(name)).needs(kernel(name))
    });
    harness::run([
        with_gdb(
            guests::tiny().map(|name| Test::new(member("gdb_goes_both_ways", name), move || gdb_goes_both_ways(name))).collect(),
        ),
        with_gdb(
            guests::tiny().map(|name| Test::new(member("gdb_watches_memory", name), move || gdb_watches_memory(name))).collect(),
        ),
        with_gdb(
            ["1", "2"].map(|cpus| Test::new(member("a_recording_is_walked", cpus), move || a_recording_is_walked(cpus))).into(),
        ),
        with_gdb(tests![a_change_begins_another_future, the_documents_commands_work]),
        with_gdb(
            ["tiny/x86_64", "tiny/arm64", "tiny/mips"]
                .map(|name| Test::new(member("checkpoints_are_found_again", name), move || checkpoints_are_found_again(name)))
                .into(),
        ),
        with_gdb(vec![
            Test::new("the_command_of_the_readme_works", the_command_of_the_readme_works).needs(kernel("debian/arm64")),
            Test::new("gdb_is_kept_waiting_while_the_guest_boots", gdb_is_kept_waiting_while_the_guest_boots)
                .needs(kernel("debian/arm64")),
        ]),
        with_gdb(stock.collect()),
        with_gdb(with_tasks.collect()),
        with_gdb(vec![
            Test::new("a_modules_symbols_are_read_from_the_guest", a_modules_symbols_are_read_from_the_guest)
                .needs(kernel("debian/amd64"))
                .needs(headers)
                .needs(tool("make", "make")),
        ]),
        guests::tiny()
            .map(|name| Test::new(member("a_refused_write_changes_nothing", name), move || a_refused_write_changes_nothing(name)))
            .collect(),
        tests![
            wrong_arguments_get_a_sentence,
            a_cut_recording_is_walked,
            garbage_on_the_port_harms_nobody,
            an_interrupt_stops_the_guest
        ],
    ])
}
