//! Where a guest stands when it has died or been stopped: registers, and who called whom, for a person to read.

use super::Session;
use crate::cpu::View;
use crate::unwind;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::context::Frame;
use trapline_probes::guest::Cpu;
use trapline_probes::unwind::{Standing, Unwind, Walked, standing, walk};

/// The state of a guest that does not go on.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which CPU was running.
    pub cpu: usize,
    /// Its registers.
    pub registers: Vec<(&'static str, u64)>,
    /// The pc of every CPU, with its name.
    pub cpus: Vec<(u64, String)>,
    /// Who called, innermost first; hijacked returns show where they really lead.
    pub calls: Vec<(u64, String)>,
    /// These are the addresses of code on the stack, some of which earlier calls may have left: nobody knows this
    /// kernel's frames.
    pub are_guessed: bool,
}

/// How many callers are shown.
const CALLS: usize = 16;

impl Session {
    /// Looks at the guest as it stands.
    pub fn report(&mut self) -> Report {
        let pcs = self.machine.pcs();
        let stack = self.machine.look(stack_words);
        let task = self.machine.look(|view| view.task());
        let engine = self.engine();
        let tables = &self.kernel().tables;
        let address = |(slot, word): &(u64, u64)| match engine.return_pad() == Some(*word & !engine.isa().pointer_bits) {
            true => engine.saved_return_address(task, *slot).or_else(|| engine.resolve_pad(task, 0)),
            false => tables.is_text(*word).then_some(*word),
        };
        let returns: Vec<(u64, u64)> = stack.iter().filter_map(|word| Some((word.0, address(word)?))).collect();
        let rule = unwind::of(self.kernel()).filter(|_| self.machine.in_kernel());
        let walked = rule.map(|rule| self.walked(&*rule, &returns)).unwrap_or_default();
        let are_guessed = walked.is_empty();
        let calls = match are_guessed {
            true => returns.into_iter().map(|(_, address)| address).take(CALLS).collect(),
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

    /// The callers of where the running CPU stands; `returns` are the true addresses of all returns on the stack.
    fn walked(&mut self, rule: &dyn Unwind, returns: &[(u64, u64)]) -> Vec<u64> {
        let mut frames = [Frame::default(); CALLS + 1];
        let count = self.machine.look(|view| {
            let at = Standing { sp: view.get(view.isa.abi.sp), ..standing(view, rule, false) };
            walk(rule, at, &mut frames, &mut Stopped { view, returns })
        });
        frames[..count].iter().skip(1).map(|frame| frame.address).collect()
    }
}

/// A guest that stands still, and the returns on its stack.
struct Stopped<'a> {
    view: &'a mut View,
    returns: &'a [(u64, u64)],
}

impl Walked for Stopped<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        self.view.read_number(at, self.view.isa.word).ok()
    }
    fn real(&mut self, slot: u64, address: u64) -> u64 {
        let found = self.returns.iter().find(|(at, _)| *at == slot && slot != 0);
        found.map_or(address, |(_, real)| *real)
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
