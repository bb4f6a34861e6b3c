//! Requirements of the engine, tested on the tiny kernels of all ISAs. (The engine's own tests in `probes/` show all of
//! them on a toy guest.)

mod jprobes;
mod jumps;
mod kprobes;
mod returns;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trapline::machine::{Config, Stop, What};
use trapline::probed::Session;
use trapline::unwind;
use trapline_isa::plan::Errno;
use trapline_probes::probe::{Flow, Frame, Jprobe, Kprobe, Kretprobe};
use trapline_tests::facts::{argument, facts};
use trapline_tests::lab::{BENCHES, Before, How, Lab, place};
use trapline_tests::{GUESTS, assert_same, boundaries, checksum, entry_of, expected_faults, run, session, session_with};

/// KP-1, KP-13: arming changes the guest's text, and disarming restores it byte for byte.
#[test]
fn arming_writes_a_breakpoint_and_disarming_restores_the_text() {
    for (arch, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let at = entry_of(&mut session, "vfs_read");
        let text = |session: &mut Session| {
            session.with_engine(|_, guest| {
                let mut bytes = [0; 16];
                guest.read_text(at, &mut bytes).expect("text can be read");
                bytes
            })
        };
        let before = text(&mut session);
        let insn = (arch.isa().decode)(at, &before).expect("an instruction");
        let breakpoint = (arch.isa().breakpoint_over)(&insn);
        let probe = Kprobe::at("vfs_read").pre(|_| Flow::Continue);
        session.register_kprobe(&probe).expect("it may be probed");
        let armed = text(&mut session);
        // On some ISAs the last byte of the breakpoint depends on the instruction.
        assert!((arch.isa().is_breakpoint)(at, &armed) && armed.starts_with(&breakpoint[..breakpoint.len() - 1]), "{name}");
        assert_eq!(armed[breakpoint.len()..], before[breakpoint.len()..], "{name}: nothing else changed");
        assert!(!before.starts_with(&breakpoint), "{name}");
        run(&mut session);
        session.unregister_kprobe(&probe);
        assert_eq!(text(&mut session), before, "{name}");
    }
}

/// KP-6, KP-7: changes by handlers take effect, and a changed pc is where the guest continues.
#[test]
fn handlers_can_change_arguments_and_the_pc() {
    for (arch, name) in GUESTS.iter() {
        let first = argument(*arch, 0);
        let plain = run(&mut session(name, 1));
        let mut changed = session(name, 1);
        let smaller = Kprobe::at("fibonacci").pre(move |hit| {
            hit.set_reg(first, 1);
            Flow::Continue
        });
        changed.register_kprobe(&smaller).expect("it may be probed");
        let seen = run(&mut changed);
        assert_eq!(seen.stop, Stop::PowerOff(0), "{name}");
        assert_ne!(checksum(&seen.console), checksum(&plain.console), "{name}: the argument reached the function");

        let mut skipped = session_with(name, &Config { command_line: "bench=50".into(), ..Config::default() });
        let after = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&after);
        // bench_target is a nop and a return. Redirecting to the return skips the nop.
        let target = skipped.kernel().symbols.address_of("bench_target").expect("it is there");
        let behind = boundaries(skipped.kernel()).into_iter().find(|at| *at > target).expect("a return");
        let skip = Kprobe::at("bench_target")
            .pre(move |hit| {
                hit.set_pc(behind);
                Flow::Redirected
            })
            .post(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        skipped.register_kprobe(&skip).expect("it may be probed");
        let seen = run(&mut skipped);
        assert_eq!((skip.hits(), after.load(Ordering::Relaxed)), (50, 0), "{name}: no post-handler after a redirection");
        assert_eq!(checksum(&seen.console), checksum(&plain.console), "{name}");
    }
}

