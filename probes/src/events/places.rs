//! What addresses are called in records, remembered: the same few come again and again, and looking one up takes longer
//! than all else.

use super::digits;
use crate::guest::Symbol;
use alloc::string::String;
use alloc::vec::Vec;

/// Says which symbol covers an address.
pub type Symbols<'a> = &'a dyn Fn(u64) -> Option<Symbol>;

/// As many as are remembered: a power of two.
const MOST: usize = 1024;
/// 2^64 divided by the golden ratio: neighbouring addresses land far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The names of the kernel's own addresses, for as long as that kernel is there; a module's may go, and are asked for
/// each time.
#[derive(Debug)]
pub struct Places {
    /// Each address has one place, where only one is remembered.
    all: Vec<Spelled>,
}

#[derive(Clone, Debug, Default)]
struct Spelled {
    address: u64,
    lasts: bool,
    text: String,
    /// Bytes of the name alone, at its begin.
    name: usize,
}

impl Default for Places {
    fn default() -> Places {
        Places { all: alloc::vec![Spelled::default(); MOST] }
    }
}

impl Places {
    /// `vfs_read+0x4/0x1a0 [module]`, or the bare number where no symbol is.
    pub(super) fn text(&mut self, address: u64, symbols: Symbols<'_>) -> &str {
        &self.at(address, symbols).text
    }

    /// The name alone, or the number.
    pub(super) fn name(&mut self, address: u64, symbols: Symbols<'_>) -> &str {
        let spelled = self.at(address, symbols);
        &spelled.text[..spelled.name]
    }

    fn at(&mut self, address: u64, symbols: Symbols<'_>) -> &Spelled {
        let number = (address.wrapping_mul(SPREAD) >> (u64::BITS - MOST.trailing_zeros())) as usize;
        let spelled = &mut self.all[number];
        if !spelled.lasts || spelled.address != address {
            spelled.find(address, symbols);
        }
        spelled
    }
}

impl Spelled {
    fn find(&mut self, address: u64, symbols: Symbols<'_>) {
        self.address = address;
        self.text.clear();
        let found = symbols(address);
        self.lasts = found.as_ref().is_some_and(|symbol| symbol.module.is_none());
        let Some(symbol) = found else {
            digits::hexadecimal(&mut self.text, address);
            self.name = self.text.len();
            return;
        };
        self.text.push_str(&symbol.name);
        self.name = self.text.len();
        self.text.push('+');
        digits::hexadecimal(&mut self.text, address.wrapping_sub(symbol.start));
        self.text.push('/');
        digits::hexadecimal(&mut self.text, symbol.size);
        if let Some(module) = symbol.module {
            self.text.push_str(" [");
            self.text.push_str(&module);
            self.text.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;
    use core::cell::Cell;

    /// DV-4: a kernel's address is looked up once; a module's each time, for another may lie there by then.
    #[test]
    fn only_the_kernels_own_names_are_remembered() {
        let (asked, module) = (Cell::new(0), Cell::new(None));
        let symbols = |address: u64| {
            asked.set(asked.get() + 1);
            let module: Option<&str> = module.get();
            (address >= 0x1000).then(|| Symbol {
                name: "read".to_owned(),
                start: 0x1000,
                size: 0x40,
                module: module.map(ToOwned::to_owned),
            })
        };
        let mut places = Places::default();
        #[rustfmt::skip]
        let cases = [
            (0x1004, None,         "read+0x4/0x40",        "read", 1),
            (0x1004, Some("gone"), "read+0x4/0x40",        "read", 1),
            (0x2000, Some("ext4"), "read+0x1000/0x40 [ext4]", "read", 3),
            (0x2000, Some("fuse"), "read+0x1000/0x40 [fuse]", "read", 5),
            (0x2000, None,         "read+0x1000/0x40",     "read", 6),
            (0x2000, Some("gone"), "read+0x1000/0x40",     "read", 6),
            (0x10,   None,         "0x10",                 "0x10", 8),
        ];
        for (address, in_module, text, name, times) in cases {
            module.set(in_module);
            assert_eq!(places.text(address, &symbols), text);
            assert_eq!(places.name(address, &symbols), name);
            assert_eq!(asked.get(), times, "{text}");
        }
    }

    /// DV-4: two addresses that are remembered in one place do not get each other's name.
    #[test]
    fn more_addresses_than_are_remembered_keep_their_names() {
        let symbols = |address: u64| Some(Symbol { name: alloc::format!("f{address}"), start: address, size: 1, module: None });
        let mut places = Places::default();
        for address in (0..3).flat_map(|_| 0..4 * MOST as u64) {
            assert_eq!(places.name(address, &symbols), alloc::format!("f{address}"));
        }
    }
}
