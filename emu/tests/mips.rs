//! MIPS in a machine: a program of a few functions, in all four sets, that takes every kind of exception and the
//! timer's interrupts, some of them in delay slots; probed and unprobed it is the same run.

#![cfg(feature = "cpu")]

use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Happening, Stop, What};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::mips::Set;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// Where the kernel sees physical memory; the first exception vector is at its start.
const SEEN: u64 = 0xffff_ffff_8000_0000;
const TEXT: u64 = 0x10_0000;
const HANDLER: u64 = 0x180;

const ZERO: u32 = 0;
const V0: u32 = 2;
const A0: u32 = 4;
const A1: u32 = 5;
const T0: u32 = 8;
const T1: u32 = 9;
const T2: u32 = 10;
const S0: u32 = 16;
const S1: u32 = 17;
const S4: u32 = 20;
const PORTS: u32 = 21;
const EXCEPTIONS: u32 = 22;
const INTERRUPTS: u32 = 23;
const K0: u32 = 26;
const K1: u32 = 27;
const SP: u32 = 29;
const RA: u32 = 31;

fn immediate(op: u32, rs: u32, rt: u32, value: i32) -> u32 {
    op << 26 | rs << 21 | rt << 16 | value as u32 & 0xffff
}

fn three(funct: u32, rs: u32, rt: u32, rd: u32) -> u32 {
    rs << 21 | rt << 16 | rd << 11 | funct
}

fn addiu(rt: u32, rs: u32, value: i32) -> u32 {
    immediate(0x09, rs, rt, value)
}

fn addu(rd: u32, rs: u32, rt: u32) -> u32 {
    three(0x21, rs, rt, rd)
}

const NOP: u32 = 0;
const ERET: u32 = 0x4200_0018;
const JR_RA: u32 = 0x03e0_0008;
const SYSCALL: u32 = 0x0000_000c;
const BREAK_12: u32 = 12 << 16 | 0x0d;

/// The handler: an interrupt is ended, and counted; any other exception is skipped, with its branch if it was in a
/// delay slot, and counted.
fn handler() -> Vec<u32> {
    vec![
        0x401a_6800,                      // mfc0 k0,cause
        0x335b_007c,                      // andi k1,k0,0x7c
        immediate(0x05, K1, ZERO, 6),     // bnez k1, +6
        immediate(0x0f, 0, K1, 0xa900),   // lui k1, the ports, in its slot
        immediate(0x23, K1, K0, 0x51c),   // lw k0, the vector in service
        immediate(0x2b, K1, ZERO, 0x518), // sw zero, the end of it
        addiu(INTERRUPTS, INTERRUPTS, 1),
        ERET,
        NOP,
        0x401b_7000,               // mfc0 k1,epc
        immediate(0x01, K0, 1, 2), // bgez k0, +2: not in a delay slot
        addiu(K1, K1, 4),          // in its slot
        addiu(K1, K1, 4),
        0x409b_7000, // mtc0 k1,epc
        addiu(EXCEPTIONS, EXCEPTIONS, 1),
        ERET,
    ]
}

