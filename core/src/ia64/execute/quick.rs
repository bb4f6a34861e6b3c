//! Executes the frequent instructions from their short form. A case that needs more, such as a fault, a NaT bit, a device
//! or a miss of the cached translations, changes nothing here and runs from the full form.

use super::super::frame::{SIZES, View};
use super::super::quick::{Place, What};
use super::super::run::Core;
use super::super::state::{Real, STACKED, State};
use super::super::{Host, ar, psr};
use super::float::product;
use super::integer::alu;
use core::cell::Cell;

/// The end of an instruction's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Done {
    /// The next slot follows.
    Slot,
    /// The next slot follows, with another frame.
    Frame,
    /// The first slot of a bundle at this address follows.
    Bundle(u64),
    /// The instruction runs from its full form: nothing has changed.
    Not,
}

/// The registers as an instruction reads them. It notes NaT bits, if any register can have one.
struct Operands<'a, const NATS: bool> {
    state: &'a State,
    view: View,
    /// Whether a register that was read has a NaT bit.
    nat: Cell<bool>,
}

impl<const NATS: bool> Operands<'_, NATS> {
    #[inline(always)]
    fn r(&self, register: u8) -> u64 {
        if NATS && self.state.is_nat(register) {
            self.nat.set(true);
        }
        self.view.r(self.state, register)
    }

    /// Sets a general register other than number 0 and clears its NaT bit.
    #[inline(always)]
    fn set(&self, register: u8, value: u64) -> Done {
        if NATS {
            return self.set_with_nat(register, value);
        }
        if let Some(cell) = self.state.general.get(usize::from(register)) {
            cell.set(value);
            return Done::Slot;
        }
        match self.view.stacked(self.state, register) {
            Some(cell) if self.view.has(register) => {
                cell.set(value);
                Done::Slot
            }
            _ => Done::Not,
        }
    }

    /// Hands a register's number to `put`, unless the register has a NaT bit.
    #[inline(always)]
    fn give(&self, register: u8, put: impl FnOnce(u64)) -> Done {
        let value = self.r(register);
        if NATS && self.nat.get() {
            return Done::Not;
        }
        put(value);
        Done::Slot
    }

    #[inline(never)]
    fn set_with_nat(&self, register: u8, value: u64) -> Done {
        if self.nat.get() || !self.view.has(register) {
            return Done::Not;
        }
        self.state.set_r(register, value, false);
        Done::Slot
    }

    /// Sets the two predicates of a comparison.
    #[inline(always)]
    fn decide(&self, p: [u8; 2], result: bool) -> Done {
        if NATS && self.nat.get() {
            return Done::Not;
        }
        let [first, second] = p.map(|predicate| self.view.predicate_mask(predicate));
        let others = self.state.predicates.get() & !(first | second);
        self.state.predicates.set(others | if result { first } else { second });
        Done::Slot
    }
}

