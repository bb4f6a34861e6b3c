//! Executes the frequent instructions from their short form. A case that needs more, such as a fault, a NaT bit, a device
//! or a miss of the cached translations, changes nothing here and runs from the full form.

use super::super::frame::{SIZES, View};
use super::super::quick::{Place, What};
use super::super::run::Core;
use super::super::state::{STACKED, State};
use super::super::{Host, ar};
use super::integer::alu;

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

impl View {
    /// Sets a general register other than number 0, whose NaT bit is 0.
    #[inline(always)]
    fn set(&self, state: &State, register: u8, value: u64) -> Done {
        match self.cell(state, register) {
            Some(cell) if self.has(register) => {
                cell.set(value);
                Done::Slot
            }
            _ => Done::Not,
        }
    }

    #[inline(always)]
    fn set_result(&self, state: &State, p: [u8; 2], result: bool) -> Done {
        let [first, second] = p.map(|predicate| self.predicate_mask(predicate));
        let others = state.predicates.get() & !(first | second);
        state.predicates.set(others | if result { first } else { second });
        Done::Slot
    }
}

impl Core {
    /// Executes an instruction in this bundle whose predicate is true. Registers have no NaT bits.
    #[inline(always)]
    #[expect(clippy::too_many_lines, reason = "one arm per operation: a table in the form of a match")]
    pub(in super::super) fn quick<H: Host>(&mut self, host: &mut H, state: &State, view: &View, what: What, ip: u64) -> Done {
        let r = |register: u8| view.r(state, register);
        let set = |to: u8, value: u64| view.set(state, to, value);
        match what {
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
            What::Compare { test, p, a, b } => view.set_result(state, p, test.holds(r(a), r(b))),
            What::CompareNumber { test, b, p, a } => view.set_result(state, p, test.holds(i64::from(a) as u64, r(b))),
            What::TestBit { nonzero, p, register, bit } => {
                view.set_result(state, p, (r(register) >> (bit & 63) & 1 != 0) == nonzero)
            }
            What::Load1(place) => self.quick_load::<H, 1>(host, state, view, place),
            What::Load2(place) => self.quick_load::<H, 2>(host, state, view, place),
            What::Load4(place) => self.quick_load::<H, 4>(host, state, view, place),
            What::Load8(place) => self.quick_load::<H, 8>(host, state, view, place),
            What::Store1(place) => self.quick_store::<H, 1>(host, state, view, place),
            What::Store2(place) => self.quick_store::<H, 2>(host, state, view, place),
            What::Store4(place) => self.quick_store::<H, 4>(host, state, view, place),
            What::Store8(place) => self.quick_store::<H, 8>(host, state, view, place),
            What::FromBranch { to, from } => set(to, state.branch[usize::from(from & 7)].get()),
            What::ToBranch { to, from } => {
                state.branch[usize::from(to & 7)].set(r(from));
                Done::Slot
            }
            What::FromPredicates { to } => set(to, state.predicates.get()),
            What::ToPredicates { from, mask } => {
                state.predicates.set(state.predicates.get() & !mask | r(from) & mask | 1);
                Done::Slot
            }
            What::FromApplication { to, ar } => set(to, state.application[usize::from(ar & 127)].get()),
            What::ToApplication { ar, from } => {
                state.application[usize::from(ar & 127)].set(r(from));
                Done::Slot
            }
            What::Alloc { to, size, sizes } => {
                let frame = state.frame.get();
                // The bases of a rotating frame are checked elsewhere, and stores of old registers are made there.
                if frame > SIZES || state.dirty.get() > STACKED as i32 - i32::from(size) {
                    return Done::Not;
                }
                state.frame.set(u64::from(sizes));
                View::of(state).set(state, to, state.application[usize::from(ar::PFS)].get());
                Done::Frame
            }
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
    fn quick_load<H: Host, const SIZE: u32>(&mut self, host: &mut H, state: &State, view: &View, place: Place) -> Done {
        let address = view.r(state, place.at);
        let has_targets = view.has(place.register) && (place.after == 0 || view.has(place.at));
        if H::TELLS || !has_targets {
            return Done::Not;
        }
        let Some(physical) = self.data.find(view, address, SIZE, false) else { return Done::Not };
        let Some(value) = host.load(physical, SIZE) else { return Done::Not };
        view.set(state, place.register, value);
        if place.after != 0 {
            view.set(state, place.at, address.wrapping_add_signed(place.after.into()));
        }
        Done::Slot
    }

    #[inline(always)]
    fn quick_store<H: Host, const SIZE: u32>(&mut self, host: &mut H, state: &State, view: &View, place: Place) -> Done {
        let address = view.r(state, place.at);
        if H::TELLS || state.alat.used.get() != 0 || place.after != 0 && !view.has(place.at) {
            return Done::Not;
        }
        let Some(physical) = self.data.find(view, address, SIZE, true) else { return Done::Not };
        if self.blocks.is_marked(physical) || !host.store(physical, SIZE, view.r(state, place.register)) {
            return Done::Not;
        }
        if place.after != 0 {
            view.set(state, place.at, address.wrapping_add_signed(place.after.into()));
        }
        Done::Slot
    }
}
