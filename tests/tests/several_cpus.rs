//! Stock kernels on several CPUs. They find and start all CPUs, and probes do not change the run. No hit is missed
//! while another CPU patches the text, and no record waits for another CPU's lock.
//!
//! If a kernel is not on this computer, its tests are skipped.

use std::process::ExitCode;
use std::sync::Arc;
use trapline::Stop;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::Config;
use trapline::probed::Session;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_harness::{self as harness, Test, each, on, tests};
use trapline_isa::plan::Policy;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_script::Options;
use trapline_tests::{Run, assert_same};

const LONG: u64 = 60_000_000_000;

/// The kernels, the numbers of CPUs that are tested, and the clock source that the kernel also chooses with one CPU.
const GUESTS: &[(&str, &[usize], &str)] = &[
    ("debian/amd64", &[2, 4, 8], "tsc"),
    ("debian/i386", &[2, 4], "tsc"),
    ("debian/arm64", &[2, 4, 8], "arch_sys_counter"),
    ("debian/s390x", &[2, 4], "tod"),
    ("debian/ppc64el", &[2, 4], "timebase"),
    ("debian/riscv64", &[2, 4], "riscv_clocksource"),
];
/// Kernels that can switch CPUs off and on again.
const HOTPLUG: &[&str] = &["debian/i386", "debian/ppc64el", "debian/amd64", "debian/arm64", "debian/s390x", "debian/riscv64"];

/// Works on all CPUs, and prints the kernel's facts about them.
const WORK: &str = "
echo count $(grep -c ^processor /proc/cpuinfo) online $(cat /sys/devices/system/cpu/online)
echo clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)
work() { i=0; while [ $i -lt 12 ]; do cat /proc/version /proc/stat | md5sum >/tmp/$1; i=$((i+1)); done; }
work a & work b & work c & work d & wait
cat /tmp/a >/dev/null; grep -c . /proc/interrupts
echo complaints $(dmesg | grep -c -i -e warp -e unstable -e stall -e lockup -e 'call trace')
exit 7
";

struct Stock {
    kernel: Kernel,
    busybox: Vec<u8>,
    command_line: String,
}

impl Stock {
    fn of(name: &str) -> Stock {
        let found = harness::stock(name);
        let kernel = Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel");
        let busybox = std::fs::read(found.busybox).expect("busybox");
        Stock { kernel, busybox, command_line: format!("{} mitigations=off panic=1", found.stock.command_line) }
    }

    fn config(&self, cpus: usize, script: &str) -> Config {
        self.config_with(cpus, script, &[])
    }

    fn config_with(&self, cpus: usize, script: &str, files: &[(String, Vec<u8>)]) -> Config {
        let initrd: Arc<[u8]> = initramfs::with_busybox(&self.busybox, Some(script.as_bytes()), files).into();
        let command_line = self.command_line.clone();
        Config { cpus, command_line, initrd: Some(initrd), record_events: true, ..Config::default() }
    }

    fn session(&self, cpus: usize, script: &str) -> Session {
        Session::new(self.kernel.clone(), &self.config(cpus, script)).expect("a machine")
    }
}

fn run(session: &mut Session) -> Run {
    let stop = session.run_until(LONG);
    finished(session, stop)
}

fn finished(session: &mut Session, stop: Stop) -> Run {
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    Run { stop, console, time: machine.time(), happenings: machine.happenings().to_vec() }
}

fn ends_with(run: &Run, status: u8, name: &str) {
    assert_eq!(run.stop, Stop::PowerOff(status), "{name}:\n{}", run.console);
}

/// CP-1: the kernel starts all CPUs, works on each, keeps its clock source, and does not complain. Probes do not change
/// the run.
fn boots_and_is_the_same_under_probes(name: &'static str, cpus: usize, clock: &str) {
    let stock = Stock::of(name);
    let plain = run(&mut stock.session(cpus, WORK));
    ends_with(&plain, 7, name);
    let says = [format!("count {cpus} online 0-{}", cpus - 1), format!("clock {clock}"), "complaints 0".into()];
    for text in says {
        assert!(plain.console.contains(&text), "{name}: `{text}` is not in\n{}", plain.console);
    }
    for cpu in 0..cpus {
        let happened = plain.happenings.iter().filter(|one| one.cpu == cpu).count();
        assert!(happened > 100, "{name}: CPU {cpu} did {happened} things");
    }

    let mut probed = stock.session(cpus, WORK);
    let probes = ["vfs_read", "schedule", "try_to_wake_up", "do_idle"].map(|at| Kprobe::at(at).pre(|_| Flow::Continue));
    for probe in &probes {
        probed.register_kprobe(probe).unwrap_or_else(|why| panic!("{name}: {probe}: {why}"));
    }
    let back = Kretprobe::at("vfs_read").maxactive(64).handler(|_| ());
    probed.register_kretprobe(&back).unwrap_or_else(|why| panic!("{name}: {why}"));
    let seen = run(&mut probed);
    assert_same(name, &plain, &seen);
    for probe in &probes {
        assert!(probe.hits() > 10 && probe.passed() == 0, "{name}: {probe}: {} hits, {} passed", probe.hits(), probe.passed());
    }
}

