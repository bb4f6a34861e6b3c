//! `Point`: a probed address with its original instruction, the way it runs now, and the probes that share it.
//! `point/table.rs` has the table of all points.

mod table;

pub(crate) use table::Points;

use crate::jump::{Jump, Obstacle, Under};
use crate::members::{Action, Member, Members, Mirror};
use crate::probe::Kprobe;
use crate::slots::Slot;
use alloc::boxed::Box;
use core::num::NonZeroU64;
use trapline_isa::arch::Isa;
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Plan, Refusal};
use trapline_isa::regs::{Reg, Registers};

/// The way a hit runs the probed instruction, as the summary shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A copy with a second breakpoint behind it: two traps per hit.
    Plain,
    /// A copy with a jump back behind it: one trap per hit.
    Boosted,
    /// The engine computes the instruction.
    Emulated,
    /// A jump leads to a detour that runs it: no trap.
    Optimized,
}

impl Mode {
    /// The name shown in the summary.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Plain => "plain",
            Mode::Boosted => "boosted",
            Mode::Emulated => "emulated",
            Mode::Optimized => "optimized",
        }
    }
}

/// A probed address. There may be 100,000 of them, so rarely used fields are in [`Rare`].
pub(crate) struct Point {
    pub insn: Insn,
    pub plan: Plan,
    /// The register in which the copy stores its own address when it runs, if it does.
    pub address_register: Option<Reg>,
    pub slot: Option<Slot>,
    /// The probes here, in the order in which their handlers run: newest first, a jprobe last.
    pub members: Members,
    rare: Option<Box<Rare>>,
    /// Serial number of the point. The debugfs list shows newer points of a hash bucket first.
    pub born: u32,
    /// Whether the breakpoint is in the guest's text.
    pub armed: bool,
    /// The breakpoint at this address is the guest's own. After our handlers the guest gets its trap.
    pub shared: bool,
    /// Its text was freed. The probes stay listed until they are unregistered.
    pub gone: bool,
    /// Whether an enabled probe has a post-handler, so that the engine must regain control after the copy.
    pub has_post: bool,
    /// Whether Linux would use ftrace instead of a breakpoint here.
    pub uses_ftrace: bool,
    /// All probes have been unregistered. The point waits until no CPU is in its slot.
    pub dying: bool,
    /// Progress of its optimisation.
    pub jump: Jump,
    /// The reason why it is not optimised.
    obstacle: Obstacle,
    /// Bytes of guest code that the jump covers, or would cover.
    pub covers: u8,
    /// The original bytes of the instructions in its detour, once the detour is written.
    pub region: Under,
    /// The hash of the text for which its jump was last decided (`ready.rs`).
    decided: Option<NonZeroU64>,
}

/// Fields that few points need.
#[derive(Default)]
struct Rare {
    /// The reason why it is not optimised, if it is specific to this address.
    obstacle: Option<Refusal>,
    /// The reason why it cannot stand on the present text. It is tried again when the guest has changed the text again.
    waits: Option<Box<Refusal>>,
    mirror: Option<Box<Mirror>>,
    postponed: Postponed,
}

/// The retry state of an optimisation that found something under the jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Postponed {
    /// The virtual time of the next try, in nanoseconds.
    pub not_before: u64,
    /// The number of tries that found something. The wait doubles with each.
    pub tries: u32,
}

impl Point {
    pub fn new(isa: &Isa, insn: Insn, plan: Plan, slot: Slot, uses_ftrace: bool) -> Point {
        Point {
            address_register: (isa.address_register)(&insn),
            insn,
            plan,
            slot: Some(slot),
            members: Members::None,
            rare: None,
            born: 0,
            armed: false,
            shared: false,
            gone: false,
            has_post: false,
            uses_ftrace,
            dying: false,
            jump: Jump::Plain,
            obstacle: Obstacle::None,
            covers: 0,
            region: Under::NOTHING,
            decided: None,
        }
    }

    #[inline]
    pub fn address(&self) -> u64 {
        self.insn.address
    }

    /// Replaces the instruction after the guest has changed its text. The point has no jump then.
    pub fn set_instruction(&mut self, isa: &Isa, insn: Insn, plan: Plan) {
        (self.insn, self.plan, self.address_register) = (insn, plan, (isa.address_register)(&insn));
        (self.region, self.covers, self.jump, self.decided) = (Under::NOTHING, 0, Jump::Plain, None);
    }

