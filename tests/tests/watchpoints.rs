//! Watchpoints: every access to watched memory is reported, at its exact pc and time, and the run stays the same.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trapline::probed::Session;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_probes::watch::{By, Watchpoint};
use trapline_tests::lab::DATA;
use trapline_tests::lab::hostile::{about_to_run, physical, seen};
use trapline_tests::{GUESTS, assert_same, boundaries, kernel, run, session};

/// One access: pc, time, address, size, whether it is a store.
type One = (u64, u64, u64, u64, bool);

/// One access: address, size, whether it is a store, the number before, the number after.
type Valued = (u64, u64, bool, u64, u64);

/// The number of accesses, a hash over all of them in order, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    count: u64,
    hash: u64,
    first: Vec<One>,
}

impl Seen {
    fn note(&mut self, one: One) {
        self.count += 1;
        for part in [one.0, one.1, one.2, one.3, u64::from(one.4)] {
            self.hash = (self.hash.rotate_left(5) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        if self.first.len() < 20 {
            self.first.push(one);
        }
    }
}

/// The symbol's bytes: the kernel's table of tasks.
fn tasks(name: &str) -> std::ops::Range<u64> {
    let symbol = kernel(name).symbols.find("tasks").unwrap_or_else(|| panic!("{name} has tasks"));
    symbol.start..symbol.start + symbol.size.clamp(8, 4096)
}

/// A watchpoint that collects its reports.
fn collecting(watchpoint: Watchpoint) -> (Watchpoint, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let into = Arc::clone(&seen);
    let watchpoint = watchpoint.on_hit(move |hit| {
        let access = *hit.access();
        assert_eq!(hit.now(), access.time);
        into.lock().unwrap().note((hit.pc(), access.time, access.address, access.size, access.is_write));
    });
    (watchpoint, seen)
}

/// Collects the accesses of translated code by a callback before each of them.
fn by_brute_force(session: &mut Session, range: std::ops::Range<u64>) -> Rc<RefCell<Seen>> {
    let seen: Rc<RefCell<Seen>> = Rc::default();
    let into = Rc::clone(&seen);
    session.tell_each_access(Some(Box::new(move |access| {
        if access.address < range.end && access.address + u64::from(access.size) > range.start {
            into.borrow_mut().note((access.pc, access.time, access.address, access.size.into(), access.is_write));
        }
    })));
    seen
}

/// BY-3: on one CPU and on two, the reports equal the accesses that callbacks before every access find, and the run is
/// the same as without watchpoints.
#[test]
fn every_access_is_reported_and_the_run_is_the_same() {
    for (_, name) in GUESTS.iter() {
        for cpus in [1, 2] {
            let what = format!("{name}, {cpus} CPUs");
            let range = tasks(name);
            let plain = run(&mut session(name, cpus));
            let mut brute = session(name, cpus);
            let expected = by_brute_force(&mut brute, range.clone());
            assert_same(&format!("{what}, brute force"), &plain, &run(&mut brute));

            let mut watched = session(name, cpus);
            let (watchpoint, told) = collecting(Watchpoint::at(range));
            watched.register_watchpoint(&watchpoint).expect("tasks can be watched");
            assert_same(&what, &plain, &run(&mut watched));
            watched.compare_watched();
            assert_eq!(*told.lock().unwrap(), *expected.borrow(), "{what}");
            assert!(told.lock().unwrap().count > 10_000, "{what}: {told:?}");
            assert_eq!((watchpoint.hits(), watchpoint.changed_unseen()), (told.lock().unwrap().count, 0), "{what}");
        }
    }
}

/// BY-3: a report of a store has the old bytes, and one of a load the present bytes.
#[test]
fn accesses_are_reported_with_both_values() {
    for (arch, name) in GUESTS.iter() {
        let order = arch.isa().order;
        let mut session = session(name, 1);
        // The bytes as the accesses tell them, by address.
        let known: Arc<Mutex<HashMap<u64, u8>>> = Arc::default();
        let watchpoint = Watchpoint::at(tasks(name)).reads().writes().on_hit(move |hit| {
            let access = *hit.access();
            let (mut old, mut new) = ([0; 8], [0; 8]);
            let size = access.size as usize;
            order.put(access.old, &mut old[..size]);
            order.put(access.value, &mut new[..size]);
            let mut known = known.lock().unwrap();
            for (number, (old, new)) in old.iter().zip(new).take(size).enumerate() {
                let before = known.insert(access.address + number as u64, new);
                assert!(before.is_none_or(|before| before == *old), "{access:x?} at {:#x}: {before:x?} was there", hit.pc());
                assert!(access.is_write || *old == new, "{access:x?}");
            }
            assert_eq!(access.by, By::Instruction);
        });
        session.register_watchpoint(&watchpoint).expect("tasks can be watched");
        let (reads, writes) = (collecting(Watchpoint::at(tasks(name)).reads()), collecting(Watchpoint::at(tasks(name)).writes()));
        session.register_watchpoint(&reads.0).expect("reads alone");
        session.register_watchpoint(&writes.0).expect("writes alone");
        run(&mut session);
        assert!(reads.0.hits() > 1000 && writes.0.hits() > 1000, "{name}: {reads:?}, {writes:?}");
        assert_eq!(reads.0.hits() + writes.0.hits(), watchpoint.hits(), "{name}");
        assert!(reads.1.lock().unwrap().first.iter().all(|one| !one.4) && writes.1.lock().unwrap().first.iter().all(|one| one.4));
    }
}

/// BY-3: a probe's action watches an object for a while, and the guest's run does not change.
#[test]
fn a_probe_moves_a_watchpoint() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let range = tasks(name);
        let (object, seen) = collecting(Watchpoint::at(0..range.end - range.start));
        let (template, calls) = (object.clone(), AtomicU64::new(0));
        let probe = Kprobe::at("vfs_read").pre(move |hit| {
            // Every fourth call begins, the one behind the next ends.
            match calls.fetch_add(1, Ordering::Relaxed) % 4 {
                0 => assert!(hit.watch_at(&template, range.start)),
                2 => assert!(hit.unwatch_at(&template, range.start)),
                _ => {}
            }
            Flow::Continue
        });
        session.register_kprobe(&probe).expect("vfs_read can be probed");
        let ran = run(&mut session);
        assert_same(name, &plain, &ran);
        let all = {
            let mut whole = trapline_tests::session(name, 1);
            let (watchpoint, _) = collecting(Watchpoint::at(tasks(name)));
            whole.register_watchpoint(&watchpoint).unwrap();
            run(&mut whole);
            watchpoint.hits()
        };
        let seen = seen.lock().unwrap();
        assert!(seen.count > 100 && seen.count < all && object.hits() == seen.count, "{name}: {seen:?} of {all}");
        assert_eq!(object.changed_unseen(), 0, "{name}");
    }
}

