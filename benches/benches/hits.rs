//! What a hit costs: the same calls of an empty function without a probe and under each mechanism, with handlers of several kinds and with
//! many probes armed, in turn in one process; beside them what a person would use instead, on the same CPU core without us.
//!
//! `make bench` runs it. Compare the rows of one run with each other, never with those of another machine or day.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trapline::overhead::bench_loop::{BenchLoop, TARGET};
use trapline::overhead::{GUESTS, Mechanism, many};
use trapline::unicorn::bare::{Bare, Watch};
use trapline_isa::arch::Arch;
use trapline_probes::events::set::EventSet;
use trapline_probes::probe::{Flow, Hit, Kprobe};

/// Virtual time of one iteration, in nanoseconds.
const TURN: u64 = 50_000;
/// Calls of a bare core in one iteration.
const CALLS: u32 = 2_000;
/// The mechanisms that handlers are compared on.
const WITH_HANDLERS: &[&str] = &["k", "b", "o"];
/// How many probes are armed, each in a function of its own.
const ARMED: &[usize] = &[1, 100, 1_000, many::MOST];

fn short(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(700));
}

fn mechanism(letters: &str) -> &'static Mechanism {
    Mechanism::find(letters).expect("a row of the table")
}

fn run(bench: &mut BenchLoop) {
    bench.run(TURN).expect("the guest stays in its loop");
}

/// Times the loop with what `hits` counts, which must have been hit about once for each call: `calls` of them, where that is known.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bench: &mut BenchLoop,
    calls: Option<u64>,
    hits: impl Fn() -> u64,
) -> u64 {
    // Translated and optimised.
    run(bench);
    let before = hits();
    run(bench);
    let in_a_turn = hits() - before;
    if let Some(calls) = calls {
        assert!(in_a_turn.abs_diff(calls) <= calls / 10, "{name}: {in_a_turn} hits of {calls} calls");
    }
    group.throughput(Throughput::Elements(in_a_turn.max(1)));
    group.bench_function(name, |bencher| bencher.iter(|| run(bench)));
    in_a_turn
}

/// Every mechanism with an empty handler.
fn mechanisms(criterion: &mut Criterion) {
    for guest in GUESTS {
        let mut bench = BenchLoop::tiny(guest).expect("the guest boots and calls");
        let mut group = criterion.benchmark_group(format!("{guest}/mechanisms"));
        short(&mut group);
        let mut calls = None;
        let arch = bench.session().kernel().arch;
        for mechanism in Mechanism::all_of(arch) {
            let planted = bench.plant(mechanism).expect("it may be probed");
            let hits = measure(&mut group, mechanism.letters, &mut bench, calls, || planted.hits());
            calls = calls.or(Some(hits)).filter(|calls| *calls != 0);
            bench.take_away(planted);
        }
        group.finish();
    }
}

/// Reads so many registers.
fn registers(hit: &mut Hit<'_>, count: usize) -> Flow {
    let names = hit.isa().abi.names;
    let cpu = hit.machine();
    let sum = names.iter().cycle().take(count).fold(0u64, |sum, (_, reg)| sum.wrapping_add(cpu.get(*reg)));
    black_box(sum);
    Flow::Continue
}

/// Handlers that do something.
fn handlers(criterion: &mut Criterion) {
    for guest in GUESTS {
        let mut bench = BenchLoop::tiny(guest).expect("the guest boots and calls");
        let mut group = criterion.benchmark_group(format!("{guest}/handlers"));
        short(&mut group);
        for letters in WITH_HANDLERS {
            let with = mechanism(letters);
            let planted = bench.plant(with).expect("it may be probed");
            let calls = Some(measure(&mut group, &format!("{letters}, empty"), &mut bench, None, || planted.hits()));
            bench.take_away(planted);

            for count in [1, 16] {
                let planted = bench.plant_with(with, move |hit| registers(hit, count)).expect("it may be probed");
                measure(&mut group, &format!("{letters}, reads {count} of the registers"), &mut bench, calls, || planted.hits());
                bench.take_away(planted);
            }

            let map: Arc<Mutex<HashMap<u64, u64>>> = Arc::default();
            let counts = Arc::clone(&map);
            let count = move |hit: &mut Hit<'_>| {
                let key = hit.arg(0);
                *counts.lock().expect("one thread").entry(key).or_default() += 1;
                Flow::Continue
            };
            let planted = bench.plant_with(with, count).expect("it may be probed");
            measure(&mut group, &format!("{letters}, counts into a map"), &mut bench, calls, || planted.hits());
            assert_eq!(map.lock().expect("one thread").values().sum::<u64>(), planted.hits(), "each hit is in the map");
            bench.take_away(planted);
        }
        event(&mut group, &mut bench);
        group.finish();
    }
}

