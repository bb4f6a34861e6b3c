//! MIPS in the machine: a small program in all four instruction sets that takes every kind of exception and timer
//! interrupts, some of them in delay slots. The probed run must equal the unprobed one.

use trapline::machine::{Stop, What};
use trapline::probed::Session;
use trapline_isa::mips::Set;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};
use trapline_tests::mips::*;
use trapline_tests::{assert_same, run};

const HANDLER: u64 = 0x180;

const A0: u32 = 4;
const A1: u32 = 5;
const S0: u32 = 16;
const S1: u32 = 17;
const S4: u32 = 20;
const EXCEPTIONS: u32 = 22;
const INTERRUPTS: u32 = 23;
const SP: u32 = 29;

const JR_RA: u32 = 0x03e0_0008;
const SYSCALL: u32 = 0x0000_000c;
const BREAK_12: u32 = 12 << 16 | 0x0d;

/// The exception handler. It acknowledges and counts an interrupt. It skips and counts any other exception, with the
/// branch if it was in a delay slot.
fn handler() -> Vec<u32> {
    vec![
        0x401a_6800,                      // mfc0 k0,cause
        0x335b_007c,                      // andi k1,k0,0x7c
        immediate(0x05, K1, ZERO, 6),     // bnez k1, +6
        immediate(0x0f, 0, K1, 0xa900),   // lui k1, the I/O ports (delay slot)
        immediate(0x23, K1, K0, 0x51c),   // lw k0, the interrupt in service
        immediate(0x2b, K1, ZERO, 0x518), // sw zero, end of interrupt
        addiu(INTERRUPTS, INTERRUPTS, 1),
        ERET,
        NOP,
        0x401b_7000,               // mfc0 k1,epc
        immediate(0x01, K0, 1, 2), // bgez k0, +2: not in a delay slot
        addiu(K1, K1, 4),          // in a delay slot: skip the branch, too
        addiu(K1, K1, 4),
        0x409b_7000, // mtc0 k1,epc
        addiu(EXCEPTIONS, EXCEPTIONS, 1),
        ERET,
    ]
}

/// Functions by name with their words, placed one after another from [`TEXT`] on.
fn functions() -> Vec<(&'static str, Vec<u32>)> {
    let jump = |op: u32, word: usize| op << 26 | ((TEXT as u32 >> 2) + word as u32);
    let mut main = vec![
        immediate(0x0f, 0, SP, 0x8020), // lui sp
        FIND_PORTS,
        immediate(0x0d, ZERO, T0, 3000), // every 3 us
        immediate(0x2b, PORTS, T0, 0x500),
        0x4008_6000,                    // mfc0 t0,status
        immediate(0x0d, T0, T0, 0x401), // enable the board's interrupt
        0x4088_6000,                    // mtc0 t0,status
        immediate(0x0d, ZERO, S0, 400),
        immediate(0x0d, ZERO, S4, 200),
    ];
    let turn = main.len();
    const WORK: usize = 64;
    main.extend([
        addu(A0, S0, ZERO),
        jump(0x03, WORK),   // jal work
        addu(A1, S1, ZERO), // in its delay slot
        addu(S1, S1, V0),
        immediate(0x14, S0, S4, 2), // beql s0,s4, over the nop
        addiu(S1, S1, 3),           // in its delay slot: runs once
        NOP,
        immediate(0x0c, S0, T0, 7),   // andi t0,s0,7
        immediate(0x05, T0, ZERO, 6), // bnez t0, to the clock
        NOP,
        SYSCALL,
        immediate(0x23, ZERO, T1, 0x100),  // lw t1: unmapped page
        immediate(0x04, ZERO, ZERO, 1),    // b over its slot
        immediate(0x23, ZERO, T1, -0x100), // the same load in the delay slot
        BREAK_12,
        0x400a_4800, // mfc0 t2,count
        addu(S1, S1, T2),
        addiu(S0, S0, -1),
    ]);
    let back = turn as i32 - main.len() as i32 - 1;
    main.extend([immediate(0x05, S0, ZERO, back), addu(S1, S1, T0)]);
    // Prints s1 and the number of exceptions in eight digits each. Then the program ends.
    main.extend(print(S1));
    main.extend(print(EXCEPTIONS));
    main.extend(power_off());
    assert!(main.len() <= WORK, "{}", main.len());
    main.resize(WORK, NOP);
    let work = vec![
        addiu(SP, SP, -16),
        immediate(0x2b, SP, RA, 12),
        immediate(0x01, ZERO, 0x11, 7), // bal leaf
        addiu(A0, A0, 5),
        immediate(0x23, SP, RA, 12),
        immediate(0x01, V0, 0x02, 1), // bltzl v0, over its slot
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
        three(0x26, V0, A1, V0), // xor, in its delay slot
    ];
    vec![("main", main), ("work", work), ("leaf", leaf)]
}

