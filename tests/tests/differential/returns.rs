//! Followed calls return in each way that functions return. Registers, stack and time must be as without a return
//! probe.

use super::{difference, spread};
use trapline_harness::{Test, tests};
use trapline_isa::arch::Arch;
use trapline_tests::lab::{After, Before, How, Lab, STACK, STACK_START, place};

/// A way to return: its name, the code that calls and sleeps, and the function.
type Way = (&'static str, Arch, &'static [u8], &'static [u8]);

/// push 7; push 9; call behind the hlt.
const CALL: &[u8] = &[0x6a, 0x07, 0x6a, 0x09, 0xe8, 0x01, 0x00, 0x00, 0x00, 0xf4];
/// bl behind the wfi.
const BL: &[u8] = &[0x00, 0x00, 0x00, 0xeb, 0x03, 0xf0, 0x20, 0xe3];
const BL_A64: &[u8] = &[0x02, 0x00, 0x00, 0x94, 0x7f, 0x20, 0x03, 0xd5];
const BL_PPC: &[u8] = &[0x09, 0x00, 0x00, 0x48, 0x3c, 0x00, 0x00, 0x7c];
const BL_T32: &[u8] = &[0x00, 0xf0, 0x01, 0xf8, 0x30, 0xbf];

const BL_PPC_BIG: &[u8] = &[0x48, 0x00, 0x00, 0x09, 0x7c, 0x00, 0x00, 0x3c];

/// brasl %r14, behind the svc.
const BRASL: &[u8] = &[0xc0, 0xe5, 0x00, 0x00, 0x00, 0x04, 0x0a, 0x00];

/// call behind the halt; nop; ta 0x7f
const CALL_V9: &[u8] = &[0x40, 0, 0, 3, 1, 0, 0, 0, 0x91, 0xd0, 0x20, 0x7f];

/// stmg %r14,%r15,136(%r15); lghi %r14,0; lmg %r14,%r15,136(%r15); br %r14
const SAVES_R14: &[u8] =
    &[0xeb, 0xef, 0xf0, 0x88, 0x00, 0x24, 0xa7, 0xe9, 0x00, 0x00, 0xeb, 0xef, 0xf0, 0x88, 0x00, 0x04, 0x07, 0xfe];

/// mflr r0; std r0, 16(r1); ld r0, 16(r1); mtlr r0; li r0, 0; blr
const SAVES_LR: &[u8] = &[
    0xa6, 0x02, 0x08, 0x7c, 0x10, 0x00, 0x01, 0xf8, 0x10, 0x00, 0x01, 0xe8, 0xa6, 0x03, 0x08, 0x7c, 0x00, 0x00, 0x00, 0x38, 0x20,
    0x00, 0x80, 0x4e,
];

#[rustfmt::skip]
const WAYS: &[Way] = &[
    ("ret",                      Arch::I386,   CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc3]),
    ("ret 8",                    Arch::I386,   CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc2, 0x08, 0x00]),
    ("ret 4",                    Arch::I386,   CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc2, 0x04, 0x00]),
    ("ret",                      Arch::X86_64, CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc3]),
    ("ret 16",                   Arch::X86_64, CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc2, 0x10, 0x00]),
    ("ret 8",                    Arch::X86_64, CALL,   &[0x31, 0xc0, 0x90, 0x90, 0x90, 0xc2, 0x08, 0x00]),
    ("bx lr",                    Arch::Arm,    BL,     &[0x00, 0x00, 0xa0, 0xe3, 0x1e, 0xff, 0x2f, 0xe1]),
    ("ret",                      Arch::Arm64,  BL_A64, &[0x00, 0x00, 0x80, 0xd2, 0xc0, 0x03, 0x5f, 0xd6]),
    ("bx lr",                    Arch::Thumb2, BL_T32, &[0x00, 0x20, 0x70, 0x47]),
    ("blr",                      Arch::Ppc64le, BL_PPC, &[0x00, 0x00, 0x60, 0x38, 0x20, 0x00, 0x80, 0x4e]),
    ("through its caller's frame", Arch::Ppc64le, BL_PPC, SAVES_LR),
    ("blr",                      Arch::Ppc64,  BL_PPC_BIG, &[0x38, 0x60, 0x00, 0x00, 0x4e, 0x80, 0x00, 0x20]),
    ("br %r14",                  Arch::S390x,  BRASL,  &[0xa7, 0x29, 0x00, 0x00, 0x07, 0xfe]),
    ("bcr on a condition",       Arch::S390x,  BRASL,  &[0xb9, 0x82, 0x00, 0x22, 0x07, 0x8e, 0x07, 0xfe]),
    ("through its caller's frame", Arch::S390x, BRASL, SAVES_R14),
    ("retl",                     Arch::Sparc64, CALL_V9, &[0x81, 0xc3, 0xe0, 0x08, 0x90, 0x10, 0x20, 0x00]),
    // save %sp,-192,%sp; ret; restore %g0,5,%o0
    ("ret of a window",          Arch::Sparc64, CALL_V9, &[0x9d, 0xe3, 0xbf, 0x40, 0x81, 0xc7, 0xe0, 0x08, 0x91, 0xe8, 0x20, 0x05]),
    // save %sp,-192,%sp; return %i7+8; mov 7,%o0
    ("return to a window",       Arch::Sparc64, CALL_V9, &[0x9d, 0xe3, 0xbf, 0x40, 0x81, 0xcf, 0xe0, 0x08, 0x90, 0x10, 0x20, 0x07]),
];

