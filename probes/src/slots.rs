//! Slots: three window units of guest memory for each point, where the displaced instruction's copies run.
//!
//! At 0 the copy with a jump back, where the plan allows one; at 32 the copy with a second breakpoint, at 64 the
//! detour of an optimised point (`optimizer.rs` writes it). A slot is shared by nobody,
//! placed so that its pcs do not collide in the CPU core's jump cache with those of the point, and given back only when no CPU
//! is inside.

use crate::errno::{Errno, Refusal};
use crate::guest::{Guest, WINDOW_UNIT, Window};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Copy, Plan, Tail};

const UNIT: u64 = WINDOW_UNIT as u64;
/// Bytes of a slot.
pub(crate) const SLOT: usize = 3 * WINDOW_UNIT;
/// How many places are tried before one that collides is taken.
const TRIES: usize = 4;

const FULL: Refusal = Refusal::new(
    Errno::ENOMEM,
    "the probe window is full: no executable memory is left in branch reach of the address; unregister other probes",
);

const NO_SLOT: Refusal = Refusal::new(Errno::EINVAL, "the copy of the instruction does not fit into its slot; probe another one");

/// Guest memory that belongs to one point: its address, a multiple of a unit, and in the bits that this leaves free how many bytes the
/// displaced instruction has in each copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(NonZeroU64);

impl Slot {
    /// `None`: that is no slot, for its copies are empty or longer than a unit.
    fn new(at: u64, displaced: usize) -> Option<Slot> {
        let fits = (1..WINDOW_UNIT).contains(&displaced) && at.is_multiple_of(UNIT);
        NonZeroU64::new(at | displaced as u64).filter(|_| fits).map(Slot)
    }

    /// Where it begins.
    #[inline]
    pub fn at(self) -> u64 {
        unit_of(self.0.get())
    }

    #[inline]
    fn displaced(self) -> u64 {
        self.0.get() % UNIT
    }

    /// The copy with the jump back.
    #[inline]
    pub fn boosted(self) -> u64 {
        self.at()
    }

    /// The copy with the second breakpoint.
    #[inline]
    pub fn stepped(self) -> u64 {
        self.at() + UNIT
    }

    /// The address of the second breakpoint.
    #[inline]
    pub fn step_end(self) -> u64 {
        self.0.get() + UNIT
    }

    /// The detour.
    #[inline]
    pub fn detour(self) -> u64 {
        self.at() + 2 * UNIT
    }

    pub fn range(self) -> Range<u64> {
        self.at()..self.at() + SLOT as u64
    }

    /// Whether the instruction has been executed by a CPU whose pc is there.
    pub fn is_behind_copy(self, pc: u64) -> bool {
        pc % UNIT >= self.displaced()
    }
}

/// The unit that an address lies in.
#[inline]
pub(crate) fn unit_of(address: u64) -> u64 {
    address & !(UNIT - 1)
}

/// Makes the slot of a point: takes it, writes both copies. A copy that no jump leads back from is stepped.
pub(crate) fn make(guest: &mut dyn Guest, isa: &Isa, insn: &Insn, plan: Plan) -> Result<(Plan, Slot), Refusal> {
    let at = take(guest, insn)?;
    match write(guest, isa, insn, plan, at) {
        Ok(made) => Ok(made),
        Err(refusal) => {
            guest.window_give(at, SLOT);
            Err(refusal)
        }
    }
}

fn take(guest: &mut dyn Guest, insn: &Insn) -> Result<u64, Refusal> {
    let mut colliding = Vec::new();
    let mut taken = None;
    for _ in 0..TRIES {
        let Some(at) = guest.window_take(insn.address, SLOT) else { break };
        let fights = [at, at + UNIT, at + 2 * UNIT].iter().any(|unit| {
            guest.pcs_collide(*unit, insn.address)
                || guest.pcs_collide(*unit, insn.next())
                || guest.pcs_collide(*unit + insn.length(), insn.next())
        });
        if !fights {
            taken = Some(at);
            break;
        }
        colliding.push(at);
    }
    // A place that collides is slow, not wrong.
    let taken = taken.or_else(|| colliding.pop());
    for at in colliding {
        guest.window_give(at, SLOT);
    }
    taken.ok_or(FULL)
}

fn write(guest: &mut dyn Guest, isa: &Isa, insn: &Insn, plan: Plan, at: u64) -> Result<(Plan, Slot), Refusal> {
    let stepped = (isa.copy)(insn, at + UNIT, Tail::Breakpoint)?;
    put(guest, insn, at + UNIT, &stepped);
    let slot = Slot::new(at, stepped.displaced).ok_or(NO_SLOT)?;
    if plan != Plan::Boost {
        return Ok((plan, slot));
    }
    let Ok(boosted) = (isa.copy)(insn, at, Tail::JumpBack) else { return Ok((Plan::Step, slot)) };
    put(guest, insn, at, &boosted);
    Ok((plan, slot))
}

fn put(guest: &mut dyn Guest, insn: &Insn, at: u64, copy: &Copy) {
    let stands_for = Window::Copy { origin: insn.address, displaced: copy.displaced as u8 };
    guest.window_write(at, copy.bytes(), stands_for);
}
