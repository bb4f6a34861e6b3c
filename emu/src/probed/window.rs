//! The allocator of the probe window, and the record of what each of its units is used for. The clock needs that record to
//! count a copy as the instruction that it stands for.

use crate::clock::{DetourTiming, Meaning};
use crate::cpu::WindowPlace;
use std::collections::BTreeMap;
use std::ops::Range;
use trapline_isa::arch::Isa;
use trapline_probes::guest::{WINDOW_UNIT, WindowUse as StandsFor};

const UNIT: u64 = WINDOW_UNIT as u64;

/// Allocation state of the probe window. Every block that starts in the window is looked up here, so `units` is an
/// array indexed by unit number.
pub struct WindowAllocator {
    place: WindowPlace,
    /// The bits of an address that are its place in a group of instructions. A copy keeps them.
    in_group: u64,
    units: Vec<Unit>,
    /// The return pad, if it continues the guest by a jump of its own.
    pad: Option<u64>,
    /// The number of the first unit that was never allocated.
    next: usize,
    /// The first units of freed ranges, keyed by the ranges' numbers of units.
    free: BTreeMap<usize, Vec<usize>>,
}

/// The use of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Nothing,
    /// The copy of the `displaced` bytes at `origin`. `in_front` bytes of the instruction are counted after the copy.
    Copy {
        origin: u64,
        displaced: u8,
        in_front: u8,
    },
    Detour(DetourTiming),
    /// A unit of a faithful detour, which has several. `unit` is its index in the detour.
    Faithful {
        unit: u8,
        origin: u64,
        displaced: u8,
        lead: u8,
        jump: u8,
    },
    Trampoline,
    ReturnPad {
        jump: u8,
    },
    /// Other code of the engine.
    Ours,
}

/// A [`Use`] packed into 16 bytes, because a window can have a million units. Detours use the clock's own layout. All
/// other uses set `end` to `NEVER` and store a tag and their small fields in place of the point's number, so that one
/// comparison recognises a detour.
#[derive(Clone, Copy)]
struct Unit(DetourTiming);

impl Unit {
    fn of(what: Use) -> Unit {
        let other = |number: u8, unit, lead, origin, len, jump| {
            Unit(DetourTiming { origin, point: u32::from_le_bytes([number, unit, lead, 0]), end: DetourTiming::NEVER, len, jump })
        };
        match what {
            Use::Detour(detour) => Unit(detour),
            Use::Nothing => other(0, 0, 0, 0, 0, 0),
            Use::Copy { origin, displaced, in_front } => other(1, in_front, 0, origin, displaced, 0),
            Use::Faithful { unit, origin, displaced, lead, jump } => other(2, unit, lead, origin, displaced, jump),
            Use::Trampoline => other(3, 0, 0, 0, 0, 0),
            Use::ReturnPad { jump } => other(4, 0, 0, 0, 0, jump),
            Use::Ours => other(5, 0, 0, 0, 0, 0),
        }
    }

    #[inline]
    fn what(self) -> Use {
        let DetourTiming { origin, point, end, len, jump } = self.0;
        if end != DetourTiming::NEVER {
            return Use::Detour(self.0);
        }
        match point.to_le_bytes() {
            [1, in_front, ..] => Use::Copy { origin, displaced: len, in_front },
            [2, unit, lead, _] => Use::Faithful { unit, origin, displaced: len, lead, jump },
            [3, ..] => Use::Trampoline,
            [4, ..] => Use::ReturnPad { jump },
            [5, ..] => Use::Ours,
            _ => Use::Nothing,
        }
    }
}

impl WindowAllocator {
    /// A window with all units free.
    pub fn new(place: WindowPlace, isa: &Isa) -> WindowAllocator {
        let units = vec![Unit::of(Use::Nothing); (place.len / UNIT) as usize];
        WindowAllocator { place, in_group: isa.group - 1, units, pad: None, next: 0, free: BTreeMap::new() }
    }

    /// The meaning of an address in the window for the clock.
    #[inline]
    pub fn stands_for(&self, pc: u64) -> Meaning {
        let into = pc.wrapping_sub(self.place.start) % UNIT;
        match self.used_for(pc) {
            Use::Copy { origin, displaced, .. } if into == origin & self.in_group => Meaning::Copy { origin, len: displaced },
            Use::Copy { origin, displaced, .. } => Meaning::WayBack { next: origin.wrapping_add(u64::from(displaced)) },
            Use::Detour(detour) => detour_at(into as u8, &detour),
            Use::Faithful { unit, origin, displaced, lead, jump } => {
                faithful_at(u64::from(unit) * UNIT + into, origin, displaced, lead, jump)
            }
            Use::Trampoline if into == 0 => Meaning::Trampoline,
            Use::ReturnPad { jump: 1.. } if into == 0 => Meaning::ReturnPad,
            Use::Ours | Use::ReturnPad { .. } | Use::Trampoline => Meaning::Nothing,
            Use::Nothing => Meaning::Guest,
        }
    }

