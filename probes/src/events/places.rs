//! Cache of printed addresses (`vfs_read+0x4/0x1a0`). Records repeat a few addresses, and a symbol lookup takes longer
//! than the rest of the printing.

use super::digits;
use crate::guest::Symbol;
use alloc::string::String;
use alloc::vec::Vec;

/// Looks up the symbol that covers an address.
pub type Symbols<'a> = &'a dyn Fn(u64) -> Option<Symbol>;

/// Number of cache entries, a power of two.
const MOST: usize = 1024;
/// 2^64 divided by the golden ratio (Fibonacci hashing). It spreads neighbouring addresses.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A direct-mapped cache of printed addresses. Only names of the kernel itself are reused: a module's address may get
/// another meaning, so it is looked up each time.
#[derive(Debug)]
pub struct Places {
    /// Each address has one slot, which holds the last address that used it.
    all: Vec<Spelled>,
}

#[derive(Clone, Debug, Default)]
struct Spelled {
    address: u64,
    lasts: bool,
    text: String,
    /// Length of the name alone, at the start of the text.
    name: usize,
}

impl Default for Places {
    fn default() -> Places {
        Places { all: alloc::vec![Spelled::default(); MOST] }
    }
}

impl Places {
    /// `vfs_read+0x4/0x1a0 [module]`, or the number if there is no symbol.
    pub fn text(&mut self, address: u64, symbols: Symbols<'_>) -> &str {
        &self.at(address, symbols).text
    }

    /// The symbol's name, or the number if there is no symbol.
    pub fn name(&mut self, address: u64, symbols: Symbols<'_>) -> &str {
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

    /// DV-4: a kernel address is looked up once, a module's address each time.
    #[test]
    fn only_names_of_the_kernel_are_cached() {
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

    /// DV-4: two addresses that share a cache slot keep their own names.
    #[test]
    fn addresses_that_share_a_slot_keep_their_names() {
        let symbols = |address: u64| Some(Symbol { name: alloc::format!("f{address}"), start: address, size: 1, module: None });
        let mut places = Places::default();
        for address in (0..3).flat_map(|_| 0..4 * MOST as u64) {
            assert_eq!(places.name(address, &symbols), alloc::format!("f{address}"));
        }
    }
}