/// KP-9: the probed instruction faults. The fault handler is asked, and the guest repairs the fault at the original
/// address.
#[test]
fn the_guest_repairs_faults_of_the_probed_instruction() {
    for (arch, name) in GUESTS.iter() {
        let memory_faults = facts(*arch).memory_faults;
        let plain = run(&mut session(name, 1));
        let mut probed = session(name, 1);
        let sites = expected_faults(probed.kernel());
        assert!(!sites.is_empty(), "{name} has an exception table");
        let asked = Arc::new(AtomicU64::new(0));
        let mut probes = Vec::new();
        for site in sites {
            let count = Arc::clone(&asked);
            let probe = Kprobe::at_address(site).pre(|_| Flow::Continue).fault(move |hit, fault| {
                assert!(memory_faults.contains(&fault.trapnr), "{}", fault.trapnr);
                assert_eq!((fault.access, hit.pc()), (None, hit.address()));
                count.fetch_add(1, Ordering::Relaxed);
                false
            });
            probed.register_kprobe(&probe).expect("it may be probed");
            probes.push(probe);
        }
        assert_same(name, &plain, &run(&mut probed));
        assert!(asked.load(Ordering::Relaxed) > 0, "{name}: no probed instruction faulted");
    }
}

/// KP-14: interrupt handlers can be probed. Interrupts are off in them.
#[test]
fn interrupt_handlers_can_be_probed() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let off = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&off);
        let probe = Kprobe::at("do_timer_interrupt").pre(move |hit| {
            count.fetch_add(u64::from(hit.machine().interrupts_off()), Ordering::Relaxed);
            Flow::Continue
        });
        session.register_kprobe(&probe).expect("it may be probed");
        let seen = run(&mut session);
        let timers = seen.happenings.iter().filter(|event| event.what == What::Interrupt(0x20)).count() as u64;
        assert_eq!((probe.hits(), off.load(Ordering::Relaxed)), (timers, timers), "{name}");
        assert!(timers > 50, "{name}: {timers} timer interrupts");
    }
}

/// KP-17, KP-19: with every function probed on two CPUs, handlers see both CPUs. No stop finds a CPU inside the window,
/// so probes can be removed at any stop.
#[test]
fn two_cpus_hit_probes_and_stops_are_outside_the_window() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 2));
        let mut session = session(name, 2);
        let per_cpu = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let mut probes = Vec::new();
        for (_, start, _) in trapline_tests::functions(session.kernel()) {
            let counts = Arc::clone(&per_cpu);
            let probe = Kprobe::at_address(start).pre(move |hit| {
                counts[hit.cpu()].fetch_add(1, Ordering::Relaxed);
                Flow::Continue
            });
            let probe = if start % 32 == 0 { probe.post(|_| {}) } else { probe };
            if session.register_kprobe(&probe).is_ok() {
                probes.push(probe);
            }
        }
        // The kernel's segments contain all its code, also the code in front of its text.
        let image: Vec<_> = session.kernel().segments.iter().map(|segment| segment.range()).collect();
        // The other CPU may be in early boot code without paging, or in a program.
        const USER_END: u64 = 0x0100_0000;
        let start = session.machine().ram().base();
        let loaded = start..start + session.machine().guest_ram_bytes();
        let mut stops = 0;
        let mut at = 0;
        let stop = loop {
            at += 1_733;
            match session.run_until(at) {
                Stop::Limit => {
                    stops += 1;
                    for pc in session.machine_mut().pcs() {
                        assert!(
                            image.iter().any(|range| range.contains(&pc))
                                || loaded.contains(&pc)
                                || pc < USER_END
                                || !session.machine().in_kernel(),
                            "{name}: a CPU stands at {pc:#x}"
                        );
                    }
                    if stops == 200 {
                        for probe in &probes {
                            session.unregister_kprobe(probe);
                        }
                        let hits: u64 = probes.iter().map(Kprobe::hits).sum();
                        assert!(hits > 100, "{name}: {hits} hits");
                    }
                }
                stop => break stop,
            }
        };
        assert!(stops > 250, "{name}: {stops} stops");
        assert_eq!(stop, plain.stop, "{name}");
        let console = String::from_utf8_lossy(&session.machine_mut().take_console()).into_owned();
        assert_eq!(console, plain.console, "{name}");
        assert!(per_cpu.iter().all(|count| count.load(Ordering::Relaxed) > 50), "{name}: {per_cpu:?}");
    }
}

