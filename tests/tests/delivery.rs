//! Delivery of exceptions by whatever tables a guest has made: no descriptor, no vector and no state of its own stops more than the guest.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{Before, DATA, HANDLERS, How, LAST_PAGE, Lab, STACK, bench};

/// Where the pseudo-descriptors stand that LGDT and LIDT take, and the tables that these may point to.
const POINTERS: u64 = DATA;
const DESCRIPTORS: u64 = DATA + 0x100;
const TASK: u64 = DATA + 0x400;
const GATES: u64 = DATA + 0x800;

/// Selectors in the table of descriptors that a case has: code, data, both for user programs, a task, two that are anything.
const CODE: u64 = 0x10;
const SELECTORS: [u64; 9] = [CODE, 0x18, 0x23, 0x2b, 0x30, 0x40, 0x48, 0, 0xfff8];

/// An address, often one at which arithmetic runs over or the address space ends.
fn address() -> BoxedStrategy<u64> {
    let edges = [0, 1 << 31, 1 << 32, 1 << 47, 0xffff_8000_0000_0000, u64::MAX];
    prop_oneof![
        4 => prop::sample::select(vec![GATES, DESCRIPTORS, TASK, STACK, HANDLERS]),
        3 => (prop::sample::select(edges.to_vec()), -70i64..70).prop_map(|(edge, by)| edge.wrapping_add_signed(by)),
        1 => any::<u64>(),
    ]
    .boxed()
}

fn gate(arch: Arch) -> impl Strategy<Value = Vec<u8>> {
    let target = prop_oneof![3 => (0..256u64).prop_map(|vector| HANDLERS + 16 * vector), 1 => address()];
    let selector = prop_oneof![4 => Just(CODE), 1 => prop::sample::select(SELECTORS.to_vec())];
    let kind = prop_oneof![4 => prop::sample::select(vec![0x8e, 0x8f, 0xee, 0xef]), 1 => 0..256u64];
    (target, selector, kind, 0..8u64).prop_map(move |(target, selector, kind, stack)| {
        let low = target & 0xffff | selector << 16 | stack << 32 | kind << 40 | (target >> 16 & 0xffff) << 48;
        match arch {
            Arch::X86_64 => [low, target >> 32].iter().flat_map(|word| word.to_le_bytes()).collect(),
            _ => low.to_le_bytes().to_vec(),
        }
    })
}

/// The table of descriptors, with a task's at [`SELECTORS`]' fifth place.
fn descriptors(arch: Arch) -> impl Strategy<Value = Vec<u8>> {
    let (code, user) = match arch {
        Arch::X86_64 => (0x00af_9b00_0000_ffff, 0x00af_fb00_0000_ffff),
        _ => (0x00cf_9b00_0000_ffff, 0x00cf_fb00_0000_ffff),
    };
    (prop_oneof![3 => Just(TASK), 2 => address()], any::<[u64; 2]>(), prop_oneof![4 => Just(code), 1 => any::<u64>()]).prop_map(
        move |(task, [one, other], code)| {
            let low = 0x8900_0000_0067 | (task & 0xff_ffff) << 16 | (task >> 24 & 0xff) << 56;
            let words = [0, 0, code, 0x00cf_9300_0000_ffff, user, 0x00cf_f300_0000_ffff, low, task >> 32, one, other];
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        },
    )
}

