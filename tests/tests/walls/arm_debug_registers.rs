//! The breakpoints and watchpoints of ARM's own debug registers, both widths (docs/unicorn.md, "The guest's debug
//! registers"): hits are compared with what the manual says of every instruction of a program, with and without probes.

use trapline::machine::What;
use trapline::machine::{Happening, Machine};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::lab::hostile::{Bare, about_to_run, physical, seen};
use trapline_tests::lab::{DATA, HANDLERS, PLACE};

const ARCHES: [Arch; 2] = [Arch::Arm64, Arch::Arm];
const AREA: u64 = DATA + 0x40;
/// The last two bytes of a page.
const EDGE: u64 = DATA + 0x1000 - 2;
/// The handler stores what it reads of each exception from here on.
const LOG: u64 = DATA + 0x1800;
const FETCH_ABORT: u32 = 3;
const DATA_ABORT: u32 = 4;

/// An instruction, and its accesses in their order: address, size, whether it is a store.
type Case = (u32, &'static [(u64, u64, bool)]);

#[rustfmt::skip]
const PROGRAM_64: &[Case] = &[
    (0xb900_0022, &[(AREA, 4, true)]),                          // str w2, [x1]
    (0xb940_0024, &[(AREA, 4, false)]),                         // ldr w4, [x1]
    (0x3900_0c22, &[(AREA + 3, 1, true)]),                      // strb w2, [x1, #3]
    (0x7900_0c22, &[(AREA + 6, 2, true)]),                      // strh w2, [x1, #6]
    (0xf940_0424, &[(AREA + 8, 8, false)]),                     // ldr x4, [x1, #8]
    (0xf900_0422, &[(AREA + 8, 8, true)]),                      // str x2, [x1, #8]
    (0xd503_201f, &[]),
    (0xa900_1022, &[(AREA, 8, true), (AREA + 8, 8, true)]),     // stp x2, x4, [x1]
    (0x2940_9424, &[(AREA + 4, 4, false), (AREA + 8, 4, false)]), // ldp w4, w5, [x1, #4]
    (0xf800_5022, &[(AREA + 5, 8, true)]),                      // stur x2, [x1, #5]
    (0xb85f_d024, &[(AREA - 3, 4, false)]),                     // ldur w4, [x1, #-3]
    (0xb900_0062, &[(EDGE, 4, true)]),                          // str w2, [x3]
    (0xb940_0064, &[(EDGE, 4, false)]),                         // ldr w4, [x3]
];

#[rustfmt::skip]
const PROGRAM_32: &[Case] = &[
    (0xe581_2000, &[(AREA, 4, true)]),                          // str r2, [r1]
    (0xe591_4000, &[(AREA, 4, false)]),                         // ldr r4, [r1]
    (0xe5c1_2003, &[(AREA + 3, 1, true)]),                      // strb r2, [r1, #3]
    (0xe1c1_20b6, &[(AREA + 6, 2, true)]),                      // strh r2, [r1, #6]
    (0xe1c1_40d8, &[(AREA + 8, 4, false), (AREA + 12, 4, false)]), // ldrd r4, r5, [r1, #8]
    (0xe1c1_40f8, &[(AREA + 8, 4, true), (AREA + 12, 4, true)]), // strd r4, r5, [r1, #8]
    (0xe1a0_0000, &[]),
    (0xe881_0014, &[(AREA, 4, true), (AREA + 4, 4, true)]),     // stm r1, {r2, r4}
    (0xe991_0030, &[(AREA + 4, 4, false), (AREA + 8, 4, false)]), // ldmib r1, {r4, r5}
    (0xe581_2005, &[(AREA + 5, 4, true)]),                      // str r2, [r1, #5]
    (0xe511_4003, &[(AREA - 3, 4, false)]),                     // ldr r4, [r1, #-3]
    (0xe583_2000, &[(EDGE, 4, true)]),                          // str r2, [r3]
    (0xe593_4000, &[(EDGE, 4, false)]),                         // ldr r4, [r3]
];

fn program(arch: Arch) -> &'static [Case] {
    if arch == Arch::Arm64 { PROGRAM_64 } else { PROGRAM_32 }
}

/// A breakpoint, or the bytes that a watchpoint watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Break(u64),
    Watch { at: u64, len: u64, loads: bool, stores: bool },
}

