//! A prediction of the window pages that are in the core's TLB: those that it has fetched from since the current page
//! tables came into force. For these pages the machine adds no page-table entry before it enters the window. A wrong
//! prediction costs one fetch fault, which the guest does not see.

use crate::cpu::WindowPlace;

const PAGE: u64 = 4096;

/// The window pages that were fetched from.
pub(crate) struct Fetched {
    /// The virtual address of the window.
    start: u64,
    /// The page tables in force, as `Window::tables_in_force` of the CPU model identifies them.
    tables: u64,
    /// A number that increases when other page tables come into force.
    period: u32,
    /// For each page, the period in which it was last fetched from.
    pages: Box<[u32]>,
}

impl Fetched {
    pub fn of(window: &WindowPlace) -> Fetched {
        let pages = vec![0; (window.len / PAGE) as usize].into_boxed_slice();
        Fetched { start: window.start, tables: 0, period: 1, pages }
    }

    /// Returns whether the page was fetched from since these page tables came into force, and records the fetch.
    #[inline]
    pub fn again(&mut self, tables: u64, address: u64) -> bool {
        if tables != self.tables {
            (self.tables, self.period) = (tables, self.period.wrapping_add(1));
        }
        let page = (address.wrapping_sub(self.start) / PAGE) as usize;
        self.pages.get_mut(page).is_some_and(|seen| core::mem::replace(seen, self.period) == self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shown_once_for_each_time_that_tables_come_into_force() {
        let window = WindowPlace { start: 0x10_0000, len: 4 * PAGE, physical: 0, tables: 0 };
        let mut fetched = Fetched::of(&window);
        #[rustfmt::skip]
        let steps = [
            // what            tables  address     known
            ("the first time",  0xa000, 0x10_0020, false),
            ("the same page",   0xa000, 0x10_0fe0, true),
            ("another page",    0xa000, 0x10_1000, false),
            ("other tables",    0xb000, 0x10_0020, false),
            ("back again",      0xa000, 0x10_0020, false),
            ("and again",       0xa000, 0x10_0020, true),
            ("outside",         0xa000, 0x20_0000, false),
        ];
        for (what, tables, address, known) in steps {
            assert_eq!(fetched.again(tables, address), known, "{what}");
        }
    }
}
