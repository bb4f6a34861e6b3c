//! Frames that point to one another: each begins with the place of the one before it, and holds the address of a return.

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
    /// How far behind the place of the next one the address of the return stands.
    pub back: u64,
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
        let slot = frame.wrapping_add(self.chain.back);
        let pc = read(slot).filter(|pc| *pc != 0)?;
        Some((Standing { pc, sp: slot.wrapping_add(self.word), frame: read(frame)?, link: 0, called: true }, slot))
    }
}
