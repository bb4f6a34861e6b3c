//! The examples, each run as it stands in `emu/examples/` on every tiny kernel.
#![cfg(feature = "cpu")]

#[allow(dead_code)] // its `main`
#[path = "../examples/jprobe_example.rs"]
mod jprobe_example;
#[allow(dead_code)] // its `main`
#[path = "../examples/kprobe_example.rs"]
mod kprobe_example;
#[allow(dead_code)] // its `main`
#[path = "../examples/kretprobe_example.rs"]
mod kretprobe_example;
#[allow(dead_code)] // its `main`
#[path = "../examples/script_example.rs"]
mod script_example;

const KERNELS: &[&str] = &["tiny/x86_64", "tiny/i386", "tiny/arm64", "tiny/arm", "tiny/thumb2"];

/// The lines that an example has written.
fn said(kernel: &str, example: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Box<dyn std::error::Error>>) -> Vec<String> {
    let mut out = Vec::new();
    example(&mut out).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    String::from_utf8(out).unwrap().lines().map(str::to_string).collect()
}

/// KP-2: the README's program is an example, so it compiles as it stands there. The first program of the crate's
/// documentation, which runs as a test, does the same.
#[test]
fn the_program_of_the_readme_is_an_example() {
    let program = include_str!("../examples/first_program.rs");
    let program = program.split_once("\n\n").unwrap().1;
    assert!(include_str!("../../README.md").contains(&format!("```rust\n{program}```")), "README.md has another program");
}

/// KP-2: both handlers are called at each hit, with the probe's address.
#[test]
fn the_kprobe_example_tells_of_both_handlers() {
    for kernel in KERNELS {
        let lines = said(kernel, |out| kprobe_example::show(kernel, "do_fork", out));
        let (first, rest) = lines.split_first().unwrap();
        let (last, hits) = rest.split_last().unwrap();
        let address = first.split(['(', ')']).nth(1).unwrap();
        assert!(first.starts_with("planted kprobe at do_fork (0x"), "{kernel}: {first}");
        for pair in hits.chunks(2) {
            assert!(
                pair[0].starts_with(&format!("pre_handler:  <do_fork> address = {address}, pc = {address}")),
                "{kernel}: {}",
                pair[0]
            );
            assert!(
                pair[1].starts_with(&format!("post_handler: <do_fork> address = {address}, pc = 0x")),
                "{kernel}: {}",
                pair[1]
            );
            assert!(
                !pair[1].contains(&format!("pc = {address}")) && pair[1].ends_with("handler flags 0x0"),
                "{kernel}: {}",
                pair[1]
            );
        }
        assert!(hits.len() > 20, "{kernel}: {} lines", hits.len());
        assert_eq!(*last, format!("kprobe at do_fork unregistered after {} hits, 0 missed", hits.len() / 2), "{kernel}");
    }
}

/// JP-2: the handler sees the function's arguments, and the guest runs to its end whatever it does with the registers.
#[test]
fn the_jprobe_example_shows_the_arguments() {
    for kernel in KERNELS {
        let lines = said(kernel, |out| jprobe_example::show(kernel, out));
        let hits: Vec<&String> = lines.iter().filter(|line| line.starts_with("jprobe: clone_flags = 0x")).collect();
        assert!(
            hits.len() > 10 && hits.iter().all(|line| line.ends_with("stack_start = 0x0, stack_size = 0x0")),
            "{kernel}: {lines:?}"
        );
        assert_eq!(lines.last().unwrap(), &format!("jprobe unregistered after {} hits", hits.len()), "{kernel}");
    }
}

/// RP-4, RP-5, RP-6: each call's result and time, by its private data.
#[test]
fn the_kretprobe_example_shows_results_and_times() {
    for kernel in KERNELS {
        let lines = said(kernel, |out| kretprobe_example::show(kernel, "doze", out));
        let times = lines.iter().filter_map(|line| line.strip_prefix("doze returned ")?.split_once(" and took "));
        // It sleeps for 3,000 ns and 1,000 more for each unit of n, and returns n * n + 1.
        let mut count = 0;
        for (result, time) in times {
            let (result, time): (u64, u64) = (result.parse().unwrap(), time.split(' ').next().unwrap().parse().unwrap());
            let n = (0..10).find(|n| n * n + 1 == result).unwrap_or_else(|| panic!("{kernel}: doze returned {result}"));
            assert!(time >= 3_000 + n * 1_000, "{kernel}: {time} ns for {n}");
            count += 1;
        }
        assert!(count >= 4, "{kernel}: {lines:?}");
        assert!(lines.last().unwrap().ends_with("missed probing 0 instances of doze"), "{kernel}: {lines:?}");
    }
}

/// BY-1: a script is compiled, attached to a session and ended from Rust. A wrong script gives an error message.
#[test]
fn the_script_example_prints_its_maps() {
    for kernel in KERNELS {
        let lines = said(kernel, |out| {
            script_example::show(kernel, "kretprobe:vfs_read { @calls = count(); @bytes[comm] = sum(retval); }", out)
        });
        let calls = lines.iter().find_map(|line| line.strip_prefix("@calls: ")?.parse::<u64>().ok());
        assert!(calls.is_some_and(|calls| calls > 10), "{kernel}: {lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("@bytes[")), "{kernel}: {lines:?}");
        let ended = said(kernel, |out| script_example::show(kernel, "kprobe:vfs_read { printf(\"first\\n\"); exit(); }", out));
        assert_eq!(ended.iter().filter(|line| *line == "first").count(), 1, "{kernel}: {ended:?}");
        let wrong = script_example::show(kernel, "kprobe:vfs_read { nosuch(); }", &mut Vec::new()).expect_err("no such function");
        assert!(wrong.to_string().contains("Unknown function: nosuch"), "{kernel}: {wrong}");
    }
}
