//! Number formatting for records, without `format!`, which would take most of the printing time.

use alloc::string::String;

/// The largest number of digits of a 64-bit number.
const MOST: usize = 20;

/// Writes the digits at the end of the buffer and returns them.
fn digits<const BASE: u64>(mut value: u64, room: &mut [u8; MOST]) -> &str {
    let mut at = MOST;
    for digit in room.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value % BASE) as usize];
        value /= BASE;
        at -= 1;
        if value == 0 {
            break;
        }
    }
    core::str::from_utf8(&room[at..]).unwrap_or_default()
}

/// Like `{}`.
pub(super) fn decimal(out: &mut String, value: u64) {
    out.push_str(digits::<10>(value, &mut [0; MOST]));
}

/// Like `{}`, for a signed number.
pub(super) fn signed(out: &mut String, value: i64) {
    if value < 0 {
        out.push('-');
    }
    decimal(out, value.unsigned_abs());
}

/// Like `{:#x}`.
pub(super) fn hexadecimal(out: &mut String, value: u64) {
    out.push_str("0x");
    out.push_str(digits::<16>(value, &mut [0; MOST]));
}

/// Like `{:0WIDTH}` or, with blanks, `{:>WIDTH}`.
pub(super) fn right(out: &mut String, value: u64, width: usize, filler: &str) {
    let mut room = [0; MOST];
    let digits = digits::<10>(value, &mut room);
    fill(out, width.saturating_sub(digits.len()), filler);
    out.push_str(digits);
}

/// Like `{:<WIDTH}`.
pub(super) fn left(out: &mut String, value: u64, width: usize) {
    let mut room = [0; MOST];
    let digits = digits::<10>(value, &mut room);
    out.push_str(digits);
    fill(out, width.saturating_sub(digits.len()), BLANKS);
}

/// Appends `count` characters of `filler`, at most all of it.
pub(super) fn fill(out: &mut String, count: usize, filler: &str) {
    out.push_str(filler.get(..count).unwrap_or(filler));
}

/// Filler of blanks, wider than any column.
pub(super) const BLANKS: &str = "                    ";
/// Filler of zeros, wider than any column.
pub(super) const ZEROS: &str = "00000000000000000000";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn written(with: impl Fn(&mut String)) -> String {
        let mut text = String::new();
        with(&mut text);
        text
    }

    proptest! {
        /// DV-4: numbers are formatted exactly as by `format!`.
        #[test]
        fn numbers_equal_those_of_format(value in any::<u64>(), shift in 0_u32..64) {
            for value in [value >> shift, 0, u64::MAX] {
                prop_assert_eq!(written(|out| decimal(out, value)), format!("{value}"));
                prop_assert_eq!(written(|out| signed(out, value as i64)), format!("{}", value as i64));
                prop_assert_eq!(written(|out| hexadecimal(out, value)), format!("{value:#x}"));
                prop_assert_eq!(written(|out| right(out, value, 6, ZEROS)), format!("{value:06}"));
                prop_assert_eq!(written(|out| right(out, value, 5, BLANKS)), format!("{value:>5}"));
                prop_assert_eq!(written(|out| left(out, value, 7)), format!("{value:<7}"));
            }
        }
    }
}
