//! Unwinding by decoding function prologues, for ISAs with 4-byte instructions and without frame chains. The first
//! instructions of a function show the size of its frame and where it saves the return address. Linux unwinds MIPS
//! stacks in the same way.

use super::frames::{Piece, Pieces};
use crate::boot::Kernel;
use std::ops::Range;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The largest number of instructions that are searched. Some functions test whether they need a frame before they make one.
const MOST: usize = 64;

/// The prologue patterns of an ISA.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// The name of the link register.
    pub link: &'static str,
    /// The frame size, if the instruction allocates a frame.
    pub takes: fn(u32) -> Option<u64>,
    /// The offset from the stack pointer, if the instruction saves the link register. On a stack that grows upward this comes
    /// first, and the offset is negative.
    pub keeps: fn(u32) -> Option<i64>,
    /// Whether the instruction is a call, which has a delay slot.
    pub calls: fn(u32) -> bool,
}

/// The functions of one kernel, by address.
pub struct Prologues {
    word: u64,
    grows_up: bool,
    sp: Reg,
    link: Reg,
    functions: Vec<Function>,
}

/// The prologue of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    frame: Option<Frame>,
}

/// From address `taken` on the frame of `size` bytes is allocated. From `kept` on the return address is at offset
/// `link` in it; on a stack that grows upward that far below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    taken: u64,
    size: u64,
    kept: u64,
    link: u64,
}

impl Prologues {
    /// The rule for a kernel or a module with such prologues, and its ranges of code.
    pub fn new(kernel: &Kernel, code: impl Iterator<Item = Range<u64>>, looks: &Looks) -> Option<Prologues> {
        let isa = kernel.arch.isa();
        let mut functions: Vec<Function> = code
            .flat_map(|range| kernel.symbols.extents(range))
            .map(|symbol| {
                let words =
                    (0..MOST as u64).map(|number| symbol.start + 4 * number).take_while(|at| at - symbol.start < symbol.size);
                let words = words.map_while(|at| {
                    let mut bytes = [0; 4];
                    kernel.read(at, &mut bytes).ok().map(|()| (at, isa.order.number(&bytes) as u32))
                });
                Function { start: symbol.start, end: symbol.start + symbol.size, frame: frame(looks, words) }
            })
            .collect();
        functions.sort_by_key(|function| function.start);
        Some(Prologues {
            word: isa.word as u64,
            grows_up: isa.abi.stack_grows_up,
            sp: isa.abi.sp,
            link: isa.abi.register(looks.link)?,
            functions,
        })
    }

    fn containing(&self, pc: u64) -> Option<&Function> {
        let before = self.functions.partition_point(|function| function.start <= pc).checked_sub(1)?;
        self.functions.get(before).filter(|function| pc < function.end)
    }
}

/// Finds the instructions that allocate a frame and save the link register in it.
fn frame(looks: &Looks, words: impl Iterator<Item = (u64, u32)>) -> Option<Frame> {
    let (mut taken, mut kept, mut in_slot) = (None, None, false);
    for (at, word) in words {
        // An instruction in a delay slot has run when the next one runs.
        let behind = at + 4;
        match (taken, (looks.takes)(word), (looks.keeps)(word)) {
            (None, Some(size), _) => match kept {
                Some((kept, link)) => return Some(Frame { taken: behind, size, kept, link }),
                None => taken = Some((behind, size)),
            },
            (Some((taken, size)), _, Some(link)) if (0..size as i64).contains(&link) => {
                return Some(Frame { taken, size, kept: behind, link: link as u64 });
            }
            (None, None, Some(link)) if link < 0 => kept = Some((behind, link.unsigned_abs())),
            // A call before the link register is saved: the function has no frame of this kind.
            (Some(_), ..) if in_slot => return None,
            _ => {}
        }
        in_slot = taken.is_some() && (looks.calls)(word);
    }
    None
}

