//! The interval timer of PA-RISC in the machine: a small program that sets its comparator, takes the external interrupts, and polls
//! for one that it masks. The probed run must equal the unprobed one.

use trapline::boot::{Kernel, Segment};
use trapline::machine::{Config, Stop, What};
use trapline::probed::Session;
use trapline::symbols::{Entry, Symbols};
use trapline_isa::arch::Arch;
use trapline_probes::probe::{Flow, Kprobe};
use trapline_tests::{assert_same, run};

/// The virtual address of physical address 0.
const SEEN: u64 = 0xc000_0000;
/// The physical address of the text.
const TEXT: u64 = 0x10_0000;
/// The physical address of the vector of external interrupts.
const VECTOR: u64 = 0x10_4080;
/// Words in front of the function `main`.
const HEAD_WORDS: usize = 24;
/// Nanoseconds between an interrupt and the next value of the comparator.
const PERIOD: u64 = 2000;

/// Maps the first 256 MiB, enables two external interrupts, and goes on at `main` with translation and interrupts on.
const HEAD: [u32; HEAD_WORDS] = [
    0x2340_0801, // ldil L%0xc0000000,r26
    0x0800_0259, // copy r0,r25
    0x2300_0200, // ldil L%0x10000000,r24
    0x22e0_0260, // ldil L%0x13000000,r23
    0x1400_0000, // diag 0
    0x2022_0002, // ldil L%0x104000,r1
    0x01c1_1840, // mtctl r1,iva
    0x2040_0801, // ldil L%0xc0000000,r2
    0x01e2_1840, // mtctl r2,eiem
    0x2140_0921, // ldil L%0xc9000000,r10
    0x2160_0120, // ldil L%0x09000000,r11
    0x0220_1840, // mtctl r0,pcsq
    0x0220_1840, // mtctl r0,pcsq
    0x2020_0803, // ldil L%0xc0100000,r1
    0x3421_00c0, // ldo 0x60(r1),r1
    0x0241_1840, // mtctl r1,pcoq
    0x3421_0008, // ldo 4(r1),r1
    0x0241_1840, // mtctl r1,pcoq
    0x2020_4000, // ldil L%0x40000,r1
    0x3421_0016, // ldo 0xb(r1),r1
    0x02c1_1840, // mtctl r1,ipsw
    0x0000_0c00, // rfi
    0x0800_0240, // nop
    0x0800_0240, // nop
];

/// Starts the board's timer and the CPU's. Counts until 20 interrupts of the CPU's timer have come. Then masks all and polls.
const MAIN: [u32; 25] = [
    0x3404_1770, // ldi 3000,r4
    0x6944_0a00, // stw r4,0x500(r10)
    0x0200_08a3, // mfctl itmr,r3
    0x3463_0fa0, // ldo 2000(r3),r3
    0x0203_1840, // mtctl r3,itmr
    0x3404_0028, // ldi 20,r4
    0xb6b5_0002, // loop: addi 1,r21,r21
    0x8a84_7fed, // cmpb,> r4,r20,loop
    0x0a95_0298, // xor r21,r20,r24
    0x0001_0e60, // rsm 1,r0
    0x01e0_1840, // mtctl r0,eiem
    0x02e0_08ac, // mfctl eirr,r12
    0x02ec_1840, // mtctl r12,eirr
    0x0200_08a3, // mfctl itmr,r3
    0x3463_03e8, // ldo 500(r3),r3
    0x0203_1840, // mtctl r3,itmr
    0x0001_0d60, // ssm 1,r0
    0x02e0_08a8, // poll: mfctl eirr,r8
    0xc408_dfed, // bb,>= r8,0,poll
    0xb6f7_0002, // addi 1,r23,r23
    0x02e8_1840, // mtctl r8,eirr
    0x02e0_08a9, // mfctl eirr,r9
    0x6140_0c00, // stb r0,0x600(r10)
    0xe81f_1ff5, // b .
    0x0800_0240, // nop
];

/// Clears the requests in EIRR. Counts one of the CPU's timer in r20 and sets the comparator again. Counts one of the board in r22 and
/// ends it. It runs untranslated.
const HANDLER: [u32; 13] = [
    0x02e0_08a6, // mfctl eirr,r6
    0x02e6_1840, // mtctl r6,eirr
    0x08e6_0247, // or r6,r7,r7
    0xc406_c01a, // bb,>=,n r6,0,1f
    0xb694_0002, // addi 1,r20,r20
    0x0200_08a3, // mfctl itmr,r3
    0x3463_0fa0, // ldo 2000(r3),r3
    0x0203_1840, // mtctl r3,itmr
    0xc426_c00a, // 1: bb,>=,n r6,1,2f
    0xb6d6_0002, // addi 1,r22,r22
    0x6960_0a30, // stw r0,0x518(r11)
    0x0000_0c00, // 2: rfi
    0x0800_0240, // nop
];

