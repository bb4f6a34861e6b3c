//! The loop that runs the short forms of a block's instructions. It stops in front of an instruction that needs its full form, and
//! at the end of the block. It changes nothing but the state and RAM, and raises no exception.

use super::blocks::Run;
use super::execute::{DIGITS, carries};
use super::number;
use super::quick::{Quick, What, holds, properties, relations, word};
use super::run::Core;
use super::state::State;
use crate::Host;

/// The end of the loop.
pub(super) enum End {
    /// The block has ended. The next address is `to`, in the same space and at the same level. `nullify` is 1 if the instruction
    /// there is nullified. The queue is not set.
    Near { to: u32, nullify: u32 },
    /// The block has ended, and the queue is set to a delay slot and the target of its branch.
    Split,
    /// An instruction must run from its full form.
    Slow {
        /// Its place in the block.
        place: u32,
        /// The address that follows the block: that of a branch, if the instruction is in its slot.
        then: u32,
    },
}

#[inline(always)]
fn r(state: &State, number: u8) -> u32 {
    state.general[usize::from(number & 31)].get()
}

/// Sets a register that is not r0.
#[inline(always)]
fn put(state: &State, number: u8, value: u32) {
    state.general[usize::from(number & 31)].set(value);
}

#[inline(always)]
fn set(state: &State, number: u8, value: u32) {
    if number != 0 {
        put(state, number, value);
    }
}

#[inline(always)]
fn sar(state: &State) -> u32 {
    state.control[number::SAR].get() & 31
}

/// Adds two numbers and sets the carries. Returns the sum.
#[inline(always)]
fn add(state: &State, x: u32, y: u32, carry: u32) -> u32 {
    let value = x.wrapping_add(y).wrapping_add(carry);
    state.carries.set(carries(x, y, value) & DIGITS);
    value
}

/// The lower word of two words that are shifted to the right.
#[inline(always)]
fn pair(high: u32, low: u32, right: u32) -> u32 {
    ((u64::from(high) << 32 | u64::from(low)) >> (right & 31)) as u32
}

#[inline(always)]
fn signed_field(value: u32, right: u32, left: u32) -> u32 {
    let value = (((value as i32) >> (right & 31)) as u32) << (left & 31);
    ((value as i32) >> (left & 31)) as u32
}

