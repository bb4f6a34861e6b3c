//! The guest's own debug registers (docs/unicorn.md, "The guest's debug registers"). Hits are compared with what the manual
//! says of every instruction of a program, for breakpoints and watchpoints of every kind, with and without probes.

use trapline::machine::{Machine, What};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::lab::hostile::{Bare, about_to_run};
use trapline_tests::lab::{DATA, HANDLERS, PLACE};

const ARCHES: [Arch; 2] = [Arch::I386, Arch::X86_64];
const DEBUG: u32 = 1;
/// The memory that the program accesses, by BX.
const AREA: u64 = DATA + 0x40;
/// The last two bytes of a page, by DX.
const EDGE: u64 = DATA + 0x1000 - 2;
/// The handler stores DR6 at each debug exception from here on, by DI.
const LOG: u64 = DATA + 0x1800;
const HANDLER: u64 = HANDLERS + 0x800;
const DR6_FIXED: u32 = 0xffff_0ff0;
/// DR7 without any breakpoint.
const NONE: u32 = 0x400;
const GENERAL_DETECT: u32 = 1 << 13;

/// An instruction, and its accesses: address, size, whether it is a store.
type Case = (&'static [u8], &'static [(u64, u64, bool)]);

#[rustfmt::skip]
const PROGRAM: &[Case] = &[
    (&[0x89, 0x0b],             &[(AREA, 4, true)]),                              // mov %ecx,(%bx)
    (&[0x8b, 0x0b],             &[(AREA, 4, false)]),                             // mov (%bx),%ecx
    (&[0x88, 0x4b, 0x03],       &[(AREA + 3, 1, true)]),                          // mov %cl,3(%bx)
    (&[0x66, 0x89, 0x4b, 0x06], &[(AREA + 6, 2, true)]),                          // mov %cx,6(%bx)
    (&[0x8a, 0x4b, 0x07],       &[(AREA + 7, 1, false)]),                         // mov 7(%bx),%cl
    (&[0xff, 0x43, 0x04],       &[(AREA + 4, 4, false), (AREA + 4, 4, true)]),    // incl 4(%bx)
    (&[0x90],                   &[]),
    (&[0x87, 0x4b, 0x08],       &[(AREA + 8, 4, false), (AREA + 8, 4, true)]),    // xchg %ecx,8(%bx)
    (&[0x89, 0x4b, 0x05],       &[(AREA + 5, 4, true)]),                          // mov %ecx,5(%bx)
    (&[0x8b, 0x4b, 0xfd],       &[(AREA - 3, 4, false)]),                         // mov -3(%bx),%ecx
    (&[0xf0, 0x01, 0x4b, 0x0c], &[(AREA + 12, 4, false), (AREA + 12, 4, true)]),  // lock add %ecx,12(%bx)
    (&[0xff, 0x33],             &[(AREA, 4, false)]),                             // push (%bx)
    (&[0x8f, 0x43, 0x08],       &[(AREA + 8, 4, true)]),                          // pop 8(%bx)
    (&[0x89, 0x0a],             &[(EDGE, 4, true)]),                              // mov %ecx,(%dx)
    (&[0x8b, 0x0a],             &[(EDGE, 4, false)]),                             // mov (%dx),%ecx
    (&[0x31, 0xc9],             &[]),                                             // xor %ecx,%ecx
];

/// One of DR0 to DR3: the address, the kind as in DR7 (0 runs, 1 writes, 3 reads or writes), and the length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    at: u64,
    kind: u32,
    len: u64,
}

fn control(points: &[Point]) -> u32 {
    let of = |(number, point): (usize, &Point)| {
        let len = if point.len == 8 { 2 } else { point.len as u32 - 1 };
        2 << (2 * number) | point.kind << (16 + 4 * number) | len << (18 + 4 * number)
    };
    points.iter().enumerate().map(of).fold(NONE, |all, one| all | one)
}

fn named(arch: Arch, name: &str) -> Reg {
    arch.isa().abi.register(name).expect("it has a name")
}

fn width(arch: Arch, bytes: u64) -> u64 {
    if arch == Arch::X86_64 && bytes == 4 { 8 } else { bytes }
}

/// `mov $value,%eax; mov %eax,%drN`.
fn set_debug(number: u8, value: u64) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend((value as u32).to_le_bytes());
    code.extend([0x0f, 0x23, 0xc0 | number << 3]);
    code
}

/// Code that sets the debug registers, and the address behind it.
fn armed(points: &[Point]) -> Vec<u8> {
    let mut code: Vec<u8> = (0..).zip(points).flat_map(|(number, point)| set_debug(number, point.at)).collect();
    code.extend(set_debug(7, control(points).into()));
    code
}

