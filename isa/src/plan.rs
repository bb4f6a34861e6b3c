//! The decision about an instruction: how it runs when its probe is hit ([`Plan`]), or why it may not be probed
//! ([`Refusal`], [`Rule`]).

use crate::arch::Emulation;
use crate::insn::Insn;
use crate::linux::Release;
use crate::regs::Reg;
use alloc::borrow::Cow;
use alloc::string::String;

/// Whose rules decide about a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Ours: accept what provably works, refuse what Linux accepts although it breaks the guest.
    #[default]
    Best,
    /// Like [`Policy::Best`], and the kernel's own list of forbidden code does not count: entry code, `noinstr` functions, the
    /// handlers of breakpoints and page faults. Linux forbids these because its own handler would recurse; the machine's
    /// traps are no exceptions of the guest.
    Outside,
    /// The rules of a release of Linux, with its known defects. [`crate::linux::Linux::releases`] lists the releases whose
    /// decisions are known on an ISA. Another release decides like the nearest known one.
    Linux(Release),
}

impl Policy {
    /// The rules of Linux 6.1.
    pub const LINUX_6_1: Policy = Policy::Linux(Release::V6_1);
    /// The rules of Linux 6.12.
    pub const LINUX_6_12: Policy = Policy::Linux(Release::V6_12);
    /// The rules of Linux 7.2.
    pub const LINUX_7_2: Policy = Policy::Linux(Release::V7_2);

    /// Whether these are the rules of a release of Linux.
    pub const fn is_linux(self) -> bool {
        matches!(self, Policy::Linux(_))
    }
}

/// The way in which a probed instruction is executed at a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The engine emulates it. Its copy runs only if the emulation faults, so that the CPU raises the fault.
    Emulate(Emulation),
    /// A jump back follows the copy: one trap per hit.
    Boost,
    /// A second breakpoint follows the copy: two traps per hit.
    Step,
}

/// The step after an emulation. The pc is already where execution continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Onwards,
    /// Run the copy in the slot, which is that of the instruction in the branch's delay slot, then continue at the pc.
    /// If the copy faults, the branch has not happened: its change of the link register is undone.
    Copy {
        /// The link register and its old value.
        undo: Option<(Reg, u64)>,
    },
    /// Run the instruction at the pc, which is in the delay slot of the emulated branch, then continue elsewhere.
    DelaySlot {
        /// The address to continue at.
        then: u64,
    },
}

/// The code behind the copy of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// A second breakpoint, which tells the engine that the copy has run.
    Breakpoint,
    /// A jump to the instruction behind the original.
    JumpBack,
}

/// A copy of an instruction, relocated, with its tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Buffer with the copy and its tail.
    pub bytes: [u8; 32],
    /// Bytes of the buffer that are used.
    pub len: usize,
    /// Bytes of the displaced instruction, without the tail.
    pub displaced: usize,
}

impl Copy {
    /// The used bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The most bytes of a breakpoint with the bytes of the instruction in front of it.
const LONGEST_PATCH: usize = 10;

/// The first bytes of an instruction with a breakpoint in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    bytes: [u8; LONGEST_PATCH],
    len: u8,
}

impl Patch {
    /// These bytes, of which the first ten count.
    pub const fn of(bytes: &[u8]) -> Patch {
        let (mut kept, mut len) = ([0; LONGEST_PATCH], 0);
        while len < bytes.len() && len < LONGEST_PATCH {
            kept[len] = bytes[len];
            len += 1;
        }
        Patch { bytes: kept, len: len as u8 }
    }
}

impl core::ops::Deref for Patch {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A refusal: the errno that Linux would give, and a sentence that says why and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The errno, by name: its number differs between guests.
    pub errno: Errno,
    /// The sentence.
    pub why: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with a fixed sentence.
    pub const fn new(errno: Errno, why: &'static str) -> Self {
        Refusal { errno, why: Cow::Borrowed(why) }
    }

    /// A refusal with a sentence made for this case.
    pub fn because(errno: Errno, why: String) -> Self {
        Refusal { errno, why: Cow::Owned(why) }
    }
}

/// A reason by which an ISA refuses instructions.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name in lists.
    pub name: &'static str,
    /// The errno that Linux gives or would give.
    pub errno: Errno,
    /// The sentence for the user: the reason, a semicolon, what to do instead.
    pub why: &'static str,
}

impl Rule {
    pub(crate) const fn new(name: &'static str, errno: Errno, why: &'static str) -> Rule {
        Rule { name, errno, why }
    }

    /// The refusal by this rule.
    pub const fn refusal(&self) -> Refusal {
        Refusal::new(self.errno, self.why)
    }
}

/// The refusal of a branch whose target lies in the bytes that its breakpoint replaces. It can occur where a breakpoint has
/// several units of the ISA's alignment.
pub static BRANCH_INTO_ITSELF: Rule = Rule::new(
    "branch-into-itself",
    Errno::EINVAL,
    "it branches into its own bytes, which the breakpoint replaces; probe the instruction before it instead",
);

/// Refuses a branch into its own bytes, the first `replaced` of which are the breakpoint's.
pub fn check_target(insn: &Insn, replaced: usize) -> Result<(), Refusal> {
    let inside = |target: u64| (1..replaced as u64).contains(&target.wrapping_sub(insn.address));
    if insn.flow.target().is_some_and(inside) { Err(BRANCH_INTO_ITSELF.refusal()) } else { Ok(()) }
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
            /// The errno with that name.
            pub fn from_name(name: &str) -> Option<Errno> {
                match name { $(stringify!($name) => Some(Errno::$name),)* _ => None }
            }
        }
    };
}

errnos! {
    EPERM, ENOENT, E2BIG, ENOMEM, EBUSY, EEXIST, ENODEV, EINVAL, ENOSPC, ERANGE, EILSEQ, EOPNOTSUPP, EADDRNOTAVAIL, ECANCELED,
}
