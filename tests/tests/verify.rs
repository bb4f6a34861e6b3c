//! The comparison of an unprobed and a probed run: equal runs are identical, and a planted difference is found at its
//! instruction.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trapline::boot::{Kernel, initramfs};
use trapline::machine::{Config, Stop};
use trapline::probed::Session;
use trapline::verify::{self, Difference, News, Outcome, Parted, Place, Run, Seen, Settings, Side, Verdict};
use trapline_harness::{self as harness, Test, each, tests};
use trapline_isa::arch::Arch;
use trapline_isa::function;
use trapline_isa::insn::Flow as Kind;
use trapline_isa::plan::Policy;
use trapline_probes::probe::{Flow, Hit, Kprobe, Kretprobe};
use trapline_tests::{GUESTS, LONG, boundaries, entry_of, functions, kernel, run, session};

/// Probes of a run, spread over the functions of the text.
const PROBES: usize = 1000;

/// Compares two runs of a guest. `probe` is called with the probed one.
fn compare(kernel: &Kernel, config: &Config, limit: u64, probe: &mut dyn FnMut(&mut Session)) -> (Outcome, String) {
    let mut console = Vec::new();
    let settings = Settings { limit, interval: 1_000_000 };
    let mut start = |side| -> Result<Box<dyn Run>, trapline::error::MachineError> {
        let config = Config { record_events: true, ..config.clone() };
        let mut session = match side {
            Side::Unprobed => Session::unprobed(kernel.clone(), &config)?,
            Side::Probed => Session::with_policy(kernel.clone(), &config, Policy::Best)?,
        };
        if side == Side::Probed {
            probe(&mut session);
        }
        Ok(Box::new(session))
    };
    let outcome = verify::compare(&mut start, &settings, &mut |news| {
        if let News::Console(text) = news {
            console.extend_from_slice(text);
        }
    });
    (outcome.expect("a machine"), String::from_utf8_lossy(&console).into_owned())
}

/// Probes that many functions: each with a kprobe, every second one with a return probe. Returns the probes.
fn probe_functions(session: &mut Session, starts: &[u64], most: usize) -> Vec<Kprobe> {
    let mut probes = Vec::new();
    for (number, start) in starts.iter().step_by((starts.len() / most).max(1)).enumerate() {
        // Refusals are tested elsewhere.
        let entry = Kprobe::at_address(*start).pre(|_| Flow::Continue);
        if session.register_kprobe(&entry).is_ok() {
            probes.push(entry);
        }
        if number % 2 == 0 {
            let back = Kretprobe::at_address(*start).maxactive(64).handler(|_| ());
            if session.register_kretprobe(&back).is_ok() {
                probes.push(back.kprobe().clone());
            }
        }
    }
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
    probes
}

fn hash_of(name: &str, outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Identical(hash) => hash.clone(),
        Verdict::Different(difference) => panic!("{name}: {difference:x?}"),
    }
}

/// BY-4: with up to 1,000 functions probed, every tiny kernel's run is identical, on one CPU and on two. The hash does
/// not depend on the probes.
fn tiny_kernels_are_identical_under_probes() {
    for (_, name) in GUESTS.iter() {
        let kernel = kernel(name);
        let starts: Vec<u64> = functions(&kernel).into_iter().map(|(_, start, _)| start).collect();
        for cpus in [1, 2] {
            let config = Config { cpus, ..Config::default() };
            let mut probes = Vec::new();
            let (outcome, console) =
                compare(&kernel, &config, LONG, &mut |session| probes = probe_functions(session, &starts, PROBES));
            let hash = hash_of(name, &outcome);
            assert_eq!(outcome.stop, Stop::PowerOff(0), "{name}");
            assert_eq!(console, run(&mut session(name, cpus)).console, "{name}");
            let hits: u64 = probes.iter().map(Kprobe::hits).sum();
            let (compared, known) = (&outcome.compared, outcome.accounted);
            println!("{name}, {cpus} CPUs: {} probes, {hits} hits, {compared:?}, {known:?}", probes.len());
            assert!(hits > 1000 && compared.events > 200 && compared.registers > 16 && known.text > 0, "{name}");
            assert_eq!((compared.cpus, compared.console as usize), (cpus, console.len()), "{name}");
            let (alone, _) = compare(&kernel, &config, LONG, &mut |_| ());
            assert_eq!(hash_of(name, &alone), hash, "{name}: the hash without probes");
            // Internal probes are the only change then.
            assert!(alone.accounted.text < known.text, "{name}: {:?}", alone.accounted);
        }
    }
}