impl Core {
    /// Executes an instruction in this bundle whose predicate is true. `NATS` says whether registers can have NaT bits.
    #[inline(always)]
    #[expect(clippy::too_many_lines, reason = "one arm per operation: a table in the form of a match")]
    pub(in super::super) fn quick<H: Host, const NATS: bool>(
        &self,
        host: &mut H,
        state: &State,
        view: View,
        what: &What,
        ip: u64,
    ) -> Done {
        let operands = Operands::<NATS> { state, view, nat: Cell::new(false) };
        let r = |register: u8| operands.r(register);
        let set = |to: u8, value: u64| operands.set(to, value);
        match *what {
            What::Other => Done::Not,
            What::Nothing => Done::Slot,
            What::Set { to, value } => set(to, value),
            What::Add { to, a, b } => set(to, r(a).wrapping_add(r(b))),
            What::AddNumber { to, from, by } => set(to, r(from).wrapping_add(by)),
            What::Sub { to, a, b } => set(to, r(a).wrapping_sub(r(b))),
            What::And { to, a, b } => set(to, r(a) & r(b)),
            What::AndNumber { to, from, with } => set(to, r(from) & with),
            What::Or { to, a, b } => set(to, r(a) | r(b)),
            What::OrNumber { to, from, with } => set(to, r(from) | with),
            What::Xor { to, a, b } => set(to, r(a) ^ r(b)),
            What::Alu { what, to, a, b } => set(to, alu(what, r(a), r(b))),
            What::AluNumber { what, to, a, b } => set(to, alu(what, a, r(b))),
            What::ShiftAdd { to, a, count, b } => set(to, (r(a) << (count & 63)).wrapping_add(r(b))),
            What::ShiftLeft { to, from, by } => {
                let (value, count) = (r(from), r(by));
                set(to, if count > 63 { 0 } else { value << count })
            }
            What::ShiftRight { signed: true, to, from, by } => set(to, (r(from) as i64 >> r(by).min(63)) as u64),
            What::ShiftRight { signed: false, to, from, by } => {
                let (value, count) = (r(from), r(by));
                set(to, if count > 63 { 0 } else { value >> count })
            }
            What::ShiftPair { to, a, b, count } => {
                let pair = u128::from(r(a)) << 64 | u128::from(r(b));
                set(to, (pair >> (count & 63)) as u64)
            }
            What::Extract { to, from, up, down } => set(to, r(from) << (up & 63) >> (down & 63)),
            What::ExtractSigned { to, from, up, down } => set(to, ((r(from) << (up & 63)) as i64 >> (down & 63)) as u64),
            What::DepositZero { to, from, position, mask } => set(to, (r(from) & mask) << (position & 63)),
            What::Deposit { to, from, into, position, length } => {
                let mask = u64::MAX >> (64_u8.wrapping_sub(length) & 63) << (position & 63);
                set(to, r(from) << (position & 63) & mask | r(into) & !mask)
            }
            What::Compare { test, p, a, b } => operands.decide(p, test.holds(r(a), r(b))),
            What::CompareNumber { test, b, p, a } => operands.decide(p, test.holds(i64::from(a) as u64, r(b))),
            What::TestBit { nonzero, p, register, bit } => operands.decide(p, (r(register) >> (bit & 63) & 1 != 0) == nonzero),
            What::Load1(place) => self.quick_load::<H, NATS, 1>(host, &operands, place),
            What::Load2(place) => self.quick_load::<H, NATS, 2>(host, &operands, place),
            What::Load4(place) => self.quick_load::<H, NATS, 4>(host, &operands, place),
            What::Load8(place) => self.quick_load::<H, NATS, 8>(host, &operands, place),
            What::Store1(place) => self.quick_store::<H, NATS, 1>(host, &operands, place),
            What::Store2(place) => self.quick_store::<H, NATS, 2>(host, &operands, place),
            What::Store4(place) => self.quick_store::<H, NATS, 4>(host, &operands, place),
            What::Store8(place) => self.quick_store::<H, NATS, 8>(host, &operands, place),
            What::Fill(place) => {
                let bits = state.application[usize::from(ar::UNAT)].get();
                match bits >> (r(place.at) >> 3 & 63) & 1 {
                    0 => self.quick_load::<H, NATS, 8>(host, &operands, place),
                    _ => Done::Not,
                }
            }
            What::Spill(place) => {
                let (address, _) = (r(place.at), r(place.register));
                if self.quick_store::<H, NATS, 8>(host, &operands, place) == Done::Not {
                    return Done::Not;
                }
                let bits = &state.application[usize::from(ar::UNAT)];
                bits.set(bits.get() & !(1 << (address >> 3 & 63)));
                Done::Slot
            }
            What::FromBranch { to, from } => set(to, state.branch[usize::from(from & 7)].get()),
            What::ToBranch { to, from } => operands.give(from, |value| state.branch[usize::from(to & 7)].set(value)),
            What::FromPredicates { to } => set(to, state.predicates.get()),
            What::ToPredicates { from, mask } => {
                operands.give(from, |value| state.predicates.set(state.predicates.get() & !mask | value & mask | 1))
            }
            What::FromApplication { to, ar } => set(to, state.application[usize::from(ar & 127)].get()),
            What::ToApplication { ar, from } => operands.give(from, |value| state.application[usize::from(ar & 127)].set(value)),
            What::Multiply { .. } | What::GetSignificand { .. } | What::SetSignificand { .. }
                if state.status.get() & (psr::DFL | psr::DFH) != 0 =>
            {
                Done::Not
            }
            What::Multiply { part, to, a, b, c } => {
                state.set_f(to, product(part, [a, b, c].map(|register| state.f(register))));
                Done::Slot
            }
            What::GetSignificand { to, from } => match state.f(from) {
                Real::NAT => Done::Not,
                value => set(to, value.significand),
            },
            What::SetSignificand { to, from } => {
                let value = r(from);
                if NATS && operands.nat.get() {
                    return Done::Not;
                }
                state.set_f(to, Real::integer(value));
                Done::Slot
            }
            What::Alloc { to, size, sizes } => {
                let frame = state.frame.get();
                // The bases of a rotating frame are checked elsewhere, and stores of old registers are made there.
                if frame > SIZES || state.dirty.get() > STACKED as i32 - i32::from(size) {
                    return Done::Not;
                }
                state.frame.set(u64::from(sizes));
                let new = Operands::<NATS> { state, view: View::of(state), nat: Cell::new(false) };
                new.set(to, state.application[usize::from(ar::PFS)].get());
                Done::Frame
            }
            What::CheckSpeculation { register } if NATS && state.is_nat(register) => Done::Not,
            What::CheckSpeculation { .. } => Done::Slot,
            What::Branch { distance } => Done::Bundle(ip.wrapping_add_signed(distance)),
            What::CountedLoop { distance } => {
                let count = &state.application[usize::from(ar::LC)];
                match count.get() {
                    0 => Done::Slot,
                    left => {
                        count.set(left - 1);
                        Done::Bundle(ip.wrapping_add_signed(distance))
                    }
                }
            }
            What::BranchIndirect { at } => Done::Bundle(state.branch[usize::from(at & 7)].get()),
            What::Call { link, distance } => {
                state.call(link, ip);
                Done::Bundle(ip.wrapping_add_signed(distance))
            }
            What::CallIndirect { link, at } => {
                let to = state.branch[usize::from(at & 7)].get();
                state.call(link, ip);
                Done::Bundle(to)
            }
            What::Return { at } => {
                let to = state.branch[usize::from(at & 7)].get();
                state.return_to_caller();
                Done::Bundle(to)
            }
        }
    }