fn session(set: Set) -> Session {
    let to_handler = [0x0800_0000 | HANDLER as u32 >> 2, NOP];
    let mut vectors = vec![NOP; HANDLER as usize / 4];
    vectors[0..2].copy_from_slice(&to_handler);
    vectors[0x80 / 4..0x80 / 4 + 2].copy_from_slice(&to_handler);
    vectors.extend(handler());
    let (mut text, mut names) = (Vec::new(), vec![(HANDLER, "handler")]);
    for (function, words) in functions() {
        names.push((TEXT + 4 * text.len() as u64, function));
        text.extend(words);
    }
    trapline_tests::mips::session(set, &vectors, &text, &names)
}

/// The addresses of all instructions, including those in delay slots.
fn places(set: Set) -> Vec<u64> {
    let mut places: Vec<u64> = (0..handler().len() as u64).map(|word| HANDLER + 4 * word).collect();
    places.extend((0..functions().iter().map(|(_, words)| words.len() as u64).sum()).map(|word| TEXT + 4 * word));
    places.into_iter().map(|place| set.cut(SEEN + place)).collect()
}

/// BY-4, KP-9: exceptions of every kind arrive at the right address, in delay slots, too. Timer interrupts arrive. All
/// sets do the same.
#[test]
fn exceptions_and_interrupts_reach_the_guest() {
    let mut ends = Vec::new();
    for set in Set::ALL {
        let plain = run(&mut session(set));
        assert_eq!(plain.stop, Stop::PowerOff(0), "{set:?}: {:x?}", plain.happenings.last());
        assert_same(&format!("{set:?}, again"), &plain, &run(&mut session(set)));
        let count = |wanted: fn(&What) -> bool| plain.happenings.iter().filter(|happening| wanted(&happening.what)).count();
        // 50 of the 400 iterations: a system call, two misses, a breakpoint.
        assert_eq!(count(|what| matches!(what, What::SystemCall)), 50, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::Exception(26, _))), 100, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::Exception(18, _))), 50, "{set:?}");
        assert_eq!(count(|what| matches!(what, What::ClockRead)), 400, "{set:?}");
        assert!(count(|what| matches!(what, What::Interrupt(_))) > 3, "{set:?}");
        assert_eq!(plain.console.len(), 16, "{set:?}: {}", plain.console);
        assert_eq!(&plain.console[8..], "AAAAAAMI", "{set:?}: 200 exceptions, in digits from A on");
        ends.push((plain.console, plain.time));
    }
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

/// BY-4, KP-1, KP-2, RP-1, OP-1: every allowed instruction is probed: boosted, stepped or optimised. There are faults
/// in delay slots and in the exception handler itself. Each interrupt and exception comes at the same address and time.
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

/// KP-5: a probe in a delay slot is refused, and the message says what to do.
#[test]
fn a_probe_in_a_delay_slot_is_refused() {
    for set in Set::ALL {
        let mut session = session(set);
        let refusal = session.register_kprobe(&Kprobe::at("work").offset(12)).expect_err("a delay slot");
        assert!(refusal.to_string().contains("delay slot of the branch in front of it"), "{refusal}");
    }
}
