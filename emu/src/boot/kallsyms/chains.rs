//! For each place in a piece of memory, the number of names that can be read one after another from there.
//!
//! A name is shorter than 64 KiB. So when going backwards, the results for that much memory are enough. Each place is
//! examined once, whatever the memory holds.

/// A name with its length is shorter than this: the length has 7 bits in the first byte and 8 in the second.
const REACH: usize = 1 << 16;

/// The state of going backwards through memory, with the number of names from each place on.
pub struct Chains<F> {
    /// The end of the name that starts at an offset. `None` if no name starts there.
    end_of: F,
    /// The lowest offset whose result is known.
    known_from: usize,
    /// The limit that no name may pass.
    end: usize,
    /// The result of an offset is at the offset modulo [`REACH`].
    links: Vec<u32>,
}

impl<F: Fn(usize) -> Option<usize>> Chains<F> {
    /// Starts before `end`.
    pub fn new(end: usize, end_of: F) -> Chains<F> {
        Chains { end_of, known_from: end, end, links: vec![0; REACH] }
    }

    /// The number of names from this offset on. Offsets must be passed in falling order; otherwise the result is
    /// `None`.
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
        /// KP-4: the result equals that of a walk from each offset.
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
