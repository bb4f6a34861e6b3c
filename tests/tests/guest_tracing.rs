//! Probes beside the guest's own tracing. A stock kernel's ftrace, kprobes and static keys patch the text that our
//! probes are in, and neither side disturbs the other.
//!
//! Uses the kernels of the stock-boot family. Without them a test is counted as skipped.

use std::process::ExitCode;
use std::sync::Arc;
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_harness::guests::{self, Family, facts_of};
use trapline_harness::{self as harness, each, on, tests};
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::{Run, assert_same};

const LONG: u64 = 60_000_000_000;
/// One of this many functions is probed.
const STRIDE: usize = 50;

/// `BEHIND` is replaced by the offset behind the ftrace site, which lies at or soon after the function's entry.
const TRACING: &str = "
mkdir -p /t; mount -t tracefs t /t; cd /t
echo vfs_read > set_ftrace_filter; echo function > current_tracer
cat /proc/version > /dev/null
echo nop > current_tracer; echo > set_ftrace_filter; grep -c vfs_read trace
echo function > current_tracer; cat /proc/version > /dev/null; echo nop > current_tracer; echo whole $?
echo 'p:entry vfs_read' > kprobe_events; echo 'p:inside vfs_read+BEHIND' >> kprobe_events
echo 1 > events/kprobes/enable
cat /proc/version > /dev/null
sleep 1
cat /proc/version > /dev/null
echo 0 > events/kprobes/enable; grep -v '^#' trace | grep -c entry; grep -v '^#' trace | grep inside | head -3; cat kprobe_profile
echo > kprobe_events
echo 1 > events/sched/sched_switch/enable; sleep 1; echo 0 > events/sched/sched_switch/enable
grep sched_switch trace | head -2
dmesg | grep -c -i -e warning -e 'call trace'
exit 5
";

const BUSY: &[u8] = b"
i=0; s=0; while [ $i -lt 400 ]; do s=$((s+i*i)); i=$((i+1)); done; echo sum $s
i=0; while [ $i -lt 12 ]; do cat /proc/version /proc/stat >/tmp/out; wc -l </tmp/out | grep -q . && i=$((i+1)); done; echo turns $i
seq 300 | sort -n | md5sum
exit 6
";

struct Stock {
    kernel: Kernel,
    busybox: Vec<u8>,
    command_line: String,
}

/// The kernel of that name.
fn stock(name: &str) -> Stock {
    let found = harness::stock(name);
    let kernel = Kernel::from_bytes(&std::fs::read(&found.local.kernel).expect("the kernel's file")).expect("a kernel");
    let busybox = std::fs::read(found.busybox).expect("busybox");
    let command_line = format!("{} mitigations=off", found.stock.command_line);
    Stock { kernel, busybox, command_line }
}

