//! `trapline run`, from the command line to the exit status.
#![cfg(feature = "cpu")]

use serde_json::Value;
use std::process::Command;

struct Said {
    status: i32,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_trapline")).arg("run").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// DV-4: without arguments the tiny kernel runs to its end. The output has the console, the records and the summary.
#[test]
fn the_demo_shows_console_records_and_summary() {
    for image in ["tiny/x86_64", "tiny/i386"] {
        let said = run(&[image]);
        assert_eq!(said.status, 0, "{image}: {}", said.err);
        let place = |words: &str| said.out.find(words).unwrap_or_else(|| panic!("{image}: `{words}` is not in the output"));
        assert!(place("checksum: ") < place("# tracer: nop"), "{image}: the console comes first");
        assert!(place("# tracer: nop") < place("the guest powered off;"), "{image}: the summary comes last");
        let read = said.out.lines().find(|line| line.starts_with("read ")).unwrap();
        // Name, place, mode, when it was armed and its unit, hits, misses.
        let words: Vec<&str> = read.split_whitespace().collect();
        assert_eq!((words[1], words[6]), ("vfs_read", "0"), "{image}: {read}");
        let records = said.out.lines().filter(|line| line.contains(": read: (vfs_read+0x0/")).count();
        assert_eq!(words[5].replace(',', ""), records.to_string(), "{image}: as many records as hits");
    }
}

/// DV-4: the demo's fields of the first packet are the same on every ISA, whatever the size of a pointer.
#[test]
fn the_demo_reads_the_same_fields_everywhere() {
    for builtin in trapline_images::builtins() {
        let said = run(&[builtin.name, "-q"]);
        let packet = said.out.lines().find(|line| line.contains(" packet: (tcp_v4_rcv+"));
        assert!(packet.is_some_and(|line| line.ends_with(" seq=0 len=8")), "{}: {packet:?} {}", builtin.name, said.err);
    }
}

/// BY-4: the guest's console output, including its time stamps, does not depend on the probes.
#[test]
fn the_console_is_the_same_with_and_without_probes() {
    let console = |args: &[&str]| run(args).out.split("\nthe guest powered off").next().unwrap().to_string();
    let bare = console(&["-e", "# nothing"]);
    assert!(bare.contains("tiny: done"), "{bare}");
    let out = std::env::temp_dir().join(format!("trapline-run-{}", std::process::id()));
    let probed = console(&["-e", "p schedule", "-e", "r vfs_read", "-e", "p do_timer_interrupt", "--out", out.to_str().unwrap()]);
    assert_eq!(probed, bare);
    let records = std::fs::read_to_string(&out).unwrap();
    let _ = std::fs::remove_file(&out);
    assert!(records.starts_with("# tracer: nop\n") && records.contains("p_schedule_0: (schedule+0x0/"), "{}", &records[..200]);
}

/// DV-4: with `--json`, standard output has records and the summary as JSON, and the console goes to standard error.
#[test]
fn json_output_is_json_and_nothing_else() {
    let said = run(&["--json", "-e", "p:read vfs_read count=$arg3:u32", "-e", "r:got vfs_read n=$retval:s32"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let lines: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    let (summary, records) = lines.split_last().unwrap();
    assert!(said.err.contains("checksum: "), "the console is on standard error");
    let event = |name: &str| records.iter().filter(|record| record["event"] == name).count() as u64;
    for probe in summary["probes"].as_array().unwrap() {
        let name = probe["name"].as_str().unwrap();
        assert_eq!(probe["hits"].as_u64().unwrap(), event(name), "{name}");
        assert!(event(name) > 100, "{name}");
    }
    assert_eq!(summary["records"].as_u64().unwrap(), records.len() as u64);
    assert!(records.iter().all(|record| record["time_ns"].is_u64() && record["args"].is_object()));
}

/// OP-10: the engine's log is printed on standard error, and is part of the JSON summary.
#[test]
fn the_engines_log_is_shown() {
    const KNOB: &str = "kprobe jump-optimization is disabled. All kprobes are based on software breakpoint.";
    let args = ["-q", "--no-optimize", "--out", "/dev/null", "-e", "p vfs_read"];
    let table = run(&args);
    assert!(table.err.lines().any(|line| line == format!("engine: {KNOB}")), "{}", table.err);
    let json = run(&[&args[..], &["--summary", "json"]].concat());
    let summary: Value = serde_json::from_str(json.out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["log"], serde_json::json!([KNOB]));
}

/// RP-3: the summary shows missed calls with their cause.
#[test]
fn misses_are_shown_with_their_cause() {
    let said = run(&["-q", "--summary", "json", "--out", "/dev/null", "-e", "r1:sleep vfs_read", "-e", "r:all vfs_read"]);
    let summary: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    let missed: u64 = summary["probes"][0]["misses"].as_array().unwrap().iter().map(|miss| miss["count"].as_u64().unwrap()).sum();
    assert!(missed > 0, "tasks sleep inside vfs_read while others enter: {summary}");
    let table = run(&["-q", "--out", "/dev/null", "-e", "r1:sleep vfs_read"]);
    assert!(table.out.contains("no free instance"), "{}", table.out);
}

/// DV-1: `--list` prints probes at the end as debugfs does. Init text has been freed by then.
#[test]
fn the_list_is_that_of_debugfs() {
    let said = run(&[
        "-q",
        "--list",
        "--summary",
        "none",
        "--out",
        "/dev/null",
        "-e",
        "p:one vfs_read+4",
        "-e",
        "r:two do_fork",
        "-e",
        "p:three start_kernel",
    ]);
    assert_eq!(said.status, 0, "{}", said.err);
    let mut lines: Vec<&str> = said.out.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["k  start_kernel+0x0    [GONE]", "k  vfs_read+0x4    ", "r  do_fork+0x0    [OPTIMIZED]"]);
}

/// KP-15, KP-4, KP-5, DV-4: a refused probe is shown with a caret under the wrong word, and the guest does not boot.
#[test]
fn refused_probes_are_drawn() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str], &[&str]); 5] = [
        ("an unknown symbol",           &["-e", "p:x vfs_raed"],                            &["ENOENT", "-e:1:5", "vfs_read", "^^^^^^^^"]),
        ("inside an instruction",       &["-e", "p:x vfs_read+1"],                          &["EILSEQ", "vfs_read+0x0 and vfs_read+0x4"]),
        ("blacklisted",                 &["-e", "p:x do_int3"],                             &["EINVAL", "blacklisted"]),
        ("blacklisted by the user",     &["--blacklist", "vfs_read", "-e", "p:x vfs_read"], &["EINVAL", "blacklisted"]),
        ("an event twice",              &["-e", "p:x vfs_read", "-e", "p:x vfs_read"],      &["EEXIST", "SAME_PROBE"]),
    ];
    for (what, args, expected) in cases {
        let said = run(args);
        assert_eq!((said.status, said.out.as_str()), (1, ""), "{what}: {}", said.err);
        for words in expected {
            assert!(said.err.contains(words), "{what}: `{words}` is not in:\n{}", said.err);
        }
    }
}

