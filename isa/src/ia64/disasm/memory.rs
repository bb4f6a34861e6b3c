//! The text of loads, stores and semaphores.

use super::super::op::{After, Early, Float, Op, Order};
use super::value;
use alloc::format;
use alloc::string::String;

fn early(early: Early) -> &'static str {
    match early {
        Early::No => "",
        Early::Speculative => ".s",
        Early::Advanced => ".a",
        Early::SpeculativeAdvanced => ".sa",
        Early::CheckClear => ".c.clr",
        Early::CheckKeep => ".c.nc",
    }
}

fn order(order: Order) -> &'static str {
    match order {
        Order::Free => "",
        Order::Acquire => ".acq",
        Order::Release => ".rel",
        Order::Bias => ".bias",
    }
}

fn float(format: Float) -> &'static str {
    match format {
        Float::Extended => "e",
        Float::Integer => "8",
        Float::Single => "s",
        Float::Double => "d",
        Float::Exponent => "exp",
        Float::Whole => "",
    }
}

/// The part of a floating-point register, for `getf` and `setf`.
fn part(format: Float) -> &'static str {
    match format {
        Float::Integer => "sig",
        other => float(other),
    }
}

const LOAD_HINTS: [&str; 8] = ["", ".nt1", ".d2", ".nta", ".d4", ".d5", ".d6", ".d7"];
const STORE_HINTS: [&str; 8] = ["", ".d1", ".d2", ".nta", ".d4", ".d5", ".d6", ".d7"];
const PREFETCH_HINTS: [&str; 8] = ["", ".nt1", ".nt2", ".nta", ".d4", ".d5", ".d6", ".d7"];

fn hint(names: &[&'static str; 8], number: u8) -> &'static str {
    names[usize::from(number) & 7]
}

fn behind(after: After) -> String {
    match after {
        After::Nothing => String::new(),
        After::Add(by) => format!(",{}", value(by)),
    }
}

/// The text of an access; `None` for other instructions.
pub(super) fn text(op: &Op) -> Option<String> {
    Some(match *op {
        Op::Load { size, early: how, order: with, fill, hint: number, to, at, after } => {
            let (fill, hint) = (if fill { ".fill" } else { "" }, hint(&LOAD_HINTS, number));
            format!("ld{size}{}{}{fill}{hint} r{to}=[r{at}]{}", early(how), order(with), behind(after))
        }
        Op::Store { size, order: with, spill, hint: number, from, at, after } => {
            let (spill, hint) = (if spill { ".spill" } else { "" }, hint(&STORE_HINTS, number));
            format!("st{size}{}{spill}{hint} [r{at}]=r{from}{}", order(with), behind(after))
        }
        Op::LoadPair { order: with, hint: number, to, at } => {
            format!("ld16{}{} r{to},ar.csd=[r{at}]", order(with), hint(&LOAD_HINTS, number))
        }
        Op::StorePair { order: with, hint: number, from, at } => {
            format!("st16{}{} [r{at}]=r{from},ar.csd", order(with), hint(&STORE_HINTS, number))
        }
        Op::CompareExchange { size, order: with, hint: number, to, at, from } => {
            format!("cmpxchg{size}{}{} r{to}=[r{at}],r{from},ar.ccv", order(with), hint(&LOAD_HINTS, number))
        }
        Op::CompareExchangePair { order: with, hint: number, to, at, from } => {
            format!("cmp8xchg16{}{} r{to}=[r{at}],r{from},ar.csd,ar.ccv", order(with), hint(&LOAD_HINTS, number))
        }
        Op::Exchange { size, hint: number, to, at, from } => {
            format!("xchg{size}{} r{to}=[r{at}],r{from}", hint(&LOAD_HINTS, number))
        }
        Op::FetchAdd { size, order: with, hint: number, to, at, by } => {
            format!("fetchadd{size}{}{} r{to}=[r{at}],{by}", order(with), hint(&LOAD_HINTS, number))
        }
        Op::LoadFloat { format, early: how, hint: number, to, at, after } => {
            let fill = if format == Float::Whole { ".fill" } else { "" };
            let hint = hint(&LOAD_HINTS, number);
            format!("ldf{}{fill}{}{hint} f{to}=[r{at}]{}", float(format), early(how), behind(after))
        }
        Op::LoadFloatPair { format, early: how, hint: number, to, at, after } => {
            let hint = hint(&LOAD_HINTS, number);
            format!("ldfp{}{}{hint} f{},f{}=[r{at}]{}", float(format), early(how), to[0], to[1], behind(after))
        }
        Op::StoreFloat { format, hint: number, from, at, after } => {
            let spill = if format == Float::Whole { ".spill" } else { "" };
            format!("stf{}{spill}{} [r{at}]=f{from}{}", float(format), hint(&STORE_HINTS, number), behind(after))
        }
        Op::Prefetch { exclusive, fault, count: false, hint: number, at, after } => {
            let (fault, exclusive) = (if fault { ".fault" } else { "" }, if exclusive { ".excl" } else { "" });
            format!("lfetch{fault}{exclusive}{} [r{at}]{}", hint(&PREFETCH_HINTS, number), behind(after))
        }
        Op::GetFloat { format, to, from } => format!("getf.{} r{to}=f{from}", part(format)),
        Op::SetFloat { format, to, from } => format!("setf.{} f{to}=r{from}", part(format)),
        _ => return None,
    })
}
