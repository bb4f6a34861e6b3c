//! Guest memory as an instruction accesses it: by virtual address, so each access may fault. Also byte order.

/// An access that the guest's page tables do not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first address that could not be accessed.
    pub address: u64,
    /// The access was a write.
    pub write: bool,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "guest address {:#x} cannot be {}", self.address, if self.write { "written" } else { "read" })
    }
}

/// The byte order of numbers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// Little-endian.
    Little,
    /// Big-endian.
    Big,
}

impl ByteOrder {
    /// The number in these bytes, at most 8.
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

    /// Stores the low bytes of a number into these bytes, at most 8.
    #[inline]
    pub fn put(self, value: u64, into: &mut [u8]) {
        match (self, <&mut [u8; 8]>::try_from(&mut *into)) {
            (ByteOrder::Little, Ok(into)) => *into = value.to_le_bytes(),
            (ByteOrder::Big, Ok(into)) => *into = value.to_be_bytes(),
            (ByteOrder::Little, Err(_)) => into.iter_mut().zip(value.to_le_bytes()).for_each(|(to, byte)| *to = byte),
            (ByteOrder::Big, Err(_)) => into.iter_mut().rev().zip(value.to_le_bytes()).for_each(|(to, byte)| *to = byte),
        }
    }

    /// The number in 4 bytes; 0 if there are not exactly 4. Used for instructions.
    pub fn word(self, bytes: &[u8]) -> u32 {
        let Ok(bytes) = bytes.try_into() else { return 0 };
        match self {
            ByteOrder::Big => u32::from_be_bytes(bytes),
            ByteOrder::Little => u32::from_le_bytes(bytes),
        }
    }

    /// The 4 bytes of an instruction word in memory.
    pub const fn word_bytes(self, word: u32) -> [u8; 4] {
        match self {
            ByteOrder::Big => word.to_be_bytes(),
            ByteOrder::Little => word.to_le_bytes(),
        }
    }
}

/// Guest memory, accessed with the rights of the running code.
pub trait Memory {
    /// The byte order of data for the running code.
    fn order(&self) -> ByteOrder;
    /// Fills `into`. On a fault, `into` is unchanged.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Writes all of `bytes`. On a fault, memory is unchanged.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Reads a number of `size` bytes, at most 8.
    #[inline]
    fn read_number(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.read(address, bytes)?;
        Ok(self.order().number(bytes))
    }

    /// Writes the low `size` bytes of `value`, at most 8.
    #[inline]
    fn write_number(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..size.min(8)];
        self.order().put(value, bytes);
        self.write(address, bytes)
    }

    /// Replaces a number and returns the old one. A fault changes nothing.
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

    /// A number keeps its value through memory, in each size, and its bytes have the byte order asked for.
    #[test]
    fn numbers_have_the_byte_order_asked_for() {
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
