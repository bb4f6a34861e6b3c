//! Registration of jprobes, and the saving and restoring of state around their handlers (`Saved`). A jprobe's handler sees
//! the registers and the stack of the function at its entry. When it ends, both are restored, so that the function does not
//! see what the handler did.
//!
//! A handler is a closure on the host, or a function of the guest. A guest handler ends at a breakpoint: the guest's own in
//! `jprobe_return`, or a *stub* in the window to which the handler returns.

use crate::context::{EngineState, Hit, Stage};
use crate::engine::Engine;
use crate::errno::{Errno, Refusal, refused};
use crate::guest::{Cpu, Guest, WINDOW_UNIT, WindowUse};
use crate::members::{Action, Mirror};
use crate::probe::{Jprobe, Kprobe, MirrorHandler};
use crate::register::refuse_none;
use crate::retprobe::SPLIT_OFF;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use trapline_isa::arch::Isa;
use trapline_isa::call::exchange_return_address;
use trapline_isa::entry::Callee;

/// The guest function that ends a jprobe handler, and the symbol behind it.
const JPROBE_RETURN: &str = "jprobe_return";
const JPROBE_RETURN_END: &str = "jprobe_return_end";

/// Registers and stack at the start of a handler. Allocated once for each CPU, because a hit allocates no memory.
pub(crate) struct Saved {
    pc: u64,
    sp: u64,
    registers: Vec<u64>,
    /// Registers that events cannot name, such as condition flags.
    hidden: Vec<u64>,
    stack: Vec<u8>,
    /// Number of valid bytes in `stack`.
    len: usize,
    /// The range of addresses in which a breakpoint ends the handler. `Some` while a guest handler runs.
    ends: Option<Range<u64>>,
}

/// The kind of handler that [`Saved::start`] has started: one on the host, which has already ended, or one in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    OnHost,
    InGuest,
}

impl Saved {
    pub fn new(isa: &Isa) -> Saved {
        let (registers, hidden) = (vec![0; isa.abi.names.len()], vec![0; isa.abi.hidden.len()]);
        Saved { pc: 0, sp: 0, registers, hidden, stack: vec![0; isa.abi.jprobe_stack], len: 0, ends: None }
    }

    /// Whether a guest handler runs on this CPU.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.ends.is_some()
    }

    /// Whether a breakpoint at `pc` ends the guest handler that runs.
    #[inline]
    pub fn ends_at(&self, pc: u64) -> bool {
        self.ends.as_ref().is_some_and(|range| range.contains(&pc))
    }

    /// Runs a host handler and undoes its changes, or sets the pc to the guest handler. Called at a hit of the jprobe.
    pub fn start(
        &mut self,
        cpu: &mut dyn Cpu,
        mirror: &Mirror,
        probe: &Kprobe,
        address: u64,
        state: &mut EngineState,
    ) -> Started {
        self.save(cpu, state.isa);
        match (mirror.entry, mirror.jprobe.mirror_handler()) {
            (Some(entry), _) => {
                if mirror.by_return {
                    // Without `jprobe_return` the handler's return address is the stub. If it is a stack word, the saved
                    // stack has the old value.
                    let pointer = mirror.returns_in.start | state.isa.pointer_bits;
                    let _ = exchange_return_address(cpu, state.isa, cpu.get(state.isa.abi.sp), pointer);
                }
                entry.sets.iter().flatten().for_each(|(reg, value)| cpu.set(*reg, *value));
                cpu.set_pc(entry.code);
                self.ends = Some(mirror.returns_in.clone());
                Started::InGuest
            }
            (None, Some(MirrorHandler::Host(handler))) => {
                handler(&mut Hit::new(cpu, probe, address, state, Stage::Before));
                self.restore(cpu, state.isa);
                Started::OnHost
            }
            (None, _) => Started::OnHost,
        }
    }

    /// Saves the registers, and the stack from the stack pointer on: `jprobe_stack` bytes, or fewer at the end of the stack.
    /// Saves no stack if it cannot be read.
    pub fn save(&mut self, cpu: &mut dyn Cpu, isa: &Isa) {
        let abi = isa.abi;
        (self.pc, self.sp) = (cpu.pc(), cpu.get(abi.sp));
        cpu.get_all(abi.names, &mut self.registers);
        cpu.get_all(abi.hidden, &mut self.hidden);
        let to_top = abi.stack_size - self.sp % abi.stack_size.max(1);
        let wanted = abi.jprobe_stack.min(to_top as usize).min(self.stack.len());
        self.len = if wanted != 0 && cpu.read(self.sp, &mut self.stack[..wanted]).is_ok() { wanted } else { 0 };
    }

    /// Restores everything and marks the handler as ended.
    pub fn restore(&mut self, cpu: &mut dyn Cpu, isa: &Isa) {
        cpu.put_back(isa.abi.names, &self.registers);
        cpu.put_back(isa.abi.hidden, &self.hidden);
        cpu.set_pc(self.pc);
        if self.len != 0 {
            // The stack could be read here, so it can be written.
            let _ = cpu.write(self.sp, &self.stack[..self.len]);
        }
        self.ends = None;
    }
}

