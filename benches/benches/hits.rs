//! Criterion benches of the cost of a hit. The guest calls an empty function in a loop: without a probe, and under each
//! mechanism with several kinds of handlers and with many armed probes. For comparison, the alternatives that the bare
//! CPU core offers are measured in the same process.
//!
//! `make bench` runs everything in about five minutes. `cargo bench --profile dev -p trapline-benches --bench hits --
//! tiny/arm/empty` runs a part. Compare only rows of one run, never those of different machines or days.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trapline::arches;
use trapline::overhead::bench_loop::{BenchLoop, TARGET};
use trapline::overhead::{Mechanism, guests, many};
use trapline::unicorn::plain_hooks::{PlainCore, Watch};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_probes::events::set::EventSet;
use trapline_probes::probe::Hit;

/// Virtual time of one iteration, in nanoseconds.
const TURN: u64 = 50_000;
/// Calls per iteration on the bare core.
const CALLS: u32 = 2_000;
/// Numbers of armed probes, each in a function of its own. The maximum is added for each guest.
const ARMED: &[usize] = &[1, 100, 1_000];

/// The work that a handler does.
#[derive(Clone, Copy)]
enum Work {
    Nothing,
    Registers(usize),
    Map,
    Event,
}

/// One bench group per kind of handler. Each group has every mechanism.
const WORKS: &[(&str, Work)] = &[
    ("empty handler", Work::Nothing),
    ("reads 1 register", Work::Registers(1)),
    ("reads 16 registers", Work::Registers(16)),
    ("counts into a map", Work::Map),
    ("event with two arguments", Work::Event),
];

/// Short measurements, because there are hundreds of benches and plots of more resamples would take longer than the
/// measurements.
fn short(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(500));
    group.nresamples(10_000);
}

fn run(bench: &mut BenchLoop) {
    bench.run(TURN).expect("the guest stays in its loop");
}

/// Times the loop. `hits` counts the probe's hits, which must be about one per call; `calls` is the expected number, if
/// known.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bench: &mut BenchLoop,
    calls: Option<u64>,
    hits: impl Fn() -> u64,
) -> u64 {
    // Warm up, so that everything is translated and optimised.
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

/// Every mechanism with every kind of handler. The unprobed loop is measured once.
fn mechanisms(criterion: &mut Criterion) {
    for guest in guests() {
        let mut bench = BenchLoop::tiny(guest).expect("the guest boots and calls");
        let arch = bench.session().kernel().arch;
        let mut calls = None;
        for (what, work) in WORKS {
            let mut group = criterion.benchmark_group(format!("{guest}/{what}"));
            short(&mut group);
            for mechanism in Mechanism::all_of(arch) {
                match work {
                    Work::Nothing => {
                        let hits = planted(&mut group, &mut bench, mechanism, calls, |_| {});
                        calls = calls.or(Some(hits)).filter(|calls| *calls != 0);
                    }
                    _ if mechanism.letters == "none" => {}
                    Work::Registers(count) => {
                        let regs = registers(arch, *count);
                        let read = move |hit: &mut Hit<'_>| {
                            let cpu = hit.machine();
                            black_box(regs.iter().fold(0u64, |sum, reg| sum.wrapping_add(cpu.get(*reg))));
                        };
                        planted(&mut group, &mut bench, mechanism, calls, read);
                    }
                    Work::Map => counted(&mut group, &mut bench, mechanism, calls),
                    Work::Event => recorded(&mut group, &mut bench, mechanism),
                }
            }
            group.finish();
        }
    }
}

/// Measures a mechanism whose handler does `work`.
fn planted(
    group: &mut BenchmarkGroup<'_, WallTime>,
    bench: &mut BenchLoop,
    mechanism: &Mechanism,
    calls: Option<u64>,
    work: impl Fn(&mut Hit<'_>) + Clone + Send + Sync + 'static,
) -> u64 {
    let planted = bench.plant_with(mechanism, work).expect("it may be probed");
    let hits = measure(group, mechanism.letters, bench, calls, || planted.hits());
    bench.take_away(planted);
    hits
}

/// The first `count` registers of the CPU, repeated if it has fewer.
fn registers(arch: Arch, count: usize) -> Vec<Reg> {
    // Skip the kernel's own fields of pt_regs, such as `orig_ax`.
    let real = arch.isa().abi.names.iter().filter(|(name, _)| !name.to_ascii_lowercase().starts_with("orig_"));
    real.map(|(_, reg)| *reg).cycle().take(count).collect()
}

/// The handler counts calls in a hash map, by the first argument.
fn counted(group: &mut BenchmarkGroup<'_, WallTime>, bench: &mut BenchLoop, mechanism: &Mechanism, calls: Option<u64>) {
    let map: Arc<Mutex<HashMap<u64, u64>>> = Arc::default();
    let counts = Arc::clone(&map);
    let count = move |hit: &mut Hit<'_>| {
        let key = hit.arg(0);
        *counts.lock().expect("one thread").entry(key).or_default() += 1;
    };
    let planted = bench.plant_with(mechanism, count).expect("it may be probed");
    measure(group, mechanism.letters, bench, calls, || planted.hits());
    let (in_the_map, probes) = (map.lock().expect("one thread").values().sum::<u64>(), planted.count() as u64);
    // The entry of a call that has not returned yet is counted, too.
    assert!(in_the_map.abs_diff(planted.hits() * probes) <= 1, "{}: {in_the_map} in the map", mechanism.letters);
    bench.take_away(planted);
}

