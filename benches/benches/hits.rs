//! What a hit costs: the same calls of an empty function without a probe and under each kind of probe, in turn in one process.
//!
//! `make bench` runs it. Compare the rows of one run with each other, never with those of another machine or day.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use trapline::probed::Session;
use trapline_benches::{about_to_bench, bench};
use trapline_isa::plan::Refusal;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

const CALLS: u32 = 20_000;

/// How a probe is put on the function.
type Plant = fn(&mut Session) -> Result<(), Refusal>;

/// As in the overhead tables of the Kprobes document: b boosted, k stepped, r a return probe.
const KINDS: &[(&str, Plant)] = &[
    ("unprobed", |_| Ok(())),
    ("b", |session| session.register_kprobe(&Kprobe::at("bench_target").pre(|_| Flow::Continue))),
    ("k", |session| session.register_kprobe(&Kprobe::at("bench_target").pre(|_| Flow::Continue).post(|_| {}))),
    ("rb", |session| session.register_kretprobe(&Kretprobe::at("bench_target").handler(|_| {}))),
    ("krb", |session| {
        session.register_kprobe(&Kprobe::at("bench_target").pre(|_| Flow::Continue))?;
        session.register_kretprobe(&Kretprobe::at("bench_target").handler(|_| {}))
    }),
];

fn hits(criterion: &mut Criterion) {
    for guest in ["tiny/x86_64", "tiny/i386"] {
        let mut group = criterion.benchmark_group(guest);
        group.throughput(Throughput::Elements(CALLS.into())).sample_size(20);
        for (kind, plant) in KINDS {
            let ready = || {
                let mut session = about_to_bench(guest, CALLS).expect("the guest boots");
                plant(&mut session).expect("it may be probed");
                session
            };
            group.bench_function(*kind, |bencher| {
                bencher.iter_batched(
                    ready,
                    |mut session| bench(&mut session).expect("the guest goes on"),
                    BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

criterion_group!(benches, hits);
criterion_main!(benches);
