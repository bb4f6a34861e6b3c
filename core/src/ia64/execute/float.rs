//! Floating-point registers: their formats, moves, merges and logic, and the multiplication of integers.

use super::super::Fault;
use super::super::run::Core;
use super::super::state::Real;
use trapline_isa::ia64::op::{Float, Op, Part};

/// The exponent of 1.0.
const BIAS: u64 = 0xffff;
/// The exponent of infinities and of numbers that are none.
const SPECIAL: u64 = 0x1_ffff;

impl Real {
    const fn with(sign: u64, exponent: u64, significand: u64) -> Real {
        Real { significand, exponent: sign << 17 | exponent }
    }

    /// Converts a number from its form in memory, with these widths of exponent and fraction.
    const fn from_memory(value: u64, exponent_bits: u32, fraction_bits: u32) -> Real {
        let largest = (1 << exponent_bits) - 1;
        let (sign, exponent) = (value >> (exponent_bits + fraction_bits) & 1, value >> fraction_bits & largest);
        let fraction = (value & ((1 << fraction_bits) - 1)) << (63 - fraction_bits);
        let half = largest >> 1;
        if exponent == largest {
            Real::with(sign, SPECIAL, 1 << 63 | fraction)
        } else if exponent != 0 {
            Real::with(sign, exponent + BIAS - half, 1 << 63 | fraction)
        } else if fraction != 0 {
            Real::with(sign, BIAS - half + 1, fraction)
        } else {
            Real::with(sign, 0, 0)
        }
    }

    /// The number in memory: the exponent's highest bit and its lowest ones. A number without the integer bit has the
    /// exponent 0.
    const fn to_memory(self, exponent_bits: u32, fraction_bits: u32) -> u64 {
        let low = exponent_bits - 1;
        let exponent = (self.exponent >> 16 & 1) << low | self.exponent & ((1 << low) - 1);
        let exponent = if self.significand >> 63 == 0 { 0 } else { exponent };
        let fraction = self.significand << 1 >> (64 - fraction_bits);
        (self.exponent >> 17 & 1) << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction
    }

    pub(super) const fn from_single(value: u64) -> Real {
        Real::from_memory(value, 8, 23)
    }

    pub(super) const fn from_double(value: u64) -> Real {
        Real::from_memory(value, 11, 52)
    }

    pub(super) const fn to_single(self) -> u64 {
        self.to_memory(8, 23)
    }

    pub(super) const fn to_double(self) -> u64 {
        self.to_memory(11, 52)
    }

    /// A number of 80 bits: the significand, then exponent and sign.
    pub(super) const fn from_extended(significand: u64, upper: u64) -> Real {
        let (sign, exponent) = (upper >> 15 & 1, upper & 0x7fff);
        match exponent {
            0x7fff => Real::with(sign, SPECIAL, significand),
            0 => Real::with(sign, 0, significand),
            _ => Real::with(sign, exponent + BIAS - 0x3fff, significand),
        }
    }

    /// Exponent and sign of the number of 80 bits.
    pub(super) const fn to_extended(self) -> u64 {
        (self.exponent >> 17 & 1) << 15 | (self.exponent >> 16 & 1) << 14 | self.exponent & 0x3fff
    }
}

