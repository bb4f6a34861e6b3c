//! The LOCK prefix of x86, compared with iced-x86: every one-byte and two-byte opcode, with each ModRM byte that
//! matters, and with other prefixes around it. An instruction that must not have the prefix raises #UD, and nothing
//! crashes.

use iced_x86::{Decoder, DecoderOptions};
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{DATA, PLACE, STACK};

const LOCK: u8 = 0xf0;
const INVALID: u32 = 6;
/// Prefixes in front of LOCK, and prefixes behind it.
const AROUND: [(&[u8], &[u8]); 6] =
    [(&[], &[]), (&[0x66], &[]), (&[], &[0xf2]), (&[0x3e], &[0xf3]), (&[0x48], &[]), (&[], &[0x48])];
/// Two-byte opcodes that move control registers. With them LOCK has a meaning on some CPUs.
const CONTROL: [u8; 2] = [0x20, 0x22];

/// The instructions with these prefixes: each opcode with a register and a memory operand, for each value of the field
/// that extends opcodes.
fn instructions(front: &[u8], behind: &[u8]) -> Vec<Vec<u8>> {
    let one = (0..=0xff).filter(|code| *code != 0x0f).map(|code| vec![code]);
    let two = (0..=0xff).filter(|code| !CONTROL.contains(code)).map(|code| vec![0x0f, code]);
    let operands = (0..8u8).flat_map(|field| [0xc1 | field << 3, 0x01 | field << 3]);
    let operands: Vec<u8> = operands.collect();
    one.chain(two)
        .flat_map(|code| operands.iter().map(move |operand| [&code[..], &[*operand]].concat()))
        .map(|code| [front, &[LOCK], behind, &code, &[0x10, 0, 0, 0, 0, 0, 0, 0]].concat())
        .collect()
}

/// Whether a CPU has such an instruction.
fn may(arch: Arch, bytes: &[u8]) -> bool {
    let bits = if arch == Arch::X86_64 { 64 } else { 32 };
    !Decoder::with_ip(bits, bytes, PLACE, DecoderOptions::NONE).decode().is_invalid()
}

fn is_prefix(byte: u8, arch: Arch) -> bool {
    matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3) || arch == Arch::X86_64 && byte & 0xf0 == 0x40
}

fn family(arch: Arch) {
    let abi = arch.isa().abi;
    let mut bare = Bare::new(arch);
    let mut tried = [0; 2];
    for (front, behind) in AROUND {
        if arch == Arch::I386 && (front == [0x48] || behind == [0x48]) {
            continue;
        }
        for bytes in instructions(front, behind) {
            let opcode = bytes[front.len() + 1 + behind.len()];
            if is_prefix(opcode, arch) {
                continue;
            }
            let expected = may(arch, &bytes);
            for (_, reg) in abi.names.iter().filter(|(name, _)| ["ax", "cx", "dx", "bx", "si", "di", "bp"].contains(name)) {
                bare.set(*reg, DATA + 0x100);
            }
            bare.set(abi.sp, STACK);
            bare.enter_kernel();
            let from = bare.machine().happenings().len();
            let stop = bare.run(&bytes);
            let events = &bare.machine().happenings()[from..];
            let refused = events.iter().any(|event| event.pc == PLACE && event.what == What::Exception(INVALID, None));
            assert_eq!(refused, !expected, "{} {bytes:x?}: {events:x?} {stop:?}", arch.name());
            tried[usize::from(expected)] += 1;
        }
    }
    println!("{}: {} refused, {} run", arch.name(), tried[0], tried[1]);
    assert!(tried[0] > 20_000 && tried[1] > 200, "{tried:?}");
}

#[test]
fn lock_stands_before_what_may_have_it_only_i386() {
    family(Arch::I386);
}

#[test]
fn lock_stands_before_what_may_have_it_only_x86_64() {
    family(Arch::X86_64);
}
