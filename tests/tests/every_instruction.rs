//! Probes every instruction of the tiny kernel's text, with a return probe on each function. The kernel's checksum must
//! stay the same.

use std::collections::BTreeMap;
use trapline::machine::Stop;
use trapline::still::StillGuest;
use trapline_isa::arch::Arch;
use trapline_isa::plan::Refusal;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_probes::{Engine, ProbeSummary};
use trapline_tests::{GUESTS, boundaries, checksum, functions, kernel, run, session};

/// Rules for instructions that cannot be probed on any kernel or hardware. Their number depends on the kernel's locks,
/// so they are not counted as a loss.
const NEVER_PROBED: &[&str] = &["exclusive", "between-exclusives"];

/// KP-1, KP-2, RP-1: with a probe on every instruction and a return probe on every function, the kernel computes the
/// same checksum, with and without post-handlers. Every refusal is by a named rule, and few are refused.
#[test]
fn a_kernel_probed_everywhere_computes_the_same() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        for post in [false, true] {
            let mut probed = session(name, 1);
            let (mut refused, mut outside, mut total) = (BTreeMap::<String, u64>::new(), 0, 0);
            let mut probes = Vec::new();
            for address in boundaries(&kernel(name)) {
                let probe = Kprobe::at_address(address).pre(|_| Flow::Continue);
                let probe = if post { probe.post(|_| {}) } else { probe };
                let closed = is_closed(probed.kernel(), address);
                total += u64::from(!closed);
                match probed.register_kprobe(&probe) {
                    Ok(()) => probes.push(probe),
                    Err(refusal) => {
                        let rule = rule(&refusal);
                        outside += u64::from(!closed && !NEVER_PROBED.contains(&rule.as_str()));
                        *refused.entry(rule).or_default() += 1;
                    }
                }
            }
            let mut returns = Vec::new();
            for (_, start, _) in functions(&kernel(name)) {
                let probe = Kretprobe::at_address(start).maxactive(64).handler(|_| {});
                if probed.register_kretprobe(&probe).is_ok() {
                    returns.push(probe);
                }
            }
            let seen = run(&mut probed);
            println!(
                "{name}, post-handlers: {post}: {} probes, {} return probes; refused, by reason:",
                probes.len(),
                returns.len()
            );
            for (reason, count) in &refused {
                println!("{count:6}  {reason}");
            }
            assert_eq!(seen.stop, Stop::PowerOff(0), "{name}: {}", seen.console);
            assert_eq!(checksum(&seen.console), checksum(&plain.console), "{name}");
            assert!(checksum(&plain.console).starts_with("checksum: "), "{name}: {}", plain.console);
            assert!(outside * 50 <= total, "{name}: {outside} of {total} instructions outside the closed sections are refused");
            let hit = probes.iter().filter(|probe| probe.hits() > 0).count();
            assert!(hit * 2 > probes.len(), "{name}: {hit} of {} probes were hit", probes.len());
            let missed: u64 = probes.iter().map(Kprobe::nmissed).sum();
            let returned: u64 = returns.iter().map(Kretprobe::returns).sum();
            assert!(returned > 1000, "{name}: {returned} returns, {missed} misses");
        }
    }
}

/// KP-5, OP-2: a stopped kernel, as `check` and `disasm` use it, gives the same answer as a machine for every
/// instruction: whether it can be probed, how it runs, and whether a jump is possible. (Both find functions that are
/// only reached by jumps from the same text.)
#[test]
fn a_stopped_kernel_gives_the_same_answers_as_a_machine() {
    for (_, name) in GUESTS.iter() {
        let kernel = kernel(name);
        let (mut still, mut engine) = (StillGuest::new(&kernel), Engine::new(kernel.arch.isa(), 1));
        let mut machine = session(name, 1);
        let (mut wrong, mut jumps, mut total) = (Vec::new(), 0, 0);
        for address in boundaries(&kernel) {
            let probe = || Kprobe::at_address(address).pre(|_| Flow::Continue);
            let told = probe();
            let said = engine.register_kprobe(&mut still, &told).map_err(|refusal| refusal.why.to_string());
            let said = said.map(|()| way(&engine.summary(&still)));
            engine.unregister_kprobe(&mut still, &told);
            let real = probe();
            let done = machine.register_kprobe(&real).map_err(|refusal| refusal.why.to_string());
            let done = done.map(|()| machine.with_engine(|engine, guest| way(&engine.summary(guest))));
            machine.unregister_kprobe(&real);
            total += 1;
            jumps += u64::from(done.as_ref().is_ok_and(|(_, jump)| *jump));
            if said != done {
                wrong.push(format!("{address:#x}: said {said:?}, done {done:?}"));
            }
        }
        println!("{name}: {total} instructions, {jumps} give way to jumps");
        assert!(wrong.is_empty(), "{name}: {} of {total} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    }
}

/// The mode of the only probe, and whether it is optimised.
fn way(summary: &[ProbeSummary]) -> (Option<Mode>, bool) {
    let point = summary.first();
    (point.map(|point| point.mode), point.is_some_and(|point| point.optimized))
}

/// The name of the rule behind a refusal: one of the ISA's or of the registration's.
fn rule(refusal: &Refusal) -> String {
    const OF_REGISTRATION: &[(&str, &str)] =
        &[("is blacklisted as part of", "blacklisted"), ("is the trap of a BUG() or WARN()", "the trap of BUG() or WARN()")];
    let of_isa = Arch::ALL.iter().find_map(|arch| arch.isa().rule_of(refusal)).map(|rule| rule.name.to_string());
    let of_registration =
        || OF_REGISTRATION.iter().find(|(words, _)| refusal.why.contains(words)).map(|(_, rule)| rule.to_string());
    of_isa.or_else(of_registration).unwrap_or_else(|| panic!("a refusal by no named rule: {refusal}"))
}

/// Whether an address is in `.kprobes.text` or the entry code, where no probe is allowed.
fn is_closed(kernel: &trapline::boot::Kernel, address: u64) -> bool {
    [
        ("__kprobes_text_start", "__kprobes_text_end"),
        ("__entry_text_start", "__entry_text_end"),
        ("__noinstr_text_start", "__noinstr_text_end"),
    ]
    .iter()
    .filter_map(|(start, end)| kernel.symbols.address_of(start).zip(kernel.symbols.address_of(end)))
    .any(|(start, end)| (start..end).contains(&address))
}
