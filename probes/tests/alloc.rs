//! Tests that the hit path does not allocate, by an allocator that counts calls while the engine runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use trapline_probes::Engine;
use trapline_probes::guest::Guest;
use trapline_probes::probe::{Flow, Jprobe, Kprobe, Kretprobe};
use trapline_probes::records::EventId;
use trapline_probes::toy::{Stop, TOY, sample};

struct Counting;

thread_local! {
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    if AT_WORK.get() {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
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

/// KP-16: hits of every plan, with every kind of probe and handler, returns, records, re-entry, faults, interrupted
/// repeats and mismatched returns. The engine makes no allocator call in any of them.
#[test]
fn a_hit_does_not_allocate() {
    let mut guest = sample::kernel(1);
    guest.around = |at_work| AT_WORK.set(at_work);
    let mut engine = Engine::new(&TOY, 1);
    let record = |hit: &mut trapline_probes::probe::Hit<'_>| {
        hit.emit(EventId(0), |cpu, payload| payload.put(&cpu.pc().to_le_bytes()));
        Flow::Continue
    };
    let mut probes = Vec::new();
    for (symbol, offsets) in
        [("main", &[0, 6, 12][..]), ("vfs_read", &[0, 3, 6, 11, 14]), ("helper", &[0, 2, 4]), ("fill", &[0, 18])]
    {
        for offset in offsets {
            probes.push(Kprobe::at(symbol).offset(*offset).pre(record).post(|_| {}).fault(|_, _| false));
            probes.push(Kprobe::at(symbol).offset(*offset).pre(record));
        }
    }
    probes.push(Kprobe::at("vfs_write").pre(|hit| if hit.read_word(0).is_err() { Flow::Continue } else { Flow::Redirected }));
    engine.register_kprobes(&mut guest, &probes).expect("all may be probed");
    let call = |symbol: &str| Kretprobe::at(symbol).data_size(64).entry(|_| Flow::Continue).handler(|call| call.data().fill(1));
    let returns = [call("vfs_read"), call("helper").maxactive(1), call("outer"), call("recurse").maxactive(2)];
    engine.register_kretprobes(&mut guest, &returns).expect("functions");
    engine.register_jprobe(&mut guest, &Jprobe::at("vfs_read").host(|_| {})).expect("a function");
    engine.register_jprobe(&mut guest, &Jprobe::at("outer").guest("handler")).expect("functions");

    for _ in 0..20 {
        guest.interrupt(0, guest.cpus[0].time + 4, Some(29));
        guest.cpus[0].registers[4] = 0x6800;
        for function in ["main", "fill"] {
            guest.start(0, function);
            assert_eq!(guest.run(&mut engine, 0), Stop::Halted);
        }
        guest.start(0, "vfs_write");
        guest.cpus[0].registers[3] = 0x10;
        assert!(matches!(guest.run(&mut engine, 0), Stop::Exception { .. }));
        // A recursion that never returns. The next round finds its abandoned calls.
        guest.become_task(0, 0);
        guest.cpus[0].registers[1] = 40;
        guest.start(0, "recurse");
        guest.run_steps(&mut engine, 0, 100);
        // A jprobe's handler in the guest runs through probed functions. Then comes a return that fits no call.
        guest.become_task(0, 1);
        guest.start(0, "outer");
        guest.run_steps(&mut engine, 0, 30);
        guest.become_task(0, 2);
        guest.cpus[0].pc = engine.return_pad().expect("there are return probes");
        guest.run_steps(&mut engine, 0, 1);
        guest.become_task(0, 0);
    }
    let counts = engine.counts();
    assert!(counts.hits > 500 && counts.reentered > 20 && counts.faults >= 20 && counts.continued >= 20, "{counts:?}");
    assert!(counts.mismatched_returns > 0 && returns[3].nmissed() > 0 && engine.has_log_lines(), "{counts:?}");
    assert_eq!(guest.cpus(), 1);
    assert_eq!(CALLS.get(), 0, "calls of the allocator in {counts:?}");

    // Control: a handler that allocates is counted.
    engine
        .register_kprobe(
            &mut guest,
            &Kprobe::at("main").pre(|_| {
                drop(vec![0u8; 8]);
                Flow::Continue
            }),
        )
        .expect("may be probed");
    guest.start(0, "main");
    guest.run(&mut engine, 0);
    assert!(CALLS.get() > 0);
}
