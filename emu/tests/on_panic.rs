//! `--on-panic report` on kernels with planted faults: built-in kernels that are built again with a fault, and a module
//! for Debian's kernel (images/faults).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use trapline_harness::{self as harness, Folder, Need, Test, kernel, member, tests, tool};

const PROGRAM: &str = env!("CARGO_BIN_EXE_trapline");
const HEADERS: &str = "/lib/modules/6.1.0-56-amd64/build";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Source code of the planted fault: one function corrupts a list, another one follows it and faults.
const PLANTED: &str = "
struct planted { struct planted *next; unsigned long value; };
static struct planted planted[2] = { { &planted[1], 1 }, { &planted[0], 2 } };
static struct planted *volatile planted_head = planted;

noinline void spoil_planted(struct planted *from) { from->next = (void *)0x30; }

noinline unsigned long sum_planted(struct planted *from)
{
	unsigned long sum = 0;

	for (int i = 0; i < 4; i++, from = from->next)
		sum += from->value;
	return sum;
}

static noinline void do_what_tests_want(void)
{
	printk(\"sum %lu\\n\", sum_planted(planted_head));
	spoil_planted(&planted_head[1]);
	for (int i = 0; i < 1000; i++)
		cpu_relax();
	printk(\"sum %lu\\n\", sum_planted(planted_head));
";

/// The built-in kernel of an ISA with the planted fault.
fn planted(folder: &Folder, isa: &str) -> String {
    let (sources, out) = (folder.0.join("tiny"), folder.0.join("out"));
    assert!(output(Command::new("cp").args(["-r", "images/tiny"]).arg(&sources).current_dir(root())).status.success());
    let main = sources.join("kernel/main.c");
    let (text, begins) = (std::fs::read_to_string(&main).unwrap(), "static noinline void do_what_tests_want(void)\n{\n");
    assert_eq!(text.matches(begins).count(), 1);
    std::fs::write(&main, text.replace(begins, PLANTED)).unwrap();
    let built = output(Command::new("sh").arg(sources.join("build.sh")).arg(&out).arg(isa));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    out.join(format!("tiny-{isa}.elf")).to_str().unwrap().to_string()
}

/// TT-8: the report of a wild pointer names the function that wrote it, on every ISA, with probes and without, on
/// several CPUs.
fn a_wild_pointer_leads_to_its_writer(isa: &'static str) {
    let folder = Folder::new(&format!("on-panic-{isa}"));
    let image = planted(&folder, isa);
    let cases: [&[&str]; 4] = [
        &["run", &image, "-e", "p schedule", "--out", "/dev/null", "--summary", "none"],
        &["run", &image, "-e", "r sum_planted", "--out", "/dev/null", "--summary", "none", "--cpus", "2"],
        &["trace", &image, "-e", "BEGIN { printf(\"begin\\n\"); }"],
        &["trace", &image, "-e", "kretprobe:sum_planted { @ = count(); }"],
    ];
    for case in cases {
        let ran = output(Command::new(PROGRAM).args(case).args(["--quiet", "--on-panic", "report"]));
        let text = String::from_utf8_lossy(&ran.stderr);
        let (_, why) = text.split_once("why the kernel failed at").unwrap_or_else(|| panic!("{isa}: {case:?}: {text}"));
        let lines: Vec<&str> = why.lines().collect();
        assert!(lines[1].contains("sum_planted+") && lines[1].ends_with(" faulted"), "{isa}: {case:?}: {why}");
        assert!(lines[2].contains(" was 0x30, loaded from ") && lines[2].contains(" planted+0x"), "{isa}: {case:?}: {why}");
        assert!(lines[3].contains("by 0x") && lines[3].contains(" sum_planted+0x"), "{isa}: {case:?}: {why}");
        assert!(
            lines[4].contains("the last write there was by") && lines[4].contains(" spoil_planted"),
            "{isa}: {case:?}: {why}"
        );
        assert!(lines[5].contains(" became 0x30, ") && lines[6].contains("in task `init`"), "{isa}: {case:?}: {why}");
        assert_eq!(ran.status.code(), Some(1), "{isa}: {case:?}: {text}");
    }
}

/// TT-8: without a panic there is no report. A panic without a fault gets a message.
fn other_ends_are_told_from_faults() {
    let well = output(Command::new(PROGRAM).args(["run", "tiny/arm64", "--quiet", "--on-panic", "report"]));
    let text = String::from_utf8_lossy(&well.stderr);
    assert!(well.status.success() && !text.contains("why the kernel failed"), "{text}");
    let asked =
        output(Command::new(PROGRAM).args(["run", "tiny/arm64", "--append", "oops=1", "--quiet", "--on-panic", "report"]));
    let text = String::from_utf8_lossy(&asked.stderr);
    assert!(text.contains("the kernel itself has called panic()") && asked.status.code() == Some(1), "{text}");
    let wrong = output(Command::new(PROGRAM).args(["run", "tiny/arm64", "--on-panic", "nothing"]));
    assert_eq!(wrong.status.code(), Some(2));
}

/// The kinds of faults of images/faults, with expected lines of the report in their order.
const FAULTS: [(&str, &[&str]); 4] = [
    ("twice", &["loans_sum+0x", "faulted", "0x6361622064696170, loaded from 8 bytes at", "by 0xffff", "note_new+0x"]),
    ("list", &["__list_del_entry_valid", "found a corrupted list", "'s prev was", "by 0xffff", "spoil_list"]),
    ("stack", &["overflow_stack", "found a spoiled stack", "the stack protector's word is", "by 0xffff", "spoil_stack"]),
    ("jump", &["jumped to 0x1230", "the target was 0x1230", "jump_wild+0x", "by 0xffff", "spoil_action"]),
];

/// TT-8: in Debian's kernel, the reports of a double free, a corrupted list, a corrupted stack and a wild jump name the
/// guilty functions of the module. The recording's replay begins 10 ms earlier.
fn faults_of_a_module_lead_to_their_functions(kind: &'static str) {
    let folder = Folder::new(&format!("on-panic-{kind}"));
    let out = format!("OUT={}", folder.0.display());
    let built = output(Command::new("make").args(["-C", "images/faults", "KERNEL=6.1.0-56-amd64", &out]).current_dir(root()));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_string();
    let (module, script, recording) = (path("faults.ko"), path("work.sh"), path("fault.rec"));
    std::fs::write(&script, format!("echo {kind} > /proc/faults\n")).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "debian/amd64", "--from-boot", "--module", &module, "--script", &script, "--quiet"]);
    let ran = output(command.args(["--on-panic", "report", "--record", &recording]));
    let text = String::from_utf8_lossy(&ran.stderr);
    let (_, why) = text.split_once("why the kernel failed at").unwrap_or_else(|| panic!("{kind}: {text}"));
    let expected = FAULTS.iter().find(|(known, _)| *known == kind).unwrap().1;
    let mut rest = why;
    for part in expected {
        let at = rest.find(part).unwrap_or_else(|| panic!("{kind}: no `{part}` in {why}"));
        rest = &rest[at + part.len()..];
    }
    let replay =
        why.lines().find_map(|line| line.split_once("with probes: trapline replay ")).unwrap_or_else(|| panic!("{why}")).1;
    let from = replay.split(' ').nth(2).unwrap();
    let args = ["replay", &recording, "--quiet", "--from", from, "-e", "kprobe:oops_enter,kprobe:panic { @ = count(); }"];
    let again = output(Command::new(PROGRAM).args(args));
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(said.contains("@: ") && replay.starts_with(&recording), "{kind}: {said}{}", String::from_utf8_lossy(&again.stderr));
}

/// TT-2, TT-8: the end of a recording that ended in a panic is replayed with a probe on every instruction of panic().
/// The replay panics when the recording did, with the same report.
fn every_instruction_of_panic_is_probed_in_a_replay(name: &'static str) {
    let folder = Folder::new(&format!("on-panic-last-{}", name.replace('/', "-")));
    let recording = folder.0.join("panic.rec").to_str().unwrap().to_string();
    let ran = output(Command::new(PROGRAM).args(["run", name, "--append", "oops=1", "--quiet", "--record", &recording]));
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    let listed = output(Command::new(PROGRAM).args(["disasm", name, "panic", "--json"]));
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    let rows = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let probed: Vec<u64> = rows.filter(|row| row["result"] == "ok").map(|row| row["offset"].as_u64().unwrap()).collect();
    assert!(probed.len() >= 5, "{name}: {lines}");
    let events: Vec<String> = probed.iter().flat_map(|at| ["--event".into(), format!("p:at{at} panic+{at}")]).collect();
    let again = output(Command::new(PROGRAM).args(["replay", &recording, "--last", "10ms", "--quiet"]).args(&events));
    let (out, err) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    assert!(again.status.code() == Some(1) && err.contains("panicked") && !err.contains("differs"), "{name}: {err}");
    let hits = probed.iter().filter(|at| out.contains(&format!(": at{at}: (panic+{at:#x}/"))).count();
    // On Power a function may be entered behind its first instructions.
    assert!(hits >= 4 && hits + 6 >= probed.len(), "{name}: {hits} of {}: {out}", probed.len());
}

/// TT-7, TT-8: gdb goes to an oops in a recording, prints its cause, the modules and the tasks, and goes back.
fn gdb_is_told_the_cause() {
    let folder = Folder::new("on-panic-gdb");
    let out = format!("OUT={}", folder.0.display());
    let built = output(Command::new("make").args(["-C", "images/faults", "KERNEL=6.1.0-56-amd64", &out]).current_dir(root()));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_string();
    let (module, script, recording, elf) = (path("faults.ko"), path("work.sh"), path("fault.rec"), path("kernel.elf"));
    std::fs::write(&script, "echo jump > /proc/faults\n").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["run", "debian/amd64", "--from-boot", "--module", &module, "--script", &script, "--quiet"]);
    output(command.args(["--record", &recording]));
    assert!(output(Command::new(PROGRAM).args(["symbols", "debian/amd64", "--elf", &elf])).status.success());
    let connect = format!("target remote | '{PROGRAM}' gdb {recording} --stdio");
    let commands = [
        "break oops_enter",
        "continue",
        "monitor why",
        "monitor modules",
        "monitor tasks",
        "stepi",
        "reverse-stepi",
        "monitor why",
    ];
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch", &elf, "-ex", "set width 0", "-ex", "set remotetimeout 120", "-ex", &connect]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
    let said = output(&mut gdb);
    let all = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    let causes = all.matches("the target was 0x1230, loaded from 8 bytes at").count();
    assert_eq!(causes, 2, "{all}");
    let row = all
        .lines()
        .find(|line| line.starts_with("# or by its file: add-symbol-file faults.ko 0xffff"))
        .unwrap_or_else(|| panic!("{all}"));
    assert!(row.contains(" -s .data 0xffff") && row.contains(" -s .bss 0xffff"), "{row}");
    assert!(all.contains("\n      1      1 ") && all.contains(" kthreadd"), "{all}");
}