fn session() -> Session {
    let segment = |physical: u64, words: &[u32]| Segment {
        physical,
        virtual_address: SEEN + physical,
        size: 4 * words.len() as u64,
        bytes: words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>().into(),
        executable: true,
    };
    let main = SEEN + TEXT + 4 * HEAD_WORDS as u64;
    let names = [("head", SEEN + TEXT), ("main", main), ("_end_of_text", main + 4 * MAIN.len() as u64)];
    let entry = |(name, address): (&str, u64)| Entry { address, name: name.into(), kind: 'T', module: None };
    let symbols = Symbols::new(names.map(entry).into());
    let text = [&HEAD[..], &MAIN].concat();
    let kernel = Kernel::from_parts(Arch::Parisc, TEXT, vec![segment(TEXT, &text), segment(VECTOR, &HANDLER)], symbols);
    Session::new(kernel, &Config { record_events: true, ..Config::default() }).expect("a machine")
}

fn register(session: &mut Session, name: &str) -> u64 {
    let registers = session.machine_mut().registers();
    registers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).expect("a register")
}

/// BY-4, DV-4: the comparator interrupts when the timer equals it, by bit 0 of EIRR. An interrupt of the board has another bit. A request
/// that EIEM masks is in EIRR, interrupts nothing, and is over when the guest clears it.
#[test]
fn the_comparator_interrupts_and_can_be_polled() {
    let mut session = session();
    let seen = run(&mut session);
    assert_eq!(seen.stop, Stop::PowerOff(0), "{:x?}", seen.happenings.last());
    let times = |number: u32| -> Vec<u64> {
        seen.happenings.iter().filter(|seen| seen.what == What::Interrupt(number)).map(|seen| seen.time / 4).collect()
    };
    let (by_timer, by_board) = (times(0), times(0x20));
    assert_eq!((by_timer.len() as u64, by_board.len() as u64), (20, register(&mut session, "gr22")));
    assert_eq!((register(&mut session, "gr20"), register(&mut session, "gr7")), (20, 0xc000_0000));
    // The handler reads the timer a few instructions after the interrupt, and interrupts wait for the end of a block.
    let gaps: Vec<u64> = by_timer.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (PERIOD..PERIOD + 100).contains(gap)), "{gaps:?}");
    let polled = ["gr8", "gr9"].map(|name| register(&mut session, name));
    assert_eq!(polled, [0x8000_0000, 0], "the masked request, and none after it was cleared");
    assert!(register(&mut session, "gr23") > 10, "it polled for 500 ns, and each read takes 20 ns");
}

/// BY-4, KP-1, OP-1: with a probe on each instruction, each interrupt comes at the same address and time.
#[test]
fn a_probed_run_is_the_same_run() {
    let plain = run(&mut session());
    for post in [false, true] {
        let mut probed = session();
        let mut probes = Vec::new();
        for number in 0..MAIN.len() as u64 {
            let probe = Kprobe::at_address(SEEN + TEXT + 4 * (HEAD_WORDS as u64 + number)).pre(|_| Flow::Continue);
            let probe = if post { probe.post(|_| {}) } else { probe };
            probed.register_kprobe(&probe).expect("every instruction may be probed");
            probes.push(probe);
        }
        assert_same(&format!("post-handlers: {post}"), &plain, &run(&mut probed));
        let hits: u64 = probes.iter().map(Kprobe::hits).sum();
        assert!(hits > 20_000, "{hits} hits");
    }
}

/// DV-4: a snapshot holds the comparator, so the restored run ends as the first one.
#[test]
fn a_snapshot_holds_the_comparator() {
    let plain = run(&mut session());
    let mut first = session();
    first.run_until(plain.time / 8);
    let snapshot = first.machine_mut().snapshot().expect("a snapshot");
    let mut second = session();
    second.machine_mut().restore(&snapshot).expect("restored");
    let [first, second] = [&mut first, &mut second].map(run);
    assert_eq!((&first.stop, first.time), (&plain.stop, plain.time));
    assert_eq!((&second.stop, second.time), (&plain.stop, plain.time));
}
