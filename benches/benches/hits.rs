//! What a hit costs: the same calls of an empty function without a probe and under each mechanism, in turn in one process.
//!
//! `make bench` runs it. Compare the rows of one run with each other, never with those of another machine or day.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trapline::overhead::MECHANISMS;
use trapline::overhead::bench_loop::BenchLoop;

/// A further ISA adds a line.
const GUESTS: &[&str] = &["tiny/x86_64", "tiny/i386"];
/// Virtual time of one iteration, in nanoseconds.
const TURN: u64 = 50_000;

fn hits(criterion: &mut Criterion) {
    for guest in GUESTS {
        let mut bench = BenchLoop::tiny(guest).expect("the guest boots and calls");
        let mut group = criterion.benchmark_group(*guest);
        group.sample_size(10);
        for mechanism in MECHANISMS {
            let planted = bench.plant(mechanism).expect("it may be probed");
            bench.run(TURN).expect("the guest goes on");
            let before = planted.hits();
            bench.run(TURN).expect("the guest goes on");
            group.throughput(Throughput::Elements((planted.hits() - before).max(1)));
            group.bench_function(mechanism.letters, |bencher| bencher.iter(|| bench.run(TURN).expect("the guest goes on")));
            bench.take_away(planted);
        }
        group.finish();
    }
}

criterion_group!(benches, hits);
criterion_main!(benches);
