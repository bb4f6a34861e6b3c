//! Guest memory as an instruction sees it: through the guest's own page tables, each access may fault.

/// An access that the guest's page tables do not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first address that could not be reached.
    pub address: u64,
    /// Whether it was to be written.
    pub write: bool,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "guest address {:#x} cannot be {}", self.address, if self.write { "written" } else { "read" })
    }
}

/// In which order the bytes of a number lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    /// The number that these bytes are, at most 8.
    #[inline]
    pub fn number(self, bytes: &[u8]) -> u64 {
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match (self, bytes) {
            (ByteOrder::Little, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (ByteOrder::Big, &[a, b, c, d, e, f, g, h]) => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            (ByteOrder::Little, &[a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (ByteOrder::Big, &[a, b, c, d]) => u64::from(u32::from_be_bytes([a, b, c, d])),
            (ByteOrder::Little, _) => bytes.iter().rev().fold(0, append),
            (ByteOrder::Big, _) => bytes.iter().fold(0, append),
        }
    }

    /// Writes the low end of a number over these bytes, at most 8.
    #[inline]
    pub fn put(self, value: u64, into: &mut [u8]) {
        match (self, <&mut [u8; 8]>::try_from(&mut *into)) {
            (ByteOrder::Little, Ok(into)) => *into = value.to_le_bytes(),
            (ByteOrder::Big, Ok(into)) => *into = value.to_be_bytes(),
            (ByteOrder::Little, Err(_)) => into.iter_mut().zip(value.to_le_bytes()).for_each(|(to, byte)| *to = byte),
            (ByteOrder::Big, Err(_)) => into.iter_mut().rev().zip(value.to_le_bytes()).for_each(|(to, byte)| *to = byte),
        }
    }

    /// The instruction in 4 bytes; 0 for any other number of bytes.
    pub fn word(self, bytes: &[u8]) -> u32 {
        let Ok(bytes) = bytes.try_into() else { return 0 };
        match self {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            ByteOrder::Little => u32::from_le_bytes(bytes),
        }
    }

    /// An instruction of 4 bytes as it stands in memory.
    pub const fn word_bytes(self, word: u32) -> [u8; 4] {
        match self {
            ByteOrder::Big => word.to_be_bytes(),
            ByteOrder::Little => word.to_le_bytes(),
        }
    }
}

/// Reads and writes with the rights of the code that is running.
pub trait Memory {
    /// In which order the code that is running finds the bytes of a number there.
    fn order(&self) -> ByteOrder;
    /// Fills `into`, or changes nothing and says where it failed.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Writes all of `bytes`, or nothing.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// A number of `size` bytes, at most 8.
    #[inline]
    fn read_number(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.read(address, bytes)?;
        Ok(self.order().number(bytes))
    }

    /// Writes the low `size` bytes of `value`, at most 8, as a number.
    #[inline]
    fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.order().put(value, bytes);
        self.write(address, bytes)
    }

    /// Writes such a number where another one is, which it gives back; a fault changes nothing.
    #[inline]
    fn exchange_number(&mut self, address: u64, value: u64, size: usize) -> Result<u64, Fault> {
        let before = self.read_number(address, size)?;
        self.write_number(address, value, size)?;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number keeps its value on its way through memory, whatever its size; its bytes lie as the order says.
    #[test]
    fn numbers_lie_in_memory_in_their_order() {
        let value = 0x1122_3344_5566_7788_u64;
        for size in 0..=8 {
            let low = value.to_le_bytes();
            let mut high = value.to_be_bytes()[8 - size..].to_vec();
            let mut bytes = alloc::vec![0; size];
            ByteOrder::Little.put(value, &mut bytes);
            assert_eq!(bytes, low[..size], "{size}");
            ByteOrder::Big.put(value, &mut bytes);
            assert_eq!(bytes, high, "{size}");
            let expected = if size == 8 { value } else { value & ((1 << (8 * size)) - 1) };
            assert_eq!(ByteOrder::Big.number(&high), expected, "{size}");
            high.reverse();
            assert_eq!(ByteOrder::Little.number(&high), expected, "{size}");
        }
    }
}