    #[inline(always)]
    fn quick_load<H: Host, const NATS: bool, const SIZE: u32>(
        &self,
        host: &mut H,
        operands: &Operands<NATS>,
        place: Place,
    ) -> Done {
        let view = operands.view;
        let address = operands.r(place.at);
        let has_targets = view.has(place.register) && (place.after == 0 || view.has(place.at));
        if H::TELLS || !has_targets || NATS && operands.nat.get() {
            return Done::Not;
        }
        let Some(physical) = self.data.find(operands.state, address, SIZE, false) else { return Done::Not };
        let Some(value) = host.load(physical, SIZE) else { return Done::Not };
        operands.set(place.register, value);
        if place.after != 0 {
            operands.set(place.at, address.wrapping_add_signed(place.after.into()));
        }
        Done::Slot
    }

    #[inline(always)]
    fn quick_store<H: Host, const NATS: bool, const SIZE: u32>(
        &self,
        host: &mut H,
        operands: &Operands<NATS>,
        place: Place,
    ) -> Done {
        let view = operands.view;
        let (address, value) = (operands.r(place.at), operands.r(place.register));
        let has_target = place.after == 0 || view.has(place.at);
        if H::TELLS || !has_target || NATS && operands.nat.get() {
            return Done::Not;
        }
        let Some(physical) = self.data.find(operands.state, address, SIZE, true) else { return Done::Not };
        if self.blocks.is_marked(physical) {
            return Done::Not;
        }
        operands.state.alat.stored(physical, SIZE);
        if !host.store(physical, SIZE, value) {
            return Done::Not;
        }
        if place.after != 0 {
            operands.set(place.at, address.wrapping_add_signed(place.after.into()));
        }
        Done::Slot
    }
}
