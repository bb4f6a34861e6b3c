//! Executes loads and stores. A small cache in front of the TLB translates most data addresses.

use super::decode::Op;
use super::execute::Step;
use super::run::Core;
use super::tlb::{PAGE_BITS, Purpose};
use super::{number, psw};
use crate::{Access, Host};
use trapline_isa::parisc::fields::{bits, opcode, signed5, signed14};

/// A translation of a page that was used before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cached {
    /// Space, page and tag in one number. 0 if the entry is empty; no key is 0.
    key: u64,
    physical: u32,
}

/// The number of cached translations for each purpose.
const CACHED: usize = 256;

/// The cached translations: those for loads, then those for stores and for fetches. Each is also in the TLB.
#[derive(Debug)]
pub(super) struct Data {
    pages: [Cached; 3 * CACHED],
    /// The number of times that all were dropped. It is in the tag of each translation that is valid.
    generation: u64,
}

/// The most generations: as many as the bits between a page and a tag's level count.
const GENERATIONS: u64 = 1 << (PAGE_BITS - 3);

impl Data {
    pub(super) const NONE: Data = Data { pages: [Cached { key: 0, physical: 0 }; 3 * CACHED], generation: 0 };

    /// The lower bits of the keys: the generation and the privilege level.
    #[inline(always)]
    pub(super) fn tag(&self, level: u32) -> u64 {
        self.generation << 3 | u64::from(level & 3) << 1 | 1
    }

    /// The translation that may be that of an address.
    #[inline(always)]
    pub(super) fn entry(&self, address: u32, purpose: Purpose) -> Cached {
        self.pages[Data::place(address, purpose)]
    }

    /// The physical address of a translation that is known.
    #[inline(always)]
    fn find(&self, space: u32, address: u32, tag: u64, purpose: Purpose) -> Option<u64> {
        let cached = self.entry(address, purpose);
        (cached.key == Data::key(space, address, tag)).then(|| (cached.physical | address & 0xfff).into())
    }

    /// The index of an address. It does not depend on the space, so that [`Data::forget`] needs none.
    #[inline(always)]
    fn place(address: u32, purpose: Purpose) -> usize {
        (address >> PAGE_BITS) as usize % CACHED + purpose as usize * CACHED
    }

    #[inline(always)]
    pub(super) fn key(space: u32, address: u32, tag: u64) -> u64 {
        u64::from(space) << 32 | u64::from(address >> PAGE_BITS << PAGE_BITS) | tag
    }

    /// Drops the translations of an address in all spaces.
    pub(super) fn forget(&mut self, address: u32) {
        for purpose in [Purpose::Load, Purpose::Store, Purpose::Fetch] {
            self.pages[Data::place(address, purpose)].key = 0;
        }
    }

    /// Drops all translations.
    pub(super) fn forget_all(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
        if self.generation == 0 {
            self.pages.iter_mut().for_each(|cached| cached.key = 0);
        }
    }
}

/// All that decides how the loop of short forms translates data. Nothing in it changes these.
pub(super) struct Addresses {
    is_translated: bool,
    tag: u64,
}

/// The space of an instruction with physical addresses, which are never translated. An instruction's own field has two bits.
const ABSOLUTE: u8 = 4;

impl Core {
    /// The space of a data address. If the instruction chooses none, the top two bits of the address choose it.
    pub(super) fn space_of(&self, chosen: u8, address: u32) -> u32 {
        let number = if chosen == 0 { 4 + (address >> 30) as usize } else { usize::from(chosen & 3) };
        self.state.spaces[number].get()
    }

    /// The translation of data that is in force, at this level.
    #[inline(always)]
    pub(super) fn addresses(&self, level: u32) -> Addresses {
        Addresses { is_translated: self.state.status.get() & psw::D != 0, tag: self.data.tag(level) }
    }

    /// The physical address of data that needs neither the TLB nor an exception.
    #[inline(always)]
    fn known(&self, addresses: &Addresses, (space, address): (u8, u32), size: u32, purpose: Purpose) -> Option<u64> {
        if address & (size - 1) != 0 {
            return None;
        }
        if !addresses.is_translated {
            return Some(address.into());
        }
        let number = if space == 0 { 4 + (address >> 30) as usize } else { usize::from(space & 3) };
        self.data.find(self.state.spaces[number].get(), address, addresses.tag, purpose)
    }

    /// Loads from RAM. `None` if that needs the full form.
    #[inline(always)]
    pub(super) fn fast_load<H: Host>(&self, host: &mut H, addresses: &Addresses, place: (u8, u32), size: u32) -> Option<u32> {
        if H::TELLS {
            return None;
        }
        host.load(self.known(addresses, place, size, Purpose::Load)?, size)
    }

