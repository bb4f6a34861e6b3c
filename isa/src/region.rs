//! Finds the region of an optimised probe: the whole instructions that its jump overwrites. Proves that no jump, fault
//! fixup or kernel patch can enter or change the middle of the region. Shared by all ISAs.
//!
//! The guest's text is read through the trait [`Surroundings`]. Each reason against a jump is a [`Rule`] with a name;
//! the refusal names the instruction or place that it is about.

use crate::arch::Isa;
use crate::detour::{self, Detour, Far};
use crate::function::{Decoded, decode_at, walk_around};
use crate::insn::{Flow, Insn};
use crate::mem::Fault;
use crate::plan::{Errno, Policy, Refusal};
use crate::regs::Reg;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// The guest's text, and the kernel's tables about it.
pub trait Surroundings {
    /// Fills a buffer with the text at an address, without our probes.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// The decoded instructions of a range, data taken for code, if they are already known.
    fn decoded(&mut self, range: &Range<u64>) -> Option<Arc<Decoded>> {
        let _ = range;
        None
    }
    /// Whether the address is in code, not in data between code.
    fn is_code(&self, address: u64) -> bool {
        let _ = address;
        true
    }
    /// The first instruction of a range that the exception table allows to fault.
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first address of a range to which the exception table sends execution after a fault.
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first place of a range that the kernel itself patches, and what it is.
    fn reserved(&self, range: Range<u64>) -> Option<(u64, &'static str)> {
        let _ = range;
        None
    }
    /// The range of the thunks for indirect jumps (retpolines).
    fn indirect_thunks(&self) -> Range<u64> {
        0..0
    }
    /// Parts of the same function that the compiler placed elsewhere (`.cold`). They may jump back into it.
    fn other_parts(&self) -> &[Range<u64>] {
        &[]
    }
}

/// A reason not to replace instructions by a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The ISA has no detours.
    NoDetours,
    /// The function ends before the jump would.
    NoRoom,
    /// The exception table lists an instruction.
    ExpectedFault,
    /// Execution may continue under the jump after a fault.
    Fixup,
    /// Some bytes cannot be decoded.
    Undecodable,
    /// An indirect jump may lead anywhere in the function.
    IndirectJump,
    /// A jump leads into the middle of the new one.
    JumpInto,
    /// A call leads into the middle of the new jump.
    CallInto,
    /// A jump or call leads into the middle of an instruction of the function.
    JumpBetween,
    /// The jump would be in the delay slot of a branch.
    DelaySlot,
    /// An instruction cannot run in a detour.
    Unmovable,
    /// The kernel patches an instruction of the region.
    Reserved,
    /// The instructions are longer than a detour.
    TooLong,
    /// The detour is out of the jump's reach.
    OutOfReach,
    /// Only a jump through a register reaches the detour, and all registers are in use.
    NoRegister,
}

