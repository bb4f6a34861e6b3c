//! Jump optimisation: which points get a jump in place of their breakpoint, when, and when they lose it again (core.md 11).
//!
//! A point is plain, optimising or optimised ([`Jump`]). The worker is [`Engine::tick`], driven by virtual time: after a delay it
//! writes the jumps of all that wait, unless a CPU or an interrupted task stands under one of them; that one waits on. Linux's
//! "unoptimising" and "freeing" are moments here, for all CPUs are stopped when the text changes: a jump goes at once.

use crate::engine::Engine;
use crate::errno::{Errno, Refusal};
use crate::guest::{Cpu, Guest, Site, Window};
use crate::point::Point;
use crate::register::forgets_lock_prefixes;
use crate::retprobe::SPLIT_OFF;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::detour::{self, Detour};
use trapline_isa::mem::Fault;
use trapline_isa::plan::Policy;
use trapline_isa::region::{self, Region, Rule, Surroundings};

/// How far a point has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Jump {
    /// A breakpoint, or nothing.
    #[default]
    Plain,
    /// A breakpoint; the worker will look at it. Hits run the region in the detour.
    Optimising { not_before: u64, tries: u32 },
    /// The jump is in the text.
    Optimised,
}

/// The most bytes of a region.
const LONGEST: u64 = detour::LONGEST as u64;
/// Linux waits for 5 ticks of its clock, so that a batch comes together. Here all that is registered while the machine stands still is
/// one batch, and a short wait does.
const DELAY: u64 = 100_000;
/// A region in which somebody stands is looked at again after at least so long: each look reads all of the guest's memory.
const LEAST_WAIT: u64 = 100_000;
/// The wait is doubled so often: a word that only looks like an address may stand there for ever.
const MOST_DOUBLINGS: u32 = 14;

/// The worker's notes.
pub(crate) struct Optimizer {
    allowed: bool,
    /// The guest is not yet so far that jumps are worth it.
    early: bool,
    delay: u64,
    now: u64,
    due: Option<u64>,
    /// How often a region had to wait because somebody stood in it.
    pub postponed: u64,
}

impl Optimizer {
    pub fn new() -> Optimizer {
        Optimizer { allowed: true, early: false, delay: DELAY, now: 0, due: None, postponed: 0 }
    }

    /// The worker is to come after the delay, with all that wait until then.
    fn kick(&mut self, now: u64) {
        self.due = self.due.or(Some(now.saturating_add(self.delay)));
    }
}

#[rustfmt::skip]
mod obstacles {
    use super::{Errno::EBUSY, Refusal};
    pub const KNOB: Refusal = Refusal::new(EBUSY, "jump optimisation is switched off");
    pub const EARLY: Refusal = Refusal::new(EBUSY, "the guest is still patching its text at boot: jumps come afterwards");
    pub const POST: Refusal = Refusal::new(EBUSY, "a post-handler has to be told when the instruction has run");
    pub const MIRROR: Refusal = Refusal::new(EBUSY, "a jprobe stands here");
    pub const UNARMED: Refusal = Refusal::new(EBUSY, "the probe is disabled");
    pub const INTERNAL: Refusal = Refusal::new(EBUSY, "it is the machine's own");
    pub const FTRACE: Refusal = Refusal::new(EBUSY, "Linux would use its ftrace site");
    pub const SHARED: Refusal = Refusal::new(EBUSY, "the guest has a breakpoint of its own here");
    pub const NEIGHBOUR: Refusal = Refusal::new(Errno::EEXIST, "another probe stands on an instruction under the jump");
    use super::Errno;
}
pub(crate) use obstacles::UNARMED;
use obstacles::*;

impl Engine {
    /// The knob, `debug.kprobes-optimization`: off takes all jumps back and lets none come, on tries all again.
    pub fn set_optimization(&mut self, guest: &mut dyn Guest, allowed: bool) {
        if self.optimizer.allowed == allowed {
            return;
        }
        self.optimizer.allowed = allowed;
        for number in self.points.numbers() {
            self.consider(guest, number);
        }
        guest.log(if allowed {
            "kprobe jump-optimization is enabled. All kprobes are optimized if possible."
        } else {
            "kprobe jump-optimization is disabled. All kprobes are based on software breakpoint."
        });
    }

    /// What was last said of that.
    pub fn is_early(&self) -> bool {
        self.optimizer.early
    }

    /// Whether the guest is still at the beginning of its boot, where it patches its own text: no jumps are made then.
    pub fn set_early(&mut self, guest: &mut dyn Guest, early: bool) {
        if core::mem::replace(&mut self.optimizer.early, early) != early {
            for number in self.points.numbers() {
                self.consider(guest, number);
            }
        }
    }

    /// What the knob shows.
    pub fn optimization(&self) -> bool {
        self.optimizer.allowed
    }