/// Code that loads a value into the first register.
fn load(arch: Arch, value: u64) -> Vec<u32> {
    let part = |number: u32| (value >> (16 * number)) as u32 & 0xffff;
    let half = |half: u32| (half & 0xf000) << 4 | half & 0xfff;
    match arch {
        Arch::Arm64 => (0..4)
            .map(|number| [0xd280_0000, 0xf2a0_0000, 0xf2c0_0000, 0xf2e0_0000][number as usize] | part(number) << 5)
            .collect(),
        _ => vec![0xe300_0000 | half(part(0)), 0xe340_0000 | half(part(1))],
    }
}

/// Code that sets a debug register from the first general one, by CRm and op2.
fn move_debug(arch: Arch, crm: u32, op2: u32) -> u32 {
    if arch == Arch::Arm64 { 0xd510_0000 | crm << 8 | op2 << 5 } else { 0xee00_0e10 | op2 << 5 | crm }
}

fn set_debug(arch: Arch, crm: u32, op2: u32, value: u64) -> Vec<u32> {
    let mut code = load(arch, value);
    code.push(move_debug(arch, crm, op2));
    code
}

/// Code that sets one point of each kind and enables debug exceptions.
fn armed(arch: Arch, point: Point) -> Vec<u32> {
    // For the kernel's privilege and the program's, in either security state.
    const ENABLED: u64 = 1 | 3 << 1;
    let mut code = match point {
        Point::Break(at) => [set_debug(arch, 0, 4, seen(arch, at)), set_debug(arch, 0, 5, ENABLED | 0xf << 5)].concat(),
        Point::Watch { at, len, loads, stores } => {
            let unit = if arch == Arch::Arm64 { 8 } else { 4 };
            let bytes = ((1 << len) - 1) << (at % unit);
            let control = ENABLED | u64::from(loads) << 3 | u64::from(stores) << 4 | bytes << 5;
            [set_debug(arch, 0, 6, seen(arch, at & !(unit - 1))), set_debug(arch, 0, 7, control)].concat()
        }
    };
    // MDSCR_EL1: monitor, and debug exceptions within EL1.
    code.extend(set_debug(arch, 2, 2, 1 << 15 | 1 << 13));
    if arch == Arch::Arm64 {
        code.push(0xd503_48ff); // msr daifclr, #8
    }
    code
}

