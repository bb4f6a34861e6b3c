//! Frames that point to one another: each holds the place of the one before it, and it or that one holds the address of
//! a return.

use crate::boot::Kernel;
use crate::symbols::Symbols;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// How frames lie.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// The frame pointer.
    pub pointer: &'static str,
    /// What calls leave the return address in, where that is a register.
    pub link: Option<&'static str>,
    /// How far behind the beginning of a frame the place of the next one stands.
    pub next: u64,
    /// How far behind the beginning of a frame the address of the return stands.
    pub back: u64,
    /// It stands in the caller's frame, not in the function's own; then a frame begins where the stack pointer is.
    pub is_callers: bool,
    /// A function that stands so far behind its beginning, or less, has not made its frame yet.
    pub entry: u64,
}

/// The frames of one kernel's code.
pub struct Chained {
    chain: Chain,
    word: u64,
    pointer: Reg,
    link: Option<Reg>,
    symbols: Symbols,
}

impl Chained {
    /// Of a kernel whose code lays such frames.
    pub fn new(kernel: &Kernel, chain: &Chain) -> Option<Chained> {
        let isa = kernel.arch.isa();
        let register = |name: &str| isa.abi.register(name);
        Some(Chained {
            chain: *chain,
            word: isa.word as u64,
            pointer: register(chain.pointer)?,
            link: match chain.link {
                Some(link) => Some(register(link)?),
                None => None,
            },
            symbols: kernel.symbols.clone(),
        })
    }

    /// It has been called, and has not laid its frame.
    fn is_entering(&self, at: &Standing) -> bool {
        !at.called && self.symbols.containing(at.pc).is_some_and(|symbol| at.pc - symbol.start <= self.chain.entry)
    }
}

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
        // The first of all has none before it.
        let frame = Some(at.frame).filter(|frame| *frame != 0 && frame.is_multiple_of(self.word))?;
        let next = read(frame.wrapping_add(self.chain.next))?;
        if self.chain.is_callers {
            let slot = next.wrapping_add(self.chain.back);
            let pc = Some(next).filter(|next| *next > frame).and_then(|_| read(slot)).filter(|pc| *pc != 0)?;
            return Some((Standing { pc, sp: next, frame: next, link: 0, called: true }, slot));
        }
        let slot = frame.wrapping_add(self.chain.back);
        let pc = read(slot).filter(|pc| *pc != 0)?;
        Some((Standing { pc, sp: slot.wrapping_add(self.word), frame: next, link: 0, called: true }, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHAINS;
    use super::*;
    use trapline_isa::arch::Arch;

    /// BY-1: frames of calls laid by hand, in each of the ways that there are, lead from one to the next and to an end.
    #[test]
    fn frames_lead_to_one_another() {
        for (arch, chain) in CHAINS {
            let isa = arch.isa();
            let word = isa.word as u64;
            // Three frames, each 0x100 above the one before it; the last one leads nowhere.
            let read = |at: u64| {
                let (number, place) = ((at - 0x1000) / 0x100, (at - 0x1000) % 0x100);
                match (place, number) {
                    (place, 3..) if place == chain.next => Some(0),
                    (place, _) if place == chain.next => Some(0x1000 + (number + 1) * 0x100),
                    (place, _) if place == chain.back => Some(0xc000 + number),
                    _ => None,
                }
            };
            let chained = Chained {
                chain: *chain,
                word,
                pointer: isa.abi.register(chain.pointer).expect(chain.pointer),
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
            assert_eq!(found, (first..4).map(|number| 0xc000 + number).collect::<Vec<_>>(), "{arch:?}");
            assert!(chain.link.is_some() || *arch == Arch::I386, "{arch:?}");
        }
    }
}
