//! The callers of a hit: the function's caller, and a backtrace by scanning the stack.
//!
//! Return addresses that a return probe has replaced by the return pad's are shown as the true ones. Each entry of a backtrace
//! is a [`Frame`]. Nothing here allocates.

use super::{Hit, Phase};
use trapline_isa::abi::ReturnAddress;

/// One frame of a backtrace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The stack address where the return address was found. 0 means that it was in a register.
    pub slot: u64,
    /// The value found there. For a call that a return probe follows this is the return pad's address.
    pub raw: u64,
    /// The true return address.
    pub address: u64,
}

impl Hit<'_> {
    /// The caller of the function, read at its entry. This is the true address even where a return probe has put the
    /// return pad's address.
    pub fn caller(&mut self) -> Option<u64> {
        let (slot, raw) = match self.state.isa.abi.return_address {
            ReturnAddress::OnStack => (self.sp(), self.read_word(self.sp()).ok()?),
            ReturnAddress::In(reg) => (0, self.cpu.get(reg)),
        };
        Some(self.resolve(slot, raw, &mut 0))
    }

    /// A backtrace by scanning the stack: every word that `is_text` accepts as a code address, innermost first, after
    /// the pc. Return-pad addresses are replaced by the true ones.
    ///
    /// Without unwind tables some frames may be stale values of earlier calls. Returns the number of entries written to
    /// `into`.
    pub fn backtrace(&mut self, into: &mut [Frame], is_text: impl Fn(u64) -> bool) -> usize {
        let (pc, word) = (self.pc(), self.state.isa.word as u64);
        let mut found = 0;
        let mut pads = 0;
        let mut push = |frame| {
            if let Some(free) = into.get_mut(found) {
                *free = frame;
                found += 1;
            }
            found < into.len()
        };
        let mut go_on = push(Frame { slot: 0, raw: pc, address: pc });
        if let (ReturnAddress::In(reg), Phase::Before) = (self.state.isa.abi.return_address, self.phase()) {
            let raw = self.cpu.get(reg);
            if go_on && (self.is_pad(raw) || is_text(raw)) {
                go_on = push(Frame { slot: 0, raw, address: self.resolve(0, raw, &mut pads) });
            }
        }
        let (sp, abi) = (self.sp(), self.state.isa.abi);
        let size = abi.stack_size.max(1);
        // The loop goes from the newest word to the oldest.
        let count = if abi.stack_grows_up { sp % size } else { size - sp % size }.div_ceil(word);
        for number in 0..count {
            if !go_on {
                break;
            }
            let slot = match abi.stack_grows_up {
                true => sp.wrapping_sub((number + 1) * word),
                false => sp.wrapping_add(number * word),
            };
            let mut bytes = [0; 8];
            if self.cpu.read(slot, &mut bytes[..word as usize]).is_err() {
                break;
            }
            let raw = self.state.isa.order.number(&bytes[..word as usize]);
            if self.is_pad(raw) || is_text(raw) {
                go_on = push(Frame { slot, raw, address: self.resolve(slot, raw, &mut pads) });
            }
        }
        found
    }

    fn is_pad(&self, address: u64) -> bool {
        self.state.instances.is_pad(address)
    }

    /// Replaces the return pad's address, found at `slot`, by the true return address. Other addresses are returned
    /// unchanged. `pads` counts the pads met so far in this backtrace.
    pub(crate) fn resolve(&mut self, slot: u64, raw: u64, pads: &mut usize) -> u64 {
        if !self.is_pad(raw) {
            return raw;
        }
        let task = self.cpu.task();
        let at_slot = self.state.instances.saved_in(task, slot);
        let real = at_slot.or_else(|| self.state.instances.resolve_pad(task, *pads));
        *pads += 1;
        real.unwrap_or(raw)
    }
}
