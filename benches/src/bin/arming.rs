//! What arming costs: 1, 1,000 and 100,000 probes, in one batch and one by one, and the host memory that each takes.

use std::process::ExitCode;
use std::time::Instant;
use trapline::overhead::many;
use trapline_probes::probe::{Flow, Kprobe};

/// The optimiser's wait, as it is unless it is changed; in nanoseconds.
const DELAY: u64 = 100_000;

fn main() -> ExitCode {
    match measure_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("arming: {why}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all() -> Result<(), String> {
    println!("{:>8} {:>7} {:>14} {:>14} {:>14} {:>12}", "probes", "how", "arm, us each", "optimise", "disarm", "bytes each");
    if let Some(only) = std::env::args().nth(1).and_then(|c| c.parse().ok()) { return measure(only, true); }
    for (count, batch) in [(1, true), (1, false), (1_000, true), (1_000, false), (many::MOST, true), (many::MOST, false)] {
        measure(count, batch)?;
    }
    Ok(())
}

fn measure(count: usize, batch: bool) -> Result<(), String> {
    let mut bench = many::bench_loop(count)?;
    let probes: Vec<Kprobe> =
        (0..count).map(|number| Kprobe::at_address(many::address(number)).pre(|_| Flow::Continue)).collect();
    let each = |started: Instant| started.elapsed().as_secs_f64() * 1e6 / count as f64;
    bench.session().with_engine(|engine, _| engine.set_optimization_delay(DELAY));
    let before = resident();
    let started = Instant::now();
    if batch {
        bench
            .session()
            .with_engine(|engine, guest| engine.register_kprobes(guest, &probes))
            .map_err(|refusal| refusal.to_string())?;
    } else {
        for probe in &probes {
            bench.session().register_kprobe(probe).map_err(|refusal| refusal.to_string())?;
        }
    }
    let armed = each(started);
    let bytes = resident().saturating_sub(before) as f64 / count as f64;
    let started = Instant::now();
    bench.run(2 * DELAY)?;
    let optimised = each(started);
    let started = Instant::now();
    if batch {
        bench.session().with_engine(|engine, guest| engine.unregister_kprobes(guest, &probes));
    } else {
        probes.iter().for_each(|probe| bench.session().unregister_kprobe(probe));
    }
    let disarmed = each(started);
    let how = if batch { "batch" } else { "single" };
    println!("{count:>8} {how:>7} {armed:>14.2} {optimised:>14.2} {disarmed:>14.2} {bytes:>12.0}");
    Ok(())
}

/// Bytes of this process in the host's memory; 0 where the host does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
