//! The loop that runs blocks. It loads the registers of an incomplete frame, finds the block at the pc, counts its bytes or
//! calls the host, and executes the slots of its bundles.

use super::blocks::{Block, Blocks, PAGE};
use super::bundles::{Bundles, Decoded};
use super::execute::Next;
use super::state::State;
use super::tlb::Purpose;
use super::{Fault, Host, isr, psr, vector};
use crate::Access;
use alloc::rc::Rc;
use trapline_isa::ia64::bundle::{Bundle, SLOTS};
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::{Op, System, Update};

/// Translations of data pages that the core remembers.
const SEEN: usize = 64;
/// A translated page. Valid as long as the TLB has not changed, at the same privilege level.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    page: u64,
    physical: u64,
    /// The TLB's count of changes, plus 1.
    changes: u64,
    level: u64,
    /// Whether a load and whether a store were translated.
    allows: [bool; 2],
}

/// A CPU with its decoded code.
#[derive(Debug)]
pub struct Core {
    state: Rc<State>,
    pub(super) bundles: Bundles,
    pub(super) blocks: Blocks,
    data: [Seen; SEEN],
    code: Seen,
    /// The virtual and the physical address of the last data access.
    pub(super) accessed: (u64, u64),
    /// Whether each instruction is a block of its own.
    pub(super) one_by_one: bool,
    /// Whether the first block of the next run has one instruction.
    begins_alone: bool,
    /// Whether code was dropped since the flag was cleared.
    has_dropped: bool,
    /// Whether the code that runs is in the probe window. It does not count as completed instructions of the guest.
    in_window: bool,
}

impl Default for Core {
    fn default() -> Core {
        Core::new()
    }
}

impl Core {
    /// A CPU after reset, which keeps no blocks.
    pub fn new() -> Core {
        Core::with_ram(0, 0)
    }

    /// A CPU after reset, with RAM at these physical addresses.
    pub fn with_ram(base: u64, len: u64) -> Core {
        Core {
            state: State::new(),
            bundles: Bundles::new(),
            blocks: Blocks::new(base, len),
            data: [Seen::default(); SEEN],
            code: Seen::default(),
            accessed: (0, 0),
            one_by_one: false,
            begins_alone: false,
            has_dropped: false,
            in_window: false,
        }
    }

    /// The state, which stays where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state, for a host that looks at it while the core runs.
    pub fn shared_state(&self) -> Rc<State> {
        Rc::clone(&self.state)
    }

    /// Drops the decoded bundles of a range of physical addresses that someone else has written to.
    pub fn forget(&mut self, physical: u64, len: u64) {
        for at in (physical & !15..physical.saturating_add(len)).step_by(16) {
            self.bundles.forget(at);
        }
    }

    /// Drops all decoded code.
    pub fn drop_all(&mut self) {
        self.bundles.forget_all();
        self.blocks.drop_all();
    }

    /// Sets whether each instruction is a block of its own, and drops all decoded code.
    pub fn set_one_by_one(&mut self, one_by_one: bool) {
        self.one_by_one = one_by_one;
        self.drop_all();
    }

    /// Makes the first block of the next run one instruction long. Decoded blocks are kept.
    pub fn begin_alone(&mut self) {
        self.begins_alone = true;
    }

    /// The number of pages in which blocks start.
    pub fn pages_with_code(&self) -> usize {
        self.blocks.pages_with_code()
    }

    fn drop_page(&mut self, physical: u64) {
        let page = physical & !(PAGE - 1);
        self.blocks.drop_page(page);
        self.forget(page, PAGE);
        self.has_dropped = true;
    }

