//! Decides whether a point may have a jump, writes its detour, and remembers for which text that was decided. The decision
//! decodes the whole function, which takes some twenty microseconds; a comparison of the text's hash takes one. The text of a
//! guest that boots is withdrawn and released again many times, and nearly all of it is the same afterwards.
//!
//! The hash covers what the rules of a region read: the function, its parts elsewhere, and the address of the detour. Tables of
//! sites and symbols are not in it, because they do not change while a function has its address.

use crate::engine::Engine;
use crate::errno::{Errno, Refusal};
use crate::guest::{Guest, WindowUse};
use crate::hash::Hash;
use crate::jump::{Jump, Obstacle, Under};
use crate::point::Point;
use crate::slots::Slot;
use crate::surroundings::other_parts;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;
use trapline_isa::detour::{self, Form, NO_FAITHFUL};
use trapline_isa::plan::Policy;
use trapline_isa::region::{self, Region, Rule};

/// Longer functions are decided anew each time.
const MOST_BYTES: u64 = 64 << 10;

/// Bytes of text that are hashed at a time.
const PIECE: usize = 512;

/// The text around a point.
pub(crate) struct Around {
    /// The point's function.
    pub function: Range<u64>,
    /// Its other parts.
    pub parts: Vec<Range<u64>>,
}

impl Engine {
    /// The text around a point. `None` if its address is in no function.
    pub(crate) fn function_around(&self, guest: &dyn Guest, point: &Point) -> Option<Around> {
        let symbol = guest.symbol_at(point.address())?;
        Some(Around { function: symbol.start..symbol.start + symbol.size, parts: other_parts(guest, &symbol.name) })
    }

    /// A hash of all on which the decision about a point's jump depends. `None` if the text is too long or unreadable.
    pub(crate) fn text_hash(&self, guest: &dyn Guest, around: &Around, point: &Point) -> Option<NonZeroU64> {
        let mut hash = Hash::default();
        hash.add(&point.slot.map_or(0, |slot| slot.detour()).to_le_bytes());
        for range in core::iter::once(&around.function).chain(&around.parts) {
            let length = range.end.checked_sub(range.start).filter(|length| *length <= MOST_BYTES)?;
            hash.add(&range.start.to_le_bytes());
            hash.add(&length.to_le_bytes());
            // The last instruction may be read beyond the end.
            let (mut at, end) = (range.start, range.end.checked_add(self.isa.longest as u64)?);
            while at < end {
                let mut piece = [0; PIECE];
                let piece = &mut piece[..(end - at).min(PIECE as u64) as usize];
                self.read_original(guest, at, piece).ok()?;
                hash.add(piece);
                at += piece.len() as u64;
            }
        }
        // A hash of 0 counts as another one.
        Some(NonZeroU64::new(hash.value()).unwrap_or(NonZeroU64::MAX))
    }

    /// Checks whether a jump may be written and writes the detour. If not, returns false and stores the reason in the
    /// point.
    pub(crate) fn make_ready(&mut self, guest: &mut dyn Guest, number: u32) -> bool {
        let Some(point) = self.points.get(number) else { return false };
        let around = self.function_around(guest, point);
        let text = around.as_ref().and_then(|around| self.text_hash(guest, around, point));
        let region = match (point.decision(text), around) {
            (Some(true), _) => Ok(None),
            (Some(false), _) => {
                let Some(point) = self.points.get_mut(number) else { return false };
                point.jump = Jump::Plain;
                point.set_obstacle(Obstacle::Found);
                return false;
            }
            (None, Some(around)) => self.region_of(guest, point, &around, self.policy).map(|region| Some((region, around))),
            (None, None) => Err(Rule::NoRoom.refusal()),
        };
        let (start, known) = (point.address(), u64::from(point.covers));
        let end = region.as_ref().map(|found| found.as_ref().map_or(start + known, |(region, _)| region.end()));
        if let Ok(end) = end {
            let inside = self.points.within(start + 1..end);
            if inside.filter_map(|other| self.points.get(other)).any(|other| other.armed) {
                let Some(point) = self.points.get_mut(number) else { return false };
                point.jump = Jump::Plain;
                point.set_obstacle(Obstacle::Neighbour);
                return false;
            }
        }
        let written = match &region {
            Ok(Some((region, around))) => self.prepare_detour(guest, number, point, region, around).map(Some),
            _ => Ok(None),
        };
        let Some(point) = self.points.get_mut(number) else { return false };
        match (region, written) {
            (Ok(Some((region, _))), Ok(Some(written))) => {
                point.decide_for(text, written, (region.end() - region.start()) as u8);
                true
            }
            (Ok(_), Ok(_)) => {
                point.set_obstacle(Obstacle::None);
                true
            }
            (Err(refusal), _) => {
                point.jump = Jump::Plain;
                point.decide_against(text, refusal);
                false
            }
            (_, Err(refusal)) => {
                point.jump = Jump::Plain;
                point.set_obstacle_found(refusal);
                false
            }
        }
    }

