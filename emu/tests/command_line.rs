//! The command line: its output, its messages for wrong input, and its exit status.
#![cfg(feature = "cpu")]

use std::io::Write;
use std::process::{Command, Stdio};

struct Said {
    status: i32,
    out: String,
    err: String,
}

fn trapline(args: &[&str]) -> Said {
    trapline_with(args, "")
}

fn trapline_with(args: &[&str], input: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trapline"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { status: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A file that is deleted when the value is dropped.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("trapline-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        File(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// KP-4, KP-5, KP-15, DV-4: each wrong command line ends with its exit status and a message that says what to do.
#[test]
fn wrong_command_lines_get_a_message() {
    let tiny = trapline_images::find("tiny/x86_64").unwrap().bytes;
    let truncated = File::new("truncated", &tiny[..5000]);
    let foreign = File::new("foreign", &{
        let mut bytes = tiny.to_vec();
        bytes[18..20].copy_from_slice(&258_u16.to_le_bytes());
        bytes
    });
    let text = File::new("text", b"# a script\n");
    let gzip = File::new("gzip", &[0x1f, 0x8b, 8, 0, 0]);
    let map = File::new("map", b"ffffffff81100000 T _stext\nnonsense\n");
    let directory = std::env::temp_dir();
    #[rustfmt::skip]
    let cases: Vec<(&str, Vec<&str>, i32, Vec<&str>)> = vec![
        ("no command",                  vec![],                                                             2, vec!["Usage: trapline"]),
        ("an unknown command",          vec!["chekc"],                                                      2, vec!["unrecognized subcommand", "check"]),
        ("a truncated file",            vec!["check", truncated.name()],                                    2, vec!["cut off", "help: copy or download the file again"]),
        ("a foreign machine",           vec!["check", foreign.name()],                                      2, vec!["it is for LoongArch", "supported are i386"]),
        ("a text file",                 vec!["disasm", text.name(), "vfs_read"],                            2, vec!["it looks like text", "vmlinux"]),
        ("a compressed file",           vec!["symbols", gzip.name()],                                       2, vec!["cannot be unpacked (gzip)", "download the file again"]),
        ("a directory",                 vec!["check", directory.to_str().unwrap()],                         2, vec!["is a directory"]),
        ("an ISA that Debian has not",  vec!["images", "pull", "debian/sparc64"],                           2, vec!["Debian 12 has no kernel for sparc64", "`trapline run tiny/sparc64`", "check FILE"]),
        ("one that somebody can build", vec!["run", "debian/powerpc"],                                      2, vec!["Debian 12 has no kernel for powerpc", "`trapline run linux/ppc`", "images/linux-ppc/build.sh"]),
        ("the same by pull",            vec!["images", "pull", "linux/ppc"],                                1, vec!["`linux/ppc` is in no archive", "images/linux-ppc/build.sh", "TRAPLINE_IMAGES"]),
        ("a kernel that is built",      vec!["images", "pull", "linux/mips"],                               1, vec!["`linux/mips` is in no archive", "images/linux-mips/build.sh"]),
        ("a program on a core of ours", vec!["run", "tiny/parisc", "-e", "p:x /bin/sh:0x1000"],              1, vec!["this machine cannot observe user programs", "probe the system calls"]),
        ("the same to look at",         vec!["check", "debian/sparc64@6.1.0-50"],                           2, vec!["Debian 12 has no kernel for sparc64"]),
        ("an unknown image",            vec!["check", "tiny/x86_46"],                                       2, vec!["no built-in kernel called `tiny/x86_46`", "did you mean `tiny/x86_64`"]),
        ("no such file",                vec!["check", "/nowhere/vmlinux"],                                  2, vec!["there is no file", "`trapline images` lists"]),
        ("a System.map with a bad line", vec!["check", "tiny/x86_64", "--symbols", map.name()],             2, vec!["line 2", "is not `address letter name`"]),
        ("an unknown symbol",           vec!["check", "tiny/x86_64", "vfs_raed"],                           1, vec!["the place may not be probed"]),
        ("an unknown symbol to show",   vec!["disasm", "tiny/x86_64", "vfs_raed"],                          1, vec!["ENOENT: no symbol is called `vfs_raed`", "did you mean `vfs_read`"]),
        ("a function that is data",     vec!["disasm", "tiny/x86_64", "__start_rodata"],                    1, vec!["is not code"]),
        ("an address of nothing",       vec!["disasm", "tiny/x86_64", "0x10"],                              1, vec!["ENOENT: no symbol covers 0x10"]),
        ("a pattern to show",           vec!["disasm", "tiny/x86_64", "vfs_*"],                             2, vec!["is a pattern"]),
        ("an offset that is none",      vec!["check", "tiny/x86_64", "vfs_read+four"],                      2, vec!["`four`", "is no offset", "WHERE is"]),
        ("an address that is none",     vec!["check", "tiny/x86_64", "0xxyz"],                              2, vec!["is no address"]),
        ("a pattern without a match",   vec!["check", "tiny/x86_64", "zz*"],                                1, vec!["no function matches `zz*`"]),
        ("symbols without a match",     vec!["symbols", "tiny/x86_64", "zz*"],                              1, vec!["no symbol matches `zz*`"]),
        ("a wrong policy",              vec!["check", "tiny/x86_64", "--policy", "linux"],                  2, vec!["best", "linux-6.1"]),
        ("a release of another ISA",    vec!["check", "tiny/x86_64", "--policy", "linux-7.2"],              2, vec!["decisions of Linux 7.2 on x86_64 are not known", "linux-6.1"]),
        ("a release to run with",       vec!["run", "tiny/arm64", "--policy", "linux-6.12"],                2, vec!["decisions of Linux 6.12 on arm64", "--policy best"]),
        ("places and a table",          vec!["check", "tiny/x86_64", "vfs_read", "--tsv"],                  2, vec!["cannot be used with"]),
        ("an unknown built-in",         vec!["images", "info", "tiny/vax"],                                 2, vec!["no kernel is called `tiny/vax`"]),
        ("no kernel to measure",        vec!["bench", "debian/amd64"],                                      2, vec!["`debian/amd64` is not built in", "tiny/x86_64"]),
        ("a malformed event",           vec!["run", "-e", "p:read vfs_read n=%di:u7"],                      2, vec!["EINVAL", "BAD_TYPE", "-e:1:23", "                      ^"]),
        ("a malformed script",          vec!["run", "-f", text.name(), "-e", "x:y z"],                      2, vec!["BAD_COMMAND", "-e:1:1"]),
        ("a script that is not there",  vec!["run", "-f", "/nowhere/script"],                               2, vec!["cannot be read as a script"]),
        ("a limit without a unit",      vec!["run", "--until", "50"],                                       2, vec!["guest time with its unit"]),
        ("no such form of detour",      vec!["run", "--detour", "fast"],                                    2, vec!["lean", "faithful"]),
        ("no such CPU",                 vec!["run", "--cpu", "68000"],                                      2, vec!["`68000` is not a CPU for x86_64", "amd, intel"]),
        ("a CPU for a still image",     vec!["check", "tiny/x86_64", "--cpu", "intel"],                     2, vec!["give --booted too"]),
        ("a form that the ISA has not", vec!["run", "tiny/arm", "--detour", "faithful"],                    2, vec!["no faithful detour", "use lean ones"]),
        ("too many CPUs",               vec!["run", "--cpus", "3"],                                         2, vec!["3 CPUs were asked for", "1 to 2 CPUs"]),
        ("an unknown blacklist entry",  vec!["run", "--blacklist", "vfs_raed"],                             1, vec!["did you mean `vfs_read`"]),
    ];
    for (what, args, status, expected) in cases {
        let said = trapline(&args);
        assert_eq!(said.status, status, "{what}: {}{}", said.out, said.err);
        for words in expected {
            assert!(said.err.contains(words), "{what}: `{words}` is not in:\n{}", said.err);
        }
        assert!(!said.err.contains('\x1b'), "{what}: colours without a terminal");
    }
}

/// KP-4, KP-5, KP-15: `check` answers for one place.
#[test]
fn check_answers_about_places() {
    #[rustfmt::skip]
    let cases: [(&str, &str, i32, &[&str]); 8] = [
        ("an entry",                        "vfs_read",             0, &["ffffffff", "vfs_read", "boost"]),
        ("an unknown symbol",               "vfs_raed",             1, &["ENOENT", "did you mean `vfs_read`"]),
        ("the middle of an instruction",    "vfs_read+1",           1, &["EILSEQ", "vfs_read+0x0 and vfs_read+0x4"]),
        ("a blacklisted function",          "do_int3",              1, &["EINVAL", "blacklisted as part of do_int3"]),
        ("data",                            "__start_rodata",       1, &["EINVAL", "not in the text"]),
        ("an address outside",              "0x1000",               1, &["ENOENT", "lies in no function"]),
        ("all of a function",               "vfs_read+*",           0, &["vfs_read+0x4", "emulate"]),
        ("a pattern",                       "sys_*",                0, &["sys_open", "sys_exit"]),
    ];
    for (what, place, status, expected) in cases {
        let said = trapline(&["check", "tiny/x86_64", place]);
        assert_eq!(said.status, status, "{what}: {}{}", said.out, said.err);
        for words in expected {
            assert!(said.out.contains(words), "{what}: `{words}` is not in:\n{}", said.out);
        }
    }
}

/// KP-5: `check` prints the table that is compared with the decisions of real kernels.
#[test]
fn bulk_questions_are_answered_in_the_order_asked() {
    let symbols = trapline(&["symbols", "tiny/x86_64", "vfs_read", "--json"]);
    let line: serde_json::Value = serde_json::from_str(&symbols.out).unwrap();
    let entry = line["address"].as_str().unwrap().to_string();
    let inside = format!("{:#x}", u64::from_str_radix(&entry[2..], 16).unwrap() + 1);
    let said =
        trapline_with(&["check", "tiny/x86_64", "--tsv"], &format!("{inside}\tp\n1000\tr\n{entry}\tp\n{entry}\tr\n{entry}\tq\n"));
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = said.out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows[0], ["address", "kind", "result", "status", "plan", "bytes", "why"]);
    assert_eq!(rows[1][..5], [inside.as_str(), "p", "EILSEQ", "-", "-"]);
    assert_eq!(rows[2][..6], ["0x1000", "r", "ENOENT", "-", "-", "-"]);
    assert_eq!(rows[3][..5], [entry.as_str(), "p", "ok", "plain", "boost"]);
    assert_eq!(rows[4][..4], [entry.as_str(), "r", "ok", "plain"]);
    assert_eq!(rows[5][..5], [entry.as_str(), "q", "ok", "plain", "step"]);
    assert_eq!(rows.len(), 6);
    // Why a probe that may stand there is not optimised (OP-2, OP-5).
    for (row, why) in rows[3..].iter().zip(["indirect jump", "indirect jump", "post-handler"]) {
        assert!(row[5].len() == 64 && row[6].contains(why), "32 bytes and the reason: {row:?}");
    }
}

/// KP-5: a table with a bad line gives an error and no answer.
#[test]
fn a_malformed_question_is_named_and_nothing_is_answered() {
    let said = trapline_with(&["check", "tiny/x86_64", "--tsv"], "0x1000\tp\n0x1000 p\n");
    assert_eq!((said.status, said.out.as_str()), (2, ""));
    assert!(said.err.contains("line 2") && said.err.contains("address<TAB>kind"), "{}", said.err);
}

/// OP-2, KP-15: the totals over the whole text agree with each other.
#[test]
fn the_totals_add_up() {
    for image in ["tiny/x86_64", "tiny/i386"] {
        for policy in ["best", "linux-6.1"] {
            let said = trapline(&["check", image, "--json", "--policy", policy]);
            assert_eq!(said.status, 0, "{image}: {}", said.err);
            let totals: serde_json::Value = serde_json::from_str(&said.out).unwrap();
            let number = |name: &str| totals[name].as_u64().unwrap();
            let plans: u64 = totals["plans"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
            let reasons: u64 = totals["reasons"].as_array().unwrap().iter().map(|reason| reason["count"].as_u64().unwrap()).sum();
            assert!(number("instructions") > 3000, "{image}: {totals}");
            assert_eq!(number("accepted") + number("refused"), number("instructions"), "{image}");
            assert_eq!((plans, reasons), (number("accepted"), number("refused")), "{image}");
        }
    }
    let people = trapline(&["check", "tiny/x86_64"]);
    assert!(
        people.out.contains("may be probed") && people.out.contains("is blacklisted") && people.out.contains('%'),
        "{}",
        people.out
    );
}

/// KP-5: `disasm` prints a function as text and as JSON.
#[test]
fn disasm_shows_each_instruction_with_its_verdict() {
    let said = trapline(&["disasm", "tiny/x86_64", "sys_yield"]);
    assert_eq!(said.status, 0, "{}", said.err);
    let call = said.out.lines().find(|line| line.contains("<schedule>")).unwrap();
    assert!(call.trim_start().starts_with("+0x") && call.contains("e8 ") && call.ends_with("emulate"), "{call}");
    let json = trapline(&["disasm", "tiny/x86_64", "do_int3", "--json", "--syntax", "intel"]);
    let first: serde_json::Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert_eq!((first["offset"].as_u64(), first["result"].as_str()), (Some(0), Some("EINVAL")));
    assert!(first["why"].as_str().unwrap().contains("blacklisted"), "{first}");
}

/// DV-1: names, in both forms.
#[test]
fn symbols_and_images_are_listed() {
    let said = trapline(&["symbols", "tiny/i386", "vfs_*", "--text"]);
    let names: Vec<&str> = said.out.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
    assert!(names.contains(&"vfs_read") && names.iter().all(|name| name.starts_with("vfs_")), "{names:?}");
    let images = trapline(&["images", "list", "--json"]);
    let names: Vec<String> = images
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["name"].as_str().unwrap().to_string())
        .collect();
    let [tiny, stock] = [trapline_images::builtins().len(), trapline_images::stocks().len()];
    assert!(names.len() == tiny + stock && names[0] == "tiny/x86_64" && names[tiny] == "debian/amd64", "{names:?}");
    assert!(trapline_images::builtins().iter().all(|builtin| names.iter().any(|name| name == builtin.name)), "{names:?}");
    assert!(trapline_images::stocks().iter().all(|stock| names.iter().any(|name| name == stock.name)), "{names:?}");
    let info = trapline(&["images", "info", "tiny/x86_64"]);
    assert!(info.status == 0 && info.out.contains("demo script"), "{}", info.out);
}

/// DV-4: each command explains itself, with examples.
#[test]
fn every_command_has_help_with_examples() {
    for command in ["run", "check", "disasm", "symbols", "images", "completions"] {
        let said = trapline(&[command, "--help"]);
        assert_eq!(said.status, 0, "{command}");
        assert!(said.out.contains("Examples:\n  trapline "), "{command}:\n{}", said.out);
    }
    let completions = trapline(&["completions", "bash"]);
    assert!(completions.status == 0 && completions.out.contains("disasm"));
}

/// KP-4: a stripped kernel with its System.map works like the complete file. Without the map, the command says what is
/// missing.
#[test]
fn a_stripped_kernel_is_asked_about_with_its_system_map() {
    let mut stripped = trapline_images::find("tiny/x86_64").unwrap().bytes.to_vec();
    stripped[40..48].fill(0); // where the section headers lie
    stripped[60..62].fill(0); // how many there are
    let stripped = File::new("stripped", &stripped);
    let said = trapline(&["check", stripped.name()]);
    assert_eq!(said.status, 1);
    assert!(said.err.contains("has no symbols") && said.err.contains("--symbols"), "{}", said.err);

    let line = |line: &str| {
        let symbol: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| symbol[field].as_str().unwrap().to_string();
        format!("{} {} {}\n", text("address").trim_start_matches("0x"), text("kind"), text("name"))
    };
    let symbols = trapline(&["symbols", "tiny/x86_64", "--json"]);
    let map = File::new("map-of-stripped", symbols.out.lines().map(line).collect::<String>().as_bytes());
    let whole = trapline(&["check", "tiny/x86_64", "--json"]);
    let joined = trapline(&["check", stripped.name(), "--symbols", map.name(), "--json"]);
    assert_eq!((joined.status, joined.out), (0, whole.out), "{}", joined.err);
}