/// KP-1: arming and disarming take effect at once while the guest is in user mode with its own page tables.
#[test]
fn probes_can_be_changed_while_the_guest_is_in_user_mode() {
    for (_, name) in GUESTS.iter() {
        let mut session = session(name, 1);
        let mut now = 0;
        let mut user = |session: &mut Session| {
            loop {
                now += 311;
                assert_eq!(session.run_until(now), Stop::Limit, "{name}: it ends before it is seen in user mode");
                if !session.machine().in_kernel() {
                    return;
                }
            }
        };
        user(&mut session);
        let entry = Kprobe::at("sys_open").pre(|_| Flow::Continue);
        session.register_kprobe(&entry).expect("it may be probed");
        let until = |session: &mut Session, hits: u64| {
            let mut limit = session.machine().now();
            while entry.hits() < hits {
                limit += 1_000;
                assert_eq!(session.run_until(limit), Stop::Limit, "{name}: {} hits", entry.hits());
            }
        };
        until(&mut session, 3);
        let mut now = session.machine().now();
        while session.machine().in_kernel() {
            now += 311;
            assert_eq!(session.run_until(now), Stop::Limit, "{name}");
        }
        session.unregister_kprobe(&entry);
        let hits = entry.hits();
        let rest = run(&mut session);
        assert_eq!(rest.stop, Stop::PowerOff(0), "{name}");
        assert_eq!(entry.hits(), hits, "{name}: it was hit after it was taken back");
    }
}

/// KP-1: arming and disarming take effect at once in a translation block that jumps to itself.
#[test]
fn a_block_that_jumps_to_itself_can_be_probed() {
    for (_, name) in GUESTS.iter() {
        let mut session = session_with(name, &Config { command_line: "spin=1".into(), ..Config::default() });
        assert_eq!(session.run_until(300_000), Stop::Limit, "{name} spins");
        let pc = session.machine_mut().pcs()[0];
        let probe = Kprobe::at_address(pc).pre(|_| Flow::Continue);
        session.register_kprobe(&probe).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(session.run_until(310_000), Stop::Limit);
        let hits = probe.hits();
        assert!(hits > 100, "{name}: {hits} hits while it spins at {pc:#x}");
        session.unregister_kprobe(&probe);
        assert_eq!(session.run_until(320_000), Stop::Limit);
        assert_eq!(probe.hits(), hits, "{name}");
    }
}

/// KP-13: a probe in init text works, is gone when the text is freed, and its removal writes nothing there.
#[test]
fn probes_in_init_text_are_gone_when_it_is_freed() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let probe = Kprobe::at("trap_init").pre(|_| Flow::Continue);
        session.register_kprobe(&probe).expect("init text may be probed before it is freed");
        let seen = run(&mut session);
        assert_same(name, &plain, &seen);
        assert_eq!((probe.hits(), probe.is_gone()), (1, true), "{name}");
        let list = session.with_engine(|engine, guest| engine.list(guest));
        assert!(list.lines().any(|line| line.contains("trap_init+0x0") && line.ends_with("[GONE]")), "{name}:\n{list}");
        let refusal = session.with_engine(|engine, guest| engine.enable_kprobe(guest, &probe)).expect_err("it is gone");
        assert_eq!(refusal.errno, Errno::EINVAL, "{name}");
        let late = Kprobe::at("trap_init").pre(|_| Flow::Continue);
        assert_eq!(
            session.register_kprobe(&late).map_err(|refusal| refusal.errno),
            Err(Errno::EINVAL),
            "{name}: freed text is no text"
        );
        let first_page = |session: &mut Session| {
            let kernel = session.kernel();
            let range = kernel.tables.init_text.clone().expect("init text");
            let segment = kernel.segments.iter().find(|segment| segment.range().contains(&range.start)).expect("a segment");
            let mut bytes = vec![0; 4096];
            let physical = segment.physical + (range.start - segment.virtual_address);
            session.machine().ram().read(physical, &mut bytes);
            bytes
        };
        let before = first_page(&mut session);
        session.unregister_kprobe(&probe);
        assert_eq!(first_page(&mut session), before, "{name}: its memory is the guest's again");
    }
}

