#![allow(clippy::type_complexity)] // tables of cases

use super::super::{I386, X86_64};
use super::*;
use crate::arch::Isa;
use crate::detour::lean;
use crate::region::{PlainText, Region, Rule, region};
use alloc::vec;
use alloc::vec::Vec;

const START: u64 = 0xffff_ffff_8100_0000;
/// A displacement that stays outside of every function here.
const THUNKS: u64 = 0x1000;

#[derive(Clone, Copy)]
enum Around {
    Nothing,
    Faults(u64, u64),
    Patched(u64),
    OtherPart,
}

fn answer(isa: &'static Isa, policy: Policy, bytes: &[u8], at: u64, around: Around) -> Result<Region, Rule> {
    let start = if isa.word == 4 { START & 0xffff_ffff } else { START };
    let mut text =
        PlainText { start, bytes: bytes.to_vec(), thunks: start + THUNKS..start + THUNKS + 0x100, ..PlainText::default() };
    let mut end = start + bytes.len() as u64;
    match around {
        Around::Nothing => {}
        Around::Faults(from, to) => text.fixups.push((start + from, start + to)),
        Around::Patched(at) => text.patched.push(start + at),
        Around::OtherPart => {
            // The last two bytes are a part that the compiler has split off.
            end -= 2;
            text.parts.push(end..end + 2);
        }
    }
    // Padding that a walk may read behind the function.
    text.bytes.extend([0x90; 16]);
    region(isa, policy, start..end, start + at, &mut text).map_err(|refusal| Rule::of(&refusal).expect("a rule with a name"))
}

/// OP-2, OP-3: one case for each rule, under both policies.
#[test]
fn each_rule_has_its_case() {
    use Around::*;
    use Rule::*;
    const OK: Option<Rule> = None;
    const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
    let tail = |bytes: &[u8]| [&NOP5[..], bytes].concat();
    #[rustfmt::skip]
    let cases: &[(&str, Vec<u8>, u64, Around, Option<Rule>, Option<Rule>)] = &[
        // what                                   text                                             at  around        
        // Linux 6.1             best
        ("a nop of five bytes",                   tail(&[0xc3]),                                    0, Nothing,       OK,                   OK),
        ("push, mov, and a push",                 vec![0x55, 0x48, 0x89, 0xe5, 0x53, 0xc3],         0, Nothing,       OK,                   OK),
        ("only four bytes",                       vec![0x55, 0x48, 0x89, 0xe5],                     0, Nothing,       Some(NoRoom),         Some(NoRoom)),
        ("the last four bytes",                   tail(&[0x55, 0x48, 0x89, 0xe5]),                  5, Nothing,       Some(NoRoom),         Some(NoRoom)),
        ("undecodable bytes, far behind",         tail(&[0xc3, 0x0f, 0x3a, 0xff, 0]),                   0, Nothing,       Some(Undecodable),    Some(Undecodable)),
        ("jmp *%rax behind",                      tail(&[0xff, 0xe0]),                              0, Nothing,       Some(IndirectJump),   Some(IndirectJump)),
        ("jmp *(%rax) behind",                    tail(&[0xff, 0x20]),                              0, Nothing,       Some(IndirectJump),   Some(IndirectJump)),
        ("call *%rax behind",                     tail(&[0xff, 0xd0, 0xc3]),                        0, Nothing,       OK,                   OK),
        ("jmp to a thunk behind",                 tail(&[0xe9, 0xf6, 0x0f, 0, 0]),                  0, Nothing,       Some(IndirectJump),   Some(IndirectJump)),
        ("call of a thunk behind",                tail(&[0xe8, 0xf6, 0x0f, 0, 0, 0xc3]),            0, Nothing,       OK,                   OK),
        ("jmp to its first byte",                 tail(&[0xeb, 0xf9]),                              0, Nothing,       OK,                   OK),
        ("jmp to byte 1",                         tail(&[0xeb, 0xfa]),                              0, Nothing,       Some(JumpInto),       Some(JumpInto)),
        ("jne to byte 4",                         tail(&[0x75, 0xfd, 0xc3]),                        0, Nothing,       Some(JumpInto),       Some(JumpInto)),
        ("jne rel32 to byte 4",                   tail(&[0x0f, 0x85, 0xf9, 0xff, 0xff, 0xff]),      0, Nothing,       Some(JumpInto),       Some(JumpInto)),
        ("loop to byte 2",                        tail(&[0xe2, 0xfb, 0xc3]),                        0, Nothing,       Some(JumpInto),       Some(JumpInto)),
        ("jmp to byte 5, behind the jump",        tail(&[0xeb, 0xfe]),                              0, Nothing,       Some(JumpInto),       OK),
        ("jmp to byte 6",                         tail(&[0x90, 0xeb, 0xfe]),                        0, Nothing,       OK,                   OK),
        ("call to byte 2",                        tail(&[0xe8, 0xf8, 0xff, 0xff, 0xff]),            0, Nothing,       OK,                   Some(CallInto)),
        ("vpshufd, taken for a jump to byte 2",   tail(&[0xc5, 0xf9, 0x70, 0xc0, 0xf8, 0xc3]),      0, Nothing,       Some(JumpInto),       OK),
        ("a part elsewhere jumps to byte 3",      tail(&[0xc3, 0xeb, 0xfb]),                        0, OtherPart,     OK,                   Some(JumpInto)),
        ("a fault expected behind",               tail(&[0x8b, 0x00, 0xc3]),                        0, Faults(5, 7),   Some(ExpectedFault),  OK),
        ("a fault expected under the jump",       vec![0x8b, 0x00, 0x90, 0x90, 0x90, 0xc3],         0, Faults(0, 5),   Some(ExpectedFault),  Some(ExpectedFault)),
        ("going on under the jump after it",      vec![0x90, 0x90, 0x90, 0x90, 0x90, 0x8b, 0x00, 0xc3], 0, Faults(5, 2), Some(ExpectedFault), Some(Fixup)),
        ("a call under the jump",                 vec![0xe8, 0, 0, 0, 0, 0xc3],                     0, Nothing,       Some(Unmovable),      Some(Unmovable)),
        ("a branch under it",                     vec![0x90, 0x74, 0x07, 0x90, 0x90, 0xc3],         0, Nothing,       Some(Unmovable),      Some(Unmovable)),
        ("a return at it, and padding",           vec![0xc3, 0x0f, 0x1f, 0x40, 0],                  0, Nothing,       OK,                   Some(Unmovable)),
        ("a return, and int3",                    vec![0xc3, 0xcc, 0xcc, 0xcc, 0xcc],               0, Nothing,       Some(Unmovable),      Some(Unmovable)),
        ("ud2 under it",                          vec![0x90, 0x0f, 0x0b, 0x90, 0x90],               0, Nothing,       Some(Unmovable),      Some(Unmovable)),
        ("cli under it",                          vec![0xfa, 0x90, 0x90, 0x90, 0x90],               0, Nothing,       OK,                   Some(Unmovable)),
        ("rep movsb under it",                    vec![0xf3, 0xa4, 0x90, 0x90, 0x90],               0, Nothing,       OK,                   Some(Unmovable)),
        ("neg: f7, which Linux does not boost",   vec![0xf7, 0xd8, 0x90, 0x90, 0x90],               0, Nothing,       Some(Unmovable),      OK),
        ("mov to ss under it",                    vec![0x8e, 0xd0, 0x90, 0x90, 0x90],               0, Nothing,       Some(Unmovable),      Some(Unmovable)),
        ("a site under it",                       tail(&[0xc3]),                                    0, Patched(0),    Some(Reserved),       Some(Reserved)),
        ("a site behind it",                      tail(&[0x90, 0xc3]),                              0, Patched(5),    OK,                   OK),
    ];
    for (what, bytes, at, around, linux, best) in cases {
        for isa in [&X86_64, &I386] {
            // 48 is a prefix in 64-bit mode and an instruction in 32-bit mode.
            if isa.word == 4 && bytes.contains(&0x48) {
                continue;
            }
            for (policy, expected) in [(Policy::LINUX_6_1, linux), (Policy::Best, best)] {
                let found = answer(isa, policy, bytes, *at, *around);
                assert_eq!(found.err(), *expected, "{what}, {isa:?}, {policy:?}");
            }
        }
    }
}