/// The handler of debug exceptions: stores and clears DR6, sets RF if it is told so, and returns.
fn handler(arch: Arch, resumes: bool) -> Vec<u8> {
    // mov %dr6,%eax; stos %eax,(%di); xor %eax,%eax; mov %eax,%dr6
    let mut code = vec![0x0f, 0x21, 0xf0, 0xab, 0x31, 0xc0, 0x0f, 0x23, 0xf0];
    let is_wide = arch == Arch::X86_64;
    if resumes {
        // orb $1,10(%esp) or 18(%rsp)
        code.extend([0x80, 0x4c, 0x24, if is_wide { 18 } else { 10 }, 1]);
    }
    code.extend(if is_wide { &[0x48, 0xcf][..] } else { &[0xcf] });
    code
}

const HALT: u8 = 0xf4;

/// The whole code, and the address of each instruction of the program and of its end.
fn code(points: &[Point]) -> (Vec<u8>, Vec<u64>) {
    let mut code = armed(points);
    let mut starts = Vec::new();
    for (bytes, _) in PROGRAM {
        starts.push(PLACE + code.len() as u64);
        code.extend(*bytes);
    }
    starts.push(PLACE + code.len() as u64);
    code.push(HALT);
    (code, starts)
}

fn registers(arch: Arch) -> Vec<(Reg, u64)> {
    [("bx", AREA), ("dx", EDGE), ("cx", 0x1122_3344), ("di", LOG)].map(|(name, value)| (named(arch, name), value)).into()
}

fn put_handler(arch: Arch, resumes: bool, mut put: impl FnMut(u64, &[u8])) {
    let jump = (HANDLER - (HANDLERS + 16) - 5) as u32;
    put(HANDLERS + 16, &[&[0xe9], &jump.to_le_bytes()[..]].concat());
    put(HANDLER, &handler(arch, resumes));
}

/// The address and the time of each debug exception since the event of this number, with DR6.
fn hits(machine: &Machine<()>, from: usize) -> Vec<(u64, u32)> {
    let found = machine.happenings().iter().skip(from).filter(|event| matches!(event.what, What::Exception(DEBUG, _)));
    let status = |number: u64| {
        let mut word = [0; 4];
        machine.ram().read(LOG + 4 * number, &mut word);
        u32::from_le_bytes(word)
    };
    found.zip(0..).map(|(event, number)| (event.pc, status(number))).collect()
}

fn run(bare: &mut Bare, arch: Arch, points: &[Point], resumes: bool) -> (Vec<(u64, u32)>, Vec<u64>) {
    put_handler(arch, resumes, |at, bytes| bare.put(at, bytes));
    let (code, starts) = code(points);
    bare.enter_kernel();
    registers(arch).into_iter().for_each(|(reg, value)| bare.set(reg, value));
    let from = bare.machine().happenings().len();
    bare.run(&code);
    let end = starts.last().map_or(0, |end| end + 1);
    assert_eq!(bare.get(named(arch, "ip")), end, "{} {points:x?}: {:x?}", arch.name(), hits(bare.machine(), from));
    (hits(bare.machine(), from), starts)
}

fn meets(arch: Arch, point: &Point, (at, size, is_store): (u64, u64, bool), is_stack: bool) -> bool {
    let size = if is_stack { width(arch, size) } else { size };
    let first = point.at & !(point.len - 1);
    (point.kind == 3 || point.kind == 1 && is_store) && at < first + point.len && first < at + size
}

/// The hits that the manual prescribes: a trap behind each instruction with an access that a point watches.
fn expected(arch: Arch, points: &[Point], starts: &[u64]) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    for ((bytes, accesses), next) in PROGRAM.iter().zip(&starts[1..]) {
        let is_stack = matches!(bytes[0], 0xff | 0x8f) && bytes[1] != 0x43 || bytes[0] == 0x8f;
        let hit = |point: &Point| accesses.iter().any(|access| meets(arch, point, *access, is_stack));
        let bits: u32 = points.iter().zip(0..).map(|(point, number)| u32::from(hit(point)) << number).sum();
        if bits != 0 {
            all.push((*next, DR6_FIXED | bits));
        }
    }
    all
}

/// BY-3: every address, length and kind of DR0, with a second watchpoint in DR1.
#[test]
fn a_guests_watchpoint_traps_behind_each_access() {
    let mut tried = 0;
    for arch in ARCHES {
        let mut bare = Bare::new(arch);
        let lengths: &[u64] = if arch == Arch::X86_64 { &[1, 2, 4, 8] } else { &[1, 2, 4] };
        let places = (AREA - 4..AREA + 17).chain(EDGE - 1..EDGE + 6);
        for at in places {
            for len in lengths {
                for kind in [1, 3] {
                    let points = [Point { at, kind, len: *len }, Point { at: AREA + 8, kind: 1, len: 4 }];
                    let (hits, starts) = run(&mut bare, arch, &points, false);
                    assert_eq!(hits, expected(arch, &points, &starts), "{} {points:x?}", arch.name());
                    tried += hits.len();
                }
            }
        }
        let (hits, _) = run(&mut bare, arch, &[], false);
        assert_eq!(hits, [], "{}: nothing is watched", arch.name());
    }
    println!("{tried} hits");
    assert!(tried > 1000, "{tried}");
}

