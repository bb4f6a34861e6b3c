//! Bytes as text, in snapshots and on a guest's console: base 64 (RFC 4648).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NO_DIGIT: u8 = b'=';

/// Bytes in base 64.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| number << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for place in 0..4 {
            let digit = DIGITS.get((number >> (18 - 6 * place) & 63) as usize).copied().unwrap_or(NO_DIGIT);
            text.push(char::from(if place <= group.len() { digit } else { NO_DIGIT }));
        }
    }
    text
}

/// The bytes of a text in base 64. `None` if it is no such text.
pub fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut values = [u8::MAX; 256];
    for (value, digit) in DIGITS.iter().enumerate() {
        values[usize::from(*digit)] = value as u8;
    }
    let digits = text.as_bytes();
    let end = digits.len() - digits.iter().rev().take(2).take_while(|digit| **digit == NO_DIGIT).count();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits[..end].chunks(4) {
        let mut number = 0u32;
        for digit in group {
            let value = values[usize::from(*digit)];
            if value == u8::MAX {
                return None;
            }
            number = number << 6 | u32::from(value);
        }
        number <<= 6 * (4 - group.len());
        let [_, rest @ ..] = number.to_be_bytes();
        bytes.extend_from_slice(&rest[..group.len().checked_sub(1)?]);
    }
    Some(bytes)
}