impl Unwind for Prologues {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (None, Some(self.link))
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        let frame = self.containing(if at.called { at.pc.wrapping_sub(4) } else { at.pc })?.frame;
        let size = frame.filter(|frame| at.pc >= frame.taken).map_or(0, |frame| frame.size);
        let sp = if self.grows_up { at.sp.wrapping_sub(size) } else { at.sp.wrapping_add(size) };
        match frame.filter(|frame| at.pc >= frame.kept) {
            Some(frame) => {
                let slot = if self.grows_up { sp.wrapping_sub(frame.link) } else { at.sp.wrapping_add(frame.link) };
                let pc = read(slot).filter(|pc| *pc != 0 && slot.is_multiple_of(self.word))?;
                Some((Standing { pc, sp, frame: 0, link: 0, called: true }, slot))
            }
            None if at.link != 0 => Some((Standing { pc: at.link, sp, frame: 0, link: 0, called: true }, 0)),
            None => None,
        }
    }
}

impl Pieces for Prologues {
    /// `None` on a stack that grows up, where the frame of a caller is no place above.
    fn returns(&self) -> Option<Reg> {
        (!self.grows_up).then_some(self.link)
    }

    fn registers(&self) -> Vec<Reg> {
        Vec::new()
    }

    fn pieces(&self, function: &Range<u64>) -> Vec<Piece> {
        let piece = |at, size: u64, saved| Piece { at, base: self.sp, distance: size.cast_signed(), is_word: false, saved };
        let mut pieces = vec![piece(function.start, 0, Vec::new())];
        if let Some(frame) = self.containing(function.start).and_then(|known| known.frame) {
            pieces.push(piece(frame.taken, frame.size, Vec::new()));
            let link = frame.link.cast_signed() - frame.size.cast_signed();
            pieces.push(piece(frame.kept, frame.size, vec![(self.link, link)]));
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(looks: &Looks, words: &[u32]) -> Option<Frame> {
        frame(looks, (0x1000..).step_by(4).zip(words.iter().copied()))
    }

    fn of(words: &[u32]) -> Option<Frame> {
        found(&super::super::MIPS, words)
    }

    #[test]
    fn a_prologue_on_a_stack_that_grows_up_gives_the_frame() {
        const KEEP: u32 = 0x6bc2_3fd9;
        const TAKE: u32 = 0x6fc4_0080;
        let expected = |taken, size, kept| Some(Frame { taken, size, kept, link: 20 });
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], Option<Frame>)] = &[
            ("at once",               &[KEEP, TAKE],                         expected(0x1008, 64, 0x1004)),
            ("with another between",  &[KEEP, 0x6bc3_3f89, TAKE],            expected(0x100c, 64, 0x1004)),
            ("by ldo",                &[KEEP, 0x37de_0080],                  expected(0x1008, 64, 0x1004)),
            ("a leaf",                &[TAKE, 0xe840_c000],                  None),
            ("no frame",              &[KEEP, 0xe840_c000],                  None),
            ("given back, not taken", &[KEEP, 0x37de_3f81],                  None),
        ];
        for (what, words, expected) in cases {
            assert_eq!(found(&super::super::PARISC, words), *expected, "{what}");
        }
    }

    #[test]
    fn a_prologue_gives_the_frame() {
        const TAKE: u32 = 0x27bd_ffe0;
        const KEEP: u32 = 0xafbf_001c;
        let expected = |taken, kept| Some(Frame { taken, size: 32, kept, link: 28 });
        #[rustfmt::skip]
        let cases: &[(&str, &[u32], Option<Frame>)] = &[
            ("at once",                 &[TAKE, KEEP],                                  expected(0x1004, 0x1008)),
            ("behind a question",       &[0x2c82_0002, 0x1440_0015, 0, TAKE, 0, KEEP],  expected(0x1010, 0x1018)),
            ("of 64 bits",              &[0x67bd_ffe0, 0xffbf_001c],                    expected(0x1004, 0x1008)),
            ("kept in a delay slot",    &[TAKE, 0x1440_0015, KEEP],                     expected(0x1004, 0x100c)),
            ("none",                    &[0x0080_1025, 0x03e0_0008, 0],                 None),
            ("given back, not taken",   &[0x27bd_0020, KEEP],                           None),
            ("kept outside",            &[TAKE, 0xafbf_0020],                           None),
        ];
        for (what, words, expected) in cases {
            assert_eq!(of(words), *expected, "{what}");
        }
    }
}
