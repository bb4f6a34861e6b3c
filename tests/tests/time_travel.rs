//! Tests of checkpoints and timelines: going back and on again must repeat the run exactly, and places must be exact.

use std::collections::BTreeSet;
use std::process::ExitCode;
use trapline::history::observer::Observer;
use trapline::history::timeline::{Ended, Found, Timeline};
use trapline::machine::{Config, Machine, Place, Stop};
use trapline::snapshot::registers::Values;
use trapline_harness::{self as harness, Test, each, tests};
use trapline_probes::watch::Area;
use trapline_tests::stock::at_shell;
use trapline_tests::{LONG, entry_of, kernel, saved_guests, session};

const PAGE: usize = 4096;

fn config(cpus: usize) -> Config {
    Config { cpus, ram: Some(16 << 20), ..Config::default() }
}

fn ram(machine: &Machine<Observer>) -> Vec<u8> {
    let mut ram = vec![0; machine.guest_ram_bytes() as usize];
    assert!(machine.ram().read(machine.ram().base(), &mut ram));
    ram
}

fn timeline(name: &str, cpus: usize) -> Timeline {
    let machine = Machine::new(&kernel(name), &config(cpus), |_| Observer::default()).expect("a machine");
    Timeline::new(machine, None).expect("a timeline")
}

/// Everything at a place.
#[derive(PartialEq)]
struct All(Place, Vec<Values>, Vec<u8>);

fn all(timeline: &mut Timeline) -> All {
    let registers = timeline.look().all_registers().unwrap_or_default();
    All(timeline.place(), registers, ram(timeline.machine()))
}

fn assert_equal(what: &str, expected: &All, seen: &All) {
    assert_eq!((expected.0, &expected.1), (seen.0, &seen.1), "{what}");
    let first = expected.2.iter().zip(&seen.2).position(|(one, other)| one != other);
    assert_eq!(first, None, "{what}: the first byte of RAM that differs");
}

/// Runs to the end of the guest's run, and returns everything there.
fn to_the_end(timeline: &mut Timeline) -> All {
    let ended = timeline.forward(|| true).expect("it goes on");
    assert!(matches!(ended, Ended::End(_)), "{ended:?}");
    let place = timeline.place();
    All(place, Vec::new(), ram(timeline.machine()))
}

/// A pseudo-random generator with a fixed seed.
fn scrambled(count: usize) -> impl Iterator<Item = usize> {
    (1..).map(move |number: usize| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).map(move |number| number % count)
}

/// TT-4: each page that is written between two looks is marked dirty. All of RAM is compared.
fn no_written_page_is_missed(name: &'static str) {
    for cpus in [1, 2] {
        let mut machine = Machine::new(&kernel(name), &config(cpus), |_| Observer::default()).expect("a machine");
        machine.note_pages(true);
        let (mut before, mut noted_pages, mut changed_pages, mut looks) = (ram(&machine), 0, 0, 0);
        let mut stop = Stop::Limit;
        while stop == Stop::Limit {
            stop = machine.run_until_ticks(machine.time() + 60_000);
            let noted: BTreeSet<u32> = machine.take_noted_pages().into_iter().collect();
            let now = ram(&machine);
            let changed = before.chunks(PAGE).zip(now.chunks(PAGE)).enumerate().filter(|(_, (old, new))| old != new);
            let changed: Vec<u32> = changed.map(|(page, _)| page as u32).collect();
            let missed: Vec<u32> = changed.iter().copied().filter(|page| !noted.contains(page)).collect();
            assert!(missed.is_empty(), "{name}, {cpus} CPUs, {} ns: pages {missed:x?}", machine.now());
            (noted_pages, changed_pages, looks) = (noted_pages + noted.len(), changed_pages + changed.len(), looks + 1);
            before = now;
        }
        assert_eq!(stop, Stop::PowerOff(0), "{name}");
        println!("{name}, {cpus} CPUs: {looks} looks, {noted_pages} pages noted, {changed_pages} changed");
        assert!(looks > 40 && changed_pages > 100, "{name}: {looks} looks, {changed_pages} pages");
    }
}

