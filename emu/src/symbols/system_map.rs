//! Parses symbols from text: `System.map`, the output of `nm`, `/proc/kallsyms`.
//!
//! A line is `address letter name`; kallsyms has a fourth word, `[module]`.

use super::{Entry, Symbols};
use crate::error::SymbolsError;

/// Parses the symbols.
pub fn parse(text: &str) -> Result<Symbols, SymbolsError> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: String| SymbolsError { line: number + 1, why };
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            // `nm` shows undefined symbols without an address.
            if matches!(first, "U" | "w" | "v") {
                continue;
            }
            return Err(wrong(format!("`{line}` is not `address letter name`")));
        };
        let address = u64::from_str_radix(first.trim_start_matches("0x"), 16)
            .map_err(|_| wrong(format!("`{first}` is not a hexadecimal address")))?;
        let mut letters = kind.chars();
        let (Some(kind), None) = (letters.next(), letters.next()) else {
            return Err(wrong(format!("`{kind}` is not one letter such as `T` or `d`")));
        };
        let module = words.next().map(|word| word.trim_matches(['[', ']']).into());
        entries.push(Entry { address, name: name.into(), kind, module });
    }
    if !entries.is_empty() && entries.iter().all(|entry| entry.address == 0) {
        return Err(SymbolsError {
            line: 1,
            why: "every address is 0, as an unprivileged reader of /proc/kallsyms sees them; read it as root".into(),
        });
    }
    Ok(Symbols::new(entries))
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// KP-4
    #[test]
    fn the_three_forms_of_symbol_text_are_read() {
        let text = "ffffffff81000000 T _stext\nffffffff81000010 t helper\t[ext4]\n\n                 U undefined\n0000000000000008 A current_task\n";
        let symbols = parse(text).unwrap();
        assert_eq!(symbols.address_of("_stext"), Some(0xffff_ffff_8100_0000));
        assert_eq!(symbols.find("helper").unwrap().module.as_deref(), Some("ext4"));
        assert_eq!(symbols.address_of("current_task"), Some(8));
        assert_eq!(symbols.len(), 3);
    }

    /// KP-4
    #[test]
    fn a_line_that_is_no_symbol_is_named() {
        #[rustfmt::skip]
        let cases = [
            ("a missing name",          "1000 T a\n1010 T\n",       2, "is not `address letter name`"),
            ("no address",              "1000 T a\n\nxyz T b\n",    3, "not a hexadecimal address"),
            ("no letter",               "1000 text a\n",            1, "not one letter"),
            ("hidden addresses",        "0 T a\n0 T b\n",           1, "read it as root"),
        ];
        for (what, text, line, why) in cases {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{what}");
            assert!(error.why.contains(why), "{what}: {}", error.why);
        }
    }
}