    /// Corrects the address register after a stepped copy, on ISAs with [`Point::address_register`]: replaces the copy's
    /// address, which the copy has stored there, by the original one.
    pub fn fix_address_register(&self, regs: &mut dyn Registers) {
        if let (Some(reg), Some(slot)) = (self.address_register, self.slot)
            && regs.get(reg) == slot.stepped()
        {
            regs.set(reg, self.address());
        }
    }

    /// Bytes of the instruction that the copy in the slot runs. Fewer than the instruction's length if only its delay
    /// slot is copied.
    pub fn displaced(&self) -> u64 {
        self.slot.map_or(self.insn.length(), Slot::displaced)
    }

    pub fn mode(&self) -> Mode {
        match self.plan {
            _ if self.jump == Jump::Optimised => Mode::Optimized,
            Plan::Emulate(_) => Mode::Emulated,
            Plan::Boost if !self.has_post => Mode::Boosted,
            Plan::Boost | Plan::Step => Mode::Plain,
        }
    }

    /// The point's only probe, if it has a pre-handler only and is not internal.
    fn lone(&self) -> Option<&Kprobe> {
        match &*self.members {
            [Member { probe, action: Action::Handlers }] if probe.is_plain() => Some(probe),
            _ => None,
        }
    }

    pub fn has_mirror(&self) -> bool {
        self.members.iter().any(|member| matches!(member.action, Action::Mirror))
    }

    pub fn mirror(&self) -> Option<&Mirror> {
        self.rare.as_ref()?.mirror.as_deref()
    }

    pub fn set_mirror(&mut self, mirror: Option<Mirror>) {
        self.change_rare(mirror.is_some(), |rare| rare.mirror = mirror.map(Box::new));
    }

    pub fn obstacle(&self) -> Option<Refusal> {
        match self.obstacle {
            Obstacle::Found => self.rare.as_ref()?.obstacle.clone(),
            known => known.refusal(),
        }
    }

    /// Sets the reason why it is not optimised at present. The decision about its text stays as it is.
    pub fn set_obstacle(&mut self, obstacle: Obstacle) {
        self.obstacle = obstacle;
    }

    /// Like [`Point::set_obstacle`], with a reason specific to this address that may not last.
    pub fn set_obstacle_found(&mut self, why: Refusal) {
        self.decide_against(None, why);
    }

    /// Stores the reason why this text allows no jump. `text` is its hash, if the reason lasts as long as the text.
    pub fn decide_against(&mut self, text: Option<NonZeroU64>, why: Refusal) {
        (self.obstacle, self.decided) = (Obstacle::Found, text);
        self.change_rare(true, |rare| rare.obstacle = Some(why));
    }

    /// Stores that the text with this hash allows a jump over these bytes.
    pub fn decide_for(&mut self, text: Option<NonZeroU64>, region: Under, covers: u8) {
        (self.region, self.covers, self.obstacle, self.decided) = (region, covers, Obstacle::None, text);
        self.change_rare(false, |rare| rare.obstacle = None);
    }

    /// The decision about a text with this hash: whether it allows a jump. `None` if it was not the last one decided.
    pub fn decision(&self, text: Option<NonZeroU64>) -> Option<bool> {
        let is_known = text.is_some() && self.decided == text;
        is_known.then(|| self.rare.as_ref().is_none_or(|rare| rare.obstacle.is_none()))
    }

    pub fn waits(&self) -> Option<&Refusal> {
        self.rare.as_ref()?.waits.as_deref()
    }

    pub fn set_waits(&mut self, why: Option<Refusal>) {
        self.change_rare(why.is_some(), |rare| rare.waits = why.map(Box::new));
    }

    pub fn postponed(&self) -> Postponed {
        self.rare.as_ref().map_or(Postponed::default(), |rare| rare.postponed)
    }

    pub fn set_postponed(&mut self, postponed: Postponed) {
        self.change_rare(postponed != Postponed::default(), |rare| rare.postponed = postponed);
    }

    /// Changes the rare fields. Allocates them first if `new`; otherwise does nothing if there are none.
    fn change_rare(&mut self, new: bool, change: impl FnOnce(&mut Rare)) {
        if new {
            change(self.rare.get_or_insert_default());
        } else if let Some(rare) = &mut self.rare {
            change(rare);
        }
    }

    pub fn wants_to_be_armed(&self) -> bool {
        !self.gone && self.waits().is_none() && self.members.iter().any(|member| !member.probe.is_disabled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OH-3: 100,000 probes must take at most 300 bytes each, tables and probe objects included.
    #[test]
    fn a_point_is_small() {
        assert_eq!(size_of::<Option<Point>>(), 152);
    }
}