    /// Writes the detour of a region, unless it is already there. Returns the original bytes of the instructions that
    /// it runs.
    fn prepare_detour(
        &self,
        guest: &mut dyn Guest,
        number: u32,
        point: &Point,
        region: &Region,
        around: &Around,
    ) -> Result<Under, Refusal> {
        // If Linux optimises a region that is unsafe, the probe is reported as optimised but keeps its breakpoint.
        let own = match self.policy {
            Policy::Best | Policy::Outside => None,
            Policy::Linux(_) => match self.region_of(guest, point, around, Policy::Best) {
                Ok(region) => Some(region),
                Err(_) => return Ok(Under::NOTHING),
            },
        };
        let (region, Some(slot)) = (own.as_ref().unwrap_or(region), point.slot) else { return Ok(Under::NOTHING) };
        let under = Under::of(region).ok_or(Rule::TooLong.refusal())?;
        if point.region != under {
            self.write_detour(guest, number, region, slot)?;
        }
        Ok(under)
    }

    /// Writes the detour of a region into a slot. Fails if a CPU is still in the previous detour there.
    fn write_detour(&self, guest: &mut dyn Guest, point: u32, region: &Region, slot: Slot) -> Result<(), Refusal> {
        let table = self.isa.detour.ok_or(Rule::NoDetours.refusal())?;
        let at = slot.detour();
        if guest.any_cpu_inside(at..slot.range().end) {
            return Err(Refusal::new(Errno::EBUSY, "a CPU is still in the previous detour of this address"));
        }
        let (origin, displaced) = (region.start(), (region.end() - region.start()) as u8);
        let (lead, jump) = (slot.lead(), table.length_through(region.far().map(|[through, _]| through)) as u8);
        let (code, stands_for) = match (slot.form, self.optimizer.detours.trampoline) {
            (Form::Lean, _) => {
                let code = detour::lean(self.isa, table, region, at)?;
                (code, WindowUse::Detour { origin, displaced, lead, jump, point })
            }
            (Form::Faithful, Some(trampoline)) => {
                let code = detour::faithful(self.isa, table, region, at, trampoline)?;
                (code, WindowUse::Faithful { origin, displaced, lead, jump })
            }
            (Form::Faithful, None) => return Err(NO_FAITHFUL),
        };
        guest.window_write(at, code.bytes(), stands_for);
        Ok(())
    }

    /// The instructions that a jump at this point would displace, if the policy allows it.
    fn region_of(&self, guest: &dyn Guest, point: &Point, around: &Around, policy: Policy) -> Result<Region, Refusal> {
        let mut text = self.text_around(guest).of_function(around, policy);
        let function = around.function.clone();
        match point.slot.filter(|slot| slot.form == Form::Lean) {
            Some(slot) => region::region_to(self.isa, policy, function, point.address(), slot.detour(), &mut text),
            None => region::region(self.isa, policy, function, point.address(), &mut text),
        }
    }
}
