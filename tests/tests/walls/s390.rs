//! z/Architecture: every mask of a PSW, register pairs with odd numbers, and instructions that test bits.

use crate::ended;
use trapline::machine::{Stop, What};
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{DATA, HANDLERS, PLACE};

/// Instructions of z/Architecture that use a pair of registers, with every register number. Odd numbers must be
/// refused.
#[test]
fn no_pair_of_registers_leads_out_of_the_registers() {
    const SPECIFICATION: u32 = 6;
    let mut tried = 0;
    for number in 0..16u8 {
        let translations = (0x90..=0x93).map(|code| vec![0xb9, code, 0x10, number << 4 | 4]);
        let swaps = [
            vec![0xeb, number << 4 | 2, 0x30, 0x00, 0x00, 0x3e], // cdsg %rN,%r2,0(%r3)
            vec![0xeb, 0x20 | number, 0x30, 0x00, 0x00, 0x3e],   // cdsg %r2,%rN,0(%r3)
            vec![0xc8, number << 4 | 2, 0x30, 0x00, 0x30, 0x10], // csst 0(%r3),16(%r3),%rN
        ];
        for code in translations.chain(swaps) {
            let mut bare = Bare::new(Arch::S390x);
            for (reg, value) in [(0, 2), (1, DATA), (3, DATA + 0x100), (number, DATA + 0x200)] {
                bare.set(Reg(reg), value);
            }
            // The first register says which form of CSST it is, and may be the one in question.
            bare.set(Reg(0), 2);
            if number != 3 {
                bare.set(Reg(3), DATA + 0x100);
            }
            let what = format!("{code:x?}");
            ended(&what, &bare.run(&[&code[..], &[0x0a, 0]].concat()));
            let happenings = bare.machine().happenings();
            let refused = happenings.iter().any(|event| matches!(event.what, What::Exception(SPECIFICATION, _)));
            // The other reason for a refusal is an address that is not a multiple of 16.
            assert!(refused || number % 2 == 0, "{what}: {happenings:x?}");
            tried += 1;
        }
    }
    println!("{tried} instructions");
}

/// RNSBG, ROSBG and RXSBG with the bit that makes them set only the condition code. Any program may run them. Each
/// kind, first and last bit, and rotation gives the same condition code as without that bit.
#[test]
fn a_test_of_rotated_bits_sets_the_condition_code() {
    let (one, other) = (0x0123_4567_89ab_cdef_u64, 0xfedc_ba98_7654_3211_u64);
    let mut bare = Bare::new(Arch::S390x);
    let mut tried = 0;
    let mut seen = [0; 2];
    for operation in [0x54u8, 0x56, 0x57] {
        for (first, last) in [(0u8, 63u8), (32, 63), (5, 5), (60, 3), (63, 0), (17, 40)] {
            for by in [0u8, 1, 31, 63] {
                let rotated = other.rotate_left(by.into());
                let result = match operation {
                    0x54 => one & rotated,
                    0x56 => one | rotated,
                    _ => one ^ rotated,
                };
                let (from, to) = (u64::MAX >> first, u64::MAX << (63 - last));
                let selected = if first <= last { from & to } else { from | to };
                bare.set(Reg(2), one);
                bare.set(Reg(4), other);
                let code = [0xec, 0x24, 0x80 | first, last, by, operation, 0x0a, 0];
                let what = format!("{code:02x?}");
                ended(&what, &bare.run(&code));
                let expected = u64::from(result & selected != 0);
                // The call that ends the case has saved the PSW.
                let mut saved = [0; 8];
                bare.machine().ram().read(LOWCORE + 0x140, &mut saved);
                assert_eq!(u64::from_be_bytes(saved) >> 44 & 3, expected, "{what}");
                assert_eq!((bare.get(Reg(2)), bare.get(Reg(4))), (one, other), "{what}: nothing but the code changes");
                seen[expected as usize] += 1;
                tried += 1;
            }
        }
    }
    println!("{tried} instructions: {seen:?}");
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}

/// The way in which a PSW is loaded.
#[derive(Clone, Copy, Debug)]
enum Loads {
    Long,
    Short,
    ProgramCheck,
    SystemCall,
    External,
}

// Addresses in the lab's lowcore.
const LOWCORE: u64 = 0x51_0000;
const PROGRAM_PSW: u64 = LOWCORE + 0x1d0;
const CALL_PSW: u64 = LOWCORE + 0x1c0;
pub const EXTERNAL_PSW: u64 = LOWCORE + 0x1b0;
const TRANSLATED: u64 = 1 << 58;
const PROBLEM: u64 = 1 << 48;
const WIDE: u64 = 3 << 31;