/// BY-3: no write to the kernel's data is missed. Memory is compared, so a write without a report would be found.
#[test]
fn no_write_escapes() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let start = tasks(name).start;
        let kernel = kernel(name);
        let segment = kernel.segments.iter().find(|segment| segment.range().contains(&start)).expect("a segment with tasks");
        let physical = (segment.physical + (start - segment.virtual_address)) & !0xfff;
        let counts: Arc<Mutex<HashMap<&str, u64>>> = Arc::default();
        let into = Arc::clone(&counts);
        let area = physical.saturating_sub(0x1_0000)..physical + 0x1_0000;
        let watchpoint = Watchpoint::at(area).physical().writes().on_hit(move |hit| {
            *into.lock().unwrap().entry(hit.access().by.name()).or_default() += 1;
        });
        session.register_watchpoint(&watchpoint).expect("memory can be watched");
        assert_same(name, &plain, &run(&mut session));
        session.compare_watched();
        let counts = counts.lock().unwrap();
        println!("{name}: {counts:?}");
        assert!(counts.get("instruction").is_some_and(|count| *count > 1000), "{name}: {counts:?}");
        assert_eq!(watchpoint.changed_unseen(), 0, "{name}: {counts:?}");
    }
}

/// BY-3: with probes that step, boost, compute or replace every instruction, the reported accesses are those of the
/// guest's own instructions.
#[test]
fn displaced_instructions_are_reported_as_the_guests_own() {
    for (_, name) in GUESTS.iter() {
        let told = |probes: bool| {
            let mut session = session(name, 1);
            if probes {
                for address in boundaries(session.kernel()) {
                    let _ = session.register_kprobe(&Kprobe::at_address(address).pre(|_| Flow::Continue));
                }
            }
            let (watchpoint, seen) = collecting(Watchpoint::at(tasks(name)));
            session.register_watchpoint(&watchpoint).unwrap();
            run(&mut session);
            assert_eq!(watchpoint.changed_unseen(), 0, "{name}");
            let seen = seen.lock().unwrap();
            seen.clone()
        };
        assert_eq!(told(true), told(false), "{name}");
    }
}