/// Functions by name and the words of each, one behind the other from [`TEXT`] on.
fn functions() -> Vec<(&'static str, Vec<u32>)> {
    let jump = |op: u32, word: usize| op << 26 | ((TEXT as u32 >> 2) + word as u32);
    let mut main = vec![
        immediate(0x0f, 0, SP, 0x8020),    // lui sp
        immediate(0x0f, 0, PORTS, 0xa900), // lui ports
        immediate(0x0d, ZERO, T0, 3000),   // every 3 us
        immediate(0x2b, PORTS, T0, 0x500),
        0x4008_6000,                    // mfc0 t0,status
        immediate(0x0d, T0, T0, 0x401), // let the board's interrupt in
        0x4088_6000,                    // mtc0 t0,status
        immediate(0x0d, ZERO, S0, 400),
        immediate(0x0d, ZERO, S4, 200),
    ];
    let turn = main.len();
    const WORK: usize = 64;
    main.extend([
        addu(A0, S0, ZERO),
        jump(0x03, WORK),   // jal work
        addu(A1, S1, ZERO), // in its slot
        addu(S1, S1, V0),
        immediate(0x14, S0, S4, 2), // beql s0,s4, over the nop
        addiu(S1, S1, 3),           // in its slot: once
        NOP,
        immediate(0x0c, S0, T0, 7),   // andi t0,s0,7
        immediate(0x05, T0, ZERO, 6), // bnez t0, to the clock
        NOP,
        SYSCALL,
        immediate(0x23, ZERO, T1, 0x100),  // lw t1: no such page
        immediate(0x04, ZERO, ZERO, 1),    // b behind its slot
        immediate(0x23, ZERO, T1, -0x100), // the same in the slot
        BREAK_12,
        0x400a_4800, // mfc0 t2,count
        addu(S1, S1, T2),
        addiu(S0, S0, -1),
    ]);
    let back = turn as i32 - main.len() as i32 - 1;
    main.extend([immediate(0x05, S0, ZERO, back), addu(S1, S1, T0)]);
    // Eight digits of s1, and of the number of exceptions; then the end.
    for register in [S1, EXCEPTIONS] {
        main.extend([immediate(0x0d, ZERO, T0, 8), register << 21 | T1 << 11 | 0x21]);
        main.extend([
            three(0x02, 0, T1, T2) | 28 << 6, // srl t2,t1,28
            addiu(T2, T2, 0x41),
            immediate(0x28, PORTS, T2, 0xe9), // sb
            addiu(T0, T0, -1),
            immediate(0x05, T0, ZERO, -5),   // bnez t0
            three(0x00, 0, T1, T1) | 4 << 6, // sll t1,t1,4
        ]);
    }
    main.extend([immediate(0x28, PORTS, ZERO, 0x600), immediate(0x04, ZERO, ZERO, -1), NOP]);
    assert!(main.len() <= WORK, "{}", main.len());
    main.resize(WORK, NOP);
    let work = vec![
        addiu(SP, SP, -16),
        immediate(0x2b, SP, RA, 12),
        immediate(0x01, ZERO, 0x11, 7), // bal leaf
        addiu(A0, A0, 5),
        immediate(0x23, SP, RA, 12),
        immediate(0x01, V0, 0x02, 1), // bltzl v0, behind its slot
        addiu(V0, V0, 1),
        addiu(V0, V0, 2),
        JR_RA,
        addiu(SP, SP, 16),
    ];
    let leaf = vec![
        three(0x00, 0, A0, V0) | 2 << 6,
        three(0x18, A0, V0, 0), // mult
        three(0x12, 0, 0, T1),  // mflo t1
        addu(V0, V0, T1),
        JR_RA,
        three(0x26, V0, A1, V0), // xor, in its slot
    ];
    vec![("main", main), ("work", work), ("leaf", leaf)]
}

fn kernel(set: Set) -> Kernel {
    let bytes = |words: &[u32]| words.iter().flat_map(|word| set.bytes(*word)).collect::<Vec<u8>>();
    let segment = |physical: u64, bytes: Vec<u8>| Segment {
        physical,
        virtual_address: set.cut(SEEN + physical),
        size: bytes.len() as u64,
        bytes,
        executable: true,
    };
    let handler = handler();
    let to_handler = [0x0800_0000 | HANDLER as u32 >> 2, NOP];
    let mut vectors = vec![NOP; HANDLER as usize / 4];
    vectors[0..2].copy_from_slice(&to_handler);
    vectors[0x80 / 4..0x80 / 4 + 2].copy_from_slice(&to_handler);
    vectors.extend(&handler);
    let mut text = Vec::new();
    let mut entries = Vec::new();
    let mut name = |address: u64, name: &str| {
        entries.push(Entry { address: set.cut(SEEN + address), name: name.into(), kind: 'T', module: None });
    };
    name(HANDLER, "handler");
    for (function, words) in functions() {
        name(TEXT + 4 * text.len() as u64, function);
        text.extend(words);
    }
    name(TEXT + 4 * text.len() as u64, "_end_of_text");
    let segments = vec![segment(0, bytes(&vectors)), segment(TEXT, bytes(&text))];
    Kernel::from_parts(set.isa().arch, TEXT, segments, Symbols::new(entries))
}

fn session(set: Set) -> Session {
    let config = Config { record_events: true, ..Config::default() };
    Session::new(kernel(set), &config).expect("a machine")
}

fn run(session: &mut Session) -> (Stop, String, u64, Vec<Happening>) {
    let stop = session.run_until(1_000_000_000);
    let machine = session.machine_mut();
    let console = String::from_utf8_lossy(&machine.take_console()).into_owned();
    (stop, console, machine.time(), machine.happenings().to_vec())
}

