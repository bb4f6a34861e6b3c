//! Finds the region of an optimised probe: the whole instructions that its jump overwrites. Proves that no jump, fault
//! fixup or kernel patch can enter or change the middle of the region. Shared by all ISAs.
//!
//! The guest's text is read through the trait [`Surroundings`]. Each reason against a jump is a [`Rule`] with a name;
//! the refusal names the instruction or place that it is about. [`region`] and [`region_to`] return a [`Region`].

mod rule;
mod surroundings;

pub use rule::Rule;
pub use surroundings::{PlainText, Surroundings};

use crate::arch::Isa;
use crate::detour::{self, Detour, Far};
use crate::function::{decode_at, walk_around};
use crate::insn::{Flow, Insn};
use crate::plan::{Policy, Refusal};
use crate::regs::Reg;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

/// The whole instructions that a jump overwrites, at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    insns: [Insn; MOST_INSNS],
    count: u8,
    bytes: [u8; detour::LONGEST],
    len: u8,
    far: Option<[Reg; 2]>,
}

/// The most instructions under one jump: one per byte.
const MOST_INSNS: usize = detour::JUMP_MOST;

impl Region {
    fn empty(address: u64) -> Region {
        Region {
            insns: [Insn::new(address, &[], Flow::Next); MOST_INSNS],
            count: 0,
            bytes: [0; detour::LONGEST],
            len: 0,
            far: None,
        }
    }

    fn push(&mut self, insn: Insn) -> Option<()> {
        let (from, end) = (usize::from(self.len), usize::from(self.len) + insn.bytes().len());
        *self.insns.get_mut(usize::from(self.count))? = insn;
        self.bytes.get_mut(from..end)?.copy_from_slice(insn.bytes());
        (self.count, self.len) = (self.count + 1, end as u8);
        Some(())
    }

    /// The instructions.
    pub fn insns(&self) -> &[Insn] {
        &self.insns[..usize::from(self.count)]
    }

    /// The bytes of the instructions.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The registers of the jump and of the jump back, if these are far ones.
    pub fn far(&self) -> Option<[Reg; 2]> {
        self.far
    }

    /// The address of the first one.
    pub fn start(&self) -> u64 {
        self.insns[0].address
    }

    /// The address behind the last one.
    pub fn end(&self) -> u64 {
        self.start().wrapping_add(u64::from(self.len))
    }
}

/// The region of a probe at `address` in `function`, or the refusal if no jump may stand there.
pub fn region(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    address: u64,
    around: &mut dyn Surroundings,
) -> Result<Region, Refusal> {
    region_by(isa, policy, function, address, around, &|_| true)
}

/// The region of a probe at `address` whose detour is at `detour`. The jump is a far one if the ISA's first jump does not
/// reach the detour.
pub fn region_to(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    address: u64,
    detour: u64,
    around: &mut dyn Surroundings,
) -> Result<Region, Refusal> {
    region_to_by(isa, policy, function, (address, Some(detour)), around, &|_| true)
}

/// Like [`region`], with only those rules that `applies` accepts. Tests use it to show that each rule is necessary.
#[doc(hidden)]
pub fn region_by(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    address: u64,
    around: &mut dyn Surroundings,
    applies: &dyn Fn(Rule) -> bool,
) -> Result<Region, Refusal> {
    region_to_by(isa, policy, function, (address, None), around, applies)
}

/// Like [`region_to`], with only those rules that `applies` accepts. The jump goes from the first address to the second,
/// its detour. Without a detour's address the jump is the ISA's first one.
#[doc(hidden)]
pub fn region_to_by(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    (address, detour): (u64, Option<u64>),
    around: &mut dyn Surroundings,
    applies: &dyn Fn(Rule) -> bool,
) -> Result<Region, Refusal> {
    let table = isa.detour.filter(|table| table.in_linux || !policy.is_linux()).ok_or_else(|| no_detours(isa))?;
    let insn = decode_at(isa, address, &mut |at, into: &mut [u8]| around.read(at, into));
    let reaches = |detour: u64| insn.is_ok_and(|insn| (table.jump)(&insn, detour).is_some());
    let far = table.far.filter(|_| !policy.is_linux() && detour.is_some_and(|detour| !reaches(detour)));
    let length = far.map_or(table.jump_length, |far| far.jump_length);
    let covers_one = table.instructions_are_whole && insn.is_ok_and(|insn| insn.length() >= length);
    let question = Question { isa, table, policy, address, length, covers_one, applies };
    if applies(Rule::NoRoom) && function.end.saturating_sub(address) < length {
        return Err(Rule::NoRoom.about("the next one begins", function.end));
    }
    if !question.replaces_one_instruction() {
        question.look_around(function.clone(), around)?;
    }
    let mut region = question.region(around)?;
    if let Some(far) = far {
        region.far = Some(question.registers(far, &region, &function, around)?);
    }
    Ok(region)
}

/// The refusal on an ISA without detours, with its reason if there is one.
fn no_detours(isa: &Isa) -> Refusal {
    let (_, errno, why) = Rule::NoDetours.facts();
    match isa.no_detour {
        "" => Refusal::new(errno, why),
        reason => Refusal::because(errno, format!("{why}: {reason}")),
    }
}

struct Question<'a> {
    isa: &'static Isa,
    table: &'static Detour,
    policy: Policy,
    address: u64,
    /// Bytes in the jump.
    length: u64,
    /// The probed instruction is at least as long as the jump, so no other instruction starts under it.
    covers_one: bool,
    applies: &'a dyn Fn(Rule) -> bool,
}

