//! Compares decoding, emulation and relocation of x86 with capstone, on random bytes.

use capstone::Capstone;
use capstone::arch::BuildsCapstone;
use capstone::arch::x86::ArchMode;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use trapline_isa::arch::Emulation;
use trapline_isa::insn::{Flow, Insn, LONGEST};
use trapline_isa::plan::{Plan, Policy, Tail};
use trapline_isa::x86::emulate::Computation;
use trapline_isa::x86::shape::{Map, Shape};
use trapline_isa::x86::{I386, Mode, X86_64, decode};

const HERE: u64 = 0x4000_1000;
const SLOT: u64 = 0x4100_0020;

/// Random bytes that begin like an instruction.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    const PREFIXES: &[u8] = &[0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];
    let prefixes = prop::collection::vec(prop::sample::select(PREFIXES), 0..3);
    let rex = prop::option::weighted(0.3, 0x40..=0x4fu8);
    let opcode = prop_oneof![
        4 => any::<u8>().prop_map(|op| vec![op]),
        3 => any::<u8>().prop_map(|op| vec![0x0f, op]),
        1 => (prop::sample::select(&[0x38u8, 0x3a][..]), any::<u8>()).prop_map(|(map, op)| vec![0x0f, map, op]),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(form, op)| vec![0xc5, form | 0xc0, op]),
        1 => (1..4u8, any::<u8>(), any::<u8>()).prop_map(|(map, form, op)| vec![0xc4, 0xe0 | map, form, op]),
        1 => (1..4u8, any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(map, p1, p2, op)| vec![0x62, 0xf0 | map, p1 | 4, p2 | 8, op]),
    ];
    // Half of the ModRM bytes are pc-relative.
    let modrm = prop_oneof![any::<u8>(), (0..8u8).prop_map(|reg| reg << 3 | 5)];
    let rest = prop::collection::vec(any::<u8>(), 14);
    (prefixes, rex, opcode, modrm, rest).prop_map(|(prefixes, rex, opcode, modrm, rest)| {
        let mut bytes: Vec<u8> = prefixes.into_iter().chain(rex).chain(opcode).chain([modrm]).chain(rest).collect();
        bytes.truncate(15);
        bytes
    })
}

fn modes() -> impl Strategy<Value = Mode> {
    prop::sample::select(&[Mode::Bits32, Mode::Bits64][..])
}

fn isa(mode: Mode) -> &'static trapline_isa::arch::Isa {
    if mode == Mode::Bits64 { &X86_64 } else { &I386 }
}

fn capstone(mode: Mode) -> Capstone {
    let bits = if mode == Mode::Bits64 { ArchMode::Mode64 } else { ArchMode::Mode32 };
    Capstone::new().x86().mode(bits).build().expect("capstone knows x86")
}

fn at(mode: Mode, address: u64, bytes: &[u8]) -> Instruction {
    Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE).decode()
}

fn known(mode: Mode, bytes: &[u8]) -> Option<(Insn, Instruction)> {
    let insn = decode::decode(mode, HERE, bytes).ok()?;
    let instruction = decode::known(mode, &insn)?;
    Some((insn, instruction))
}

/// Instructions for which capstone finds another length, and the reason why ours is right.
fn excepted(mode: Mode, shape: &Shape) -> Option<&'static str> {
    let narrow = shape.prefixes.has(0x66);
    match (shape.map, shape.opcode) {
        (Map::Two, 0xb9 | 0xff) => Some("ud0 and ud1 have a ModRM byte for Linux and for CPUs; capstone leaves it out"),
        (Map::Two, 0x80..=0x8f) if mode == Mode::Bits64 && narrow => {
            Some("Intel ignores the prefix before jcc, as Linux does; AMD does not")
        }
        (Map::One, 0xc2) if shape.rex & 8 != 0 && narrow => {
            Some("what `ret` releases has 16 bits with any prefix; capstone reads 32")
        }
        _ => None,
    }
}