    /// How long a probe waits before it is optimised, in nanoseconds of virtual time.
    pub fn set_optimization_delay(&mut self, nanoseconds: u64) {
        self.optimizer.delay = nanoseconds;
        let soonest = self.optimizer.now.saturating_add(nanoseconds);
        self.optimizer.due = self.optimizer.due.map(|due| due.min(soonest));
    }

    /// The virtual time at which [`Engine::tick`] should be called.
    pub fn wants_attention_at(&self) -> Option<u64> {
        self.optimizer.due
    }

    /// The worker's turn: all CPUs are stopped, and it is `now`.
    pub fn tick(&mut self, guest: &mut dyn Guest, now: u64) {
        if now < self.optimizer.now {
            self.start_over(now);
        }
        self.optimizer.now = now;
        if self.optimizer.due.is_none_or(|due| now < due) {
            return;
        }
        self.optimizer.due = None;
        let mut waiting = Vec::new();
        for number in self.points.numbers() {
            let Some(Jump::Optimising { not_before, .. }) = self.points.get(number).map(|point| point.jump) else { continue };
            // What is allowed was looked at long ago; the guest may have changed its text since.
            if not_before <= now && self.make_ready(guest, number) {
                waiting.push(number);
            }
        }
        self.write_jumps(guest, &waiting, now);
        let next = self.points.iter().filter_map(|(_, point)| match point.jump {
            Jump::Optimising { not_before, .. } if point.region.is_some() => Some(not_before.max(now + LEAST_WAIT)),
            _ => None,
        });
        self.optimizer.due = next.min();
    }

    /// The guest has been put back to an earlier time: nobody waits for one that was counted from a later.
    fn start_over(&mut self, now: u64) {
        for number in self.points.numbers() {
            if let Some(Jump::Optimising { not_before, .. }) = self.points.get_mut(number).map(|point| &mut point.jump) {
                *not_before = (*not_before).min(now);
            }
        }
        let soonest = now.saturating_add(self.optimizer.delay);
        self.optimizer.due = self.optimizer.due.map(|due| due.min(soonest));
    }

    fn write_jumps(&mut self, guest: &mut dyn Guest, waiting: &[u32], now: u64) {
        let Some(table) = self.isa.detour else { return };
        let under = |number: &u32| {
            let start = self.points.get(*number).map_or(0, Point::address);
            start + 1..start + table.jump_length
        };
        let ranges: Vec<Range<u64>> = waiting.iter().map(under).collect();
        let held = guest.remembers_addresses(&ranges);
        for ((number, range), held) in waiting.iter().zip(ranges).zip(held) {
            let delay = self.optimizer.delay.max(LEAST_WAIT);
            let Some(point) = self.points.get_mut(*number) else { continue };
            if held || guest.any_cpu_inside(range) {
                let tries = if let Jump::Optimising { tries, .. } = point.jump { tries } else { 0 };
                let wait = delay.saturating_mul(1 << tries.min(MOST_DOUBLINGS));
                // At a multiple of the wait: so that one look does for many.
                let not_before = now.saturating_add(wait).checked_next_multiple_of(wait).unwrap_or(u64::MAX);
                point.jump = Jump::Optimising { not_before, tries: tries + 1 };
                self.optimizer.postponed += 1;
            } else if let Err(refusal) = write_jump(guest, table, point) {
                (point.jump, point.obstacle) = (Jump::Plain, Some(refusal));
            }
        }
    }

    /// Makes a point's state what the state of things wants: called whenever anything about it has changed.
    pub(crate) fn consider(&mut self, guest: &mut dyn Guest, number: u32) {
        let Some(point) = self.points.get(number) else { return };
        if let Some(obstacle) = self.obstacle(point) {
            self.unoptimise(guest, number, obstacle);
        } else if point.jump == Jump::Plain && self.make_ready(guest, number) {
            let now = self.optimizer.now;
            if let Some(point) = self.points.get_mut(number) {
                point.jump = Jump::Optimising { not_before: now, tries: 0 };
            }
            self.optimizer.kick(now);
        }
    }

    /// What speaks against it for the time being.
    fn obstacle(&self, point: &Point) -> Option<Refusal> {
        let found = [
            (!self.optimizer.allowed, KNOB),
            (self.optimizer.early, EARLY),
            (!point.armed, UNARMED),
            (point.members.iter().all(|member| member.probe.is_internal()), INTERNAL),
            (point.shared, SHARED),
            (point.has_post, POST),
            (point.has_mirror(), MIRROR),
            (point.uses_ftrace, FTRACE),
        ];
        found.into_iter().find(|(is_so, _)| *is_so).map(|(_, obstacle)| obstacle)
    }

