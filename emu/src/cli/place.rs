//! The argument WHERE: a symbol, an offset in it, all its instructions, an address, or a pattern.

use super::Failure;
use crate::symbols::{Symbols, pattern};
use trapline_probes::guest::Symbol;

/// One or more places in a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// An address relative to a symbol: `vfs_read` or `vfs_read+4`.
    Symbol {
        /// The name of the symbol.
        name: String,
        /// The offset from its start, in bytes.
        offset: u32,
    },
    /// Every instruction of a function: `vfs_read+*`.
    Every(String),
    /// A number: `0xffffffff81000000`.
    Address(u64),
    /// The entries of all functions that match, such as `vfs_*`.
    Pattern(String),
}

/// The forms of WHERE, for error messages.
pub const FORMS: &str = "WHERE is SYMBOL, SYMBOL+0x10, SYMBOL+* (every instruction), 0xADDRESS or a pattern such as 'vfs_*'";

impl Where {
    /// Parses WHERE.
    pub fn parse(text: &str) -> Result<Where, Failure> {
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            return match u64::from_str_radix(digits, 16) {
                Ok(address) => Ok(Where::Address(address)),
                Err(_) => {
                    Err(Failure::usage(format!("`{text}` is no address: hexadecimal digits are missing or too many"))
                        .advise(FORMS))
                }
            };
        }
        match text.split_once('+') {
            Some(("", _)) => Err(Failure::usage(format!("`{text}` has no symbol before the `+`")).advise(FORMS)),
            Some((name, "*")) => Ok(Where::Every(name.into())),
            Some((name, offset)) => match number(offset) {
                Some(offset) => Ok(Where::Symbol { name: name.into(), offset }),
                None => Err(Failure::usage(format!("`{offset}` in `{text}` is no offset: a number from 0 to 0xffffffff is"))
                    .advise(FORMS)),
            },
            None if text.is_empty() => Err(Failure::usage("an empty name is no place").advise(FORMS)),
            None if pattern::is_pattern(text) => Ok(Where::Pattern(text.into())),
            None => Ok(Where::Symbol { name: text.into(), offset: 0 }),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Finds the symbol of that name. The failure suggests similar names.
pub fn find(symbols: &Symbols, name: &str) -> Result<Symbol, Failure> {
    symbols.find(name).ok_or_else(|| unknown(symbols, name))
}

/// The failure for an unknown name.
pub fn unknown(symbols: &Symbols, name: &str) -> Failure {
    if symbols.is_empty() {
        return Failure::failed("the image has no symbols").advise("give addresses, or the symbols with --symbols System.map");
    }
    Failure::failed(format!("ENOENT: no symbol is called `{name}`")).perhaps(&symbols.similar(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::Paint;

    /// KP-4
    #[test]
    fn places_are_read_as_people_write_them() {
        let symbol = |name: &str, offset| Where::Symbol { name: name.into(), offset };
        #[rustfmt::skip]
        let cases = [
            ("vfs_read",                symbol("vfs_read", 0)),
            ("vfs_read+4",              symbol("vfs_read", 4)),
            ("vfs_read+0x1f",           symbol("vfs_read", 0x1f)),
            ("vfs_read+*",              Where::Every("vfs_read".into())),
            ("0xffffffff81000000",      Where::Address(0xffff_ffff_8100_0000)),
            ("vfs_*",                   Where::Pattern("vfs_*".into())),
            ("foo.constprop.0",         symbol("foo.constprop.0", 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(Where::parse(text), Ok(expected), "{text}");
        }
    }

    /// KP-4
    #[test]
    fn places_that_cannot_be_meant_are_usage_errors() {
        #[rustfmt::skip]
        let cases = [
            ("",                        "an empty name"),
            ("+4",                      "no symbol before"),
            ("vfs_read+",               "is no offset"),
            ("vfs_read+x",              "is no offset"),
            ("vfs_read+-4",             "is no offset"),
            ("vfs_read+0x100000000",    "is no offset"),
            ("0x",                      "is no address"),
            ("0x11112222333344445",     "is no address"),
        ];
        for (text, expected) in cases {
            let failure = Where::parse(text).unwrap_err();
            let said = failure.render(Paint::none());
            assert!(said.contains(expected) && said.contains("WHERE is"), "{text}: {said}");
            assert_eq!(failure.status(), 2, "{text}");
        }
    }
}