fn config() -> ProptestConfig {
    let regressions = FileFailurePersistence::Direct("tests/x86_second_opinion.regressions");
    ProptestConfig { cases: 20_000, failure_persistence: Some(Box::new(regressions)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// KP-5
    #[test]
    fn lengths_are_capstones(mode in modes(), bytes in bytes()) {
        let Some((insn, instruction)) = known(mode, &bytes) else { return Ok(()) };
        let shape = Shape::of(mode, &bytes).expect("it was decoded");
        let capstone = capstone(mode);
        let second = capstone.disasm_count(&bytes, HERE, 1).expect("capstone runs");
        if let (Some(second), None) = (second.iter().next(), excepted(mode, &shape)) {
            prop_assert_eq!(second.len(), insn.bytes().len(), "{:?} {:x?}", instruction.code(), bytes);
        }
    }

    /// KP-5: `Shape` finds the fields that the decoder finds, and the length if its table has the opcode.
    #[test]
    fn shapes_agree_with_the_decoder(mode in modes(), bytes in bytes()) {
        let Some((insn, _)) = known(mode, &bytes) else { return Ok(()) };
        let shape = Shape::of(mode, insn.bytes()).expect("it was decoded");
        let mut decoder = Decoder::with_ip(mode.bits(), insn.bytes(), HERE, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let fields = decoder.get_constant_offsets(&instruction);
        if shape.displacement.1 != 0 {
            prop_assert_eq!(shape.displacement, (fields.displacement_offset(), fields.displacement_size()), "{:x?}", bytes);
        }
        if fields.has_immediate() {
            prop_assert_eq!(shape.immediate, fields.immediate_offset(), "{:x?}", bytes);
        }
        prop_assert_eq!(shape.is_ip_relative(mode), instruction.is_ip_rel_memory_operand(), "{:x?}", bytes);
        // The table is Linux's, which lacks AMD's `extrq` and `insertq`.
        let is_sse4a = shape.map == Map::Two && shape.opcode == 0x78;
        if let (Some(length), false) = (shape.legacy_length(mode), is_sse4a) {
            prop_assert_eq!(length, insn.bytes().len(), "{:x?}", bytes);
        }
    }

    /// KP-1: with both tails, for what either policy accepts.
    #[test]
    fn the_decoder_sees_the_same_instruction_in_a_copy(mode in modes(), bytes in bytes()) {
        let Some((insn, original)) = known(mode, &bytes) else { return Ok(()) };
        let isa = isa(mode);
        let accepted = [Policy::Best, Policy::LINUX_6_1].iter().any(|policy| (isa.plan)(&insn, *policy).is_ok());
        for tail in [Tail::Breakpoint, Tail::JumpBack] {
            // Only pc-relative instructions cannot be copied 2 GiB away.
            let Ok(copy) = (isa.copy)(&insn, SLOT, tail) else {
                prop_assert!(mode == Mode::Bits64);
                continue;
            };
            let elsewhere = at(mode, SLOT, copy.bytes());
            prop_assert_eq!(elsewhere.len(), insn.bytes().len());
            let behind = SLOT + copy.displaced as u64;
            let to_the_tail = insn.flow.target().is_some() && elsewhere.near_branch_target() == behind;
            let sixteen_bits = insn.flow.target().is_some() && insn.bytes().contains(&0x66);
            // Linux 6.1 accepts `xbegin` and copies it unmodified.
            let is_xbegin = original.mnemonic() == iced_x86::Mnemonic::Xbegin;
            if accepted && !to_the_tail && !sixteen_bits && !is_xbegin {
                prop_assert_eq!(elsewhere, original, "{:x?} {:x?}", bytes, copy.bytes());
            }
            let way_back = at(mode, behind, &copy.bytes()[copy.displaced..]);
            match tail {
                Tail::Breakpoint => prop_assert_eq!(way_back.code(), iced_x86::Code::Int3),
                Tail::JumpBack => prop_assert_eq!(way_back.near_branch_target(), insn.next()),
            }
        }
    }

    /// KP-2: an emulated branch goes to the decoder's target.
    #[test]
    fn emulated_targets_are_the_decoders(mode in modes(), bytes in bytes()) {
        let Some((insn, instruction)) = known(mode, &bytes) else { return Ok(()) };
        let Ok(plan) = (isa(mode).plan)(&insn, Policy::Best) else { return Ok(()) };
        match (plan, insn.flow) {
            (Plan::Emulate(Emulation::X86(what)), Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target)) => {
                let goes_to = match what {
                    Computation::Jump(to) | Computation::Branch(_, to) | Computation::Call(to) => Some(to),
                    Computation::Loop { target, .. } => Some(target),
                    _ => None,
                };
                prop_assert_eq!(goes_to, Some(target), "{:x?}", bytes);
            }
            (Plan::Emulate(Emulation::X86(what)), Flow::Next) => {
                use Computation::{ClearInterrupts, PopFlags, PushFlags, SetInterrupts};
                let is_of_flags = matches!(what, PushFlags(_) | PopFlags(_) | ClearInterrupts | SetInterrupts);
                prop_assert!(is_of_flags, "{:?} {:x?}", instruction.code(), bytes);
            }
            (Plan::Emulate(Emulation::X86(_)), Flow::IndirectCall | Flow::IndirectJump | Flow::Return) => {}
            (Plan::Boost | Plan::Step, Flow::Next) => {}
            (plan, flow) => prop_assert!(false, "{:?} for {:?}: {:x?}", plan, flow, bytes),
        }
    }

    /// KP-5: nothing panics, and a decoded instruction has the bytes that were given.
    #[test]
    fn any_bytes_are_decoded_without_a_panic(mode in modes(), bytes in prop::collection::vec(any::<u8>(), 0..24)) {
        let isa = isa(mode);
        match (isa.decode)(HERE, &bytes) {
            Ok(insn) => {
                prop_assert!(!insn.bytes().is_empty() && bytes.starts_with(insn.bytes()));
                for policy in [Policy::Best, Policy::LINUX_6_1] {
                    let refused = (isa.plan)(&insn, policy).err();
                    prop_assert!(refused.as_ref().is_none_or(|refusal| isa.rule_of(refusal).is_some()), "{:?}", refused);
                }
            }
            Err(error) => prop_assert!(!error.truncated || bytes.len() < LONGEST),
        }
    }
}

/// KP-5: the tests above compare only bytes that both decode, so those must be many.
#[test]
fn capstone_decodes_enough_instructions_to_compare() {
    let mut runner = TestRunner::deterministic();
    let mut counts = [0, 0];
    for mode in [Mode::Bits32, Mode::Bits64] {
        let capstone = capstone(mode);
        for _ in 0..5_000 {
            let bytes = bytes().new_tree(&mut runner).expect("bytes").current();
            if known(mode, &bytes).is_some() {
                let second = capstone.disasm_count(&bytes, HERE, 1).expect("capstone runs");
                counts[usize::from(second.iter().next().is_some())] += 1;
            }
        }
    }
    let [unknown, both] = counts;
    assert!(both > 3_000 && both > 50 * unknown, "{both} known to both, {unknown} not to capstone");
}