/// The result of a walk through the parts of a function: starts of instructions, jumps and calls as (from, to), and the
/// ranges that were decoded.
#[derive(Default)]
struct Seen {
    starts: Vec<u64>,
    targets: Vec<(u64, u64)>,
    walked: Vec<Range<u64>>,
}

impl Question<'_> {
    /// True on ISAs where no instruction can start under the jump, because of their alignment.
    fn replaces_one_instruction(&self) -> bool {
        self.isa.alignment >= self.length
    }

    fn look_around(&self, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
        if (self.applies)(Rule::ExpectedFault)
            && self.policy.is_linux()
            && let Some(at) = around.expected_fault(function.clone())
        {
            return Err(Rule::ExpectedFault.about("the one", at));
        }
        let mut seen = Seen::default();
        self.look_through(function, around, &mut seen)?;
        if self.policy.is_linux() {
            return Ok(());
        }
        for part in around.other_parts().to_vec() {
            self.look_through(part, around, &mut seen)?;
        }
        seen.starts.sort_unstable();
        let is_between =
            |target: &u64| seen.walked.iter().any(|walked| walked.contains(target)) && seen.starts.binary_search(target).is_err();
        match seen.targets.iter().find(|(_, target)| is_between(target)) {
            Some((from, _)) if (self.applies)(Rule::JumpBetween) => Err(Rule::JumpBetween.about("the one", *from)),
            _ => Ok(()),
        }
    }

    /// Addresses under the jump that nothing may jump to: all but its first byte. Linux 6.1 also counts the byte behind
    /// it.
    fn inside(&self) -> Range<u64> {
        let end = self.address.wrapping_add(self.length);
        self.address.wrapping_add(1)..if self.policy.is_linux() { end.wrapping_add(1) } else { end }
    }

    /// Fails if something in this part of the function jumps under the new jump, or may do so.
    fn look_through(&self, part: Range<u64>, around: &mut dyn Surroundings, seen: &mut Seen) -> Result<(), Refusal> {
        let (inside, thunks) = (self.inside(), around.indirect_thunks());
        let mut walked = part.start..part.start;
        for step in walk_around(self.isa, part, around) {
            let insn = match step {
                Ok(insn) => insn,
                Err(what) if (self.applies)(Rule::Undecodable) => return Err(Rule::Undecodable.about("those", what.address)),
                Err(_) => break,
            };
            seen.starts.push(insn.address);
            walked.end = insn.next();
            let flow = (self.table.flow)(&insn, self.policy);
            seen.targets.extend(flow.target().map(|target| (insn.address, target)));
            let rule = match flow {
                Flow::IndirectJump | Flow::IndirectBranch if self.covers_one => continue,
                Flow::IndirectJump | Flow::IndirectBranch => Rule::IndirectJump,
                Flow::Jump(target) if thunks.contains(&target) => Rule::IndirectJump,
                Flow::Branch(target) if self.policy.is_linux() && thunks.contains(&target) => Rule::IndirectJump,
                Flow::Jump(target) | Flow::Branch(target) if inside.contains(&target) => Rule::JumpInto,
                // Linux 6.1 ignores calls.
                Flow::Call(target) if !self.policy.is_linux() && inside.contains(&target) => Rule::CallInto,
                _ => continue,
            };
            if (self.applies)(rule) {
                return Err(rule.about("the one", insn.address));
            }
        }
        seen.walked.push(walked);
        Ok(())
    }

    /// The registers of a far jump and of its jump back.
    fn registers(
        &self,
        far: &Far,
        region: &Region,
        function: &Range<u64>,
        around: &mut dyn Surroundings,
    ) -> Result<[Reg; 2], Refusal> {
        (far.free)([region.start(), region.end()], function, around).ok_or(Rule::NoRegister.about("it begins", function.start))
    }

    /// Collects the instructions under the jump, and checks that each may run in a detour.
    fn region(&self, around: &mut dyn Surroundings) -> Result<Region, Refusal> {
        let mut region = Region::empty(self.address);
        while u64::from(region.len) < self.length {
            let at = self.address.wrapping_add(u64::from(region.len));
            let insn = decode_at(self.isa, at, &mut |at, into: &mut [u8]| around.read(at, into));
            let insn = insn.map_err(|what| Rule::Undecodable.about("those", what.address))?;
            if (self.applies)(Rule::DelaySlot) && (self.isa.in_delay_slot)(&insn, around).is_some() {
                return Err(Rule::DelaySlot.about("that", at));
            }
            if (self.applies)(Rule::Unmovable) && !(self.table.may_move)(&insn, self.policy) {
                return Err(Rule::Unmovable.about("the one", at));
            }
            region.push(insn).ok_or(Rule::TooLong.refusal())?;
        }
        let whole = region.start()..region.end();
        if !self.policy.is_linux() {
            if (self.applies)(Rule::Fixup)
                && let Some(at) = around.fixup(self.inside())
            {
                return Err(Rule::Fixup.about("namely", at));
            }
            if (self.applies)(Rule::ExpectedFault)
                && let Some(at) = around.expected_fault(whole.clone())
            {
                return Err(Rule::ExpectedFault.about("the one", at));
            }
        }
        if (self.applies)(Rule::Reserved)
            && let Some((at, what)) = around.reserved(whole)
        {
            return Err(Rule::Reserved.about(what, at));
        }
        Ok(region)
    }
}