/// DV-4: the exit status depends on the end of the run.
#[test]
fn the_exit_status_tells_how_the_guest_ended() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str], i32, &str); 5] = [
        ("at a limit",      &["--append", "spin=1", "--until", "1ms"],          0, "the limit was reached; 1.000 ms"),
        ("at a text",       &["--until", "console:checksum"],                   0, "the console printed the awaited text"),
        ("a panic",         &["--append", "oops=1", "--until", "50ms"],         1, "the guest's kernel panicked"),
        ("a triple fault",  &["--append", "crash=1", "--until", "50ms"],        1, "the guest died"),
        ("two CPUs",        &["--cpus", "2"],                                   0, "the guest powered off;"),
    ];
    for (what, args, status, expected) in cases {
        let said = run(&[args, &["-q", "-e", "p vfs_read"]].concat());
        assert_eq!(said.status, status, "{what}: {}", said.err);
        assert!(said.out.contains(expected), "{what}: {}", said.out.lines().rev().take(8).collect::<Vec<_>>().join("\n"));
    }
}

/// DV-4: after a panic, a crash or a hang, the registers and the call chain are printed. After a normal end they are
/// not.
#[test]
fn a_guest_that_panics_dies_or_hangs_is_looked_at() {
    for builtin in trapline_images::builtins() {
        for asked in ["oops=1", "crash=1", "spin=1"] {
            let said = run(&[builtin.name, "-q", "-e", "p vfs_read", "--append", asked, "--until", "50ms"]);
            let told = |words: &str| said.err.contains(words);
            let what = format!("{}, {asked}: {}", builtin.name, said.err);
            assert!(told("registers of CPU 0:") && told("\nCPU 0 is at 0x"), "{what}");
            let callers = said.err.split_once("innermost first").map_or("", |(_, callers)| callers);
            // A guest that is past help may have no stack any more.
            assert!(asked == "crash=1" || callers.lines().any(|line| line.contains("+0x")), "{what}");
        }
        let said = run(&[builtin.name, "-q", "-e", "p vfs_read"]);
        assert!(said.status == 0 && !said.err.contains("registers of CPU"), "{}: {}", builtin.name, said.err);
    }
}

