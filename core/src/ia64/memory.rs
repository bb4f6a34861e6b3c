//! Accesses of the core to memory: loads and stores, the translation of their addresses and of the pc, and the decoded
//! code that a store makes stale.

use super::blocks::PAGE;
use super::bundles::Decoded;
use super::run::Core;
use super::tlb::Purpose;
use super::{Fault, Host, isr, psr, vector};
use crate::Access;

/// The translation of the page with the running code. Valid as long as the TLB has not changed, at the same privilege level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CodePage {
    page: u64,
    physical: u64,
    /// The TLB's count of changes, plus 1.
    changes: u64,
    level: u64,
}

impl Core {
    /// Drops the decoded code of a range of physical addresses that someone else has written to.
    pub fn forget(&mut self, physical: u64, len: u64) {
        for at in (physical & !15..physical.saturating_add(len)).step_by(16) {
            self.forget_code(at);
        }
    }

    fn drop_page(&mut self, physical: u64) {
        let page = physical & !(PAGE - 1);
        self.blocks.drop_page(page);
        for at in (page..page + PAGE).step_by(16) {
            self.bundles.forget(at);
        }
        self.has_dropped = true;
    }

    /// Drops the code at an address of which code was decoded: the page's blocks, or a bundle.
    #[cold]
    fn forget_code(&mut self, physical: u64) {
        self.bundles.forget(physical);
        if self.blocks.has_code(physical) {
            self.drop_page(physical);
        }
        self.has_dropped = true;
    }

    /// Drops the code of the pages that the host has written to.
    pub(super) fn drop_changed(&mut self, host: &mut impl Host) {
        while let Some(page) = host.dropped() {
            self.drop_page(page);
        }
    }

    /// The virtual address of an access, which may be a part of the last one that was translated.
    fn virtual_of(&self, physical: u64) -> u64 {
        self.accessed.0.wrapping_add(physical.wrapping_sub(self.accessed.1))
    }

    /// Reads RAM or a device.
    #[inline(always)]
    pub(super) fn read<H: Host>(&mut self, host: &mut H, physical: u64, size: u32) -> u64 {
        let pc = self.state.pc.get();
        if H::TELLS {
            host.accesses(pc, self.virtual_of(physical), size, false);
        }
        match host.load(physical, size) {
            Some(value) => {
                if H::TELLS {
                    let address = self.virtual_of(physical);
                    host.accessed(&Access { pc, address, physical, size, is_store: false, before: value, value });
                }
                value
            }
            None => {
                let value = host.device_in(physical, size);
                self.drop_changed(host);
                value
            }
        }
    }

    /// Writes RAM or a device. Code at the address is decoded anew, and advanced loads of it are stale.
    #[inline(always)]
    pub(super) fn write<H: Host>(&mut self, host: &mut H, physical: u64, size: u32, value: u64) {
        if self.blocks.is_marked(physical) {
            self.forget_code(physical);
        }
        self.state.alat.stored(physical, size);
        let (pc, mut before) = (self.state.pc.get(), 0);
        if H::TELLS {
            host.accesses(pc, self.virtual_of(physical), size, true);
            before = host.load(physical, size).unwrap_or(0);
        }
        if !host.store(physical, size, value) {
            host.device_out(physical, size, value);
            self.drop_changed(host);
        } else if H::TELLS {
            let value = value & u64::MAX >> (64 - 8 * size);
            let address = self.virtual_of(physical);
            host.accessed(&Access { pc, address, physical, size, is_store: true, before, value });
        }
    }

    /// The physical address of a data access of the running instruction.
    #[inline(always)]
    pub(super) fn physical(&mut self, address: u64, size: u32, purpose: (bool, bool, u64)) -> Result<u64, Fault> {
        let (read, write, status) = purpose;
        let state = &self.state;
        if address & u64::from(size - 1) != 0 {
            let status = status | if read { isr::R } else { 0 } | if write { isr::W } else { 0 };
            return Err(Fault { vector: vector::UNALIGNED, status, address, number: 0 });
        }
        if state.status.get() & psr::DT == 0 {
            self.accessed = (address, address & !(1 << 63));
            return Ok(self.accessed.1);
        }
        let (changes, level) = (state.changes.get(), state.level());
        let seen = |write: bool| self.data.look_up(address, level, changes, write);
        let known = match (read, write) {
            (true, true) => seen(false).and(seen(true)),
            _ => seen(write),
        };
        if let Some(physical) = known {
            self.accessed = (address, physical);
            return Ok(physical);
        }
        let physical = state.translate(address, Purpose::Data { read, write, status }, level)?;
        self.data.keep(address, level, changes, [read, write], physical);
        self.accessed = (address, physical);
        Ok(physical)
    }

    /// The physical address of the bundle at the pc.
    #[inline(always)]
    pub(super) fn fetch(&mut self) -> Result<u64, Fault> {
        let state = &self.state;
        let ip = state.ip();
        let [start, len, window] = [0, 1, 2].map(|number| state.window[number].get());
        self.in_window = ip.wrapping_sub(start) < len && state.level() == 0;
        if self.in_window {
            return Ok(window + (ip - start));
        }
        if state.status.get() & psr::IT == 0 {
            return Ok(ip & !(1 << 63));
        }
        let (changes, level, page) = (state.changes.get() + 1, state.level(), ip & !(PAGE - 1));
        let seen = &mut self.code;
        if seen.page != page || seen.changes != changes || seen.level != level {
            let physical = state.translate(ip, Purpose::Fetch, level)?;
            *seen = CodePage { page, physical: physical & !(PAGE - 1), changes, level };
        }
        Ok(seen.physical | ip & (PAGE - 1))
    }

    /// The decoded bundle at a physical address; `None` where no RAM is.
    #[inline(always)]
    pub(super) fn decoded(&mut self, host: &mut impl Host, physical: u64) -> Option<Decoded> {
        if let Some(bundle) = self.bundles.at(physical) {
            return Some(*bundle);
        }
        let bundle = Decoded::of(physical, [host.load(physical, 8)?, host.load(physical + 8, 8)?]);
        self.bundles.keep(bundle);
        self.blocks.mark(physical);
        Some(bundle)
    }
}