impl Core {
    /// Runs the instructions of a block from place `done` on.
    #[inline(always)]
    #[expect(clippy::too_many_lines, reason = "an arm for each operation")]
    pub(super) fn straight<H: Host>(&self, host: &mut H, run: Run, pc: u32, done: u32) -> End {
        let state: &State = &self.state;
        let level = state.front_level.get();
        let addresses = self.addresses(level);
        let ops = self.code.quick.get(run.first as usize..(run.first + run.len) as usize).unwrap_or_default();
        let mut then = pc.wrapping_add(4 * run.len);
        let mut done = done as usize;
        while let Some(op) = ops.get(done) {
            done += 1;
            // The operands of nearly all operations.
            let (x, y) = (r(state, op.b), r(state, op.a));
            let slow = move |then: u32| End::Slow { place: done as u32 - 1, then };
            let is_taken = match op.what {
                What::Other => return slow(then),
                What::Nothing => continue,
                What::Set => {
                    put(state, op.t, op.number);
                    continue;
                }
                What::Copy => {
                    put(state, op.t, x);
                    continue;
                }
                What::AddOffset => {
                    put(state, op.t, y.wrapping_add(op.number));
                    continue;
                }
                What::And => {
                    put(state, op.t, x & y);
                    continue;
                }
                What::Or => {
                    put(state, op.t, x | y);
                    continue;
                }
                What::Xor => {
                    put(state, op.t, x ^ y);
                    continue;
                }
                What::AndComplement => {
                    put(state, op.t, x & !y);
                    continue;
                }
                What::AndTest | What::OrTest | What::XorTest | What::AndComplementTest => {
                    let value = match op.what {
                        What::AndTest => x & y,
                        What::OrTest => x | y,
                        What::XorTest => x ^ y,
                        _ => x & !y,
                    };
                    set(state, op.t, value);
                    done += usize::from(holds(op.other as u8, word(value) & 3));
                    continue;
                }
                What::AddLogical => {
                    put(state, op.t, (x << (op.number & 31)).wrapping_add(y));
                    continue;
                }
                What::Add => {
                    set(state, op.t, add(state, x << (op.number & 31), y, 0));
                    continue;
                }
                What::AddCarry => {
                    set(state, op.t, add(state, x, y, state.carries.get() >> 31));
                    continue;
                }
                What::Subtract => {
                    set(state, op.t, add(state, x, !y, 1));
                    continue;
                }
                What::SubtractBorrow => {
                    set(state, op.t, add(state, x, !y, state.carries.get() >> 31));
                    continue;
                }
                What::AddNumber => {
                    set(state, op.t, add(state, op.number, y, 0));
                    continue;
                }
                What::SubtractNumber => {
                    set(state, op.t, add(state, op.number, !y, 1));
                    continue;
                }
                What::AddTest | What::AddNumberTest => {
                    let x = if op.what == What::AddTest { x } else { op.number };
                    let value = add(state, x, y, 0);
                    set(state, op.t, value);
                    done += usize::from(holds(op.other as u8, properties(x, y, value)));
                    continue;
                }
                What::SubtractTest | What::SubtractNumberTest => {
                    let x = if op.what == What::SubtractTest { x } else { op.number };
                    set(state, op.t, add(state, x, !y, 1));
                    done += usize::from(holds(op.other as u8, relations(x, y)));
                    continue;
                }
                What::CompareClear | What::CompareNumberClear => {
                    let x = if op.what == What::CompareClear { x } else { op.number };
                    set(state, op.t, 0);
                    done += usize::from(holds(op.other as u8, relations(x, y)));
                    continue;
                }
                What::ShiftPair => {
                    put(state, op.t, pair(x, y, op.number));
                    continue;
                }
                What::ShiftPairBySar => {
                    put(state, op.t, pair(x, y, sar(state)));
                    continue;
                }
                What::Extract => {
                    put(state, op.t, y >> (op.number & 31) & op.other);
                    continue;
                }
                What::ExtractTest => {
                    let value = y >> (op.number & 31) & op.other;
                    set(state, op.t, value);
                    done += usize::from(holds(op.b, word(value)));
                    continue;
                }
                What::ExtractBySar => {
                    put(state, op.t, y >> (31 - sar(state)) & op.other);
                    continue;
                }
                What::ExtractSigned => {
                    put(state, op.t, signed_field(y, op.number, op.other));
                    continue;
                }
                What::ExtractSignedBySar => {
                    put(state, op.t, signed_field(y, 31 - sar(state), op.other));
                    continue;
                }
                What::DepositZero => {
                    put(state, op.t, x << (op.number & 31) & op.other);
                    continue;
                }
                What::Deposit => {
                    put(state, op.t, x << (op.number & 31) & op.other | r(state, op.t) & !op.other);
                    continue;
                }
                What::DepositNumber => {
                    put(state, op.t, r(state, op.t) & op.other | op.number);
                    continue;
                }
                What::DepositZeroBySar | What::DepositZeroNumberBySar => {
                    let (left, x) = (31 - sar(state), if op.what == What::DepositZeroBySar { x } else { op.number });
                    put(state, op.t, (x & op.other) << left);
                    continue;
                }
                What::LoadByte | What::LoadByteIndexed => {
                    let address = Core::address(state, op, y, What::LoadByteIndexed);
                    let Some(value) = self.fast_load(host, &addresses, (op.b, address), 1) else { return slow(then) };
                    put(state, op.t, value);
                    continue;
                }
                What::LoadHalf | What::LoadHalfIndexed => {
                    let address = Core::address(state, op, y, What::LoadHalfIndexed);
                    let Some(value) = self.fast_load(host, &addresses, (op.b, address), 2) else { return slow(then) };
                    put(state, op.t, value);
                    continue;
                }
                What::LoadWord => {
                    let Some(value) = self.fast_load(host, &addresses, (op.b, y.wrapping_add(op.number)), 4) else {
                        return slow(then);
                    };
                    put(state, op.t, value);
                    continue;
                }
                What::LoadWordIndexed => {
                    let address = Core::address(state, op, y, What::LoadWordIndexed);
                    let Some(value) = self.fast_load(host, &addresses, (op.b, address), 4) else { return slow(then) };
                    put(state, op.t, value);
                    continue;
                }
                What::StoreByte => {
                    let address = y.wrapping_add(op.number);
                    if !self.fast_store(host, &addresses, (op.b, address), 1, r(state, op.t)) {
                        return slow(then);
                    }
                    continue;
                }
                What::StoreHalf => {
                    let address = y.wrapping_add(op.number);
                    if !self.fast_store(host, &addresses, (op.b, address), 2, r(state, op.t)) {
                        return slow(then);
                    }
                    continue;
                }
                What::StoreWord => {
                    if !self.fast_store(host, &addresses, (op.b, y.wrapping_add(op.number)), 4, r(state, op.t)) {
                        return slow(then);
                    }
                    continue;
                }
                What::LoadByteMoved | What::LoadHalfMoved | What::LoadWordMoved => {
                    let size = 1 << (op.what as u8 - What::LoadByteMoved as u8);
                    let address = y.wrapping_add(op.other);
                    let Some(value) = self.fast_load(host, &addresses, (op.b, address), size) else { return slow(then) };
                    put(state, op.t, value);
                    put(state, op.a, y.wrapping_add(op.number));
                    continue;
                }
                What::StoreByteMoved | What::StoreHalfMoved | What::StoreWordMoved => {
                    let size = 1 << (op.what as u8 - What::StoreByteMoved as u8);
                    let value = r(state, op.t);
                    if !self.fast_store(host, &addresses, (op.b, y.wrapping_add(op.other)), size, value) {
                        return slow(then);
                    }
                    put(state, op.a, y.wrapping_add(op.number));
                    continue;
                }
                What::FromControl => {
                    let register = usize::from(op.a & 31);
                    if level != 0 && register != number::SAR {
                        return slow(then);
                    }
                    put(state, op.t, state.control[register].get());
                    continue;
                }
                What::ToControl => {
                    let register = usize::from(op.a & 31);
                    let value = if register == number::SAR { x & 31 } else { x };
                    if level != 0 && register != number::SAR {
                        return slow(then);
                    }
                    state.control[register].set(value);
                    continue;
                }
                What::FromSpace => {
                    put(state, op.t, state.spaces[op.number as usize & 7].get());
                    continue;
                }
                What::ToSpace => {
                    if level != 0 && op.number >= 5 {
                        return slow(then);
                    }
                    state.spaces[op.number as usize & 7].set(x);
                    continue;
                }
                What::CompareBranch => holds(op.t, relations(x, y)),
                What::CompareNumberBranch => holds(op.t, relations(op.other, y)),
                What::AddBranch | What::AddNumberBranch => {
                    let x = if op.what == What::AddBranch { x } else { op.other };
                    let value = x.wrapping_add(y);
                    set(state, op.a, value);
                    holds(op.t, properties(x, y, value))
                }
                What::BitBranch => holds(op.t, word(x << (op.a & 31))),
                What::BitBranchBySar => holds(op.t, word(x << sar(state))),
                What::MoveBranch | What::MoveNumberBranch => {
                    let value = if op.what == What::MoveBranch { x } else { op.other };
                    set(state, op.a, value);
                    holds(op.t, word(value))
                }
                What::Near | What::ByPairs | What::Vectored => true,
            };
            let at = pc.wrapping_add(4 * (done as u32 - 1));
            let mut to = at.wrapping_add(op.number);
            match op.what {
                What::Near => set(state, op.a, at.wrapping_add(8) | level),
                What::ByPairs => {
                    set(state, op.a, at.wrapping_add(8) | level);
                    to = at.wrapping_add(8).wrapping_add(x << 3);
                }
                What::Vectored => {
                    to = y.wrapping_add(x << 3);
                    if level.max(to & 3) != level {
                        return slow(then);
                    }
                    to &= !3;
                }
                _ => {}
            }
            if op.t >> (4 + u8::from(is_taken)) & 1 != 0 {
                if done < ops.len() {
                    self.cut(1);
                }
                return End::Near { to: if is_taken { to } else { at.wrapping_add(8) }, nullify: 0 };
            }
            if is_taken {
                if done == ops.len() {
                    // The slot is in the next page or holds a branch, so it is a block of its own.
                    state.front.set(at.wrapping_add(4));
                    state.back.set(to);
                    return End::Split;
                }
                then = to;
            }
        }
        // The last instruction may nullify the first one of the next block.
        End::Near { to: then, nullify: u32::from(done > ops.len()) }
    }

    /// The address of a load that may have an index.
    #[inline(always)]
    fn address(state: &State, op: &Quick, base: u32, indexed: What) -> u32 {
        let distance = if op.what == indexed { r(state, op.other as u8) << (op.number & 31) } else { op.number };
        base.wrapping_add(distance)
    }
}