/// BY-3: watchpoints that are set and removed during a run report what a watchpoint for the whole run reports for that
/// time. The guest's run does not change.
#[test]
fn watchpoints_come_and_go_in_the_middle_of_a_run() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let (mut all, mut parts) = (session(name, 1), session(name, 1));
        let times: Arc<Mutex<Vec<u64>>> = Arc::default();
        let into = Arc::clone(&times);
        all.register_watchpoint(&Watchpoint::at(tasks(name)).on_hit(move |hit| into.lock().unwrap().push(hit.now()))).unwrap();
        assert_same(name, &plain, &run(&mut all));
        let end = all.machine().now();
        let mut expected = 0;
        let watchpoint = Watchpoint::at(tasks(name));
        let mut hits = 0;
        for part in 0..10 {
            parts.run_until(end * part / 10);
            let from = parts.machine().now();
            parts.register_watchpoint(&watchpoint).unwrap();
            parts.run_until(end * part / 10 + end / 20);
            let to = parts.machine().now();
            parts.unregister_watchpoint(&watchpoint);
            // Their time is that of the instruction; the stop is behind the last one.
            expected += times.lock().unwrap().iter().filter(|time| (from..to).contains(time)).count() as u64;
            hits += watchpoint.hits();
            assert_eq!(watchpoint.changed_unseen(), 0, "{name}");
        }
        assert_same(name, &plain, &run(&mut parts));
        assert_eq!(hits, expected, "{name}");
        assert!(hits > 1000, "{name}: {hits}");
    }
}

