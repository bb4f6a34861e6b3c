//! Copies at addresses far from their originals, up to the other end of the address space: `copy` refuses, or the copy
//! accesses what the original accesses and its jump back leads behind the original.

use trapline_isa::arch::{Arch, Isa};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::{Plan, Policy, Tail};

const INSTRUCTIONS: usize = 300;

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Instructions with an operand relative to the pc, which random bytes seldom are.
fn relative(arch: Arch) -> &'static [[u8; 8]] {
    match arch {
        Arch::X86_64 => &[[0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x90], [0x8b, 0x0d, 0xff, 0xff, 0xff, 0x7f, 0x90, 0x90]],
        // lgrl, strl, larl, brasl.
        Arch::S390x => &[
            [0xc4, 0x18, 0, 0, 1, 0, 7, 7],
            [0xc4, 0x1f, 0x7f, 0xff, 0xff, 0xff, 7, 7],
            [0xc0, 0x10, 0x80, 0, 0, 0, 7, 7],
            [0xc0, 0xe5, 0, 0, 1, 0, 7, 7],
        ],
        // pld r3,0x100(0),1; paddi r3,0,-4,1.
        Arch::Ppc64 => &[[0x04, 0x10, 0, 0, 0xe4, 0x60, 1, 0], [0x06, 0x13, 0xff, 0xff, 0x38, 0x60, 0xff, 0xfc]],
        Arch::Ppc64le => &[[0, 0, 0x10, 0x04, 0, 1, 0x60, 0xe4], [0xff, 0xff, 0x13, 0x06, 0xfc, 0xff, 0x60, 0x38]],
        _ => &[],
    }
}

/// The address of the operand of an instruction in [`relative`].
fn operand(arch: Arch, insn: &Insn) -> u64 {
    let bytes = insn.bytes();
    let signed = |from: usize| -> [u8; 4] { bytes[from..from + 4].try_into().expect("four bytes") };
    match arch {
        Arch::X86_64 => insn.next().wrapping_add_signed(i32::from_le_bytes(signed(bytes.len() - 4)).into()),
        Arch::S390x => insn.address.wrapping_add_signed(i64::from(i32::from_be_bytes(signed(2))) << 1),
        _ => {
            let word =
                |from| if arch == Arch::Ppc64 { u32::from_be_bytes(signed(from)) } else { u32::from_le_bytes(signed(from)) };
            let distance = (i64::from(word(0) & 0x3_ffff) << 16 | i64::from(word(4) & 0xffff)) << 30 >> 30;
            insn.address.wrapping_add_signed(distance)
        }
    }
}

/// The instructions that a copy is made of, as the CPU would find them at `at`.
fn decoded(isa: &Isa, at: u64, mut bytes: &[u8]) -> Vec<Insn> {
    let mut found = Vec::new();
    let mut at = at;
    while let Ok(insn) = (isa.decode)(at, bytes) {
        if insn.bytes().is_empty() || insn.bytes().len() > bytes.len() {
            break;
        }
        (at, bytes) = (insn.next(), &bytes[insn.bytes().len()..]);
        found.push(insn);
    }
    found
}

/// Checks all copies of an instruction at addresses that differ from its own by powers of two. Returns the number of
/// copies with a jump back.
fn check(arch: Arch, text: u64, bytes: &[u8], is_relative: bool) -> usize {
    let isa = arch.isa();
    let Ok(insn) = (isa.decode)(text, bytes) else { return 0 };
    let Ok(plan) = (isa.plan)(&insn, Policy::Best) else { return 0 };
    let width = if isa.word == 8 { 64 } else { 32 };
    let mask = u64::MAX >> (64 - width);
    let mut made = 0;
    for power in 12..width {
        for away in [0, isa.alignment, isa.alignment.wrapping_neg(), 0x40, 0x40_u64.wrapping_neg()] {
            let distance = (1_u64 << power).wrapping_add(away);
            for at in [text.wrapping_add(distance), text.wrapping_sub(distance)].map(|at| at & mask & !(isa.alignment - 1)) {
                for tail in [Tail::Breakpoint, Tail::JumpBack] {
                    let Ok(copy) = (isa.copy)(&insn, at, tail) else { continue };
                    let what = || format!("{arch:?} {bytes:02x?} from {text:#x} to {at:#x}, {tail:?}: {:02x?}", copy.bytes());
                    let runs = plan == Plan::Boost || plan == Plan::Step;
                    if is_relative && (runs || tail == Tail::JumpBack) {
                        let moved = (isa.decode)(at, copy.bytes()).unwrap_or_else(|_| panic!("{}", what()));
                        assert_eq!(operand(arch, &moved) & mask, operand(arch, &insn) & mask, "{}", what());
                    }
                    if tail == Tail::JumpBack && runs {
                        let tails = decoded(isa, at.wrapping_add(copy.displaced as u64), &copy.bytes()[copy.displaced..]);
                        let back = tails.first().map(|back| back.flow);
                        let leads_back = matches!(back, Some(Flow::Jump(to)) if to & mask == insn.next() & mask);
                        assert!(leads_back, "{}: {back:x?} instead of {:#x}", what(), insn.next());
                        made += 1;
                    }
                }
            }
        }
    }
    made
}

/// KP-1: a distance is never cut to the bits of its field.
#[test]
fn far_copies_are_right_or_refused() {
    for arch in Arch::ALL.iter().copied().filter(|arch| arch.isa().detour.is_some()) {
        let isa = arch.isa();
        let text = if isa.word == 8 { 0xffff_ffff_8101_0fc0 } else { 0x8101_0fc0 };
        let mut made = 0;
        for bytes in relative(arch) {
            made += check(arch, text, bytes, true);
        }
        let mut state = 1;
        for _ in 0..INSTRUCTIONS {
            let bytes = [random(&mut state), random(&mut state)].map(u64::to_le_bytes).concat();
            made += check(arch, text, &bytes, false);
        }
        assert!(made > INSTRUCTIONS, "{arch:?}: {made} copies with a jump back");
    }
}
