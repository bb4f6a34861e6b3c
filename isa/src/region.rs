//! The region of an optimised probe: the whole instructions that its jump overwrites, and the proof that nothing can
//! come out in the middle of that jump. Written once for all ISAs; what an instruction does is the ISA's to say.
//!
//! Pure: the guest is a [`Surroundings`]. Each reason is a [`Rule`] with a name, and a refusal says which instruction
//! or site it is about.

use crate::arch::Isa;
use crate::detour::{self, Detour};
use crate::function::{Decoded, decode_at, walk_around};
use crate::insn::{Flow, Insn};
use crate::mem::Fault;
use crate::plan::{Errno, Policy, Refusal};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// What is known about a guest's text besides its bytes.
pub trait Surroundings {
    /// Fills a buffer with the text at an address, probes taken out.
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault>;
    /// The instructions of a range, data taken for code, if they have been decoded already.
    fn decoded(&mut self, range: &Range<u64>) -> Option<Arc<Decoded>> {
        let _ = range;
        None
    }
    /// Whether code stands there, and no data among it.
    fn is_code(&self, address: u64) -> bool {
        let _ = address;
        true
    }
    /// The first instruction in a range that the exception table expects to fault.
    fn expected_fault(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first place in a range where the exception table lets execution go on after a fault.
    fn fixup(&self, range: Range<u64>) -> Option<u64> {
        let _ = range;
        None
    }
    /// The first place in a range that the kernel patches itself, and what it is.
    fn reserved(&self, range: Range<u64>) -> Option<(u64, &'static str)> {
        let _ = range;
        None
    }
    /// Code through which indirect jumps are made.
    fn indirect_thunks(&self) -> Range<u64> {
        0..0
    }
    /// Other parts of the same function, split off by the compiler: they may jump into it.
    fn other_parts(&self) -> &[Range<u64>] {
        &[]
    }
}

/// Reasons not to replace instructions by a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The ISA has no detours.
    NoDetours,
    /// The function ends before the jump would.
    NoRoom,
    /// An exception table entry.
    ExpectedFault,
    /// A place where execution goes on after a fault lies under the jump.
    Fixup,
    /// Bytes that are no instruction.
    Undecodable,
    /// It may lead anywhere in the function.
    IndirectJump,
    /// A jump into the middle of the new one.
    JumpInto,
    /// A call into it.
    CallInto,
    /// A jump or call into the middle of some instruction of the function.
    JumpBetween,
    /// The jump would stand in the delay slot of a branch.
    DelaySlot,
    /// An instruction that cannot run elsewhere among others.
    Unmovable,
    /// The kernel patches this place.
    Reserved,
    /// More bytes than a detour holds.
    TooLong,
    /// No jump leads so far.
    OutOfReach,
}

impl Rule {
    /// Every rule, in the order in which they are tried.
    #[rustfmt::skip]
    pub const ALL: &'static [Rule] = &[
        Rule::NoDetours, Rule::NoRoom, Rule::ExpectedFault, Rule::Undecodable, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto,
        Rule::JumpBetween, Rule::DelaySlot, Rule::Fixup, Rule::Unmovable, Rule::TooLong, Rule::Reserved, Rule::OutOfReach,
    ];

    /// Its name, the errno that Linux has for it inside, and the sentence about it.
    #[rustfmt::skip]
    const fn facts(self) -> (&'static str, Errno, &'static str) {
        match self {
            Rule::NoDetours =>     ("no-detours",     Errno::EOPNOTSUPP, "this ISA's probes are not optimised"),
            Rule::NoRoom =>        ("no-room",        Errno::EILSEQ,     "the function ends before the jump would"),
            Rule::ExpectedFault => ("expected-fault", Errno::EILSEQ,     "an instruction that is expected to fault is found by its address"),
            Rule::Fixup =>         ("fixup",          Errno::EILSEQ,     "execution may go on in the middle of the jump after a fault"),
            Rule::Undecodable =>   ("undecodable",    Errno::EILSEQ,     "bytes that are no instruction hide what is behind them"),
            Rule::IndirectJump =>  ("indirect-jump",  Errno::EILSEQ,     "an indirect jump may lead into the middle of the jump"),
            Rule::JumpInto =>      ("jump-into",      Errno::EILSEQ,     "another jump leads into the middle of it"),
            Rule::CallInto =>      ("call-into",      Errno::EILSEQ,     "a call leads into the middle of the jump"),
            Rule::JumpBetween =>   ("jump-between",   Errno::EILSEQ,     "a jump into the middle of an instruction makes other instructions of the bytes"),
            Rule::DelaySlot =>     ("delay-slot",     Errno::EINVAL,     "a jump in a delay slot does not lead where it says"),
            Rule::Unmovable =>     ("unmovable",      Errno::EINVAL,     "an instruction in its place cannot run in a detour"),
            Rule::TooLong =>       ("too-long",       Errno::EINVAL,     "the instructions in its place are longer than a detour"),
            Rule::Reserved =>      ("reserved",       Errno::EBUSY,      "the kernel itself patches an instruction in its place"),
            Rule::OutOfReach =>    ("out-of-reach",   Errno::ERANGE,     "no jump reaches the detour"),
        }
    }

    /// What lists call it.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The refusal that it gives.
    pub const fn refusal(self) -> Refusal {
        let (_, errno, why) = self.facts();
        Refusal::new(errno, why)
    }

    /// The rule by which a refusal was given.
    pub fn of(refusal: &Refusal) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| refusal.errno == rule.facts().1 && refusal.why.starts_with(rule.facts().2))
    }

    fn about(self, what: &str, address: u64) -> Refusal {
        let (_, errno, why) = self.facts();
        Refusal::because(errno, format!("{why}: {what} at {address:#x}"))
    }
}

