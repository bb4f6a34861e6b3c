//! Unwinding by a register stack. A function keeps its return address in a register of its frame, which is a word of the backing
//! store. The frame of its caller begins as many registers below as the caller has locals.

use super::Stack;
use crate::boot::Kernel;
use crate::symbols::Symbols;
use bytes::Bytes;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The unwind rule for one kernel: where its functions start, and their code. The frame of a [`Standing`] is its address in the
/// backing store.
pub struct RegisterStack {
    stack: Stack,
    symbols: Symbols,
    code: Vec<(u64, Bytes)>,
}

impl RegisterStack {
    /// Builds the rule from the kernel's symbols and executable segments.
    pub fn new(kernel: &Kernel, stack: Stack) -> RegisterStack {
        let code = kernel.segments.iter().filter(|segment| segment.executable);
        let code = code.map(|segment| (segment.virtual_address, segment.bytes.clone())).collect();
        RegisterStack { stack, symbols: kernel.symbols.clone(), code }
    }

    /// The start and the code of the function that a pc is in.
    fn function(&self, pc: u64) -> Option<(u64, &[u8])> {
        let start = self.symbols.containing(pc)?.start;
        let code = self.code.iter().find_map(|(base, bytes)| bytes.get(usize::try_from(start.checked_sub(*base)?).ok()?..))?;
        Some((start, code))
    }
}

impl Unwind for RegisterStack {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        let (frame, link) = self.stack.start;
        (Some(frame), Some(link))
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        let (start, code) = self.function(at.pc)?;
        let (pc, slot) = match (self.stack.link_slot)(code, start, at.pc, at.frame) {
            Some(slot) => (read(slot)?, slot),
            // A function that has made a call has kept its return address.
            None if !at.called => (at.link, 0),
            None => return None,
        };
        Some((Standing { pc, link: 0, called: true, ..*at }, slot))
    }

    fn at_true_pc(&self, caller: Standing) -> Standing {
        let below = self.function(caller.pc).map(|(start, code)| (self.stack.below)(code, start, caller.pc, caller.frame));
        Standing { frame: below.unwrap_or(caller.frame), ..caller }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::Entry;

    const TEXT: u64 = 0xe000_0000_0010_0000;

    /// BY-1: a return address is in a register first, then in the backing store, and the caller's frame is below.
    #[test]
    fn callers_are_found_in_the_backing_store() {
        let entries = [("inner", TEXT), ("outer", TEXT + 32), ("end", TEXT + 64)];
        let entries = entries.map(|(name, address)| Entry { name: name.into(), address, kind: 'T', module: None });
        let stack = Stack {
            start: (Reg(1), Reg(2)),
            link_slot: |_, start, pc, frame| (pc - start >= 12).then_some(frame + 8),
            below: |_, _, _, frame| frame - 48,
        };
        let rule = RegisterStack { stack, symbols: Symbols::new(entries.to_vec()), code: vec![(TEXT, vec![0; 64].into())] };
        let of = |pc: u64, called: bool| {
            let at = Standing { pc, sp: 0x1000, frame: 0x8000, link: TEXT + 48, called };
            let read = &mut |at: u64| (at == 0x8008).then_some(TEXT + 48);
            rule.caller(&at, read).map(|(caller, slot)| (caller.pc, rule.at_true_pc(caller).frame, slot))
        };
        assert_eq!(of(TEXT, false), Some((TEXT + 48, 0x8000 - 48, 0)), "at its entry");
        assert_eq!(of(TEXT + 16, true), Some((TEXT + 48, 0x8000 - 48, 0x8008)), "behind the copy");
        assert_eq!(of(TEXT + 6, true), None, "it has made no call yet");
    }
}
