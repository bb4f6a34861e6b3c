//! Numbers in the order of their addresses, which are kept elsewhere: a list in pieces, four bytes an entry. For ranges; a hit does not
//! look here.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Order {
    /// By address, none of them empty.
    pieces: Vec<Piece>,
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
            first in 0u32..1200, len in 0u32..400, backwards: bool
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
        }
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