/// The event lines for a mechanism's probes, with two arguments each. Jprobes have no events. Events have no
/// post-handler, but without boosting they are stepped as well.
fn events(mechanism: &Mechanism) -> Vec<String> {
    if mechanism.jprobe {
        return Vec::new();
    }
    let entry = mechanism.kprobe.then(|| format!("p:bench/entry {TARGET} first=$arg1 second=$arg2"));
    let ret = mechanism.kretprobe.then(|| format!("r:bench/return {TARGET} value=$retval stack=$stack"));
    entry.into_iter().chain(ret).collect()
}

/// The handler writes a record. The time for emptying the ring is not measured.
fn recorded(group: &mut BenchmarkGroup<'_, WallTime>, bench: &mut BenchLoop, mechanism: &Mechanism) {
    let lines = events(mechanism);
    if lines.is_empty() {
        return;
    }
    bench.choose(mechanism).expect("the ISA has it");
    let mut events = EventSet::default();
    bench.session().with_engine(|engine, guest| {
        for line in &lines {
            events.apply(engine, guest, line).expect("an event");
        }
        events.enable_all(engine, guest, true).expect("it may be probed");
    });
    let empty = |bench: &mut BenchLoop| {
        bench.session().with_engine(|engine, _| std::iter::from_fn(|| engine.records().pop()).count() as u64)
    };
    run(bench);
    empty(bench);
    run(bench);
    let records = empty(bench);
    assert!(records > 100, "{}: {records} records", mechanism.letters);
    group.throughput(Throughput::Elements(records / lines.len() as u64));
    group.bench_function(mechanism.letters, |bencher| {
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

/// Hits of one probe, boosted or optimised, while many are armed.
fn armed(criterion: &mut Criterion) {
    for many in many::ALL {
        let mut group = criterion.benchmark_group(format!("{}/armed", many.name));
        short(&mut group);
        for count in ARMED.iter().copied().chain([many.most]) {
            for letters in ["b", "o"] {
                let with = Mechanism::find(letters).expect("a row of the table");
                let mut bench = many.bench_loop(count).expect("the guest is in its loop");
                bench.choose(with).expect("the ISA has it");
                let probes = many.probes(count);
                bench
                    .session()
                    .with_engine(|engine, guest| engine.register_kprobes(guest, &probes))
                    .expect("they may stand there");
                let hits = measure(&mut group, &format!("{letters}, {count} armed"), &mut bench, None, || probes[0].hits());
                assert!(hits > 100, "{} {letters}, {count} armed: {hits} hits", many.name);
                let as_wanted = bench.session().with_engine(|engine, guest| {
                    let summary = engine.summary(guest);
                    summary.iter().filter(|summary| (summary.mode.name() == "optimized") == with.optimize).count()
                });
                assert_eq!(as_wanted, count, "{}: all of them {letters}", many.name);
            }
        }
        group.finish();
    }
}

/// The bare core without our machine: no hook, a code hook alone and among others, an empty trap.
fn bare(criterion: &mut Criterion) {
    const WATCHES: &[(&str, Watch)] = &[
        ("nothing", Watch::Nothing),
        ("code hook", Watch::CodeHook { others: 0 }),
        ("code hook and 100 others", Watch::CodeHook { others: 100 }),
        ("code hook and 1000 others", Watch::CodeHook { others: 1_000 }),
        ("empty trap", Watch::Trap),
    ];
    for guest in guests() {
        let arch = Arch::from_name(guest.trim_start_matches("tiny/")).expect("its ISA");
        let Some(program) = arches::of(arch).machine().expect("a machine").program else { continue };
        let mut group = criterion.benchmark_group(format!("{guest}/bare"));
        short(&mut group);
        group.throughput(Throughput::Elements(CALLS.into()));
        for (name, watch) in WATCHES {
            let mut core = PlainCore::new(program, *watch).expect("a core");
            let expected = if *watch == Watch::Nothing { 0 } else { CALLS.into() };
            assert_eq!(core.run(CALLS), Ok(expected), "{name}");
            group.bench_function(*name, |bencher| bencher.iter(|| core.run(CALLS)));
        }
        group.finish();
    }
}

criterion_group!(benches, mechanisms, armed, bare);
criterion_main!(benches);