/// The whole instructions that a jump overwrites at least in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    insns: [Insn; MOST],
    count: u8,
    bytes: [u8; detour::LONGEST],
    len: u8,
}

/// The most instructions under one jump: one for each of its bytes.
const MOST: usize = detour::JUMP_MOST;

impl Region {
    fn empty(address: u64) -> Region {
        Region { insns: [Insn::new(address, &[], Flow::Next); MOST], count: 0, bytes: [0; detour::LONGEST], len: 0 }
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

    /// Where they begin.
    pub fn start(&self) -> u64 {
        self.insns[0].address
    }

    /// The address behind them.
    pub fn end(&self) -> u64 {
        self.start().wrapping_add(u64::from(self.len))
    }
}

/// The region of a probe at `address` in a function, if a jump may stand there.
pub fn region(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    address: u64,
    around: &mut dyn Surroundings,
) -> Result<Region, Refusal> {
    region_by(isa, policy, function, address, around, &|_| true)
}

/// The same by those rules only that `applies` names: so that a test can show what each rule is good for.
#[doc(hidden)]
pub fn region_by(
    isa: &'static Isa,
    policy: Policy,
    function: Range<u64>,
    address: u64,
    around: &mut dyn Surroundings,
    applies: &dyn Fn(Rule) -> bool,
) -> Result<Region, Refusal> {
    let table = isa.detour.filter(|table| table.in_linux || policy == Policy::Best).ok_or(Rule::NoDetours.refusal())?;
    let covers_one = table.instructions_are_whole && {
        let insn = decode_at(isa, address, &mut |at, into: &mut [u8]| around.read(at, into));
        insn.is_ok_and(|insn| insn.length() >= table.jump_length)
    };
    let question = Question { isa, table, policy, address, covers_one, applies };
    if applies(Rule::NoRoom) && function.end.saturating_sub(address) < table.jump_length {
        return Err(Rule::NoRoom.about("the next one begins", function.end));
    }
    if !question.replaces_one_instruction() {
        question.look_around(function, around)?;
    }
    question.region(around)
}

struct Question<'a> {
    isa: &'static Isa,
    table: &'static Detour,
    policy: Policy,
    address: u64,
    /// One instruction is as long as the jump: no other one begins inside.
    covers_one: bool,
    applies: &'a dyn Fn(Rule) -> bool,
}

/// What a look through a function has met: where its instructions begin, where they lead (from, to), and how far it
/// came.
#[derive(Default)]
struct Seen {
    starts: Vec<u64>,
    targets: Vec<(u64, u64)>,
    walked: Vec<Range<u64>>,
}

impl Question<'_> {
    /// Where instructions begin as far apart as the jump is long there is no place inside of it to come to.
    fn replaces_one_instruction(&self) -> bool {
        self.isa.alignment >= self.table.jump_length
    }

    fn look_around(&self, function: Range<u64>, around: &mut dyn Surroundings) -> Result<(), Refusal> {
        if (self.applies)(Rule::ExpectedFault)
            && self.policy == Policy::Linux61
            && let Some(at) = around.expected_fault(function.clone())
        {
            return Err(Rule::ExpectedFault.about("the one", at));
        }
        let mut seen = Seen::default();
        self.look_through(function, around, &mut seen)?;
        if self.policy == Policy::Linux61 {
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

    /// Where nothing may come in: behind the jump's first byte. Linux 6.1 counts the byte behind the jump too.
    fn inside(&self) -> Range<u64> {
        let end = self.address.wrapping_add(self.table.jump_length);
        self.address.wrapping_add(1)..if self.policy == Policy::Linux61 { end.wrapping_add(1) } else { end }
    }

    /// Does anything in this part of the function lead into the jump?
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
                Flow::Branch(target) if self.policy == Policy::Linux61 && thunks.contains(&target) => Rule::IndirectJump,
                Flow::Jump(target) | Flow::Branch(target) if inside.contains(&target) => Rule::JumpInto,
                // Linux 6.1 does not look at calls.
                Flow::Call(target) if self.policy == Policy::Best && inside.contains(&target) => Rule::CallInto,
                _ => continue,
            };
            if (self.applies)(rule) {
                return Err(rule.about("the one", insn.address));
            }
        }
        seen.walked.push(walked);
        Ok(())
    }

    /// The instructions under the jump, each fit to run elsewhere.
    fn region(&self, around: &mut dyn Surroundings) -> Result<Region, Refusal> {
        let mut region = Region::empty(self.address);
        while u64::from(region.len) < self.table.jump_length {
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
        if self.policy == Policy::Best {
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

/// Plain bytes with nothing around them, for tests and fuzzers.
#[derive(Clone, Debug, Default)]
pub struct PlainText {
    /// Where the bytes begin.
    pub start: u64,
    /// The bytes of the text.
    pub bytes: Vec<u8>,
    /// Instructions that are expected to fault, and where execution goes on then.
    pub fixups: Vec<(u64, u64)>,
    /// Places that the kernel patches.
    pub patched: Vec<u64>,
    /// Code through which indirect jumps are made.
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
