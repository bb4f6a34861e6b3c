//! Numbers in the order of their addresses, which are kept elsewhere: a list in pieces, four bytes an entry. For
//! ranges; a hit does not look here.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Order {
    /// By address, none of them empty.
    pieces: Vec<Piece>,
    /// Addresses that none in it has: where it was asked last.
    clear: Range<u64>,
}

struct Piece {
    /// None of its addresses is below this, and all are below the next piece's.
    from: u64,
    numbers: Vec<u32>,
}

/// The most numbers of a piece.
const MOST: usize = 128;

impl Order {
    /// The piece that an address belongs to.
    fn piece_of(&self, address: u64) -> usize {
        self.pieces.partition_point(|piece| piece.from <= address).saturating_sub(1)
    }

    /// Adds a number whose address nobody in it has.
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
            // Whoever adds in order fills its pieces.
            return self.pieces.insert(place + 1, Piece { from: address, numbers: vec![number] });
        }
        let upper = piece.numbers.split_off(MOST / 2);
        let from = address_of(upper[0]);
        self.pieces.insert(place + 1, Piece { from, numbers: upper });
        self.insert(address, number, address_of);
    }

    /// Takes out the number with this address.
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

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.pieces.iter().flat_map(|piece| piece.numbers.iter().copied())
    }

    /// Whether nobody has an address in a range; quick where it lies as the last one did, between the same two.
    #[inline]
    pub fn is_clear(&mut self, range: &Range<u64>, address_of: impl Fn(u32) -> u64) -> bool {
        let lies_in = |clear: &Range<u64>| clear.start <= range.start && range.end <= clear.end;
        if !lies_in(&self.clear) {
            self.clear = self.around(range.start, address_of);
        }
        lies_in(&self.clear)
    }

    /// From behind the last one below an address to the next.
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

    /// Those with addresses in a range.
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
        /// Numbers come in order, backwards and mixed, and go again: ranges find those that are there.
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

    /// Between two of them, in front of the first and behind the last, however they are asked for and whatever comes
    /// and goes meanwhile.
    #[test]
    fn where_nobody_is_is_told_as_it_is_now() {
        let mut order = Order::default();
        let clear = |order: &mut Order, from: u32, to: u32| order.is_clear(&(address(from)..address(to)), address);
        assert!(clear(&mut order, 0, 1000), "nobody is anywhere");
        (100..500).step_by(2).for_each(|number| order.insert(address(number), number, address));
        for number in [0, 99, 101, 301, 355, 499, 600] {
            assert!(clear(&mut order, number, number + 1), "{number}");
        }
        for (from, to) in [(0, 101), (100, 101), (99, 102), (300, 301), (497, 499), (0, 1000)] {
            assert!(!clear(&mut order, from, to), "{from}..{to}");
        }
        assert!(clear(&mut order, 600, 700));
        order.insert(address(650), 650, address);
        assert!(!clear(&mut order, 600, 700), "one has come");
        order.remove(address(650), address);
        assert!(clear(&mut order, 600, 700), "and gone");
        let first = order.pieces[1].numbers[0];
        order.remove(address(first), address);
        assert!(clear(&mut order, first, first + 1) && !clear(&mut order, first - 4, first - 1), "one that its piece began with");
    }

    #[test]
    fn what_comes_in_order_fills_its_pieces_and_what_is_empty_is_gone() {
        let mut order = Order::default();
        (0..1000).for_each(|number| order.insert(address(number), number, address));
        assert_eq!(order.pieces.len(), 1000usize.div_ceil(MOST));
        (0..1000).for_each(|number| order.remove(address(number), address));
        assert!(order.pieces.is_empty() && order.range(0..u64::MAX, address).next().is_none());
    }
}
