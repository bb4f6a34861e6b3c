//! Interruptions and the return from them, and external interrupts.

use super::frame::{FRAME, size};
use super::state::State;
use super::{Fault, cr, isr, psr, vector};

/// The bit of `cr.ifs` that says that it has a frame.
const VALID: u64 = 1 << 63;

impl State {
    /// Notes the details of an interruption that an instruction has raised.
    pub(super) fn note(&self, fault: Fault) {
        self.fault_status.set(fault.status);
        self.fault_address.set(fault.address);
        self.fault_number.set(fault.number);
    }

    /// Delivers an interruption at the pc: saves the status and the pc, switches to the first bank and to the highest
    /// privilege level, and continues at the vector. While `psr.ic` is 0, only the interruption's status is saved.
    pub fn interrupt(&self, number: u32) {
        let status = self.psr();
        let set = |register: usize, value: u64| self.control[register].set(value);
        let collects = status & psr::IC != 0;
        let is_external = number == vector::EXTERNAL;
        if collects {
            set(cr::IPSR, status);
            set(cr::IIP, self.ip());
            set(cr::IIPA, self.last.get());
            set(cr::IFS, self.control[cr::IFS].get() & !VALID);
            let address = self.fault_address.get();
            if !is_external && number != vector::BREAK && number != vector::GENERAL {
                set(cr::IFA, address);
                set(cr::ITIR, self.regions[(address >> 61) as usize].get() & 0xffff_fffc);
            }
            if number == vector::BREAK {
                set(cr::IIM, self.fault_number.get());
            }
        }
        if number != vector::NESTED_MISS {
            let cause = if is_external { 0 } else { self.fault_status.get() };
            let incomplete = if self.dirty.get() < 0 { isr::IR } else { 0 };
            let nested = if collects { 0 } else { isr::NI };
            set(cr::ISR, cause | incomplete | nested | u64::from(self.slot()) << isr::EI);
        }
        self.loads.set(0);
        let default = self.control[cr::DCR].get();
        self.set_psr(status & psr::KEPT & !(3 << psr::CPL) | (default & 1) << 21);
        self.go_to((self.control[cr::IVA].get() & !0x7fff).wrapping_add(number.into()));
    }

    /// `rfi`: restores the status and the pc, and the frame if `cr.ifs` has one.
    pub(super) fn return_from_interruption(&self) {
        let frame = self.control[cr::IFS].get();
        if frame & VALID != 0 {
            self.uncover(frame, size(frame & FRAME));
        }
        self.loads.set(1);
        self.go_to(self.control[cr::IIP].get());
        self.set_psr(self.control[cr::IPSR].get());
    }

    /// `cover` saves the frame for `rfi` while `psr.ic` is 0.
    pub(super) fn cover_for_return(&self) {
        let frame = self.cover();
        if self.status.get() & psr::IC == 0 {
            self.control[cr::IFS].set(frame | VALID);
        }
    }

    /// Makes an external interrupt pending.
    pub fn raise(&self, number: u8) {
        let word = &self.pending[usize::from(number / 64)];
        word.set(word.get() | 1 << (number % 64));
    }

    /// The highest pending interrupt that neither the task priority nor one in service holds back.
    fn highest(&self) -> Option<u8> {
        let top = |words: &[core::cell::Cell<u64>; 4]| {
            (0..4_u8).rev().find_map(|word| words[usize::from(word)].get().checked_ilog2().map(|bit| 64 * word + bit as u8))
        };
        let number = top(&self.pending)?;
        let priority = self.control[cr::TPR].get();
        let class = u64::from(number >> 4);
        let masked = number != 2 && (priority >> 16 & 1 != 0 || number >= 16 && class <= (priority >> 4 & 15));
        (!masked && top(&self.serviced).is_none_or(|serviced| number > serviced)).then_some(number)
    }

    /// Whether an external interrupt is to be delivered before the next instruction.
    pub fn wants_interrupt(&self) -> bool {
        self.status.get() & psr::I != 0 && self.highest().is_some()
    }

    /// A read of `cr.ivr`: takes the highest pending interrupt into service. 15 if there is none.
    pub(super) fn take_interrupt(&self) -> u64 {
        let Some(number) = self.highest() else { return 15 };
        let (word, bit) = (usize::from(number / 64), 1 << (number % 64));
        self.pending[word].set(self.pending[word].get() & !bit);
        self.serviced[word].set(self.serviced[word].get() | bit);
        number.into()
    }

    /// A write to `cr.eoi`: the highest interrupt in service has ended.
    pub(super) fn end_interrupt(&self) {
        for word in self.serviced.iter().rev() {
            if let Some(bit) = word.get().checked_ilog2() {
                return word.set(word.get() & !(1 << bit));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// KP-2: an interruption saves status, pc and slot, changes the bank, and `rfi` restores them.
    #[test]
    fn an_interruption_saves_what_rfi_restores() {
        let state = State::new();
        state.control[cr::IVA].set(0x10_0000);
        state.set_psr(psr::IC | psr::I | psr::BN | psr::DT | 3 << psr::CPL | 2 << psr::RI);
        state.go_to(0x4000);
        state.set_slot(2);
        state.last.set(0x3ff0);
        state.set_r(16, 0x16, false);
        state.set_r(20, 0x20, true);
        state.note(Fault { vector: vector::BREAK, status: 0, address: 0x55, number: 0x81000 });
        state.interrupt(vector::BREAK);
        assert_eq!((state.ip(), state.slot(), state.psr()), (0x10_2c00, 0, psr::DT));
        assert_eq!([state.r(16), state.r(20)], [0, 0], "the other bank");
        assert!(!state.is_nat(20));
        let saved: Vec<u64> = [cr::IIP, cr::IIPA, cr::IIM, cr::ISR].iter().map(|number| state.control[*number].get()).collect();
        assert_eq!(saved, [0x4000, 0x3ff0, 0x81000, 2 << isr::EI]);
        state.set_r(16, 1, false);
        state.interrupt(vector::GENERAL);
        assert_eq!(state.control[cr::IIP].get(), 0x4000, "nothing is collected while psr.ic is 0");
        assert_eq!(state.control[cr::ISR].get() & isr::NI, isr::NI);
        state.return_from_interruption();
        assert_eq!((state.ip(), state.slot(), state.level()), (0x4000, 2, 3));
        assert_eq!([state.r(16), state.r(20)], [0x16, 0x20]);
        assert!(state.is_nat(20));
    }

    /// KP-2: external interrupts come by priority, and one in service holds back lower ones.
    #[test]
    fn external_interrupts_come_by_priority() {
        let state = State::new();
        state.raise(0x31);
        state.raise(0xef);
        assert!(!state.wants_interrupt(), "psr.i is 0");
        state.status.set(psr::I);
        assert_eq!(state.take_interrupt(), 0xef);
        assert!(!state.wants_interrupt());
        assert_eq!(state.take_interrupt(), 15, "spurious");
        state.end_interrupt();
        state.control[cr::TPR].set(3 << 4);
        assert!(!state.wants_interrupt(), "the class is masked");
        state.control[cr::TPR].set(2 << 4);
        assert_eq!(state.take_interrupt(), 0x31);
    }
}