fn assert_same(what: &str, expected: &(Stop, String, u64, Vec<Happening>), seen: &(Stop, String, u64, Vec<Happening>)) {
    let first = expected.3.iter().zip(&seen.3).position(|(one, other)| one != other);
    if let Some(at) = first {
        panic!("{what}: happening {at} differs: expected {:x?}, seen {:x?}", expected.3[at], seen.3[at]);
    }
    assert_eq!((&expected.0, &expected.1, expected.2), (&seen.0, &seen.1, seen.2), "{what}");
    assert_eq!(expected.3.len(), seen.3.len(), "{what}");
}

/// Every instruction of the program, but those in delay slots.
fn places(set: Set) -> Vec<u64> {
    let mut places: Vec<u64> = (0..handler().len() as u64).map(|word| HANDLER + 4 * word).collect();
    places.extend((0..functions().iter().map(|(_, words)| words.len() as u64).sum()).map(|word| TEXT + 4 * word));
    places.into_iter().map(|place| set.cut(SEEN + place)).collect()
}

/// BY-4, KP-9: exceptions of every kind arrive where they belong, in delay slots too, and the clock's interrupts come;
/// all sets do the same.
#[test]
fn exceptions_and_interrupts_reach_the_guest() {
    let mut ends = Vec::new();
    for set in Set::ALL {
        let plain = run(&mut session(set));
        assert_eq!(plain.0, Stop::PowerOff(0), "{set:?}: {:x?}", plain.3.last());
        assert_same(&format!("{set:?}, again"), &plain, &run(&mut session(set)));
        let count = |wanted: fn(&What) -> bool| plain.3.iter().filter(|happening| wanted(&happening.what)).count();
        // 50 turns of the 400: a system call, two misses, a breakpoint.
        assert_eq!(count(|what| matches!(what, What::SystemCall)), 50, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::Exception(26, _))), 100, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::Exception(18, _))), 50, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::ClockRead)), 400, "{set:?}");
        assert!(count(|what| matches!(what, What::Interrupt(_))) > 3, "{set:?}");
        assert_eq!(plain.1.len(), 16, "{set:?}: {}", plain.1);
        assert_eq!(&plain.1[8..], "AAAAAAMI", "{set:?}: 200 exceptions, in digits from A on");
        ends.push((plain.1, plain.2));
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

/// BY-4, KP-1, KP-2, RP-1, OP-1: with a probe on every instruction that may have one, boosted, stepped or optimised,
/// with faults in delay slots and in the handler of exceptions itself, each interrupt and exception comes at the same
/// place and time.
#[test]
fn a_probed_run_is_the_same_run() {
    for set in Set::ALL {
        let plain = run(&mut session(set));
        for post in [false, true] {
            let mut probed = session(set);
            let mut probes = Vec::new();
            let mut refused = Vec::new();
            for address in places(set) {
                let probe = Kprobe::at_address(address).pre(|_| Flow::Continue);
                let probe = if post { probe.post(|_| {}) } else { probe };
                match probed.register_kprobe(&probe) {
                    Ok(()) => probes.push(probe),
                    Err(refusal) => refused.push(format!("{address:#x}: {refusal}")),
                }
            }
            assert!(probes.len() > 75, "{set:?}: {} probes; {refused:?}", probes.len());
            assert_same(&format!("{set:?}, post-handlers: {post}"), &plain, &run(&mut probed));
            let hits: u64 = probes.iter().map(Kprobe::hits).sum();
            assert!(hits > 10_000, "{set:?}: {hits} hits");
        }
        let mut probed = session(set);
        let returns = ["work", "leaf"].map(|name| Kretprobe::at(name).handler(|_| {}));
        for probe in &returns {
            probed.register_kretprobe(probe).expect("a function");
        }
        assert_same(&format!("{set:?}, return probes"), &plain, &run(&mut probed));
        assert_eq!(returns.each_ref().map(Kretprobe::hits), [400, 400], "{set:?}");
    }
}

/// KP-5: a delay slot is refused, and the sentence says what to do.
#[test]
fn a_probe_in_a_delay_slot_is_refused() {
    for set in Set::ALL {
        let mut session = session(set);
        let refusal = session.register_kprobe(&Kprobe::at("work").offset(12)).expect_err("a delay slot");
        assert!(refusal.to_string().contains("delay slot of the branch in front of it"), "{refusal}");
    }
}