/// JP-1, JP-2, JP-3: handlers in guest code and on the host see the arguments, and the function runs as unprobed.
#[test]
fn jprobes_run_in_guest_code_and_on_the_host() {
    for (arch, name) in GUESTS.iter() {
        let (first, second) = (argument(*arch, 0), argument(*arch, 1));
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let in_guest = Jprobe::at("do_fork").guest("jprobe_do_fork");
        session.register_jprobe(&in_guest).unwrap_or_else(|why| panic!("{name}: {why}"));
        let counts = Arc::new(Mutex::new(Vec::new()));
        let seen_counts = Arc::clone(&counts);
        let on_host = Jprobe::at("vfs_read").host(move |hit| {
            if let Ok(mut counts) = seen_counts.lock() {
                counts.push(hit.arg(2));
            }
            hit.set_reg(first, 0xdead);
            hit.set_reg(second, 0xdead);
        });
        session.register_jprobe(&on_host).unwrap_or_else(|why| panic!("{name}: {why}"));
        let another = Jprobe::at("vfs_read").host(|_| {});
        assert_eq!(session.register_jprobe(&another).map_err(|refusal| refusal.errno), Err(Errno::EEXIST), "{name}");
        let seen = run(&mut session);
        assert_same(name, &plain, &seen);
        let word = seen_by_guest(&session, "jprobes_seen");
        assert_eq!(u64::from(word), in_guest.hits(), "{name}: the guest's handler saw the arguments each time");
        assert!(in_guest.hits() > 10, "{name}: {} forks", in_guest.hits());
        let counts = counts.lock().map(|counts| counts.clone()).unwrap_or_default();
        assert!(
            counts.len() as u64 == on_host.hits() && counts.iter().all(|count| (1..=4096).contains(count)),
            "{name}: {counts:?}"
        );
    }
}

/// KP-9, JP-3: a guest handler accesses unmapped memory. The fault handler ends it, and the function runs as unprobed.
#[test]
fn a_fault_in_a_guest_jprobe_handler_can_be_handled() {
    for (arch, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        let end = session.kernel().symbols.address_of("jprobe_return").expect("a symbol");
        let copies = session.kernel().symbols.find("memcpy").expect("a symbol");
        let faults = Arc::new(Mutex::new(Vec::new()));
        let seen_faults = Arc::clone(&faults);
        let probe = Kprobe::at("do_fork").fault(move |hit, _| {
            if let Ok(mut faults) = seen_faults.lock() {
                faults.push(hit.pc());
            }
            hit.set_pc(end);
            true
        });
        let jprobe = Jprobe::on(probe).guest("memcpy");
        // For the handler and for the function's first instruction, the first argument is an invalid pointer.
        let (first, true_value) = (argument(*arch, 0), Arc::new(AtomicU64::new(0)));
        let moved = facts(*arch).moved_argument.unwrap_or(first);
        let before = Arc::clone(&true_value);
        let misleading = Kprobe::at("do_fork")
            .pre(move |hit| {
                before.store(hit.reg(first).unwrap_or_default(), Ordering::Relaxed);
                hit.set_reg(first, !0x1fff);
                Flow::Continue
            })
            .post(move |hit| {
                hit.set_reg(moved, true_value.load(Ordering::Relaxed));
            });
        session.register_kprobe(&misleading).unwrap_or_else(|why| panic!("{name}: {why}"));
        session.register_jprobe(&jprobe).unwrap_or_else(|why| panic!("{name}: {why}"));
        let seen = run(&mut session);
        assert_same(name, &plain, &seen);
        let faults = faults.lock().map(|faults| faults.clone()).unwrap_or_default();
        assert!(jprobe.hits() > 10 && faults.len() as u64 == jprobe.hits(), "{name}: {} hits, {faults:x?}", jprobe.hits());
        assert!(faults.iter().all(|pc| (copies.start..copies.start + copies.size).contains(pc)), "{name}: {faults:x?}");
    }
}

fn seen_by_guest(session: &Session, symbol: &str) -> u32 {
    let kernel = session.kernel();
    let at = kernel.symbols.address_of(symbol).expect("a symbol");
    let segment = kernel.segments.iter().find(|segment| segment.range().contains(&at)).expect("a segment");
    session.machine().ram().word32(segment.physical + (at - segment.virtual_address))
}

