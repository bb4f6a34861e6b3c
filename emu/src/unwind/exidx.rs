//! Unwinding by the EXIDX tables of 32-bit ARM kernels. For each function or part of one, a table entry says how to
//! restore the caller's stack pointer and the saved registers.
//!
//! The table is a sorted array of word pairs in the image. The first word is a 31-bit relative offset to the start of
//! the code. The second is "cannot unwind", a few inline instructions, or the offset to a list of instructions. No
//! symbol names the table, so it is found by its contents.

use crate::boot::{Kernel, Section};
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The second word of an entry that cannot be unwound (EXIDX_CANTUNWIND).
const CANNOT_UNWIND: u32 = 1;
/// Personality bytes: three inline instructions, or two and a number of additional words.
const SHORT: u32 = 0x80;
const LONG: u32 = 0x81;
/// A kernel has at least this many entries.
const FEWEST: usize = 1000;
/// Register numbers.
const FRAME: usize = 11;
const SP: usize = 13;
const LINK: usize = 14;
const PC: usize = 15;
/// Longest instruction list in bytes.
const MOST_BYTES: usize = 1024;

/// The tables of one kernel.
pub struct Exidx {
    starts: Vec<u64>,
    /// For each start, offset and length of its list in `code`. Length 0 means that it cannot be unwound.
    lists: Vec<(u32, u16)>,
    code: Vec<u8>,
    frame: Reg,
    link: Reg,
}

impl Exidx {
    /// The tables of a kernel, if it has them.
    pub fn of(kernel: &Kernel) -> Option<Exidx> {
        let isa = kernel.arch.isa();
        if isa.word != 4 || isa.order != ByteOrder::Little {
            return None;
        }
        Exidx::read(kernel, std::iter::once(find(kernel)?))
    }

    /// The tables of a module, if it has them: one for each section of code. The sections lie in any order.
    pub fn of_module(module: &Kernel) -> Option<Exidx> {
        let of_section = |section: &Section| {
            let range = &section.range;
            section.name.starts_with(".ARM.exidx").then(|| (range.start, ((range.end - range.start) / 8) as usize))
        };
        let mut tables: Vec<(u64, usize)> = module.sections().iter().filter_map(of_section).collect();
        let code = |(table, _): &(u64, usize)| {
            let mut word = [0; 4];
            module.read(*table, &mut word).map_or(0, |()| distance(*table, u32::from_le_bytes(word)))
        };
        tables.sort_by_key(code);
        Exidx::read(module, tables.into_iter()).filter(|tables| !tables.starts.is_empty() && tables.starts.is_sorted())
    }

