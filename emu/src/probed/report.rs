//! The report on a guest that died or was stopped: registers and backtrace.

use super::Session;
use crate::cpu::View;
use crate::unicorn::crash;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::Engine;
use trapline_probes::context::Frame;
use trapline_probes::guest::Cpu;
use trapline_probes::unwind::{Standing, Unwind, Walked, standing, walk};

/// The state of a stopped guest.
#[derive(Clone, Debug)]
pub struct Report {
    /// The running CPU's number.
    pub cpu: usize,
    /// Its registers.
    pub registers: Vec<(&'static str, u64)>,
    /// The pc of every CPU, with its name.
    pub cpus: Vec<(u64, String)>,
    /// The callers, innermost first. The pad is replaced by the true return addresses.
    pub calls: Vec<(u64, String)>,
    /// Whether the callers are guesses: all code addresses on the stack, which may be stale. This is so if the kernel's
    /// stack cannot be unwound.
    pub are_guessed: bool,
}

/// The largest number of callers.
const CALLS: usize = 16;

impl Session {
    /// Makes the report. If the CPU core crashes meanwhile, the report has only the places of the CPUs.
    pub fn report(&mut self) -> Report {
        crash::contain(|| self.full_report()).unwrap_or_else(|_| Report {
            cpu: self.machine.current_cpu(),
            registers: Vec::new(),
            cpus: self.machine.pcs().into_iter().map(|pc| (pc, self.kernel().symbols.describe(pc))).collect(),
            calls: Vec::new(),
            are_guessed: false,
        })
    }

    fn full_report(&mut self) -> Report {
        let pcs = self.machine.pcs();
        let stack = self.machine.look(stack_words);
        let task = self.machine.look(|view| view.task());
        let followed = Followed::of(self.engine(), task, &stack);
        let rule = self.unwind_rule().filter(|_| self.machine.in_kernel());
        let walked = rule.map(|rule| self.walked(&*rule, &followed)).unwrap_or_default();
        let are_guessed = walked.is_empty();
        let calls = match are_guessed {
            true => self.guessed(&stack, &followed),
            false => walked,
        };
        let name = |address: u64| (address, self.kernel().symbols.describe(address));
        Report {
            cpu: self.machine.current_cpu(),
            registers: self.machine.registers(),
            cpus: pcs.into_iter().map(name).collect(),
            calls: calls.into_iter().map(name).collect(),
            are_guessed,
        }
    }

    /// Return addresses that the words on this stack could be.
    fn guessed(&self, stack: &[(u64, u64)], followed: &Followed) -> Vec<u64> {
        let mut pads = 0;
        let mut real = |(slot, word): &(u64, u64)| {
            let address = followed.real(*slot, *word, &mut pads);
            self.kernel().tables.is_text(address).then_some(address)
        };
        stack.iter().filter_map(&mut real).take(CALLS).collect()
    }

    /// The callers of the running CPU's pc, by unwinding.
    fn walked(&mut self, rule: &dyn Unwind, followed: &Followed) -> Vec<u64> {
        let mut frames = [Frame::default(); CALLS + 1];
        let count = self.machine.look(|view| {
            let at = Standing { sp: view.get(view.isa.abi.sp), ..standing(view, rule, false) };
            walk(rule, at, &mut frames, &mut Stopped { view, followed, pads: 0 })
        });
        frames[..count].iter().skip(1).map(|frame| frame.address).collect()
    }
}

/// The followed calls of a task.
struct Followed {
    /// The return pad's address.
    pad: Option<u64>,
    /// The bits of a pointer that are not part of the address.
    bits: u64,
    /// Stack addresses with the pad's address, each with the true return address.
    at_slots: Vec<(u64, u64)>,
    /// The true return addresses, innermost call first.
    in_order: Vec<u64>,
}

impl Followed {
    fn of(engine: &Engine, task: u64, stack: &[(u64, u64)]) -> Followed {
        let (pad, bits) = (engine.return_pad(), engine.isa().pointer_bits);
        let pads = stack.iter().filter(|(_, word)| pad == Some(*word & !bits));
        let at_slots = pads.filter_map(|(slot, _)| Some((*slot, engine.saved_return_address(task, *slot)?))).collect();
        let in_order = (0..).map_while(|nth| engine.resolve_pad(task, nth)).collect();
        Followed { pad, bits, at_slots, in_order }
    }

    /// The true address for one found at `slot`. `pads` counts the pads seen so far.
    fn real(&self, slot: u64, address: u64, pads: &mut usize) -> u64 {
        if self.pad != Some(address & !self.bits) {
            return address;
        }
        let at_slot = self.at_slots.iter().find(|(at, _)| *at == slot).map(|(_, real)| *real);
        let real = at_slot.or_else(|| self.in_order.get(*pads).copied());
        *pads += 1;
        real.unwrap_or(address)
    }
}

/// A stopped guest's stack for unwinding, with the number of pads seen.
struct Stopped<'a> {
    view: &'a mut View,
    followed: &'a Followed,
    pads: usize,
}

impl Walked for Stopped<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        self.view.read_number(at, self.view.isa.word).ok()
    }
    fn real(&mut self, slot: u64, address: u64) -> u64 {
        self.followed.real(slot, address, &mut self.pads)
    }
}

/// The words from the stack pointer to the top of the kernel stack, with their addresses.
fn stack_words(view: &mut View) -> Vec<(u64, u64)> {
    let abi = view.isa.abi;
    let (sp, word) = (view.get(abi.sp), view.isa.word);
    let top = (sp | (abi.stack_size - 1)).wrapping_add(1);
    let slots = (sp..top.max(sp)).step_by(word);
    slots.map_while(|slot| Some((slot, view.read_number(slot, word).ok()?))).collect()
}
