//! Measures the memory that armed probes take, with a counting allocator.

#![cfg(feature = "cpu")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use trapline::overhead::many::FIRST as MANY;
use trapline_probes::probe::{Flow, Kprobe};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is this one's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; the memory came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PROBES: usize = 25_000;

/// OH-3: under 300 bytes of host memory for each of many probes, whose objects are counted too.
#[test]
fn an_armed_probe_takes_less_than_300_bytes() {
    let mut bench = MANY.bench_loop(PROBES).expect("the guest is in its loop");
    // Tables that are made once, when the first instruction is decoded, are nobody's.
    let first = Kprobe::at_address(MANY.address(0)).pre(|_| Flow::Continue);
    bench.session().register_kprobe(&first).expect("it may stand there");
    bench.session().unregister_kprobe(&first);
    let before = HELD.load(Ordering::Relaxed);
    let each = || (HELD.load(Ordering::Relaxed) - before) / PROBES;
    let probes = MANY.probes(PROBES);
    bench.session().with_engine(|engine, guest| engine.register_kprobes(guest, &probes)).expect("they may stand there");
    let armed = each();
    bench.run(200_000).expect("it goes on");
    let each = each();
    let optimised = bench
        .session()
        .with_engine(|engine, guest| engine.summary(guest).iter().filter(|summary| summary.mode.name() == "optimized").count());
    assert_eq!((optimised, probes[0].hits() > 0), (PROBES, true));
    println!("{armed} bytes for each of {PROBES} probes, {each} when they are optimised");
    assert!((150..300).contains(&armed) && (armed..300).contains(&each), "{armed} and {each} bytes each");
}
