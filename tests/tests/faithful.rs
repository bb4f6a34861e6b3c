//! Faithful detours in the running machine. Handlers must see the same as with lean detours, and guest memory may
//! change only below stack pointers.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use trapline::probed::Session;
use trapline_isa::arch::Arch;
use trapline_isa::detour::{Faithful, Form, FrameWord};
use trapline_isa::mem::Memory;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Hit, Kprobe};
use trapline_tests::lab::{BENCHES, Before, How, Lab, STACK_START};
use trapline_tests::{GUESTS, assert_same, boundaries, kernel, run, session};

fn faithful(arch: Arch) -> Option<&'static Faithful> {
    arch.isa().detour?.faithful
}

/// The guests whose ISA has faithful detours.
fn guests() -> impl Iterator<Item = (Arch, &'static str)> {
    GUESTS.iter().copied().filter(|(arch, _)| faithful(*arch).is_some())
}

/// A session with detours of this form at most places of the kernel. All probes call `pre`.
fn with_jumps(
    name: &str,
    form: Form,
    pre: impl Fn(&mut Hit<'_>) + Clone + Send + Sync + 'static,
) -> (Session, Vec<Kprobe>, usize) {
    let mut session = session(name, 1);
    session.set_detour_form(form).expect("it has the form");
    let (mut probes, mut free) = (Vec::new(), 0);
    for address in boundaries(&kernel(name)) {
        let pre = pre.clone();
        let probe = Kprobe::at_address(address).pre(move |hit| {
            pre(hit);
            Flow::Continue
        });
        if address >= free && session.register_kprobe(&probe).is_ok() {
            probes.push(probe);
            free = address + session.kernel().arch.isa().detour.map_or(1, |detour| detour.jump_length);
        }
    }
    session.with_engine(|engine, _| engine.set_optimization_delay(0));
    let summary = session.with_engine(|engine, guest| engine.summary(guest));
    let jumps = summary.iter().filter(|line| line.mode == Mode::Optimized).count();
    (session, probes, jumps)
}

/// Whether the hit came by a jump. Handlers cannot change the stack pointer then.
fn came_by_jump(hit: &mut Hit<'_>) -> bool {
    let sp = hit.sp();
    hit.set_reg("sp", sp ^ 0x40);
    let stays = hit.sp() == sp;
    hit.set_reg("sp", sp);
    stays
}

/// Writes the data that a faithful detour leaves below the stack pointer. Compiled code may read stack words that it
/// has not written.
fn leave_a_frame(hit: &mut Hit<'_>, layout: &[FrameWord]) {
    let isa = hit.isa();
    let mut at = hit.sp() - (layout.len() * isa.word) as u64;
    for (number, word) in layout.iter().enumerate() {
        // On x86 the flags are restored through the uppermost word.
        let last = number + 1 == layout.len();
        let value = if last { hit.reg("flags").unwrap_or(0) } else { hit.machine().get(word.reg) };
        hit.write(at, &value.to_le_bytes()[..isa.word]).expect("a stack");
        at += isa.word as u64;
    }
}

/// OP-4, OP-11: in each of hundreds of thousands of hits, handlers see the same in both forms: all named registers,
/// including flags, stack pointer, pc and segments, the time, the task, and whether interrupts are on.
#[test]
fn handlers_see_the_same_in_both_forms() {
    for (arch, name) in guests() {
        let seen = |form| {
            let hits = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&hits);
            let layout = faithful(arch).expect("it has them").frame;
            let pre = move |hit: &mut Hit<'_>| {
                if form == Form::Lean && came_by_jump(hit) {
                    leave_a_frame(hit, layout);
                }
                let registers = arch.isa().abi.names.iter().map(|(name, _)| hit.reg(name)).collect::<Vec<_>>();
                let interrupts_off = hit.machine().interrupts_off();
                let rest = (hit.pc(), hit.linux_pc(), hit.now(), hit.task(), hit.pid(), interrupts_off);
                let mut hasher = DefaultHasher::new();
                (&registers, rest).hash(&mut hasher);
                noted.lock().expect("one thread").push((hit.address(), hasher.finish()));
            };
            let (mut session, _, jumps) = with_jumps(name, form, pre);
            run(&mut session);
            let hits = std::mem::take(&mut *hits.lock().expect("one thread"));
            (hits, jumps)
        };
        let ((lean, jumps), (faithful, same_jumps)) = (seen(Form::Lean), seen(Form::Faithful));
        let first = lean.iter().zip(&faithful).position(|(one, other)| one != other);
        assert_eq!(first.map(|at| (at, lean[at], faithful[at])), None, "{name}: the first hit that differs");
        assert_eq!((lean.len(), jumps), (faithful.len(), same_jumps), "{name}");
        assert!(jumps > 1000 && lean.len() > 100_000, "{name}: {jumps} jumps, {} hits", lean.len());
        println!("{name}: {jumps} jumps, {} hits, in each form the same", lean.len());
    }
}

