//! The verdict on an instruction: how it runs when its probe is hit, or why it may not be probed.

use crate::arch::Emulation;
use crate::regs::Reg;
use alloc::borrow::Cow;
use alloc::string::String;

/// Whose decisions to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// What is right: accepts what can be proved, refuses what Linux accepts but breaks.
    #[default]
    Best,
    /// What Linux 6.1 decides, its known defects included.
    Linux61,
}

/// How a probed instruction is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Computed by the engine; the CPU never sees it (its copy in the slot raises the fault when the computation would
    /// fault).
    Emulate(Emulation),
    /// Its copy may be followed by a jump back: one trap a hit.
    Boost,
    /// Its copy is followed by a second breakpoint.
    Step,
}

/// What is left to do of an instruction that has been computed; the pc is where execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing is left to do.
    Onwards,
    /// The copy in the slot runs first, which is that of the instruction in a delay slot; it begins as soon as all is
    /// computed. Should it fault, nothing has happened, and a register that holds the way back for a callee already
    /// gets its value again.
    Copy {
        /// That register, and what it held.
        undo: Option<(Reg, u64)>,
    },
    /// What stands at the pc runs there, in the delay slot of what was computed, and execution then goes on elsewhere.
    Slot {
        /// There.
        then: u64,
    },
}

/// What stands behind the copy of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// A second breakpoint: the engine is told when the copy has run.
    Breakpoint,
    /// A jump back to the instruction behind the original.
    JumpBack,
}

/// The bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The copy and its tail.
    pub bytes: [u8; 32],
    /// How many of them count.
    pub len: usize,
    /// How many belong to the displaced instruction.
    pub displaced: usize,
}

impl Copy {
    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A "no" to a person: the errno that Linux would give, and a sentence that says why and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// By name; numbers differ between guests.
    pub errno: Errno,
    /// One sentence.
    pub why: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with a fixed sentence.
    pub const fn new(errno: Errno, why: &'static str) -> Self {
        Refusal { errno, why: Cow::Borrowed(why) }
    }

    /// A refusal whose sentence names what was asked for.
    pub fn because(errno: Errno, why: String) -> Self {
        Refusal { errno, why: Cow::Owned(why) }
    }
}

/// A reason for which an ISA refuses instructions.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// What lists call it.
    pub name: &'static str,
    /// What Linux answers, or would answer.
    pub errno: Errno,
    /// What a person is told.
    pub why: &'static str,
}

impl Rule {
    pub(crate) const fn new(name: &'static str, errno: Errno, why: &'static str) -> Rule {
        Rule { name, errno, why }
    }

    /// The refusal that it gives.
    pub const fn refusal(&self) -> Refusal {
        Refusal::new(self.errno, self.why)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.errno.name(), self.why)
    }
}

impl core::error::Error for Refusal {}

macro_rules! errnos {
    ($($name:ident),* $(,)?) => {
        /// The error numbers that Linux's kprobes gives.
        #[allow(missing_docs, clippy::upper_case_acronyms)] // their names are their meaning
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Errno { $($name),* }

        impl Errno {
            /// `EINVAL`
            pub const fn name(self) -> &'static str {
                match self { $(Errno::$name => stringify!($name)),* }
            }
            /// The errno of that name.
            pub fn from_name(name: &str) -> Option<Errno> {
                match name { $(stringify!($name) => Some(Errno::$name),)* _ => None }
            }
        }
    };
}

errnos! {
    EPERM, ENOENT, E2BIG, ENOMEM, EBUSY, EEXIST, ENODEV, EINVAL, ENOSPC, ERANGE, EILSEQ, EOPNOTSUPP, EADDRNOTAVAIL, ECANCELED,
}