/// OP-10: `--no-optimize` removes the flag [OPTIMIZED] from the list.
#[test]
fn without_optimisation_the_list_has_no_such_flag() {
    let list = |more: &[&str]| {
        let said =
            run(&[&["--quiet", "--list", "--summary", "none", "--out", "/dev/null", "-e", "r:two do_fork"], more].concat());
        assert_eq!(said.status, 0, "{}", said.err);
        said.out
    };
    assert!(list(&[]).contains("[OPTIMIZED]") && !list(&["--no-optimize"]).contains("[OPTIMIZED]"));
}

/// OP-4: records are the same in both forms of detours.
#[test]
fn records_are_the_same_in_both_forms_of_detours() {
    for image in ["tiny/x86_64", "tiny/i386"] {
        let records = |form| {
            let events = ["-e", "p:open do_sys_open a=$arg1 b=$arg2 f=%flags s=%sp", "-e", "r:done do_sys_open n=$retval"];
            let said = run(&[&[image, "--quiet", "--list", "--summary", "none", "--detour", form], &events[..]].concat());
            assert_eq!(said.status, 0, "{}", said.err);
            assert!(said.out.contains("[OPTIMIZED]"), "{image}, {form}: {}", said.out);
            said.out
        };
        assert_eq!(records("lean"), records("faithful"), "{image}");
    }
}

/// The rows of the summary, by the probes' names.
fn rows(said: &Said) -> Vec<(String, String, u64)> {
    let summary: Value = serde_json::from_str(said.out.lines().last().unwrap()).unwrap();
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_string();
        (text("name"), text("mode"), row["hits"].as_u64().unwrap())
    };
    summary["probes"].as_array().unwrap().iter().map(row).collect()
}

/// DV-2, DV-3, DV-4, OP-10: `--at` executes commands of debugfs, sysctl and kprobe_events at a guest time, in order.
/// The guest's run stays the same.
#[test]
fn commands_are_carried_out_while_the_guest_runs() {
    let events = ["-q", "--out", "/dev/null", "--summary", "json", "-e", "p:read vfs_read", "-e", "r:done do_fork"];
    let plain = run(&events);
    #[rustfmt::skip]
    let said = run(&[&events[..], &[
        "--at", "0ns",   "disable",
        "--at", "200us", "profile",
        "--at", "200us", "enable",
        "--at", "300us", "p:late vfs_write",
        "--at", "500us", "list",
        "--at", "500us", "knob off",
        "--at", "500us", "list",
        "--at", "600us", "knob on",
        "--at", "600us", "disable late",
        "--at", "600us", "-:late",
        "--at", "600us", "disable kprobes/read",
        "--at", "600us", "list",
    ]].concat());
    assert_eq!(said.status, 0, "{}", said.err);
    // With JSON on standard output, what is for people is on standard error.
    let profile: Vec<Vec<&str>> =
        said.err.lines().filter(|line| line.starts_with("  ")).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(profile, [["read", "0", "0"], ["done", "0", "0"]], "nothing was armed until then: {}", said.err);
    let lists: Vec<&str> = said.err.lines().filter(|line| line.contains("  k  ") || line.contains("  r  ")).collect();
    let of = |symbol: &str| lists.iter().copied().filter(|line| line.contains(symbol)).collect::<Vec<_>>();
    assert_eq!((of("vfs_write").len(), of("vfs_read").len(), of("do_fork").len()), (2, 3, 3), "{lists:?}");
    assert!(of("do_fork")[0].ends_with("[OPTIMIZED]") && !of("do_fork")[1].contains("OPTIMIZED"), "{lists:?}");
    assert!(of("vfs_read")[2].ends_with("[DISABLED]"), "{lists:?}");
    let (plain, rows) = (rows(&plain), rows(&said));
    let names: Vec<&str> = rows.iter().map(|(name, _, _)| name.as_str()).collect();
    assert_eq!(names, ["read", "done", "late"], "{rows:?}");
    assert!(rows[2].1 == "removed" && rows[2].2 > 0, "what was removed is told of too: {rows:?}");
    assert!(rows[0].2 > 0 && rows[0].2 < plain[0].2, "{rows:?}, {plain:?}");
    let console = |args: &[&str]| {
        let said = run(&[&["-e", "p vfs_read", "--out", "/dev/null"], args].concat());
        said.out.split("\nthe guest powered off").next().unwrap().to_string()
    };
    assert_eq!(
        console(&["--at", "100us", "disable", "--at", "300us", "enable", "--at", "400us", "j:one schedule"]),
        console(&[])
    );
}

