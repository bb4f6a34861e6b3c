//! Compares the stack traces that a stock kernel's own unwinder prints with and without return probes. They must be
//! equal.
//!
//! A test without its kernel is counted as skipped.

use std::process::ExitCode;
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline_harness::guests::{self, Family};
use trapline_harness::{self as harness, each};
use trapline_probes::probe::Kretprobe;
use trapline_tests::stock::at_shell;
use trapline_tests::{Run, assert_same};

const LONG: u64 = 120_000_000_000;
/// One of this many functions gets a return probe, in addition to the named ones.
const STRIDE: usize = 40;

/// Prints the stacks of a sleeping task, of a task that walks its own stack, of all tasks, and of the current CPU. The
/// word-by-word stack dump of MIPS kernels is omitted, because it shows stale data of returned functions.
const WALKS: &[u8] = b"
mkdir -p /proc /tmp; mount -t proc proc /proc 2>/dev/null; mkfifo /tmp/f
sleep 100 & s=$!
cat /tmp/f & t=$!
sleep 1
for p in $s $t; do cat /proc/$p/wchan; echo; cat /proc/$p/stack; done
cat /proc/self/stack
dmesg -n 1
echo t > /proc/sysrq-trigger; echo w > /proc/sysrq-trigger; echo l > /proc/sysrq-trigger
dmesg | grep -v -E 'Stack :|[]] +[0-9a-f]{16} ' > /tmp/told
grep -n -A 24 -E 'task:(cat|sleep|kthreadd|init)' /tmp/told | head -n 150
tail -n 45 /tmp/told
md5sum < /tmp/told
exit 7
";

/// Functions on the call chains of these tasks, and the functions that walk stacks.
const NAMED: &[&str] = &[
    "schedule",
    "schedule_timeout",
    "schedule_hrtimeout_range_clock",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "vfs_read",
    "ksys_read",
    "new_sync_read",
    "tty_read",
    "n_tty_read",
    "seq_read",
    "seq_read_iter",
    "proc_single_show",
    "proc_pid_stack",
    "proc_pid_wchan",
    "stack_trace_save",
    "stack_trace_save_tsk",
    "save_stack_trace_tsk",
    "arch_stack_walk",
    "walk_stackframe",
    "__save_stack_trace",
    "get_wchan",
    "__get_wchan",
    "sched_show_task",
    "show_stack",
    "show_trace_log_lvl",
    "dump_backtrace",
    "unwind_backtrace",
    "unwind_frame",
    "unwind_next_frame",
    "__unwind_start",
    "show_state_filter",
    "__handle_sysrq",
    "write_sysrq_trigger",
    "vfs_write",
    "ksys_write",
    "worker_thread",
    "kthread",
    "kthreadd",
    "rcu_gp_kthread",
    "smpboot_thread_fn",
    "do_wait",
    "kernel_wait4",
];

/// RP-9, BY-4: each kernel's own unwinder, whether it works by ORC, frame pointers, unwind tables, back chains or function
/// prologues.
fn walks_its_stacks_as_unprobed(name: &'static str) {
    let stock = at_shell(name);
    let boot = || {
        let mut session = stock.session();
        session.machine_mut().take_console();
        session.machine_mut().console_input(WALKS);
        session
    };
    let run = |session: &mut Session| {
        let stop = session.run_until(LONG);
        let machine = session.machine_mut();
        let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
        Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
    };
    let plain = run(&mut boot());
    assert_eq!(plain.stop, Stop::PowerOff(7), "{name}:\n{}", plain.console);
    for words in ["nanosleep", "seq_read_iter", "schedule+0x", "sysrq"] {
        assert!(plain.console.to_lowercase().contains(&words.to_lowercase()), "{name}: {words}:\n{}", plain.console);
    }

    let mut probed = boot();
    let named = NAMED.iter().map(|name| Kretprobe::at(*name));
    let functions = stock.kernel.symbols.extents(stock.kernel.tables.text.clone());
    let others = functions.iter().step_by(STRIDE).map(|function| Kretprobe::at_address(function.start));
    let mut followed = Vec::new();
    for probe in named.chain(others) {
        let probe = probe.maxactive(256).handler(|_| ());
        // Functions that are missing or refused are tested elsewhere.
        if probed.register_kretprobe(&probe).is_ok() {
            followed.push(probe);
        }
    }
    let seen = run(&mut probed);
    let returns: u64 = followed.iter().map(Kretprobe::returns).sum();
    println!("{name}: {} functions followed, {returns} returns", followed.len());
    if plain.console != seen.console {
        for (one, other) in plain.console.lines().zip(seen.console.lines()).filter(|(one, other)| one != other).take(40) {
            println!("- {one}\n+ {other}");
        }
    }
    assert_same(name, &plain, &seen);
    assert!(returns > 10_000, "{name}: {returns} returns");
    // In code that never returns, such as a kernel entry label, every hit beyond `maxactive` is missed.
    let missed: Vec<String> =
        followed.iter().filter(|probe| probe.nmissed() > 0).map(|probe| format!("{probe:?}: {}", probe.nmissed())).collect();
    let counts = probed.with_engine(|engine, _| engine.counts());
    assert_eq!((missed, counts.mismatched_returns), (vec![], 0), "{name}: none goes past the pad");
}

fn main() -> ExitCode {
    harness::run([each!(guests::stock_in(Family::PrintsStacks), walks_its_stacks_as_unprobed)])
}