/// An event with two fetch arguments, by the quickest mechanism; emptying the records is not timed.
fn event(group: &mut BenchmarkGroup<'_, WallTime>, bench: &mut BenchLoop) {
    for letters in WITH_HANDLERS.iter().filter(|letters| **letters != "k") {
        let with = mechanism(letters);
        let mut events = EventSet::default();
        let line = format!("p:bench/hit {TARGET} first=$arg1 second=$arg2");
        bench.session().with_engine(|engine, guest| {
            engine.set_optimization(guest, with.optimize);
            engine.set_boosting(with.boost);
            events.apply(engine, guest, &line).expect("an event");
            events.enable_all(engine, guest, true).expect("it may be probed");
        });
        let empty = |bench: &mut BenchLoop| {
            bench.session().with_engine(|engine, _| std::iter::from_fn(|| engine.records().pop()).count() as u64)
        };
        run(bench);
        empty(bench);
        run(bench);
        let records = empty(bench);
        assert!(records > 100, "{letters}: {records} records");
        group.throughput(Throughput::Elements(records));
        group.bench_function(format!("{letters}, event with two arguments"), |bencher| {
            bencher.iter_custom(|turns| {
                let mut time = Duration::ZERO;
                for _ in 0..turns {
                    let started = Instant::now();
                    run(bench);
                    time += started.elapsed();
                    assert!(empty(bench) > 100, "each turn leaves its records");
                }
                time
            });
        });
        assert_eq!(bench.session().with_engine(|engine, _| engine.records().dropped()), 0, "the ring held each turn");
        bench.session().with_engine(|engine, guest| events.clear(engine, guest));
    }
}

/// Boosted and optimised, one of so many that are armed.
fn armed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("many/x86_64/armed");
    short(&mut group);
    for count in ARMED {
        for letters in ["b", "o"] {
            let with = mechanism(letters);
            let mut bench = many::bench_loop(*count).expect("the guest is in its loop");
            let probes: Vec<Kprobe> =
                (0..*count).map(|number| Kprobe::at_address(many::address(number)).pre(|_| Flow::Continue)).collect();
            bench.session().with_engine(|engine, guest| {
                engine.set_optimization(guest, with.optimize);
                engine.register_kprobes(guest, &probes).expect("they may stand there");
            });
            let hits = measure(&mut group, &format!("{letters}, {count} armed"), &mut bench, None, || probes[0].hits());
            assert!(hits > 100, "{letters}, {count} armed: {hits} hits");
            let as_wanted = bench.session().with_engine(|engine, guest| {
                engine.summary(guest).iter().filter(|summary| (summary.mode.name() == "optimized") == with.optimize).count()
            });
            assert_eq!(as_wanted, *count, "all of them {letters}");
        }
    }
    group.finish();
}

/// The same core without us: nothing, a code hook alone and among others, an empty trap.
fn bare(criterion: &mut Criterion) {
    const WATCHES: &[(&str, Watch)] = &[
        ("nothing", Watch::Nothing),
        ("code hook", Watch::CodeHook { others: 0 }),
        ("code hook and 100 others", Watch::CodeHook { others: 100 }),
        ("code hook and 1000 others", Watch::CodeHook { others: 1_000 }),
        ("empty trap", Watch::Trap),
    ];
    for guest in GUESTS {
        let arch = Arch::from_name(guest.trim_start_matches("tiny/")).expect("its ISA");
        let mut group = criterion.benchmark_group(format!("{guest}/bare"));
        short(&mut group);
        group.throughput(Throughput::Elements(CALLS.into()));
        for (name, watch) in WATCHES {
            let mut core = Bare::new(arch, *watch).expect("a core");
            let expected = if *watch == Watch::Nothing { 0 } else { CALLS.into() };
            assert_eq!(core.run(CALLS), Ok(expected), "{name}");
            group.bench_function(*name, |bencher| bencher.iter(|| core.run(CALLS)));
        }
        group.finish();
    }
}

criterion_group!(benches, mechanisms, handlers, armed, bare);
criterion_main!(benches);
