//! Executes one instruction. Each returns a [`Step`], by which the loop in `run.rs` continues.

use super::decode::{Kind, Op, operand};
use super::run::{Core, Target};
use super::{number, psw};
use crate::Host;
use trapline_isa::parisc::emulate::conditions::{add, logical, shift, subtract, sum, unit};
use trapline_isa::parisc::fields::{bits, signed5};

/// The continuation after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next instruction runs.
    Next,
    /// The next instruction is nullified.
    Nullify,
    /// A branch. Its target is in [`Core::target`], and `nullifies` tells whether its delay slot is nullified.
    Branch { nullifies: bool },
    /// An exception with this number. The instruction has changed no register and no memory.
    Exception(u32),
    /// The instruction has set the queue itself, such as a return from an interruption.
    Leave,
    /// The next instruction runs, but in a new block: the rest of this one may be stale.
    Look,
}

impl Step {
    #[inline(always)]
    fn nullify_if(nullifies: bool) -> Step {
        if nullifies { Step::Nullify } else { Step::Next }
    }
}

/// The highest bits of the eight digits.
pub(super) const DIGITS: u32 = 0x8888_8888;

/// The carry out of each bit of a sum.
#[inline(always)]
pub(super) fn carries(a: u32, b: u32, result: u32) -> u32 {
    a & b | (a | b) & !result
}

impl Core {
    #[inline(always)]
    pub(super) fn r(&self, number: u8) -> u32 {
        self.state.general[usize::from(number & 31)].get()
    }

    #[inline(always)]
    pub(super) fn set(&self, number: u8, value: u32) {
        if number != 0 {
            self.state.general[usize::from(number & 31)].set(value);
        }
    }

    #[inline(always)]
    fn set_carries(&self, carries: u32) {
        self.state.carries.set(carries & DIGITS);
    }

    fn carry(&self) -> bool {
        self.state.carries.get() >> 31 != 0
    }

    fn sar(&self) -> u32 {
        self.state.control[number::SAR].get() & 31
    }