/// TT-4: a run that returned to a checkpoint equals the uninterrupted one: registers, memory, console, end.
fn a_run_goes_back_and_on_as_before(name: &'static str) {
    for cpus in [1, 2] {
        let what = format!("{name}, {cpus} CPUs");
        let mut plain = Machine::new(&kernel(name), &config(cpus), |_| ()).expect("a machine");
        assert_eq!(plain.run_until(LONG), Stop::PowerOff(0), "{what}");
        let console = plain.take_console();

        let mut timeline = timeline(name, cpus);
        let end = to_the_end(&mut timeline);
        assert_eq!(end.0.ticks, plain.time(), "{what}: a timeline changes nothing");
        assert!(timeline.take_console() == console, "{what}: the console");
        let places: Vec<Place> = timeline.checkpoints().collect();
        assert!(places.len() > 8, "{what}: {} checkpoints", places.len());
        let mut seen: Vec<Option<All>> = places.iter().map(|_| None).collect();
        for number in scrambled(places.len()).take(12) {
            timeline.go_to(places[number]).unwrap_or_else(|error| panic!("{what}: {error}"));
            let now = all(&mut timeline);
            assert_equal(&format!("{what}, checkpoint {number}"), seen[number].get_or_insert_with(|| all(&mut timeline)), &now);
        }
        for number in scrambled(places.len()).skip(30).take(3) {
            timeline.go_to(places[number]).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_equal(&format!("{what}, from checkpoint {number} to the end"), &end, &to_the_end(&mut timeline));
        }
        assert!(timeline.take_console().is_empty(), "{what}: nothing is printed twice");
        timeline.go_to(timeline.start()).expect("the start");
        assert_equal(&format!("{what}, from the start"), &end, &to_the_end(&mut timeline));
    }
}

/// TT-5: single steps stop at the places of a run in which each instruction is a block of its own, and change nothing.
fn steps_are_the_guests_instructions(name: &'static str) {
    const FROM: u64 = 800_000;
    for cpus in [1, 2] {
        let what = format!("{name}, {cpus} CPUs");
        let mut plain = Machine::new(&kernel(name), &config(cpus), |_| ()).expect("a machine");
        assert_eq!(plain.run_until_ticks(FROM), Stop::Limit, "{what}");
        plain.record_steps(Vec::new());
        plain.run_until_ticks(FROM + 40_000);
        let recorded: Vec<(usize, u64, u64)> = plain.take_steps().iter().map(|step| (step.cpu, step.time, step.pc)).collect();

        let mut timeline = timeline(name, cpus);
        timeline.seek(FROM).expect("a place");
        let mut stepped: Vec<Place> = Vec::new();
        for _ in 0..2_500 {
            stepped.push(timeline.place());
            assert!(!timeline.step().expect("it goes on").is_end(), "{what}");
        }
        let first = stepped.iter().position(|place| (place.cpu, place.ticks, place.pc) == recorded[0]);
        let first = first.unwrap_or_else(|| panic!("{what}: {:?} is not in {:?}", recorded[0], &stepped[..4]));
        // Behind a branch the instruction in its delay slot is no place, on CPUs with two program counters.
        let (mut rest, mut slots) = (recorded.iter().peekable(), 0);
        for step in stepped[first..].iter().map(|place| (place.cpu, place.ticks, place.pc)) {
            let Some(mut expected) = rest.next() else { break };
            if *expected != step && rest.peek().is_some_and(|next| **next == step) {
                (expected, slots) = (rest.next().expect("it was seen"), slots + 1);
            }
            assert_eq!(step, *expected, "{what}");
        }
        assert!(
            slots == 0 || ["tiny/sparc64", "tiny/parisc"].contains(&name) && slots < stepped.len() / 2,
            "{what}: {slots} slots"
        );
        assert!(recorded.len() > 1_000, "{what}: {} steps", recorded.len());

        let end = to_the_end(&mut timeline);
        for number in scrambled(stepped.len()).take(4) {
            timeline.go_to(stepped[number]).unwrap_or_else(|error| panic!("{what}: {error}"));
            let there = all(&mut timeline);
            assert_eq!(there.0, stepped[number], "{what}");
            timeline.go_to(timeline.start()).expect("the start");
            timeline.go_to(stepped[number]).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_equal(&what, &there, &all(&mut timeline));
            if number > 0 {
                let before = timeline.before(stepped[number]).expect("a place");
                assert_eq!(before, Some(stepped[number - 1]), "{what}");
            }
        }
        assert_equal(&format!("{what}: the end"), &end, &to_the_end(&mut timeline));
    }
}

