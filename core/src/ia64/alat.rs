//! The advanced load address table: registers that were loaded early, with the addresses that no store may touch.

use core::cell::Cell;

/// Entries in the table.
const ENTRIES: usize = 32;

/// The ALAT's number of floating-point register 0.
pub const FLOATS: u32 = 256;

/// An entry: a register that was loaded in advance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Claim {
    /// The register's number: 0 to 31, 32 and more for the physical number of a stacked one, or [`FLOATS`] and more for a
    /// floating-point one.
    pub register: u32,
    /// Bytes of the load; 0 in a free entry.
    pub size: u32,
    /// The physical address of the load.
    pub address: u64,
}

impl Claim {
    fn overlaps(self, address: u64, size: u32) -> bool {
        self.size != 0
            && self.address < address.wrapping_add(size.into())
            && address < self.address.wrapping_add(self.size.into())
    }
}

/// The table.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Alat {
    /// The entries.
    pub claims: [Cell<Claim>; ENTRIES],
    /// The entry that is replaced next.
    pub next: Cell<u32>,
    /// The number of entries in use. Stores look no further if it is 0.
    pub used: Cell<u32>,
}

impl Alat {
    fn remove_where(&self, unwanted: impl Fn(Claim) -> bool) {
        if self.used.get() == 0 {
            return;
        }
        for cell in &self.claims {
            if cell.get().size != 0 && unwanted(cell.get()) {
                cell.set(Claim::default());
                self.used.set(self.used.get() - 1);
            }
        }
    }

    /// Makes an entry, in place of one of the same register.
    pub fn insert(&self, claim: Claim) {
        self.remove(claim.register);
        let free = self.claims.iter().position(|cell| cell.get().size == 0);
        let index = free.unwrap_or_else(|| {
            let next = self.next.get();
            self.next.set((next + 1) % ENTRIES as u32);
            self.used.set(self.used.get() - 1);
            next as usize
        });
        self.claims[index].set(claim);
        self.used.set(self.used.get() + 1);
    }

    /// The entry of a register.
    pub fn find(&self, register: u32) -> Option<Claim> {
        if self.used.get() == 0 {
            return None;
        }
        self.claims.iter().map(Cell::get).find(|claim| claim.size != 0 && claim.register == register)
    }

    /// Removes the entry of a register.
    pub fn remove(&self, register: u32) {
        self.remove_where(|claim| claim.register == register);
    }

    /// Removes the entries that a store touches.
    #[inline(always)]
    pub fn stored(&self, address: u64, size: u32) {
        if self.used.get() != 0 {
            self.remove_where(|claim| claim.overlaps(address, size));
        }
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.remove_where(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: an entry lasts until a store to its bytes, another load of its register, or its removal.
    #[test]
    fn an_entry_lasts_until_a_store_to_its_bytes() {
        let alat = Alat::default();
        let claim = |register: u32, address: u64| Claim { register, size: 8, address };
        alat.insert(claim(14, 0x1000));
        alat.insert(claim(15, 0x1008));
        alat.stored(0x1010, 8);
        alat.stored(0xff8, 8);
        assert_eq!(alat.find(14), Some(claim(14, 0x1000)));
        alat.stored(0x1007, 1);
        assert_eq!((alat.find(14), alat.find(15)), (None, Some(claim(15, 0x1008))));
        alat.insert(claim(15, 0x2000));
        assert_eq!((alat.find(15), alat.used.get()), (Some(claim(15, 0x2000)), 1));
        (100..140).for_each(|register| alat.insert(claim(register, 0x3000)));
        assert_eq!(alat.used.get(), 32);
        alat.clear();
        assert_eq!(alat.used.get(), 0);
        assert!(alat.find(139).is_none());
    }
}
