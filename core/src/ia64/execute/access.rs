//! Loads, stores and semaphores.

use super::super::alat::Claim;
use super::super::run::Core;
use super::super::state::Real;
use super::super::{Fault, Host, ar, cr, isr, psr, vector};
use trapline_isa::ia64::op::{After, Early, Float, Op, Order};

/// The base's new value with its NaT bit, if the access changes it.
type Base = Option<(u64, bool)>;

const fn is_speculative(early: Early) -> bool {
    matches!(early, Early::Speculative | Early::SpeculativeAdvanced)
}

/// The status bits of a load.
const fn of_load(early: Early) -> u64 {
    if is_speculative(early) { isr::R | isr::SP } else { isr::R }
}

/// The interruption of a disabled floating-point register that an access names, with the kind of access.
fn as_access(fault: Fault, status: u64) -> Fault {
    let status = if fault.vector == vector::DISABLED_FLOAT { status } else { 0 };
    Fault { status: fault.status | status, ..fault }
}

impl Core {
    fn new_base(&self, at: u8, after: After) -> Result<Base, Fault> {
        let state = self.state();
        let After::Add(by) = after else { return Ok(None) };
        state.check_target(at)?;
        let (by, nat) = state.value(by);
        Ok(Some((state.r(at).wrapping_add(by), nat | state.is_nat(at))))
    }

    fn set_base(&self, at: u8, base: Base) {
        if let Some((value, nat)) = base {
            self.state().set_r(at, value, nat);
        }
    }

    /// Whether a speculative load sets NaT instead of raising this interruption. While `psr.ic` is 1, a bit of DCR asks for
    /// that by the kind of fault, and the page of the code for unaligned addresses. The manual wants the page to ask for the
    /// others, too: here a kernel without such pages, like the tiny one, may rely on DCR alone.
    fn defers(&self, fault: Fault) -> bool {
        let state = self.state();
        let asks = |bit: u32| state.control[cr::DCR].get() >> bit & 1 != 0;
        let is_asked = match fault.vector {
            vector::DATA_MISS | vector::NESTED_MISS => asks(8),
            vector::NOT_PRESENT => asks(9),
            vector::DATA_RIGHTS => asks(12),
            vector::DATA_ACCESS => asks(13),
            vector::UNALIGNED => state.code_defers(),
            _ => false,
        };
        state.status.get() & psr::IC == 0 || is_asked
    }

