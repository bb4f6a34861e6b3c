//! Places in a stripped program: functions that its code calls by address, and other instructions.

use goblin::elf::Elf;
use goblin::elf::header::{EM_386, EM_AARCH64, EM_ARM, EM_PPC64, EM_RISCV, EM_S390, EM_X86_64};
use goblin::elf::program_header::{PF_X, PT_LOAD};
use std::collections::BTreeSet;

/// Reads the target of a call instruction at an address.
type Call = fn(at: u64, code: &[u8]) -> Option<u64>;

fn word(code: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*code.first_chunk()?))
}

fn signed(value: u32, bits: u32) -> i64 {
    i64::from((value << (32 - bits)) as i32 >> (32 - bits))
}

fn x86(at: u64, code: &[u8]) -> Option<u64> {
    let [0xe8, rest @ ..] = code else { return None };
    // Compilers align functions; other targets are mostly bytes in the middle of an instruction.
    Some(at.wrapping_add(5).wrapping_add_signed(signed(word(rest)?, 32))).filter(|target| target.is_multiple_of(16))
}

fn arm64(at: u64, code: &[u8]) -> Option<u64> {
    let word = word(code).filter(|word| at.is_multiple_of(4) && word >> 26 == 0x25)?;
    Some(at.wrapping_add_signed(4 * signed(word & 0x3ff_ffff, 26)))
}

fn thumb(at: u64, code: &[u8]) -> Option<u64> {
    let word = word(code).filter(|word| at.is_multiple_of(2) && word & 0xd000_f800 == 0xd000_f000)?;
    let (high, low) = (word & 0xffff, word >> 16);
    let sign = high >> 10 & 1;
    let [one, two] = [13, 11].map(|bit| !(low >> bit & 1 ^ sign) & 1);
    let offset = sign << 24 | one << 23 | two << 22 | (high & 0x3ff) << 12 | (low & 0x7ff) << 1;
    Some(at.wrapping_add(4).wrapping_add_signed(signed(offset, 25)))
}

fn power(at: u64, code: &[u8]) -> Option<u64> {
    let word = word(code).filter(|word| at.is_multiple_of(4) && word >> 26 == 18 && word & 3 == 1)?;
    Some(at.wrapping_add_signed(signed(word & 0x3ff_fffc, 26)))
}

fn z(at: u64, code: &[u8]) -> Option<u64> {
    let [0xc0, 0xe5, rest @ ..] = code else { return None };
    let distance = i32::from_be_bytes(*rest.first_chunk()?);
    Some(at.wrapping_add_signed(2 * i64::from(distance))).filter(|_| at.is_multiple_of(2))
}

fn riscv(at: u64, code: &[u8]) -> Option<u64> {
    let word = word(code).filter(|word| at.is_multiple_of(2) && word & 0xfff == 0xef)?;
    let offset = word >> 31 << 20 | (word >> 12 & 0xff) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3ff) << 1;
    Some(at.wrapping_add_signed(signed(offset, 21)))
}

/// The offsets of the functions that a program calls, and of every sixteenth other place where an instruction may be.
pub fn places(bytes: &[u8]) -> (Vec<u64>, Vec<u64>) {
    let elf = Elf::parse(bytes).expect("a program");
    let machine = elf.header.e_machine;
    let calls: Option<Call> = match machine {
        EM_386 | EM_X86_64 => Some(x86),
        EM_AARCH64 => Some(arm64),
        EM_ARM => Some(thumb),
        EM_PPC64 => Some(power),
        EM_S390 => Some(z),
        EM_RISCV => Some(riscv),
        _ => None,
    };
    let is_text = |header: &&goblin::elf::ProgramHeader| header.p_type == PT_LOAD && header.p_flags & PF_X != 0;
    let text = elf.program_headers.iter().find(is_text).expect("code");
    let code = &bytes[text.p_offset as usize..(text.p_offset + text.p_filesz) as usize];
    let step = if matches!(machine, EM_386 | EM_X86_64) { 1 } else { 2 };
    let mut functions = BTreeSet::new();
    for at in (0..code.len()).step_by(step) {
        let address = text.p_vaddr + at as u64;
        if let Some(target) = calls.and_then(|call| call(address, &code[at..])) {
            let offset = target.wrapping_sub(text.p_vaddr);
            if offset < text.p_filesz && offset.is_multiple_of(2) {
                functions.insert(text.p_offset + offset);
            }
        }
    }
    let others =
        (text.p_offset..text.p_offset + text.p_filesz).step_by(68).filter(|at| at.is_multiple_of(4) && !functions.contains(at));
    let others: Vec<u64> = others.collect();
    (functions.into_iter().collect(), others)
}