/// RP-7, RP-8: recursion, sleep, and tasks that exit inside probed functions. Each return is matched to its call, and
/// an exited task frees its instances.
#[test]
fn return_probes_match_calls_and_exits_free_instances() {
    for (arch, name) in GUESTS.iter() {
        let pops = u64::from(facts(*arch).return_pops);
        for cpus in [1, 2] {
            let mut session = session(name, cpus);
            // Every task ends in do_exit, which never returns. There are as many calls as tasks, far more than
            // instances.
            let never = Kretprobe::at("do_exit").maxactive(3).handler(|_| panic!("do_exit returned"));
            let inside = Kretprobe::at("exit_inside").maxactive(4 * cpus as i32).handler(|_| {});
            let depth = Kretprobe::at("fibonacci")
                .maxactive(64)
                .data_size(8)
                .entry(|call| {
                    let sp = call.sp();
                    call.data().copy_from_slice(&sp.to_le_bytes());
                    Flow::Continue
                })
                .handler(move |call| {
                    let sp = u64::from_le_bytes(call.data().try_into().expect("eight bytes"));
                    assert!(call.sp() >= sp + pops, "the return of the call that left {sp:#x}, at {:#x}", call.sp());
                });
            let sleeps = Kretprobe::at("doze").maxactive(64).handler(|_| {});
            for probe in [&never, &inside, &depth, &sleeps] {
                session.register_kretprobe(probe).unwrap_or_else(|why| panic!("{name}: {why}"));
            }
            assert_eq!(run(&mut session).stop, Stop::PowerOff(0), "{name}");
            assert!(
                never.hits() > 10 && never.nmissed() == 0,
                "{name}, {cpus} CPUs: {} exits, {} not followed",
                never.hits(),
                never.nmissed()
            );
            // Each task recurses four deep twice. The first time it returns; the second time it exits at the bottom.
            assert_eq!(
                (inside.hits() % 8, inside.returns() * 2, inside.nmissed()),
                (0, inside.hits(), 0),
                "{name}, {cpus} CPUs: exit_inside"
            );
            assert!(
                cpus > 1 || inside.hits() > 8,
                "{name}: the second task needs the instances of the first: {} calls",
                inside.hits()
            );
            assert_eq!((depth.returns(), depth.nmissed()), (depth.hits(), 0), "{name}, {cpus} CPUs: fibonacci");
            assert_eq!((sleeps.returns(), sleeps.nmissed()), (sleeps.hits(), 0), "{name}, {cpus} CPUs: doze");
            assert_eq!(session.engine().counts().mismatched_returns, 0, "{name}, {cpus} CPUs");
        }
    }
}