impl Engine {
    /// Registers a jprobe. Its address must be a function's entry, and its handler a function.
    pub fn register_jprobe(&mut self, guest: &mut dyn Guest, probe: &Jprobe) -> Result<(), Refusal> {
        let place = self.resolve(guest, probe.kprobe(), false)?;
        if !place.on_entry {
            let why =
                format!("{} is not the first instruction of a function; a jprobe mirrors a function's arguments", place.name());
            return refused(Errno::EINVAL, why);
        }
        self.refuse_twice(probe.kprobe())?;
        if !self.policy.is_linux() && place.symbol.name.ends_with(SPLIT_OFF) {
            let why = format!(
                "{} is a part split off a function: it is jumped to and has no arguments; mirror the function itself",
                place.name()
            );
            return refused(Errno::EINVAL, why);
        }
        let entry = self.guest_entry(guest, probe)?;
        if let Some(range) = probe.wanted_returns_in().filter(|range| entry.is_some() && range.is_empty()) {
            let why = format!("no breakpoint lies in {:#x}..{:#x}, so the handler would never end", range.start, range.end);
            return refused(Errno::EINVAL, why);
        }
        let (returns_in, by_return) = match (entry, probe.wanted_returns_in().or_else(|| guest_return(guest))) {
            (None, _) => (0..0, false),
            (Some(_), Some(range)) => (range, false),
            (Some(_), None) => (self.make_stub(guest, place.address)?, true),
        };
        let mirror = Mirror { jprobe: probe.clone(), entry, returns_in, by_return };
        self.add(guest, probe.kprobe(), Action::Mirror, place)?;
        if let Some(point) = self.find(probe.kprobe()).and_then(|number| self.points.get_mut(number)) {
            point.set_mirror(Some(mirror));
        }
        Ok(())
    }

    /// The address range of the stub, a breakpoint in the window. All jprobes share it; the first one that needs it writes it.
    fn make_stub(&mut self, guest: &mut dyn Guest, near: u64) -> Result<Range<u64>, Refusal> {
        let at = match self.stub {
            Some(at) => at,
            None => {
                let at = guest.window_take(near, WINDOW_UNIT);
                let at = at.ok_or(Refusal::new(Errno::ENOMEM, "the probe window has no room for the end of jprobe handlers"))?;
                guest.window_write(at, self.isa.breakpoint, WindowUse::JprobeReturn);
                self.stub = Some(at);
                at
            }
        };
        Ok(at..at + self.isa.breakpoint.len() as u64)
    }

    /// Registers all of them or none.
    pub fn register_jprobes(&mut self, guest: &mut dyn Guest, probes: &[Jprobe]) -> Result<(), Refusal> {
        refuse_none(probes.len())?;
        for (done, probe) in probes.iter().enumerate() {
            if let Err(refusal) = self.register_jprobe(guest, probe) {
                self.unregister_jprobes(guest, &probes[..done]);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Unregisters a jprobe. Its handler does not run any more when this returns.
    pub fn unregister_jprobe(&mut self, guest: &mut dyn Guest, probe: &Jprobe) {
        self.unregister_kprobe(guest, probe.kprobe());
    }

    /// Unregisters several jprobes at once.
    pub fn unregister_jprobes(&mut self, guest: &mut dyn Guest, probes: &[Jprobe]) {
        self.unregister_all(guest, probes.iter().map(Jprobe::kprobe));
    }

    /// Disables it: its handler does not run until [`Engine::enable_jprobe`].
    pub fn disable_jprobe(&mut self, guest: &mut dyn Guest, probe: &Jprobe) -> Result<(), Refusal> {
        self.disable_kprobe(guest, probe.kprobe())
    }

    /// Undoes [`Engine::disable_jprobe`].
    pub fn enable_jprobe(&mut self, guest: &mut dyn Guest, probe: &Jprobe) -> Result<(), Refusal> {
        self.enable_kprobe(guest, probe.kprobe())
    }

    /// The entry of a guest handler, with the registers that a call of it sets (such as the TOC pointer). `None` for a host
    /// handler.
    fn guest_entry(&self, guest: &dyn Guest, probe: &Jprobe) -> Result<Option<Callee>, Refusal> {
        let pointer = match probe.mirror_handler() {
            None => return Err(Refusal::new(Errno::EINVAL, "a jprobe without a handler; give it one with `host` or `guest`")),
            Some(MirrorHandler::Host(_)) => return Ok(None),
            Some(MirrorHandler::Address(address)) => *address,
            // On ISAs with function descriptors, `name` is the descriptor's symbol.
            Some(MirrorHandler::Symbol(name)) => match guest.symbol(name).or_else(|| self.code_symbol(guest, name)) {
                Some(symbol) => symbol.start,
                None => return refused(Errno::EINVAL, format!("the handler `{name}` is no symbol of the guest")),
            },
        };
        let Some(callee) = self.callee(guest, pointer).filter(|callee| guest.text_kind(callee.code).is_some()) else {
            let name = guest.symbol_at(pointer).map_or_else(|| format!("at {pointer:#x}"), |symbol| symbol.name);
            return refused(Errno::EINVAL, format!("the handler {name} is no code of the guest's, or no longer there"));
        };
        match guest.symbol_at(callee.code) {
            Some(symbol) if callee.code == symbol.start => Ok(Some(callee)),
            _ => refused(Errno::EINVAL, format!("the handler at {pointer:#x} is not the first instruction of a function")),
        }
    }
}

/// The range of the guest's own `jprobe_return`, which contains its breakpoint.
fn guest_return(guest: &dyn Guest) -> Option<Range<u64>> {
    let start = guest.symbol(JPROBE_RETURN)?;
    let end = guest.symbol(JPROBE_RETURN_END).map_or(start.start.wrapping_add(start.size), |end| end.start);
    Some(start.start..end)
}

#[cfg(test)]
mod tests;