    /// Runs the instruction at `pc`; `back` is the address of the one that runs next.
    #[inline(never)]
    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    pub(super) fn step(&mut self, host: &mut impl Host, op: Op, pc: u32, back: u32) -> Step {
        let (condition, negated) = (u32::from(op.condition & 7), op.condition & 8 != 0);
        let (x, y) = (self.r(op.b), self.r(op.a));
        match op.kind {
            Kind::Nothing => {}
            Kind::Copy => self.set(op.t, x),
            Kind::AndComplement => return self.logic(op, x & !y),
            Kind::And => return self.logic(op, x & y),
            Kind::Or => return self.logic(op, x | y),
            Kind::Xor => return self.logic(op, x ^ y),
            Kind::UnitXor => {
                self.set(op.t, x ^ y);
                return Step::nullify_if(unit(condition, negated, x ^ y, 0));
            }
            Kind::UnitAdd | Kind::UnitAddTrap => {
                let (value, _, _) = sum(x, !y, false);
                let holds = unit(condition, negated, value, carries(x, !y, value));
                if holds && op.kind == Kind::UnitAddTrap {
                    return Step::Exception(number::CONDITIONAL);
                }
                self.set(op.t, value);
                return Step::nullify_if(holds);
            }
            Kind::Decimal | Kind::DecimalIntermediate => {
                let digits = self.state.carries.get() >> 3;
                let value = match op.kind {
                    Kind::Decimal => y.wrapping_sub((!digits & 0x1111_1111) * 6),
                    _ => y.wrapping_add(digits * 6),
                };
                self.set(op.t, value);
                return Step::nullify_if(unit(condition, negated, value, 0));
            }
            Kind::CompareClear => {
                let holds = subtract(condition, negated, x, y);
                self.set(op.t, 0);
                return Step::nullify_if(holds);
            }
            Kind::DivideStep => return self.divide_step(op, x, y),
            Kind::Add | Kind::AddLogical | Kind::AddOverflow => {
                let shifted = x << op.number;
                let (value, carry, overflow) = sum(shifted, y, false);
                let (mut carry, mut overflow) = (carry, overflow);
                if op.number != 0 {
                    carry |= x >> (32 - op.number) != 0;
                    overflow |= (shifted as i32) >> op.number != x as i32;
                }
                if overflow && op.kind == Kind::AddOverflow {
                    return Step::Exception(number::OVERFLOW);
                }
                if op.kind != Kind::AddLogical {
                    self.set_carries(carries(shifted, y, value));
                }
                self.set(op.t, value);
                return Step::nullify_if(op.condition != 0 && add(condition, negated, value, carry, overflow));
            }
            Kind::AddCarry | Kind::AddCarryOverflow => {
                let (value, carry, overflow) = sum(x, y, self.carry());
                if overflow && op.kind == Kind::AddCarryOverflow {
                    return Step::Exception(number::OVERFLOW);
                }
                self.set_carries(carries(x, y, value));
                self.set(op.t, value);
                return Step::nullify_if(add(condition, negated, value, carry, overflow));
            }
            Kind::Subtract | Kind::SubtractTrap | Kind::SubtractOverflow | Kind::SubtractTrapOverflow => {
                let (value, _, _) = sum(x, !y, true);
                let overflow = (x as i32).checked_sub(y as i32).is_none();
                let holds = subtract(condition, negated, x, y);
                if overflow && matches!(op.kind, Kind::SubtractOverflow | Kind::SubtractTrapOverflow) {
                    return Step::Exception(number::OVERFLOW);
                }
                if holds && matches!(op.kind, Kind::SubtractTrap | Kind::SubtractTrapOverflow) {
                    return Step::Exception(number::CONDITIONAL);
                }
                self.set_carries(carries(x, !y, value));
                self.set(op.t, value);
                return Step::nullify_if(holds);
            }
            Kind::SubtractBorrow | Kind::SubtractBorrowOverflow => {
                let (value, carry, overflow) = sum(x, !y, self.carry());
                if overflow && op.kind == Kind::SubtractBorrowOverflow {
                    return Step::Exception(number::OVERFLOW);
                }
                self.set_carries(carries(x, !y, value));
                self.set(op.t, value);
                // Its conditions on the result are those of an addition, with the borrow in the place of the carry.
                return Step::nullify_if(add(condition, negated, value, carry, overflow));
            }
            Kind::AddImmediate | Kind::AddImmediateOverflow | Kind::AddImmediateTrap | Kind::AddImmediateTrapOverflow => {
                let (value, carry, overflow) = sum(op.number, y, false);
                let holds = add(condition, negated, value, carry, overflow);
                if overflow && matches!(op.kind, Kind::AddImmediateOverflow | Kind::AddImmediateTrapOverflow) {
                    return Step::Exception(number::OVERFLOW);
                }
                if holds && matches!(op.kind, Kind::AddImmediateTrap | Kind::AddImmediateTrapOverflow) {
                    return Step::Exception(number::CONDITIONAL);
                }
                self.set_carries(carries(op.number, y, value));
                self.set(op.b, value);
                return Step::nullify_if(holds);
            }
            Kind::SubtractImmediate | Kind::SubtractImmediateOverflow => {
                let (value, _, _) = sum(op.number, !y, true);
                let overflow = (op.number as i32).checked_sub(y as i32).is_none();
                if overflow && op.kind == Kind::SubtractImmediateOverflow {
                    return Step::Exception(number::OVERFLOW);
                }
                let holds = subtract(condition, negated, op.number, y);
                self.set_carries(carries(op.number, !y, value));
                self.set(op.b, value);
                return Step::nullify_if(holds);
            }
            Kind::CompareImmediateClear => {
                let holds = subtract(condition, negated, op.number, y);
                self.set(op.b, 0);
                return Step::nullify_if(holds);
            }
            Kind::Set => self.set(op.a, op.number),
            Kind::AddLeft => self.set(1, y.wrapping_add(op.number)),
            Kind::AddOffset => self.set(op.b, y.wrapping_add(op.number)),
            Kind::LoadByte => return self.load(host, op, pc, back, y.wrapping_add(op.number), 1, op.b),
            Kind::LoadHalf => return self.load(host, op, pc, back, y.wrapping_add(op.number), 2, op.b),
            Kind::LoadWord => return self.load(host, op, pc, back, y.wrapping_add(op.number), 4, op.b),
            Kind::StoreByte => return self.store(host, op, pc, back, y.wrapping_add(op.number), 1, x),
            Kind::StoreHalf => return self.store(host, op, pc, back, y.wrapping_add(op.number), 2, x),
            Kind::StoreWord => return self.store(host, op, pc, back, y.wrapping_add(op.number), 4, x),
            Kind::Access => return self.access(host, op, pc, back),
            Kind::ShiftPairBySar => return self.shifted(op, op.t, pair(x, y, self.sar())),
            Kind::ShiftPair => return self.shifted(op, op.t, pair(x, y, op.number)),
            Kind::Extract | Kind::ExtractBySar => {
                let right = if op.kind == Kind::Extract { op.number } else { 31 - self.sar() };
                return self.shifted(op, op.b, y >> right & u32::MAX >> op.t);
            }
            Kind::ExtractSigned | Kind::ExtractSignedBySar => {
                let right = if op.kind == Kind::ExtractSigned { op.number } else { 31 - self.sar() };
                let value = (((y as i32) >> right) as u32) << op.t;
                return self.shifted(op, op.b, ((value as i32) >> op.t) as u32);
            }
            Kind::Deposit => return self.deposit(op, x, y),
            Kind::CompareBranch => return self.decide(op, pc, back, subtract(condition, negated, x, y)),
            Kind::CompareImmediateBranch => return self.decide(op, pc, back, subtract(condition, negated, operand(&op), y)),
            Kind::AddBranch | Kind::AddImmediateBranch => {
                let other = if op.kind == Kind::AddBranch { x } else { operand(&op) };
                let (value, carry, overflow) = sum(other, y, false);
                self.set(op.a, value);
                return self.decide(op, pc, back, add(condition, negated, value, carry, overflow));
            }
            Kind::BitBranch => return self.decide(op, pc, back, (x << op.a >> 31 != 0) != (condition != 0)),
            Kind::BitBranchBySar => return self.decide(op, pc, back, (x << self.sar() >> 31 != 0) != (condition != 0)),
            Kind::MoveBranch | Kind::MoveImmediateBranch => {
                let value = if op.kind == Kind::MoveBranch { x } else { operand(&op) };
                self.set(op.a, value);
                return self.decide(op, pc, back, shift(condition, value));
            }
            Kind::Near => {
                self.set(op.a, back.wrapping_add(4) | self.state.front_level.get());
                return self.go(op, pc.wrapping_add(8).wrapping_add(op.number), None);
            }
            Kind::Gate => return self.gate(op, pc),
            Kind::ByPairs => {
                self.set(op.a, back.wrapping_add(4) | self.state.front_level.get());
                return self.go(op, pc.wrapping_add(8).wrapping_add(x << 3), None);
            }
            Kind::Vectored => return self.go(op, y.wrapping_add(x << 3), Some(self.state.front_space.get())),
            Kind::Base => {
                if bits(op.word, 18, 18) != 0 {
                    self.set(2, back.wrapping_add(4) | self.state.front_level.get());
                }
                let space = self.state.spaces[4 + (y >> 30) as usize].get();
                return self.go(op, y, Some(space));
            }
            Kind::Space | Kind::SpaceAndLink => {
                let space = self.state.spaces[usize::from(op.space & 7)].get();
                if op.kind == Kind::SpaceAndLink {
                    self.state.spaces[0].set(self.state.back_space.get());
                    self.set(31, back.wrapping_add(4) | self.state.front_level.get());
                }
                return self.go(op, y.wrapping_add(op.number), Some(space));
            }
            Kind::System => return self.system(host, op, pc, back),
            Kind::Manage => return self.manage(op),
            Kind::Diagnose => return self.diagnose(op),
            Kind::Assist => return Step::Exception(number::ASSIST),
            Kind::Illegal => return Step::Exception(number::ILLEGAL),
        }
        Step::Next
    }

