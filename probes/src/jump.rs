//! A jump in place of a breakpoint: how far it has come, what keeps it away, what lies under it.

use crate::errno::{Errno, Refusal};
use trapline_isa::region::Region;

/// How far a point has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Jump {
    /// A breakpoint, or nothing.
    #[default]
    Plain,
    /// A breakpoint; the worker will look at it, not before the point's `postponed` says. Hits run the region in the
    /// detour.
    Optimising,
    /// The jump is in the text.
    Optimised,
}

/// Why a point is not optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is, or nobody has asked.
    None,
    Knob,
    Early,
    Post,
    Mirror,
    Unarmed,
    Internal,
    Ftrace,
    Shared,
    Neighbour,
    /// Something about this very place: the point has the sentence.
    Found,
}

impl Obstacle {
    #[rustfmt::skip]
    pub const fn refusal(self) -> Option<Refusal> {
        use Errno::{EBUSY, EEXIST};
        let (errno, why) = match self {
            Obstacle::None | Obstacle::Found => return None,
            Obstacle::Knob =>      (EBUSY, "jump optimisation is switched off"),
            Obstacle::Early =>     (EBUSY, "the guest is still patching its text at boot: jumps come afterwards"),
            Obstacle::Post =>      (EBUSY, "a post-handler has to be told when the instruction has run"),
            Obstacle::Mirror =>    (EBUSY, "a jprobe stands here"),
            Obstacle::Unarmed =>   (EBUSY, "the probe is disabled"),
            Obstacle::Internal =>  (EBUSY, "it is the machine's own"),
            Obstacle::Ftrace =>    (EBUSY, "Linux would use its ftrace site"),
            Obstacle::Shared =>    (EBUSY, "the guest has a breakpoint of its own here"),
            Obstacle::Neighbour => (EEXIST, "another probe stands on an instruction under the jump"),
        };
        Some(Refusal::new(errno, why))
    }
}

/// The bytes of a region, which is all that has to be remembered of it: what its instructions are is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Under {
    len: u8,
    bytes: [u8; Under::MOST],
}

impl Under {
    /// A jump and an instruction that begins in its last byte: on no ISA that is more.
    const MOST: usize = 24;
    /// No region.
    pub const NOTHING: Under = Under { len: 0, bytes: [0; Under::MOST] };

    /// Those of this region; `None` if it is too long.
    pub fn of(region: &Region) -> Option<Under> {
        let mut under = Under { len: region.bytes().len() as u8, ..Under::NOTHING };
        under.bytes.get_mut(..region.bytes().len())?.copy_from_slice(region.bytes());
        Some(under)
    }

    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.len == 0
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
