//! Where a guest stands when it has died or been stopped: registers, and who called whom, for a person to read.

use super::Session;
use crate::cpu::View;
use trapline_isa::mem::Memory;
use trapline_isa::regs::Registers;
use trapline_probes::guest::Cpu;

/// The state of a guest that does not go on.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which CPU was running.
    pub cpu: usize,
    /// Its registers.
    pub registers: Vec<(&'static str, u64)>,
    /// The pc of every CPU, with its name.
    pub cpus: Vec<(u64, String)>,
    /// Code addresses found on the stack, innermost first; hijacked returns show where they really lead.
    pub calls: Vec<(u64, String)>,
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
            true => engine.real_return_address(task, *slot).or_else(|| engine.resolve_pad(task, 0)),
            false => tables.is_text(*word).then_some(*word),
        };
        let name = |address: u64| (address, self.kernel().symbols.describe(address));
        Report {
            cpu: self.machine.current_cpu(),
            registers: self.machine.registers(),
            cpus: pcs.into_iter().map(name).collect(),
            calls: stack.iter().filter_map(address).take(CALLS).map(name).collect(),
        }
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