/// The number of stops, and the bytes of guest code between two of them. They stop at different code.
const ENDS: u64 = 12;
const APART: u64 = 1_777;

/// BY-4: wherever a run stops, all registers are those of the unprobed run, including those that only exceptions save.
/// (PowerPC's address of the last branch was once that of a detour.)
fn registers_are_the_same_wherever_the_run_stops(name: &'static str) {
    let kernel = kernel(name);
    let places = boundaries(&kernel);
    for end in (0..ENDS).map(|number| 400_000 + number * APART) {
        let mut probes = 0;
        let (outcome, _) = compare(&kernel, &Config::default(), end, &mut |session| {
            let made = places.iter().map(|at| Kprobe::at_address(*at).pre(|_| Flow::Continue));
            probes = made.filter(|probe| session.register_kprobe(probe).is_ok()).count();
            session.with_engine(|engine, _| engine.set_optimization_delay(0));
        });
        hash_of(&format!("{name}, {end} ns"), &outcome);
        assert!(probes > 100 && outcome.stop == Stop::Limit, "{name}, {end} ns: {probes} probes, {:?}", outcome.stop);
    }
}

/// BY-4: a stock kernel's boot with a script is identical with 1,000 functions probed.
fn stock_kernels_are_identical_under_probes(name: &'static str) {
    const SCRIPT: &[u8] = b"cat /proc/version | md5sum; ls /proc/sys/kernel | wc -l; exit 7\n";
    let found = harness::stock(name);
    let read = |file: &std::path::Path| std::fs::read(file).expect("the file is there");
    let kernel = Kernel::from_bytes(&read(&found.local.kernel)).expect("a kernel");
    let initrd: Arc<[u8]> = initramfs::with_busybox(&read(&found.busybox), Some(SCRIPT), &[]).into();
    let config = Config { command_line: found.stock.command_line.into(), initrd: Some(initrd), ..Config::default() };
    let starts: Vec<u64> = kernel.symbols.extents(kernel.tables.text.clone()).iter().map(|symbol| symbol.start).collect();
    let mut probes = Vec::new();
    let (outcome, console) =
        compare(&kernel, &config, 60 * LONG, &mut |session| probes = probe_functions(session, &starts, PROBES));
    let hits: u64 = probes.iter().map(Kprobe::hits).sum();
    println!("{name}: {} probes, {hits} hits, {:?}, {:?}", probes.len(), outcome.compared, outcome.accounted);
    hash_of(name, &outcome);
    assert_eq!(outcome.stop, Stop::PowerOff(7), "{name}: {console}");
    assert!(probes.len() >= PROBES && hits > 10_000, "{name}: {} probes, {hits} hits", probes.len());
}

/// Compares with a probe at an address whose handler does something at its nth hit.
fn planted(name: &str, at: u64, nth: u64, change: fn(&mut Hit<'_>)) -> (Outcome, String) {
    compare(&kernel(name), &Config::default(), LONG, &mut |session| {
        // Every run counts anew.
        let hits = AtomicU64::new(0);
        let probe = Kprobe::at_address(at).pre(move |hit| {
            if hits.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                change(hit);
            }
            Flow::Continue
        });
        session.register_kprobe(&probe).unwrap_or_else(|refusal| panic!("{name}: {at:#x}: {refusal}"));
    })
}

fn difference_of(name: &str, outcome: Outcome) -> Difference {
    match outcome.verdict {
        Verdict::Different(difference) => *difference,
        Verdict::Identical(_) => panic!("{name}: nothing was found"),
    }
}

fn found(name: &str, difference: &Difference) -> Place {
    let Parted::At(place) = &difference.parted else { panic!("{name}: no place: {difference:x?}") };
    println!("{name}: seen {:x?}, parted {:x?} at {} ns", difference.seen, place.here, place.nanoseconds());
    (**place).clone()
}