    /// Reads tables, each by its address and its number of entries.
    fn read(kernel: &Kernel, tables: impl Iterator<Item = (u64, usize)>) -> Option<Exidx> {
        let isa = kernel.arch.isa();
        let (frame, link) = (isa.abi.register("fp")?, isa.abi.register("lr")?);
        let word = |at: u64| {
            let mut bytes = [0; 4];
            kernel.read(at, &mut bytes).ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let (mut starts, mut lists, mut code) = (Vec::new(), Vec::new(), Vec::new());
        for at in tables.flat_map(|(first, count)| (0..count as u64).map(move |number| first + 8 * number)) {
            starts.push(distance(at, word(at)?));
            let from = code.len();
            let second = word(at + 4)?;
            // The second word is EXIDX_CANTUNWIND, unwind instructions (bit 31 is set), or the distance to a list of them.
            let (held, mut next) = match second {
                CANNOT_UNWIND => (None, 0),
                word if word >> 31 != 0 => (Some(word), 0),
                word_at => {
                    let place = distance(at + 4, word_at);
                    (word(place), place + 4)
                }
            };
            if let Some(held) = held {
                let [kind, more, bytes @ ..] = held.to_be_bytes();
                match u32::from(kind) {
                    SHORT => code.extend([more].iter().chain(&bytes)),
                    LONG => {
                        code.extend(bytes);
                        for _ in 0..more {
                            code.extend(word(next)?.to_be_bytes());
                            next += 4;
                        }
                    }
                    _ => {}
                }
            }
            lists.push((from as u32, (code.len() - from).min(MOST_BYTES) as u16));
        }
        Some(Exidx { starts, lists, code, frame, link })
    }

    /// The start of the code that contains an address, and its unwind instructions.
    fn list(&self, pc: u64) -> Option<(u64, &[u8])> {
        let number = self.starts.partition_point(|start| *start <= pc).checked_sub(1)?;
        let (from, length) = *self.lists.get(number)?;
        let code = self.code.get(from as usize..from as usize + usize::from(length))?;
        Some((self.starts[number], code)).filter(|(_, code)| !code.is_empty())
    }
}

/// The target of a 31-bit relative offset.
fn distance(at: u64, word: u32) -> u64 {
    let signed = (word << 1).cast_signed() >> 1;
    u64::from((at as u32).wrapping_add_signed(signed))
}

/// The longest sequence of pairs that look like the table. Returns its address and number of entries.
fn find(kernel: &Kernel) -> Option<(u64, usize)> {
    let mut longest = (0, 0);
    for segment in kernel.segments.iter() {
        for odd in [0, 4] {
            let (mut run, mut last, mut start) = (0, 0, 0);
            let bytes = segment.bytes.get(odd..).unwrap_or_default();
            for (number, pair) in bytes.chunks_exact(8).enumerate() {
                let at = segment.virtual_address + (odd + 8 * number) as u64;
                let word = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
                let place = distance(at, word);
                // Zero padding would look like relative offsets to itself.
                let is_pair = word >> 31 == 0 && pair[..4] != [0; 4] && pair[4..] != [0; 4];
                let fits = is_pair && kernel.tables.is_text(place) && (run == 0 || place > last);
                (run, start) = match (fits, run) {
                    (true, 0) => (1, at),
                    (true, run) => (run + 1, start),
                    (false, _) => (0, 0),
                };
                last = place;
                if run > longest.1 {
                    longest = (start, run);
                }
            }
        }
    }
    Some(longest).filter(|(_, count)| *count >= FEWEST)
}

/// The state while unwinding a function: the known registers of its caller.
struct Leaving<'a> {
    registers: [Option<u64>; 16],
    sp: u64,
    /// The stack address of the return address.
    slot: u64,
    read: &'a mut dyn FnMut(u64) -> Option<u64>,
}

impl Leaving<'_> {
    /// Pops the registers selected by `bits` from the stack, the lowest first.
    fn pop(&mut self, first: usize, bits: u32) -> Option<()> {
        let mut new_sp = None;
        for register in (first..16).filter(|register| bits >> (register - first) & 1 != 0) {
            let value = (self.read)(self.sp)?;
            match register {
                SP => new_sp = Some(value),
                LINK if self.registers[PC].is_none() => self.slot = self.sp,
                PC => self.slot = self.sp,
                _ => {}
            }
            self.registers[register] = Some(value);
            self.sp = self.sp.wrapping_add(4);
        }
        if let Some(sp) = new_sp {
            self.sp = sp;
        }
        Some(())
    }

    /// Executes a list of unwind instructions.
    fn run(&mut self, code: &[u8]) -> Option<()> {
        let mut code = code.iter().copied();
        while let Some(insn) = code.next() {
            let step = u64::from(insn & 0x3f) * 4 + 4;
            match insn {
                0x00..=0x3f => self.sp = self.sp.wrapping_add(step),
                0x40..=0x7f => self.sp = self.sp.wrapping_sub(step),
                0x80..=0x8f => {
                    let bits = u32::from(insn & 0xf) << 8 | u32::from(code.next()?);
                    // An empty register mask means "refuse to unwind".
                    if bits == 0 {
                        return None;
                    }
                    self.pop(4, bits)?;
                }
                0x9d | 0x9f => return None,
                0x90..=0x9f => self.sp = self.registers[usize::from(insn & 0xf)]?,
                0xa0..=0xa7 => self.pop(4, (2 << (insn & 7)) - 1)?,
                0xa8..=0xaf => {
                    self.pop(4, (2 << (insn & 7)) - 1)?;
                    self.pop(LINK, 1)?;
                }
                0xb0 => break,
                0xb1 => {
                    let bits = code.next().filter(|bits| (1..=15).contains(bits))?;
                    self.pop(0, bits.into())?;
                }
                0xb2 => {
                    let (mut value, mut shift) = (0_u64, 0);
                    loop {
                        let byte = code.next()?;
                        value |= u64::from(byte & 0x7f) << shift;
                        shift += 7;
                        if byte & 0x80 == 0 || shift > 28 {
                            break;
                        }
                    }
                    self.sp = self.sp.wrapping_add(0x204 + value * 4);
                }
                // Other instructions, such as those for VFP registers, are not used in kernels.
                _ => return None,
            }
            self.sp &= u64::from(u32::MAX);
        }
        Some(())
    }
}

