//! The cost of a hit with a script: the benchmark loop with an optimised probe that runs a block of a script.

use super::Mechanism;
use super::bench_loop::{BenchLoop, TARGET};
use crate::probed::scripts::{Facts, How, Script, Tracing};
use trapline_script::attach::Attached;
use trapline_script::run::Secret;

/// A fixed secret, because the counts of host instructions depend on the places of keys in their maps.
const SECRET: Secret = Secret(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344);

/// The name of each measured block, and its text.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("count", "@ = count();"),
    ("count-by-comm", "@[comm] = count();"),
    ("hist", "@ns = hist(arg2);"),
    ("printf", r#"printf("%d %s\n", pid, comm);"#),
];

/// The mechanism of these measurements: an optimised kprobe.
pub fn mechanism() -> Result<&'static Mechanism, String> {
    Mechanism::find("o").ok_or("no mechanism is called `o`".into())
}

/// Attaches a block to the function.
pub fn start(bench: &mut BenchLoop, block: &str) -> Result<Tracing, String> {
    bench.choose(mechanism()?)?;
    let session = bench.session();
    let text = format!("kprobe:{TARGET} {{ {block} }}");
    let kernel = session.kernel().clone();
    let script = Script::compile(&text, &Facts::of(&kernel), &Default::default());
    let script = script.map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    session.start_script(script, &How { secret: Some(SECRET), ..How::default() }).map_err(|error| error.to_string())
}

/// The hits of a script's probes.
pub fn hits(tracing: &Tracing) -> u64 {
    let kprobe = |(_, probe): &(String, Attached)| if let Attached::Kprobe(probe) = probe { probe.hits() } else { 0 };
    tracing.probes().iter().map(kprobe).sum()
}
