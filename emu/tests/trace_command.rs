//! `trapline trace`: its output, its messages for wrong input, and its exit status.
#![cfg(feature = "cpu")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const TINY: &str = "tiny/x86_64";

struct Said {
    status: Option<i32>,
    out: String,
    err: String,
}

fn trace(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline"))
        .arg("trace")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn file(name: &str, text: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("a file");
    path
}

/// DV-4: `trace` has the options by which `run` chooses its guest and its limits, and refuses the same values.
#[test]
fn a_guest_is_chosen_as_by_run() {
    #[rustfmt::skip]
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--cpu", "intel", "--until", "1us"],                   0, ""),
        (&["--cpu", "nosuch"],                                    2, "`nosuch` is not a CPU for x86_64 kernels"),
        (&["--until", "console:a", "--until", "console:b"],       2, "only one text can be waited for"),
        (&["--from-boot"],                                        2, "has no shell to start at"),
    ];
    for (options, status, why) in cases {
        let said = trace(&[&[TINY, "-q", "-e", "BEGIN { }"], options].concat());
        assert!(said.status == Some(status) && said.err.contains(why), "{options:?}: {:?} {}", said.status, said.err);
    }
}

/// BY-2: a program or library without a path is found, even if nothing else in the script contains a path.
#[test]
fn a_program_is_found_by_its_name_alone() {
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-sysroot", std::process::id()));
    std::fs::create_dir_all(root.join("usr/bin")).expect("a folder");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../images/programs/prebuilt/calls-amd64");
    std::fs::copy(program, root.join("usr/bin/calls")).expect("a file");
    let root = root.to_str().expect("text");
    for script in
        ["uprobe:calls:marks { @ = count(); }", "ur:calls:marks { }", "usdt:calls:first { }", "uprobe:/usr/bin/calls:marks { }"]
    {
        let said = trace(&[TINY, "--sysroot", root, "--dry-run", "-e", script]);
        assert_eq!((said.status, said.out.as_str()), (Some(0), "1 probe\n"), "{script}: {}", said.err);
    }
}

/// BY-1: output goes to standard output, and messages about the run to standard error, in both output formats.
#[test]
fn output_is_on_standard_output_and_the_rest_elsewhere() {
    let program = "BEGIN { printf(\"begun\\n\"); } kprobe:vfs_read { @calls = count(); @by[func] = sum(1); }";
    let said = trace(&[TINY, "-e", program, "-q"]);
    assert_eq!((said.status, said.err.as_str()), (Some(0), "Attached 2 probes\n"), "{}", said.out);
    let calls: u64 = said.out.lines().find_map(|line| line.strip_prefix("@calls: ")?.parse().ok()).expect("a number");
    assert_eq!(said.out, format!("begun\n\n\n@by[vfs_read]: {calls}\n@calls: {calls}\n"));
    assert!(calls > 10);

    let json = trace(&[TINY, "-e", program, "-q", "-f", "json"]);
    let lines: Vec<serde_json::Value> =
        json.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds, ["attached_probes", "printf", "map", "map"], "{}", json.out);
    assert_eq!(lines[3]["data"]["@calls"], calls);

    let path = file("out", "");
    let to = path.to_str().expect("a name");
    let quiet = trace(&[TINY, "-e", program, "-q", "-o", to]);
    assert_eq!((quiet.status, quiet.out.as_str()), (Some(0), ""), "{}", quiet.err);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), said.out);
    let _ = std::fs::remove_file(path);
}