    /// Stores to RAM without decoded code. False if that needs the full form; then nothing is stored.
    #[inline(always)]
    pub(super) fn fast_store<H: Host>(
        &self,
        host: &mut H,
        addresses: &Addresses,
        place: (u8, u32),
        size: u32,
        value: u32,
    ) -> bool {
        if H::TELLS {
            return false;
        }
        let Some(physical) = self.known(addresses, place, size, Purpose::Store) else { return false };
        !self.code.has_code(physical) && host.store(physical, size, value)
    }

    /// Translates a data address; `Err` is the exception.
    #[inline(always)]
    fn physical(&mut self, op: Op, address: u32, size: u32, purpose: Purpose) -> Result<u64, Step> {
        if address & (size - 1) != 0 {
            return Err(self.data_exception(op, address, number::UNALIGNED));
        }
        if self.state.status.get() & psw::D == 0 || op.space == ABSOLUTE {
            return Ok(address.into());
        }
        let space = self.space_of(op.space, address);
        self.translated(space, address, purpose).map_err(|number| self.data_exception(op, address, number))
    }

    /// Translates an address at the level of the front; `Err` is the number of the exception.
    #[inline(always)]
    pub(super) fn translated(&mut self, space: u32, address: u32, purpose: Purpose) -> Result<u64, u32> {
        let level = self.state.front_level.get();
        let key = Data::key(space, address, self.data.tag(level));
        let cached = self.data.entry(address, purpose);
        if cached.key == key {
            return Ok((cached.physical | address & 0xfff).into());
        }
        let physical = self.state.translate(space, address, purpose, level)?;
        self.data.pages[Data::place(address, purpose)] = Cached { key, physical: physical & !0xfff };
        Ok(physical.into())
    }

    /// Saves the data address and its space, which become IOR and ISR when the exception is delivered.
    pub(super) fn data_exception(&self, op: Op, address: u32, number: u32) -> Step {
        self.state.at_space.set(self.space_of(op.space, address));
        self.state.at.set(address);
        Step::Exception(number)
    }

    /// Sets the queue to the instruction, because the host is about to look at the state.
    fn is_at(&self, pc: u32, back: u32) {
        self.state.front.set(pc);
        self.state.back.set(back);
    }

    /// Reads memory or a device.
    #[inline(always)]
    fn read<H: Host>(&mut self, host: &mut H, op: Op, (pc, back): (u32, u32), address: u32, size: u32) -> Result<u32, Step> {
        let physical = self.physical(op, address, size, Purpose::Load)?;
        if H::TELLS {
            self.is_at(pc, back);
            host.accesses(pc, address, size, false);
        }
        Ok(match host.load(physical, size) {
            Some(value) => {
                if H::TELLS {
                    let (pc, address, value) = (pc.into(), address.into(), value.into());
                    host.accessed(&Access { pc, address, physical, size, is_store: false, before: value, value });
                }
                value
            }
            None => {
                self.is_at(pc, back);
                let value = host.device_in(physical, size);
                self.drop_changed(host);
                value
            }
        })
    }

    /// Writes memory or a device. Drops the decoded code of the page, if it has any.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one access")]
    fn write<H: Host>(
        &mut self,
        host: &mut H,
        op: Op,
        (pc, back): (u32, u32),
        address: u32,
        size: u32,
        value: u32,
    ) -> Result<(), Step> {
        let physical = self.physical(op, address, size, Purpose::Store)?;
        if H::TELLS {
            self.is_at(pc, back);
            host.accesses(pc, address, size, true);
        }
        let before = if H::TELLS { host.load(physical, size) } else { None };
        if !host.store(physical, size, value) {
            self.is_at(pc, back);
            host.device_out(physical, size, value);
            self.drop_changed(host);
            return Ok(());
        }
        if self.code.has_code(physical) {
            self.drop_page(physical);
        }
        if H::TELLS {
            let before = before.unwrap_or(0);
            let (pc, address, before, value) = (pc.into(), address.into(), before.into(), value.into());
            host.accessed(&Access { pc, address, physical, size, is_store: true, before, value });
        }
        Ok(())
    }

    /// Loads to a register.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one access")]
    pub(super) fn load(&mut self, host: &mut impl Host, op: Op, pc: u32, back: u32, at: u32, size: u32, to: u8) -> Step {
        match self.read(host, op, (pc, back), at, size) {
            Ok(value) => {
                self.set(to, value);
                self.looks()
            }
            Err(step) => step,
        }
    }

    /// Stores a value.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one access")]
    pub(super) fn store(&mut self, host: &mut impl Host, op: Op, pc: u32, back: u32, at: u32, size: u32, value: u32) -> Step {
        match self.write(host, op, (pc, back), at, size, value) {
            Ok(()) => self.looks(),
            Err(step) => step,
        }
    }

