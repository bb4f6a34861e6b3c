//! Emulates A32 loads and stores with the pc as the base or as the data.

use super::{CPSR, Cpu, Target, alu};
use crate::arm::Set;
use crate::arm::abi::r;
use crate::mem::Fault;

const PRE: u32 = 1 << 24;
const UP: u32 = 1 << 23;
const WRITE_BACK: u32 = 1 << 21;
const LOAD: u32 = 1 << 20;

impl Cpu<'_> {
    /// A word or a byte.
    pub(super) fn transfer(&mut self, word: u32) -> Result<Target, Fault> {
        let carry = self.regs.get(CPSR) >> 29 & 1 != 0;
        let offset = match word >> 25 & 1 {
            1 => alu::shifted(self.get(word as u8), word, carry).0,
            _ => word & 0xfff,
        };
        let place = self.place(word, offset);
        let size = if word >> 22 & 1 != 0 { 1 } else { 4 };
        let number = (word >> 12) as u8 & 15;
        if word & LOAD == 0 {
            let value = self.get(number);
            self.mem.write_number(place.address.into(), value.into(), size)?;
            return Ok(self.settle(place));
        }
        let loaded = self.load(place.address, size as u32)?;
        let next = self.settle(place);
        Ok(if number == 15 { Target::ByBit0(loaded) } else { self.put(number, loaded, next) })
    }

    /// A halfword, a doubleword, or a signed value. The offset is an immediate or a register.
    pub(super) fn extra(&mut self, word: u32) -> Result<Target, Fault> {
        let offset = match word >> 22 & 1 {
            1 => word >> 4 & 0xf0 | word & 15,
            _ => self.get(word as u8),
        };
        let place = self.place(word, offset);
        let number = (word >> 12) as u8 & 15;
        let address = place.address;
        let (first, second) = match (word & LOAD != 0, word >> 5 & 3) {
            (false, 1) => {
                let value = self.get(number);
                self.mem.write_number(address.into(), value.into(), 2)?;
                (None, None)
            }
            (false, 2) => (Some(self.load(address, 4)?), Some(self.load(address.wrapping_add(4), 4)?)),
            (false, _) => {
                let both = u64::from(self.get(number)) | u64::from(self.get(number + 1)) << 32;
                self.mem.write_number(address.into(), both, 8)?;
                (None, None)
            }
            (true, 1) => (Some(self.load(address, 2)?), None),
            (true, 2) => (Some(self.load(address, 1)? as u8 as i8 as u32), None),
            (true, _) => (Some(self.load(address, 2)? as u16 as i16 as u32), None),
        };
        let next = self.settle(place);
        for (number, loaded) in (number..).zip([first, second]) {
            if let Some(loaded) = loaded {
                self.put(number, loaded, next);
            }
        }
        Ok(next)
    }

    /// Several registers. The lowest register is at the lowest address.
    pub(super) fn block(&mut self, word: u32) -> Result<Target, Fault> {
        const MOST: usize = 64;
        let (list, base) = (word & 0xffff, (word >> 16) as u8 & 15);
        let numbers = || (0..16_u8).filter(|number| list >> number & 1 != 0);
        let size = 4 * list.count_ones();
        let old = self.get(base);
        let new = if word & UP != 0 { old.wrapping_add(size) } else { old.wrapping_sub(size) };
        let lowest = if word & UP != 0 { old } else { new };
        let start = if (word & PRE != 0) == (word & UP != 0) { lowest.wrapping_add(4) } else { lowest };
        // The base's value is then UNPREDICTABLE: the fault makes the CPU run the copy.
        if word & WRITE_BACK != 0 && word & LOAD != 0 && list >> base & 1 != 0 {
            return Err(Fault { address: start.into(), write: false });
        }
        let mut bytes = [0; MOST];
        let bytes = &mut bytes[..size as usize];
        let mut next = self.next();
        if word & LOAD == 0 {
            for (number, into) in numbers().zip(bytes.chunks_exact_mut(4)) {
                into.copy_from_slice(&self.get(number).to_le_bytes());
            }
            self.mem.write(start.into(), bytes)?;
            if word & WRITE_BACK != 0 {
                self.put(base, new, next);
            }
            return Ok(next);
        }
        self.mem.read(start.into(), bytes)?;
        if word & WRITE_BACK != 0 {
            self.put(base, new, next);
        }
        for (number, from) in numbers().zip(bytes.chunks_exact(4)) {
            let loaded = from.first_chunk().map_or(0, |from| u32::from_le_bytes(*from));
            next = if number == 15 { Target::ByBit0(loaded) } else { self.put(number, loaded, next) };
        }
        Ok(next)
    }

    /// The address of an access, and the new value of its base register.
    fn place(&self, word: u32, offset: u32) -> Accessed {
        let base = (word >> 16) as u8 & 15;
        // Thumb aligns the pc to 4 bytes when it is a base.
        let old = if base == 15 && self.set == Set::Thumb { self.get(base) & !3 } else { self.get(base) };
        let new = if word & UP != 0 { old.wrapping_add(offset) } else { old.wrapping_sub(offset) };
        let is_pre = word & PRE != 0;
        let written_back = (!is_pre || word & WRITE_BACK != 0).then_some((base, new));
        Accessed { address: if is_pre { new } else { old }, written_back }
    }

    fn settle(&mut self, place: Accessed) -> Target {
        if let Some((base, new)) = place.written_back {
            self.regs.set(r(base), new.into());
        }
        self.next()
    }
}

struct Accessed {
    address: u32,
    written_back: Option<(u8, u32)>,
}