/// BY-1: an error in a script is shown with its place, the exit status is 2, and nothing runs.
#[test]
fn bad_scripts_are_pointed_at() {
    let caret = |source: &str, part: &str| " ".repeat(source.find(part).expect("it is in it")) + &"^".repeat(part.len());
    #[rustfmt::skip]
    let cases = [
        ("kprobe:vfs_raed { @ = count(); }",       "kprobe:vfs_raed",      "No matches for kprobe:vfs_raed"),
        ("kprobe:vfs_read { @ = cuont(); }",       "cuont()",              "Unknown function: cuont"),
        ("kprobe:vfs_read { printf(\"%d\\n\"); }", "printf(\"%d\\n\")",    "Not enough arguments for format string"),
        ("BEGIN { $x = $y + 1; }",                 "$y",                   "Undefined or undeclared variable: $y"),
        ("BEGIN { @a = 1; @a = \"x\"; }",          "@a = \"x\"",           "Type mismatch for @a"),
        ("foo:bar { }",                            "foo:bar",              "Invalid provider: 'foo'"),
        ("BEGIN { system(\"reboot\"); }",          "system(\"reboot\")",   "system() is refused"),
        ("kprobe:vfs_read { override(0); }",       "override(0)",          "unsafe function"),
        ("BEGIN { if (1) { }",                     "",                     ""),
        ("",                                       "",                     "this script has no probe"),
    ];
    for (program, part, words) in cases {
        let said = trace(&[TINY, "-e", program]);
        assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{program}: {}", said.err);
        assert!(said.err.starts_with("error: ") && said.err.contains(words), "{program}: {}", said.err);
        if !part.is_empty() {
            assert!(said.err.contains(&caret(program, part)), "{program}: no caret under {part}:\n{}", said.err);
        }
    }
    let missing = trace(&[TINY]);
    assert_eq!(missing.status, Some(2));
    assert!(missing.err.contains("there is no script to run"), "{}", missing.err);
    let none = trace(&[TINY, "/nowhere/x.bt"]);
    assert!(none.status == Some(2) && none.err.contains("cannot be read as a script"), "{}", none.err);
    // A script that compiles but may not be probed is a failure of the probe: status 1, and the text is underlined, too.
    let refused = trace(&[TINY, "-e", "kprobe:do_int3 { @ = count(); }"]);
    assert_eq!(refused.status, Some(1), "{}", refused.err);
    assert!(refused.err.contains("blacklisted") && refused.err.contains("^^^^"), "{}", refused.err);
}

/// BY-1: the options that run nothing: the list of attach points, and the check of a script.
#[test]
fn lists_and_dry_runs_run_nothing() {
    let listed = trace(&[TINY, "-l", "kprobe:vfs_*"]);
    assert_eq!(listed.status, Some(0), "{}", listed.err);
    assert!(listed.out.lines().any(|line| line == "kprobe:vfs_read"), "{}", listed.out);
    assert!(listed.out.lines().all(|line| line.starts_with("kprobe:vfs_")), "{}", listed.out);
    let everywhere = trace(&[TINY, "-l", "*_read"]);
    assert!(everywhere.out.lines().any(|line| line == "kprobe:vfs_read"), "{}", everywhere.out);
    assert_eq!(trace(&[TINY, "-l", "kprobe:nothing_is_called_so*"]).status, Some(1));
    assert_eq!(trace(&[TINY, "-l", "uprobe:*"]).status, Some(2));

    let dry = trace(&[TINY, "-e", "BEGIN { printf(\"x\"); exit(); } kprobe:vfs_* { }", "--dry-run"]);
    let probes = 1 + listed.out.lines().count();
    assert_eq!((dry.status, dry.out), (Some(0), format!("{probes} probes\n")), "{}", dry.err);
}

/// BY-1: an endless loop in a script is ended with a message, and the exit status is 1.
#[test]
fn a_loop_without_an_end_is_ended() {
    for program in ["BEGIN { while (1) { $x = 1; } }", "kprobe:vfs_read { while (1) { } } END { printf(\"never\"); }"] {
        let said = trace(&[TINY, "-e", program, "-q"]);
        assert_eq!(said.status, Some(1), "{program}: {}", said.err);
        assert!(said.err.contains("a loop took more than 1,000,000 turns in one hit: the script was ended"), "{}", said.err);
        assert!(!said.out.contains("never"), "{program}: a script that was ended has no end of its own");
    }
}

/// BY-1: `exit()` sets the exit status, and ends tracing at that very hit.
#[test]
fn exit_ends_tracing_at_that_hit() {
    let program =
        "kprobe:vfs_read { @n++; if (@n == 5) { printf(\"%d\\n\", nsecs); exit(); } } END { printf(\"%d\\n\", nsecs); }";
    let said = trace(&[TINY, "-e", program, "-q"]);
    let times: Vec<u64> = said.out.lines().filter_map(|line| line.parse().ok()).collect();
    let [hit, end] = times[..] else { panic!("two times: {}", said.out) };
    assert!((hit..hit + 200).contains(&end), "the run has gone on for {} ns behind the hit that ended it", end - hit);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let failed = trace(&[TINY, "-e", "kprobe:vfs_read { exit(3); }", "-q"]);
    assert!(failed.status == Some(1) && failed.err.contains("the script ended with status 3"), "{}", failed.err);
}

