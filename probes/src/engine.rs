//! [`Engine`], the owner of all probe state of one guest, with its settings and counters. The other modules of this
//! crate add methods to it: registration, hits, optimisation, return probes and views.

use crate::context::EngineState;
use crate::decoded::Last;
use crate::events::watch::Watch;
use crate::guest::Blacklisted;
use crate::hit::CpuState;
use crate::instances::Instances;
use crate::lifecycle::Dirty;
use crate::log::Log;
use crate::optimizer::Optimizer;
use crate::paused::Paused;
use crate::point::Points;
use crate::program::Programs;
use crate::records::Ring;
use crate::retprobe::Returns;
use crate::tracepoint::{TracepointRecord, Watched};
use crate::user::{Calls, UserProbes};
use crate::watch::{Moves, Watchpoints};
use crate::withdraw::Withdrawn;
use alloc::vec::Vec;
use trapline_isa::arch::Isa;
use trapline_isa::plan::Policy;

/// All probes of one guest. Registration goes through `&mut dyn Guest`. Hits enter at [`Engine::breakpoint`],
/// [`Engine::fault`] and [`Engine::interrupted`], which take no lock and allocate nothing.
pub struct Engine {
    pub(crate) isa: &'static Isa,
    pub(crate) policy: Policy,
    /// Whether a copy may end in a jump back to the guest's code.
    pub(crate) boosting: bool,
    pub(crate) points: Points,
    pub(crate) returns: Returns,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) paused: Paused,
    /// The user's additions to the guest's blacklist.
    pub(crate) blacklist: Vec<Blacklisted>,
    /// True while debugfs `enabled` is 0.
    pub(crate) all_disarmed: bool,
    /// The parts of the text that the guest is reading or changing now. They contain no breakpoint or jump of ours.
    pub(crate) withdrawn: Withdrawn,
    /// Slots of removed probes that a CPU may still be executing.
    pub(crate) dirty: Vec<Dirty>,
    /// The address of the breakpoint that ends jprobe handlers in guests without `jprobe_return`.
    pub(crate) stub: Option<u64>,
    /// Every tracepoint that is or was watched. An index into this list is never reused.
    pub(crate) tracepoints: Vec<Watched>,
    pub(crate) optimizer: Optimizer,
    pub(crate) watch: Watchpoints,
    pub(crate) log: Log,
    pub(crate) state: EngineState,
    pub(crate) counts: Counts,
    pub(crate) last: Last,
    pub(crate) user: UserProbes,
}

/// Default size of the record ring.
const RECORD_BYTES: usize = 1 << 20;

/// Counters of the engine as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hits of a point. Several probes at one point count once.
    pub hits: u64,
    /// Hits that happened while another probe was being processed on the same CPU.
    pub reentered: u64,
    /// Faults raised by displaced instructions and handed back at the original address.
    pub faults: u64,
    /// Repeated instructions that continued after an interrupt without a second hit.
    pub continued: u64,
    /// Interrupted repeated instructions that were evicted because too many were pending. Each counts as another hit
    /// when it continues.
    pub forgotten: u64,
    /// Returns to the pad that matched no followed call.
    pub mismatched_returns: u64,
    /// Followed calls that ended without a return, for example by a longjmp.
    pub left_behind: u64,
    /// Log messages dropped because the log was full.
    pub lost_lines: u64,
    /// The number of optimisations that were postponed because a task stood, or seemed to stand, under the jump.
    pub postponed: u64,
    /// The number of times that probes were taken out of the text because the guest was about to read or change it.
    pub withdrawals: u64,
}

impl Engine {
    /// Creates an engine without probes, for a guest with `cpus` CPUs.
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
            watch: Watchpoints::default(),
            log: Log::new(),
            state: EngineState {
                isa,
                instances: Instances::new(isa),
                records: Ring::with_capacity(RECORD_BYTES),
                programs: Programs::default(),
                watch: Watch::default(),
                record: TracepointRecord::none(),
                calls: Calls::default(),
                moves: Moves::default(),
            },
            counts: Counts::default(),
            last: Last::default(),
            user: UserProbes::default(),
        }
    }

    /// Selects the policy: Linux's decisions, or the best that is possible.
    pub fn with_policy(mut self, policy: Policy) -> Engine {
        self.policy = policy;
        self
    }

    /// Sets the size of the record ring, in bytes.
    pub fn with_record_bytes(mut self, bytes: usize) -> Engine {
        self.state.records = Ring::with_capacity(bytes);
        self
    }

    /// The records that handlers left with [`crate::probe::Hit::emit`].
    pub fn records(&mut self) -> &mut Ring {
        &mut self.state.records
    }

    /// Whether points made from now on may be boosted, that is, have copies that end in a jump back. Otherwise every
    /// copy ends in a second breakpoint.
    pub fn set_boosting(&mut self, allowed: bool) {
        self.boosting = allowed;
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether no probe is registered.
    pub fn is_empty(&self) -> bool {
        self.points.iter().next().is_none()
    }

    /// Whether there is a probe at this address, armed or not.
    pub fn is_probed(&self, address: u64) -> bool {
        self.points.at(address).is_some()
    }

    /// The ISA of the guest.
    pub fn isa(&self) -> &'static Isa {
        self.isa
    }

    /// The counters so far.
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
