//! Probes on all instructions of a text, by the rules, the breakpoints and the copies of `trapline-isa`.

// Each test uses a part of it.
#![allow(dead_code)]

use std::collections::HashMap;
use trapline_core::ia64::{State, vector};
use trapline_isa::ia64::bundle::Bundle;
use trapline_isa::ia64::decode::in_bundle;
use trapline_isa::ia64::rules::{Runs, plan};
use trapline_isa::ia64::slot::{self, behind_step, copy, with_breakpoint};
use trapline_isa::plan::Policy;

/// The way in which instructions under a breakpoint run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The core executes all of them.
    Computed,
    /// Those that may are stepped in a copy.
    Stepped,
}

/// Counts of hits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hits {
    pub computed: u64,
    pub stepped: u64,
    pub in_slot: [u64; 3],
}

/// A probed bundle.
struct Probed {
    original: Bundle,
    runs: [Option<Runs>; 3],
    /// The address of each slot's copy.
    copies: [u64; 3],
}

/// All probes.
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
            let Ok(accepted) = plan(original, slot, Policy::Best) else { continue };
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
        if runs == Runs::Stepped && self.how == How::Stepped {
            self.hits.stepped += 1;
            self.step = Some((ip, place, probed.copies[place]));
            state.go_to(probed.copies[place]);
            state.set_slot(place as u32);
        } else {
            self.hits.computed += 1;
            self.hit = Some(probed.original);
            state.stop.set(1);
        }
        true
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