    /// The step behind an access. [`Step::Look`] if the access dropped code, which may be the rest of this block.
    #[inline(always)]
    fn looks(&mut self) -> Step {
        if core::mem::take(&mut self.has_dropped) { Step::Look } else { Step::Next }
    }

    /// Executes `ldwm` and `stwm`, and the instructions with opcode 3: accesses with an index or a short displacement.
    pub(super) fn access(&mut self, host: &mut impl Host, op: Op, pc: u32, back: u32) -> Step {
        let (word, queue) = (op.word, (pc, back));
        let base = self.r(op.a);
        if matches!(opcode(word), 0x13 | 0x1b) {
            let moved = base.wrapping_add(signed14(word) as u32);
            let at = if signed14(word) < 0 { moved } else { base };
            let step = match opcode(word) {
                0x13 => self.load(host, op, pc, back, at, 4, op.b),
                _ => self.store(host, op, pc, back, at, 4, self.r(op.b)),
            };
            return self.moved(op, step, moved, opcode(word) == 0x13);
        }
        let code = bits(word, 22, 25);
        let (is_short, modifies, first) = (bits(word, 19, 19) != 0, bits(word, 26, 26) != 0, bits(word, 18, 18) != 0);
        let size = match code & 3 {
            0 => 1,
            1 => 2,
            _ => 4,
        };
        let is_store = code & 8 != 0;
        if code == 12 && is_short {
            return self.store_bytes(host, op, queue);
        }
        let distance = match (is_short, is_store) {
            (true, true) => signed5(op.t.into()) as u32,
            (true, false) => signed5(op.b.into()) as u32,
            // The bit scales the index by the size of the access.
            (false, false) => self.r(op.b) << if first { size >> 1 } else { 0 },
            (false, true) => return Step::Exception(number::ILLEGAL),
        };
        let moved = base.wrapping_add(distance);
        // Plain and `,mb` accesses are at the sum. `,ma` and `,m` modify the base after an access at the base.
        let is_before = if is_short { first || !modifies } else { !modifies };
        let at = if is_before { moved } else { base };
        let is_absolute = matches!(code, 6 | 14);
        if is_absolute && self.state.front_level.get() != 0 {
            return Step::Exception(number::PRIVILEGED);
        }
        // `ldwa` and `stwa` have physical addresses.
        let op = if is_absolute { Op { space: ABSOLUTE, ..op } } else { op };
        let step = match code {
            0 | 1 | 2 | 6 => self.load(host, op, pc, back, at, size, op.t),
            7 => self.load_and_clear(host, op, queue, at),
            8 | 9 | 10 | 14 => self.store(host, op, pc, back, at, size, self.r(op.b)),
            _ => Step::Exception(number::ILLEGAL),
        };
        if modifies { self.moved(op, step, moved, !is_store) } else { step }
    }

    /// Sets the base register after an access. It keeps its value after an exception, and the loaded one if it is also
    /// the target of the load.
    fn moved(&self, op: Op, step: Step, moved: u32, is_load: bool) -> Step {
        let to = if opcode(op.word) == 0x03 { op.t } else { op.b };
        let stays = matches!(step, Step::Exception(_)) || is_load && to == op.a;
        if !stays {
            self.set(op.a, moved);
        }
        step
    }

    /// `ldcw`: loads a word and sets it to 0.
    fn load_and_clear(&mut self, host: &mut impl Host, op: Op, queue: (u32, u32), at: u32) -> Step {
        // The store is checked first, because the load has effects: it is reported to the host, and may read a device.
        if let Err(step) = self.physical(op, at, 4, Purpose::Store) {
            return step;
        }
        let value = match self.read(host, op, queue, at, 4) {
            Ok(value) => value,
            Err(step) => return step,
        };
        if let Err(step) = self.write(host, op, queue, at, 4, 0) {
            return step;
        }
        self.set(op.t, value);
        self.looks()
    }

    /// `stby`: stores the bytes of a word from an address on (`,b`), or those in front of it (`,e`), which may be none.
    fn store_bytes(&mut self, host: &mut impl Host, op: Op, queue: (u32, u32)) -> Step {
        let (modifies, is_end) = (bits(op.word, 26, 26) != 0, bits(op.word, 18, 18) != 0);
        let base = self.r(op.a);
        let moved = base.wrapping_add(signed5(op.t.into()) as u32);
        // With `,m` the base is modified after an access at the base.
        let at = if modifies { base } else { moved };
        let (value, start) = (self.r(op.b), at & !3);
        let range = if is_end { 0..at & 3 } else { at & 3..4 };
        if let Err(step) = self.physical(op, start, 4, Purpose::Store) {
            return step;
        }
        for offset in range {
            if let Err(step) = self.write(host, op, queue, start + offset, 1, value >> (8 * (3 - offset)) & 0xff) {
                return step;
            }
        }
        if modifies {
            self.set(op.a, moved & !3);
        }
        self.looks()
    }
}
