//! Storage-alteration events of PER (docs/unicorn.md, "The guest's debug registers"): the guest watches stores to a range of
//! addresses. Events are compared with what the manual says of every instruction of a program, with and without probes.

use trapline::machine::{Happening, Listener, Machine, What};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::lab::hostile::{Bare, about_to_run};
use trapline_tests::lab::{DATA, HANDLERS, PLACE};

const LOWCORE: u64 = 0x51_0000;
const AREA: u64 = DATA + 0x40;
/// The last four bytes of a page.
const EDGE: u64 = DATA + 0x1000 - 4;
/// The values of control registers 9 to 11, and the PSW of the program.
const CONTROL: u64 = DATA + 0x400;
/// The handler stores what it reads of each event from here on.
const LOG: u64 = DATA + 0x1800;
const HANDLER: u64 = HANDLERS + 0x400;
/// The program interruption of PER.
const RECORDED: u32 = 0x80;
const STORES: u64 = 1 << 29;
/// The code of the event.
const STORED: u64 = 0x20;
/// PSW: PER and address translation, in the kernel's address space and 64-bit mode.
const RECORDS: u64 = 1 << 62 | 1 << 58 | 3 << 46 | 3 << 31;

/// An instruction, and the bytes that it stores: address and size.
type Case = (&'static [u8], Option<(u64, u64)>);

#[rustfmt::skip]
const PROGRAM: &[Case] = &[
    (&[0xe3, 0x20, 0x30, 0, 0, 0x24],   Some((AREA, 8))),       // stg %r2,0(%r3)
    (&[0xe3, 0x20, 0x30, 0, 0, 0x04],   None),                  // lg %r2,0(%r3)
    (&[0x50, 0x20, 0x30, 4],            Some((AREA + 4, 4))),   // st %r2,4(%r3)
    (&[0x42, 0x20, 0x30, 9],            Some((AREA + 9, 1))),   // stc %r2,9(%r3)
    (&[0x40, 0x20, 0x30, 10],           Some((AREA + 10, 2))),  // sth %r2,10(%r3)
    (&[0xb9, 0x04, 0, 0x22],            None),                  // lgr %r2,%r2
    (&[0xd2, 7, 0x30, 16, 0x30, 0],     Some((AREA + 16, 8))),  // mvc 16(8,%r3),0(%r3)
    (&[0xd7, 15, 0x30, 0, 0x30, 0],     Some((AREA, 16))),      // xc 0(16,%r3),0(%r3)
    (&[0x92, 5, 0x30, 3],               Some((AREA + 3, 1))),   // mvi 3(%r3),5
    (&[0xeb, 0x24, 0x30, 8, 0, 0x24],   Some((AREA + 8, 24))),  // stmg %r2,%r4,8(%r3)
    (&[0xe3, 0x20, 0x40, 0, 0, 0x24],   Some((EDGE, 8))),       // stg %r2,0(%r4)
    (&[0xd2, 7, 0x40, 0, 0x30, 0],      Some((EDGE, 8))),       // mvc 0(8,%r4),0(%r3)
];

/// The whole code, and the address of each instruction of the program and of its end.
fn code() -> (Vec<u8>, Vec<u64>) {
    // lctlg %c9,%c11,0(%r1); lpswe 24(%r1)
    let mut code = vec![0xeb, 0x9b, 0x10, 0, 0, 0x2f, 0xb2, 0xb2, 0x10, 24];
    let mut starts = Vec::new();
    for (bytes, _) in PROGRAM {
        starts.push(PLACE + code.len() as u64);
        code.extend(*bytes);
    }
    starts.push(PLACE + code.len() as u64);
    code.extend([0x0a, 0]);
    (code, starts)
}

fn registers() -> Vec<(Reg, u64)> {
    [(1, CONTROL), (2, 0x1122_3344_5566_7788), (3, AREA), (4, EDGE), (5, LOG)].map(|(number, value)| (Reg(number), value)).into()
}

/// The memory that a case needs: the control registers, the handler and its PSW, which has address translation off.
fn pieces(first: u64, last: u64) -> Vec<(u64, Vec<u8>)> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    // mvc 0(8,%r5),152; mvc 8(2,%r5),150; aghi %r5,16; lpswe 336
    let handler = [0xd2, 7, 0x50, 0, 0, 0x98, 0xd2, 1, 0x50, 8, 0, 0x96, 0xa7, 0x5b, 0, 16, 0xb2, 0xb2, 1, 0x50];
    vec![
        (CONTROL, words(&[STORES, first, last, RECORDS, code().1[0]])),
        (HANDLER, handler.to_vec()),
        (LOWCORE + 0x1d0, words(&[0x1_8000_0000, HANDLER])),
    ]
}

