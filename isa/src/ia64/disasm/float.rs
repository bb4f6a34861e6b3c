//! The text of floating-point instructions.

use super::super::op::{Fma, Op, Part, Precision};
use alloc::format;
use alloc::string::String;

/// The number of the register that is always 1.0.
const ONE: u8 = 1;

/// The text of a floating-point instruction; `None` for other instructions.
pub(super) fn text(op: &Op) -> Option<String> {
    Some(match *op {
        Op::MultiplyAdd { part, to, a, b, c } => {
            let part = match part {
                Part::Low => "l",
                Part::HighUnsigned => "hu",
                Part::High => "h",
            };
            match c {
                0 => format!("xmpy.{part} f{to}=f{a},f{b}"),
                _ => format!("xma.{part} f{to}=f{a},f{b},f{c}"),
            }
        }
        Op::FloatMultiplyAdd { what, precision, status, to, a, b, c } => {
            let pair = if precision == Precision::Parallel { "p" } else { "" };
            let result = match precision {
                Precision::Single => ".s",
                Precision::Double => ".d",
                Precision::Dynamic | Precision::Parallel => "",
            };
            let end = format!("{result}.s{status} f{to}=f{a}");
            let scalar = precision != Precision::Parallel;
            match (what, b, c) {
                (Fma::Add, ONE, 0) if scalar => format!("fnorm{end}"),
                (Fma::Add, ONE, _) if scalar => format!("fadd{end},f{c}"),
                (Fma::Subtract, ONE, _) if scalar => format!("fsub{end},f{c}"),
                (Fma::Add, _, 0) => format!("f{pair}mpy{end},f{b}"),
                (Fma::Negate, _, 0) => format!("f{pair}nmpy{end},f{b}"),
                (Fma::Add, ..) => format!("f{pair}ma{end},f{b},f{c}"),
                (Fma::Subtract, ..) => format!("f{pair}ms{end},f{b},f{c}"),
                (Fma::Negate, ..) => format!("f{pair}nma{end},f{b},f{c}"),
            }
        }
        Op::FloatSelect { to, a, b, c } => format!("fselect f{to}=f{a},f{b},f{c}"),
        Op::FloatBinary { name, status: None, to, a, b } => merge(name, to, a, b),
        Op::FloatBinary { name, status: Some(status), to, a, b } => format!("{name}.s{status} f{to}=f{a},f{b}"),
        Op::FloatUnary { name, status: None, to, from } => format!("{name} f{to}=f{from}"),
        Op::FloatUnary { name, status: Some(status), to, from } => format!("{name}.s{status} f{to}=f{from}"),
        Op::FloatCompare { name, unconditional, status, p, a, b } => {
            let unc = if unconditional { ".unc" } else { "" };
            format!("{name}{unc}.s{status} p{},p{}=f{a},f{b}", p[0], p[1])
        }
        Op::FloatClass { unconditional, p, from, class } => {
            let unc = if unconditional { ".unc" } else { "" };
            format!("fclass.m{unc} p{},p{}=f{from},{class:#x}", p[0], p[1])
        }
        Op::Reciprocal { parallel, status, to, p, a, b } => {
            let pair = if parallel { "p" } else { "" };
            format!("f{pair}rcpa.s{status} f{to},p{p}=f{a},f{b}")
        }
        Op::ReciprocalRoot { parallel, status, to, p, from } => {
            let pair = if parallel { "p" } else { "" };
            format!("f{pair}rsqrta.s{status} f{to},p{p}=f{from}")
        }
        Op::FloatControl { status, and, or } => format!("fsetc.s{status} {and:#x},{or:#x}"),
        Op::FloatClear { status } => format!("fclrf.s{status}"),
        _ => return None,
    })
}

/// An operation without a status field. Merges of a register with itself or with zero have names of their own.
fn merge(name: &'static str, to: u8, a: u8, b: u8) -> String {
    let short = match (name, a) {
        ("fmerge.s", _) if a == b => "mov",
        ("fmerge.ns", _) if a == b => "fneg",
        ("fmerge.s", 0) => "fabs",
        ("fmerge.ns", 0) => "fnegabs",
        ("fpmerge.ns", _) if a == b => "fpneg",
        ("fpmerge.s", 0) => "fpabs",
        ("fpmerge.ns", 0) => "fpnegabs",
        _ => return format!("{name} f{to}=f{a},f{b}"),
    };
    format!("{short} f{to}=f{b}")
}
