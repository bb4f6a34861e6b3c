//! Instructions of the M unit: loads, stores, semaphores, TLB and system instructions, and the register stack.

use super::super::fields::{bits, distance_of_branch, distance_of_check, has, imm8, imm21, opcode, signed, small};
use super::super::op::{After, Early, Float, Op, Order, System, Tlb, Value};
use super::{moves, nop};

/// Instructions of the M unit alone.
pub(super) fn decode(word: u64) -> Option<Op> {
    match opcode(word) {
        0x0 => miscellaneous(word),
        0x1 => system(word),
        0x4 if has(word, 27) => semaphore(word),
        0x4 => access(word, if has(word, 36) { After::Add(Value::Register(small(word, 19, 13))) } else { After::Nothing }),
        0x5 => access(word, After::Add(Value::Immediate(increment(word)))),
        0x6 if has(word, 27) => float_pair(word),
        0x6 => float(word, if has(word, 36) { After::Add(Value::Register(small(word, 19, 13))) } else { After::Nothing }),
        0x7 => float(word, After::Add(Value::Immediate(increment(word)))),
        _ => None,
    }
}

/// The number of 9 bits that is added to the base. Stores have it where loads have their target.
fn increment(word: u64) -> i64 {
    let is_store = bits(word, 35, 34) == 3;
    let low = if is_store { bits(word, 12, 6) } else { bits(word, 19, 13) };
    signed(bits(word, 36, 36) << 8 | bits(word, 27, 27) << 7 | low, 9)
}

/// The cache hint of a load: with the bit of the new hints where the base does not change.
fn load_hint(word: u64, after: After) -> u8 {
    small(word, 29, 28) | if after == After::Nothing { small(word, 19, 19) << 2 } else { 0 }
}

/// The cache hint of a store.
fn store_hint(word: u64, after: After) -> u8 {
    small(word, 29, 28) | if after == After::Nothing { small(word, 12, 12) << 2 } else { 0 }
}

/// Whether a hint exists: with a change of the base, number 2 of loads and numbers 1 and 2 of stores do not.
fn has_hint(hint: u8, after: After, is_store: bool) -> bool {
    after == After::Nothing || hint == 0 || hint == 3 || hint == 1 && !is_store
}

/// The early loads, by the upper bits of the code.
fn early(kind: u64) -> Option<Early> {
    Some(match kind {
        0 => Early::No,
        1 => Early::Speculative,
        2 => Early::Advanced,
        3 => Early::SpeculativeAdvanced,
        8 => Early::CheckClear,
        9 => Early::CheckKeep,
        _ => return None,
    })
}

fn access(word: u64, after: After) -> Option<Op> {
    let [to, r2, at] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let x6 = bits(word, 35, 30);
    let size = 1 << (x6 & 3);
    if x6 >= 0x30 {
        let hint = store_hint(word, after);
        let by_register = matches!(after, After::Add(Value::Register(_)));
        let (order, spill) = match x6 {
            0x30..=0x33 => (Order::Free, false),
            0x34..=0x37 => (Order::Release, false),
            0x3b => (Order::Free, true),
            _ => return None,
        };
        let exists = !by_register && has_hint(hint, after, true);
        return exists.then_some(Op::Store { size, order, spill, hint, from: r2, at, after });
    }
    let hint = load_hint(word, after);
    let (early, order, fill) = match x6 {
        0x10..=0x13 => (Early::No, Order::Bias, false),
        0x14..=0x17 => (Early::No, Order::Acquire, false),
        0x1b => (Early::No, Order::Free, true),
        0x28..=0x2b => (Early::CheckClear, Order::Acquire, false),
        _ => (early(x6 >> 2)?, Order::Free, false),
    };
    has_hint(hint, after, false).then_some(Op::Load { size, early, order, fill, hint, to, at, after })
}