    #[inline]
    fn used_for(&self, pc: u64) -> Use {
        let unit = self.units.get((pc.wrapping_sub(self.place.start) / UNIT) as usize);
        unit.map_or(Use::Nothing, |unit| unit.what())
    }

    /// The probed address and the length of the copy that starts there.
    #[inline(always)]
    pub fn copy(&self, pc: u64) -> Option<(u64, u8)> {
        match self.used_for(pc) {
            Use::Copy { origin, displaced, .. } => {
                let is_start = pc.wrapping_sub(self.place.start) % UNIT == origin & self.in_group;
                is_start.then_some((origin, displaced))
            }
            _ => None,
        }
    }

    /// Bytes of the probed instruction that are counted only after the copy at `pc` has run.
    pub fn in_front(&self, pc: u64) -> u64 {
        match self.used_for(pc) {
            Use::Copy { in_front, .. } => in_front.into(),
            _ => 0,
        }
    }

    /// The return pad, if it continues the guest by a jump of its own. All probes share it, and it is never freed.
    #[inline(always)]
    pub fn pad(&self) -> Option<u64> {
        self.pad
    }

    /// The unit at this offset from the window's start, in a detour's layout. If it has another use, its `end` is
    /// `NEVER`.
    #[inline(always)]
    pub fn detour(&self, offset: u64) -> Option<&DetourTiming> {
        // The rotation puts the bits of an offset inside a unit on top, which makes the index too large.
        let number = offset.rotate_right(UNIT.trailing_zeros());
        self.units.get(number as usize).map(|unit| &unit.0)
    }

    /// The probed address for an address in a copy or behind it.
    pub fn origin_of(&self, pc: u64) -> Option<u64> {
        match self.used_for(pc) {
            Use::Copy { origin, .. } => Some(origin),
            _ => None,
        }
    }

    /// Allocates `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<u64> {
        let count = len.div_ceil(WINDOW_UNIT);
        let first = match self.free.get_mut(&count).and_then(Vec::pop) {
            Some(first) => first,
            None if self.next + count <= self.units.len() => {
                self.next += count;
                self.next - count
            }
            None => return None,
        };
        Some(self.place.start + first as u64 * UNIT)
    }

    /// Frees `len` bytes at `at`.
    pub fn give(&mut self, at: u64, len: usize) {
        let Some(first) = self.unit_of(at) else { return };
        let count = len.div_ceil(WINDOW_UNIT);
        for unit in self.units.iter_mut().skip(first).take(count) {
            *unit = Unit::of(Use::Nothing);
        }
        self.free.entry(count).or_default().push(first);
    }

    /// Records the use of `len` bytes at `at`: one unit, or several for a faithful detour. Returns the physical address
    /// to write the code to.
    pub fn note(&mut self, at: u64, len: usize, stands_for: StandsFor) -> Option<u64> {
        let first = self.unit_of(at)?;
        let units = self.units.get_mut(first..first + len.div_ceil(WINDOW_UNIT))?;
        if let StandsFor::ReturnPad { jump: 1.. } = stands_for {
            self.pad = Some(at);
        }
        for (number, unit) in (0..).zip(units) {
            *unit = Unit::of(match stands_for {
                StandsFor::Copy { origin, displaced, in_front } => Use::Copy { origin, displaced, in_front },
                StandsFor::Detour { origin, displaced, lead, jump, point } => {
                    let end = u16::from(lead) + u16::from(displaced);
                    Use::Detour(DetourTiming { origin, point, end, len: displaced, jump })
                }
                StandsFor::Faithful { origin, displaced, lead, jump } => {
                    Use::Faithful { unit: number, origin, displaced, lead, jump }
                }
                StandsFor::Trampoline => Use::Trampoline,
                StandsFor::ReturnPad { jump } => Use::ReturnPad { jump },
                StandsFor::JprobeReturn => Use::Ours,
            });
        }
        self.physical(at)
    }

    /// The physical address at which reported RAM ends and the window starts.
    pub fn guest_memory(&self) -> u64 {
        self.place.physical
    }

    /// The virtual addresses of the window.
    pub fn range(&self) -> Range<u64> {
        self.place.start..self.place.start + self.place.len
    }

    /// The physical address of an address in the window.
    pub fn physical(&self, at: u64) -> Option<u64> {
        let offset = at.wrapping_sub(self.place.start);
        (offset < self.place.len).then(|| self.place.physical + offset)
    }

    fn unit_of(&self, at: u64) -> Option<usize> {
        let unit = (at.wrapping_sub(self.place.start) / UNIT) as usize;
        (unit < self.units.len()).then_some(unit)
    }
}