impl Rule {
    /// All rules, in the order in which they are checked.
    #[rustfmt::skip]
    pub const ALL: &'static [Rule] = &[
        Rule::NoDetours, Rule::NoRoom, Rule::ExpectedFault, Rule::Undecodable, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto,
        Rule::JumpBetween, Rule::DelaySlot, Rule::Fixup, Rule::Unmovable, Rule::TooLong, Rule::Reserved, Rule::OutOfReach,
        Rule::NoRegister,
    ];

    /// The name of the rule, the errno that Linux uses internally, and the sentence for the user.
    #[rustfmt::skip]
    const fn facts(self) -> (&'static str, Errno, &'static str) {
        match self {
            Rule::NoDetours =>     ("no-detours",     Errno::EOPNOTSUPP, "this ISA's probes are not optimised"),
            Rule::NoRoom =>        ("no-room",        Errno::EILSEQ,     "the function ends before the jump would"),
            Rule::ExpectedFault => ("expected-fault", Errno::EILSEQ,     "the exception table refers to an instruction here by its address"),
            Rule::Fixup =>         ("fixup",          Errno::EILSEQ,     "execution may continue in the middle of the jump after a fault"),
            Rule::Undecodable =>   ("undecodable",    Errno::EILSEQ,     "some bytes cannot be decoded, so the code behind them is unknown"),
            Rule::IndirectJump =>  ("indirect-jump",  Errno::EILSEQ,     "an indirect jump may lead into the middle of the jump"),
            Rule::JumpInto =>      ("jump-into",      Errno::EILSEQ,     "another jump leads into the middle of the jump"),
            Rule::CallInto =>      ("call-into",      Errno::EILSEQ,     "a call leads into the middle of the jump"),
            Rule::JumpBetween =>   ("jump-between",   Errno::EILSEQ,     "a jump into the middle of an instruction means that the code was decoded wrongly"),
            Rule::DelaySlot =>     ("delay-slot",     Errno::EINVAL,     "a jump in a delay slot does not lead to its target"),
            Rule::Unmovable =>     ("unmovable",      Errno::EINVAL,     "an instruction that the jump would overwrite cannot run in a detour"),
            Rule::TooLong =>       ("too-long",       Errno::EINVAL,     "the instructions that the jump would overwrite do not fit into a detour"),
            Rule::Reserved =>      ("reserved",       Errno::EBUSY,      "the kernel itself patches an instruction that the jump would overwrite"),
            Rule::OutOfReach =>    ("out-of-reach",   Errno::ERANGE,     "the detour is out of reach of a jump"),
            Rule::NoRegister =>    ("no-register",    Errno::ERANGE,     "only a jump through a register reaches the detour, and the function uses all of them here"),
        }
    }

    /// The name in lists.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The refusal by this rule.
    pub const fn refusal(self) -> Refusal {
        let (_, errno, why) = self.facts();
        Refusal::new(errno, why)
    }

    /// The rule that made a refusal.
    pub fn of(refusal: &Refusal) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| refusal.errno == rule.facts().1 && refusal.why.starts_with(rule.facts().2))
    }

    fn about(self, what: &str, address: u64) -> Refusal {
        let (_, errno, why) = self.facts();
        Refusal::because(errno, format!("{why}: {what} at {address:#x}"))
    }
}

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
    let table = isa.detour.filter(|table| table.in_linux || !policy.is_linux()).ok_or(Rule::NoDetours.refusal())?;
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

/// Bytes of text with given tables, for tests and fuzzers.
#[derive(Clone, Debug, Default)]
pub struct PlainText {
    /// The address of the first byte.
    pub start: u64,
    /// The text.
    pub bytes: Vec<u8>,
    /// Exception table: instructions that may fault, and where execution then continues.
    pub fixups: Vec<(u64, u64)>,
    /// Places that the kernel patches.
    pub patched: Vec<u64>,
    /// The range of the thunks for indirect jumps.
    pub thunks: Range<u64>,
    /// Other parts of the function.
    pub parts: Vec<Range<u64>>,
}

impl Surroundings for PlainText {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let fault = |address| Fault { address, write: false };
        let from = address.checked_sub(self.start).ok_or(fault(address))? as usize;
        let end = from.checked_add(into.len()).ok_or(fault(address))?;
        let bytes = self.bytes.get(from..end).ok_or(fault(self.start.wrapping_add(self.bytes.len() as u64)))?;
        into.copy_from_slice(bytes);
        Ok(())
    }
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        self.fixups.iter().map(|(at, _)| *at).filter(|at| range.contains(at)).min()
    }
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        self.fixups.iter().map(|(_, to)| *to).filter(|to| range.contains(to)).min()
    }
    fn reserved(&self, range: Range<u64>) -> Option<(u64, &'static str)> {
        self.patched.iter().copied().filter(|at| range.contains(at)).min().map(|at| (at, "a place that is patched"))
    }
    fn indirect_thunks(&self) -> Range<u64> {
        self.thunks.clone()
    }
    fn other_parts(&self) -> &[Range<u64>] {
        &self.parts
    }
}
