//! The guest's own uprobe_events, in a run of their own, count and record what our probes see.

use crate::{LONG, Stock, calls};
use std::collections::BTreeMap;
use std::fmt::Write;
use trapline::machine::Stop;
use trapline_probes::user::{Place, UserProbe};

/// Programs of a copy of busybox, which nobody else runs. Nothing that they do depends on the time.
const WORK: &str = "
cp /bin/busybox /w
BEFORE
/w seq 300 > /a; /w sort -n /a > /b; /w md5sum /b
/w sh -c 'i=0; while [ $i -lt 5 ]; do ( : ); i=$((i+1)); done; echo $i'
/w grep -c 7 /a; /w true; /w wc -l /b; /w false
AFTER
";

/// The number of functions that are probed, at their entries and at their returns.
const FUNCTIONS: usize = 200;

/// BY-2: in the kernel's own run, `uprobe_profile` counts the entries of functions and `trace` has a line for each return;
/// in ours, probes at the same places count as many. So instructions that fault, forks and programs that end are counted
/// alike. `uprobe_profile` cannot serve for returns: for those, too, it counts entries.
pub fn hits_equal_those_of_the_guests_own_uprobes(name: &'static str) {
    let (functions, _) = calls::places(&Stock::new(name, b"").busybox);
    let chosen: Vec<u64> = functions.iter().copied().step_by(functions.len().div_ceil(FUNCTIONS)).collect();
    let mut before = String::from("mkdir -p /t; mount -t tracefs t /t; echo 16384 > /t/buffer_size_kb\n");
    for offset in &chosen {
        let _ = writeln!(before, "echo 'p:e{offset:x} /w:{offset:#x}' >> /t/uprobe_events");
        let _ = writeln!(before, "echo 'r:r{offset:x} /w:{offset:#x}' >> /t/uprobe_events");
    }
    before += "for one in /t/events/uprobes/*/enable; do echo 1 > $one || echo refused; done\n";
    let after = "echo 0 > /t/events/uprobes/enable; cat /t/uprobe_profile; grep overrun: /t/per_cpu/cpu0/stats
grep -o ' r[0-9a-f]*: ' /t/trace | sort | uniq -c";
    let script = WORK.replace("BEFORE", &before).replace("AFTER", after);
    let mut theirs = Stock::new(name, script.as_bytes()).session();
    let stop = theirs.run_until(LONG);
    let console = String::from_utf8_lossy(&theirs.machine_mut().take_console()).into_owned();
    assert_eq!(stop, Stop::PowerOff(0), "{console}");
    assert!(console.contains("overrun: 0\r\n"), "{name}: the ring buffer is too small: {console}");
    // Returns that never happen have no line.
    let mut counted: BTreeMap<String, u64> = chosen.iter().map(|offset| (format!("r{offset:x}"), 0)).collect();
    counted.extend(console.lines().filter_map(|line| {
        let (event, hits) = match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["/w", event, hits] if event.starts_with('e') => (event, hits),
            [returns, event] => (event.strip_suffix(':').filter(|event| event.starts_with('r'))?, returns),
            _ => return None,
        };
        Some((event.to_string(), hits.parse().ok()?))
    }));
    assert_eq!(counted.len(), 2 * chosen.len(), "{name}: {console}");

    let script = WORK.replace("BEFORE", "").replace("AFTER", "true");
    let mut ours = Stock::new(name, script.as_bytes()).session();
    let probe = |offset: &u64| {
        let place = || Place::Offset(*offset);
        [
            (format!("e{offset:x}"), UserProbe::at("/w", place(), |_| ())),
            (format!("r{offset:x}"), UserProbe::returning("/w", place(), |_| ())),
        ]
    };
    let probes: Vec<(String, UserProbe)> = chosen.iter().flat_map(probe).collect();
    for (event, probe) in &probes {
        ours.register_user(probe).unwrap_or_else(|refusal| panic!("{name}: {event}: {refusal}"));
    }
    let stop = ours.run_until(LONG);
    let console = String::from_utf8_lossy(&ours.machine_mut().take_console()).into_owned();
    assert_eq!(stop, Stop::PowerOff(0), "{console}");
    let hits: BTreeMap<String, u64> = probes.iter().map(|(event, probe)| (event.clone(), probe.hits())).collect();
    let differing: Vec<_> = counted.iter().filter(|(event, count)| hits.get(*event) != Some(*count)).collect();
    let total: u64 = hits.values().sum();
    println!("{name}: {total} hits of {} events, {:?}", hits.len(), ours.engine().user_counts());
    assert!(
        differing.is_empty(),
        "{name}: theirs {differing:?}, ours {:?}",
        differing.iter().map(|(event, _)| hits.get(*event)).collect::<Vec<_>>()
    );
    assert!(total > 100, "{name}: {total} hits");
}
