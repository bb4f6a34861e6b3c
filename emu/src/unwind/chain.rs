//! Unwinding by frame pointers or back chains: each frame stores the address of the caller's frame, and one of the two
//! frames stores the return address.

use super::frames::{Piece, Pieces};
use crate::boot::Kernel;
use crate::symbols::Symbols;
use std::ops::Range;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The frame layout of an ISA.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// The name of the frame pointer.
    pub pointer: &'static str,
    /// The name of the link register, if the ISA has one.
    pub link: Option<&'static str>,
    /// Offset of the next frame's address in a frame.
    pub next: i64,
    /// Offset of the return address in a frame.
    pub back: i64,
    /// Functions that call nothing have the next frame's address at `back`, and the return address in the link register.
    pub has_short_leaves: bool,
    /// The return address is in the caller's frame. Then a frame begins at the stack pointer.
    pub is_callers: bool,
    /// A function has not set up its frame yet within this many bytes of its start.
    pub entry: u64,
}

/// The unwind rule for one kernel.
pub struct Chained {
    chain: Chain,
    word: u64,
    sp: Reg,
    pointer: Reg,
    link: Option<Reg>,
    /// The pc, on ISAs without a link register.
    pc: Option<Reg>,
    symbols: Symbols,
}

impl Chained {
    /// A rule for a kernel whose code uses such frames.
    pub fn new(kernel: &Kernel, chain: &Chain) -> Option<Chained> {
        let isa = kernel.arch.isa();
        let register = |name: &str| isa.abi.register(name);
        Some(Chained {
            chain: *chain,
            word: isa.word as u64,
            sp: isa.abi.sp,
            pointer: register(chain.pointer)?,
            pc: register("ip"),
            link: match chain.link {
                Some(link) => Some(register(link)?),
                None => None,
            },
            symbols: kernel.symbols.clone(),
        })
    }

    /// Whether the function was just called and has not set up its frame.
    fn is_entering(&self, at: &Standing) -> bool {
        !at.called && self.symbols.containing(at.pc).is_some_and(|symbol| at.pc - symbol.start <= self.chain.entry)
    }

    /// The caller of a function that calls nothing, where such functions have a shorter frame.
    fn short_leaf(&self, at: &Standing, frame: u64, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Standing> {
        if !self.chain.has_short_leaves || at.called {
            return None;
        }
        let next = read(frame.wrapping_add_signed(self.chain.back))?;
        let is_frame = next > frame && next - frame < MOST_APART && next.is_multiple_of(self.word);
        is_frame.then_some(Standing { pc: at.link, sp: frame, frame: next, link: 0, called: true })
    }
}

/// The largest distance between two frames: a large stack.
const MOST_APART: u64 = 64 << 10;

impl Unwind for Chained {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        (Some(self.pointer), self.link)
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        if self.is_entering(at) {
            return match self.link {
                Some(_) => Some((Standing { pc: at.link, link: 0, called: true, ..*at }, 0)),
                None => Some((Standing { pc: read(at.sp)?, sp: at.sp.wrapping_add(self.word), called: true, ..*at }, at.sp)),
            };
        }
        // The outermost function has no frame before it.
        let frame = Some(at.frame).filter(|frame| *frame != 0 && frame.is_multiple_of(self.word))?;
        if let Some(leaf) = self.short_leaf(at, frame, read) {
            return Some((leaf, 0));
        }
        let next = read(frame.wrapping_add_signed(self.chain.next))?;
        if self.chain.is_callers {
            let slot = next.wrapping_add_signed(self.chain.back);
            let pc = Some(next).filter(|next| *next > frame).and_then(|_| read(slot)).filter(|pc| *pc != 0)?;
            return Some((Standing { pc, sp: next, frame: next, link: 0, called: true }, slot));
        }
        let slot = frame.wrapping_add_signed(self.chain.back);
        let pc = read(slot).filter(|pc| *pc != 0)?;
        Some((Standing { pc, sp: slot.wrapping_add(self.word), frame: next, link: 0, called: true }, slot))
    }
}

impl Pieces for Chained {
    fn returns(&self) -> Option<Reg> {
        self.link.or(self.pc)
    }

