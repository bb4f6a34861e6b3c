//! No return is lost on stock kernels. Every call of a function with a return probe returns, is in flight, or ended
//! with its task. No call is missed, whatever the number of tasks in the function.

use std::process::ExitCode;
use trapline::machine::Stop;
use trapline_harness::guests;
use trapline_harness::{self as harness, each};
use trapline_probes::Calls;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::LONG;
use trapline_tests::stock::{AtShell, at_shell};

/// Forty tasks sleep at once, some are killed, some are made by vfork (xargs), and a pipe has readers that wait.
const SCRIPT: &[u8] =
    b"work() { for i in $(seq 40); do sleep 0.05 & done; wait; for i in 1 2 3 4 5 6; do sleep 9 & kill -9 $!; done; \
seq 12 | xargs -n 2 echo; for i in $(seq 20); do (sleep 0.02; echo $i) | cat & done; wait; }; work 2>&1 | md5sum; exit 7\n";

/// Functions in which tasks sleep, are made, and end. A kernel has most of them.
const FUNCTIONS: &[&str] = &[
    "schedule",
    "__schedule",
    "schedule_timeout",
    "do_nanosleep",
    "hrtimer_nanosleep",
    "do_exit",
    "do_group_exit",
    "kernel_clone",
    "copy_process",
    "wait_for_completion",
    "do_wait",
    "kernel_wait4",
    "pipe_read",
    "vfs_read",
    "vfs_write",
    "get_signal",
    "mmput",
    "finish_task_switch",
    "schedule_tail",
    "try_to_wake_up",
    "wake_up_new_task",
    "pick_next_task_fair",
    "switch_mm_irqs_off",
    "exec_mm_release",
    "exit_mm_release",
    "bprm_execve",
    "begin_new_exec",
    "load_elf_binary",
    "do_task_dead",
    "make_task_dead",
    "exit_to_user_mode_prepare",
    "arch_do_signal_or_restart",
    "do_notify_resume",
];

/// The calls of a probed run, and the registered functions with their calls that were missed.
fn run(stock: &AtShell, name: &str, maxactive: i32) -> (Calls, u64, Stop, u64) {
    let mut session = stock.session();
    session.machine_mut().take_console();
    session.machine_mut().console_input(SCRIPT);
    let probes: Vec<Kretprobe> = FUNCTIONS.iter().map(|name| Kretprobe::at(*name).maxactive(maxactive)).collect();
    let stand: Vec<_> = probes.iter().filter(|probe| session.register_kretprobe(probe).is_ok()).collect();
    assert!(stand.len() >= 8, "{name}: only {} of the functions can be followed", stand.len());
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
    let stop = session.run_until(60 * LONG);
    let calls = session.engine().calls();
    for probe in &stand {
        let (entries, returns, missed, ended) = (probe.hits(), probe.returns(), probe.nmissed(), probe.abandoned());
        println!("{name}: {probe:?}: {entries} entries, {returns} returns, {ended} ended with their task, {missed} missed");
    }
    (calls, stand.iter().map(|probe| probe.nmissed()).sum(), stop, session.machine().time())
}

/// RP-2, RP-3: the number of entries equals returns, calls in flight and calls of ended tasks together. With a limit of
/// ten calls, the same run misses some, and counts them.
fn no_return_is_lost(name: &'static str) {
    let stock = at_shell(name);
    let (calls, missed, stop, time) = run(&stock, name, 0);
    println!("{name}: {calls:?}");
    assert_eq!(stop, Stop::PowerOff(7), "{name}");
    assert!(calls.add_up(), "{name}: {calls:?}");
    assert_eq!((calls.missed, missed), (0, 0), "{name}: {calls:?}");
    assert!(calls.returns > 1000 && calls.abandoned > 0, "{name}: {calls:?}");
    let (limited, missed, stop, at) = run(&stock, name, 10);
    assert_eq!((stop, at), (Stop::PowerOff(7), time), "{name}: the same run");
    assert!(missed > 0 && limited.missed == missed && limited.add_up(), "{name}: {limited:?}");
    assert_eq!(limited.entries, calls.entries, "{name}");
}

/// A function that only a read of /proc/version calls.
const CRASHING: &str = "version_proc_show";

/// RP-2, RP-3: the kernel kills a task that has crashed inside of it. It leaves all functions of that task at once, as
/// longjmp does, and starts again at the top of the stack. Their calls are those of an ended task; none is lost.
fn an_oops_ends_the_calls_of_its_task(name: &'static str) {
    let mut session = at_shell(name).session();
    session.machine_mut().take_console();
    session.machine_mut().console_input(
        b"dd if=/proc/version of=/dev/null; echo first $?; dd if=/proc/version | md5sum; sleep 0.01; echo alive; exit 7\n",
    );
    let followed: Vec<Kretprobe> = FUNCTIONS.iter().chain(["ksys_read"].iter()).map(|name| Kretprobe::at(*name)).collect();
    let stand: Vec<_> = followed.iter().filter(|probe| session.register_kretprobe(probe).is_ok()).collect();
    assert!(stand.len() >= 8, "{name}: only {} of the functions can be followed", stand.len());
    // An address without memory. A probe with a post-handler stays a breakpoint: a jump's handler cannot change the pc.
    let crash = Kprobe::at(CRASHING).post(|_| ()).pre(|hit| {
        hit.set_pc(64);
        Flow::Redirected
    });
    session.register_kprobe(&crash).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    let stop = session.run_until(60 * LONG);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    let calls = session.engine().calls();
    println!("{name}: {calls:?}\n{console}");
    assert_eq!(stop, Stop::PowerOff(7), "{name}: {console}");
    assert!(console.contains("alive") && !console.contains("first 0"), "{name}: {console}");
    assert!(crash.hits() >= 2, "{name}: {} reads", crash.hits());
    let missed: u64 = stand.iter().map(|probe| probe.nmissed()).sum();
    assert!(calls.add_up() && missed == 0 && calls.missed == 0, "{name}: {calls:?}");
    // At least `ksys_read` or `vfs_read` of both, and `do_exit`, which never returns.
    assert!(calls.abandoned >= 4, "{name}: {calls:?}");
}

/// RP-1: a new task begins at `ret_from_fork`, whose stack holds no return address. A return probe there would change
/// memory (`trapline sweep debian/amd64` found it).
fn the_beginning_of_a_task_is_not_followed(name: &'static str) {
    let mut session = at_shell(name).session();
    let refusal = session.register_kretprobe(&Kretprobe::at("ret_from_fork")).expect_err("it is not called");
    assert!(refusal.why.contains("does not return like a function"), "{name}: {refusal}");
}

fn main() -> ExitCode {
    harness::run([
        each!(guests::stock(), no_return_is_lost, an_oops_ends_the_calls_of_its_task),
        each!(["debian/amd64", "debian/i386"], the_beginning_of_a_task_is_not_followed),
    ])
}
