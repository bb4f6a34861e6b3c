//! Kernel backtraces of a CPU that is not in a hit, with true return addresses in place of the return pad's. Reports on dead
//! guests ([`super::report`]) and `kstack` in scripts' timers need them.

use trapline_isa::arch::Isa;
use trapline_probes::Engine;
use trapline_probes::context::Frame;
use trapline_probes::guest::Cpu;
use trapline_probes::unwind::{Stacks, Standing, Walked, standing, walk};

/// The most frames of a stack, as in bpftrace.
const DEEPEST: usize = 1024;

/// The true return addresses of a task's followed calls.
pub(super) struct Followed {
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
    /// The calls of `task`, whose stack has these words.
    pub(super) fn of(engine: &Engine, task: u64, stack: &[(u64, u64)]) -> Followed {
        let (pad, bits) = (engine.return_pad(), engine.isa().pointer_bits);
        let pads = stack.iter().filter(|(_, word)| pad == Some(*word & !bits));
        let at_slots = pads.filter_map(|(slot, _)| Some((*slot, engine.saved_return_address(task, *slot)?))).collect();
        let in_order = (0..).map_while(|nth| engine.resolve_pad(task, nth)).collect();
        Followed { pad, bits, at_slots, in_order }
    }

    /// Replaces a return address found at the stack address `slot` by the true one, if it is the pad's. `pads` counts the pads
    /// of this backtrace so far.
    pub(super) fn real(&self, slot: u64, address: u64, pads: &mut usize) -> u64 {
        if self.pad != Some(address & !self.bits) {
            return address;
        }
        let at_slot = self.at_slots.iter().find(|(at, _)| *at == slot).map(|(_, real)| *real);
        let real = at_slot.or_else(|| self.in_order.get(*pads).copied());
        *pads += 1;
        real.unwrap_or(address)
    }
}

/// The stack of a CPU that is not in a hit, for unwinding.
pub(super) struct Stopped<'a> {
    pub cpu: &'a mut dyn Cpu,
    /// The size of a machine word in bytes.
    pub word: usize,
    pub followed: &'a Followed,
    /// The number of pads seen so far.
    pub pads: usize,
}

impl Walked for Stopped<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        self.cpu.stack_word(at, self.word)
    }
    fn real(&mut self, slot: u64, address: u64) -> u64 {
        self.followed.real(slot, address, &mut self.pads)
    }
}

/// The words of the kernel stack from the stack pointer to the outermost frame, with their addresses.
pub(super) fn stack_words(cpu: &mut dyn Cpu, isa: &'static Isa) -> Vec<(u64, u64)> {
    let (sp, last, word) = (cpu.get(isa.abi.sp), isa.abi.stack_size.saturating_sub(1), isa.word as u64);
    let (count, slot): (u64, Box<dyn Fn(u64) -> u64>) = match isa.abi.stack_grows_up {
        true => ((sp & last) / word, Box::new(|number| sp - (number + 1) * word)),
        false => (((sp | last).wrapping_add(1).max(sp) - sp).div_ceil(word), Box::new(|number| sp + number * word)),
    };
    let slots = (0..count).map(slot);
    slots.map_while(|slot| Some((slot, cpu.read_number(slot, isa.word).ok()?))).collect()
}

/// Writes the pc and its callers, innermost first, and returns their number. Without a rule for this kernel, each word
/// of the stack that could be a return address counts as a caller.
pub(super) fn write(cpu: &mut dyn Cpu, engine: &Engine, stacks: &Stacks, into: &mut [u64]) -> usize {
    let isa = engine.isa();
    let words = stack_words(cpu, isa);
    let followed = Followed::of(engine, cpu.task(), &words);
    let Some(rule) = &stacks.rule else {
        let mut pads = 0;
        let is_text = |address: &u64| stacks.text.iter().any(|range| range.contains(address));
        let callers = words.iter().map(|(slot, word)| followed.real(*slot, *word, &mut pads)).filter(is_text);
        let addresses = std::iter::once(cpu.pc()).chain(callers);
        return into.iter_mut().zip(addresses).map(|(free, address)| *free = address).count();
    };
    let mut found = [Frame::default(); DEEPEST];
    let most = into.len().min(DEEPEST);
    let at = Standing { sp: cpu.get(isa.abi.sp), ..standing(cpu, &**rule, false) };
    let mut stack = Stopped { cpu, word: isa.word, followed: &followed, pads: 0 };
    let count = walk(&**rule, at, &mut found[..most], &mut stack);
    into.iter_mut().zip(&found[..count]).for_each(|(free, frame)| *free = frame.address);
    count
}