impl Stock {
    fn session(&self, script: &[u8]) -> Session {
        let initrd: Arc<[u8]> = initramfs::with_busybox(&self.busybox, Some(script), &[]).into();
        let command_line = self.command_line.clone();
        let config = Config { command_line, initrd: Some(initrd), record_events: true, ..Config::default() };
        Session::new(self.kernel.clone(), &config).expect("a machine")
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

/// BY-4: the guest's ftrace and kprobes work beside our probes on the same functions.
fn traces_itself_as_unprobed(name: &'static str) {
    let (stock, site) = (stock(name), facts_of(name).behind_ftrace);
    let tracing = TRACING.replace("BEHIND", &site.to_string());
    let plain = run(&mut stock.session(tracing.as_bytes()));
    assert_eq!(plain.stop, Stop::PowerOff(5), "{name}:\n{}", plain.console);
    assert!(plain.console.contains("whole 0") && plain.console.contains("inside"), "{name}:\n{}", plain.console);

    let mut probed = stock.session(tracing.as_bytes());
    let named = [("vfs_read", 0), ("vfs_read", site), ("ksys_read", 0), ("schedule", 0), ("do_sys_openat2", 0)];
    let ours: Vec<Kprobe> =
        named.iter().map(|(symbol, offset)| Kprobe::at(*symbol).offset(*offset).pre(|_| Flow::Continue)).collect();
    for probe in &ours {
        probed.register_kprobe(probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
    }
    for function in stock.kernel.symbols.extents(stock.kernel.tables.text.clone()).iter().step_by(STRIDE) {
        // Refusals are tested elsewhere.
        let _ = probed.register_kprobe(&Kprobe::at_address(function.start).pre(|_| Flow::Continue));
    }
    let seen = run(&mut probed);
    println!("{name}: {:?}", probed.text_work());
    assert_same(name, &plain, &seen);
    for probe in &ours {
        assert!(probe.hits() > 10, "{name}: {probe}: {} hits, {} passed by", probe.hits(), probe.passed());
    }
    let patchers = probed.text_work();
    for patcher in ["arch_ftrace_update_code", "arch_prepare_kprobe", "arch_arm_kprobe", "arch_disarm_kprobe"] {
        assert!(patchers.contains_key(patcher), "{name}: {patcher} was not seen: {patchers:?}");
    }
}

/// BY-4, DV-4: the guest's own probes single-step a comparison and branches. If branch targets or condition code were
/// wrong, the guest would not reach its end. Our probes beside them change nothing.
fn debian_s390x_steps_its_own_comparisons_and_branches() {
    const STEPS: &[u8] = b"
mkdir -p /t; mount -t tracefs t /t; cd /t
for place in hrtimer_forward+0x1a hrtimer_forward+0x20 hrtimer_forward+0x28 ksys_read+0x24 vfs_read+6 schedule+6; do echo \"p $place\" >> kprobe_events; done
wc -l < kprobe_events; echo 1 > events/kprobes/enable
read line < /proc/version; echo $line; sleep 1
echo 0 > events/kprobes/enable; cat kprobe_profile; exit 5
";
    // cgijl, tm, jne, brasl, stmg.
    const STEPPED: [&str; 5] =
        ["p_hrtimer_forward_26", "p_hrtimer_forward_32", "p_hrtimer_forward_40", "p_ksys_read_36", "p_vfs_read_6"];
    let name = "debian/s390x";
    let stock = stock(name);
    let plain = run(&mut stock.session(STEPS));
    assert_eq!(plain.stop, Stop::PowerOff(5), "{name}:\n{}", plain.console);
    let hits = |place: &str| {
        let line = plain.console.lines().find(|line| line.contains(place) && line.split_whitespace().count() == 3);
        line.and_then(|line| line.split_whitespace().nth(1)).and_then(|hits| hits.parse::<u32>().ok())
    };
    let stepped = STEPPED.map(hits);
    println!("{name}: the guest has stepped {STEPPED:?} {stepped:?} times");
    assert!(stepped.iter().all(|hits| hits.is_some_and(|hits| hits > 0)), "{name}:\n{}", plain.console);
    let mut probed = stock.session(STEPS);
    for place in ["hrtimer_forward", "vfs_read", "schedule"] {
        let probe = Kprobe::at(place).offset(6).pre(|_| Flow::Continue);
        probed.register_kprobe(&probe).unwrap_or_else(|refusal| panic!("{name}: {probe}: {refusal}"));
    }
    assert_same(name, &plain, &run(&mut probed));
}

/// KP-13, RP-6, BY-4: two thousand probes and return probes are registered and unregistered repeatedly while a script
/// runs.
fn two_thousand_probes_come_and_go_under_a_busy_script() {
    const TOGETHER: usize = 2000;
    const TURN: u64 = 100_000_000;
    const FIRST: u64 = 600_000_000;
    let stock = stock("debian/amd64");
    let plain = run(&mut stock.session(BUSY));
    assert_eq!(plain.stop, Stop::PowerOff(6), "{}", plain.console);
    let mut probed = stock.session(BUSY);
    let functions = stock.kernel.symbols.extents(stock.kernel.tables.text.clone());
    let mut places = functions.iter().step_by(11).cycle();
    let (mut turns, mut hits, mut stop) = (0, 0, probed.run_until(FIRST));
    while stop == Stop::Limit {
        let (mut kprobes, mut kretprobes) = (Vec::new(), Vec::new());
        while kprobes.len() + kretprobes.len() < TOGETHER {
            let Some(function) = places.next() else { break };
            let (probe, back) = (Kprobe::at_address(function.start), Kretprobe::at_address(function.start).maxactive(64));
            let (probe, back) = (probe.pre(|_| Flow::Continue), back.handler(|_| ()));
            if probed.register_kprobe(&probe).is_ok() {
                kprobes.push(probe);
            }
            if probed.register_kretprobe(&back).is_ok() {
                kretprobes.push(back);
            }
        }
        stop = probed.run_until(probed.machine().now() + TURN);
        hits += kprobes.iter().map(Kprobe::hits).sum::<u64>();
        probed.with_engine(|engine, guest| {
            engine.unregister_kprobes(guest, &kprobes);
            engine.unregister_kretprobes(guest, &kretprobes);
        });
        assert_eq!(probed.with_engine(|engine, guest| engine.summary(guest).len()), 0, "all are taken back");
        turns += 1;
    }
    let seen = finished(&mut probed, stop);
    println!("{turns} times {TOGETHER} registered and unregistered, {hits} hits");
    assert_same("comers and goers", &plain, &seen);
    assert!(turns >= 3 && hits > 1000, "{turns} turns, {hits} hits");
}

fn main() -> ExitCode {
    harness::run([
        each!(guests::stock_in(Family::TracesItself), traces_itself_as_unprobed),
        on("debian/amd64", tests![two_thousand_probes_come_and_go_under_a_busy_script]),
        on("debian/s390x", tests![debian_s390x_steps_its_own_comparisons_and_branches]),
    ])
}
