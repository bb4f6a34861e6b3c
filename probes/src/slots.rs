//! Slots: at least three window units of guest memory for each point, which hold the copies of the displaced
//! instruction.
//!
//! Offset 0 has the copy with a jump back, if the plan allows one. Offset 32 has the copy with a second breakpoint.
//! Offset 64 has the detour of an optimised point, written by `optimizer.rs`; a faithful detour takes several units.
//! Each slot belongs to one point. It is placed so that its pcs do not collide with the point's in the CPU core's jump
//! cache. It is freed only when no CPU is inside.

use crate::errno::{Errno, Refusal};
use crate::guest::{Guest, WINDOW_UNIT, WindowUse};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::detour::Form;
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Copy, Plan, Tail};

const UNIT: u64 = WINDOW_UNIT as u64;
/// Bytes in front of the detour.
const COPIES: usize = 2 * WINDOW_UNIT;
/// Bytes of a slot with a lean detour.
#[cfg(test)]
pub(crate) const SLOT: usize = COPIES + WINDOW_UNIT;
/// The largest number of units of a slot.
pub(crate) const UNITS_MOST: u8 = 10;
/// Number of allocations to try before accepting a slot whose pcs collide.
const TRIES: usize = 4;

pub(crate) const FULL: Refusal = Refusal::new(
    Errno::ENOMEM,
    "the probe window is full: no executable memory is left in branch reach of the address; unregister other probes",
);

const NO_SLOT: Refusal = Refusal::new(Errno::EINVAL, "the copy of the instruction does not fit into its slot; probe another one");

/// The window memory of one point. `word` packs the address, a multiple of the unit, with the end of the displaced instruction
/// in the copies' units in its low bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    word: NonZeroU64,
    /// Length in units.
    units: u8,
    /// Bytes of a copy in front of the displaced instruction: those of its group.
    before: u8,
    /// Bytes in front of the displaced instructions in the detour.
    lead: u8,
    /// The form of the detour.
    pub form: Form,
}

impl Slot {
    /// The slot's first address.
    #[inline]
    pub fn at(self) -> u64 {
        unit_of(self.word.get())
    }

    /// Bytes of the original instruction that each copy runs.
    #[inline]
    pub fn displaced(self) -> u64 {
        self.word.get() % UNIT - u64::from(self.before)
    }

    /// Address of the instruction in the copy with the jump back.
    #[inline]
    pub fn boosted(self) -> u64 {
        self.at()
    }

    /// Address of the instruction in the copy with the second breakpoint.
    #[inline]
    pub fn stepped(self) -> u64 {
        self.at() + UNIT + u64::from(self.before)
    }

    /// Whether a pc is in the unit of the copy with the second breakpoint.
    #[inline]
    pub fn is_stepped_unit(self, pc: u64) -> bool {
        unit_of(pc) == self.at() + UNIT
    }

    /// Address of the second breakpoint.
    #[inline]
    pub fn step_end(self) -> u64 {
        self.word.get() + UNIT
    }

    /// Address of the detour.
    #[inline]
    pub fn detour(self) -> u64 {
        self.at() + COPIES as u64
    }

    /// Address of the displaced instructions in the detour.
    #[inline]
    pub fn detoured(self) -> u64 {
        self.detour() + u64::from(self.lead)
    }

    /// Bytes in front of the displaced instructions in the detour.
    pub fn lead(self) -> u8 {
        self.lead
    }

    pub fn units(self) -> u8 {
        self.units
    }

    pub fn len(self) -> usize {
        usize::from(self.units) * WINDOW_UNIT
    }

    pub fn range(self) -> Range<u64> {
        self.at()..self.at() + self.len() as u64
    }

    /// Whether a CPU at this pc of the slot has executed the instruction.
    pub fn is_behind_copy(self, pc: u64) -> bool {
        pc % UNIT >= self.word.get() % UNIT
    }
}

/// The start of the unit that contains an address.
#[inline]
pub(crate) fn unit_of(address: u64) -> u64 {
    address & !(UNIT - 1)
}

/// The detours of new slots: their form, and the address of the trampoline that faithful ones call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DetourSetup {
    pub form: Form,
    pub trampoline: Option<u64>,
}

/// The size of new slots and the form of their detours.
#[derive(Clone, Copy)]
struct Room {
    units: u8,
    lead: u8,
    form: Form,
}

impl Room {
    fn of(isa: &Isa, form: Form) -> Result<Room, Refusal> {
        let (lead, detour) = isa.detour.map_or(Ok((0, WINDOW_UNIT)), |table| table.room(form))?;
        let units = (COPIES + detour).div_ceil(WINDOW_UNIT).min(usize::from(UNITS_MOST)) as u8;
        Ok(Room { units, lead: lead as u8, form })
    }