/// BY-1: Ctrl-C ends tracing and prints the maps.
#[test]
fn ctrl_c_prints_the_maps() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trapline"))
        .args(["trace", TINY, "--append", "spin=1", "-q"])
        .args(["-e", "BEGIN { printf(\"begun\\n\"); } i:ms:1 { @ticks = count(); printf(\"tick\\n\"); }"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.by_ref().take(3).any(|line| line == "tick"), "it runs");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).expect("a signal");
    let rest: Vec<String> = lines.filter(|line| line != "tick").collect();
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), Some(0), "{rest:?}");
    assert!(
        matches!(&rest[..], [one, other, ticks] if one.is_empty() && other.is_empty() && ticks.starts_with("@ticks: ")),
        "{rest:?}"
    );
}

/// BY-1: several scripts and lines of kprobe_events run together, each as if it were the only one.
#[test]
fn scripts_and_events_run_together() {
    let (one, other) =
        (file("one.bt", "kprobe:vfs_read { @one = count(); }"), file("other.bt", "kprobe:vfs_read { @other = count(); }"));
    let (one, other) = (one.to_str().expect("a name"), other.to_str().expect("a name"));
    let said = trace(&[TINY, one, "--with", other, "--event", "p:reads vfs_read n=$arg3", "-q"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    let value = |name: &str| said.out.lines().find_map(|line| line.strip_prefix(name)?.parse::<usize>().ok()).expect(name);
    let (counted, records) = (value("@one: "), said.out.lines().filter(|line| line.contains(": reads: (vfs_read+0x0/")).count());
    assert!(counted > 10 && counted == value("@other: ") && counted == records, "{}", said.out);
    let bad = trace(&[TINY, one, "--event", "p:x vfs_raed"]);
    assert!(bad.status == Some(1) && bad.err.contains("vfs_raed"), "{:?} {}", bad.status, bad.err);
    let _ = (std::fs::remove_file(one), std::fs::remove_file(other));
}

/// BY-1: values that do not fit into a map are counted, and the number is printed.
#[test]
fn values_without_room_are_counted() {
    let said = trace(&[TINY, "-e", "config = { max_map_keys = 3 } kprobe:vfs_read { @[nsecs] = 1; @n = count(); }", "-q"]);
    let count: u64 = said.out.lines().find_map(|line| line.strip_prefix("@n: ")?.parse().ok()).expect("a number");
    assert_eq!(said.out.lines().filter(|line| line.starts_with("@[")).count(), 3, "{}", said.out);
    assert!(said.err.contains(&format!("{} values found no room in @", count - 3)), "{}", said.err);
}

/// BY-1: `-p` restricts probes to one process, `-v` prints the hits at the end, and environment variables override the
/// script's settings.
#[test]
fn options_of_bpftrace_mean_what_they_mean_there() {
    let by_process = "kprobe:vfs_read { @[pid] = count(); } i:us:50 { @ticks = count(); }";
    let all = trace(&[TINY, "-e", by_process, "-q"]);
    let pids: Vec<&str> =
        all.out.lines().filter_map(|line| line.strip_prefix("@[")?.split_once(']')).map(|(pid, _)| pid).collect();
    assert!(pids.len() > 1, "{}", all.out);
    let one = trace(&[TINY, "-e", by_process, "-q", "-p", pids[0]]);
    let lines: Vec<&str> = one.out.lines().filter(|line| line.starts_with("@[")).collect();
    assert!(matches!(lines[..], [line] if line.starts_with(&format!("@[{}]: ", pids[0]))), "{}", one.out);
    assert!(one.out.contains("@ticks: "), "a clock ticks for everybody: {}", one.out);

    let said = trace(&[TINY, "-e", "kprobe:vfs_read, kprobe:asm_* { @ = count(); }", "-q", "-v", "-I", "/usr/include"]);
    let count = said.out.lines().find_map(|line| line.strip_prefix("@: ")).expect("a number");
    assert!(said.err.contains(&format!("note: kprobe:vfs_read: {count} hits\n")), "{}", said.err);
    assert!(said.err.contains("note: kprobe:asm_int3: not probed: EINVAL"), "{}", said.err);

    let reads = trace(&[TINY, "-e", "BEGIN { print(*0xdead000000000000) }", "-q", "-k"]);
    assert!(
        reads.err.contains("WARNING: begin: the memory at 0xdead000000000000 cannot be read: Bad address (-14)"),
        "{}",
        reads.err
    );

    let set = |name: &str, value: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_trapline"))
            .args([
                "trace",
                TINY,
                "-q",
                "-e",
                "config = { max_map_keys = 9 } kprobe:vfs_read { @[nsecs] = 1 } END { @n = len(@); clear(@); }",
            ])
            .env(name, value)
            .output()
            .expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    };
    assert!(set("BPFTRACE_LICENSE", "GPL").out.contains("@n: 9\n"));
    assert!(set("BPFTRACE_MAX_MAP_KEYS", "4").out.contains("@n: 4\n"));
    assert!(set("BPFTRACE_MAP_KEYS_MAX", "4").out.contains("@n: 4\n"), "its name in Debian 12");
    let unknown = set("BPFTRACE_NO_SUCH", "4");
    assert!(unknown.status == Some(2) && unknown.err.contains("BPFTRACE_NO_SUCH of the environment"), "{}", unknown.err);
}

/// BY-1, DV-4: records of events show their call stack, in both output formats. If trapline has no unwinding rule, the
/// frames are marked as guesses.
#[test]
fn records_of_events_show_stacks() {
    let said = trace(&[TINY, "-e", "BEGIN { }", "--event", "p:reads vfs_read", "--stacktrace", "-q"]);
    let stacks: Vec<&str> = said.out.split(": <stack trace>\n").skip(1).collect();
    assert!(stacks.len() > 10, "{}", said.out);
    for stack in stacks {
        let calls: Vec<&str> = stack.lines().take_while(|line| line.starts_with(" => ")).collect();
        assert!(calls.len() > 1 && calls[0] == " => vfs_read" && calls[1].starts_with(" => ? "), "{stack}");
    }
    let json = trace(&[TINY, "-e", "BEGIN { }", "--event", "p:reads vfs_read", "--stacktrace", "-q", "-f", "json"]);
    let records: Vec<serde_json::Value> = json
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .filter(|line: &serde_json::Value| line["event"] == "reads")
        .collect();
    assert!(records.len() > 10, "{}", json.out);
    for record in records {
        assert!(record["stack"][0].as_str().is_some_and(|call| call.starts_with("vfs_read+0x0/")), "{record}");
        assert!(
            record["stack"].as_array().is_some_and(|calls| calls.len() > 1) && record["stack_is_guessed"] == true,
            "{record}"
        );
    }
}

/// BY-1: anything in place of a script gets an error message at once.
#[test]
fn files_that_are_no_scripts_get_a_message() {
    let deep = format!("BEGIN {{ print({}1{}) }}", "(".repeat(10_000), ")".repeat(10_000));
    let long = format!("BEGIN {{ print(1{}) }}", " + 1".repeat(20_000));
    #[rustfmt::skip]
    let cases = [
        (deep.as_str(),                                     "nested deeper than a hundred levels"),
        (&long,                                             "one inside the other"),
        ("hello",                                           "expecting {"),
        ("hello { }",                                       "Invalid provider: 'hello'"),
        ("{ }",                                             "a probe begins with an attach point"),
        ("kprobe { }",                                      "kprobe is followed by a function"),
        ("kprobe: { }",                                     "kprobe is followed by a function"),
        ("kprobe:vfs_read",                                 "expecting {"),
        ("kprobe:vfs_read { @ = count( }",                  "a value stands here"),
        ("kprobe:vfs_read { @ = count() } }",               "a probe begins with an attach point"),
        ("kprobe:vfs_read { if @ }",                        "expecting {"),
        ("kprobe:vfs_read { for ($i : 1) { } }",            "expecting .."),
        ("kprobe:vfs_read { $x }",                          "Undefined or undeclared variable"),
        ("kprobe:vfs_read { arg0->x }",                     "Can not access field 'x'"),
        ("kprobe:vfs_read { ((struct file *)arg0)->f }",    "Unknown struct/union: 'struct file'"),
        ("kprobe:vfs_read { print(args) }",                 "here the arguments are arg0, arg1"),
        ("kprobe:vfs_read { printf(1) }",                   "begins with its format"),
        ("kprobe:vfs_read { printf(\"%q\", 1) }",           "begins no conversion"),
        ("kprobe:vfs_read { printf(\"%d\", \"a\") }",       "%d specifier expects a value of type integer (string supplied)"),
        ("kprobe:vfs_read { @a[1] = 1; @a[1, 2] = 1 }",     "Argument mismatch for @a"),
        ("kprobe:vfs_read { @ = hist(\"a\") }",             "a number is needed here"),
        ("kprobe:vfs_read { reg(\"nosuch\") }",             "is not a valid register on this architecture (x86_64)"),
        ("kprobe:vfs_read { kaddr(\"nosuch\") }",           "Failed to resolve kernel symbol: nosuch"),
        ("kprobe:vfs_read { signal(9) }",                   "signal() is refused"),
        ("kprobe:vfs_read { print(cat(\"/etc/passwd\")) }", "out of reach"),
        ("fn f() { }",                                      "write a macro"),
        ("import \"stdlib\"; BEGIN { }",                    "nothing can be imported"),
        ("interval:s:0 { }",                                "a number greater than 0"),
        ("hardware:cycles:1 { }",                           "are not counted by this machine"),
        ("uprobe:/bin/sh:main { }",                         "/bin/sh is not in the guest's initial file system"),
        ("uprobe:sh:main { }",                              "sh is no program or library of the guest"),
        ("usdt:/bin/sh:shell:start { }",                    "/bin/sh is not in the guest's initial file system"),
        ("usdt:sh:shell:start { }",                         "sh is no program or library of the guest"),
        ("usdt:/bin/sh { }",                                "usdt is followed by a file, a provider and a name"),
        ("kprobe:vfs_read { uaddr(\"main\") }",             "this block has none"),
        ("tracepoint:sched:sched_switch { }",               "carries no type information"),
        ("BEGIN { print(1); } BEGIN",                       "expecting {"),
        ("#define X(a) a\nBEGIN { X(1) }",                  "#define with parameters"),
        ("#if 1\nBEGIN { }",                                "write #endif"),
        ("BEGIN { \u{1F600} }",                             "has no meaning here"),
    ];
    for (program, words) in cases {
        let said = trace(&[TINY, "-e", program]);
        assert_eq!((said.status, said.out.as_str()), (Some(2), ""), "{}: {}", &program[..program.len().min(80)], said.err);
        let no = said.err.lines().next().unwrap_or_default();
        assert!(no.starts_with("error: ") && said.err.contains(words), "{}: {}", &program[..program.len().min(80)], said.err);
        assert!(said.err.len() < 4000 + 3 * program.len() && !said.err.contains("panicked"), "{}", said.err);
    }
    let binary = file("binary.bt", "");
    std::fs::write(&binary, [0x7f, b'E', b'L', b'F', 0xff, 0, 1]).expect("a file");
    let said = trace(&[TINY, binary.to_str().expect("a name")]);
    assert!(said.status == Some(2) && said.err.contains("cannot be read as a script"), "{}", said.err);
    let folder = trace(&[TINY, env!("CARGO_TARGET_TMPDIR")]);
    assert!(folder.status == Some(2) && folder.err.contains("cannot be read as a script"), "{}", folder.err);
    let types = trace(&[TINY, "-e", "BEGIN { }", "--btf", binary.to_str().expect("a name")]);
    assert!(types.status == Some(2) && types.err.contains("has no BTF types"), "{}", types.err);
    let _ = std::fs::remove_file(binary);
}

/// BY-1: a script of 5,000 probes is compiled, and gets its parameters unchanged.
#[test]
fn long_scripts_and_parameters() {
    let mut program = String::from("\u{feff}BEGIN { printf(\"%d %s %d\\n\", $1, str($2), $#); }\n");
    for number in 0..5_000 {
        program += &format!(
            "kprobe:vfs_read /pid == {number}/ {{ @p{}[comm, {number}] = count(); $x = {number}; $x += 1; }}\n",
            number % 50
        );
    }
    let path = file("long.bt", &program);
    let said = trace(&[TINY, path.to_str().expect("a name"), "12", "two words", "-q"]);
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert!(said.out.starts_with("12 two words 2\n") && said.out.contains("@p2[pipe-reader, 2]: 1\n"), "{}", said.out);
    let _ = std::fs::remove_file(path);
}
