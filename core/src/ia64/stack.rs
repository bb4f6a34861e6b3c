//! The register stack engine. It stores registers only when a frame does not fit, or when the guest asks for it, and
//! loads the registers of a frame before its next instruction runs.
//!
//! Each 64th word of the backing store is a collection of NaT bits, at addresses whose bits 3 to 8 are all 1.

use super::frame::{FRAME, SIZES, locals, size};
use super::run::Core;
use super::state::{STACKED, State};
use super::tlb::Purpose;
use super::{Fault, Host, ar, isr, psr};

/// The number of a word's NaT bit in its collection; 63 is the collection itself.
const fn place(address: u64) -> u64 {
    address >> 3 & 63
}

/// The address in the backing store of the register that is `registers` above the one at `address` (below it, if negative).
pub(super) fn skip(address: u64, registers: i64) -> u64 {
    let mut delta = place(address) as i64 + registers;
    if registers < 0 {
        delta -= 62;
    }
    address.wrapping_add_signed(8 * (registers + delta / 63))
}

/// The number of registers in the words from one address to another.
pub(super) fn registers(from: u64, to: u64) -> i64 {
    let words = to.wrapping_sub(from) as i64 / 8;
    words - (place(from) as i64 + words) / 64
}

const STACKED_END: i32 = STACKED as i32;

impl State {
    /// The address of register 32 in the backing store (`ar.bsp`).
    pub fn frame_at(&self) -> u64 {
        skip(self.store_at.get(), self.dirty.get().into())
    }

    /// Moves the frame so that register 32 is at this address of the backing store. The registers of a lower frame are loaded
    /// before the next instruction.
    pub fn set_frame_at(&self, address: u64) {
        let now = self.frame_at();
        let distance = if address < now { -registers(address, now) } else { registers(now, address) };
        self.move_bottom(distance as i32);
        self.loads.set(1);
    }

    /// The register that belongs to an address of the backing store, if the engine has not stored it yet. `None` also for a
    /// collection of NaT bits.
    pub fn held(&self, address: u64) -> Option<u64> {
        let into = address.wrapping_sub(self.store_at.get());
        let kept = u64::from(size(self.frame.get())).checked_add_signed(self.dirty.get().into())?;
        let number = registers(self.store_at.get(), address);
        let is_kept = into < 8 * 2 * u64::from(STACKED) && place(address) != 63 && u64::try_from(number).ok()? < kept;
        let physical = i64::from(self.bottom.get()) - i64::from(self.dirty.get()) + number;
        is_kept.then(|| self.stacked[physical.rem_euclid(STACKED.into()) as usize].get())
    }

    /// Sets the current frame marker. A frame that does not fit beside the dirty registers is none.
    #[inline]
    pub fn set_frame(&self, frame: u64) {
        let frame = frame & FRAME;
        let fits = self.dirty.get().max(0) as u32 + size(frame) <= STACKED && locals(frame) <= size(frame);
        self.frame.set(if fits { frame } else { frame & !SIZES });
    }

    /// Moves the bottom of the frame up by this number of registers.
    #[inline(always)]
    fn move_bottom(&self, registers: i32) {
        let bottom = self.bottom.get() as i32 + registers;
        let wrapped = match bottom {
            // Most moves leave it in the circle.
            0..STACKED_END => bottom,
            _ => bottom.rem_euclid(STACKED_END),
        };
        self.bottom.set(wrapped as u32);
        // No frame is larger, so no more registers can be missing: those of frames that were left before they were complete are
        // nobody's.
        self.dirty.set((self.dirty.get() + registers).max(-(STACKED as i32)));
    }

    /// The new frame of a call: the outputs of the caller's frame. Returns the caller's frame.
    #[inline]
    pub(super) fn call_frame(&self) -> u64 {
        let frame = self.frame.get();
        self.move_bottom(locals(frame) as i32);
        self.frame.set((size(frame) - locals(frame).min(size(frame))).into());
        frame
    }

    /// `cover`: an empty frame above the current one. Returns the frame that is covered.
    pub(super) fn cover(&self) -> u64 {
        let frame = self.frame.get();
        self.move_bottom(size(frame) as i32);
        self.frame.set(0);
        frame
    }

    /// Returns to a frame whose bottom lies `registers` below the present one. Its registers may have to be loaded.
    #[inline]
    pub(super) fn uncover(&self, frame: u64, registers: u32) {
        self.move_bottom(-(registers as i32));
        self.set_frame(frame);
        self.loads.set(1);
    }

    fn engine_level(&self) -> u64 {
        self.application[usize::from(ar::RSC)].get() >> 2 & 3
    }
}

impl Core {
    /// The physical address of a word of the backing store.
    fn backing(&mut self, address: u64, write: bool) -> Result<u64, Fault> {
        let state = &self.state;
        if state.status.get() & psr::RT == 0 {
            return Ok(address & !(1 << 63));
        }
        let (level, changes) = (state.engine_level(), state.changes.get());
        if let Some(physical) = self.data.look_up(address, level, changes, write) {
            return Ok(physical);
        }
        let status = isr::RS | if state.dirty.get() < 0 { isr::IR } else { 0 };
        let physical = state.translate(address, Purpose::Data { read: !write, write, status }, level)?;
        self.data.keep(address, level, changes, [!write, write], physical);
        Ok(physical)
    }

