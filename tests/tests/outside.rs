//! `Policy::Outside` on stock kernels: all entries of the kernel's own blacklist are probed at once, and the run is the
//! same.

use std::collections::BTreeMap;
use std::process::ExitCode;
use trapline::machine::Stop;
use trapline::probed::Session;
use trapline::sweep::refusal;
use trapline::verify::{Reference, Settings};
use trapline_harness::guests;
use trapline_harness::{self as harness, each};
use trapline_isa::plan::Policy;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::LONG;
use trapline_tests::stock::{AtShell, at_shell};

/// Exercises entry code: system calls, faults, signals, forks and sleeps.
const SCRIPT: &[u8] = b"work() { for i in 1 2 3; do seq 1 200 | gzip -9 | gunzip | md5sum; cat /proc/version; sleep 0.01; (sleep 9 & kill -9 $!); done; }; work 2>&1 | md5sum; exit 7\n";

fn busy(mut session: Session) -> Session {
    session.machine_mut().take_console();
    session.machine_mut().console_input(SCRIPT);
    session
}

fn probed(stock: &AtShell, policy: Policy) -> Session {
    Session::from_snapshot(stock.kernel.clone(), &stock.config, policy, &stock.snapshot).expect("it was made for it")
}

/// BY-7: with a kprobe at each entry of the blacklist, the run is the same. Each refusal is by a rule of the machine.
/// Under the policy `Best`, all are refused.
fn the_whole_blacklist_is_probed(name: &'static str) {
    let stock = at_shell(name);
    let unprobed = Session::unprobed_from_snapshot(stock.kernel.clone(), &stock.config, &stock.snapshot);
    let settings = Settings { limit: 60 * LONG, ..Settings::default() };
    let reference = Reference::record(&mut busy(unprobed.expect("it was made for it")), &settings);
    assert_eq!(*reference.stop(), Stop::PowerOff(7), "{name}: {}", String::from_utf8_lossy(reference.console()));

    let mut session = busy(probed(&stock, Policy::Outside));
    let mut entries: Vec<(u64, String)> = session.with_engine(|_, guest| {
        guest.blacklist().iter().filter(|entry| entry.listed).map(|entry| (entry.range.start, entry.name.clone())).collect()
    });
    entries.sort();
    entries.dedup_by_key(|(address, _)| *address);
    let (mut probes, mut refused) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for (address, function) in &entries {
        let probe = Kprobe::at_address(*address).pre(|_| Flow::Continue);
        match session.register_kprobe(&probe) {
            Ok(()) => probes.push((function, probe)),
            Err(why) => {
                let rule = refusal::rule(stock.kernel.arch.isa(), &why, function);
                refused.entry(rule).or_default().push(function.clone());
            }
        }
    }
    // A jump through a register leaves its target there until the next call. verify shows that, so such jumps are left out.
    let goes_far = stock.kernel.arch.isa().detour.is_some_and(|table| table.far.is_some());
    session.with_engine(|engine, guest| {
        engine.set_optimization(guest, !goes_far);
        engine.set_optimization_delay(0);
    });
    let outcome = reference.compare(&mut session);
    let hit: Vec<_> = probes.iter().filter(|(_, probe)| probe.hits() > 0).collect();
    let hits: u64 = probes.iter().map(|(_, probe)| probe.hits()).sum();
    println!(
        "{name}: {} entries, {} probed, {} of them hit, {hits} hits; refused: {refused:?}",
        entries.len(),
        probes.len(),
        hit.len()
    );
    assert!(outcome.is_ok(), "{name}: {outcome:?}");
    assert!(entries.len() > 20 && probes.len() * 10 >= entries.len() * 9, "{name}: {} of {}", probes.len(), entries.len());
    assert!(hit.len() >= 10 && hits > 100, "{name}: {} hit", hit.len());
    let mut best = probed(&stock, Policy::Best);
    let accepted = entries.iter().filter(|(address, _)| best.register_kprobe(&Kprobe::at_address(*address)).is_ok());
    assert_eq!(accepted.count(), 0, "{name}");
}

fn main() -> ExitCode {
    harness::run([each!(guests::stock(), the_whole_blacklist_is_probed)])
}