    #[inline(always)]
    fn logic(&self, op: Op, value: u32) -> Step {
        self.set(op.t, value);
        Step::nullify_if(op.condition != 0 && logical((op.condition & 7).into(), op.condition & 8 != 0, value))
    }

    #[inline(always)]
    fn shifted(&self, op: Op, to: u8, value: u32) -> Step {
        self.set(to, value);
        Step::nullify_if(op.condition != 0 && shift(op.condition.into(), value))
    }

    fn deposit(&self, op: Op, x: u32, y: u32) -> Step {
        let code = bits(op.word, 19, 21);
        let left = if code & 2 == 0 { 31 - self.sar() } else { bits(op.word, 22, 26) };
        let source = if code < 4 { x } else { signed5(op.b.into()) as u32 };
        let mask = (u32::MAX >> op.t) << left;
        let kept = if code & 1 != 0 { y & !mask } else { 0 };
        self.shifted(op, op.a, source << left & mask | kept)
    }

    /// One step of a division, by adding or subtracting the divisor.
    fn divide_step(&self, op: Op, x: u32, y: u32) -> Step {
        let doubled = x << 1 | u32::from(self.carry());
        let divides = self.state.divides.get() != 0;
        let other = if divides { !y } else { y };
        let (value, carry, _) = sum(doubled, other, divides);
        let overflow = (!(doubled ^ other) & (doubled ^ value)) >> 31 != 0;
        self.set_carries(carries(doubled, other, value));
        self.state.divides.set(u32::from(carry != (y >> 31 != 0)));
        self.set(op.t, value);
        let (condition, negated) = (u32::from(op.condition & 7), op.condition & 8 != 0);
        Step::nullify_if(op.condition != 0 && add(condition, negated, value, carry, overflow))
    }