impl Unwind for Exidx {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (Some(self.frame), Some(self.link))
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        // After a call that does not return, the return address may be the start of the next function.
        let (start, code) = self.list(if at.called { at.pc.wrapping_sub(1) } else { at.pc })?;
        if !at.called && at.pc == start {
            return Some((Standing { pc: at.link, link: 0, called: true, ..*at }, 0)).filter(|_| at.link != 0);
        }
        let mut registers = [None; 16];
        (registers[FRAME], registers[SP]) = (Some(at.frame), Some(at.sp));
        registers[LINK] = Some(at.link).filter(|link| *link != 0);
        let mut leaving = Leaving { registers, sp: at.sp, slot: 0, read };
        leaving.run(code)?;
        let Leaving { registers, sp, slot, .. } = leaving;
        let frame = registers[FRAME].unwrap_or(at.frame);
        match registers[PC] {
            // The frame of an interrupt or exception: the pc is that of an instruction, and the link register is live.
            Some(pc) => Some((Standing { pc, sp, frame, link: registers[LINK].unwrap_or(0), called: false }, slot)),
            None => Some((Standing { pc: registers[LINK]?, sp, frame, link: 0, called: true }, slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BY-1: a list of unwind instructions restores the caller's stack pointer and saved registers.
    #[test]
    fn unwind_instructions_are_executed() {
        // Each word's value contains its address.
        let mut read = |at: u64| Some(at | 0x8000_0000);
        let mut of = |code: &[u8], frame: u64| {
            let mut registers = [None; 16];
            registers[FRAME] = Some(frame);
            let mut leaving = Leaving { registers, sp: 0x1000, slot: 0, read: &mut read };
            let done = leaving.run(code);
            done.map(|()| (leaving.sp, leaving.slot, leaving.registers[LINK], leaving.registers[PC]))
        };
        let word = |at: u64| Some(at | 0x8000_0000);
        // push {r4, lr}; changes of the stack pointer; a frame pointer; all registers of an interrupt.
        assert_eq!(of(&[0xa8, 0xb0, 0xb0], 0), Some((0x1008, 0x1004, word(0x1004), None)));
        assert_eq!(of(&[0x18, 0x84, 0xff], 0), Some((0x1064 + 36, 0x1064 + 32, word(0x1064 + 32), None)));
        assert_eq!(of(&[0x9b, 0x41, 0x84, 0x80], 0x2000), Some((0x2000 - 8 + 8, 0x1ffc, word(0x1ffc), None)));
        assert_eq!(of(&[0xb1, 0x0f, 0x8f, 0xff], 0), Some((0x1034 | 0x8000_0000, 0x103c, word(0x1038), word(0x103c))));
        assert_eq!(of(&[0xb2, 0x81, 0x01, 0xb0], 0), Some((0x1000 + 0x204 + 129 * 4, 0, None, None)));
        for refused in [&[0x80, 0x00][..], &[0x9d], &[0xb1, 0x00], &[0xc0], &[0x80], &[0x92]] {
            assert_eq!(of(refused, 0), None, "{refused:x?}");
        }
    }

    /// BY-1
    #[test]
    fn distances_have_31_bits() {
        assert_eq!(distance(0xc000_1000, 0x10), 0xc000_1010);
        assert_eq!(distance(0xc000_1000, 0x7fff_fff0), 0xc000_0ff0);
    }
}