/// CP-2: a CPU is switched off and on again, several times.
fn a_cpu_is_switched_off_and_on_again(name: &'static str) {
    const SCRIPT: &str = "
i=0; while [ $i -lt 10 ]; do
echo 0 >/sys/devices/system/cpu/cpu1/online || exit 3; echo off $(cat /sys/devices/system/cpu/online)
echo 1 >/sys/devices/system/cpu/cpu1/online || exit 4; echo on $(cat /sys/devices/system/cpu/online)
i=$((i+1)); done
taskset 2 grep -c . /proc/stat || exit 5
exit 7
";
    let seen = run(&mut Stock::of(name).session(2, SCRIPT));
    ends_with(&seen, 7, name);
    assert_eq!(
        [seen.console.matches("off 0\r\n").count(), seen.console.matches("on 0-1\r\n").count()],
        [10, 10],
        "{}",
        seen.console
    );
}

/// CP-2: a machine ends when another CPU than the first one reboots it or panics.
fn the_second_cpu_reboots_and_panics(name: &'static str) {
    let stock = Stock::of(name);
    let reboots = run(&mut stock.session(2, "taskset 2 reboot -f; sleep 9"));
    assert!(matches!(reboots.stop, Stop::PowerOff(_)), "{name}: {:?}\n{}", reboots.stop, reboots.console);
    let panics = run(&mut stock.session(2, "taskset 2 sh -c 'echo c >/proc/sysrq-trigger'; sleep 9"));
    assert!(matches!(panics.stop, Stop::Panic(_)), "{name}: {:?}\n{}", panics.stop, panics.console);
    assert!(panics.console.contains("CPU: 1 "), "{name}:\n{}", panics.console);
}

/// CP-3: a run that is saved and restored in the middle ends like an uninterrupted one, whatever its CPUs do then.
fn a_restored_run_equals_a_continued_one(name: &'static str) {
    let stock = Stock::of(name);
    let plain = run(&mut stock.session(2, WORK));
    // Early: the second CPU waits to be started.
    for parts in [20, 3, 2] {
        let mut session = stock.session(2, WORK);
        let time = plain.time / 4 / parts;
        assert_eq!(session.run_until(time), Stop::Limit, "{name}");
        let saved = loop {
            match session.snapshot() {
                Ok(saved) => break saved,
                Err(why) => assert_eq!(session.run_until(session.machine().now() + 10_000), Stop::Limit, "{name}: {why}"),
            }
        };
        let console = session.machine().console().to_vec();
        let config = stock.config(2, WORK);
        let mut restored = Session::from_snapshot(stock.kernel.clone(), &config, Policy::Best, &saved).expect("it fits");
        let [continued, again] = [&mut session, &mut restored].map(run);
        assert!(again.console.starts_with(&*String::from_utf8_lossy(&console)), "{name}");
        assert_eq!((&continued.stop, continued.time, &continued.console), (&again.stop, again.time, &again.console), "{name}");
        ends_with(&again, 7, name);
    }
}