    fn registers(&self) -> Vec<Reg> {
        Some(self.pointer).filter(|pointer| *pointer != self.sp).into_iter().collect()
    }

    /// A function that calls nothing is taken for one with a whole frame.
    fn pieces(&self, function: &Range<u64>) -> Vec<Piece> {
        let word = self.word.cast_signed();
        let at_entry = Piece { at: function.start, base: self.sp, distance: 0, is_word: false, saved: Vec::new() };
        let at_entry = match (self.link, self.pc) {
            (None, Some(pc)) => Piece { distance: word, saved: vec![(pc, -word)], ..at_entry },
            _ => at_entry,
        };
        let Some(returns) = self.returns() else { return vec![at_entry] };
        let (back, at) = (self.chain.back, function.start + self.chain.entry + 1);
        let framed = match self.chain.is_callers {
            true => Piece { at, base: self.pointer, distance: self.chain.next, is_word: true, saved: vec![(returns, back)] },
            false => {
                let frame = back + word;
                let saved = vec![(returns, -word), (self.pointer, self.chain.next - frame)];
                Piece { at, base: self.pointer, distance: frame, is_word: false, saved }
            }
        };
        vec![at_entry, framed]
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHAINS;
    use super::*;
    use trapline_isa::arch::Arch;

    /// BY-1: artificial frames in each layout are followed to the end.
    #[test]
    fn frames_are_followed_to_the_outermost() {
        for (arch, chain) in CHAINS {
            let isa = arch.isa();
            let word = isa.word as u64;
            // Three frames, each 0x400 above the one before it. The last one ends the chain.
            let read = |at: u64| {
                let number = (at - 0xe00) / 0x400;
                let place = at.cast_signed() - (0x1000 + number * 0x400).cast_signed();
                match (place, number) {
                    (place, 3..) if place == chain.next => Some(0),
                    (place, _) if place == chain.next => Some(0x1000 + (number + 1) * 0x400),
                    (place, _) if place == chain.back => Some(0xc000_0000 + number),
                    _ => None,
                }
            };
            let chained = Chained {
                chain: *chain,
                word,
                sp: isa.abi.sp,
                pointer: isa.abi.register(chain.pointer).expect(chain.pointer),
                pc: None,
                link: chain.link.and_then(|link| isa.abi.register(link)),
                symbols: Symbols::default(),
            };
            let mut at = Standing { pc: 0x5000, sp: 0x1000, frame: 0x1000, link: 0, called: false };
            let mut found = Vec::new();
            while let Some((caller, _)) = chained.caller(&at, &mut |at| read(at)) {
                found.push(caller.pc);
                at = caller;
                assert!(found.len() < 10, "{arch:?}");
            }
            let first = u64::from(chain.is_callers);
            assert_eq!(found, (first..4).map(|number| 0xc000_0000 + number).collect::<Vec<_>>(), "{arch:?}");
            assert!(chain.link.is_some() || *arch == Arch::I386, "{arch:?}");
        }
    }
    /// BY-1: a RISC-V function that calls nothing keeps its caller's frame where others keep the return address.
    #[test]
    fn a_leaf_returns_by_its_link_register() {
        let (arch, chain) = CHAINS.iter().find(|(_, chain)| chain.has_short_leaves).expect("RISC-V");
        let isa = arch.isa();
        let register = |name: &str| isa.abi.register(name);
        let chained = Chained {
            chain: *chain,
            word: isa.word as u64,
            sp: isa.abi.sp,
            pointer: register(chain.pointer).expect("its name"),
            pc: None,
            link: chain.link.and_then(register),
            symbols: Symbols::default(),
        };
        let at = |called| Standing { pc: 0x5000, sp: 0x1000, frame: 0x1040, link: 0x6000, called };
        let caller = |at: Standing| chained.caller(&at, &mut |place| (place == 0x1038).then_some(0x1100));
        let expected = Standing { pc: 0x6000, sp: 0x1040, frame: 0x1100, link: 0, called: true };
        assert_eq!(caller(at(false)), Some((expected, 0)));
        assert_eq!(caller(at(true)), None, "a function that was called from elsewhere has a whole frame");
    }
}
