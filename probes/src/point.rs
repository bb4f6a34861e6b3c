//! A probed address: the instruction that stood there, how it runs now, and the probes that share it (core.md 3).

use crate::guest::WINDOW_UNIT;
use crate::optimizer::Jump;
use crate::probe::{Jprobe, Kprobe};
use crate::slots::{SLOT, Slot};
use crate::table::Table;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Plan, Refusal};
use trapline_isa::region::Region;

/// How a hit runs the probed instruction, as the summary shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its copy, with a second breakpoint behind it.
    Plain,
    /// Its copy, with a jump back behind it: one trap a hit.
    Boosted,
    /// Computed by the engine.
    Emulated,
    /// In a detour that a jump leads to: no trap.
    Optimized,
}

impl Mode {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Boosted => "boosted",
            Mode::Emulated => "emulated",
            Mode::Optimized => "optimized",
        }
    }
}

/// One probe at a point.
pub(crate) struct Member {
    pub probe: Kprobe,
    pub action: Action,
}

/// What happens when a member's turn comes.
pub(crate) enum Action {
    /// Its pre-handler runs.
    Handlers,
    /// The return address is taken by the return probe of that number.
    Return(u32),
    /// The mirror.
    Mirror(Mirror),
}

/// A jprobe that is registered.
pub(crate) struct Mirror {
    pub jprobe: Jprobe,
    /// The handler's address, if it is guest code.
    pub entry: Option<u64>,
    /// Where the breakpoint lies that ends it.
    pub returns_in: Range<u64>,
    /// The handler is made to return to the breakpoint, for the guest has no `jprobe_return`.
    pub by_return: bool,
}

/// A probed address.
pub(crate) struct Point {
    pub insn: Insn,
    pub plan: Plan,
    pub slot: Option<Slot>,
    /// In the order in which their handlers run: newest first, a jprobe last.
    pub members: Vec<Member>,
    /// The breakpoint is in the guest's text.
    pub armed: bool,
    /// That breakpoint is the guest's own: its trap goes on to the guest when our handlers have run.
    pub shared: bool,
    /// Why it cannot stand in the text as that is now; it is tried again when the guest has changed the text again.
    pub waits: Option<Refusal>,
    pub gone: bool,
    /// Some enabled member has a post-handler, so the engine must be told when the copy has run.
    pub has_post: bool,
    /// Linux would let ftrace carry it.
    pub uses_ftrace: bool,
    /// Counts up with each point; the list shows newer ones of a bucket first.
    pub born: u64,
    /// How far its optimisation has come.
    pub jump: Jump,
    /// The instructions that the detour in its slot runs, once there is one.
    pub region: Option<Region>,
    /// Bytes that the jump stands for, or would.
    pub covers: u64,
    /// Why it is not optimised.
    pub obstacle: Option<Refusal>,
    /// Its probes have been unregistered; it waits for its slot to be free of CPUs.
    pub dying: bool,
}

impl Point {
    #[inline]
    pub fn address(&self) -> u64 {
        self.insn.address
    }

    pub fn mode(&self) -> Mode {
        match self.plan {
            _ if self.jump == Jump::Optimised => Mode::Optimized,
            Plan::Emulate(_) => Mode::Emulated,
            Plan::Boost if !self.has_post => Mode::Boosted,
            Plan::Boost | Plan::Step => Mode::Plain,
        }
    }

    pub fn has_mirror(&self) -> bool {
        self.members.iter().any(|member| matches!(member.action, Action::Mirror(_)))
    }

    pub fn wants_to_be_armed(&self) -> bool {
        !self.gone && self.waits.is_none() && self.members.iter().any(|member| !member.probe.is_disabled())
    }
}

/// All points, by number, by address and by slot.
pub(crate) struct Points {
    slab: Vec<Option<Point>>,
    unused: Vec<u32>,
    by_address: Table,
    /// The first unit of each slot.
    by_unit: Table,
    /// For ranges; a hit does not look here.
    in_order: BTreeMap<u64, u32>,
    born: u64,
}

impl Points {
    pub fn new() -> Points {
        Points {
            slab: Vec::new(),
            unused: Vec::new(),
            by_address: Table::new(),
            by_unit: Table::new(),
            in_order: BTreeMap::new(),
            born: 0,
        }
    }

    #[inline]
    pub fn at(&self, address: u64) -> Option<u32> {
        self.by_address.get(address)
    }

    #[inline]
    pub fn get(&self, number: u32) -> Option<&Point> {
        self.slab.get(number as usize)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Point> {
        self.slab.get_mut(number as usize)?.as_mut()
    }

    pub fn insert(&mut self, mut point: Point) -> u32 {
        self.born += 1;
        point.born = self.born;
        let (address, slot) = (point.address(), point.slot);
        let number = match self.unused.pop() {
            Some(number) => {
                self.slab[number as usize] = Some(point);
                number
            }
            None => {
                self.slab.push(Some(point));
                self.slab.len() as u32 - 1
            }
        };
        self.by_address.insert(address, number);
        self.in_order.insert(address, number);
        if let Some(slot) = slot {
            self.know_slot(slot, number);
        }
        number
    }

    pub fn know_slot(&mut self, slot: Slot, number: u32) {
        self.by_unit.insert(slot.at, number);
    }

    pub fn forget_slot(&mut self, slot: Slot) {
        self.by_unit.remove(slot.at);
    }

    /// The point whose slot has this unit.
    pub fn of_unit(&self, unit: u64) -> Option<u32> {
        (0..SLOT as u64).step_by(WINDOW_UNIT).find_map(|into| self.by_unit.get(unit.wrapping_sub(into)))
    }

    /// Takes it out of the table: from now on nothing is found at its address.
    pub fn leave_table(&mut self, number: u32) {
        if let Some(address) = self.get(number).map(Point::address) {
            self.by_address.remove(address);
            self.in_order.remove(&address);
        }
    }

    /// Frees its number.
    pub fn drop(&mut self, number: u32) {
        if let Some(place) = self.slab.get_mut(number as usize)
            && place.take().is_some()
        {
            self.unused.push(number);
        }
    }

    /// Those in the table, by address.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Point)> + '_ {
        self.in_order.values().filter_map(|number| Some((*number, self.get(*number)?)))
    }

    /// The numbers of all that are in the table.
    pub fn numbers(&self) -> Vec<u32> {
        self.in_order.values().copied().collect()
    }

    /// The numbers of those in the table with addresses in a range.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let range = if range.start <= range.end { range } else { 0..0 };
        self.in_order.range(range).map(|(_, number)| *number)
    }
}
