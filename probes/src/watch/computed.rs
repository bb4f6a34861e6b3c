//! Records the memory accesses of an instruction that the engine computes, because the machine does not see them. The
//! watchpoints then get them as accesses of the guest.

use super::{Access, By};
use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// The largest number of accesses of one instruction: a load of all registers.
const MOST: usize = 32;

/// The accesses of one computed instruction.
pub(crate) struct Computed {
    pc: u64,
    /// Address, size, whether it is a write, old value, value.
    list: [(u64, u8, bool, u64, u64); MOST],
    count: usize,
}

impl Computed {
    /// An empty list, for the accesses of the instruction at `pc`.
    pub fn at(pc: u64) -> Computed {
        Computed { pc, list: [(0, 0, false, 0, 0); MOST], count: 0 }
    }

    pub fn pc(&self) -> u64 {
        self.pc
    }

    fn note(&mut self, address: u64, size: usize, is_write: bool, old: u64, value: u64) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = (address, size as u8, is_write, old, value);
            self.count += 1;
        }
    }

    /// The accesses, in their order.
    pub fn accesses(&self, time: u64) -> impl Iterator<Item = Access> {
        self.list.iter().take(self.count).map(move |(address, size, is_write, old, value)| Access {
            address: *address,
            size: u64::from(*size),
            is_write: *is_write,
            value: *value,
            old: *old,
            by: By::Computed,
            time,
            unseen: false,
        })
    }
}

/// Memory whose accesses are recorded.
pub(crate) struct Recorder<'a, M> {
    pub memory: M,
    pub computed: &'a mut Computed,
}

impl<M: Memory> Memory for Recorder<'_, M> {
    fn order(&self) -> ByteOrder {
        self.memory.order()
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(address, into)?;
        let value = self.order().number(&into[..into.len().min(8)]);
        self.computed.note(address, into.len(), false, value, value);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let mut old = [0; 8];
        let old = &mut old[..bytes.len().min(8)];
        self.memory.read(address, old)?;
        self.memory.write(address, bytes)?;
        let order = self.order();
        self.computed.note(address, bytes.len(), true, order.number(old), order.number(&bytes[..bytes.len().min(8)]));
        Ok(())
    }
}
