//! The engine's own answer about a place: a probe is registered in a still copy of the kernel, and taken out again.

use super::Failure;
use crate::boot::Kernel;
use crate::still::StillGuest;
use clap::ValueEnum;
use serde::Serialize;
use std::ops::Range;
use trapline_isa::function;
use trapline_isa::insn::Insn;
use trapline_isa::plan::{Policy, Refusal};
use trapline_probes::Engine;
use trapline_probes::point::Mode;
use trapline_probes::probe::{Flow, Kprobe, Kretprobe};

/// Kinds of probe that can be asked about, by the letters of `--tsv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProbeKind {
    /// A kprobe with a pre-handler
    #[default]
    #[value(name = "p")]
    Probe,
    /// A return probe
    #[value(name = "r")]
    Return,
    /// A kprobe with a post-handler too
    #[value(name = "q")]
    Post,
}

impl ProbeKind {
    /// Its letter.
    pub fn letter(self) -> &'static str {
        match self {
            ProbeKind::Probe => "p",
            ProbeKind::Return => "r",
            ProbeKind::Post => "q",
        }
    }

    /// The kind with that letter.
    pub fn from_letter(letter: &str) -> Option<ProbeKind> {
        [ProbeKind::Probe, ProbeKind::Return, ProbeKind::Post].into_iter().find(|kind| kind.letter() == letter)
    }
}

/// What the engine said.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Where, if the place could be told.
    pub address: Option<u64>,
    /// What was asked.
    pub kind: ProbeKind,
    /// Its answer.
    pub answer: Result<Accepted, Refusal>,
}

/// How a probe would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What happens to the instruction.
    pub plan: PlanName,
    /// How the probe stands in the text.
    pub status: Status,
    /// Why it is not optimised.
    pub obstacle: Option<Refusal>,
}

/// What happens to a probed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanName {
    /// Its copy runs, and jumps back.
    Boost,
    /// It is computed.
    Emulate,
    /// Its copy runs, and traps.
    Step,
}

impl PlanName {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            PlanName::Boost => "boost",
            PlanName::Emulate => "emulate",
            PlanName::Step => "step",
        }
    }
}

/// How a probe stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As a breakpoint.
    Plain,
    /// As a jump.
    Optimized,
    /// Linux would use its ftrace site.
    Ftrace,
}

impl Status {
    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Status::Plain => "plain",
            Status::Optimized => "optimized",
            Status::Ftrace => "ftrace",
        }
    }
}

/// Asks the engine.
pub struct Checker<'k> {
    kernel: &'k Kernel,
    guest: StillGuest<'k>,
    engine: Engine,
}

/// How many bytes of text are shown with a decision, as in tables of real kernels' decisions.
pub const SHOWN_BYTES: usize = 32;

impl<'k> Checker<'k> {
    /// For this kernel, under this policy.
    pub fn new(kernel: &'k Kernel, policy: Policy) -> Checker<'k> {
        Checker::of(kernel, StillGuest::new(kernel), policy)
    }

    /// For a kernel as it has become by booting.
    pub fn booted(kernel: &'k Kernel, policy: Policy) -> Checker<'k> {
        Checker::of(kernel, StillGuest::booted(kernel), policy)
    }

    fn of(kernel: &'k Kernel, guest: StillGuest<'k>, policy: Policy) -> Checker<'k> {
        Checker { kernel, guest, engine: Engine::new(kernel.arch.isa(), 1).with_policy(policy) }
    }

    /// About an address.
    pub fn at(&mut self, kind: ProbeKind, address: u64) -> Verdict {
        let answer = match kind {
            ProbeKind::Probe => self.kprobe(Kprobe::at_address(address).pre(|_| Flow::Continue)),
            ProbeKind::Post => self.kprobe(Kprobe::at_address(address).pre(|_| Flow::Continue).post(|_| ())),
            ProbeKind::Return => self.kretprobe(Kretprobe::at_address(address)),
        };
        Verdict { address: Some(address), kind, answer }
    }

    /// About a place that is named.
    pub fn named(&mut self, kind: ProbeKind, name: &str, offset: u32) -> Verdict {
        let address = self.kernel.symbols.find(name).map(|symbol| symbol.start.wrapping_add(offset.into()));
        let answer = match kind {
            ProbeKind::Probe => self.kprobe(Kprobe::at(name).offset(offset).pre(|_| Flow::Continue)),
            ProbeKind::Post => self.kprobe(Kprobe::at(name).offset(offset).pre(|_| Flow::Continue).post(|_| ())),
            ProbeKind::Return => self.kretprobe(Kretprobe::on(Kprobe::at(name).offset(offset))),
        };
        Verdict { address, kind, answer }
    }

    fn kprobe(&mut self, probe: Kprobe) -> Result<Accepted, Refusal> {
        self.engine.register_kprobe(&mut self.guest, &probe)?;
        let accepted = self.accepted();
        self.engine.unregister_kprobe(&mut self.guest, &probe);
        Ok(accepted)
    }

    fn kretprobe(&mut self, probe: Kretprobe) -> Result<Accepted, Refusal> {
        self.engine.register_kretprobe(&mut self.guest, &probe)?;
        let accepted = self.accepted();
        self.engine.unregister_kretprobe(&mut self.guest, &probe);
        Ok(accepted)
    }

    /// How the only probe that there is would run.
    fn accepted(&self) -> Accepted {
        let summary = self.engine.summary(&self.guest);
        let point = summary.first();
        let plan = match point.map(|point| point.mode) {
            Some(Mode::Boosted | Mode::Optimized) => PlanName::Boost,
            Some(Mode::Emulated) => PlanName::Emulate,
            Some(Mode::Plain) | None => PlanName::Step,
        };
        let status = match point {
            Some(point) if point.uses_ftrace => Status::Ftrace,
            Some(point) if point.optimized => Status::Optimized,
            _ => Status::Plain,
        };
        let obstacle = point.and_then(|point| point.obstacle.clone()).filter(|_| status == Status::Plain);
        Accepted { plan, status, obstacle }
    }

    /// The bytes that a decision was made on, as many as there are.
    pub fn bytes(&self, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; SHOWN_BYTES];
        while !bytes.is_empty() && self.kernel.read(address, &mut bytes).is_err() {
            bytes.pop();
        }
        bytes
    }

    /// The instruction at an address.
    pub fn insn(&self, address: u64) -> Option<Insn> {
        function::decode_at(self.kernel.arch.isa(), address, &mut |at, into: &mut [u8]| self.kernel.read(at, into)).ok()
    }

    /// The instructions of a function, from its start; what stands behind the first bytes that are none is not told.
    pub fn instructions(&self, range: Range<u64>) -> impl Iterator<Item = Insn> + use<'k> {
        let kernel = self.kernel;
        function::walk(kernel.arch.isa(), range.start, range.end, |at, into: &mut [u8]| kernel.read(at, into))
            .map_while(Result::ok)
    }
}

/// Boundaries of instructions are counted from the starts of functions: nothing can be said about an image that tells
/// neither.
pub fn can_be_asked(kernel: &Kernel, image: &str) -> Result<(), Failure> {
    if kernel.tables.text.is_empty() {
        return Err(Failure::failed(format!(
            "`{image}` has no text: no segment is executable and it has no `_stext` and `_etext`"
        )));
    }
    if kernel.symbols.is_empty() {
        return Err(Failure::failed(format!("`{image}` has no symbols, so that no function is known"))
            .advise("give its System.map, or a copy of /proc/kallsyms, with --symbols FILE"));
    }
    Ok(())
}