/// TT-5: a long stepped run stops at every place at which a run in whole blocks stops.
fn long_steps_change_nothing(name: &'static str) {
    const FROM: u64 = 250_000;
    const TO: u64 = 450_000;
    for cpus in [1, 2] {
        let what = format!("{name}, {cpus} CPUs");
        let mut plain = Machine::new(&kernel(name), &config(cpus), |_| ()).expect("a machine");
        let mut stops = Vec::new();
        let mut limit = FROM;
        while limit < TO && plain.run_until_ticks(limit) == Stop::Limit {
            stops.push(plain.place());
            limit += 150;
        }
        let mut timeline = timeline(name, cpus);
        timeline.seek(FROM - 10_000).expect("a place");
        let mut stepped: Vec<Place> = Vec::new();
        while timeline.place().ticks < TO && !timeline.step().expect("it goes on").is_end() {
            stepped.push(timeline.place());
        }
        let places: std::collections::HashSet<(u64, usize, u64, u64)> =
            stepped.iter().map(|place| (place.turn, place.cpu, place.ticks, place.pc)).collect();
        for (number, stop) in stops.iter().enumerate() {
            let is_there = places.contains(&(stop.turn, stop.cpu, stop.ticks, stop.pc));
            let at = stepped.iter().position(|place| place.is_behind(stop)).unwrap_or(0);
            // At the end of a turn the run in blocks stops in front of an instruction that the next turn of this CPU executes.
            let ends_turn = stepped[at].turn > stop.turn && at > 0 && stepped[at - 1].ticks < stop.ticks;
            assert!(
                is_there || ends_turn || at == 0,
                "{what}: stop {number} at {stop:x?} is not among {:x?}",
                &stepped[at.saturating_sub(14)..(at + 3).min(stepped.len())]
            );
        }
    }
}

/// TT-6: breakpoints are found forwards and backwards, at the same places.
fn breakpoints_are_found_both_ways(name: &'static str) {
    for cpus in [1, 2] {
        let what = format!("{name}, {cpus} CPUs");
        let mut timeline = timeline(name, cpus);
        let address = entry_of(&mut session(name, 1), "vfs_read");
        timeline.set_breaks(BTreeSet::from([address]));
        let mut forwards = Vec::new();
        let end = loop {
            match timeline.forward(|| true).expect("it goes on") {
                Ended::Found(Found::Break(place)) => forwards.push(place),
                other => break other,
            }
        };
        assert!(matches!(end, Ended::End(_)), "{what}: {end:?}");
        assert!(forwards.len() > 10 && forwards.iter().all(|place| place.pc == address), "{what}: {forwards:?}");
        let mut backwards = Vec::new();
        while backwards.len() < 12 {
            match timeline.backward(|| true).expect("it goes back") {
                Ended::Found(Found::Break(place)) => backwards.push(place),
                other => panic!("{what}: {other:?}"),
            }
            assert_eq!(Some(&timeline.place()), backwards.last(), "{what}");
        }
        assert!(forwards.iter().rev().take(12).eq(&backwards), "{what}: {forwards:?} {backwards:?}");
        timeline.set_breaks(BTreeSet::new());
        assert_eq!(timeline.backward(|| true).expect("it goes back"), Ended::Start, "{what}");
        assert_eq!(timeline.place(), timeline.start(), "{what}");
    }
}