const FLOATS: [Float; 4] = [Float::Extended, Float::Integer, Float::Single, Float::Double];
/// The formats of `getf` and `setf`.
const PARTS: [Float; 4] = [Float::Integer, Float::Exponent, Float::Single, Float::Double];

fn semaphore(word: u64) -> Option<Op> {
    let [to, from, at] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let (x6, hint) = (bits(word, 35, 30), small(word, 29, 28));
    let size = 1 << (x6 & 3);
    let order = if x6 & 4 == 0 { Order::Acquire } else { Order::Release };
    // Semaphores have no hint of the second level.
    let is_semaphore = x6 < 0x18 || matches!(x6, 0x20 | 0x24);
    if has(word, 36) || is_semaphore && hint == 2 {
        return None;
    }
    let free = |ordered: Order| if x6 & 4 == 0 { Order::Free } else { ordered };
    Some(match x6 {
        0x00..=0x07 => Op::CompareExchange { size, order, hint, to, at, from },
        0x08..=0x0b => Op::Exchange { size, hint, to, at, from },
        0x12 | 0x13 | 0x16 | 0x17 => {
            let by = [16, 8, 4, 1][bits(word, 14, 13) as usize];
            Op::FetchAdd { size, order, hint, to, at, by: if has(word, 15) { -by } else { by } }
        }
        0x1c..=0x1f => Op::GetFloat { format: PARTS[x6 as usize & 3], to, from },
        0x20 | 0x24 => Op::CompareExchangePair { order, hint, to, at, from },
        0x28 | 0x2c => Op::LoadPair { order: free(Order::Acquire), hint: load_hint(word, After::Nothing), to, at },
        0x30 | 0x34 => Op::StorePair { order: free(Order::Release), hint: store_hint(word, After::Nothing), from, at },
        _ => return None,
    })
}

fn float(word: u64, after: After) -> Option<Op> {
    let [to, from, at] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let x6 = bits(word, 35, 30);
    match x6 {
        0x2c..=0x2f => {
            let hint = small(word, 29, 28) | small(word, 12, 12) << 2;
            let (exclusive, fault) = (x6 & 1 != 0, x6 & 2 != 0);
            let count = x6 == 0x2c && after == After::Nothing && has(word, 19);
            Some(Op::Prefetch { exclusive, fault, count, hint, at, after })
        }
        0x30..=0x33 | 0x3b => {
            let format = if x6 == 0x3b { Float::Whole } else { FLOATS[x6 as usize & 3] };
            let hint = store_hint(word, after);
            let by_register = matches!(after, After::Add(Value::Register(_)));
            let exists = !by_register && has_hint(hint, after, true);
            exists.then_some(Op::StoreFloat { format, hint, from, at, after })
        }
        _ => {
            let (format, early) = match x6 {
                0x1b => (Float::Whole, Early::No),
                _ => (FLOATS[x6 as usize & 3], early(x6 >> 2)?),
            };
            let hint = load_hint(word, after);
            has_hint(hint, after, false).then_some(Op::LoadFloat { format, early, hint, to, at, after })
        }
    }
}

fn float_pair(word: u64) -> Option<Op> {
    let [to, r2, at] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let (x6, hint) = (bits(word, 35, 30), small(word, 29, 28));
    let updates = has(word, 36);
    if matches!(x6, 0x1c..=0x1f) {
        let format = PARTS[x6 as usize & 3];
        return (!updates).then_some(Op::SetFloat { format, to, from: r2 });
    }
    let format = FLOATS[x6 as usize & 3];
    if format == Float::Extended || hint == 2 {
        return None;
    }
    let bytes = if format == Float::Single { 8 } else { 16 };
    let after = if updates { After::Add(Value::Immediate(bytes)) } else { After::Nothing };
    Some(Op::LoadFloatPair { format, early: early(x6 >> 2)?, hint, to: [to, r2], at, after })
}