/// Each bit of a PSW's mask with each address space, translated and not, for the kernel and for a program, by each way
/// to load it. A load, a store, a call and a snapshot follow.
#[test]
fn no_mask_of_a_psw_ends_the_process() {
    let (mut tried, mut restored) = (0, 0);
    for way in [Loads::Long, Loads::Short, Loads::ProgramCheck, Loads::SystemCall, Loads::External] {
        for space in 0..4u64 {
            for others in [0, TRANSLATED, PROBLEM, TRANSLATED | PROBLEM] {
                let mut bare = Bare::new(Arch::S390x);
                for bit in 0..64 {
                    let mask = (others | space << 46 | WIDE) ^ 1 << bit;
                    let what = format!("{way:?} of {mask:016x}");
                    let stop = psw_case(&mut bare, way, mask);
                    ended(&what, &stop);
                    // A snapshot in each eighth state that goes on.
                    if bit % 8 == space
                        && !matches!(stop, Stop::Dead(_))
                        && let Ok(snapshot) = bare.machine().snapshot()
                    {
                        bare.machine().restore(&snapshot).unwrap_or_else(|why| panic!("{what}: {why}"));
                        let until = bare.machine().now() + 1000;
                        ended(&what, &bare.machine().run_until(until));
                        restored += 1;
                    }
                    bare = Bare::new(Arch::S390x);
                    tried += 1;
                }
            }
        }
    }
    println!("{tried} masks, {restored} snapshots");
    assert!(restored > 50, "{restored} snapshots");
}

/// Code that an interrupt follows. It runs with translation off, because it asks the board for one through device
/// registers.
pub fn interrupts(bare: &mut Bare) -> Vec<u8> {
    const SEND_INTERRUPT: u64 = 0x0900_0514;
    const LETS_IN: u64 = 1 << 56;
    const ASKS: u64 = PLACE + 0x40;
    bare.put(DATA + 0x200, &[(LETS_IN | WIDE).to_be_bytes(), ASKS.to_be_bytes()].concat());
    // st %r7,0(%r6); j to itself
    bare.put(ASKS, &[0x50, 0x70, 0x60, 0x00, 0xa7, 0xf4, 0x00, 0x00]);
    for (register, value) in [(5, DATA + 0x200), (6, SEND_INTERRUPT), (7, 1)] {
        bare.set(Reg(register), value);
    }
    // lpswe 0(%r5)
    vec![0xb2, 0xb2, 0x50, 0x00]
}

fn psw_case(bare: &mut Bare, way: Loads, mask: u64) -> Stop {
    // At both places: lg %r5,0(%r4); stg %r5,8(%r4); ex 0,0(%r4); j back to the load
    let accesses =
        [0xe3, 0x50, 0x40, 0x00, 0x00, 0x04, 0xe3, 0x50, 0x40, 0x08, 0x00, 0x24, 0x44, 0x00, 0x40, 0x00, 0xa7, 0xf4, 0xff, 0xf8];
    let psw = [mask.to_be_bytes(), HANDLERS.to_be_bytes()].concat();
    // The short form has the rest of the mask's bits, bit 12 set, and the address in its lower half.
    let short = (mask & !0x7fff_ffff & !(1 << 31) | 1 << 51 | mask & 1 << 31 | HANDLERS).to_be_bytes();
    bare.put(HANDLERS, &accesses);
    let general = |number: u8| Reg(number);
    bare.set(general(3), DATA);
    bare.set(general(4), DATA + 0x100);
    let code: &[u8] = match way {
        Loads::Long => &[0xb2, 0xb2, 0x30, 0x00],
        Loads::Short => &[0x82, 0x00, 0x30, 0x00],
        Loads::ProgramCheck => &[0x00, 0x00],
        Loads::SystemCall => &[0x0a, 0x05],
        Loads::External => &interrupts(bare),
    };
    match way {
        Loads::Long => bare.put(DATA, &psw),
        Loads::Short => bare.put(DATA, &short),
        Loads::ProgramCheck => bare.put(PROGRAM_PSW, &psw),
        Loads::SystemCall => bare.put(CALL_PSW, &psw),
        Loads::External => bare.put(EXTERNAL_PSW, &psw),
    }
    bare.run(code)
}