    /// Looks whether a jump may stand there, and writes the detour. False: it may not, and the point says why.
    fn make_ready(&mut self, guest: &mut dyn Guest, number: u32) -> bool {
        let Some(point) = self.points.get(number) else { return false };
        let answer = self.region_of(guest, point, self.policy).and_then(|region| {
            let inside = self.points.within(region.start() + 1..region.end());
            let mut armed = inside.filter_map(|other| self.points.get(other)).filter(|other| other.armed);
            if armed.next().is_some() { Err(NEIGHBOUR) } else { Ok(region) }
        });
        let carried = match (&answer, self.policy) {
            (Ok(_), Policy::Best) => answer.clone().ok(),
            // What Linux optimises and should not is called optimised, and goes on by its breakpoint.
            (Ok(_), Policy::Linux61) => self.region_of(guest, point, Policy::Best).ok(),
            (Err(_), _) => None,
        };
        let written = match (carried, point.slot) {
            (Some(region), Some(_)) if point.region == Some(region) => Ok(Some(region)),
            (Some(region), Some(slot)) => self.write_detour(guest, &region, slot.detour()).map(|()| Some(region)),
            _ => Ok(None),
        };
        let Some(point) = self.points.get_mut(number) else { return false };
        let answer = answer.and_then(|region| written.map(|written| (region, written)));
        match answer {
            Ok((region, written)) => {
                (point.region, point.covers, point.obstacle) = (written, region.end() - region.start(), None);
                true
            }
            Err(refusal) => {
                (point.jump, point.obstacle) = (Jump::Plain, Some(refusal));
                false
            }
        }
    }

    fn write_detour(&self, guest: &mut dyn Guest, region: &Region, at: u64) -> Result<(), Refusal> {
        let table = self.isa.detour.ok_or(Rule::NoDetours.refusal())?;
        if guest.any_cpu_inside(at..at + LONGEST) {
            return Err(Refusal::new(Errno::EBUSY, "a CPU is still in the detour that stood here before"));
        }
        let code = detour::lean(self.isa, table, region, at)?;
        let displaced = (region.end() - region.start()) as u8;
        let (lead, jump) = (table.lead.len() as u8, table.jump_length as u8);
        guest.window_write(at, code.bytes(), Window::Detour { origin: region.start(), displaced, lead, jump });
        Ok(())
    }

    fn region_of(&self, guest: &dyn Guest, point: &Point, policy: Policy) -> Result<Region, Refusal> {
        let symbol = guest.symbol_at(point.address()).ok_or(Rule::NoRoom.refusal())?;
        let function = symbol.start..symbol.start + symbol.size;
        let mut text = Text { policy, parts: other_parts(guest, &symbol.name), ..self.text_around(guest) };
        region::region(self.isa, policy, function, point.address(), &mut text)
    }

    /// The guest's text, probes taken out, with what is known about it.
    pub(crate) fn text_around<'a>(&'a self, guest: &'a dyn Guest) -> Text<'a> {
        Text { engine: self, guest, policy: self.policy, parts: Vec::new() }
    }

    /// Takes a jump back, or the point out of the queue; the breakpoint stays.
    pub(crate) fn unoptimise(&mut self, guest: &mut dyn Guest, number: u32, obstacle: Refusal) {
        let Some(table) = self.isa.detour else { return };
        let isa = self.isa;
        let Some(point) = self.points.get_mut(number) else { return };
        point.obstacle = Some(obstacle);
        if core::mem::take(&mut point.jump) == Jump::Optimised
            && let Err(refusal) = take_jump_back(guest, table, (isa.breakpoint_over)(&point.insn), point)
        {
            guest.log(&refusal.why);
        }
    }

    /// An address is about to get a breakpoint: jumps over it give way.
    pub(crate) fn make_way(&mut self, guest: &mut dyn Guest, address: u64) {
        for number in self.around(address) {
            self.unoptimise(guest, number, NEIGHBOUR);
        }
    }

    /// An address has lost its breakpoint: those whose jump would stand over it are tried again.
    pub(crate) fn retry_around(&mut self, guest: &mut dyn Guest, address: u64) {
        for number in self.around(address) {
            self.consider(guest, number);
        }
    }

    /// The points whose region has this address inside.
    fn around(&self, address: u64) -> Vec<u32> {
        let before = self.points.within(address.saturating_sub(LONGEST)..address);
        let covers = |number: &u32| self.points.get(*number).is_some_and(|point| point.address() + point.covers > address);
        before.filter(covers).collect()
    }

