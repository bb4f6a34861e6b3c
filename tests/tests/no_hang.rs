//! Endless loops that take no virtual time must end the run, with a report of what repeats.

use trapline::boot::{Kernel, Segment};
use trapline::clock::Meaning;
use trapline::cpu::View;
use trapline::machine::{Attention, Config, Detours, Follower, Machine, ProbeWindow, Stop, Traps, UserCode, Watcher};
use trapline::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_probes::guest::{Answer, Resume};
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::{GUESTS, LONG, entry_of, expected_faults, kernel, run, session};

/// The report of a guest that was stopped for such a loop.
fn report(what: &str, stop: Stop) -> String {
    match stop {
        Stop::Dead(why) if why.contains("no time passes") => why,
        other => panic!("{what}: {other:?}"),
    }
}

/// KP-6: the handlers of two probes redirect to each other.
#[test]
fn two_probes_that_redirect_to_each_other_end_the_run() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let [here, there] = ["vfs_read", "fibonacci"].map(|function| entry_of(&mut session, function));
        for (at, to) in [(here, there), (there, here)] {
            let leads = Kprobe::at_address(at).pre(move |hit| {
                hit.set_pc(to);
                Flow::Redirected
            });
            session.register_kprobe(&leads).expect("it may be probed");
        }
        let why = report(name, session.run_until(LONG));
        let [here, there] = [here, there].map(|at| format!("breakpoint at {} (probed)", session.kernel().symbols.describe(at)));
        for words in ["1000000 times", &here, &there] {
            assert!(why.contains(words), "{name}: {words}: {why}");
        }
    }
}

/// KP-4: a kernel built for another CPU or board ends soon, with a message. The cases imitate Debian's `armel` kernels.
#[test]
fn a_kernel_that_does_not_start_says_where_it_stopped() {
    const HERE: u32 = 0xeaff_fffe; // b .
    const ASKS: [u32; 3] = [0xe3a0_0201, 0xe5d0_1000, 0xeaff_fffd]; // mov r0, #0x10000000; ldrb r1, [r0]; b back
    let cases = [
        ("__error", &[HERE][..], &["2 s of guest time", "in `__error`", "made for other CPUs", "cortex-a8", "--cpu"][..]),
        ("printch", &ASKS[..], &["accessed devices 100000 times", "in `printch+0x", "serial port"][..]),
        ("loop", &[HERE][..], &["2 s of guest time", "at `loop`", "printed nothing"][..]),
    ];
    for (name, code, expected) in cases {
        let (physical, virtual_address) = (0x4000_8000, 0xc000_8000);
        let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let segment = Segment { physical, virtual_address, size: 0x1000, bytes: bytes.into(), executable: true };
        let entry = |address: u64, name: &str| Entry { address, name: name.into(), kind: 'T', module: None };
        let linux = ["__mmap_switched", "kernel_init_freeable"].map(|name| entry(virtual_address + 0x800, name));
        let symbols = Symbols::new([entry(virtual_address, name)].into_iter().chain(linux).collect());
        let kernel = Kernel::from_parts(Arch::Arm, physical, vec![segment], symbols);
        let refusal = Machine::new(&kernel, &Config::default(), |_| ()).err().expect("it cannot start").to_string();
        for words in expected {
            assert!(refusal.contains(words), "{name}: {words}: {refusal}");
        }
    }
}

/// KP-9: a fault handler returns "handled" without repairing the cause.
#[test]
fn a_fault_handler_that_repairs_nothing_ends_the_run() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        for site in expected_faults(session.kernel()) {
            let probe = Kprobe::at_address(site).pre(|_| Flow::Continue).fault(|_, _| true);
            session.register_kprobe(&probe).expect("it may be probed");
        }
        let why = report(name, session.run_until(LONG));
        for words in ["exception", "breakpoint at ", "(probed)"] {
            assert!(why.contains(words), "{name}: {words}: {why}");
        }
    }
}

/// A listener that claims each breakpoint and changes nothing, or always requests attention.
struct Stubborn {
    frozen: bool,
    wants: bool,
}

impl Traps for Stubborn {
    fn breakpoint(&mut self, _: &mut View) -> Answer {
        Answer::Resume(Resume { falls_through: true, frozen: self.frozen, ..Resume::default() })
    }

    fn fault(&mut self, _: &mut View, _: u32) -> Answer {
        Answer::NotOurs
    }

    fn interrupted(&mut self, _: &mut View) {}
}

impl ProbeWindow for Stubborn {
    fn meaning(&self, _: u64) -> Meaning {
        Meaning::Guest
    }
}

impl Detours for Stubborn {}

impl Follower for Stubborn {}
impl UserCode for Stubborn {}

impl Watcher for Stubborn {}

impl Attention for Stubborn {
    fn attention_at(&self) -> Option<u64> {
        self.wants.then_some(0)
    }
}

/// Mistakes of a listener: a breakpoint that traps for ever, also with guest-code handlers frozen, and attention
/// requested for ever.
#[test]
fn a_listener_without_progress_ends_the_run() {
    for (_, name) in GUESTS.iter() {
        for (frozen, wants) in [(false, false), (true, false), (false, true)] {
            let what = format!("{name}, frozen: {frozen}, wants attention: {wants}");
            let kernel = kernel(name);
            let mut machine = Machine::new(&kernel, &Config::default(), |_| Stubborn { frozen, wants }).expect("a machine");
            if !wants {
                let at = kernel.symbols.address_of("vfs_read").expect("it is there");
                let segment = kernel.segments.iter().find(|segment| segment.range().contains(&at)).expect("it is loaded");
                let physical = segment.physical + (at - segment.virtual_address);
                assert!(machine.write_physical(physical, kernel.arch.isa().breakpoint), "{what}");
            }
            let stop = loop {
                match machine.run_until(LONG) {
                    Stop::Attention => {}
                    stop => break stop,
                }
            };
            report(&what, stop);
        }
    }
}

/// A thousand probes at one address take no time but are no loop.
#[test]
fn many_probes_at_one_address_are_no_loop() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut probed = session(name, 1);
        let probes: Vec<Kprobe> = (0..1000).map(|_| Kprobe::at("vfs_read").pre(|_| Flow::Continue)).collect();
        probed.with_engine(|engine, guest| engine.register_kprobes(guest, &probes)).expect("they may be registered");
        trapline_tests::assert_same(name, &plain, &run(&mut probed));
        assert!(probes.iter().all(|probe| probe.hits() > 10), "{name}");
    }
}