/// BY-4: a handler that changes an argument in one of its hits is found at the probed instruction, with the register.
fn a_changed_register_is_found_at_its_instruction() {
    for (_, name) in GUESTS.iter() {
        let start = entry_of(&mut session(name, 1), "vfs_read");
        let change = |hit: &mut Hit<'_>| {
            let abi = hit.isa().abi;
            let name = abi.names.iter().find(|(_, reg)| *reg == abi.arguments[2]).map(|(name, _)| *name).expect("it has a name");
            let count = hit.arg(2);
            assert!(hit.set_reg(name, count ^ 4));
        };
        let difference = difference_of(name, planted(name, start, 7, change).0);
        let place = found(name, &difference);
        assert!(place.is_exact && place.here.is_probed, "{name}: {place:x?}");
        assert_eq!(place.here.address, start, "{name}");
        let values: Vec<u64> = place.registers.iter().map(|(_, one, other)| one ^ other).collect();
        assert!(values.contains(&4), "{name}: {:x?}", place.registers);
        assert!(!place.here.code.is_empty() && place.next.iter().all(Option::is_some), "{name}: {place:x?}");
    }
}

/// BY-4: a handler that changes flags in its 10,000th hit is found at its branch, and the runs go on at different
/// places.
fn a_changed_flag_is_found_at_its_branch() {
    for (arch, name) in GUESTS.iter() {
        let Some(flip) = flip_of(*arch) else { continue };
        let kernel = kernel(name);
        let isa = arch.isa();
        let is_branch = |address: &u64| {
            let mut bytes = vec![0; isa.longest];
            let read = (1..=isa.longest).rev().find(|len| kernel.read(*address, &mut bytes[..*len]).is_ok());
            let insn = read.and_then(|len| (isa.decode)(*address, &bytes[..len]).ok());
            matches!(insn.map(|insn| insn.flow), Some(Kind::Branch(_)))
        };
        let mut counting = session(name, 1);
        let mut probes = Vec::new();
        for at in boundaries(&kernel).into_iter().filter(is_branch) {
            let probe = Kprobe::at_address(at).pre(|_| Flow::Continue);
            if counting.register_kprobe(&probe).is_ok() {
                probes.push(probe);
            }
        }
        run(&mut counting);
        probes.sort_by_key(|probe| std::cmp::Reverse(probe.hits()));
        assert!(probes[0].hits() > 10_000, "{name}: {} hits", probes[0].hits());
        // A branch that compares registers does not depend on flags.
        let located = probes.iter().take(30).find_map(|probe| {
            let (at, nth) = (probe.address().expect("it stands"), probe.hits().min(10_000));
            let (outcome, _) = planted(name, at, nth, flip);
            let Verdict::Different(difference) = outcome.verdict else { return None };
            let place = found(name, &difference);
            assert!(place.is_exact, "{name}: {place:x?}");
            assert_eq!(place.here.address, at, "{name}");
            let [unprobed, probed] = place.next.map(|next| next.expect("both go on").address);
            assert_ne!(unprobed, probed, "{name}");
            Some(nth)
        });
        assert!(located.is_some(), "{name}: no branch depends on flags");
        println!("{name}: flags changed at hit {located:?}");
    }
}

/// A function that inverts the flags that branches test.
fn flip_of(arch: Arch) -> Option<fn(&mut Hit<'_>)> {
    match arch {
        // CF, ZF, SF.
        Arch::X86_64 => Some(|hit| {
            let flags = hit.reg("flags").expect("x86 has flags");
            assert!(hit.set_reg("flags", flags ^ 0xc1));
        }),
        // N, Z, C.
        Arch::Arm64 => Some(|hit| {
            let pstate = hit.reg("pstate").expect("arm64 has flags");
            assert!(hit.set_reg("pstate", pstate ^ 0xe000_0000));
        }),
        Arch::S390x => Some(|hit| {
            let (_, cc) = hit.isa().abi.hidden.iter().find(|(name, _)| *name == "cc").expect("it has a condition code");
            let value = hit.machine().get(*cc);
            hit.machine().set(*cc, value ^ 3);
        }),
        _ => None,
    }
}

/// BY-4: a handler that writes memory which no register shows is found at the probed instruction, with the word.
fn changed_memory_is_found_at_its_instruction() {
    for (_, name) in GUESTS.iter() {
        let start = entry_of(&mut session(name, 1), "vfs_read");
        // Far below the stack pointer, where this kernel has no data.
        let change = |hit: &mut Hit<'_>| {
            let at = (hit.sp() & !0xfff) + 0x40;
            let mut word = [0; 8];
            hit.read(at, &mut word).expect("a stack");
            hit.write(at, &[!word[0]]).expect("a stack");
        };
        let difference = difference_of(name, planted(name, start, 9, change).0);
        let place = found(name, &difference);
        assert!(place.is_exact, "{name}: {place:x?}");
        assert_eq!(place.here.address, start, "{name}");
        assert!(place.memory.is_some() || !place.registers.is_empty(), "{name}: {place:x?}");
    }
}