    /// Stores the oldest dirty register, and the collection behind it if that is full. A fault changes nothing.
    fn spill(&mut self, host: &mut impl Host) -> Result<(), Fault> {
        let state = self.shared_state();
        let address = state.store_at.get();
        let next = address.wrapping_add(8);
        let is_full = place(next) == 63;
        let at = self.backing(address, true)?;
        self.accessed = (address, at);
        let collection_at = if is_full { Some(self.backing(next, true)?) } else { None };
        let physical = (state.bottom.get() as i32 - state.dirty.get()).rem_euclid(STACKED as i32) as usize;
        let (value, bit) = (state.stacked[physical].get(), place(address));
        let nat = u64::from(state.is_stacked_nat(physical));
        let collection = state.collection.get() & !(1 << bit) | nat << bit;
        state.dirty.set(state.dirty.get() - 1);
        state.store_at.set(if is_full { next.wrapping_add(8) } else { next });
        state.collection.set(if is_full { 0 } else { collection });
        self.write(host, at, 8, value);
        if let Some(at) = collection_at {
            self.accessed = (next, at);
            self.write(host, at, 8, collection);
        }
        Ok(())
    }

    /// Loads the register below the dirty ones, and the collection above it if it is the last of one. A fault changes
    /// nothing.
    fn fill(&mut self, host: &mut impl Host) -> Result<(), Fault> {
        let state = self.shared_state();
        let mut address = state.store_at.get().wrapping_sub(8);
        let mut collection = state.collection.get();
        if place(address) == 63 {
            let at = self.backing(address, false)?;
            self.accessed = (address, at);
            collection = self.read(host, at, 8);
            address = address.wrapping_sub(8);
        }
        let at = self.backing(address, false)?;
        self.accessed = (address, at);
        let value = self.read(host, at, 8);
        let physical = (state.bottom.get() as i32 - state.dirty.get() - 1).rem_euclid(STACKED as i32) as usize;
        state.set_stacked(physical, value, collection >> place(address) & 1 != 0);
        state.collection.set(collection);
        state.store_at.set(address);
        state.dirty.set(state.dirty.get() + 1);
        Ok(())
    }

    /// Loads the registers of an incomplete frame.
    pub(super) fn complete_frame(&mut self, host: &mut impl Host) -> Result<(), Fault> {
        while self.state().loads.get() != 0 {
            if self.state().dirty.get() >= 0 {
                self.state().loads.set(0);
                break;
            }
            self.fill(host)?;
        }
        Ok(())
    }

    /// Stores dirty registers until a frame of this size fits.
    pub(super) fn make_room(&mut self, host: &mut impl Host, size: u32) -> Result<(), Fault> {
        while self.state().dirty.get() + size as i32 > STACKED as i32 {
            self.spill(host)?;
        }
        Ok(())
    }

    /// `flushrs`: stores all dirty registers.
    pub(super) fn flush_stack(&mut self, host: &mut impl Host) -> Result<(), Fault> {
        while self.state().dirty.get() > 0 {
            self.spill(host)?;
        }
        Ok(())
    }

    /// `loadrs`: makes the registers in the last RSC.loadrs bytes of the backing store dirty, loads those that are missing, and
    /// forgets all others.
    pub(super) fn load_stack(&mut self, host: &mut impl Host) -> Result<(), Fault> {
        let state = self.shared_state();
        let bytes = state.application[usize::from(ar::RSC)].get() >> 16 & 0x3ff8;
        let target = state.frame_at().wrapping_sub(bytes);
        if registers(target, state.frame_at()) + i64::from(size(state.frame.get())) > STACKED.into() {
            return Err(Fault::ILLEGAL);
        }
        while state.store_at.get() > target {
            self.fill(host)?;
        }
        if state.store_at.get() < target {
            state.dirty.set(registers(target, state.frame_at()) as i32);
            // The lowest register of them is behind a collection that stands at the target.
            state.store_at.set(if place(target) == 63 { target.wrapping_add(8) } else { target });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: addresses in the backing store leave out the collections, as Linux computes them.
    #[test]
    fn addresses_leave_out_the_collections() {
        assert_eq!(skip(0x1000, 62), 0x1000 + 8 * 62);
        assert_eq!(skip(0x1000, 63), 0x1000 + 8 * 64, "over the collection");
        assert_eq!(skip(0x1000, 126), 0x1000 + 8 * 128);
        assert_eq!(skip(0x1200, -1), 0x1000 + 8 * 62);
        for at in (0x4000..0x4400).step_by(8).filter(|at| place(*at) != 63) {
            for count in [0, 1, 5, 62, 63, 64, 96, 200] {
                let there = skip(at, count);
                assert_ne!(place(there), 63);
                assert_eq!((registers(at, there), skip(there, -count)), (count, at), "{at:#x} {count}");
            }
        }
    }
}