    /// The physical address of a load; `None` if a speculative load defers its fault, so that the target becomes NaT.
    fn early_address(&mut self, at: u8, size: u32, early: Early) -> Result<Option<u64>, Fault> {
        let speculative = is_speculative(early);
        let status = if speculative { isr::SP } else { 0 };
        if speculative && self.state().is_nat(at) {
            return Ok(None);
        }
        let address = self.state().number(at, isr::R)?;
        let state = self.state();
        if speculative && state.status.get() & psr::ED != 0 {
            state.status.set(state.status.get() & !psr::ED);
            return Ok(None);
        }
        match self.physical(address, size, (true, false, status)) {
            Ok(physical) => Ok(Some(physical)),
            Err(fault) if speculative && self.defers(fault) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a check load finds its entry in the ALAT, so that nothing is loaded. Updates the ALAT for advanced and check
    /// loads.
    fn is_held(&self, register: u32, size: u32, physical: Option<u64>, early: Early) -> bool {
        let alat = &self.state().alat;
        let claim = physical.map(|address| Claim { register, size, address });
        let held = claim.is_some() && alat.find(register) == claim;
        match (early, claim) {
            (Early::CheckClear, _) => alat.remove(register),
            (Early::CheckKeep, Some(claim)) if !held => alat.insert(claim),
            (Early::Advanced | Early::SpeculativeAdvanced, Some(claim)) => alat.insert(claim),
            (Early::SpeculativeAdvanced, None) => alat.remove(register),
            _ => {}
        }
        held && matches!(early, Early::CheckClear | Early::CheckKeep)
    }

    /// Executes a load, a store or a semaphore.
    #[inline(always)]
    pub(super) fn access(&mut self, host: &mut impl Host, op: &Op) -> Result<(), Fault> {
        match *op {
            Op::Load { size, early, order: _, fill, hint: _, to, at, after } => {
                let state = self.shared_state();
                state.check_target(to)?;
                let base = self.new_base(at, after)?;
                if base.is_some() && to == at {
                    return Err(Fault::ILLEGAL);
                }
                let size = u32::from(size);
                let found = self.early_address(at, size, early)?;
                let is_held = early != Early::No && self.is_held(state.alat_number(to), size, found, early);
                match found {
                    _ if is_held => {}
                    None => state.set_r(to, 0, true),
                    // A speculative load never reads a device.
                    Some(physical) if is_speculative(early) && host.load(physical, size).is_none() => state.set_r(to, 0, true),
                    Some(physical) => {
                        let value = self.read(host, physical, size);
                        let bits = state.application[usize::from(ar::UNAT)].get();
                        let nat = fill && bits >> (state.r(at) >> 3 & 63) & 1 != 0;
                        state.set_r(to, value, nat);
                    }
                }
                self.set_base(at, base);
                Ok(())
            }
            Op::Store { size, order: _, spill, hint: _, from, at, after } => {
                let state = self.shared_state();
                let base = self.new_base(at, after)?;
                let address = state.number(at, isr::W)?;
                if !spill && state.is_nat(from) {
                    return Err(Fault::nat(isr::W));
                }
                let physical = self.physical(address, size.into(), (false, true, 0))?;
                if spill {
                    let (unat, bit) = (&state.application[usize::from(ar::UNAT)], address >> 3 & 63);
                    unat.set(unat.get() & !(1 << bit) | u64::from(state.is_nat(from)) << bit);
                }
                self.write(host, physical, size.into(), state.r(from));
                self.set_base(at, base);
                Ok(())
            }
            Op::LoadFloat { .. } | Op::LoadFloatPair { .. } | Op::StoreFloat { .. } => self.float_access(host, op),
            // A prefetch that may raise an interruption.
            Op::Prefetch { fault: true, count: false, at, after, .. } => {
                let base = self.new_base(at, after)?;
                let status = isr::NA | 4;
                let address = self.state().number(at, status | isr::R)?;
                self.physical(address, 1, (true, false, status))?;
                self.set_base(at, base);
                Ok(())
            }
            _ => self.semaphore(host, op),
        }
    }

    /// Executes `cmpxchg`, `xchg` and `fetchadd`. Each needs the right to read and to write.
    fn semaphore(&mut self, host: &mut impl Host, op: &Op) -> Result<(), Fault> {
        let (size, to, at, from, by) = match *op {
            Op::CompareExchange { size, order: Order::Acquire | Order::Release, to, at, from, .. } => {
                (size, to, at, Some(from), 0)
            }
            Op::Exchange { size, to, at, from, .. } => (size, to, at, Some(from), 0),
            Op::FetchAdd { size, to, at, by, .. } => (size, to, at, None, by),
            _ => return Err(Fault::ILLEGAL),
        };
        let state = self.shared_state();
        state.check_target(to)?;
        let both = isr::R | isr::W;
        let address = state.number(at, both)?;
        let new = from.map(|from| state.number(from, both)).transpose()?;
        let size = u32::from(size);
        let physical = self.physical(address, size, (true, true, 0))?;
        let old = self.read(host, physical, size);
        let mask = u64::MAX >> (64 - 8 * size);
        let compares = matches!(op, Op::CompareExchange { .. });
        // A narrow number is compared with all bits of the register.
        if !compares || old == state.application[usize::from(ar::CCV)].get() {
            self.write(host, physical, size, new.unwrap_or(old.wrapping_add_signed(by)) & mask);
        }
        state.set_r(to, old, false);
        Ok(())
    }

    /// Executes loads and stores of floating-point registers. A pair load needs registers with one odd and
    /// one even physical number.
    fn float_access(&mut self, host: &mut impl Host, op: &Op) -> Result<(), Fault> {
        let state = self.shared_state();
        match *op {
            Op::LoadFloat { format, early, hint: _, to, at, after } => {
                state.check_real(&[], Some(to)).map_err(|fault| as_access(fault, of_load(early)))?;
                let base = self.new_base(at, after)?;
                let found = self.early_address(at, bytes(format), early)?;
                if !(early != Early::No && self.is_held(state.alat_real(to), bytes(format), found, early)) {
                    let value = found.map_or(Real::NAT, |physical| self.load_real(host, physical, format));
                    state.set_f(to, value);
                }
                self.set_base(at, base);
            }
            Op::LoadFloatPair { format, early, hint: _, to, at, after } => {
                if to.iter().any(|register| *register < 2) || state.alat_real(to[0]) & 1 == state.alat_real(to[1]) & 1 {
                    return Err(Fault::ILLEGAL);
                }
                state.check_real(&to, None).map_err(|fault| as_access(fault, of_load(early)))?;
                let base = self.new_base(at, after)?;
                let size = bytes(format);
                let found = self.early_address(at, 2 * size, early)?;
                if !(early != Early::No && self.is_held(state.alat_real(to[0]), 2 * size, found, early)) {
                    for (number, register) in (0..).zip(to) {
                        let at = found.map(|physical| physical + u64::from(size * number));
                        state.set_f(register, at.map_or(Real::NAT, |at| self.load_real(host, at, format)));
                    }
                }
                self.set_base(at, base);
            }
            Op::StoreFloat { format, hint: _, from, at, after } => {
                state.check_real(&[from], None).map_err(|fault| as_access(fault, isr::W))?;
                let base = self.new_base(at, after)?;
                let address = state.number(at, isr::W)?;
                let value = state.f(from);
                if value == Real::NAT && format != Float::Whole {
                    return Err(Fault::nat(isr::W));
                }
                let physical = self.physical(address, bytes(format), (false, true, 0))?;
                match format {
                    Float::Integer => self.write(host, physical, 8, value.significand),
                    Float::Single => self.write(host, physical, 4, value.to_single()),
                    Float::Double => self.write(host, physical, 8, value.to_double()),
                    Float::Extended => {
                        self.write(host, physical, 8, value.significand);
                        self.write(host, physical + 8, 2, value.to_extended());
                    }
                    Float::Whole | Float::Exponent => {
                        self.write(host, physical, 8, value.significand);
                        self.write(host, physical + 8, 8, value.exponent);
                    }
                }
                self.set_base(at, base);
            }
            _ => return Err(Fault::ILLEGAL),
        }
        Ok(())
    }

    fn load_real(&mut self, host: &mut impl Host, at: u64, format: Float) -> Real {
        match format {
            Float::Integer => Real::integer(self.read(host, at, 8)),
            Float::Single => Real::from_single(self.read(host, at, 4)),
            Float::Double => Real::from_double(self.read(host, at, 8)),
            Float::Extended => Real::from_extended(self.read(host, at, 8), self.read(host, at + 8, 2)),
            Float::Whole | Float::Exponent => {
                Real { significand: self.read(host, at, 8), exponent: self.read(host, at + 8, 8) & 0x3_ffff }
            }
        }
    }
}

/// The number of bytes of a floating-point access, for the checks of alignment and the ALAT. An access of 10 bytes counts as 16.
const fn bytes(format: Float) -> u32 {
    match format {
        Float::Single => 4,
        Float::Integer | Float::Double => 8,
        Float::Extended | Float::Exponent | Float::Whole => 16,
    }
}