/// RP-9: a backtrace through functions with return probes shows the true return addresses, and can show the pad.
#[test]
fn backtraces_show_the_true_return_addresses() {
    for (_, name) in GUESTS.iter() {
        let trace = |hijacked: bool| {
            let mut session = session(name, 1);
            let text = session.kernel().tables.text.clone();
            // Without an unwind rule, stale stack words could appear as frames. Here none do.
            let rule = unwind::of(session.kernel());
            let frames = Arc::new(Mutex::new(Vec::new()));
            let kept = Arc::clone(&frames);
            let probe = Kprobe::at("fibonacci").pre(move |hit| {
                let mut into = [Frame::default(); 12];
                let count = match &rule {
                    Some(rule) => hit.callers(&mut into, &**rule),
                    None => hit.backtrace(&mut into, |address| text.contains(&address)),
                };
                // A scan that goes the wrong way finds nothing.
                if hit.isa().abi.stack_grows_up && !hijacked {
                    let mut scanned = [Frame::default(); 64];
                    let all = hit.backtrace(&mut scanned, |address| text.contains(&address));
                    let is_found = |frame: &Frame| scanned[..all].iter().any(|other| other.address == frame.address);
                    assert!(into[..count].iter().all(is_found), "{:x?} in {scanned:x?}", &into[..count]);
                }
                if let Ok(mut frames) = kept.lock() {
                    frames.push(into[..count].to_vec());
                }
                Flow::Continue
            });
            session.register_kprobe(&probe).expect("it may be probed");
            let returns = Kretprobe::at("fibonacci").maxactive(64).handler(|_| {});
            if hijacked {
                session.register_kretprobe(&returns).expect("it may be probed");
            }
            run(&mut session);
            Arc::try_unwrap(frames)
                .map(|frames| frames.into_inner().unwrap_or_default())
                .unwrap_or_else(|shared| shared.lock().map(|frames| frames.clone()).unwrap_or_default())
        };
        let (plain, hijacked) = (trace(false), trace(true));
        let addresses = |frames: &[Vec<Frame>]| {
            frames.iter().map(|trace| trace.iter().map(|frame| frame.address).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert!(plain.len() > 50 && addresses(&plain) == addresses(&hijacked), "{name}: the same true addresses");
        assert!(hijacked.iter().flatten().any(|frame| frame.raw != frame.address), "{name}: the pad is there to be seen");
    }
}

/// RP-10: return probes on functions that switch stacks are refused.
#[test]
fn functions_that_switch_stacks_take_no_return_probe() {
    for (arch, name) in GUESTS.iter() {
        let isa = arch.isa();
        let mut session = session(name, 1);
        let mut refused = Vec::new();
        for function in isa.linux.no_return_probes.iter().chain(isa.switches_stacks) {
            if session.kernel().symbols.address_of(function).is_none() {
                continue;
            }
            let refusal = session.register_kretprobe(&Kretprobe::at(*function).handler(|_| {})).expect_err(function);
            assert_eq!(refusal.errno, Errno::EINVAL, "{name}, {function}: {refusal}");
            refused.push(*function);
        }
        assert!(refused.contains(&"__switch_to"), "{name}: {refused:?}");
    }
}

/// KP-12, DV-2: a failing batch is rolled back, and the global switch disarms and arms all probes in a running guest.
#[test]
fn batches_and_the_global_switch_work_in_a_running_guest() {
    for (_, name) in GUESTS.iter() {
        let plain = run(&mut session(name, 1));
        let mut session = session(name, 1);
        assert_eq!(session.run_until(100_000), Stop::Limit);
        let mut batch: Vec<Kprobe> = ["vfs_read", "vfs_write", "sys_open", "schedule"]
            .iter()
            .map(|function| Kprobe::at(*function).pre(|_| Flow::Continue))
            .collect();
        batch.push(Kprobe::at("no_such_function").pre(|_| Flow::Continue));
        let refusal =
            session.with_engine(|engine, guest| engine.register_kprobes(guest, &batch)).expect_err("the last has no symbol");
        assert_eq!(refusal.errno, Errno::ENOENT, "{name}");
        assert!(session.with_engine(|engine, guest| engine.list(guest)).is_empty(), "{name}: the first four are gone again");
        batch.pop();
        session.with_engine(|engine, guest| engine.register_kprobes(guest, &batch)).unwrap_or_else(|why| panic!("{name}: {why}"));
        session.run_until(300_000);
        let hits = |batch: &[Kprobe]| batch.iter().map(Kprobe::hits).sum::<u64>();
        let first = hits(&batch);
        session.with_engine(|engine, guest| engine.set_enabled(guest, false));
        session.run_until(600_000);
        let second = hits(&batch);
        session.with_engine(|engine, guest| engine.set_enabled(guest, true));
        let seen = run(&mut session);
        assert!(first > 0 && second == first && hits(&batch) > second, "{name}: {first}, {second}, {}", hits(&batch));
        assert_same(name, &plain, &seen);
    }
}

/// KP-1: breakpoints of the guest's own, in any encoding, are delivered to the guest.
#[test]
fn breakpoints_of_the_guest_are_delivered_to_it() {
    for (arch, name) in GUESTS.iter().filter(|(arch, _)| BENCHES.contains(arch)) {
        for (bytes, vector, behind) in facts(*arch).breakpoints {
            let case = Before { bytes: bytes.to_vec(), registers: vec![0; 16], flags: 0, seed: 1, ..Before::default() };
            let after = Lab::new(*arch).run(&case, How::InPlace).expect("nothing is registered");
            let first = after.happened.first().map(|event| (event.what, event.pc - place(*arch), event.time));
            let delivered = What::Exception(*vector, facts(*arch).breakpoint_detail);
            assert_eq!(first, Some((delivered, *behind, *behind)), "{name}: {bytes:02x?}");
        }
    }
}
