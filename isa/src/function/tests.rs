//! Walks through functions: boundaries, targets, data and undecodable bytes.

use super::*;
use crate::arm::THUMB2;
use crate::x86::X86_64;

const START: u64 = 0xffff_ffff_8100_0000;

#[rustfmt::skip]
const FUNCTION: &[u8] = &[
    0x0f, 0x1f, 0x44, 0x00, 0x00, // +0   nopl
    0x48, 0x85, 0xff,             // +5   test %rdi,%rdi
    0x74, 0x07,                   // +8   je +17
    0xe8, 0x00, 0x01, 0x00, 0x00, // +10  call elsewhere
    0xeb, 0xf4,                   // +15  jmp +5
    0x0f, 0x0b,                   // +17  ud2
    0x8d, 0xc0,                   // +19  lea of a register: no CPU has it, Linux steps over it
    0xff, 0xe0,                   // +21  jmp *%rax
    0xcc, 0x00, 0x00,             // +23  padding
];

/// Reads the text of `FUNCTION`; nothing can be read behind it.
fn read(address: u64, into: &mut [u8]) -> Result<(), Fault> {
    let from = (address - START) as usize;
    let bytes = FUNCTION.get(from..from + into.len()).ok_or(Fault { address: START + FUNCTION.len() as u64, write: false })?;
    into.copy_from_slice(bytes);
    Ok(())
}

/// KP-5
#[test]
fn a_walk_steps_over_bytes_that_no_cpu_executes() {
    let starts: Vec<u64> = walk(&X86_64, START, START + FUNCTION.len() as u64, read)
        .map(|insn| insn.expect("all of it can be stepped over").address - START)
        .collect();
    assert_eq!(starts, [0, 5, 8, 10, 15, 17, 19, 21, 23, 24]);
}

/// BY-4: a return address is behind a call, and other addresses are none.
#[test]
fn a_return_address_is_behind_a_call() {
    let is_stored = |offset: &u64| is_stored_by_call(&X86_64, START + offset, &mut read);
    let found: Vec<u64> = (crate::insn::LONGEST as u64..=FUNCTION.len() as u64).filter(is_stored).collect();
    assert_eq!(found, [15]);
}

/// KP-5: the error names the boundaries around a wrong address.
#[test]
fn an_address_is_on_a_boundary_or_inside_an_instruction() {
    for (offset, expected) in [(0, None), (1, Some((0, 5))), (4, Some((0, 5))), (5, None), (9, Some((8, 10))), (21, None)] {
        let found = match boundary(&X86_64, START, START + offset, read, |_| true) {
            Boundary::On(insn) if insn.address == START + offset => None,
            Boundary::Inside(insn) => Some((insn.address - START, insn.next() - START)),
            other => panic!("+{offset}: {other:?}"),
        };
        assert_eq!(found, expected, "+{offset}");
    }
}

/// KP-5: a decoded range gives the same boundaries as a walk.
#[test]
fn a_decoded_range_has_the_boundaries_of_a_walk() {
    let (length, longest) = (FUNCTION.len() as u64 - 2, X86_64.longest);
    // `None`: the text as it is. `Some`: with an undecodable byte at that offset.
    for broken in [None, Some(17)] {
        let mut text = [FUNCTION, &vec![0x90; longest]].concat();
        broken.into_iter().for_each(|at: usize| text[at] = 0x06);
        let read = |address: u64, into: &mut [u8]| {
            let from = (address - START) as usize;
            into.copy_from_slice(&text[from..from + into.len()]);
            Ok(())
        };
        let held = text[..length as usize + longest].to_vec();
        let decoded = Decoded::of(&X86_64, START..START + length, held, |_| true);
        let steps: Vec<_> = walk(&X86_64, START, START + length, read).collect();
        let remembered: Vec<_> = (0..).map_while(|number| decoded.step(number)).collect();
        assert_eq!(remembered, steps, "{broken:?}");
        for address in START..START + length {
            let expected = boundary(&X86_64, START, address, read, |_| true);
            assert_eq!(decoded.boundary(address), Some(expected), "{broken:?}: {address:#x}");
        }
    }
}

/// KP-5: truncated text is no instruction, and text behind an undecodable byte has no boundary.
#[test]
fn an_address_behind_unreadable_text_has_no_boundary() {
    let end = START + FUNCTION.len() as u64;
    let cut = Undecodable { address: end - 1, truncated: true };
    assert_eq!(boundary(&X86_64, START + 25, end - 1, read, |_| true), Boundary::Unknown(cut), "00 wants a second byte");
    assert_eq!(boundary(&X86_64, end - 1, end + 8, read, |_| true), Boundary::Unknown(cut));
}

/// KP-5: in Thumb code, a `tbh` table has a halfword that looks like the first half of an instruction. It must
/// shift no boundary.
#[test]
fn a_walk_skips_data_between_instructions() {
    #[rustfmt::skip]
    const CODE: &[u8] = &[
        0xdf, 0xe8, 0x10, 0xf0, // +0   tbh [pc, r0, lsl #1]
        0x03, 0x00, 0x00, 0xe8, // +4   3, 0xe800
        0x00, 0xbf,             // +8   nop
        0x01, 0x20,             // +10  movs r0, #1
        0x00, 0xf0, 0x01, 0xf8, // +12  bl
    ];
    let read = |address: u64, into: &mut [u8]| {
        let from = (address - START) as usize;
        let bytes = CODE.get(from..from + into.len()).ok_or(Fault { address: START + CODE.len() as u64, write: false })?;
        into.copy_from_slice(bytes);
        Ok(())
    };
    let is_code = |at: u64| !(4..8).contains(&(at - START));
    let found = |offset: u64, is_code: &dyn Fn(u64) -> bool| match boundary(&THUMB2, START, START + offset, read, is_code) {
        Boundary::On(insn) => Some(insn.length()),
        _ => None,
    };
    assert_eq!(found(8, &|_| true), None, "taken for code, the table hides it");
    assert_eq!([8, 10, 12, 14].map(|offset| found(offset, &is_code)), [Some(2), Some(2), Some(4), None]);
}