    /// Drops the code of the pages that the host has written to.
    fn drop_changed(&mut self, host: &mut impl Host) {
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
        self.bundles.forget(physical);
        if self.blocks.has_code(physical) {
            self.drop_page(physical);
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
        let (changes, level, page) = (state.changes.get() + 1, state.level(), address & !(PAGE - 1));
        let seen = &mut self.data[(address / PAGE) as usize % SEEN];
        let is_same = seen.page == page && seen.changes == changes && seen.level == level;
        if is_same && seen.allows[0] | !read && seen.allows[1] | !write {
            self.accessed = (address, seen.physical | address & (PAGE - 1));
            return Ok(self.accessed.1);
        }
        let physical = state.translate(address, Purpose::Data { read, write, status }, level)?;
        let [reads, writes] = if is_same { seen.allows } else { [false; 2] };
        *seen = Seen { page, physical: physical & !(PAGE - 1), changes, level, allows: [reads | read, writes | write] };
        self.accessed = (address, physical);
        Ok(physical)
    }

    /// The physical address of the bundle at the pc.
    #[inline(always)]
    fn fetch(&mut self) -> Result<u64, Fault> {
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
            *seen = Seen { page, physical: physical & !(PAGE - 1), changes, level, allows: [false; 2] };
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
        Some(bundle)
    }

    fn raise(&mut self, host: &mut impl Host, fault: Fault) {
        self.state.note(fault);
        let state = Rc::clone(&self.state);
        host.exception(&state, fault.vector);
        self.drop_changed(host);
        self.has_dropped = false;
    }

    /// Runs until [`State::stop`] is set. Blocks are counted in the state's line.
    pub fn run(&mut self, host: &mut impl Host) {
        // The host may have changed anything.
        self.state.has_changed();
        self.drop_changed(host);
        let mut is_alone = core::mem::take(&mut self.begins_alone);
        while self.state.stop.replace(0) == 0 {
            let found = self.complete_frame(host).and_then(|()| self.fetch());
            let physical = match found {
                Ok(physical) => physical,
                Err(fault) => {
                    self.raise(host, fault);
                    continue;
                }
            };
            match self.block(host, physical, core::mem::take(&mut is_alone)) {
                Some(block) => self.run_block(host, physical, block),
                None => self.raise(host, Fault::ILLEGAL),
            }
        }
    }

    /// Counts a block, and runs it to its end or to the first instruction that leads elsewhere.
    #[inline(always)]
    fn run_block(&mut self, host: &mut impl Host, mut physical: u64, block: Block) {
        let (pc, size) = (self.state.pc.get(), u64::from(block.size));
        let line = &self.state.line;
        if line.count.get() >= 0 || block.always {
            self.has_dropped = false;
            host.block(pc, size as u32);
            if self.state.stop.get() != 0 {
                return;
            }
            self.drop_changed(host);
            if self.has_dropped && self.block(host, physical, false) != Some(block) {
                return;
            }
        } else {
            line.count.set(line.count.get() + size as i64);
            line.start.set(pc);
            line.size.set(size);
        }
        let end = pc.wrapping_add(size);
        loop {
            let Some(bundle) = self.decoded(host, physical) else { return self.raise(host, Fault::ILLEGAL) };
            loop {
                match self.step(host, &bundle) {
                    Err(fault) => return self.raise(host, fault),
                    Ok(Next::Slot | Next::Look) if self.state.pc.get() == end => return,
                    Ok(Next::Slot) if self.state.slot() == 0 => break,
                    Ok(Next::Slot) => {}
                    Ok(_) => return,
                }
            }
            physical += 16;
        }
    }

    /// Runs without blocks until [`State::stop`] is set or `slots` slots have run. A long instruction counts once.
    /// External interrupts are the host's: [`State::wants_interrupt`].
    pub fn run_slots(&mut self, host: &mut impl Host, slots: u64) {
        // The host may have changed anything.
        self.state.has_changed();
        let end = self.state.executed.get().saturating_add(slots);
        while self.state.stop.get() == 0 && self.state.executed.get() < end {
            let found = self.complete_frame(host).and_then(|()| self.fetch());
            let physical = match found {
                Ok(physical) => physical,
                Err(fault) => {
                    self.raise(host, fault);
                    continue;
                }
            };
            let Some(bundle) = self.decoded(host, physical) else {
                self.raise(host, Fault::ILLEGAL);
                continue;
            };
            self.run_bundle(host, &bundle, end);
        }
        self.state.stop.set(0);
    }

    /// Executes the instruction at the pc as if memory had this bundle there: for an instruction under a breakpoint. An
    /// incomplete frame is loaded first. The instruction may raise an interruption, like any other.
    pub fn run_instead(&mut self, host: &mut impl Host, bundle: Bundle) {
        // The host may have changed anything.
        self.state.has_changed();
        match self.complete_frame(host) {
            Ok(()) => {
                let end = self.state.executed.get().saturating_add(1);
                self.run_bundle(host, &Decoded::of(u64::MAX, bundle.0), end);
            }
            Err(fault) => self.raise(host, fault),
        }
    }

    /// Runs the slots of a bundle from the pc's slot on, to the first that leaves it.
    #[inline(always)]
    fn run_bundle(&mut self, host: &mut impl Host, bundle: &Decoded, end: u64) {
        while self.state.executed.get() < end {
            match self.step(host, bundle) {
                Err(fault) => return self.raise(host, fault),
                Ok(Next::Slot) if self.state.slot() != 0 && self.state.stop.get() == 0 => {}
                Ok(_) => return,
            }
        }
    }

    /// Executes the instruction at the pc, which is in this bundle, and sets the pc behind it.
    #[inline(always)]
    fn step(&mut self, host: &mut impl Host, bundle: &Decoded) -> Result<Next, Fault> {
        let state = &self.state;
        let mut slot = state.slot();
        // A long instruction is named by slot 1.
        if bundle.is_long && slot != 0 {
            state.set_slot(1);
            slot = 2;
        }
        let Some(instruction) = bundle.slots.get(slot as usize).copied().flatten() else { return Err(Fault::ILLEGAL) };
        let next = match is_live(state, &instruction) {
            true => self.execute(host, &instruction)?,
            false => Next::Slot,
        };
        let state = &self.state;
        let last = state.ip();
        state.executed.set(state.executed.get() + 1);
        match next {
            Next::Slot | Next::Look if slot + 1 < SLOTS as u32 => state.set_slot(slot + 1),
            Next::Slot | Next::Look => state.go_to(last.wrapping_add(16)),
            Next::Bundle(to) => state.go_to(to),
            Next::There => {}
        }
        if !matches!(next, Next::There) && !self.in_window {
            state.last.set(last);
        }
        Ok(next)
    }
}

/// Whether an instruction does anything: its predicate is true, or it writes its target predicates anyway, or it is `rfi`,
/// which has no predicate, or a loop branch, which looks at its predicate itself.
#[inline(always)]
fn is_live(state: &State, instruction: &Instruction) -> bool {
    if state.p(instruction.predicate) {
        return true;
    }
    match instruction.op {
        Op::Compare { update, .. } | Op::Test { update, .. } => update == Update::Unconditional,
        Op::FloatCompare { unconditional, .. } | Op::FloatClass { unconditional, .. } => unconditional,
        Op::Branch { condition, .. } => condition != trapline_isa::ia64::op::Condition::Predicate,
        Op::System(System::Rfi) => true,
        _ => false,
    }
}