    /// A branch with a condition, which is taken or not.
    #[inline(always)]
    fn decide(&mut self, op: Op, pc: u32, back: u32, is_taken: bool) -> Step {
        let distance = op.number;
        let to = if is_taken { pc.wrapping_add(8).wrapping_add(distance) } else { back.wrapping_add(4) };
        let space = if is_taken { self.state.front_space.get() } else { self.state.back_space.get() };
        let level = if is_taken { self.state.front_level.get() } else { self.state.back_level.get() };
        self.target = Target { to, space, level };
        Step::Branch { nullifies: op.word & 2 != 0 && is_taken == ((distance as i32) >= 0) }
    }

    /// A branch that is always taken. With a space, the low bits of the address are a privilege level.
    fn go(&mut self, op: Op, to: u32, space: Option<u32>) -> Step {
        let own = self.state.front_level.get();
        let level = if space.is_some() { own.max(to & 3) } else { own };
        self.target = Target { to: to & !3, space: space.unwrap_or(self.state.front_space.get()), level };
        Step::Branch { nullifies: op.word & 2 != 0 }
    }

    /// `b,gate`: the page of the instruction may raise the privilege.
    fn gate(&mut self, op: Op, pc: u32) -> Step {
        let own = self.state.front_level.get();
        let mut level = own;
        if self.state.status.get() & psw::C == 0 {
            level = 0;
        } else if let Some(entry) = self.state.entry(self.state.front_space.get(), pc)
            && entry.kind() >= 4
        {
            level = level.min(entry.kind() & 3);
        }
        self.set(op.a, self.r(op.a) & !3 | own);
        let step = self.go(op, pc.wrapping_add(8).wrapping_add(op.number), None);
        self.target.level = level;
        step
    }
}

/// The word at a distance of `right` bits from the low end of two words.
fn pair(high: u32, low: u32, right: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> right) as u32
}
