//! Probes on all instructions of a text, by the rules, the breakpoints and the copies of `trapline-isa`.

// Each test uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use trapline_core::ia64::{State, ar, cr, vector};
use trapline_isa::ia64::abi;
use trapline_isa::ia64::bundle::Bundle;
use trapline_isa::ia64::decode::in_bundle;
use trapline_isa::ia64::emulate::emulate;
use trapline_isa::ia64::op::Op;
use trapline_isa::ia64::rules::{Runs, decide};
use trapline_isa::ia64::slot::{self, behind_step, copy, with_breakpoint};
use trapline_isa::plan::Policy;
use trapline_isa::regs::{Reg, Registers};

/// The way in which instructions under a breakpoint run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The core executes all of them.
    Computed,
    /// Those that may are stepped in a copy.
    Stepped,
    /// Those that may are stepped, and of the others those that may are emulated by `trapline-isa`.
    Emulated,
}

/// Counts of hits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hits {
    pub computed: u64,
    pub stepped: u64,
    pub emulated: u64,
    pub in_slot: [u64; 3],
}

/// A probed bundle.
struct Probed {
    original: Bundle,
    runs: [Option<Runs>; 3],
    /// The address of each slot's copy.
    copies: [u64; 3],
}

/// The probes on every slot of a text, with the window for their copies.
pub struct Probes {
    how: How,
    window: u64,
    probed: HashMap<u64, Probed>,
    /// The step that runs: the bundle's address, the slot, and the copy.
    step: Option<(u64, usize, u64)>,
    /// The original bundle of a hit whose instruction the core executes.
    hit: Option<Bundle>,
    pub hits: Hits,
    /// Whether the core stops at the end of a step, too.
    pub stops: bool,
}

impl Probes {
    pub fn new(how: How, window: u64) -> Probes {
        Probes { how, window, probed: HashMap::new(), step: None, hit: None, hits: Hits::default(), stops: false }
    }

    /// Sets a probe on each instruction of the bundle at this place that may be probed.
    pub fn set(&mut self, ram: &mut [u8], base: u64, at: usize) {
        self.set_mapped(ram, base + at as u64, at, base);
    }

    /// Sets probes on a bundle whose virtual address is known. The window's place in memory is its address minus `base`.
    pub fn set_mapped(&mut self, ram: &mut [u8], address: u64, at: usize, base: u64) {
        let original = Bundle::of(&ram[at..]).expect("a bundle");
        let mut probed = Probed { original, runs: [None; 3], copies: [0; 3] };
        let mut changed = original;
        for slot in 0..3 {
            let Ok(accepted) = decide(original, slot, Policy::Best) else { continue };
            if accepted.slot != slot {
                continue;
            }
            let insn = in_bundle(original, slot).expect("an instruction");
            changed = with_breakpoint(changed, slot, &insn);
            probed.runs[slot] = Some(accepted.runs);
            probed.copies[slot] = self.window;
            let place = (self.window - base) as usize;
            for (number, bundle) in copy(original, slot).into_iter().enumerate() {
                ram[place + 16 * number..][..16].copy_from_slice(&bundle.bytes());
            }
            self.window += 32;
        }
        ram[at..at + 16].copy_from_slice(&changed.bytes());
        self.probed.insert(address, probed);
    }

