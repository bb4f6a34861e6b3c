//! Numbers and strings of a script, with their suffixes and escapes.
//!
//! A number may have a unit of time, and a string the escapes of C. Both are decoded here, so a [`Word`] holds the value. The
//! options of the command line use [`time`], too.

use super::{Lexer, Word};
use crate::error::ScriptError;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The message for a string without an end.
const OPEN_STRING: &str = "this string does not end in its line: write \" behind it";

impl Lexer<'_> {
    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<Word, ScriptError> {
        let start = self.at;
        let written = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let at = self.since(start);
        let plain: String = written.chars().filter(|c| *c != '_').collect();
        time(&plain).map(Word::Number).ok_or_else(|| {
            at.error(format!("'{written}' is no number: write it decimal, 0x.., 0b.., 1e6, or as a time such as 10ms"))
        })
    }

    /// Reads a string and decodes its escapes. Fails if it does not end in its line.
    pub(super) fn string(&mut self) -> Result<Vec<u8>, ScriptError> {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.peek_byte() {
                b'"' => {
                    self.at += 1;
                    return Ok(bytes);
                }
                b'\n' | 0 => return Err(self.since(start).error(OPEN_STRING)),
                b'\\' => bytes.push(self.escape()?),
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Decodes an escape sequence, with its backslash. Fails if the escape is unknown or does not fit in a byte.
    fn escape(&mut self) -> Result<u8, ScriptError> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.rest().chars().next() else { return Err(self.since(start).error(OPEN_STRING)) };
        self.at += letter.len_utf8();
        let wrong = |lexer: &Self, why: String| Err(lexer.since(start).error(why));
        match letter {
            'n' => Ok(b'\n'),
            't' => Ok(b'\t'),
            'r' => Ok(b'\r'),
            '"' => Ok(b'"'),
            '\\' => Ok(b'\\'),
            'x' => {
                let rest = self.rest();
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                let value = u8::from_str_radix(&rest[..digits], 16);
                self.at += digits;
                value.or_else(|_| wrong(self, "one or two hexadecimal digits follow \\x".into()))
            }
            '0'..='7' => {
                self.at -= 1;
                let rest = self.rest();
                let digits = rest.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let value = u8::from_str_radix(&rest[..digits], 8);
                self.at += digits;
                value.or_else(|_| wrong(self, "an octal escape is at most \\377".into()))
            }
            other => {
                wrong(self, format!("invalid escape character '\\{other}': \\n \\t \\r \\\" \\\\ \\x41 and \\101 are known"))
            }
        }
    }
}

/// Parses a number as C and bpftrace write it. Suffixes of C are ignored. Suffixes of time multiply the number to
/// nanoseconds.
pub(crate) fn time(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let binary = text.strip_prefix("0b").or_else(|| text.strip_prefix("0B"));
    let unsigned = |text: &str| text.trim_end_matches(['u', 'U', 'l', 'L']).to_owned();
    if let Some(digits) = hex {
        return u64::from_str_radix(&unsigned(digits), 16).ok();
    }
    if let Some(digits) = binary {
        return u64::from_str_radix(&unsigned(digits), 2).ok();
    }
    const TIMES: [(&str, u64); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    for (unit, factor) in TIMES {
        if let Some(count) = text.strip_suffix(unit).and_then(|digits| digits.parse::<u64>().ok()) {
            return count.checked_mul(factor);
        }
    }
    let plain = unsigned(text);
    if let Some((mantissa, exponent)) = plain.split_once('e') {
        return mantissa.parse::<u64>().ok()?.checked_mul(10_u64.checked_pow(exponent.parse().ok()?)?);
    }
    match plain.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => plain.parse().ok(),
    }
}