/// RP-1, BY-4
fn a_followed_call_returns_as_one_that_is_not() {
    let mut wrong = Vec::new();
    for (what, arch, front, function) in WAYS {
        let [mut in_place, mut followed] = [(); 2].map(|()| Lab::new(*arch));
        for seed in 1..6 {
            let registers = (0..32).map(|register| spread(*arch, seed, register)).collect();
            let (bytes, front) = (function.to_vec(), front.to_vec());
            let case = Before { bytes, front, registers, seed, ..Before::default() };
            let expected = in_place.run(&case, How::InPlace).expect("it runs");
            for how in [How::Followed, How::FollowedJumped] {
                let after = followed.run(&case, how).expect("it may be followed");
                if after != expected {
                    wrong.push(format!("{} {what}, {how:?}: {}", arch.name(), difference(&expected, &after)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// RP-1: a function may save the link register on its stack, change the register, and load the pc from the stack. Under
/// a return probe, two dead values differ afterwards (docs/architecture.md). The link register holds the true return
/// address, and the word in the former frame is the pad's address.
fn a_dead_link_register_and_a_dead_frame_are_what_a_followed_call_leaves() {
    /// str lr, [sp, #-4]!; mov lr, #5; ldr pc, [sp], #4
    const FUNCTION: &[u8] = &[0x04, 0xe0, 0x2d, 0xe5, 0x05, 0xe0, 0xa0, 0xe3, 0x04, 0xf0, 0x9d, 0xe4];
    let [mut in_place, mut followed] = [(); 2].map(|()| Lab::new(Arch::Arm));
    let registers = (0..32).map(|register| spread(Arch::Arm, 3, register)).collect();
    let case = Before { bytes: FUNCTION.to_vec(), front: BL.to_vec(), registers, seed: 3, ..Before::default() };
    let mut expected = in_place.run(&case, How::InPlace).expect("it runs");
    let after = followed.run(&case, How::Followed).expect("it may be followed");
    let true_address = place(Arch::Arm) - 4;
    assert_eq!((expected.register("lr"), after.register("lr")), (Some(5), Some(true_address)));
    let link = expected.registers.iter_mut().find(|(name, _)| *name == "lr");
    link.expect("it has one").1 = true_address;
    let frame = frame_of(&after);
    assert_eq!(frame_of(&expected), true_address.to_le_bytes()[..4]);
    assert_ne!(frame, true_address.to_le_bytes()[..4], "the pad's");
    let stack = expected.memory.iter_mut().find(|(at, _)| *at == STACK_START).expect("the stack");
    stack.1[(STACK - 4 - STACK_START) as usize..][..4].copy_from_slice(&frame);
    assert!(after == expected, "{}", difference(&expected, &after));
}

/// The word below the stack pointer.
fn frame_of(after: &After) -> Vec<u8> {
    let stack = after.memory.iter().find(|(at, _)| *at == STACK_START).expect("the stack");
    stack.1[(STACK - 4 - STACK_START) as usize..][..4].to_vec()
}

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![a_followed_call_returns_as_one_that_is_not, a_dead_link_register_and_a_dead_frame_are_what_a_followed_call_leaves,]
}
