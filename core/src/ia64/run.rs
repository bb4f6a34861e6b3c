//! The loop that runs bundles. It loads the registers of an incomplete frame, finds the bundle at the pc, and executes its
//! slots, beginning with the slot of the pc.

use super::bundles::{Bundles, Decoded};
use super::execute::Next;
use super::state::State;
use super::tlb::Purpose;
use super::{Fault, Host, isr, psr, vector};
use alloc::rc::Rc;
use trapline_isa::ia64::bundle::{Bundle, SLOTS};
use trapline_isa::ia64::decode::Instruction;
use trapline_isa::ia64::op::{Op, System, Update};

/// Translations of data pages that the core remembers.
const SEEN: usize = 64;
/// The smallest page.
const PAGE: u64 = 1 << 12;

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
    data: [Seen; SEEN],
    code: Seen,
}

impl Default for Core {
    fn default() -> Core {
        Core::new()
    }
}

impl Core {
    /// A CPU after reset.
    pub fn new() -> Core {
        Core { state: State::new(), bundles: Bundles::new(), data: [Seen::default(); SEEN], code: Seen::default() }
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

    /// Drops all decoded bundles.
    pub fn forget_all(&mut self) {
        self.bundles.forget_all();
    }

    /// Reads RAM or a device.
    pub(super) fn read(&mut self, host: &mut impl Host, physical: u64, size: u32) -> u64 {
        match host.load(physical, size) {
            Some(value) => value,
            None => host.device_in(physical, size),
        }
    }

    /// Writes RAM or a device. Code at the address is decoded anew, and advanced loads of it are stale.
    pub(super) fn write(&mut self, host: &mut impl Host, physical: u64, size: u32, value: u64) {
        self.bundles.forget(physical);
        self.state.alat.stored(physical, size);
        if !host.store(physical, size, value) {
            host.device_out(physical, size, value);
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
            return Ok(address & !(1 << 63));
        }
        let (changes, level, page) = (state.tlb.changes.get() + 1, state.level(), address & !(PAGE - 1));
        let seen = &mut self.data[(address / PAGE) as usize % SEEN];
        let is_same = seen.page == page && seen.changes == changes && seen.level == level;
        if is_same && seen.allows[0] | !read && seen.allows[1] | !write {
            return Ok(seen.physical | address & (PAGE - 1));
        }
        let physical = state.translate(address, Purpose::Data { read, write, status }, level)?;
        let [reads, writes] = if is_same { seen.allows } else { [false; 2] };
        *seen = Seen { page, physical: physical & !(PAGE - 1), changes, level, allows: [reads | read, writes | write] };
        Ok(physical)
    }

    /// The physical address of the bundle at the pc.
    #[inline(always)]
    fn fetch(&mut self) -> Result<u64, Fault> {
        let state = &self.state;
        let ip = state.ip.get();
        if state.status.get() & psr::IT == 0 {
            return Ok(ip & !(1 << 63));
        }
        let (changes, level, page) = (state.tlb.changes.get() + 1, state.level(), ip & !(PAGE - 1));
        let seen = &mut self.code;
        if seen.page != page || seen.changes != changes || seen.level != level {
            let physical = state.translate(ip, Purpose::Fetch, level)?;
            *seen = Seen { page, physical: physical & !(PAGE - 1), changes, level, allows: [false; 2] };
        }
        Ok(seen.physical | ip & (PAGE - 1))
    }

    /// The decoded bundle at a physical address; `None` where no RAM is.
    #[inline(always)]
    fn decoded(&mut self, host: &mut impl Host, physical: u64) -> Option<Decoded> {
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
    }

    /// Runs until [`State::stop`] is set, or so many slots have run. A long instruction counts once. External
    /// interrupts are the host's: [`State::wants_interrupt`].
    pub fn run(&mut self, host: &mut impl Host, slots: u64) {
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
            let state = &self.state;
            let mut slot = state.slot.get();
            if bundle.is_long && slot == 1 {
                slot = 2;
                state.slot.set(2);
            }
            let Some(instruction) = bundle.slots.get(slot as usize).copied().flatten() else {
                return self.raise(host, Fault::ILLEGAL);
            };
            let next = match is_live(state, &instruction) {
                true => self.execute(host, &instruction),
                false => Ok(Next::Slot),
            };
            let state = &self.state;
            let last = state.ip.get();
            match next {
                Err(fault) => return self.raise(host, fault),
                Ok(next) => {
                    state.executed.set(state.executed.get() + 1);
                    match next {
                        Next::Slot | Next::Look if slot + 1 < SLOTS as u32 => state.slot.set(slot + 1),
                        Next::Slot | Next::Look => {
                            state.go_to(last.wrapping_add(16));
                        }
                        Next::Bundle(to) => state.go_to(to),
                        Next::There => {}
                    }
                    state.last.set(last);
                    if !matches!(next, Next::Slot) || slot + 1 >= SLOTS as u32 || state.stop.get() != 0 {
                        return;
                    }
                }
            }
        }
    }
}

/// Whether an instruction does anything: its predicate is true, or it writes its target predicates anyway, or it is a
/// loop branch, which looks at its predicate itself.
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
