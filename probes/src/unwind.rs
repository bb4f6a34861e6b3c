//! Who called whom: a walk from one caller to the next, by a rule that knows how this guest's code lays its frames.

use crate::context::{Frame, Hit, Phase};
use crate::guest::Cpu;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use trapline_isa::regs::Reg;

/// Where a function stands: what finding its caller begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub frame: u64,
    /// The register that calls leave the return address in, where it still may be there; 0 otherwise.
    pub link: u64,
    /// The pc is behind a call, not at an instruction that has yet to run.
    pub called: bool,
}

/// A caller, and where the address of its return was found: 0 for a register.
pub type Caller = (Standing, u64);

/// How callers are found in one kernel.
pub trait Unwind: Send + Sync {
    /// The registers that a walk begins with: the frame pointer, and what calls leave the return address in.
    fn registers(&self) -> (Option<Reg>, Option<Reg>);
    /// Who called the function that stands there; `read` gives a word of memory. `None`: it is the first, or nobody can
    /// tell.
    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller>;
}

/// What a walk looks at.
pub trait Walked {
    /// A word of memory.
    fn word(&mut self, at: u64) -> Option<u64>;
    /// What the address of a return stands for, that was found there.
    fn real(&mut self, slot: u64, address: u64) -> u64;
}

/// The way from a place to the first caller, one address for each, the place itself in front. Gives how many of `into`
/// were filled.
pub fn walk(rule: &dyn Unwind, mut at: Standing, into: &mut [Frame], walked: &mut dyn Walked) -> usize {
    let (mut found, mut slot, mut raw) = (0, 0, at.pc);
    while let Some(free) = into.get_mut(found) {
        *free = Frame { slot, raw, address: at.pc };
        found += 1;
        let Some((mut caller, place)) = rule.caller(&at, &mut |at| walked.word(at)) else { break };
        // A stack that leads back to itself leads nowhere.
        if caller.pc == 0 || place != 0 && (caller.sp, caller.frame) == (at.sp, at.frame) {
            break;
        }
        (slot, raw) = (place, caller.pc);
        caller.pc = walked.real(place, caller.pc);
        at = caller;
    }
    found
}

/// A hit whose callers are looked for; return pads seen so far.
struct OfHit<'a, 'b>(&'a mut Hit<'b>, usize);

impl Walked for OfHit<'_, '_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        let isa = self.0.isa();
        self.0.machine().stack_word(at, isa.word)
    }
    fn real(&mut self, slot: u64, address: u64) -> u64 {
        self.0.resolve(slot, address, &mut self.1)
    }
}

impl Hit<'_> {
    /// The calls that led here, innermost first, the pc in front; hijacked returns are resolved. Gives how many of
    /// `into` were filled.
    pub fn callers(&mut self, into: &mut [Frame], rule: &dyn Unwind) -> usize {
        // At a return the pc is the caller's, behind its call, and the register is nobody's.
        let called = self.phase() == Phase::Return;
        let at = standing(self.machine(), rule, called);
        let at = Standing { pc: self.pc(), sp: self.sp(), ..at };
        walk(rule, at, into, &mut OfHit(self, 0))
    }
}

/// How a guest's stacks are read.
#[derive(Clone, Default)]
pub struct Stacks {
    /// Where code may stand that a stack leads back to.
    pub text: Vec<Range<u64>>,
    /// How callers are found, where somebody knows; otherwise what looks like an address of code is taken for a caller.
    pub rule: Option<Arc<dyn Unwind>>,
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks").field("text", &self.text).field("is_guessed", &self.rule.is_none()).finish()
    }
}

impl Stacks {
    /// The calls that led to a hit, innermost first, the pc in front. Gives how many of `into` were filled.
    pub fn of(&self, hit: &mut Hit<'_>, into: &mut [Frame]) -> usize {
        match &self.rule {
            Some(rule) => hit.callers(into, &**rule),
            None => hit.backtrace(into, |address| self.text.iter().any(|range| range.contains(&address))),
        }
    }
}

/// Where a CPU stands.
pub fn standing(cpu: &mut dyn Cpu, rule: &dyn Unwind, called: bool) -> Standing {
    let (frame, link) = rule.registers();
    let get = |reg: Option<Reg>| reg.map_or(0, |reg| cpu.get(reg));
    Standing { pc: cpu.pc(), sp: 0, frame: get(frame), link: if called { 0 } else { get(link) }, called }
}
