//! Registers as instructions name them: the current frame, rotation, predicates, NaT bits.

use super::alat::FLOATS;
use super::state::{Real, STACKED, State};
use super::{Fault, isr, psr, vector};
use core::cell::Cell;

/// Fields of a frame marker.
#[inline(always)]
pub(super) const fn size(frame: u64) -> u32 {
    (frame & 0x7f) as u32
}
/// Registers of the frame that are its locals.
#[inline(always)]
pub(super) const fn locals(frame: u64) -> u32 {
    (frame >> 7 & 0x7f) as u32
}
/// Registers of the frame that rotate.
const fn rotating(frame: u64) -> u32 {
    (frame >> 14 & 0xf) as u32 * 8
}
const fn base_of_general(frame: u64) -> u32 {
    (frame >> 18 & 0x7f) as u32
}
const fn base_of_real(frame: u64) -> u32 {
    (frame >> 25 & 0x7f) as u32
}
const fn base_of_predicates(frame: u64) -> u32 {
    (frame >> 32 & 0x3f) as u32
}
/// The bits of a frame marker.
pub(super) const FRAME: u64 = (1 << 38) - 1;
/// The sizes in a frame marker.
pub(super) const SIZES: u64 = (1 << 18) - 1;

/// The frame, as the instructions of a block see it. It does not change between two of them, but for `alloc` and for
/// instructions that run from their full form.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// The physical number of register 32, before rotation.
    bottom: u32,
    /// The number of registers in the frame.
    size: u32,
    /// The number of registers that rotate, and the base of their rotation.
    rotating: u32,
    base: u32,
    predicates_base: u32,
    /// Whether the rotation is one that instructions make, and no general register has a NaT bit.
    pub is_plain: bool,
    /// Whether the rotation is one that instructions make. In any other frame instructions run from their full form.
    pub is_usual: bool,
}

impl View {
    #[inline(always)]
    pub fn of(state: &State) -> View {
        let (frame, bottom) = (state.frame.get(), state.bottom.get());
        let [low, high] = [&state.stacked_nat[0], &state.stacked_nat[1]].map(|word| word.get());
        let has_nats = u64::from(state.nat.get()) | low | high != 0;
        let is_usual = bottom < STACKED;
        let is_plain = is_usual && !has_nats;
        let view = View { bottom, size: size(frame), rotating: 0, base: 0, predicates_base: 0, is_plain, is_usual };
        if frame > SIZES { view.rotated(frame) } else { view }
    }

    #[inline]
    fn rotated(mut self, frame: u64) -> View {
        (self.rotating, self.base, self.predicates_base) = (rotating(frame), base_of_general(frame), base_of_predicates(frame));
        self.is_usual &= self.rotating <= STACKED && self.base <= self.rotating && self.predicates_base < 48;
        self.is_plain &= self.is_usual;
        self
    }

    /// Whether an instruction may write this general register, which is not number 0.
    #[inline(always)]
    pub fn has(&self, register: u8) -> bool {
        u32::from(register) < 32 + self.size
    }

    #[inline(always)]
    pub fn cell<'a>(&self, state: &'a State, register: u8) -> Option<&'a Cell<u64>> {
        match state.general.get(usize::from(register)) {
            None => self.stacked(state, register),
            cell => cell,
        }
    }

    /// A register of the frame, from number 32 on.
    #[inline(always)]
    pub fn stacked<'a>(&self, state: &'a State, register: u8) -> Option<&'a Cell<u64>> {
        let mut number = u32::from(register).wrapping_sub(32);
        if number < self.rotating {
            number = number.wrapping_add(self.base);
            if number >= self.rotating {
                number -= self.rotating;
            }
        }
        let physical = self.bottom.wrapping_add(number);
        state.stacked.get(if physical >= STACKED { physical - STACKED } else { physical } as usize)
    }

    #[inline(always)]
    pub fn r(&self, state: &State, register: u8) -> u64 {
        self.cell(state, register).map_or(0, Cell::get)
    }

    /// The number of a predicate's bit.
    #[inline(always)]
    fn predicate_bit(&self, predicate: u8) -> u32 {
        let number = u32::from(predicate & 63);
        let rotated = number + self.predicates_base;
        match number {
            0..16 => number,
            _ if rotated > 63 => rotated - 48,
            _ => rotated,
        }
    }

    /// Whether a predicate is true.
    #[inline(always)]
    pub fn p(&self, state: &State, predicate: u8) -> bool {
        state.predicates.get() >> (self.predicate_bit(predicate) & 63) & 1 != 0
    }

    /// The bit of a predicate that is written. 0 for number 0, which is never written.
    #[inline(always)]
    pub fn predicate_mask(&self, predicate: u8) -> u64 {
        u64::from(predicate != 0) << (self.predicate_bit(predicate) & 63)
    }
}

impl State {
    /// The physical number of a stacked register of the frame.
    #[inline]
    fn physical(&self, register: u8) -> usize {
        let frame = self.frame.get();
        let (mut number, rotating) = (u32::from(register) - 32, rotating(frame));
        if number < rotating {
            number += base_of_general(frame);
            if number >= rotating {
                number -= rotating;
            }
        }
        ((self.bottom.get() + number) % STACKED) as usize
    }

    /// The number of a general register that the ALAT uses: stacked registers by their physical number.
    pub fn alat_number(&self, register: u8) -> u32 {
        if register < 32 { register.into() } else { 32 + self.physical(register) as u32 }
    }