/// TT-6: a stretch in which nothing was found is not searched again. New breakpoints are found in it.
fn nothing_is_looked_for_twice(name: &'static str) {
    let mut guest = session(name, 1);
    let [never, often] = ["panic", "vfs_read"].map(|function| entry_of(&mut guest, function));
    let looks = |timeline: &mut Timeline, breaks: &[u64]| {
        timeline.set_breaks(breaks.iter().copied().collect());
        let mut looks = 0;
        let ended = timeline.backward(|| {
            looks += 1;
            true
        });
        (ended.expect("it goes back"), looks)
    };
    let mut timeline = timeline(name, 1);
    let end = to_the_end(&mut timeline);
    let (ended, first) = looks(&mut timeline, &[never]);
    assert!(ended == Ended::Start && first > 8, "{name}: {ended:?}, {first} looks");
    for (breaks, most) in [(&[never][..], 2), (&[], 2)] {
        timeline.go_to_or_before(end.0).expect("the end");
        let (ended, again) = looks(&mut timeline, breaks);
        assert!(ended == Ended::Start && again <= most, "{name}: {ended:?}, {again} looks");
    }
    timeline.go_to_or_before(end.0).expect("the end");
    let (found, _) = looks(&mut timeline, &[never, often]);
    assert!(matches!(found, Ended::Found(Found::Break(place)) if place.pc == often), "{name}: {found:?}");
    // Input makes another run, in which nothing was searched yet.
    timeline.keys(b"x");
    to_the_end(&mut timeline);
    let (ended, _) = looks(&mut timeline, &[often]);
    assert!(matches!(ended, Ended::Found(_)), "{name}: {ended:?}");
    // A run forwards looks too.
    let mut timeline = self::timeline(name, 1);
    timeline.set_breaks(BTreeSet::from([never]));
    to_the_end(&mut timeline);
    let (ended, again) = looks(&mut timeline, &[never]);
    assert!(ended == Ended::Start && again <= 2, "{name}: {ended:?}, {again} looks");
}

/// TT-6: writes to memory are found forwards and backwards, and the last one before a place is the right one.
fn writes_are_found_both_ways(name: &'static str) {
    let mut timeline = timeline(name, 1);
    let kernel = kernel(name);
    let symbol = kernel.symbols.find("tasks").expect("a variable").start;
    let area = Area { start: symbol, len: kernel.arch.isa().word as u64, writes: true, ..Area::default() };
    timeline.set_areas(vec![area]);
    let mut forwards = Vec::new();
    while let Ended::Found(Found::Access(seen)) = timeline.forward(|| true).expect("it goes on") {
        assert!(timeline.place().is_behind(&seen.place), "{name}: it stands behind the store");
        forwards.push(seen);
    }
    let end = timeline.place();
    assert!(!forwards.is_empty(), "{name}");
    let mut backwards = Vec::new();
    while let Ended::Found(Found::Access(seen)) = timeline.backward(|| true).expect("it goes back") {
        assert!(!timeline.place().is_behind(&seen.place), "{name}: it stands in front of the store");
        backwards.push(seen);
    }
    backwards.reverse();
    assert_eq!(forwards, backwards, "{name}");
    timeline.set_areas(Vec::new());
    let last = timeline.last_write(area, end).expect("it goes back");
    assert_eq!(last, forwards.last().copied(), "{name}");
    let before = timeline.last_write(area, last.expect("one").place).expect("it goes back");
    assert_eq!(before, forwards.iter().rev().nth(1).copied(), "{name}");
}

