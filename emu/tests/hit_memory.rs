//! A hit allocates no memory, neither in the engine nor in the machine. A counting allocator shows it: a probed guest
//! calls the allocator exactly as often as an unprobed one.

#![cfg(feature = "cpu")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use trapline::boot::Kernel;
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline_probes::probe::{Flow, Hit, Jprobe, Kprobe, Kretprobe};
use trapline_probes::records::EventId;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps `alloc`'s contract, which is this one's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above; the memory came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Guest time in nanoseconds at which the tiny kernel is in its benchmark loop, where it stays.
const FROM: u64 = 400_000;
/// The time from the registration to the measurement.
const WARM: u64 = 200_000;
/// The length of the measurement.
const MEASURED: u64 = 200_000;

/// The number of calls of the allocator during the measurement, with the probes that `probe` registers.
fn calls(name: &str, probe: impl FnOnce(&mut Session)) -> u64 {
    let kernel = Kernel::from_bytes(trapline_images::find(name).unwrap().bytes).unwrap();
    let config = Config { command_line: "bench=10000000".into(), ..Config::default() };
    let mut session = Session::new(kernel, &config).unwrap();
    assert_eq!(session.run_until(FROM), Stop::Limit, "{name}");
    probe(&mut session);
    assert_eq!(session.run_until(FROM + WARM), Stop::Limit, "{name}");
    let before = CALLS.get();
    assert_eq!(session.run_until(FROM + WARM + MEASURED), Stop::Limit, "{name}");
    CALLS.get() - before
}

fn record(hit: &mut Hit<'_>) {
    hit.emit(EventId(0), |cpu, payload| payload.put(&cpu.pc().to_le_bytes()));
}

/// KP-16: kprobes by a breakpoint, by two and by a jump, return probes, jprobes and records. The run calls the allocator
/// exactly as often as one without probes.
#[test]
fn a_hit_does_not_allocate_in_the_machine_either() {
    for name in ["tiny/x86_64", "tiny/i386", "tiny/arm64", "tiny/arm", "tiny/thumb2"] {
        let plain = calls(name, |_| ());
        let mut hits = Vec::new();
        let mut check = |what: &str, kprobe: &Kprobe, calls: u64| {
            assert!(kprobe.hits() > 500, "{name}, {what}: {} hits", kprobe.hits());
            assert_eq!(calls, plain, "{name}, {what}: calls of the allocator over {} hits", kprobe.hits());
            hits.push(kprobe.hits());
        };
        for (what, optimise, post) in
            [("by a breakpoint", false, false), ("by two", false, true), ("by a jump where there are any", true, false)]
        {
            let probe = Kprobe::at("bench_target").pre(|hit| {
                record(hit);
                Flow::Continue
            });
            let probe = if post { probe.post(record) } else { probe };
            let calls = calls(name, |session| {
                session.with_engine(|engine, guest| engine.set_optimization(guest, optimise));
                session.register_kprobe(&probe).unwrap();
            });
            check(what, &probe, calls);
        }
        let followed = Kretprobe::at("bench_target").data_size(8).entry(|_| Flow::Continue).handler(|call| record(call));
        let calls_followed = calls(name, |session| session.register_kretprobe(&followed).unwrap());
        check("a return probe", followed.kprobe(), calls_followed);
        let mirror = Jprobe::at("bench_target").host(record);
        let calls_mirror = calls(name, |session| session.register_jprobe(&mirror).unwrap());
        check("a jprobe", mirror.kprobe(), calls_mirror);
    }
    // A handler that allocates is counted, so the counter works.
    let loud = Kprobe::at("bench_target").pre(|_| {
        drop(std::hint::black_box(vec![0u8; 8]));
        Flow::Continue
    });
    let calls = calls("tiny/x86_64", |session| session.register_kprobe(&loud).unwrap());
    assert!(calls > 1000, "{calls} calls over {} hits", loud.hits());
}
