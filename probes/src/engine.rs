//! The engine: what it owns, and what it has to say.

use crate::context::Scene;
use crate::decoded::Last;
use crate::guest::Blacklisted;
use crate::hit::CpuState;
use crate::instances::Instances;
use crate::lifecycle::Dirty;
use crate::log::Log;
use crate::optimizer::Optimizer;
use crate::paused::Paused;
use crate::point::Points;
use crate::records::Ring;
use crate::retprobe::Returns;
use crate::script::attach::Scripts;
use crate::tracepoint::{Record, Watched};
use crate::withdraw::Withdrawn;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_isa::plan::Policy;

/// All probes of one guest. Changes go through `&mut dyn Guest`, hits come in by [`Engine::breakpoint`],
/// [`Engine::fault`] and [`Engine::interrupted`], which take no lock and allocate nothing.
pub struct Engine {
    pub(crate) isa: &'static Isa,
    pub(crate) policy: Policy,
    /// Copies may end in a jump back.
    pub(crate) boosting: bool,
    pub(crate) points: Points,
    pub(crate) returns: Returns,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) paused: Paused,
    /// What the user has added to the guest's blacklist.
    pub(crate) blacklist: Vec<Blacklisted>,
    /// debugfs `enabled` is 0.
    pub(crate) all_disarmed: bool,
    /// The guest reads or changes this part of its text just now: nothing of ours stands in it.
    pub(crate) withdrawn: Withdrawn,
    /// Slots that wait for CPUs to leave them.
    pub(crate) dirty: Vec<Dirty>,
    /// The breakpoint that ends jprobe handlers in guests without `jprobe_return`.
    pub(crate) stub: Option<u64>,
    /// Tracepoints that are watched, or were.
    pub(crate) tracepoints: Vec<Watched>,
    pub(crate) optimizer: Optimizer,
    pub(crate) log: Log,
    pub(crate) scene: Scene,
    pub(crate) counts: Counts,
    pub(crate) last: Last,
}

/// The records ring's size, if nobody asks for another.
const RECORD_BYTES: usize = 1 << 20;

/// What happened to the engine as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hits on a point, each counted once however many probes share it.
    pub hits: u64,
    /// Hits while another probe was being processed on that CPU.
    pub reentered: u64,
    /// Faults of displaced instructions, handed back to the address where they belong.
    pub faults: u64,
    /// Repeated instructions that went on after an interrupt without a second hit.
    pub continued: u64,
    /// Repeated instructions that were interrupted while too many others were: their rest counts as another hit.
    pub forgotten: u64,
    /// Returns to the pad that matched no followed call.
    pub mismatched_returns: u64,
    /// Followed calls that were left without a return.
    pub left_behind: u64,
    /// Log lines for which there was no room.
    pub lost_lines: u64,
    /// How often an optimisation had to wait because a task stood, or seemed to stand, under the jump.
    pub postponed: u64,
    /// How often probes were taken out of the text, for the guest was about to read or change it.
    pub withdrawals: u64,
}

impl Engine {
    /// An engine without probes for a guest with so many CPUs.
    pub fn new(isa: &'static Isa, cpus: usize) -> Engine {
        Engine {
            isa,
            policy: Policy::default(),
            boosting: true,
            points: Points::new(),
            returns: Returns::new(cpus),
            cpus: (0..cpus).map(|_| CpuState::new(isa)).collect(),
            paused: Paused::new(),
            blacklist: Vec::new(),
            all_disarmed: false,
            withdrawn: Withdrawn::default(),
            dirty: Vec::new(),
            stub: None,
            tracepoints: Vec::new(),
            optimizer: Optimizer::new(),
            log: Log::new(),
            scene: Scene {
                isa,
                instances: Instances::new(isa),
                records: Ring::with_capacity(RECORD_BYTES),
                scripts: Scripts::default(),
                record: Record::none(),
            },
            counts: Counts::default(),
            last: Last::default(),
        }
    }

    /// Decides as `policy` says.
    pub fn with_policy(mut self, policy: Policy) -> Engine {
        self.policy = policy;
        self
    }

    /// Holds that many bytes of records at a time.
    pub fn with_record_bytes(mut self, bytes: usize) -> Engine {
        self.scene.records = Ring::with_capacity(bytes);
        self
    }

    /// The records that handlers left with [`crate::probe::Hit::emit`].
    pub fn records(&mut self) -> &mut Ring {
        &mut self.scene.records
    }

    /// Whether points that are made from now on may have copies that end in a jump back; without, every copy ends in a
    /// second breakpoint.
    pub fn set_boosting(&mut self, allowed: bool) {
        self.boosting = allowed;
    }

    /// Whose decisions it makes.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether no probe is registered.
    pub fn is_empty(&self) -> bool {
        self.points.iter().next().is_none()
    }

    /// Whether a probe stands at this address, armed or not.
    pub fn is_probed(&self, address: u64) -> bool {
        self.points.at(address).is_some()
    }

    /// Its ISA.
    pub fn isa(&self) -> &'static Isa {
        self.isa
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        Counts {
            mismatched_returns: self.returns.mismatches,
            left_behind: self.returns.left_behind,
            lost_lines: self.log.lost,
            postponed: self.optimizer.postponed,
            ..self.counts
        }
    }
}