/// OP-4, BY-4: guest memory equals that of an unprobed run, except in the areas below stack pointers where frames were.
/// Linux's detours leave the same stale words.
#[test]
fn memory_differs_only_where_frames_were() {
    for (arch, name) in guests() {
        let isa = arch.isa();
        let dead = (faithful(arch).expect("it has them").frame.len() as u64 + 1) * isa.word as u64;
        let mut plain = session(name, 1);
        let expected = run(&mut plain);
        let frames = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&frames);
        let pre = move |hit: &mut Hit<'_>| {
            noted.lock().expect("one thread").insert(hit.sp());
        };
        let (mut probed, probes, jumps) = with_jumps(name, Form::Faithful, pre);
        assert_same(name, &expected, &run(&mut probed));
        for probe in probes.iter().filter(|probe| !probe.is_gone()) {
            probed.unregister_kprobe(probe);
        }
        // Copy the unprobed bytes into these areas. Then nothing may differ.
        let frames = frames.lock().expect("one thread").clone();
        let mut left = 0;
        for sp in &frames {
            let mut expected = vec![0; dead as usize];
            let readable = plain.machine_mut().look(|view| view.read(sp - dead, &mut expected));
            readable.unwrap_or_else(|fault| panic!("{name}: a frame was there: {fault}"));
            let mut seen = expected.clone();
            let mended = probed.machine_mut().look(|view| {
                view.read(sp - dead, &mut seen)?;
                view.write(sp - dead, &expected)
            });
            mended.unwrap_or_else(|fault| panic!("{name}: a frame was there: {fault}"));
            left += seen.iter().zip(&expected).filter(|(one, other)| one != other).count();
        }
        let memory = |session: &Session| {
            let machine = session.machine();
            let mut bytes = vec![0; machine.guest_ram_bytes() as usize];
            assert!(machine.ram().read(machine.ram().base(), &mut bytes));
            bytes
        };
        let window = plain.machine().guest_ram_bytes();
        // Page-table entries that map the window are not the guest's.
        let is_entry = |word: &[u8]| {
            let entry = word.iter().rev().fold(0, |all: u64, byte| all << 8 | u64::from(*byte)) & !0xfff;
            (window..window + (16 << 20)).contains(&entry)
        };
        let (one, other) = (memory(&plain), memory(&probed));
        let words = one.chunks(isa.word).zip(other.chunks(isa.word)).enumerate();
        let differ: Vec<usize> =
            words.filter(|(_, (a, b))| a != b && !is_entry(b)).map(|(number, _)| number * isa.word).collect();
        assert!(
            differ.is_empty(),
            "{name}: {} words differ where no frame has stood: {:x?}",
            differ.len(),
            &differ[..differ.len().min(9)]
        );
        println!("{name}: {jumps} jumps, {} stack pointers, {left} bytes differ below them, none elsewhere", frames.len());
        assert!(left > 0, "{name}: frames leave something");
    }
}