/// DV-3, DV-4: `--profile` and `--list-blacklist` print at the end.
#[test]
fn the_blacklist_and_the_profile_are_printed_at_the_end() {
    let said = run(&["-q", "--profile", "--list-blacklist", "--summary", "none", "--out", "/dev/null", "-e", "p:read vfs_read"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let (profile, blacklist) = said.out.split_once('\n').unwrap();
    let words: Vec<&str> = profile.split_whitespace().collect();
    assert!(words[0] == "read" && words[1].parse::<u64>().unwrap() > 100 && words[2] == "0", "{profile}");
    assert!(blacklist.lines().all(|line| line.starts_with("0x") && line.contains('\t')), "{blacklist}");
    assert!(blacklist.contains("\tcount_blacklisted_calls\n"), "{blacklist}");
}

/// JP-2: the letter `j`, which Linux does not have, makes a jprobe event.
#[test]
fn jprobe_events_record_arguments() {
    let said = run(&["-q", "-e", "j:fork do_fork flags=$arg1 start=$arg2:u64"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let records = said.out.lines().filter(|line| line.contains(": fork: (do_fork+0x0/") && line.ends_with("start=0")).count();
    assert!(records > 10, "{}", said.out);
}

/// DV-4: an invalid command is refused before the guest boots. If the guest's state refuses a command, a message and
/// the exit status say so.
#[test]
fn invalid_commands_get_a_message() {
    #[rustfmt::skip]
    let cases: [(&str, &[&str], i32, &[&str]); 6] = [
        ("no time",                 &["--at", "soon", "list"],                             2, &["`soon` is not a guest time", "50ms"]),
        ("no command",              &["--at", "1us", "reboot"],                            2, &["`reboot` is not a command", "knob on"]),
        ("a line that is wrong",    &["--at", "1us", "p:x vfs_read %nosuch:u99"],          2, &["--at 1us:1:", "BAD_TYPE"]),
        ("an unknown event",        &["--at", "1us", "disable nosuch"],                    1, &["no such event", "`disable nosuch` was not done"]),
        ("an event in use",         &["-e", "p:x vfs_read", "--at", "1us", "-:x"],         1, &["EBUSY", "disable it first"]),
        ("later than the end",      &["--at", "900s", "list"],                             0, &["the run ended before the time of `list`"]),
    ];
    for (what, args, status, expected) in cases {
        let said = run(&[&["-q", "--out", "/dev/null"], args].concat());
        assert_eq!(said.status, status, "{what}: {}", said.err);
        for words in expected {
            assert!(said.err.contains(words), "{what}: `{words}` is not in:\n{}", said.err);
        }
    }
}

/// A kernel that looks like Linux for z/Architecture and loops from its first function on. Also returns its System.map.
fn silent_kernel() -> (Vec<u8>, String) {
    const AT: u64 = 0x10_0000;
    // The longest possible block, so that ten seconds of it are short: 512 branches that are never taken, and one back.
    let mut code = [0xc0, 0x04, 0, 0, 0, 0].repeat(512);
    let back = -(code.len() as i32 / 2);
    code.extend([&[0xc0, 0xf4][..], &back.to_be_bytes()].concat());
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([2_u16, 22].map(u16::to_be_bytes).concat());
    file.extend(1_u32.to_be_bytes());
    file.extend([AT, 64, 0].map(u64::to_be_bytes).concat());
    file.extend(0_u32.to_be_bytes());
    file.extend([64_u16, 56, 1, 64, 0, 0].map(u16::to_be_bytes).concat());
    file.extend([1_u32, 5].map(u32::to_be_bytes).concat());
    file.extend([0x1000, AT, AT, code.len() as u64, code.len() as u64, 0x1000].map(u64::to_be_bytes).concat());
    file.resize(0x1000, 0);
    let end = AT + code.len() as u64;
    (
        [file, code].concat(),
        format!(
            "{AT:016x} T _stext\n{AT:016x} T startup\n{AT:016x} T startup_continue\n{AT:016x} t kernel_init_freeable\n{end:016x} T _etext\n"
        ),
    )
}

/// KP-4, DV-4: a stock kernel that prints nothing is stopped with a message. With `--until`, it runs as long as that
/// asks for.
#[test]
fn a_kernel_that_stays_silent_ends_its_run() {
    let (kernel, names) = silent_kernel();
    let folder = std::env::temp_dir().join(format!("trapline-silent-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    };
    let (image, symbols, initrd) = (file("vmlinux", &kernel), file("System.map", names.as_bytes()), file("initrd", b""));
    let args = [&image[..], "--symbols", &symbols, "--initrd", &initrd, "-q"];
    let silent = run(&args);
    let asked_for = run(&[&args[..], &["--until", "11s"]].concat());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(silent.status, 1, "{}", silent.err);
    for words in ["the guest has printed nothing for 10 s of its time", "another board or other CPUs than the `s390ccw` board"] {
        assert!(silent.err.contains(words), "{words}: {}", silent.err);
    }
    assert!(silent.out.contains("the guest printed nothing; 10.0"), "{}", silent.out);
    assert_eq!(asked_for.status, 0, "{}", asked_for.err);
    assert!(asked_for.out.contains("the limit was reached; 11.000 s of guest time"), "{}", asked_for.out);
}