/// The handlers: each stores the status, the address and, on 32-bit ARM, the method of entry. Then it skips the instruction,
/// or disables all points and returns to it.
fn handlers(arch: Arch, skips: bool) -> Vec<(u64, Vec<u32>)> {
    if arch == Arch::Arm64 {
        // mrs x16, esr_el1; str x16, [x20], #8; mrs x16, far_el1; str; mrs x16, elr_el1
        let mut code = vec![0xd538_5210, 0xf800_8690, 0xd538_6010, 0xf800_8690, 0xd538_4030];
        match skips {
            true => code.extend([0x9100_1210, 0xd518_4030]), // add x16, x16, #4; msr elr_el1, x16
            false => code.extend([move_debug(arch, 0, 5) | 31, move_debug(arch, 0, 7) | 31]),
        }
        code.push(0xd69f_03e0); // eret
        return vec![(HANDLERS + 0x200, code)];
    }
    let mut common = vec![0xe48a_8004, 0xe48a_9004, 0xee10_8e11, 0xe208_803c, 0xe48a_8004];
    match skips {
        true => common.push(0xe28e_e004), // add lr, lr, #4
        false => common.extend([0xe3a0_8000, move_debug(arch, 0, 5) | 8 << 12, move_debug(arch, 0, 7) | 8 << 12]),
    }
    common.push(0xe1b0_f00e); // movs pc, lr
    let fetch = [vec![0xe24e_e004, 0xee15_8f30, 0xee16_9f50], common.clone()].concat();
    let data = [vec![0xe24e_e008, 0xee15_8f10, 0xee16_9f10], common].concat();
    let branch = |from: u64, to: u64| vec![0xea00_0000 | ((to.wrapping_sub(from + 8) >> 2) as u32 & 0xff_ffff)];
    let [at_fetch, at_data] = [HANDLERS + 0x800, HANDLERS + 0x900];
    vec![
        (HANDLERS + 0xc, branch(HANDLERS + 0xc, at_fetch)),
        (HANDLERS + 0x10, branch(HANDLERS + 0x10, at_data)),
        (at_fetch, fetch),
        (at_data, data),
    ]
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The whole code, and the address of each instruction of the program.
fn code(arch: Arch, point: Option<Point>) -> (Vec<u8>, Vec<u64>) {
    let mut code = point.map(|point| armed(arch, point)).unwrap_or_default();
    let first = PLACE + 4 * code.len() as u64;
    code.extend(program(arch).iter().map(|(word, _)| *word));
    code.push(if arch == Arch::Arm64 { 0xd503_207f } else { 0xe320_f003 });
    (bytes(&code), (0..program(arch).len() as u64).map(|number| first + 4 * number).collect())
}

fn registers(arch: Arch) -> Vec<(Reg, u64)> {
    let letter = if arch == Arch::Arm64 { "x" } else { "r" };
    let log = if arch == Arch::Arm64 { 20 } else { 10 };
    [(1, seen(arch, AREA)), (2, 0x1122_3344), (3, seen(arch, EDGE)), (log, seen(arch, LOG))]
        .map(|(number, value)| (arch.isa().abi.register(&format!("{letter}{number}")).expect("it has a name"), value))
        .into()
}

/// The pc of each debug exception since the event of this number, with the words that the handler has stored.
fn hits<L: trapline::machine::Listener>(arch: Arch, machine: &Machine<L>, from: usize) -> Vec<(u64, Vec<u64>)> {
    let is_abort = |event: &&Happening| matches!(event.what, What::Exception(FETCH_ABORT | DATA_ABORT, _));
    let (count, size) = if arch == Arch::Arm64 { (2, 8) } else { (3, 4) };
    let word = |number: u64| {
        let mut bytes = [0; 8];
        machine.ram().read(physical(arch, LOG) + size * number, &mut bytes[..size as usize]);
        u64::from_le_bytes(bytes)
    };
    let found = machine.happenings().iter().skip(from).filter(is_abort);
    found.zip(0..).map(|(event, number)| (event.pc, (0..count).map(|part| word(count * number + part)).collect())).collect()
}

fn run(bare: &mut Bare, arch: Arch, point: Option<Point>, skips: bool) -> (Vec<(u64, Vec<u64>)>, Vec<u64>) {
    handlers(arch, skips).iter().for_each(|(at, words)| bare.put(*at, &bytes(words)));
    let (code, starts) = code(arch, point);
    bare.enter_kernel();
    registers(arch).into_iter().for_each(|(reg, value)| bare.set(reg, value));
    let from = bare.machine().happenings().len();
    bare.run(&code);
    (hits(arch, bare.machine(), from), starts)
}

/// The hits that the manual prescribes: an exception before the first access that is watched.
fn expected(arch: Arch, point: Point, starts: &[u64]) -> Vec<(u64, Vec<u64>)> {
    let status = |class: u64, is_store: bool| match arch {
        Arch::Arm64 => class << 26 | 1 << 25 | u64::from(is_store) << 6 | 0x22,
        _ => 2 | u64::from(is_store) << 11,
    };
    let entered = |words: [u64; 2], method: u64| match arch {
        Arch::Arm64 => words.to_vec(),
        _ => [&words[..], &[method << 2]].concat(),
    };
    let hit = |(start, (_, accesses)): (&u64, &Case)| match point {
        Point::Break(at) => (at == *start).then(|| (seen(arch, at), entered([status(0x31, false), 0], 1))),
        Point::Watch { at, len, loads, stores } => {
            let is_met = |(from, size, is_store): &&(u64, u64, bool)| {
                (if *is_store { stores } else { loads }) && *from < at + len && at < from + size
            };
            let (from, _, is_store) = accesses.iter().find(is_met)?;
            Some((seen(arch, *start), entered([status(0x35, *is_store), seen(arch, at.max(*from))], 10)))
        }
    };
    starts.iter().zip(program(arch)).filter_map(hit).collect()
}

fn watches(arch: Arch) -> impl Iterator<Item = Point> {
    let unit = if arch == Arch::Arm64 { 8 } else { 4 };
    let places = (AREA - 4..AREA + 17).chain(EDGE - 1..EDGE + 6);
    places.flat_map(move |at| {
        (1..=unit - at % unit).flat_map(move |len| {
            [(true, false), (false, true), (true, true)].map(|(loads, stores)| Point::Watch { at, len, loads, stores })
        })
    })
}

/// BY-3: every address, length and kind of a watchpoint.
#[test]
fn a_guests_watchpoint_faults_before_each_access() {
    let mut tried = 0;
    for arch in ARCHES {
        let mut bare = Bare::new(arch);
        for point in watches(arch) {
            let (hits, starts) = run(&mut bare, arch, Some(point), true);
            assert_eq!(hits, expected(arch, point, &starts), "{} {point:x?}", arch.name());
            tried += hits.len();
        }
    }
    println!("{tried} hits");
    assert!(tried > 500, "{tried}");
}

/// BY-3: a breakpoint on each instruction.
#[test]
fn a_guests_breakpoint_faults_before_its_instruction() {
    for arch in ARCHES {
        let mut bare = Bare::new(arch);
        let (_, starts) = code(arch, Some(Point::Break(0)));
        for start in &starts {
            let point = Point::Break(*start);
            let (hits, starts) = run(&mut bare, arch, Some(point), true);
            assert_eq!(hits, expected(arch, point, &starts), "{} {point:x?}", arch.name());
            assert_eq!(hits.len(), 1, "{} {point:x?}", arch.name());
        }
    }
}

/// BY-3: a point that its handler disables does not hit again, and the program goes on as without it.
#[test]
fn a_disabled_point_lets_the_instruction_run() {
    let memory = |bare: &mut Bare, arch: Arch| {
        let mut memory = vec![0; 0x1800];
        bare.machine().ram().read(physical(arch, DATA), &mut memory);
        memory
    };
    for arch in ARCHES {
        let mut plain = Bare::new(arch);
        run(&mut plain, arch, None, false);
        let plain = memory(&mut plain, arch);
        let (_, starts) = code(arch, Some(Point::Break(0)));
        let watch = Point::Watch { at: AREA + 6, len: 2, loads: true, stores: true };
        for point in [watch, Point::Break(starts[3]), Point::Break(starts[8])] {
            let mut bare = Bare::new(arch);
            let (hits, starts) = run(&mut bare, arch, Some(point), false);
            assert_eq!(hits, expected(arch, point, &starts)[..1], "{} {point:x?}", arch.name());
            assert!(memory(&mut bare, arch) == plain, "{} {point:x?}: the memory differs", arch.name());
        }
    }
}

/// BY-3: with a probe on each instruction the guest's own points hit at the same places and times.
#[test]
fn probes_do_not_move_a_guests_points() {
    for arch in ARCHES {
        let (_, starts) = code(arch, Some(Point::Break(0)));
        let watch = Point::Watch { at: AREA + 6, len: 2, loads: true, stores: true };
        for (point, jumps) in [(watch, true), (watch, false), (Point::Break(starts[3]), false)] {
            let run = |probed: Option<usize>| {
                let (code, starts) = code(arch, Some(point));
                let mut session = about_to_run(arch, &code, &registers(arch));
                for (at, words) in handlers(arch, true) {
                    assert!(session.machine_mut().write_physical(physical(arch, at), &bytes(&words)));
                }
                session.with_engine(|engine, guest| engine.set_optimization(guest, jumps));
                let probe = probed.map(|number| {
                    let probe = Kprobe::at_address(seen(arch, starts[number])).pre(|_| Flow::Continue);
                    session.register_kprobe(&probe).unwrap_or_else(|error| panic!("{number}: {error}"));
                    probe
                });
                let until = session.machine_mut().now() + 20_000;
                session.run_until(until);
                let machine = session.machine_mut();
                let events: Vec<_> = machine.happenings().iter().map(|event| (event.what, event.pc, event.time)).collect();
                let mut memory = vec![0; 0x2000];
                machine.ram().read(physical(arch, DATA), &mut memory);
                (events, memory, hits(arch, machine, 0).len(), probe.map(|probe| probe.hits()))
            };
            let plain = run(None);
            assert!(plain.2 > 0, "{} {point:x?}: {:x?}", arch.name(), plain.0);
            for (number, start) in starts.iter().enumerate().take(program(arch).len()) {
                let (probed, name) = (run(Some(number)), format!("{} {point:x?}: instruction {number}", arch.name()));
                assert_eq!(probed.0, plain.0, "{name}");
                assert!(probed.1 == plain.1, "{name}: the memory differs");
                // The handler skips an instruction that it was called for.
                let is_skipped = plain
                    .0
                    .iter()
                    .any(|event| matches!(event.0, What::Exception(FETCH_ABORT, _)) && event.1 == seen(arch, *start));
                assert_eq!(probed.3, Some(u64::from(!is_skipped)), "{name}");
            }
        }
    }
}
