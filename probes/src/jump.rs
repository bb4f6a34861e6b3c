//! The optimisation state of a point: how far its jump has come ([`Jump`]), the reason why it has none ([`Obstacle`]),
//! and the original bytes under the jump ([`Under`]).

use crate::errno::{Errno, Refusal};
use trapline_isa::region::Region;
use trapline_isa::regs::Reg;

/// Progress of a point's optimisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Jump {
    /// The point has a breakpoint, or is not armed.
    #[default]
    Plain,
    /// The point has a breakpoint. The optimizer will try to write the jump, no earlier than the point's `postponed`
    /// says. Hits already run the region in the detour.
    Optimising,
    /// The jump is in the text.
    Optimised,
}

/// The reason why a point is not optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is optimised, or optimisation was never tried.
    None,
    // The sentences in `refusal` say what each of the following means.
    Knob,
    Early,
    Post,
    Mirror,
    Unarmed,
    Internal,
    Ftrace,
    Shared,
    Neighbour,
    /// A reason specific to this address. The point stores the sentence.
    Found,
}

impl Obstacle {
    #[rustfmt::skip]
    pub const fn refusal(self) -> Option<Refusal> {
        use Errno::{EBUSY, EEXIST};
        let (errno, why) = match self {
            Obstacle::None | Obstacle::Found => return None,
            Obstacle::Knob =>      (EBUSY, "jump optimisation is switched off"),
            Obstacle::Early =>     (EBUSY, "the guest is still patching its text at boot: jumps are written afterwards"),
            Obstacle::Post =>      (EBUSY, "a post-handler must run after the instruction, which needs a trap"),
            Obstacle::Mirror =>    (EBUSY, "there is a jprobe at this address"),
            Obstacle::Unarmed =>   (EBUSY, "the probe is disabled"),
            Obstacle::Internal =>  (EBUSY, "it is an internal probe of trapline"),
            Obstacle::Ftrace =>    (EBUSY, "Linux would use its ftrace site"),
            Obstacle::Shared =>    (EBUSY, "the guest itself has a breakpoint here"),
            Obstacle::Neighbour => (EEXIST, "another probe is on an instruction under the jump"),
        };
        Some(Refusal::new(errno, why))
    }
}

/// The original bytes of a region. Everything else about the region can be decoded from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Under {
    len: u8,
    /// The registers of a far jump and of its jump back; `None` for the ISA's first jump.
    far: Option<[Reg; 2]>,
    bytes: [u8; Under::MOST],
}

impl Under {
    /// Longest region: a jump, plus an instruction that begins in its last byte. No ISA needs more.
    const MOST: usize = 21;
    /// No region.
    pub const NOTHING: Under = Under { len: 0, far: None, bytes: [0; Under::MOST] };

    /// The bytes of this region. `None` if it is too long.
    pub fn of(region: &Region) -> Option<Under> {
        let mut under = Under { len: region.bytes().len() as u8, far: region.far(), ..Under::NOTHING };
        under.bytes.get_mut(..region.bytes().len())?.copy_from_slice(region.bytes());
        Some(under)
    }

    #[inline]
    pub fn is_nothing(&self) -> bool {
        self.len == 0
    }

    /// The register that the jump overwrites, if it is a far one.
    #[inline]
    pub fn through(&self) -> Option<Reg> {
        self.far.map(|[through, _]| through)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