/// TT-6: input starts another future, which can be repeated like the old one. If few pages may be kept, few are kept.
fn input_and_changes_begin_another_future() {
    let mut timeline = timeline("tiny/x86_64", 1);
    timeline.keep_pages(64);
    let end = to_the_end(&mut timeline);
    let kept = timeline.checkpoints().count();
    timeline.seek(2_000_000).expect("a place");
    let here = timeline.place();
    let register = timeline.machine().registers()[0];
    timeline.change(|machine| machine.write_physical(machine.ram().base() + 0x100, &[1; 8])).expect("a change");
    assert_eq!((timeline.place(), timeline.start()), (here, here));
    assert_eq!(timeline.machine().registers()[0], register);
    let other = to_the_end(&mut timeline);
    assert_eq!(other.2[0x100..0x108], [1; 8]);
    timeline.go_to(here).expect("the start");
    assert_equal("the new future", &other, &to_the_end(&mut timeline));
    assert!(kept < 40 && timeline.kept_pages() < 2_000, "{kept} checkpoints, {} pages", timeline.kept_pages());
    assert_eq!(end.0.ticks, other.0.ticks);
}

const TYPED: &[u8] =
    b"i=0; while [ $i -lt 3 ]; do cat /proc/version /proc/stat >/tmp/out; i=$((i+1)); done; echo $((6*7)) done\n";

/// TT-4, TT-5: a stock kernel at work goes back and on, with translated code kept. No page is missed, and places are
/// exact.
fn a_stock_kernel_goes_back_and_on(name: &'static str) {
    let stock = at_shell(name);
    let config = Config { record_events: false, ..stock.config.clone() };
    let machine = Machine::from_snapshot(&stock.kernel, &config, &stock.snapshot, |_| Observer::default()).expect("a machine");
    let mut timeline = Timeline::new(machine, None).expect("a timeline");
    let begins = timeline.place();
    timeline.keys(TYPED);
    let end = begins.ticks + 160_000_000;
    timeline.seek(end).expect("a place");
    let end = all(&mut timeline);
    let console = timeline.take_console();
    println!("{name}: {} checkpoints, {} pages", timeline.checkpoints().count(), timeline.kept_pages());
    let places: Vec<Place> = timeline.checkpoints().collect();
    let mut seen: Vec<Option<All>> = places.iter().map(|_| None).collect();
    for number in scrambled(places.len()).take(6) {
        timeline.go_to(places[number]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let now = all(&mut timeline);
        match &seen[number] {
            Some(seen) => assert_equal(name, seen, &now),
            None => seen[number] = Some(now),
        }
    }
    timeline.go_to(places[places.len() / 2]).expect("a checkpoint");
    timeline.go_to(end.0).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_equal(&format!("{name}: on again"), &end, &all(&mut timeline));
    timeline.go_to(begins).expect("the start");
    timeline.go_to(end.0).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_equal(&format!("{name}: from the start"), &end, &all(&mut timeline));
    let before = timeline.before(end.0).expect("a place").expect("one");
    timeline.go_to(before).unwrap_or_else(|error| panic!("{name}: {error}"));
    timeline.step().expect("a step");
    assert_equal(&format!("{name}: one step"), &end, &all(&mut timeline));
    assert!(console.len() > 40 && timeline.take_console().is_empty(), "{name}: {}", String::from_utf8_lossy(&console));
}

/// One test for each built-in guest.
fn on_tiny(family: &str, test: fn(&'static str)) -> Vec<Test> {
    saved_guests().map(|name| Test::new(harness::member(family, name), move || test(name))).collect()
}

fn main() -> ExitCode {
    harness::run([
        on_tiny("no_written_page_is_missed", no_written_page_is_missed),
        on_tiny("a_run_goes_back_and_on_as_before", a_run_goes_back_and_on_as_before),
        on_tiny("steps_are_the_guests_instructions", steps_are_the_guests_instructions),
        on_tiny("long_steps_change_nothing", long_steps_change_nothing),
        on_tiny("breakpoints_are_found_both_ways", breakpoints_are_found_both_ways),
        on_tiny("nothing_is_looked_for_twice", nothing_is_looked_for_twice),
        on_tiny("writes_are_found_both_ways", writes_are_found_both_ways),
        tests![input_and_changes_begin_another_future],
        each!(["debian/amd64", "debian/arm64", "debian/s390x"], a_stock_kernel_goes_back_and_on),
    ])
}