/// OP-3: a region has whole instructions, and no more than the jump needs.
#[test]
fn a_region_is_made_of_whole_instructions() {
    #[rustfmt::skip]
    let cases: &[(&[u8], usize, usize)] = &[
        // text                                                                                  bytes instructions
        (&[0x90; 8],                                                                                 5, 5),
        (&[0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0xc3],                                                6, 3),
        (&[0x90, 0x90, 0x90, 0x90, 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0xc3],                        14, 5),
    ];
    for (bytes, len, count) in cases {
        let found = answer(&X86_64, Policy::Best, bytes, 0, Around::Nothing).expect("a jump may stand there");
        assert_eq!((found.bytes(), found.insns().len()), (&bytes[..*len], *count));
        assert_eq!((found.start(), found.end()), (START, START + *len as u64));
    }
}

/// OP-4: a lean detour is a no-op, the relocated instructions, and the jump back.
#[test]
fn a_lean_detour_runs_the_instructions_and_jumps_back() {
    // push %rbp; mov 0x100(%rip),%rax
    let text = [0x55, 0x48, 0x8b, 0x05, 0, 1, 0, 0, 0xc3];
    let region = answer(&X86_64, Policy::Best, &text, 0, Around::Nothing).expect("a jump may stand there");
    let code = lean(&X86_64, &BITS_64, &region, START + 0x80).expect("in reach");
    assert_eq!(code.bytes(), [0x90, 0x55, 0x48, 0x8b, 0x05, 0x7f, 0, 0, 0, 0xe9, 0x7a, 0xff, 0xff, 0xff]);
    let far = lean(&X86_64, &BITS_64, &region, START - (1 << 40)).expect_err("out of reach");
    assert!(far.why.contains("2 GiB"), "{far}");
}

/// OP-11: the jump and its reach.
#[test]
fn the_jump_reaches_two_gigabytes_either_way() {
    let to = |distance: i64| START.wrapping_add_signed(distance);
    let at = |address| Insn::new(address, &[], Flow::Next);
    assert_eq!((BITS_64.jump)(&at(START), to(0x10)).map(|bytes| bytes[..5].to_vec()), Some(vec![0xe9, 0x0b, 0, 0, 0]));
    #[rustfmt::skip]
    let edges = [(0x8000_0004, true), (0x8000_0005, false), (-0x7fff_fffb, true), (-0x7fff_fffc, false)];
    for (distance, reached) in edges {
        assert_eq!((BITS_64.jump)(&at(START), to(distance)).is_some(), reached, "{distance:#x}");
        assert!((BITS_32.jump)(&at(START & 0xffff_ffff), to(distance) & 0xffff_ffff).is_some(), "32-bit addresses wrap");
    }
}