/// BY-3: a breakpoint faults in front of its instruction, once, because the handler sets RF.
#[test]
fn a_guests_breakpoint_faults_before_its_instruction() {
    for arch in ARCHES {
        let mut bare = Bare::new(arch);
        for number in 0..PROGRAM.len() {
            // The code that arms them has the same length for each address.
            let of = |at| [Point { at, kind: 0, len: 1 }, Point { at: at + 1, kind: 0, len: 1 }];
            let (_, starts) = code(&of(0));
            let (first, second) = (starts[number], starts[number + 1]);
            let points = [Point { at: first, ..of(0)[0] }, Point { at: second, ..of(0)[1] }];
            let (hits, _) = run(&mut bare, arch, &points, true);
            assert_eq!(hits, [(first, DR6_FIXED | 1), (second, DR6_FIXED | 2)], "{} {number}", arch.name());
        }
    }
}

/// BY-3: with a probe on each instruction the guest's own breakpoints and watchpoints hit at the same places and times.
#[test]
fn probes_do_not_move_a_guests_breakpoints() {
    for arch in ARCHES {
        let watching = [Point { at: AREA, kind: 3, len: 4 }, Point { at: AREA + 8, kind: 1, len: 4 }];
        let broken: Vec<Point> = code(&watching).1.iter().skip(3).take(2).map(|at| Point { at: *at, kind: 0, len: 1 }).collect();
        // A probe's jump replaces the instruction behind, too, where a breakpoint of the guest would not be seen.
        for (points, resumes, jumps) in [(&watching[..], false, true), (&watching[..], false, false), (&broken[..], true, false)]
        {
            let run = |probed: Option<u64>| {
                let (code, starts) = code(points);
                let mut session = about_to_run(arch, &code, &registers(arch));
                put_handler(arch, resumes, |at, bytes| assert!(session.machine_mut().write_physical(at, bytes)));
                session.with_engine(|engine, guest| engine.set_optimization(guest, jumps));
                let probe = probed.map(|number| {
                    let probe = Kprobe::at_address(starts[number as usize]).pre(|_| Flow::Continue);
                    session.register_kprobe(&probe).unwrap_or_else(|error| panic!("{number}: {error}"));
                    probe
                });
                let until = session.machine_mut().now() + 20_000;
                session.run_until(until);
                let machine = session.machine_mut();
                let events: Vec<_> = machine.happenings().iter().map(|event| (event.what, event.pc, event.time)).collect();
                let mut memory = vec![0; 0x2000];
                machine.ram().read(DATA, &mut memory);
                (events, memory, probe.map(|probe| probe.hits()))
            };
            let plain = run(None);
            let found = plain.0.iter().filter(|event| matches!(event.0, What::Exception(DEBUG, _))).count();
            assert!(found >= 2, "{}: {:x?}", arch.name(), plain.0);
            for number in 0..PROGRAM.len() as u64 {
                let probed = run(Some(number));
                let name = format!("{}: instruction {number}", arch.name());
                assert_eq!(probed.0, plain.0, "{name}");
                assert!(probed.1 == plain.1, "{name}: the memory differs");
                assert_eq!(probed.2, Some(1), "{name}");
            }
        }
    }
}

/// BY-3: a restored snapshot has the guest's breakpoints and watchpoints in force.
#[test]
fn a_snapshot_keeps_a_guests_breakpoints() {
    for arch in ARCHES {
        let mut bare = Bare::new(arch);
        let points = [Point { at: AREA, kind: 3, len: 4 }, Point { at: AREA + 8, kind: 1, len: 4 }];
        let (armed, starts) = run(&mut bare, arch, &points, false);
        assert!(armed.len() > 3, "{}: {armed:x?}", arch.name());
        let snapshot = bare.machine().snapshot().expect("a snapshot");
        assert_eq!(run(&mut bare, arch, &[], false).0, [], "{}", arch.name());
        bare.machine().restore(&snapshot).expect("it can be restored");
        bare.enter_kernel();
        registers(arch).into_iter().for_each(|(reg, value)| bare.set(reg, value));
        let from = bare.machine().happenings().len();
        bare.run_at(starts[0]);
        assert_eq!(hits(bare.machine(), from), armed, "{}", arch.name());
    }
}

/// BY-3: with GD set, an access to a debug register faults, and the CPU clears GD.
#[test]
fn general_detect_protects_the_debug_registers() {
    for arch in ARCHES {
        for access in [&[0x0f, 0x21, 0xf9][..], &[0x0f, 0x23, 0xc1]] {
            let mut bare = Bare::new(arch);
            put_handler(arch, false, |at, bytes| bare.put(at, bytes));
            registers(arch).into_iter().for_each(|(reg, value)| bare.set(reg, value));
            let armed = set_debug(7, u64::from(NONE | GENERAL_DETECT));
            let at = PLACE + armed.len() as u64;
            let from = bare.machine().happenings().len();
            bare.run(&[&armed, access, &[HALT]].concat());
            assert_eq!(hits(bare.machine(), from), [(at, DR6_FIXED | 1 << 13)], "{} {access:x?}", arch.name());
        }
    }
}