/// BY-3: of thousands of watchpoints, each counts the accesses to its bytes that callbacks before every access find.
#[test]
fn thousands_of_watchpoints_count_their_own_accesses() {
    const CELL: u64 = 8;
    const CELLS: usize = 4_000;
    for (_, name) in GUESTS.iter().step_by(3) {
        let start = tasks(name).start & !(CELL - 1);
        let range = start..start + CELLS as u64 * CELL;
        let mut brute = session(name, 1);
        let counts: Rc<RefCell<Vec<u64>>> = Rc::new(RefCell::new(vec![0; CELLS]));
        // Instructions whose accesses a helper of the library makes are not among these.
        let places: Rc<RefCell<HashSet<u64>>> = Rc::default();
        let (into, known) = (Rc::clone(&counts), Rc::clone(&places));
        brute.tell_each_access(Some(Box::new(move |access| {
            known.borrow_mut().insert(access.pc);
            let cells = access.address / CELL..=(access.address + u64::from(access.size) - 1) / CELL;
            for cell in cells {
                if let Some(count) = into.borrow_mut().get_mut((cell.wrapping_sub(range.start / CELL)) as usize) {
                    *count += 1;
                }
            }
        })));
        let plain = run(&mut brute);
        let mut watched = session(name, 1);
        let places = Arc::new(places.take());
        let told: Arc<Vec<AtomicU64>> = Arc::new((0..CELLS).map(|_| AtomicU64::new(0)).collect());
        let watchpoint = |cell: usize| {
            let (told, places) = (Arc::clone(&told), Arc::clone(&places));
            let from = start + cell as u64 * CELL;
            Watchpoint::at(from..from + CELL).on_hit(move |hit| {
                if hit.access().by == By::Instruction && places.contains(&hit.pc()) {
                    told[cell].fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let watchpoints: Vec<Watchpoint> = (0..CELLS).map(watchpoint).collect();
        for watchpoint in &watchpoints {
            watched.register_watchpoint(watchpoint).expect("there is room");
        }
        assert_same(name, &plain, &run(&mut watched));
        watched.compare_watched();
        let told: Vec<u64> = told.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let differs = told.iter().zip(&*counts.borrow()).position(|(told, expected)| told != expected);
        assert_eq!(differs, None, "{name}: {:?}", differs.map(|cell| (told[cell], counts.borrow()[cell])));
        assert!(told.iter().sum::<u64>() > 10_000, "{name}");
        assert_eq!(watchpoints.iter().map(Watchpoint::changed_unseen).sum::<u64>(), 0, "{name}");
    }
}

/// BY-3: a restored machine reports the same accesses as the first time. The restoration itself counts neither as a
/// change nor as an access.
#[test]
fn watchpoints_stay_through_snapshots() {
    for (_, name) in GUESTS.iter() {
        if !trapline_tests::saved_guests().any(|saved| saved == *name) {
            continue;
        }
        for cpus in [1, 2] {
            let what = format!("{name}, {cpus} CPUs");
            let mut session = session(name, cpus);
            let (watchpoint, told) = collecting(Watchpoint::at(tasks(name)));
            session.register_watchpoint(&watchpoint).expect("tasks can be watched");
            session.run_until(300_000);
            let snapshot = session.snapshot().expect("a snapshot");
            let before = core::mem::take(&mut *told.lock().unwrap());
            let rest = |session: &mut Session| {
                let stop = session.run_until(10_000_000_000);
                session.compare_watched();
                let seen = core::mem::take(&mut *told.lock().unwrap());
                (stop, session.machine().time(), seen)
            };
            let first = rest(&mut session);
            session.restore(&snapshot).expect("it fits");
            let again = rest(&mut session);
            assert_eq!(first, again, "{what}");
            assert!(before.count > 1000 && first.2.count > 1000, "{what}: {before:?} {first:?}");
            assert_eq!((watchpoint.hits(), watchpoint.changed_unseen()), (before.count + 2 * first.2.count, 0), "{what}");
        }
    }
}

/// BY-3: an instruction that accesses a block gives one event for each operand, with its first eight bytes.
#[test]
fn a_block_instruction_is_one_event_for_each_operand() {
    const SOURCE: u64 = DATA + 0x1f00;
    const TARGET: u64 = DATA + 0x100;
    // (code, registers, operands: offset from the data, bytes, whether it is stored)
    type Case = (Arch, &'static [u8], &'static [(u8, u64)], &'static [(u64, u64, bool)]);
    let cases: &[Case] = &[
        // mvc 0(256,%r2),0(%r3)
        (Arch::S390x, &[0xd2, 0xff, 0x20, 0, 0x30, 0], &[(2, TARGET), (3, SOURCE)], &[(0x1f00, 256, false), (0x100, 256, true)]),
        // mvc 0(100,%r2),0(%r3), of which the target is in two pages
        (
            Arch::S390x,
            &[0xd2, 99, 0x20, 0, 0x30, 0],
            &[(2, DATA + 0xfe0), (3, SOURCE)],
            &[(0x1f00, 100, false), (0xfe0, 100, true)],
        ),
        // nc 0(16,%r2),0(%r3)
        (
            Arch::S390x,
            &[0xd4, 15, 0x20, 0, 0x30, 0],
            &[(2, TARGET), (3, SOURCE)],
            &[(0x1f00, 16, false), (0x100, 16, false), (0x100, 16, true)],
        ),
        // xc 0(200,%r2),0(%r2), which clears
        (Arch::S390x, &[0xd7, 199, 0x20, 0, 0x20, 0], &[(2, TARGET)], &[(0x100, 200, true)]),
        // dc zva, x2
        (Arch::Arm64, &[0x22, 0x74, 0x0b, 0xd5], &[(2, TARGET + 5)], &[(0x100, 64, true)]),
        // dcbz 0,r3
        (Arch::Ppc64le, &[0xec, 0x1f, 0x00, 0x7c], &[(3, TARGET + 5)], &[(0x100, 128, true)]),
    ];
    for (arch, code, registers, operands) in cases {
        let what = format!("{} {code:02x?}", arch.name());
        let at = |offset: u64| seen(*arch, offset);
        let registers: Vec<(Reg, u64)> = registers.iter().map(|(reg, value)| (Reg(*reg), at(*value))).collect();
        let mut session = about_to_run(*arch, code, &registers);
        let bytes: Vec<u8> = (0..0x2000_u32).map(|at| ((at * 31) >> 3) as u8).collect();
        assert!(session.machine_mut().write_physical(physical(*arch, DATA), &bytes), "{what}");
        let seen: Arc<Mutex<Vec<Valued>>> = Arc::default();
        let into = Arc::clone(&seen);
        let watchpoint = Watchpoint::at(at(DATA)..at(DATA + 0x2000)).on_hit(move |hit| {
            let access = *hit.access();
            into.lock().unwrap().push((access.address, access.size, access.is_write, access.old, access.value));
        });
        session.register_watchpoint(&watchpoint).expect("data can be watched");
        let until = session.machine().now() + 100;
        session.run_until(until);
        session.compare_watched();
        let mut after = vec![0; 0x2000];
        session.machine_mut().ram().read(physical(*arch, DATA), &mut after);
        let number = |bytes: &[u8], offset: u64| arch.isa().order.number(&bytes[offset as usize..][..8]);
        let mut expected: Vec<Valued> = operands
            .iter()
            .map(|(offset, size, is_write)| {
                let old = number(&bytes, *offset);
                let value = if *is_write { number(&after, *offset) } else { old };
                (at(DATA + offset), *size, *is_write, old, value)
            })
            .collect();
        // Helpers read two operands in either order.
        expected.sort_unstable();
        seen.lock().unwrap().sort_unstable();
        assert_eq!(*seen.lock().unwrap(), expected, "{what}");
        assert!(after != bytes, "{what}: it did something");
        assert_eq!(watchpoint.changed_unseen(), 0, "{what}");
    }
}