/// The meaning of an offset in a detour. Hits from before the jump was written enter behind the lead, and count as a
/// copy.
#[inline]
fn detour_at(offset: u8, detour: &DetourTiming) -> Meaning {
    let DetourTiming { origin, len, .. } = *detour;
    match offset.checked_sub(detour.lead()) {
        None => Meaning::Detour(*detour),
        Some(into) if into < len => Meaning::Copy { origin: origin.wrapping_add(into.into()), len: len - into },
        Some(_) => Meaning::WayBack { next: origin.wrapping_add(len.into()) },
    }
}

/// The meaning of an offset in a faithful detour, whose lead spans several units.
#[inline]
fn faithful_at(offset: u64, origin: u64, len: u8, lead: u8, jump: u8) -> Meaning {
    match offset.checked_sub(lead.into()) {
        None if offset == 0 => Meaning::Saving { jump },
        None => Meaning::Restoring { origin, len, lead: lead - offset as u8 },
        Some(into) if into < len.into() => Meaning::Copy { origin: origin.wrapping_add(into), len: len - into as u8 },
        Some(_) => Meaning::WayBack { next: origin.wrapping_add(len.into()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::arch::Arch;

    fn window() -> WindowAllocator {
        WindowAllocator::new(WindowPlace { start: 0x1000, len: 128, physical: 0x9000, tables: 0 }, Arch::X86_64.isa())
    }

    #[test]
    fn freed_units_are_reused_and_a_full_window_is_an_error() {
        let mut window = window();
        assert_eq!([window.take(64), window.take(64), window.take(64)], [Some(0x1000), Some(0x1040), None]);
        window.give(0x1000, 64);
        assert_eq!((window.take(64), window.take(32)), (Some(0x1000), None));
    }

    #[test]
    fn a_unit_stands_for_its_instruction_and_what_follows_it_for_the_way_back() {
        let mut window = window();
        assert_eq!(window.note(0x1020, 8, StandsFor::Copy { origin: 0x500, displaced: 3, in_front: 4 }), Some(0x9020));
        window.note(0x1040, 5, StandsFor::ReturnPad { jump: 4 });
        let places = [0x1020, 0x1023, 0x1040, 0x1044, 0x1060, 0x2000].map(|pc| window.stands_for(pc));
        let expected = [
            Meaning::Copy { origin: 0x500, len: 3 },
            Meaning::WayBack { next: 0x503 },
            Meaning::ReturnPad,
            Meaning::Nothing,
            Meaning::Guest,
            Meaning::Guest,
        ];
        assert_eq!(places, expected);
        assert_eq!([0x1020, 0x1040, 0x1060].map(|pc| window.in_front(pc)), [4, 0, 0]);
        window.note(0x1060, 13, StandsFor::Detour { origin: 0x600, displaced: 7, lead: 1, jump: 5, point: 3 });
        let places = [0x1060, 0x1061, 0x1064, 0x1068].map(|pc| window.stands_for(pc));
        let expected = [
            Meaning::Detour(DetourTiming { origin: 0x600, point: 3, end: 8, len: 7, jump: 5 }),
            Meaning::Copy { origin: 0x600, len: 7 },
            Meaning::Copy { origin: 0x603, len: 4 },
            Meaning::WayBack { next: 0x607 },
        ];
        assert_eq!(places, expected);
        window.give(0x1020, 32);
        assert_eq!(window.stands_for(0x1020), Meaning::Guest);
    }

    #[test]
    fn a_faithful_detour_stands_for_its_instructions_over_several_units() {
        let mut window = window();
        assert_eq!(window.note(0x1000, 70, StandsFor::Faithful { origin: 0x600, displaced: 7, lead: 50, jump: 5 }), Some(0x9000));
        window.note(0x1060, 1, StandsFor::Trampoline);
        let places = [0x1000, 0x1001, 0x1020, 0x1032, 0x1035, 0x1039, 0x1045, 0x1060].map(|pc| window.stands_for(pc));
        let expected = [
            Meaning::Saving { jump: 5 },
            Meaning::Restoring { origin: 0x600, len: 7, lead: 49 },
            Meaning::Restoring { origin: 0x600, len: 7, lead: 18 },
            Meaning::Copy { origin: 0x600, len: 7 },
            Meaning::Copy { origin: 0x603, len: 4 },
            Meaning::WayBack { next: 0x607 },
            Meaning::WayBack { next: 0x607 },
            Meaning::Trampoline,
        ];
        assert_eq!(places, expected);
        assert_eq!(window.note(0x1060, 64, StandsFor::JprobeReturn), None, "it would end behind the window");
    }
}
