//! The points of an engine ([`Points`]), found by number, by address, by the unit of a slot, or in order of their addresses.
//!
//! A hit by a breakpoint looks its address up once. A hit by a jump knows the point's number and needs no look-up. Registration
//! reserves the memory of all tables.

use super::Point;
use crate::guest::WINDOW_UNIT;
use crate::index::Index;
use crate::order::Order;
use crate::probe::Kprobe;
use crate::slots::Slot;
use alloc::vec::Vec;
use core::ops::Range;

/// All points, by number, by address and by slot.
pub(crate) struct Points {
    slab: Vec<Option<Point>>,
    /// By point number: the lone probe of that point, if it has one. It is all that a hit by a jump needs.
    lone: Vec<Option<Kprobe>>,
    unused: Vec<u32>,
    by_address: Index,
    /// Key: the first unit of the slot.
    by_slot: Index,
    /// Units of the longest slot so far.
    most_units: u8,
    /// The points sorted by address, for range queries. Hits do not use it.
    in_order: Order,
    born: u32,
}

/// A function that returns the address of a point number.
fn address_of(slab: &[Option<Point>]) -> impl Fn(u32) -> u64 + Copy {
    |number| slab.get(number as usize).and_then(Option::as_ref).map_or(0, Point::address)
}

/// A function that returns the slot address of a point number.
fn slot_of(slab: &[Option<Point>]) -> impl Fn(u32) -> u64 + Copy {
    |number| slab.get(number as usize).and_then(|point| point.as_ref()?.slot).map_or(0, Slot::at)
}

impl Points {
    pub fn new() -> Points {
        Points {
            slab: Vec::new(),
            lone: Vec::new(),
            unused: Vec::new(),
            by_address: Index::new(),
            by_slot: Index::new(),
            most_units: 0,
            in_order: Order::default(),
            born: 0,
        }
    }

    /// Reserves room for `more` points, so that a batch grows each table at most once.
    pub fn reserve(&mut self, more: usize) {
        let Points { slab, lone, unused, by_address, by_slot, .. } = self;
        let wanted = slab.len() - unused.len() + more;
        // A small batch uses the vectors' usual doubling.
        if more > slab.len() / 4 {
            slab.reserve_exact(wanted.saturating_sub(slab.len()));
            lone.reserve_exact(wanted.saturating_sub(lone.len()));
        }
        by_address.reserve(wanted, address_of(slab));
        by_slot.reserve(wanted, slot_of(slab));
    }

    #[inline]
    pub fn at(&self, address: u64) -> Option<u32> {
        self.by_address.get(address, |number| self.get(number).is_some_and(|point| point.address() == address))
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&Point> {
        self.slab.get(number as usize)?.as_ref()
    }

    /// The only probe of a point, if it has just a pre-handler. See `Point::lone`.
    #[inline]
    pub fn lone(&self, number: u32) -> Option<&Kprobe> {
        self.lone.get(number as usize)?.as_ref()
    }

    /// Updates the lone probe of a point. Must be called after every change of a point's probes or their flags.
    pub fn settle_lone(&mut self, number: u32) {
        let lone = self.get(number).and_then(Point::lone).cloned();
        if let Some(place) = self.lone.get_mut(number as usize) {
            *place = lone;
        }
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Point> {
        self.slab.get_mut(number as usize)?.as_mut()
    }

    pub fn insert(&mut self, mut point: Point) -> u32 {
        self.born = self.born.wrapping_add(1);
        point.born = self.born;
        let (address, slot) = (point.address(), point.slot);
        let number = match self.unused.pop() {
            Some(number) => {
                self.slab[number as usize] = Some(point);
                number
            }
            None => {
                self.slab.push(Some(point));
                self.lone.push(None);
                self.slab.len() as u32 - 1
            }
        };
        let Points { slab, by_address, by_slot, most_units, in_order, .. } = self;
        by_address.insert(address, number, address_of(slab));
        in_order.insert(address, number, address_of(slab));
        if let Some(slot) = slot {
            *most_units = slot.units().max(*most_units);
            by_slot.insert(slot.at(), number, slot_of(slab));
        }
        number
    }

    /// Replaces a point's slot. Returns the old one.
    pub fn set_slot(&mut self, number: u32, slot: Option<Slot>) -> Option<Slot> {
        let Points { slab, by_slot, most_units, .. } = self;
        let before = slab.get(number as usize)?.as_ref()?.slot;
        if let Some(before) = before {
            by_slot.remove(before.at(), |other| other == number, slot_of(slab));
        }
        slab.get_mut(number as usize)?.as_mut()?.slot = slot;
        if let Some(slot) = slot {
            *most_units = slot.units().max(*most_units);
            by_slot.insert(slot.at(), number, slot_of(slab));
        }
        before
    }

    /// The point whose slot contains this unit.
    pub fn of_unit(&self, unit: u64) -> Option<u32> {
        let begins_at = |at: u64| {
            move |number: u32| {
                self.get(number).and_then(|point| point.slot).is_some_and(|slot| slot.at() == at && slot.range().contains(&unit))
            }
        };
        let starts = (0..u64::from(self.most_units)).map(|units| unit.wrapping_sub(units * WINDOW_UNIT as u64));
        starts.into_iter().find_map(|at| self.by_slot.get(at, begins_at(at)))
    }

    /// Removes a point from the address table. Its number stays valid.
    pub fn leave_table(&mut self, number: u32) {
        let Points { slab, by_address, in_order, .. } = self;
        if let Some(Some(point)) = slab.get(number as usize) {
            by_address.remove(point.address(), |other| other == number, address_of(slab));
            in_order.remove(point.address(), address_of(slab));
        }
    }

    /// Frees the point's number.
    pub fn drop(&mut self, number: u32) {
        self.set_slot(number, None);
        if let Some(place) = self.slab.get_mut(number as usize)
            && place.take().is_some()
        {
            self.unused.push(number);
        }
        self.settle_lone(number);
    }

    /// The points in the table, sorted by address.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Point)> + '_ {
        self.in_order.iter().filter_map(|number| Some((number, self.get(number)?)))
    }

    /// The numbers of all points in the table.
    pub fn numbers(&self) -> Vec<u32> {
        self.in_order.iter().collect()
    }

    /// The numbers of the points with addresses in a range.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let range = if range.start <= range.end { range } else { 0..0 };
        self.in_order.range(range, address_of(&self.slab))
    }

    /// Whether a range contains no point.
    #[inline]
    pub fn is_clear(&mut self, range: &Range<u64>) -> bool {
        self.in_order.is_clear(range, address_of(&self.slab))
    }
}
