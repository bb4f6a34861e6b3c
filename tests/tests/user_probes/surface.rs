//! Lines of `uprobe_events` and scripts on programs, with what handlers see.

use crate::{LONG, Stock};
use goblin::elf::Elf;
use std::sync::{Arc, Mutex};
use trapline::boot::guest_files::GuestFiles;
use trapline::machine::Stop;
use trapline::probed::scripts::{Facts, How, Script};
use trapline_probes::events::places::Places;
use trapline_probes::events::set::EventSet;
use trapline_probes::events::trace;
use trapline_probes::user::{Place, UserProbe};

const WORK: &[u8] = b"/bin/busybox echo one two; /bin/busybox true; exit 0\n";

/// The address and the offset of the entry point.
fn entry(busybox: &[u8]) -> (u64, u64) {
    let elf = Elf::parse(busybox).expect("a program");
    let at = elf.entry & !1;
    let holds = |header: &&goblin::elf::ProgramHeader| header.p_type == 1 && at.wrapping_sub(header.p_vaddr) < header.p_filesz;
    let segment = elf.program_headers.iter().find(holds).expect("the entry point is loaded");
    (at, at - segment.p_vaddr + segment.p_offset)
}

/// BY-2: each program that is started hits its entry point once, with its own task, and its arguments on the stack. A
/// probe that is added in mid-run sees the rest, and one that is removed sees no more.
pub fn each_program_starts_once(name: &'static str) {
    let stock = Stock::new(name, WORK);
    let mut session = stock.session();
    let (_, offset) = entry(&stock.busybox);
    let started = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&started);
    let probe = UserProbe::at("/bin/sh", Place::Offset(offset), move |hit| {
        let sp = hit.sp();
        let count = hit.read_word(sp).unwrap_or(0);
        let word = hit.isa().word as u64;
        let mut words = Vec::new();
        for number in 1..=count.min(8) {
            let mut text = [0; 32];
            let at = hit.read_word(sp + number * word).unwrap_or(0);
            let length = hit.read_string(at, &mut text).unwrap_or(0);
            words.push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        noted.lock().expect("no panic").push((hit.pid(), words.join(" ")));
    });
    session.register_user(&probe).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    assert!(session.register_user(&probe).is_err(), "{name}: it is registered");
    let stop = session.run_until(LONG);
    let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
    assert_eq!(stop, Stop::PowerOff(0), "{console}");
    let started = started.lock().expect("no panic");
    assert_eq!(probe.hits(), started.len() as u64);
    let find = |wanted: &str| started.iter().filter(|(_, words)| words == wanted).map(|(pid, _)| *pid).collect::<Vec<_>>();
    // The kernel adds the words of its command line that it does not know.
    let first = started.first().expect("a program");
    // On MIPS only memory that the TLB maps can be read, and the first words are on a page that nobody has touched.
    let is_read = first.1.starts_with("/bin/busybox sh /init") || name.starts_with("debian/mips");
    assert!(first.0 == 1 && is_read, "{name}: {started:?}");
    let [echo] = find("/bin/busybox echo one two")[..] else { panic!("{name}: {started:?}") };
    let [truth] = find("/bin/busybox true")[..] else { panic!("{name}: {started:?}") };
    assert!(1 < echo && echo < truth, "{name}: {started:?}");
    println!("{name}: {started:?}");
}

/// BY-2: a line of `uprobe_events` and a script see the same hits, one of them from the middle of the run on.
pub fn lines_and_scripts_probe_programs(name: &'static str) {
    let stock = Stock::new(name, WORK);
    let mut session = stock.session();
    let (address, offset) = entry(&stock.busybox);
    let mut set = EventSet::default();
    let line = format!("p:start /bin/busybox:{offset:#x} comm=$comm code=@+{offset:#x}:u8 words=+0($stack):u32");
    let event = session.with_engine(|engine, guest| {
        let event = set.apply(engine, guest, &line).expect("a probe").expect("an event");
        set.enable(engine, guest, event, true).expect("it can be enabled");
        event
    });
    let mut facts = Facts::of(session.kernel());
    facts.know_files(GuestFiles::new(stock.config.initrd.clone(), stock.config.files.clone()));
    let text = format!("uprobe:/bin/sh:{address:#x} {{ @[usermode] = count(); @top = ustack(1); }}");
    let script = Script::compile(&text, &facts, &Default::default()).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
    drop(facts);
    let mut tracing = session.start_script(script, &How::default()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let stop = session.trace_until(std::slice::from_mut(&mut tracing), LONG);
    assert_eq!(stop, Stop::PowerOff(0), "{name}");
    session.end_script(&mut tracing);
    let printed = String::from_utf8_lossy(&session.take_script_output(&tracing).0).into_owned();
    let hits = set.members().next().expect("the probe").hits();
    assert!(printed.contains(&format!("@[1]: {hits}\n")), "{name}: {hits} hits, {printed}");
    let format = set.format(event).expect("it exists").clone();
    let mut lines = String::new();
    session.with_engine(|engine, _| {
        while let Some(record) = engine.records().pop() {
            trace::write(&mut lines, &record, &format, &mut Places::default(), &|_| None);
        }
    });
    assert_eq!(lines.lines().count() as u64, hits, "{name}: {lines}");
    let code = stock.busybox[offset as usize];
    assert!(
        lines.lines().all(|line| line.contains(": start: (0x") && line.contains(&format!("code={code} "))),
        "{name}: {lines}"
    );
}