    /// An instruction of the region other than the first has faulted in the detour, and the guest will come back to the original:
    /// the jump must not be there then. It comes again when nobody remembers that address.
    pub(crate) fn give_way_to_fault(&mut self, cpu: &mut dyn Cpu, number: u32) {
        let Some(table) = self.isa.detour else { return };
        let breakpoint_over = self.isa.breakpoint_over;
        let Some(point) = self.points.get_mut(number) else { return };
        let (Some(region), Jump::Optimised) = (point.region, point.jump) else { return };
        let breakpoint = breakpoint_over(&point.insn);
        let rest = &region.bytes()[breakpoint.len()..table.jump_length as usize];
        let at = point.address();
        let written = cpu.patch_text(at, breakpoint).and_then(|()| cpu.patch_text(at + breakpoint.len() as u64, rest));
        if written.is_ok() {
            let now = cpu.now();
            point.jump = Jump::Optimising { not_before: now, tries: 0 };
            self.optimizer.kick(now);
        }
    }
}

/// Breakpoint first: it stands there already; then the rest of the jump, then its first bytes.
fn write_jump(guest: &mut dyn Guest, table: &Detour, point: &mut Point) -> Result<(), Refusal> {
    let (Some(region), Some(slot)) = (&point.region, point.slot) else { return Ok(()) };
    let jump = (table.jump)(&point.insn, slot.detour()).ok_or(Rule::OutOfReach.refusal())?;
    let breakpoint = (guest.isa().breakpoint_over)(&point.insn);
    let split = breakpoint.len();
    let mut now = [0; LONGEST as usize];
    let now = &mut now[..region.bytes().len()];
    let unchanged =
        guest.read_text(point.address(), now).is_ok() && now[..split] == *breakpoint && now[split..] == region.bytes()[split..];
    if !unchanged {
        return Err(Refusal::new(Errno::EBUSY, "the guest has changed the text under the jump"));
    }
    let length = table.jump_length as usize;
    let fault = |fault: Fault| Refusal::because(Errno::EINVAL, format!("the text cannot be changed: {fault}"));
    guest.patch_text(point.address() + split as u64, &jump[split..length]).map_err(fault)?;
    guest.patch_text(point.address(), &jump[..split]).map_err(fault)?;
    point.jump = Jump::Optimised;
    Ok(())
}

/// Breakpoint first, then the original bytes behind it.
fn take_jump_back(guest: &mut dyn Guest, table: &Detour, breakpoint: &[u8], point: &Point) -> Result<(), Refusal> {
    let (Some(region), Some(slot)) = (&point.region, point.slot) else { return Ok(()) };
    let (at, length, split) = (point.address(), table.jump_length as usize, breakpoint.len());
    let mut now = [0; detour::JUMP_MOST];
    let now = &mut now[..length];
    let jump = (table.jump)(&point.insn, slot.detour());
    let unchanged = guest.read_text(at, now).is_ok() && jump.is_some_and(|jump| now[..] == jump[..length]);
    if !unchanged {
        let why = format!("the guest has changed the text at {at:#x} under an optimised probe; it stays as it is");
        return Err(Refusal::because(Errno::EBUSY, why));
    }
    let fault = |fault: Fault| Refusal::because(Errno::EINVAL, format!("the text cannot be changed: {fault}"));
    guest.patch_text(at, breakpoint).map_err(fault)?;
    guest.patch_text(at + split as u64, &region.bytes()[split..length]).map_err(fault)
}

/// What compilers split off a function, or split it off from.
fn other_parts(guest: &dyn Guest, name: &str) -> Vec<Range<u64>> {
    let other = name.strip_suffix(SPLIT_OFF).map_or_else(|| format!("{name}{SPLIT_OFF}"), ToString::to_string);
    guest.symbol(&other).map(|symbol| symbol.start..symbol.start + symbol.size).into_iter().collect()
}

/// The guest's text as the checker sees it.
pub(crate) struct Text<'a> {
    engine: &'a Engine,
    guest: &'a dyn Guest,
    policy: Policy,
    parts: Vec<Range<u64>>,
}

impl Surroundings for Text<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.engine.read_original(self.guest, address, into)
    }
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.guest.expected_fault(range)
    }
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.guest.fixup(range)
    }
    fn reserved(&self, mut range: Range<u64>) -> Option<(u64, &'static str)> {
        range.find_map(|at| {
            let what = match self.guest.site_at(at)? {
                // While ftrace does not use it, it is a nop like any other; while it does, it is a call and does not move.
                Site::Ftrace if self.policy == Policy::Linux61 => "an ftrace site",
                Site::JumpLabel => "a static key's jump",
                Site::StaticCall => "a static call",
                Site::SmpLock if forgets_lock_prefixes(self.guest, self.policy) => return None,
                Site::SmpLock => "a LOCK prefix",
                Site::Ftrace | Site::Bug | Site::Gate => return None,
            };
            Some((at, what))
        })
    }
    fn indirect_thunks(&self) -> Range<u64> {
        self.guest.indirect_thunks()
    }
    fn other_parts(&self) -> &[Range<u64>] {
        &self.parts
    }
}

#[cfg(test)]
mod tests;
