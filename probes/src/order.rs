//! Point numbers sorted by address, for range queries: a list of sorted pieces with four bytes per entry. The addresses
//! are stored in the points, so methods take a closure that returns them. Hits do not use this.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A list of point numbers, sorted by the points' addresses.
#[derive(Default)]
pub(crate) struct Order {
    /// The pieces, sorted by address. None is empty.
    pieces: Vec<Piece>,
    /// Cache for [`Order::is_clear`]: the gap without addresses that the last query found.
    clear: Range<u64>,
}

struct Piece {
    /// A lower bound: no address in the piece is below it, and all are below the next piece's bound.
    from: u64,
    numbers: Vec<u32>,
}

/// The largest number of numbers in a piece.
const MOST: usize = 128;

impl Order {
    /// Index of the piece that an address belongs to.
    fn piece_of(&self, address: u64) -> usize {
        self.pieces.partition_point(|piece| piece.from <= address).saturating_sub(1)
    }

    /// Adds a number. Its address must not be in the list.
    pub fn insert(&mut self, address: u64, number: u32, address_of: impl Fn(u32) -> u64) {
        self.clear = 0..0;
        let place = self.piece_of(address);
        let Some(piece) = self.pieces.get_mut(place) else {
            return self.pieces.push(Piece { from: address, numbers: vec![number] });
        };
        piece.from = piece.from.min(address);
        let at = piece.numbers.partition_point(|other| address_of(*other) < address);
        if piece.numbers.len() < MOST {
            return piece.numbers.insert(at, number);
        }
        if at == MOST {
            // Appending at the end starts a new piece instead of splitting, so that insertion in order fills the
            // pieces.
            return self.pieces.insert(place + 1, Piece { from: address, numbers: vec![number] });
        }
        let upper = piece.numbers.split_off(MOST / 2);
        let from = address_of(upper[0]);
        self.pieces.insert(place + 1, Piece { from, numbers: upper });
        self.insert(address, number, address_of);
    }

    /// Removes the number with this address.
    pub fn remove(&mut self, address: u64, address_of: impl Fn(u32) -> u64) {
        let place = self.piece_of(address);
        let Some(piece) = self.pieces.get_mut(place) else { return };
        let at = piece.numbers.partition_point(|other| address_of(*other) < address);
        if piece.numbers.get(at).is_some_and(|number| address_of(*number) == address) {
            piece.numbers.remove(at);
            if piece.numbers.is_empty() {
                self.pieces.remove(place);
            }
        }
    }

    /// All numbers, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.pieces.iter().flat_map(|piece| piece.numbers.iter().copied())
    }

    /// Whether a range contains no address. Fast if it lies in the same gap as the last query.
    #[inline]
    pub fn is_clear(&mut self, range: &Range<u64>, address_of: impl Fn(u32) -> u64) -> bool {
        let lies_in = |clear: &Range<u64>| clear.start <= range.start && range.end <= clear.end;
        if !lies_in(&self.clear) {
            self.clear = self.around(range.start, address_of);
        }
        lies_in(&self.clear)
    }

    /// The gap around an address: from behind the last entry below it to the next entry.
    fn around(&self, address: u64, address_of: impl Fn(u32) -> u64) -> Range<u64> {
        let place = self.piece_of(address);
        let Some(piece) = self.pieces.get(place) else { return 0..u64::MAX };
        let at = piece.numbers.partition_point(|number| address_of(*number) < address);
        let below = match at.checked_sub(1) {
            Some(before) => piece.numbers.get(before),
            None => place.checked_sub(1).and_then(|before| self.pieces.get(before)?.numbers.last()),
        };
        let above = piece.numbers.get(at).or_else(|| self.pieces.get(place + 1)?.numbers.first());
        below.map_or(0, |number| address_of(*number) + 1)..above.map_or(u64::MAX, |number| address_of(*number))
    }

    /// The numbers with addresses in a range.
    pub fn range<'a>(&'a self, range: Range<u64>, address_of: impl Fn(u32) -> u64 + Copy + 'a) -> impl Iterator<Item = u32> + 'a {
        let pieces = self.pieces.get(self.piece_of(range.start)..).unwrap_or_default();
        let first = pieces.first().map_or(0, |piece| piece.numbers.partition_point(|number| address_of(*number) < range.start));
        let up_to_last = pieces.iter().take_while(move |piece| piece.from < range.end);
        let numbers = up_to_last.flat_map(|piece| piece.numbers.iter().copied()).skip(first);
        numbers.take_while(move |number| address_of(*number) < range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn address(number: u32) -> u64 {
        0xffff_ffff_8100_0000 + 3 * u64::from(number)
    }

    proptest! {
        /// Numbers are inserted in ascending, descending and mixed order and removed again; range queries agree with a
        /// sorted set.
        #[test]
        fn ranges_agree_with_a_sorted_set(
            steps in prop::collection::vec((0u32..1200, any::<bool>()), 0..60),
            first in 0u32..1200, len in 0u32..400, backwards: bool, asked in prop::collection::vec((0u32..1200, 0u32..4), 0..60)
        ) {
            let mut order = Order::default();
            let mut model = BTreeSet::new();
            for number in 0..1000 {
                let number = if backwards { 999 - number } else { number };
                order.insert(address(number), number, address);
                model.insert(number);
            }
            for (number, add) in steps {
                if add && model.insert(number) {
                    order.insert(address(number), number, address);
                } else if !add {
                    model.remove(&number);
                    order.remove(address(number), address);
                }
            }
            prop_assert!(order.iter().eq(model.iter().copied()));
            let range = address(first) - 1..address(first + len);
            prop_assert!(order.range(range, address).eq(model.range(first..first + len).copied()));
            for (first, len) in asked {
                let range = address(first)..address(first + len);
                prop_assert_eq!(order.is_clear(&range, address), model.range(first..first + len).next().is_none());
            }
        }
    }

    /// The cached gap stays right between two entries, before the first and after the last, while entries are added and
    /// removed.
    #[test]
    fn is_clear_is_right_after_every_change() {
        let mut order = Order::default();
        let clear = |order: &mut Order, from: u32, to: u32| order.is_clear(&(address(from)..address(to)), address);
        assert!(clear(&mut order, 0, 1000), "the list is empty");
        (100..500).step_by(2).for_each(|number| order.insert(address(number), number, address));
        for number in [0, 99, 101, 301, 355, 499, 600] {
            assert!(clear(&mut order, number, number + 1), "{number}");
        }
        for (from, to) in [(0, 101), (100, 101), (99, 102), (300, 301), (497, 499), (0, 1000)] {
            assert!(!clear(&mut order, from, to), "{from}..{to}");
        }
        assert!(clear(&mut order, 600, 700));
        order.insert(address(650), 650, address);
        assert!(!clear(&mut order, 600, 700), "a number was added");
        order.remove(address(650), address);
        assert!(clear(&mut order, 600, 700), "and removed");
        let first = order.pieces[1].numbers[0];
        order.remove(address(first), address);
        assert!(
            clear(&mut order, first, first + 1) && !clear(&mut order, first - 4, first - 1),
            "the first number of a piece was removed"
        );
    }

    #[test]
    fn inserting_in_order_fills_the_pieces() {
        let mut order = Order::default();
        (0..1000).for_each(|number| order.insert(address(number), number, address));
        assert_eq!(order.pieces.len(), 1000usize.div_ceil(MOST));
        (0..1000).for_each(|number| order.remove(address(number), address));
        assert!(order.pieces.is_empty() && order.range(0..u64::MAX, address).next().is_none());
    }
}