    fn len(self) -> usize {
        usize::from(self.units) * WINDOW_UNIT
    }

    /// A slot at this address. `None` if its copies are empty or do not fit into a unit.
    fn at(self, at: u64, before: usize, displaced: usize) -> Option<Slot> {
        let Room { units, lead, form } = self;
        let end = before + displaced;
        let fits = (1..WINDOW_UNIT).contains(&end) && displaced > 0 && at.is_multiple_of(UNIT);
        let word = NonZeroU64::new(at | end as u64).filter(|_| fits);
        word.map(|word| Slot { word, units, before: before as u8, lead, form })
    }
}

/// Allocates a point's slot and writes both copies. If no jump back is possible, a boosted plan becomes a stepped one.
pub(crate) fn make(
    guest: &mut dyn Guest,
    isa: &Isa,
    insn: &Insn,
    plan: Plan,
    detours: DetourSetup,
) -> Result<(Plan, Slot), Refusal> {
    let room = Room::of(isa, detours.form)?;
    let at = take(guest, isa, insn, room, detours.trampoline)?;
    match write(guest, isa, insn, plan, at, room) {
        Ok(made) => Ok(made),
        Err(refusal) => {
            guest.window_give(at, room.len());
            Err(refusal)
        }
    }
}

/// Allocates window memory for a slot, if possible where its pcs do not collide with the guest's in the jump cache.
fn take(guest: &mut dyn Guest, isa: &Isa, insn: &Insn, room: Room, trampoline: Option<u64>) -> Result<u64, Refusal> {
    let mut colliding = Vec::new();
    let mut taken = None;
    for _ in 0..TRIES {
        let Some(at) = guest.window_take(insn.address, room.len()) else { break };
        let fights = [at, at + UNIT, at + 2 * UNIT].iter().any(|unit| {
            guest.pcs_collide(*unit, insn.address)
                || guest.pcs_collide(*unit, insn.next())
                || guest.pcs_collide(*unit + insn.length(), insn.next())
        }) || trampoline.is_some_and(|trampoline| fights_on_the_way(guest, isa, insn, at, room, trampoline));
        if !fights {
            taken = Some(at);
            break;
        }
        colliding.push(at);
    }
    // A colliding slot is slower, but correct.
    let taken = taken.or_else(|| colliding.pop());
    for at in colliding {
        guest.window_give(at, room.len());
    }
    taken.ok_or(FULL)
}

/// Whether two pcs on the path of a faithful hit collide: probe, detour, trampoline, behind the call, displaced
/// instructions, guest code.
fn fights_on_the_way(guest: &dyn Guest, isa: &Isa, insn: &Insn, at: u64, room: Room, trampoline: u64) -> bool {
    let Some(table) = isa.detour.and_then(|table| table.faithful).filter(|_| room.form == Form::Faithful) else { return false };
    let detour = at + COPIES as u64;
    let behind_call = detour + (table.save.len() + table.call_length) as u64;
    let way = [detour, trampoline, behind_call, detour + u64::from(room.lead), insn.address, insn.next()];
    (1..way.len()).any(|number| way[..number].iter().any(|before| guest.pcs_collide(*before, way[number])))
}

/// Writes the copies of an instruction into a slot at this address.
fn write(guest: &mut dyn Guest, isa: &Isa, insn: &Insn, plan: Plan, at: u64, room: Room) -> Result<(Plan, Slot), Refusal> {
    // A copy keeps its place in its group.
    let before = insn.address - isa.group_start(insn.address);
    let stepped = (isa.copy)(insn, at + UNIT + before, Tail::Breakpoint)?;
    let in_front = if matches!(plan, Plan::Emulate(_)) { insn.length().saturating_sub(stepped.displaced as u64) } else { 0 };
    put(guest, insn, at + UNIT, &stepped, in_front);
    let slot = room.at(at, before as usize, stepped.displaced).ok_or(NO_SLOT)?;
    if plan != Plan::Boost {
        return Ok((plan, slot));
    }
    let Ok(boosted) = (isa.copy)(insn, at, Tail::JumpBack) else { return Ok((Plan::Step, slot)) };
    put(guest, insn, at, &boosted, 0);
    Ok((plan, slot))
}

fn put(guest: &mut dyn Guest, insn: &Insn, at: u64, copy: &Copy, in_front: u64) {
    let stands_for = WindowUse::Copy { origin: insn.address, displaced: copy.displaced as u8, in_front: in_front as u8 };
    guest.window_write(at, copy.bytes(), stands_for);
}
