//! A source of random numbers (virtio 1.2, section 5.4). The numbers follow from a seed: BLAKE3's extendable output for it.
//! Two runs with one seed get the same numbers.

use super::AttachError;
use super::queue::Chain;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

/// The largest answer in bytes. A driver may offer a longer buffer and gets it filled in part.
const MOST: u64 = 4096;

/// A source of random numbers to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The seed.
    pub seed: u64,
}

impl Source {
    /// The identity of the source, for the key of a snapshot.
    pub fn identity(self) -> String {
        format!("random numbers {}", self.seed)
    }
}

/// The device.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rng {
    seed: u64,
    /// The number of bytes that the guest has got.
    given: u64,
}

impl Rng {
    /// A device of this source.
    pub fn new(source: Source) -> Rng {
        Rng { seed: source.seed, given: 0 }
    }

    /// Fills the buffers of a chain. Returns the number of bytes.
    pub fn handle(&mut self, chain: &Chain, memory: &mut dyn Memory) -> u32 {
        let mut bytes = vec![0; chain.writable.bytes().min(MOST) as usize];
        let mut numbers = blake3::Hasher::new().update(&self.seed.to_le_bytes()).finalize_xof();
        numbers.set_position(self.given);
        numbers.fill(&mut bytes);
        if chain.writable.write(memory, 0, &bytes).is_err() {
            return 0;
        }
        self.given = self.given.wrapping_add(bytes.len() as u64);
        bytes.len() as u32
    }

    /// Checks that a restored device is one of this source.
    pub fn adopt(&self, other: &Rng) -> Result<(), AttachError> {
        if self.seed == other.seed { Ok(()) } else { Err(AttachError::Contents) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Buffer, Driver};
    use super::super::{Attached, Virtio};
    use super::*;

    fn driver(seed: u64) -> Driver {
        Driver::new(Virtio::new(&Attached::Random(Source { seed })))
    }

    /// RN-1: numbers follow from the seed, go on from request to request, and continue from a snapshot.
    #[test]
    fn numbers_follow_from_the_seed() {
        let mut first = driver(7);
        let numbers = [first.request(&[Buffer::Room(100)]), first.request(&[Buffer::Room(28), Buffer::Room(100)])].concat();
        assert_eq!(numbers.len(), 228);
        assert!(numbers.chunks(4).all(|word| word != [0; 4]));
        assert_eq!(driver(7).request(&[Buffer::Room(228)]), numbers);
        assert_ne!(driver(8).request(&[Buffer::Room(228)]), numbers);

        let mut source = Rng::new(Source { seed: 7 });
        source.given = 100;
        let text = serde_json::to_string(&source).expect("text");
        let restored: Rng = serde_json::from_str(&text).expect("a device");
        assert_eq!((restored.given, restored.adopt(&Rng::new(Source { seed: 7 }))), (100, Ok(())));
        assert_eq!(restored.adopt(&Rng::new(Source { seed: 8 })), Err(AttachError::Contents));
    }

    /// RN-1: a long buffer is filled in part, and one outside of memory not at all.
    #[test]
    fn answers_are_bounded() {
        let mut driver = driver(7);
        let got = driver.request(&[Buffer::Room(2 * MOST as usize)]);
        assert!(got[..MOST as usize].iter().any(|byte| *byte != 0xa5) && got[MOST as usize..].iter().all(|byte| *byte == 0xa5));
        assert_eq!(driver.returned().1, MOST as u32);
    }
}
