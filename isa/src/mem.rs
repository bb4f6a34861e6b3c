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

/// Reads and writes with the rights of the code that is running.
pub trait Memory {
    /// Fills `into`, or changes nothing and says where it failed.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// Writes all of `bytes`, or nothing.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// A little-endian value of `size` bytes, at most 8.
    #[inline]
    fn read_le(&mut self, address: u64, size: usize) -> Result<u64, Fault> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size.min(8)])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes the low `size` bytes of `value`, at most 8, little-endian.
    #[inline]
    fn write_le(&mut self, address: u64, value: u64, size: usize) -> Result<(), Fault> {
        self.write(address, &value.to_le_bytes()[..size.min(8)])
    }

    /// Writes such a value where another one is, which it gives back; a fault changes nothing.
    #[inline]
    fn exchange_le(&mut self, address: u64, value: u64, size: usize) -> Result<u64, Fault> {
        let before = self.read_le(address, size)?;
        self.write_le(address, value, size)?;
        Ok(before)
    }
}
