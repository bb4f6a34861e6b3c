//! Walking a function from its start: where its instructions begin. Written once for all ISAs.

use crate::arch::Isa;
use crate::insn::{Insn, LONGEST, Undecodable};
use crate::mem::Fault;

/// The instructions from `start` to `end`, one behind the other; ends behind the first bytes that are none.
///
/// `read` fills a buffer with the text at an address, probes taken out. The last instruction may reach past `end`.
pub fn walk<R>(isa: &'static Isa, start: u64, end: u64, read: R) -> Walk<R>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    Walk { isa, at: start, end, read }
}

/// See [`walk`].
#[derive(Debug)]
pub struct Walk<R> {
    isa: &'static Isa,
    at: u64,
    end: u64,
    read: R,
}

impl<R> Iterator for Walk<R>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    type Item = Result<Insn, Undecodable>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let decoded = decode_at(self.isa, self.at, &mut self.read);
        self.at = match &decoded {
            // An instruction at the top of the address space ends the walk too.
            Ok(insn) if insn.next() > self.at => insn.next(),
            _ => self.end,
        };
        Some(decoded)
    }
}

/// The instruction at an address, out of as many bytes as can be read there.
pub fn decode_at<R>(isa: &'static Isa, address: u64, read: &mut R) -> Result<Insn, Undecodable>
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    let mut bytes = [0; LONGEST];
    let window = &mut bytes[..isa.longest.min(LONGEST)];
    let readable = match read(address, window) {
        Ok(()) => window.len(),
        Err(fault) => {
            let before = (fault.address.wrapping_sub(address) as usize).min(window.len() - 1);
            if read(address, &mut window[..before]).is_ok() { before } else { 0 }
        }
    };
    (isa.decode)(address, &window[..readable])
}

/// How an address lies to the instructions of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// This instruction begins there.
    On(Insn),
    /// It lies inside this instruction: the boundaries around it are its address and [`Insn::next`].
    Inside(Insn),
    /// Between the function's start and the address, or at the address itself, there is something that is no instruction.
    Unknown(Undecodable),
}

/// Decodes from the function's start until `address` is reached or passed, as Linux does (spec/isa-x86.md 2).
pub fn boundary<R>(isa: &'static Isa, start: u64, address: u64, mut read: R) -> Boundary
where
    R: FnMut(u64, &mut [u8]) -> Result<(), Fault>,
{
    for step in walk(isa, start, address, &mut read) {
        match step {
            Ok(insn) if insn.next() > address => return Boundary::Inside(insn),
            Ok(_) => {}
            Err(undecodable) => return Boundary::Unknown(undecodable),
        }
    }
    match decode_at(isa, address, &mut read) {
        Ok(insn) => Boundary::On(insn),
        Err(undecodable) => Boundary::Unknown(undecodable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86::X86_64;
    use alloc::vec::Vec;

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

    /// Text that ends where the function ends.
    fn read(address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = (address - START) as usize;
        let bytes =
            FUNCTION.get(from..from + into.len()).ok_or(Fault { address: START + FUNCTION.len() as u64, write: false })?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    /// KP-5
    #[test]
    fn a_walk_steps_from_instruction_to_instruction_over_what_is_never_executed() {
        let starts: Vec<u64> = walk(&X86_64, START, START + FUNCTION.len() as u64, read)
            .map(|insn| insn.expect("all of it can be stepped over").address - START)
            .collect();
        assert_eq!(starts, [0, 5, 8, 10, 15, 17, 19, 21, 23, 24]);
    }

    /// KP-5: and the refusal can name the boundaries around a wrong address.
    #[test]
    fn an_address_is_on_a_boundary_or_inside_an_instruction() {
        for (offset, expected) in [(0, None), (1, Some((0, 5))), (4, Some((0, 5))), (5, None), (9, Some((8, 10))), (21, None)] {
            let found = match boundary(&X86_64, START, START + offset, read) {
                Boundary::On(insn) if insn.address == START + offset => None,
                Boundary::Inside(insn) => Some((insn.address - START, insn.next() - START)),
                other => panic!("+{offset}: {other:?}"),
            };
            assert_eq!(found, expected, "+{offset}");
        }
    }

    /// KP-5: text that ends in the middle of an instruction is no instruction, and neither is what was never reached.
    #[test]
    fn an_address_behind_unreadable_text_has_no_boundary() {
        let end = START + FUNCTION.len() as u64;
        let cut = Undecodable { address: end - 1, truncated: true };
        assert_eq!(boundary(&X86_64, START + 25, end - 1, read), Boundary::Unknown(cut), "00 wants a second byte");
        assert_eq!(boundary(&X86_64, end - 1, end + 8, read), Boundary::Unknown(cut));
    }
}
