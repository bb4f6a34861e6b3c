//! How many names can be read one behind the other from each place of a piece of memory, until one is none.
//!
//! The next name begins at most 32 KiB behind a name, so going backwards the answers for that much memory are enough:
//! each place is looked at once, whatever the memory holds.

/// A name with its length is shorter than this: 7 bits in the first byte of the length, 8 in the second.
const REACH: usize = 1 << 16;

/// Going backwards through memory, the number of names from each place on.
pub struct Chains<F> {
    /// Where the name ends that begins here; `None`: none begins here.
    end_of: F,
    /// The first place whose answer is known.
    known_from: usize,
    /// No name reaches behind this.
    end: usize,
    /// The answer of a place is at its number modulo [`REACH`].
    links: Vec<u32>,
}

impl<F: Fn(usize) -> Option<usize>> Chains<F> {
    /// Nothing is known yet of the memory in front of `end`.
    pub fn new(end: usize, end_of: F) -> Chains<F> {
        Chains { end_of, known_from: end, end, links: vec![0; REACH] }
    }

    /// How many names can be read from this place on. Places must be asked for in falling order; `None`: this one is
    /// behind the last that was asked for.
    pub fn links_from(&mut self, at: usize) -> Option<usize> {
        while self.known_from > at {
            let place = self.known_from - 1;
            let next = (self.end_of)(place).filter(|next| (place + 1..=self.end).contains(next));
            self.links[place % REACH] = next.map_or(0, |next| 1 + if next == self.end { 0 } else { self.links[next % REACH] });
            self.known_from = place;
        }
        (at == self.known_from).then(|| self.links[at % REACH] as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// KP-4: as many names as a walk from each place finds.
        #[test]
        fn links_are_those_of_a_walk(lengths in proptest::collection::vec(0_usize..5, 1..300)) {
            let end_of = |at: usize| {
                let end = at + 1 + lengths[at];
                (lengths[at] > 0 && end <= lengths.len()).then_some(end)
            };
            let mut chains = Chains::new(lengths.len(), end_of);
            for start in (0..lengths.len()).rev().step_by(3) {
                let mut at = start;
                let mut walked = 0;
                while let Some(next) = (at < lengths.len()).then(|| end_of(at)).flatten() {
                    (at, walked) = (next, walked + 1);
                }
                prop_assert_eq!(chains.links_from(start), Some(walked));
            }
        }
    }
}