    /// The number of a floating-point register that the ALAT uses: its physical number, above those of general registers.
    pub fn alat_real(&self, register: u8) -> u32 {
        FLOATS + self.real_index(register) as u32
    }

    /// A general register of the frame. Registers outside of it are undefined.
    #[inline(always)]
    pub fn r(&self, register: u8) -> u64 {
        match self.general.get(usize::from(register)) {
            Some(cell) => cell.get(),
            None => self.stacked[self.physical(register)].get(),
        }
    }

    /// The NaT bit of a general register.
    #[inline(always)]
    pub fn is_nat(&self, register: u8) -> bool {
        if register < 32 {
            return self.nat.get() >> register & 1 != 0;
        }
        self.is_stacked_nat(self.physical(register))
    }

    /// The NaT bit of a stacked register by its physical number.
    #[inline]
    pub(super) fn is_stacked_nat(&self, physical: usize) -> bool {
        self.stacked_nat[physical / 48].get() >> (physical % 48) & 1 != 0
    }

    #[inline]
    pub(super) fn set_stacked(&self, physical: usize, value: u64, nat: bool) {
        self.stacked[physical].set(value);
        let (word, bit) = (&self.stacked_nat[physical / 48], physical % 48);
        word.set(word.get() & !(1 << bit) | u64::from(nat) << bit);
    }

    /// Sets a general register and its NaT bit. Register 0 keeps its value.
    #[inline(always)]
    pub fn set_r(&self, register: u8, value: u64, nat: bool) {
        if register >= 32 {
            return self.set_stacked(self.physical(register), value, nat);
        }
        if register != 0 {
            self.general[usize::from(register)].set(value);
            self.nat.set(self.nat.get() & !(1 << register) | u32::from(nat) << register);
        }
    }

    /// Checks that an instruction may write this general register: it is in the frame, and not register 0.
    #[inline(always)]
    pub(super) fn check_target(&self, register: u8) -> Result<(), Fault> {
        if register == 0 || register >= 32 && u32::from(register) - 32 >= size(self.frame.get()) {
            return Err(Fault::ILLEGAL);
        }
        Ok(())
    }

    fn predicate_bit(&self, predicate: u8) -> u32 {
        let number = u32::from(predicate);
        if number < 16 { number } else { 16 + (number - 16 + base_of_predicates(self.frame.get())) % 48 }
    }

    /// Whether a predicate of the frame is true.
    #[inline(always)]
    pub fn p(&self, predicate: u8) -> bool {
        predicate == 0 || self.predicates.get() >> self.predicate_bit(predicate) & 1 != 0
    }

    /// Sets a predicate. Number 0 keeps its value.
    #[inline(always)]
    pub fn set_p(&self, predicate: u8, value: bool) {
        if predicate != 0 {
            let bit = self.predicate_bit(predicate);
            self.predicates.set(self.predicates.get() & !(1 << bit) | u64::from(value) << bit);
        }
    }

    fn real_index(&self, register: u8) -> usize {
        let number = usize::from(register & 127);
        if number < 32 { number } else { 32 + (number - 32 + base_of_real(self.frame.get()) as usize) % 96 }
    }

    /// A floating-point register.
    pub fn f(&self, register: u8) -> Real {
        self.real[self.real_index(register)].get()
    }

    /// Sets a floating-point register, and the bit of `psr` that says so. Registers 0 and 1 keep their values.
    pub fn set_f(&self, register: u8, value: Real) {
        if register > 1 {
            self.real[self.real_index(register)].set(value);
            let half = if register < 32 { psr::MFL } else { psr::MFH };
            self.status.set(self.status.get() | half);
        }
    }

    /// Checks that floating-point registers are enabled.
    pub(super) fn check_real(&self, registers: &[u8], target: Option<u8>) -> Result<(), Fault> {
        let status = self.status.get();
        if target.is_some_and(|register| register < 2) {
            return Err(Fault::ILLEGAL);
        }
        for register in registers.iter().copied().chain(target) {
            let (half, bit) = if register < 32 { (psr::DFL, 1) } else { (psr::DFH, 2) };
            if register > 1 && status & half != 0 {
                let status: u64 = bit;
                return Err(Fault { vector: vector::DISABLED_FLOAT, status, address: 0, number: 0 });
            }
        }
        Ok(())
    }

    /// Rotates the registers by one, as `br.ctop` and its relatives do.
    pub(super) fn rotate(&self) {
        let frame = self.frame.get();
        let previous = |base: u32, count: u32| if count == 0 { 0 } else { (base + count - 1) % count };
        let general = previous(base_of_general(frame), rotating(frame));
        let real = previous(base_of_real(frame), 96);
        let predicates = previous(base_of_predicates(frame), 48);
        let bases = u64::from(general) << 18 | u64::from(real) << 25 | u64::from(predicates) << 32;
        self.frame.set(frame & SIZES | bases);
    }

    /// Checks the privilege level of an instruction for the kernel.
    pub(super) fn check_kernel(&self) -> Result<(), Fault> {
        if self.level() == 0 { Ok(()) } else { Err(Fault::general(isr::PRIVILEGED)) }
    }

    /// The number of a register that must not have a NaT bit.
    pub(super) fn number(&self, register: u8, status: u64) -> Result<u64, Fault> {
        if self.is_nat(register) { Err(Fault::nat(status)) } else { Ok(self.r(register)) }
    }
}
