//! Guest memory for the fuzz targets of devices.

use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// Memory from an address on.
pub struct Ram {
    pub start: u64,
    pub order: ByteOrder,
    pub bytes: Vec<u8>,
}

impl Ram {
    fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let from = usize::try_from(address.checked_sub(self.start)?).ok()?;
        self.bytes.get_mut(from..from.checked_add(length)?)
    }
}

impl Memory for Ram {
    fn order(&self) -> ByteOrder {
        self.order
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = self.at(address, into.len()).ok_or(Fault { address, write: false })?;
        into.copy_from_slice(from);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.at(address, bytes.len()).ok_or(Fault { address, write: true })?.copy_from_slice(bytes);
        Ok(())
    }
}
