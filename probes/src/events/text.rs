//! Lexer helpers: parts of a line that know their column, and the parsing of numbers and names.

/// A part of a line, with its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    pub column: usize,
}

impl<'a> Piece<'a> {
    pub fn of(line: &'a str) -> Piece<'a> {
        Piece { text: line, column: 0 }
    }

    /// The part after the first `bytes` bytes, which must be whole characters.
    pub fn skip(self, bytes: usize) -> Piece<'a> {
        Piece { text: &self.text[bytes..], column: self.column + bytes }
    }

    pub fn take(self, bytes: usize) -> Piece<'a> {
        Piece { text: &self.text[..bytes], ..self }
    }

    /// Splits at the first `mark`, which belongs to neither part.
    pub fn split_at_first(self, mark: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let at = self.text.find(mark)?;
        Some((self.take(at), self.skip(at + mark.len_utf8())))
    }

    pub fn strip_prefix(self, prefix: &str) -> Option<Piece<'a>> {
        self.text.starts_with(prefix).then(|| self.skip(prefix.len()))
    }

    /// The empty part after the last byte. Errors point there if something is missing.
    pub fn end(self) -> Piece<'a> {
        self.skip(self.text.len())
    }

    pub fn starts_with_digit(self) -> bool {
        self.text.starts_with(|first: char| first.is_ascii_digit())
    }

    /// The words between white space, split as the kernel splits a command.
    pub fn words(self) -> impl Iterator<Item = Piece<'a>> {
        let mut rest = self;
        core::iter::from_fn(move || {
            let start = rest.text.find(|c: char| !is_space(c))?;
            rest = rest.skip(start);
            let word = rest.take(rest.text.find(is_space).unwrap_or(rest.text.len()));
            rest = rest.skip(word.text.len());
            Some(word)
        })
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// A number in C's notation: `0x` for hexadecimal, a leading 0 for octal, otherwise decimal.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    digits.bytes().all(|digit| digit.is_ascii_alphanumeric()).then(|| u64::from_str_radix(digits, radix).ok())?
}

/// A number with at most one sign.
pub(super) fn signed_number(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(magnitude) => 0_i64.checked_sub_unsigned(number(magnitude)?),
        None => i64::try_from(number(text.strip_prefix('+').unwrap_or(text))?).ok(),
    }
}

/// Whether a name has only letters, digits and underscores and does not begin with a digit.
pub(super) fn is_identifier(name: &str) -> bool {
    is_identifier_with(name, |_| false)
}

/// Like [`is_identifier`], but '-' is allowed after the first character.
pub(super) fn is_group_name(name: &str) -> bool {
    is_identifier_with(name, |byte| byte == b'-')
}

fn is_identifier_with(name: &str, also: impl Fn(u8) -> bool) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(letter)
        && name.bytes().skip(1).all(|byte| letter(byte) || byte.is_ascii_digit() || also(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// DV-4: numbers are parsed as the kernel parses them.
    #[test]
    fn numbers_have_c_prefixes_and_one_sign() {
        #[rustfmt::skip]
        let cases = [
            ("0", Some(0)), ("10", Some(10)), ("010", Some(8)), ("0x1F", Some(31)), ("0X1f", Some(31)), ("+7", Some(7)), ("-0x10", Some(-16)),
            ("-9223372036854775808", Some(i64::MIN)), ("9223372036854775808", None), ("", None), ("-", None), ("+", None), ("0x", None),
            ("--1", None), ("+-1", None), ("-+1", None), ("08", None), ("1a", None), ("1_000", None), ("\u{664}", None), ("0x+1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(signed_number(text), expected, "{text:?}");
        }
        assert_eq!(number("0xffffffffffffffff"), Some(u64::MAX));
        assert_eq!(number("0x10000000000000000"), None);
    }

    #[test]
    fn words_know_their_columns() {
        let words: Vec<(&str, usize)> = Piece::of(" p  x\t\u{e9}=1 ").words().map(|word| (word.text, word.column)).collect();
        assert_eq!(words, [("p", 1), ("x", 4), ("\u{e9}=1", 6)]);
    }
}