/// CP-4, KP-17, BY-4: a CPU hits probes while another one patches the kernel's text. No hit is missed, and the guest's own
/// count of reads is reached.
fn no_hit_passes_while_another_cpu_patches(name: &'static str) {
    const SCRIPT: &str = "
mkdir -p /t; mount -t tracefs t /t; cd /t
echo vfs_write > set_ftrace_filter
(i=0; while [ $i -lt 4 ]; do echo function >current_tracer; echo nop >current_tracer; i=$((i+1)); done; echo patched) &
taskset -p 1 $! >/dev/null
taskset 2 sh -c 'i=0; while [ $i -lt 400 ]; do read line </proc/version; i=$((i+1)); done; echo reads $(grep syscr /proc/self/io)'
wait
exit 7
";
    let stock = Stock::of(name);
    let plain = run(&mut stock.session(2, SCRIPT));
    ends_with(&plain, 7, name);
    let mut probed = stock.session(2, SCRIPT);
    let entry = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
    probed.register_kprobe(&entry).expect("it can be probed");
    let seen = run(&mut probed);
    assert_same(name, &plain, &seen);
    let patchers = probed.text_work();
    assert!(patchers.contains_key("arch_ftrace_update_code"), "{name}: {patchers:?}");
    assert_eq!(entry.passed(), 0, "{name}: of {}", entry.hits() + entry.passed());
    assert!(entry.hits() > 400, "{name}: {}", entry.hits());
}

/// BY-4, CP-1: the record of `kmem:rss_stat` is a sum under a spinlock that the threads of a program share. The guest's own
/// tracer takes it too, so another CPU often holds it when the engine lets the guest make a record. That CPU does not run
/// meanwhile, and the record does not wait for it.
fn a_record_does_not_wait_for_another_cpus_lock(name: &'static str) {
    const SCRIPT: &str = "
mkdir -p /t; mount -t tracefs t /t; echo 1 >/t/events/kmem/rss_stat/enable
/faults || exit 3
exit 7
";
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../images/programs/prebuilt/faults-riscv64");
    let files = [("faults".to_string(), std::fs::read(program).expect("the program"))];
    let stock = Stock::of(name);
    let config = stock.config_with(2, SCRIPT, &files);
    let session = || Session::new(stock.kernel.clone(), &config).expect("a machine");
    let plain = run(&mut session());
    ends_with(&plain, 7, name);
    assert!(plain.console.contains("pages 1600"), "{name}:\n{}", plain.console);

    let mut traced = session();
    let text = "tracepoint:kmem:rss_stat /comm == \"faults\"/ { @[cpu] = count(); }";
    let facts = Facts::of(traced.kernel());
    let script = Script::compile(text, &facts, &Options::default()).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    let mut scripts = [traced.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{name}: {error}"))];
    let stop = traced.trace_until(&mut scripts, LONG);
    traced.end_script(&mut scripts[0]);
    let (output, _) = traced.take_script_output(&scripts[0]);
    assert_same(name, &plain, &finished(&mut traced, stop));
    let output = String::from_utf8_lossy(&output);
    let counts: Vec<u32> = output.lines().filter_map(|line| line.split_once("]: ")?.1.parse().ok()).collect();
    // A page is counted when it comes. Each CPU has brought many.
    assert!(counts.len() == 2 && counts.iter().all(|count| *count > 300), "{name}: {output}");
    assert!(counts.iter().sum::<u32>() >= 1600, "{name}: {output}");
}

/// CP-5: a board refuses more CPUs than it has, and says how many it has.
fn boards_refuse_more_cpus_than_they_have() {
    for (image, cpus, says) in [("debian/arm64", 9, "has 1 to 8 CPUs"), ("debian/mipsel", 2, "has 1 CPU")] {
        let stock = Stock::of(image);
        let refusal = Session::new(stock.kernel.clone(), &stock.config(cpus, WORK)).err().map(|why| why.to_string());
        assert!(refusal.as_ref().is_some_and(|why| why.contains(says)), "{image}: {refusal:?}");
    }
}

fn main() -> ExitCode {
    let boots = GUESTS.iter().flat_map(|(name, numbers, clock)| {
        numbers.iter().map(move |cpus| {
            let case = format!("{}_{cpus}", harness::member("boots_and_is_the_same_under_probes", name));
            Test::new(case, move || boots_and_is_the_same_under_probes(name, *cpus, clock)).needs(harness::kernel(name))
        })
    });
    harness::run([
        boots.collect(),
        each!(HOTPLUG.iter().copied(), a_cpu_is_switched_off_and_on_again),
        each!(GUESTS.iter().map(|(name, ..)| *name), the_second_cpu_reboots_and_panics),
        each!(
            ["debian/amd64", "debian/arm64", "debian/riscv64"],
            a_restored_run_equals_a_continued_one,
            no_hit_passes_while_another_cpu_patches
        ),
        each!(["debian/riscv64"], a_record_does_not_wait_for_another_cpus_lock),
        on("debian/arm64", on("debian/mipsel", tests![boards_refuse_more_cpus_than_they_have])),
    ])
}
