//! What a hit costs under a script: the loop of the other tables, with an optimised probe that runs a block.

use super::Mechanism;
use super::bench_loop::{BenchLoop, TARGET};
use crate::probed::scripts::{Facts, How, Script, Tracing};
use trapline_probes::script::attach::Attached;

/// What the block does, and the block.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("count", "@ = count();"),
    ("count-by-comm", "@[comm] = count();"),
    ("hist", "@ns = hist(arg2);"),
    ("printf", r#"printf("%d %s\n", pid, comm);"#),
];

/// The way in which the probes of these tables are run.
pub fn mechanism() -> Result<&'static Mechanism, String> {
    Mechanism::find("o").ok_or("no mechanism is called `o`".into())
}

/// Puts a block on the function.
pub fn start(bench: &mut BenchLoop, block: &str) -> Result<Tracing, String> {
    bench.choose(mechanism()?)?;
    let session = bench.session();
    let text = format!("kprobe:{TARGET} {{ {block} }}");
    let kernel = session.kernel().clone();
    let script = Script::compile(&text, &Facts::of(&kernel), &Default::default());
    let script = script.map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    session.start_script(script, &How::default()).map_err(|error| error.to_string())
}

/// Its hits so far.
pub fn hits(tracing: &Tracing) -> u64 {
    let kprobe = |(_, probe): &(String, Attached)| if let Attached::Kprobe(probe) = probe { probe.hits() } else { 0 };
    tracing.probes().iter().map(kprobe).sum()
}
