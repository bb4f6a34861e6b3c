//! The engine's own verdict on a place: a probe is registered in a copy of the kernel's text, and removed again.

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

/// The kind of probe to check, with the letters of `--tsv`
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
    /// The kind's letter.
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

/// The engine's answer about a place.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The address, if the place was found.
    pub address: Option<u64>,
    /// The kind of probe.
    pub kind: ProbeKind,
    /// The engine's answer.
    pub answer: Result<Accepted, Refusal>,
}

/// A description of how a probe would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The way in which the probed instruction runs.
    pub plan: PlanName,
    /// The form that the probe has in the text.
    pub status: Status,
    /// The reason why it is not optimised.
    pub obstacle: Option<Refusal>,
}

/// The way in which a probed instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlanName {
    /// Its copy runs and jumps back.
    Boost,
    /// The engine computes it.
    Emulate,
    /// Its copy runs, and a second breakpoint follows.
    Step,
}

impl PlanName {
    /// The plan's name.
    pub fn word(self) -> &'static str {
        match self {
            PlanName::Boost => "boost",
            PlanName::Emulate => "emulate",
            PlanName::Step => "step",
        }
    }
}

/// The form that a probe has in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A breakpoint.
    Plain,
    /// A jump.
    Optimized,
    /// An ftrace site, in Linux.
    Ftrace,
}

impl Status {
    /// The status's name.
    pub fn word(self) -> &'static str {
        match self {
            Status::Plain => "plain",
            Status::Optimized => "optimized",
            Status::Ftrace => "ftrace",
        }
    }
}

/// Asks the engine about places in one kernel.
pub struct Checker<'k> {
    kernel: &'k Kernel,
    guest: StillGuest<'k>,
    engine: Engine,
}

/// The number of bytes of text shown with a decision, as in the tables of real kernels' decisions.
pub const SHOWN_BYTES: usize = 32;

impl<'k> Checker<'k> {
    /// A checker for a kernel under a policy.
    pub fn new(kernel: &'k Kernel, policy: Policy) -> Checker<'k> {
        Checker::of(kernel, StillGuest::new(kernel), policy)
    }

    /// A checker for a kernel with its text after booting.
    pub fn booted(kernel: &'k Kernel, policy: Policy) -> Checker<'k> {
        Checker::of(kernel, StillGuest::booted(kernel), policy)
    }

    fn of(kernel: &'k Kernel, guest: StillGuest<'k>, policy: Policy) -> Checker<'k> {
        Checker { kernel, guest, engine: Engine::new(kernel.arch.isa(), 1).with_policy(policy) }
    }

    /// The verdict on an address.
    pub fn at(&mut self, kind: ProbeKind, address: u64) -> Verdict {
        let answer = match kind {
            ProbeKind::Probe => self.kprobe(Kprobe::at_address(address).pre(|_| Flow::Continue)),
            ProbeKind::Post => self.kprobe(Kprobe::at_address(address).pre(|_| Flow::Continue).post(|_| ())),
            ProbeKind::Return => self.kretprobe(Kretprobe::at_address(address)),
        };
        Verdict { address: Some(address), kind, answer }
    }

    /// The verdict on an offset in a symbol.
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

    /// Describes how the only registered probe would run.
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

    /// The bytes that a decision is based on; fewer if the memory ends.
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

    /// The instructions of a function, up to the first undecodable one.
    pub fn instructions(&self, range: Range<u64>) -> impl Iterator<Item = Insn> + use<'k> {
        let kernel = self.kernel;
        function::walk(kernel.arch.isa(), range.start, range.end, |at, into: &mut [u8]| kernel.read(at, into))
            .map_while(Result::ok)
    }
}

/// Fails if the image has no text or no symbols. Without symbols, instruction boundaries are unknown, because they are
/// counted from the starts of functions.
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