impl Core {
    /// Executes a floating-point instruction; those that are not known here are illegal.
    pub(super) fn real(&mut self, op: &Op) -> Result<(), Fault> {
        let state = self.state();
        match *op {
            Op::MultiplyAdd { part, to, a, b, c } => {
                state.check_real(&[a, b, c], Some(to))?;
                state.set_f(to, product(part, [a, b, c].map(|register| state.f(register))));
            }
            Op::FloatSelect { to, a, b, c } => {
                state.check_real(&[a, b, c], Some(to))?;
                let [x, y, mask] = [a, b, c].map(|register| state.f(register));
                let value = x.significand & mask.significand | y.significand & !mask.significand;
                state.set_f(to, if [x, y, mask].contains(&Real::NAT) { Real::NAT } else { Real::integer(value) });
            }
            Op::FloatBinary { name, status: None, to, a, b } => {
                state.check_real(&[a, b], Some(to))?;
                let [x, y] = [a, b].map(|register| state.f(register));
                let value = merged(name, x, y).ok_or(Fault::ILLEGAL)?;
                state.set_f(to, if [x, y].contains(&Real::NAT) { Real::NAT } else { value });
            }
            Op::GetFloat { format, to, from } => {
                state.check_target(to)?;
                state.check_real(&[from], None)?;
                let value = state.f(from);
                let number = match format {
                    Float::Exponent => value.exponent,
                    Float::Single => value.to_single(),
                    Float::Double => value.to_double(),
                    _ => value.significand,
                };
                state.set_r(to, number, value == Real::NAT);
            }
            Op::SetFloat { format, to, from } => {
                state.check_real(&[], Some(to))?;
                let number = state.r(from);
                let value = match format {
                    _ if state.is_nat(from) => Real::NAT,
                    Float::Exponent => Real { significand: 1 << 63, exponent: number & 0x3_ffff },
                    Float::Single => Real::from_single(number),
                    Float::Double => Real::from_double(number),
                    _ => Real::integer(number),
                };
                state.set_f(to, value);
            }
            _ => return Err(Fault::ILLEGAL),
        }
        Ok(())
    }
}

/// The low or high part of a product of two integers and a sum with a third one.
#[inline]
pub(super) fn product(part: Part, [x, y, z]: [Real; 3]) -> Real {
    if [x, y, z].contains(&Real::NAT) {
        return Real::NAT;
    }
    let (unsigned, add) = (u128::from(x.significand) * u128::from(y.significand), u128::from(z.significand));
    let signed = i128::from(x.significand as i64) * i128::from(y.significand as i64);
    Real::integer(match part {
        Part::Low => unsigned.wrapping_add(add) as u64,
        Part::HighUnsigned => (unsigned.wrapping_add(add) >> 64) as u64,
        Part::High => ((signed as u128).wrapping_add(add) >> 64) as u64,
    })
}

/// The result of a merge or of logic on two registers, if it is known here.
fn merged(name: &str, x: Real, y: Real) -> Option<Real> {
    const SIGN: u64 = 1 << 17;
    let integer = |value: u64| Some(Real::integer(value));
    match name {
        "fmerge.s" => Some(Real { exponent: x.exponent & SIGN | y.exponent & !SIGN, ..y }),
        "fmerge.ns" => Some(Real { exponent: !x.exponent & SIGN | y.exponent & !SIGN, ..y }),
        "fmerge.se" => Some(Real { exponent: x.exponent, ..y }),
        "fand" => integer(x.significand & y.significand),
        "fandcm" => integer(x.significand & !y.significand),
        "for" => integer(x.significand | y.significand),
        "fxor" => integer(x.significand ^ y.significand),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: numbers keep their value through a register, in each format.
    #[test]
    fn numbers_keep_their_value_through_a_register() {
        assert_eq!(Real::from_double(1.0_f64.to_bits()), Real { significand: 1 << 63, exponent: 0xffff });
        assert_eq!(Real::from_single(1.0_f32.to_bits().into()), Real { significand: 1 << 63, exponent: 0xffff });
        for value in [0.0, -0.0, 1.5, -2.0, 1e300, f64::MIN_POSITIVE, f64::INFINITY, 5e-324, -3.25e-310] {
            assert_eq!(Real::from_double(value.to_bits()).to_double(), value.to_bits(), "{value}");
        }
        for value in [0.0, 1.5, -2.0, 1e30, f32::MIN_POSITIVE, f32::NEG_INFINITY, 1e-44] {
            assert_eq!(Real::from_single(value.to_bits().into()).to_single(), u64::from(value.to_bits()), "{value}");
        }
        for (significand, upper) in [(1 << 63, 0x3fff), (0, 0x8000), (3 << 62, 0x7fff), (1 << 63, 0xc123)] {
            let real = Real::from_extended(significand, upper);
            assert_eq!((real.significand, real.to_extended()), (significand, upper));
        }
    }
}