/// The pc of each event, the address that it names, and its code.
fn events<L: Listener>(machine: &Machine<L>, from: usize) -> Vec<(u64, u64, u64)> {
    let is_event = |event: &&Happening| matches!(event.what, What::Exception(RECORDED, _));
    let stored = |number: u64| {
        let mut bytes = [0; 16];
        machine.ram().read(LOG + 16 * number, &mut bytes);
        let number = u128::from_be_bytes(bytes);
        ((number >> 64) as u64, (number >> 56) as u64 & 0xff)
    };
    let found = machine.happenings().iter().skip(from).filter(is_event).zip(0..);
    found.map(|(event, number)| (event.pc, stored(number).0, stored(number).1)).collect()
}

/// The events that the manual prescribes. The range may reach around the end of the address space.
fn expected(first: u64, last: u64, starts: &[u64]) -> Vec<(u64, u64, u64)> {
    let is_in = |at: u64| if first <= last { first <= at && at <= last } else { first <= at || at <= last };
    let stores = |(_, bytes): &Case| bytes.is_some_and(|(at, size)| (at..at + size).any(is_in));
    let found = PROGRAM.iter().zip(starts.windows(2)).filter(|(case, _)| stores(case));
    found.map(|(_, place)| (place[1], place[0], STORED)).collect()
}

/// BY-3: ranges of several lengths at each address.
#[test]
fn a_guest_records_each_store_to_a_range() {
    let mut bare = Bare::new(Arch::S390x);
    let mut tried = 0;
    let ranges = (AREA - 2..AREA + 34).chain(EDGE - 1..EDGE + 9).flat_map(|at| [1, 2, 8].map(|len| (at, at + len - 1)));
    for (first, last) in ranges.chain([(0, u64::MAX), (AREA + 16, AREA + 7), (AREA + 40, AREA - 1)]) {
        pieces(first, last).iter().for_each(|(at, bytes)| bare.put(*at, bytes));
        let (code, starts) = code();
        bare.enter_kernel();
        registers().into_iter().for_each(|(reg, value)| bare.set(reg, value));
        let from = bare.machine().happenings().len();
        bare.run(&code);
        assert_eq!(events(bare.machine(), from), expected(first, last, &starts), "{first:#x} to {last:#x}");
        tried += events(bare.machine(), from).len();
    }
    println!("{tried} events");
    assert!(tried > 200, "{tried}");
}

/// BY-3: with a probe on each instruction the events come at the same places and times.
#[test]
fn probes_do_not_move_a_guests_records() {
    for jumps in [true, false] {
        let run = |probed: Option<usize>| {
            let (code, starts) = code();
            let mut session = about_to_run(Arch::S390x, &code, &registers());
            for (at, bytes) in pieces(AREA + 4, AREA + 9) {
                assert!(session.machine_mut().write_physical(at, &bytes));
            }
            session.with_engine(|engine, guest| engine.set_optimization(guest, jumps));
            let probe = probed.map(|number| {
                let probe = Kprobe::at_address(starts[number]).pre(|_| Flow::Continue);
                session.register_kprobe(&probe).unwrap_or_else(|error| panic!("{number}: {error}"));
                probe
            });
            let until = session.machine_mut().now() + 20_000;
            session.run_until(until);
            let machine = session.machine_mut();
            let all: Vec<_> = machine.happenings().iter().map(|event| (event.what, event.pc, event.time)).collect();
            let mut memory = vec![0; 0x2000];
            machine.ram().read(DATA, &mut memory);
            (all, memory, events(machine, 0).len(), probe)
        };
        let plain = run(None);
        assert!(plain.2 > 3, "{:x?}", plain.0);
        for number in 0..PROGRAM.len() {
            let probed = run(Some(number));
            assert_eq!(probed.0, plain.0, "instruction {number}");
            assert!(probed.1 == plain.1, "instruction {number}: the memory differs");
        }
    }
}