/// BY-4: both consoles are compared, and the first different byte is named.
fn different_consoles_are_seen() {
    for (_, name) in GUESTS.iter() {
        let start = entry_of(&mut session(name, 1), "console_write");
        let change = |hit: &mut Hit<'_>| {
            let text = hit.arg(0);
            hit.write(text, b"#").expect("the text is in memory");
        };
        let (outcome, console) = planted(name, start, 4, change);
        let difference = difference_of(name, outcome);
        let Seen::Console(byte) = difference.seen else { panic!("{name}: {:x?}", difference.seen) };
        assert!(byte > 0 && run(&mut session(name, 1)).console.starts_with(&console), "{name}: {byte}");
        assert_eq!(found(name, &difference).here.address, start, "{name}");
    }
}

/// A difference that exists before the first instruction is reported as such.
fn a_difference_at_the_start_is_seen() {
    let (_, name) = GUESTS[0];
    let (outcome, _) = compare(&kernel(name), &Config::default(), LONG, &mut |session| {
        let (at, mut byte) = (session.machine().ram().base() + 0x9_0000, [0]);
        session.machine().ram().read(at, &mut byte);
        session.machine_mut().write_physical(at, &[!byte[0]]);
    });
    let difference = difference_of(name, outcome);
    assert!(matches!(difference.seen, Seen::Memory(_)), "{:x?}", difference.seen);
    assert!(matches!(difference.parted, Parted::AtStart(Seen::Memory(_))), "{:x?}", difference.parted);
}

/// A difference that does not occur again when the runs are repeated is reported without a place.
fn a_difference_that_does_not_come_again_has_no_place() {
    let (_, name) = GUESTS[0];
    let mut first = true;
    let (outcome, _) = compare(&kernel(name), &Config::default(), LONG, &mut |session| {
        if std::mem::take(&mut first) {
            let probe = Kprobe::at("vfs_read").pre(|hit| {
                let at = hit.sp() - 512;
                let _ = hit.write(at, &[1, 2, 3, 4]);
                let count = hit.arg(2);
                let abi = hit.isa().abi;
                if let Some((name, _)) = abi.names.iter().find(|(_, reg)| *reg == abi.arguments[2]) {
                    hit.set_reg(name, count ^ 1);
                }
                Flow::Continue
            });
            session.register_kprobe(&probe).expect("it may be probed");
        }
    });
    let Verdict::Different(difference) = outcome.verdict else { panic!("there is one") };
    assert!(matches!(difference.parted, Parted::Nowhere), "{:x?}", difference.parted);
}

/// Changes the same word of memory in both guests.
fn put(sessions: [&mut Session; 2], physical: u64, words: [u64; 2]) {
    for (session, word) in sessions.into_iter().zip(words) {
        let isa = session.kernel().arch.isa();
        let mut bytes = vec![0; isa.word];
        isa.order.put(word, &mut bytes);
        session.machine_mut().write_physical(physical, &bytes);
    }
}