fn a_case(bytes: &[u8]) -> Before {
    let registers = (1..33).map(|register: u64| register.wrapping_mul(0x0123_4567_89ab_cdef)).collect();
    Before { bytes: bytes.to_vec(), registers, flags: 0x8d5, seed: 77, ..Before::default() }
}

/// Instructions that do not use the stack, and one that faults.
fn cases(arch: Arch) -> [(&'static str, Before); 3] {
    let [nop, change, fault]: [&[u8]; 3] = match arch {
        Arch::I386 | Arch::X86_64 => {
            [&[0x0f, 0x1f, 0x44, 0, 0], &[0x90, 0x01, 0xd8, 0x11, 0xca], &[0x90, 0x8b, 0x04, 0x25, 0, 0, 0, 0]]
        }
        // This ISA has no faithful detours.
        _ => return [("", a_case(&[])), ("", a_case(&[])), ("", a_case(&[]))],
    };
    [("a nop", a_case(nop)), ("sums", a_case(change)), ("a fault behind a nop", a_case(fault))]
}

/// OP-4: if the stack has no room for the frame, code that needs no stack continues as unprobed, and the handlers have
/// run.
#[test]
fn a_stack_without_room_for_the_frame_does_no_harm() {
    for arch in BENCHES.iter().copied().filter(|arch| faithful(*arch).is_some()) {
        let (word, frame) = (arch.isa().word as u64, faithful(arch).expect("it has them").frame.len() as u64);
        for (what, case) in cases(arch) {
            let [mut in_place, mut saved] = [Lab::new(arch), Lab::new(arch)];
            for words in 0..frame + 3 {
                // The delivery of the guest's own exception needs some stack.
                let room = if what.contains("fault") { words + 8 } else { words };
                (in_place.stack, saved.stack) = (STACK_START + room * word, STACK_START + room * word);
                let expected = in_place.run(&case, How::InPlace).expect("it runs");
                let mut seen = saved.run(&case, How::Saved).expect("it runs");
                assert!(saved.jumped, "{arch:?}: {what}");
                saved.forgive_dead_stack(&case, &expected, &mut seen);
                assert_eq!(seen, expected, "{arch:?}: {what}, with {room} words");
            }
        }
    }
}

/// OP-4, OP-9: register changes by handlers have the same effect in both forms. pc and stack pointer stay.
#[test]
fn handlers_can_change_the_same_registers_in_both_forms() {
    for arch in BENCHES.iter().copied().filter(|arch| faithful(*arch).is_some()) {
        for (what, case) in cases(arch) {
            let after = |how| {
                let mut lab = Lab::new(arch);
                lab.pre = |hit| {
                    let names = hit.isa().abi.names;
                    for (number, (name, _)) in (1..).zip(names) {
                        let value = if *name == "flags" { 0x247 } else { 0x1111_2222_3333_4444_u64.wrapping_mul(number) };
                        assert!(hit.set_reg(name, value), "{name} has a name");
                    }
                    hit.set_pc(0x1234);
                };
                let mut after = lab.run(&case, how).expect("it runs");
                assert!(lab.jumped, "{arch:?}: {what}");
                lab.forgive_dead_stack(&case, &after.clone(), &mut after);
                (after, lab)
            };
            let ((lean, _), (mut faithful, lab)) = (after(How::Jumped), after(How::Saved));
            lab.forgive_dead_stack(&case, &lean, &mut faithful);
            assert_eq!(lean, faithful, "{arch:?}: {what}");
            assert_eq!(lean.register("di"), faithful.register("di"));
            assert!(lean.register("di").is_some_and(|di| di & 0xffff != 0), "{arch:?}: {what}: it was set");
        }
    }
}

/// OP-4: on an ISA without faithful detours, asking for one is refused with a message.
#[test]
fn an_isa_without_them_refuses_faithful_detours() {
    for (arch, name) in GUESTS.iter().filter(|(arch, _)| faithful(*arch).is_none()) {
        let refusal = session(name, 1).set_detour_form(Form::Faithful).expect_err("there are none");
        assert!(refusal.why.contains("lean"), "{arch:?}: {refusal}");
    }
}