    /// Whether the interruption is a hit or the end of a step. Then the pc is where the program continues, or the core
    /// must execute an instruction.
    pub fn takes(&mut self, state: &State, number: u32) -> bool {
        let (ip, place) = (state.ip(), state.slot() as usize);
        if number != vector::BREAK || !slot::is_probes(state.fault_number.get()) {
            // The copy has raised an interruption, which belongs to the original.
            if let Some((address, from, _)) = self.step.take() {
                state.go_to(address);
                state.set_slot(from as u32);
            }
            return false;
        }
        if let Some((address, from, at)) = self.step {
            let (address, place) = behind_step(address, at, from, (ip, place)).expect("the end of the step");
            self.step = None;
            state.go_to(address);
            state.set_slot(place as u32);
            state.stop.set(self.stops.into());
            return true;
        }
        let Some(probed) = self.probed.get(&ip) else { return false };
        let Some(place) = slot::instruction_slot(probed.original, place) else { return false };
        let Some(runs) = probed.runs[place] else { return false };
        self.hits.in_slot[place] += 1;
        if runs == Runs::Stepped && self.how != How::Computed {
            self.hits.stepped += 1;
            self.step = Some((ip, place, probed.copies[place]));
            state.go_to(probed.copies[place]);
            state.set_slot(place as u32);
        } else if self.how == How::Emulated && self.emulates(state, probed.original, place) {
            self.hits.emulated += 1;
        } else {
            self.hits.computed += 1;
            self.hit = Some(probed.original);
            state.stop.set(1);
        }
        true
    }

    /// Executes the instruction by `trapline-isa`, if it can.
    fn emulates(&self, state: &State, bundle: Bundle, place: usize) -> bool {
        let ip = state.ip();
        let insn = in_bundle(bundle, place).expect("an instruction");
        // They need registers that this test does not have.
        if matches!(insn.op, Op::CheckAdvanced { .. } | Op::FloatCheck { .. } | Op::CheckSpeculation { float: true, .. }) {
            return false;
        }
        let is_emulated = emulate(&insn, &mut Cpu(state));
        if is_emulated {
            state.executed.set(state.executed.get() + 1);
            state.last.set(ip);
        }
        is_emulated
    }

    /// Whether an instruction has run in its copy, and the break behind it has not.
    pub fn is_stepping(&self) -> bool {
        self.step.is_some()
    }

    /// Takes the original bundle of a hit whose instruction the core must execute.
    pub fn hit(&mut self) -> Option<Bundle> {
        self.hit.take()
    }
}

/// The registers of a CPU, by the numbers of `trapline-isa`.
struct Cpu<'a>(&'a State);

impl Cpu<'_> {
    fn application(&self, reg: Reg) -> Option<&std::cell::Cell<u64>> {
        let number = match reg {
            abi::PFS => ar::PFS,
            abi::LC => ar::LC,
            abi::EC => ar::EC,
            _ => return None,
        };
        self.0.application.get(usize::from(number))
    }
}

impl Registers for Cpu<'_> {
    fn get(&self, reg: Reg) -> u64 {
        let state = self.0;
        let nats = |registers: std::ops::Range<u8>| {
            registers.enumerate().fold(0, |nats, (bit, register)| nats | u64::from(state.is_nat(register)) << bit)
        };
        match reg {
            Reg(general @ ..=127) => state.r(general),
            Reg(branch @ 136..=143) => state.branch[usize::from(branch - 136)].get(),
            abi::PSR => state.psr() & !(3 << 41),
            abi::CFM => state.frame.get(),
            abi::BSP => state.frame_at(),
            abi::PR => state.predicates.get(),
            abi::IPSR => state.control[cr::IPSR].get(),
            abi::IIP => state.control[cr::IIP].get(),
            abi::IFS => state.control[cr::IFS].get(),
            reg if reg == abi::NATS[0] => nats(0..64),
            reg if reg == abi::NATS[1] => nats(64..128),
            _ => self.application(reg).expect("a register").get(),
        }
    }
    fn set(&mut self, reg: Reg, value: u64) {
        let state = self.0;
        match reg {
            Reg(general @ ..=127) => state.set_r(general, value, false),
            Reg(branch @ 136..=143) => state.branch[usize::from(branch - 136)].set(value),
            abi::PSR => state.set_psr(value),
            abi::CFM => state.set_frame(value),
            abi::BSP => state.set_frame_at(value),
            abi::PR => state.predicates.set(value | 1),
            _ => self.application(reg).expect("a register").set(value),
        }
    }
    fn pc(&self) -> u64 {
        self.0.pc.get()
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.pc.set(pc);
    }
}
