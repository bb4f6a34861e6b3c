//! The reasons not to replace instructions by a jump. Each [`Rule`] has a name for lists, an errno and a sentence.
//!
//! The search for a region makes a [`Refusal`] of the rule that it breaks, with the address that is in the way. Lists of
//! probes find the rule of a refusal again by [`Rule::of`].

use crate::plan::{Errno, Refusal};
use alloc::format;

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
    pub(super) const fn facts(self) -> (&'static str, Errno, &'static str) {
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

    pub(super) fn about(self, what: &str, address: u64) -> Refusal {
        let (_, errno, why) = self.facts();
        Refusal::because(errno, format!("{why}: {what} at {address:#x}"))
    }
}
