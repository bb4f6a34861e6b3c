//! Finds the link address of an image in one piece by its own pointers.
//!
//! Many words of an image are addresses of its symbols: function tables, lists, structures. The symbols' offsets from
//! the start are known. Each such word votes for all starts for which it would be a symbol's address. The right start
//! gets a vote from each pointer, others only a few.

use std::collections::{HashMap, HashSet};
use trapline_isa::mem::ByteOrder;
use trapline_probes::budget::{Budget, Spent};

/// The alignment of a link address.
const ALIGNMENT: u64 = 0x1_0000;
/// The number of words of an image that vote, evenly spread.
const MOST_WORDS: usize = 1 << 18;
/// The least number of votes. Fewer may be chance.
const FEWEST_VOTES: u32 = 16;
/// Limit for the number of different starts that get votes, because each takes memory.
const MOST_STARTS: usize = 1 << 24;

/// The image's link address, from its symbols' offsets. `None` if the pointers do not agree. Each vote costs a step of
/// the budget.
pub fn by_pointers(bytes: &[u8], word: usize, order: ByteOrder, offsets: &[u64], budget: &Budget) -> Result<Option<u64>, Spent> {
    let lowest = 1 << (8 * word - 1);
    let size = bytes.len() as u64;
    let mut by_rest: HashMap<u64, HashSet<u64>> = HashMap::new();
    for offset in offsets.iter().filter(|offset| **offset < size) {
        by_rest.entry(offset % ALIGNMENT).or_default().insert(*offset);
    }
    let step = (bytes.len() / word).div_ceil(MOST_WORDS).max(1);
    let pointers = bytes.chunks_exact(word).step_by(step).map(|word| order.number(word));
    // A pointer that occurs several times has one vote.
    let pointers: HashSet<u64> = pointers.filter(|pointer| *pointer >= lowest).collect();
    let mut votes: HashMap<u64, u32> = HashMap::new();
    for pointer in pointers {
        for offset in by_rest.get(&(pointer % ALIGNMENT)).into_iter().flatten() {
            budget.charge(1)?;
            let start = pointer.checked_sub(*offset).filter(|start| *start >= lowest);
            start.into_iter().for_each(|start| *votes.entry(start).or_default() += 1);
        }
        if votes.len() > MOST_STARTS {
            return Err(Spent);
        }
    }
    let most_votes = votes.iter().map(|(start, votes)| (*start, *votes)).max_by_key(|(_, votes)| *votes);
    let Some((start, most)) = most_votes else { return Ok(None) };
    let second = votes.iter().filter(|(other, _)| **other != start).map(|(_, votes)| *votes).max().unwrap_or(0);
    Ok((most >= FEWEST_VOTES && most > 2 * second).then_some(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0xffff_8000_8020_0000;

    /// An image of 1 MiB with symbols every 272 bytes, and pointers to every third of them.
    fn image(start: u64, word: usize, order: ByteOrder) -> (Vec<u8>, Vec<u64>) {
        let offsets: Vec<u64> = (0..2000).map(|number| number * 272).collect();
        let mut bytes = vec![0x91; 1 << 20];
        for (number, offset) in offsets.iter().step_by(3).enumerate() {
            let at = 0x9_0000 + number * word;
            order.put(start + offset, &mut bytes[at..at + word]);
        }
        (bytes, offsets)
    }

    fn placed(bytes: &[u8], word: usize, order: ByteOrder, offsets: &[u64]) -> Option<u64> {
        by_pointers(bytes, word, order, offsets, &Budget::of(u64::MAX)).expect("no limit")
    }

    /// A vote costs a step: hostile symbols may all have equal offsets modulo 64 KiB.
    #[test]
    fn votes_are_charged() {
        let offsets: Vec<u64> = (0..16).map(|number| number * ALIGNMENT).collect();
        let bytes: Vec<u8> = (0..0x2_0000_u64).flat_map(|number| (START + number * ALIGNMENT).to_le_bytes()).collect();
        let budget = Budget::of(1 << 20);
        assert!(by_pointers(&bytes, 8, ByteOrder::Little, &offsets, &budget).is_err());
        assert!(budget.is_spent());
    }

    /// KP-4
    #[test]
    fn the_start_is_the_one_that_most_pointers_vote_for() {
        let cases = [(START, 8, ByteOrder::Little), (START, 8, ByteOrder::Big), (0x8010_0000, 4, ByteOrder::Big)];
        for (start, word, order) in cases {
            let (bytes, offsets) = image(start, word, order);
            assert_eq!(placed(&bytes, word, order, &offsets), Some(start), "{word} bytes, {order:?}");
        }
    }

    /// KP-4
    #[test]
    fn an_image_without_pointers_or_with_those_of_two_places_has_no_start() {
        let (bytes, offsets) = image(START, 8, ByteOrder::Little);
        assert_eq!(placed(&bytes[..0x9_0000], 8, ByteOrder::Little, &offsets), None, "no pointers");
        assert_eq!(placed(&bytes, 8, ByteOrder::Little, &[]), None, "no symbols");
        let (mut two, _) = image(START, 8, ByteOrder::Little);
        let other = image(START + 0x100_0000, 8, ByteOrder::Little).0;
        two[0xc_0000..0xc_2000].copy_from_slice(&other[0x9_0000..0x9_2000]);
        assert_eq!(placed(&two, 8, ByteOrder::Little, &offsets), None, "two places");
    }
}
