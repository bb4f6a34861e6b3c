//! The conditions of PA-RISC. If its condition holds, a computing instruction nullifies the next one, and a conditional branch
//! is taken. Emulation (`emulate.rs`) and the CPU core (`core/`)
//! use the same functions.
//!
//! `condition` is the instruction's field c of 3 bits. `negated` is its field f, or a bit of the opcode.

/// Whether a condition holds after a comparison of `a` with `b`, or after `a - b`: never, =, <, <=, <<, <<= (unsigned), SV
/// (signed overflow), OD (odd).
pub const fn subtract(condition: u32, negated: bool, a: u32, b: u32) -> bool {
    let holds = match condition {
        0 => false,
        1 => a == b,
        2 => (a as i32) < b as i32,
        3 => (a as i32) <= b as i32,
        4 => a < b,
        5 => a <= b,
        6 => (a as i32).checked_sub(b as i32).is_none(),
        _ => a.wrapping_sub(b) & 1 == 1,
    };
    holds != negated
}

/// Whether a condition holds after an addition with this result, carry and signed overflow: never, =, <, <=, NUV (no carry),
/// ZNV (zero or no carry), SV, OD. `<` is the sign of the exact sum.
pub const fn add(condition: u32, negated: bool, result: u32, carry: bool, overflow: bool) -> bool {
    let less = ((result as i32) < 0) != overflow;
    let holds = match condition {
        0 => false,
        1 => result == 0,
        2 => less,
        3 => less || result == 0,
        4 => !carry,
        5 => !carry || result == 0,
        6 => overflow,
        _ => result & 1 == 1,
    };
    holds != negated
}

/// Whether a condition holds after a logical operation: never, =, <, <= (with 0), OD. The other numbers never hold.
pub const fn logical(condition: u32, negated: bool, result: u32) -> bool {
    let holds = match condition {
        1 => result == 0,
        2 => (result as i32) < 0,
        3 => result as i32 <= 0,
        7 => result & 1 == 1,
        _ => false,
    };
    holds != negated
}

/// Whether a unit condition holds, which looks at the parts of a word: 2 and 3 if a byte or a halfword is zero, and 4, 6 and 7
/// if there is a carry out of a decimal digit, byte or halfword. Bit n of `carries` is the carry out of bit n.
pub const fn unit(condition: u32, negated: bool, result: u32, carries: u32) -> bool {
    let holds = match condition {
        2 => result.wrapping_sub(0x0101_0101) & !result & 0x8080_8080 != 0,
        3 => result.wrapping_sub(0x0001_0001) & !result & 0x8000_8000 != 0,
        4 => carries & 0x8888_8888 != 0,
        6 => carries & 0x8080_8080 != 0,
        7 => carries & 0x8000_8000 != 0,
        _ => false,
    };
    holds != negated
}

/// Whether a condition holds after a shift, an extraction, a deposit or a move: never, =, <, OD. The highest bit of
/// `condition` negates.
pub const fn shift(condition: u32, result: u32) -> bool {
    let holds = match condition & 3 {
        0 => false,
        1 => result == 0,
        2 => (result as i32) < 0,
        _ => result & 1 == 1,
    };
    holds != (condition >= 4)
}

/// The sum of two words and a carry: the lower 32 bits, the carry out, and whether the signed sum overflows.
pub const fn sum(a: u32, b: u32, carry: bool) -> (u32, bool, bool) {
    let wide = a as u64 + b as u64 + carry as u64;
    let result = wide as u32;
    (result, wide >> 32 != 0, (!(a ^ b) & (a ^ result)) >> 31 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [u32; 8] = [0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff];

    /// KP-2: each condition, by wide arithmetic, and its negation.
    #[test]
    fn conditions_hold_as_wide_arithmetic_says() {
        for (a, b) in VALUES.iter().flat_map(|a| VALUES.map(|b| (*a, b))) {
            let (wide, plain) = (i64::from(a as i32) - i64::from(b as i32), i64::from(a) - i64::from(b));
            let expected =
                [false, wide == 0, wide < 0, wide <= 0, plain < 0, plain <= 0, i64::from(wide as i32) != wide, wide & 1 != 0];
            let (signed, unsigned) = (i64::from(a as i32) + i64::from(b as i32), u64::from(a) + u64::from(b));
            let (result, carry, overflow) = sum(a, b, false);
            let fits = i64::from(signed as i32) == signed;
            assert_eq!((u64::from(result) | u64::from(carry) << 32, overflow), (unsigned, !fits), "{a:x} + {b:x}");
            let zero = result == 0;
            let added = [false, zero, signed < 0, signed < 0 || zero, !carry, !carry || zero, !fits, result & 1 != 0];
            for condition in 0..8 {
                for negated in [false, true] {
                    let found = subtract(condition, negated, a, b);
                    assert_eq!(found, expected[condition as usize] != negated, "{condition} of {a:x} - {b:x}");
                    let found = add(condition, negated, result, carry, overflow);
                    assert_eq!(found, added[condition as usize] != negated, "{condition} of {a:x} + {b:x}");
                }
            }
        }
    }

    /// KP-2: conditions on one word, and on its parts.
    #[test]
    fn conditions_on_one_word_hold() {
        for value in VALUES {
            let signed = value as i32;
            let (zero, odd) = (value == 0, value & 1 == 1);
            let logic = [false, zero, signed < 0, signed <= 0, false, false, false, odd];
            let shifted = [false, zero, signed < 0, odd, true, !zero, signed >= 0, !odd];
            for condition in 0..8 {
                assert_eq!(logical(condition, false, value), logic[condition as usize], "{condition} of {value:x}");
                assert_eq!(logical(condition, true, value), !logic[condition as usize], "{condition} of {value:x}");
                assert_eq!(shift(condition, value), shifted[condition as usize], "{condition} of {value:x}");
            }
        }
        let some_byte_is_zero = |value| unit(2, false, value, 0);
        assert_eq!([0x1100_2233, 0x1122_3300, 0x1122_3344].map(some_byte_is_zero), [true, true, false]);
        let some_half_is_zero = |value| unit(3, false, value, 0);
        assert_eq!([0x1100_0000, 0x0000_3300, 0x1100_0044].map(some_half_is_zero), [true, true, false]);
        assert_eq!([4, 6, 7].map(|condition| unit(condition, false, 0, 0x0080_0000)), [true, true, false]);
    }
}