/// Instructions that raise something, or end up doing so.
fn raising(arch: Arch) -> impl Strategy<Value = Vec<u8>> {
    let long_only: &[&[u8]] = &[&[0x0f, 0x05], &[0x48, 0xcf], &[0xff, 0x23]];
    let short_only: &[&[u8]] = &[&[0xce], &[0x62, 0x03], &[0xcf], &[0x9a, 0, 0, 0, 0, 0x48, 0]];
    #[rustfmt::skip]
    let mut known: Vec<Vec<u8>> = [
        &[0xcc][..], &[0xcd, 3], &[0xcd, 0x80], &[0xf1], &[0x0f, 0x0b], &[0xf7, 0xf1], &[0x8b, 0x03], &[0x89, 0x03], &[0xff, 0xe3], &[0xc3], &[0x50],
        &[0x8e, 0xd0], &[0x8e, 0xd8], &[0xcb], &[0xf4], &[0x9d],
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    known.extend(if arch == Arch::X86_64 { long_only } else { short_only }.iter().map(|bytes| bytes.to_vec()));
    prop_oneof![4 => prop::sample::select(known), 1 => (0..=255u8).prop_map(|vector| vec![0xcd, vector])]
}

/// LGDT, LIDT and, where they come so far, LTR and a return to user code; then what raises something.
fn x86_case(arch: Arch) -> BoxedStrategy<(Before, u64)> {
    let long = arch == Arch::X86_64;
    let table = |at: u64| prop_oneof![5 => Just(at), 4 => address()];
    let limit = prop_oneof![3 => Just(0xffff_u16), 1 => any::<u16>(), 1 => 0..64u16];
    let tables = (table(DESCRIPTORS), limit.clone(), table(GATES), limit);
    let task = prop::collection::vec(address(), 13);
    let contents = (descriptors(arch), prop::collection::vec(gate(arch), 1..6), task);
    let frame = (prop::bool::weighted(0.25), prop::sample::select(SELECTORS.to_vec()), prop_oneof![Just(STACK), address()]);
    let state = (prop_oneof![3 => Just(STACK), 1 => address()], prop::collection::vec(address(), 16), any::<u64>());
    (tables, contents, any::<bool>(), frame, raising(arch), state)
        .prop_map(move |(tables, contents, loads_task, frame, bytes, (stack, registers, drawn))| {
            let (descriptors, descriptor_limit, gates, gate_limit) = tables;
            let (descriptor_bytes, some_gates, task) = contents;
            let pointer = |base: u64, limit: u16| [&limit.to_le_bytes()[..], &base.to_le_bytes()].concat();
            let gate_bytes = some_gates.iter().cycle().take(256).flatten().copied().take(0x800).collect();
            let memory = vec![
                (POINTERS, pointer(descriptors, descriptor_limit)),
                (POINTERS + 16, pointer(gates, gate_limit)),
                (DESCRIPTORS, descriptor_bytes),
                (TASK + 4, task.iter().flat_map(|word| word.to_le_bytes()).collect()),
                (GATES, gate_bytes),
            ];
            let mut front = Vec::new();
            for (operation, at) in [(0x14u8, POINTERS), (0x1c, POINTERS + 16)] {
                front.extend([0x0f, 0x01, if long { operation } else { operation | 1 }]);
                front.extend(if long { &[0x25][..] } else { &[] });
                front.extend((at as u32).to_le_bytes());
            }
            if loads_task {
                front.extend([0x66, 0xb8, 0x30, 0x00, 0x0f, 0x00, 0xd8]);
            }
            if let (true, selector, to) = frame {
                // ss, sp, flags, cs, pc: a return to where the next instruction stands, or nowhere.
                for word in [selector | 3, to, 2 | drawn & 0x4_7ed5, selector] {
                    front.push(0x68);
                    front.extend((word as u32).to_le_bytes());
                }
                front.push(0x68);
                front.extend((trapline_tests::lab::PLACE as u32).to_le_bytes());
                front.extend(if long { &[0x48, 0xcf][..] } else { &[0xcf] });
            }
            (Before { bytes, front, registers, flags: drawn, seed: drawn, memory, ..Before::default() }, stack)
        })
        .boxed()
}

/// Vectors anywhere, stacks anywhere, and what raises something.
fn arm_case(arch: Arch) -> BoxedStrategy<(Before, u64)> {
    #[rustfmt::skip]
    let (front, known): (u32, &[u32]) = match arch {
        // msr vbar_el1, x0; svc, brk, udf, ldr, str, br, ret, eret, hvc, smc, msr sp_el0 and ttbr0_el1
        Arch::Arm64 => (0xd518_c000, &[
            0xd400_0001, 0xd420_0020, 0, 0xf940_0042, 0xf900_0042, 0xd61f_0040, 0xd65f_03c0, 0xd69f_03e0, 0xd400_0002, 0xd400_0003, 0xd518_4102,
            0xd518_2002,
        ]),
        // mcr p15, 0, r0, c12, c0, 0; svc, bkpt, udf, ldr, str, bx, pop {pc}, movs pc, lr, rfe, srs, hvc, mcr of the tables
        _ => (0xee0c_0f10, &[
            0xef00_0000, 0xe120_0070, 0xe7f0_00f0, 0xe592_2000, 0xe582_2000, 0xe12f_ff12, 0xe8bd_8000, 0xe1b0_f00e, 0xf8b2_0a00, 0xf96d_0513,
            0xe140_0070, 0xee02_2f10,
        ]),
    };
    let seen_from = bench(arch).seen_from;
    let far = move || prop_oneof![1 => address(), 1 => address().prop_map(move |at| seen_from.wrapping_add(at))];
    (prop::sample::select(known), prop::collection::vec(far(), 31), any::<u64>(), prop_oneof![3 => Just(STACK), 1 => address()])
        .prop_map(move |(word, registers, drawn, stack)| {
            let front = front.to_le_bytes().to_vec();
            let case =
                Before { bytes: word.to_le_bytes().to_vec(), front, registers, flags: drawn, seed: drawn, ..Before::default() };
            (case, stack)
        })
        .boxed()
}

/// random descriptor tables, vectors and states; the guest may die of them, the program may not.
#[test]
fn whatever_tables_a_guest_has_made_its_exceptions_end_in_the_guest() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for arch in [Arch::X86_64, Arch::I386, Arch::Arm64, Arch::Arm] {
        let is_x86 = matches!(arch, Arch::X86_64 | Arch::I386);
        // Vectors that lead nowhere raise faults for ever, until the machine has had enough of them.
        let cases = if is_x86 { cases } else { cases / 10 };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let (lab, delivered, probed) = (RefCell::new(Lab::new(arch)), RefCell::new(0), RefCell::new(0));
        let strategy = (if is_x86 { x86_case(arch) } else { arm_case(arch) }, any::<bool>());
        let outcome = runner.run(&strategy, |((case, stack), with_probe)| {
            let mut lab = lab.borrow_mut();
            (lab.stack, lab.may_miss) = (stack, true);
            let after = match with_probe {
                // What is refused, or is not come to, is run as it stands.
                true => lab.run(&case, How::Probed).or_else(|_| lab.run(&case, How::InPlace)),
                false => lab.run(&case, How::InPlace),
            };
            let after = after.map_err(TestCaseError::fail)?;
            let ends = matches!(after.stop, Stop::Dead(_) | Stop::Limit);
            *delivered.borrow_mut() += u32::from(after.happened.iter().any(|event| matches!(event.what, What::Exception(..))));
            *probed.borrow_mut() += lab.hits;
            let is_well = after.happened.last().is_some_and(|event| event.what == What::Halt) && !lab.is_ruined(&after);
            if !is_x86 || !is_well {
                *lab = Lab::new(arch);
            }
            prop_assert!(ends, "{:?}", after.stop);
            Ok(())
        });
        let (delivered, probed) = (delivered.into_inner(), probed.into_inner());
        println!("{}: {cases} cases, an exception in {delivered}, {probed} hits", arch.name());
        outcome.unwrap_or_else(|failure| panic!("{}: {failure}", arch.name()));
        assert!(delivered > cases / 2 && probed > u64::from(cases) / 50, "{}: {delivered}, {probed}", arch.name());
    }
}

/// a breakpoint in the last byte of the address space: what is behind it is at 0.
#[test]
fn a_breakpoint_in_the_last_byte_of_the_address_space_is_the_guests_to_take() {
    for (arch, last) in [(Arch::X86_64, u64::MAX), (Arch::I386, 0xffff_ffff)] {
        let mut lab = Lab::new(arch);
        let memory = vec![(LAST_PAGE + 0xfff, vec![0xcc])];
        // jmp *%bx
        let case = Before { bytes: vec![0xff, 0xe3], registers: vec![last; 16], seed: 1, memory, ..Before::default() };
        let after = lab.run(&case, How::InPlace).expect("it runs");
        let first = after.happened.first().map(|event| (event.what, event.pc, event.time));
        assert_eq!(first, Some((What::Exception(3, None), 0, 3)), "{}: {:x?}", arch.name(), after.happened);
    }
}
