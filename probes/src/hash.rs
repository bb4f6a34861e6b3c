//! A fast hash of bytes, for tables and comparisons inside the engine. It withstands no attack.

/// A hash of what was added so far: words of eight bytes, each multiplied and rotated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Adds bytes. The last word is filled up with zeros, so `[1]` and `[1, 0]` are the same.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut add = |word: [u8; 8]| self.0 = (self.0.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(Hash::FACTOR);
        words.iter().for_each(|word| add(*word));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            add(word);
        }
    }

    /// The hash. Its lower half depends on all bits.
    #[inline]
    pub fn value(self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
