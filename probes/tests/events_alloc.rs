//! Tests that event probes do not allocate at a hit, by an allocator that counts calls.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use trapline_probes::Engine;
use trapline_probes::events::set::EventSet;
use trapline_probes::toy::{Op, TOY, ToyGuest};
use trapline_probes::unwind::Stacks;

struct Counting;

static IN_ENGINE: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(usize::from(IN_ENGINE.load(Ordering::Relaxed)), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, which is the same.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Gives each event a filter, and one of them all kinds of triggers.
fn watch(events: &mut EventSet, engine: &mut Engine, guest: &mut ToyGuest) {
    events.stacks_for_triggers(engine, Stacks { text: std::iter::once(0..u64::MAX).collect(), rule: None });
    for event in events.named(None, None) {
        events
            .write_filter(engine, event, "common_pid >= 0 && COMM ~ '*' && __nothing != 1 || !(CPU == 77)")
            .expect_err("a wrong field");
        events.write_filter(engine, event, "common_pid >= 0 && (COMM ~ '*' || CPU == 77)").expect("a filter");
    }
    let event = events.find("kprobes", "in").expect("it was added");
    let triggers = [
        "traceon",
        "stacktrace if text ~ 'a*'",
        "snapshot:3",
        "disable_event:kprobes:out",
        "hist:keys=text,common_cpu",
        "hist:keys=stacktrace:size=128",
        "hist:keys=arg2.log2,common_pid.execname:vals=arg2",
    ];
    for text in triggers {
        events.write_trigger(engine, guest, event, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// KP-16, DV-4: a hit fetches and records its arguments without allocating, even if the ring is full.
#[test]
fn a_hit_of_an_event_allocates_nothing() {
    let functions: &[(&str, &[Op])] = &[
        ("main", &[Op::Mov(1, 0x6000), Op::Call("work"), Op::Call("work"), Op::Halt]),
        ("work", &[Op::Nop, Op::Mov(0, 42), Op::Ret]),
    ];
    let mut guest = ToyGuest::new(&TOY, 1, functions);
    guest.poke(0x6000, b"a string\0");
    guest.poke(0x6100, &0x6000_u64.to_le_bytes());
    let mut engine = Engine::new(&TOY, 1).with_record_bytes(700);
    let mut events = EventSet::default();
    let lines = [
        "p:in work %r1 $arg2:u8 $stack0 $comm text=+0(%r1):string user=+u0(%r1):ustring list=+0x100(%r1):string[2]",
        "p:more work+1 fault=+0(\\-1):string n=+0(+0(\\-1)) a=+0(%r1):x8[64] sym=%r1:symbol bits=%r1:b4@4/16 \\\"text\"",
        "r:out work $retval",
    ];
    for line in lines {
        events.apply(&mut engine, &mut guest, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    events.enable_all(&mut engine, &mut guest, true).expect("the events can be enabled");
    watch(&mut events, &mut engine, &mut guest);
    guest.around = |enters| IN_ENGINE.store(enters, Ordering::Relaxed);
    for _ in 0..4 {
        guest.start(0, "main");
        guest.run(&mut engine, 0);
    }
    IN_ENGINE.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 0);
    let hits: u64 = events.members().map(|member| member.hits()).sum();
    let ring = engine.records();
    // `in` leaves a call chain behind each of its eight records, and it switches the eight of `out` off. A mark that
    // finds no room counts as dropped.
    let records = ring.written() + ring.dropped();
    assert!(hits == 24 && (24..=27).contains(&records), "{hits} hits, {records} records");
    assert!(ring.written() > 0 && ring.dropped() > 0, "{} written, {} dropped", ring.written(), ring.dropped());
    // Control: an allocation is counted.
    IN_ENGINE.store(true, Ordering::Relaxed);
    drop(std::hint::black_box(vec![0_u8; 10]));
    IN_ENGINE.store(false, Ordering::Relaxed);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), 1);
}