/// BY-4: a difference whose bytes are the pad's address is accepted only in a stack, and only if the unprobed guest has
/// a return address there. Everywhere else it is reported.
fn bytes_of_the_pad_are_accounted_for_in_unused_stack_slots_alone() {
    for (arch, name) in GUESTS.iter() {
        let (kernel, isa) = (kernel(name), arch.isa());
        let mut unprobed = Session::unprobed(kernel.clone(), &Config::default()).expect("a machine");
        let mut probed = session(name, 1);
        let back = Kretprobe::at("vfs_read").handler(|_| ());
        probed.register_kretprobe(&back).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        run(&mut unprobed);
        run(&mut probed);
        assert!(back.hits() > 0, "{name}");
        let (words, accounted) = verify::different_memory(&unprobed, &mut probed, 9);
        assert!(words.is_empty(), "{name}: {words:x?}");

        // A free page, in which both guests have zeros.
        let ram = unprobed.machine().ram();
        let end = ram.base() + unprobed.machine().guest_ram_bytes();
        let is_free = |page: &u64| {
            let mut bytes = vec![0; 4096];
            ram.read(*page, &mut bytes) && bytes.iter().all(|byte| *byte == 0)
        };
        let page = (1..4096).map(|number| end - number * 4096).find(is_free).unwrap_or_else(|| panic!("{name}: no page is free"));

        // Both runs overwrote one byte: byte 4 of a 64-bit word, byte 3 of a 32-bit one. Below it at least two bytes differ.
        let pad = probed.engine().return_pad().expect("there is a return probe").wrapping_sub(isa.abi.link_offset);
        let top = 8 * (isa.word as u32 - 1).min(4);
        let overwritten = |word: u64| word & !(0xff << top) | 0x5a << top;
        let differing = |word: u64| (0..top / 8).filter(|byte| (word ^ pad) >> (8 * byte) & 0xff != 0).count();
        let mut read = |at: u64, into: &mut [u8]| kernel.read(at, into);
        let is_stored = |word: u64| function::is_stored_by_call(isa, word, &mut |at, into: &mut [u8]| kernel.read(at, into));
        let starts: Vec<u64> = functions(&kernel).into_iter().map(|(_, start, _)| start).collect();
        let returns = functions(&kernel).into_iter().flat_map(|(_, start, size)| {
            function::walk(isa, start, start + size, &mut read).map_while(Result::ok).collect::<Vec<_>>()
        });
        let returns = returns.filter(|insn| matches!(insn.flow, Kind::Call(_) | Kind::IndirectCall));
        let stored = |insn: trapline_isa::insn::Insn| if isa.abi.link_offset == 0 { insn.next() } else { insn.address };
        let back = returns.map(stored).find(|word| differing(*word) >= 2).expect("there are calls");
        let entry =
            starts.into_iter().find(|word| differing(*word) >= 2 && !is_stored(*word)).expect("an entry is behind no call");

        let mut found = |unprobed_word: u64, other: [u64; 2]| {
            put([&mut unprobed, &mut probed], page + 64, [overwritten(unprobed_word), overwritten(pad)]);
            put([&mut unprobed, &mut probed], page + 128, other);
            let (words, with) = verify::different_memory(&unprobed, &mut probed, 9);
            (words.iter().map(|word| word.physical - page).collect::<Vec<_>>(), with.pads - accounted.pads)
        };
        assert_eq!(found(back, [0, 0]), (vec![64], 0), "{name}: a return address's bytes, but no stack");
        assert_eq!(found(back, [back, back]), (vec![], 1), "{name}: the rest of a return address in a stack");
        assert_eq!(found(entry, [back, back]), (vec![64], 0), "{name}: a pointer to a function in a stack");

        // A kernel may store the address that it returns to in a record without alignment.
        let mut unaligned = |words: [u64; 2]| {
            for at in [64, 64 + isa.word as u64] {
                put([&mut unprobed, &mut probed], page + at, [0, 0]);
            }
            put([&mut unprobed, &mut probed], page + 64 + 1, words);
            let (words, with) = verify::different_memory(&unprobed, &mut probed, 9);
            (words.is_empty(), with.pads > accounted.pads)
        };
        assert_eq!(unaligned([back, pad]), (true, true), "{name}: a return address across two words");
        assert!(!unaligned([back, pad ^ 0x100]).1, "{name}: another address");
        assert_eq!(unaligned([0x5a5a, pad]), (false, false), "{name}: the pad's address for a number");
    }
}

fn registers_at_stops(name: &'static str) -> Test {
    let family = "registers_are_the_same_wherever_the_run_stops";
    Test::new(harness::member(family, name), move || registers_are_the_same_wherever_the_run_stops(name))
}

fn main() -> ExitCode {
    let stock = ["debian/amd64", "debian/arm64", "debian/s390x", "debian/riscv64"];
    harness::run([
        tests![
            tiny_kernels_are_identical_under_probes,
            a_changed_register_is_found_at_its_instruction,
            a_changed_flag_is_found_at_its_branch,
            changed_memory_is_found_at_its_instruction,
            different_consoles_are_seen,
            a_difference_at_the_start_is_seen,
            bytes_of_the_pad_are_accounted_for_in_unused_stack_slots_alone,
            a_difference_that_does_not_come_again_has_no_place,
        ],
        GUESTS.iter().map(|(_, name)| registers_at_stops(name)).collect(),
        each!(stock, stock_kernels_are_identical_under_probes),
    ])
}