fn miscellaneous(word: u64) -> Option<Op> {
    let [to, r3] = [small(word, 12, 6), small(word, 26, 20)];
    let [x3, x2, x4] = [bits(word, 35, 33), bits(word, 32, 31), bits(word, 30, 27)];
    if x3 >= 4 {
        let (clear, float) = (x3 & 1 != 0, x3 & 2 != 0);
        return Some(Op::CheckAdvanced { float, clear, register: to, distance: distance_of_branch(word) });
    }
    if x3 != 0 {
        return None;
    }
    let mask = (bits(word, 36, 36) << 23 | bits(word, 32, 31) << 21 | bits(word, 26, 6)) as u32;
    Some(match (x2, x4) {
        (_, 4..=7) => Op::Mask { system: x4 >= 6, sets: x4 & 1 == 0, mask },
        (0, 0x0) => Op::Break { number: imm21(word) },
        // Hints with these bits are moves to hint registers of the last CPUs, or reserved.
        (0, 0x1) if has(word, 26) && bits(word, 11, 10) != 0 => return None,
        (0, 0x1) => nop(word),
        (0, 0xa) => Op::System(System::Loadrs),
        (0, 0xc) => Op::System(System::Flushrs),
        (1, 0x0) => Op::System(System::Invala),
        (1, 0x2 | 0x3) => Op::InvalidateEntry { float: x4 == 3, register: to },
        (2, 0x0) => Op::System(System::Fwb),
        (2, 0x2) => Op::System(System::Mf),
        (2, 0x3) => Op::System(System::MfA),
        (2, 0x8) => Op::MoveToAr { ar: r3, from: Value::Immediate(imm8(word)) },
        (3, 0x0) => Op::System(System::SrlzD),
        (3, 0x1) => Op::System(System::SrlzI),
        (3, 0x3) => Op::System(System::SyncI),
        _ => return None,
    })
}

fn system(word: u64) -> Option<Op> {
    let [to, r2, at] = [small(word, 12, 6), small(word, 19, 13), small(word, 26, 20)];
    let x6 = bits(word, 32, 27);
    match bits(word, 35, 33) {
        0 => {}
        x3 @ (1 | 3) => {
            return Some(Op::CheckSpeculation { float: x3 == 3, register: r2, distance: distance_of_check(word) });
        }
        6 => {
            let [frame, locals, rotating] = [r2, at, small(word, 30, 27) << 3];
            return Some(Op::Alloc { to, frame, locals, rotating });
        }
        _ => return None,
    }
    let level = small(word, 14, 13);
    let tlb = |what: Tlb| Some(Op::Tlb { what, a: at, b: r2 });
    let probe = |write: bool, level: Value| Some(Op::Probe { write, to, at, level });
    let translate = |name: &'static str| Some(Op::Translate { name, to, at });
    match x6 {
        0x09 => tlb(Tlb::PtcL),
        0x0a => tlb(Tlb::PtcG),
        0x0b => tlb(Tlb::PtcGa),
        0x0c => tlb(Tlb::PtrD),
        0x0d => tlb(Tlb::PtrI),
        0x0e => tlb(Tlb::ItrD),
        0x0f => tlb(Tlb::ItrI),
        0x18 | 0x19 => probe(x6 == 0x19, Value::Immediate(level.into())),
        0x1a => translate("thash"),
        0x1b => translate("ttag"),
        0x1e => translate("tpa"),
        0x1f => translate("tak"),
        0x2e | 0x2f => Some(Op::InsertCache { data: x6 == 0x2e, from: r2 }),
        0x30 => Some(Op::FlushCache { data: !has(word, 36), at }),
        0x31..=0x33 => Some(Op::ProbeFault { read: x6 != 0x33, write: x6 != 0x32, at, level }),
        0x34 => Some(Op::PurgeAll { at }),
        0x38 | 0x39 => probe(x6 == 0x39, Value::Register(r2)),
        _ => moves::of_memory_unit(word),
    }
}