fn main() -> ExitCode {
    let headers = Need {
        what: "the headers of Debian's kernel".into(),
        missing: (!Path::new(HEADERS).exists())
            .then(|| "the headers of Debian's kernel: apt-get install linux-headers-6.1.0-56-amd64".into()),
    };
    let modules = FAULTS.map(|(kind, _)| {
        Test::new(member("faults_of_a_module_lead_to_their_functions", kind), move || {
            faults_of_a_module_lead_to_their_functions(kind)
        })
        .needs(kernel("debian/amd64"))
        .needs(headers.clone())
        .needs(tool("make", "make"))
    });
    let with_gdb = Test::new("gdb_is_told_the_cause", gdb_is_told_the_cause)
        .needs(kernel("debian/amd64"))
        .needs(headers.clone())
        .needs(tool("make", "make"))
        .needs(tool("gdb-multiarch", "gdb-multiarch"));
    let compilers = [
        ("x86_64", "gcc"),
        ("i386", "gcc"),
        ("arm64", "aarch64-linux-gnu-gcc"),
        ("arm", "arm-linux-gnueabihf-gcc"),
        ("ppc64le", "powerpc64le-linux-gnu-gcc"),
        ("mipsel", "mipsel-linux-gnu-gcc"),
        ("s390x", "s390x-linux-gnu-gcc"),
        ("riscv64", "riscv64-linux-gnu-gcc"),
    ];
    let built = compilers.map(|(isa, compiler)| {
        Test::new(member("a_wild_pointer_leads_to_its_writer", isa), move || a_wild_pointer_leads_to_its_writer(isa))
            .needs(tool(compiler, compiler))
    });
    let replayed = ["tiny/x86_64", "tiny/arm64", "tiny/s390x", "tiny/ppc64le", "tiny/mipsel"].map(|name| {
        Test::new(member("every_instruction_of_panic_is_probed_in_a_replay", name), move || {
            every_instruction_of_panic_is_probed_in_a_replay(name)
        })
    });
    harness::run([built.into(), replayed.into(), Vec::from(modules), vec![with_gdb], tests![other_ends_are_told_from_faults]])
}
