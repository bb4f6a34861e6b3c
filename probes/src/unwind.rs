//! Stack unwinding: the walk from each function to its caller. The rule that finds a caller ([`Unwind`]) depends on the
//! kernel, and the emulator provides it. Without a rule, [`Stacks`] falls back to scanning the stack for code
//! addresses.

use crate::context::{Frame, Hit, Phase};
use crate::guest::Cpu;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use trapline_isa::regs::Reg;

/// The unwind state of one function: the registers from which its caller is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Address of the instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub frame: u64,
    /// The link register, if it may still hold the return address. Otherwise 0.
    pub link: u64,
    /// Whether the pc is a return address, behind a call, instead of an instruction still to run.
    pub called: bool,
}

/// A caller, and the stack address of its return address. 0 means that it was in a register.
pub type Caller = (Standing, u64);

/// The unwind rule of one kernel.
pub trait Unwind: Send + Sync {
    /// The registers that a walk starts with: frame pointer and link register.
    fn registers(&self) -> (Option<Reg>, Option<Reg>);
    /// The caller of a function. `read` returns a word of memory. `None` if there is no caller or it cannot be found.
    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller>;
    /// Completes the state of a caller that [`Unwind::caller`] has found, now that its pc is the true one and not a return
    /// pad's.
    fn at_true_pc(&self, caller: Standing) -> Standing {
        caller
    }
}

/// The stack that a walk reads.
pub trait Walked {
    /// A word of memory.
    fn word(&mut self, at: u64) -> Option<u64>;
    /// The true address for a return address that was found at `slot`. It replaces the return pad's.
    fn real(&mut self, slot: u64, address: u64) -> u64;
}

/// Walks from a function to its outermost caller and writes one frame each, the start included. Returns the number of
/// entries written to `into`.
pub fn walk(rule: &dyn Unwind, mut at: Standing, into: &mut [Frame], walked: &mut dyn Walked) -> usize {
    let (mut found, mut slot, mut raw) = (0, 0, at.pc);
    while let Some(free) = into.get_mut(found) {
        *free = Frame { slot, raw, address: at.pc };
        found += 1;
        let Some((mut caller, place)) = rule.caller(&at, &mut |at| walked.word(at)) else { break };
        if caller.pc == 0 {
            break;
        }
        (slot, raw) = (place, caller.pc);
        caller.pc = walked.real(place, caller.pc);
        let caller = rule.at_true_pc(caller);
        // A stack that leads back to itself is corrupt.
        if place != 0 && (caller.sp, caller.frame) == (at.sp, at.frame) {
            break;
        }
        at = caller;
    }
    found
}

/// The stack of a hit, and the number of return-pad addresses found so far.
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
    /// The call chain of this hit, innermost first, after the pc. Return-pad addresses are replaced by true ones.
    /// Returns the number of entries written to `into`.
    pub fn callers(&mut self, into: &mut [Frame], rule: &dyn Unwind) -> usize {
        // At a return the pc lies in the caller, behind its call, and the link register is stale.
        let called = self.phase() == Phase::Return;
        let at = standing(self.machine(), rule, called);
        let at = Standing { pc: self.pc(), sp: self.sp(), ..at };
        walk(rule, at, into, &mut OfHit(self, 0))
    }
}

/// The way to read a guest's stacks.
#[derive(Clone, Default)]
pub struct Stacks {
    /// Ranges of code that return addresses may lie in.
    pub text: Vec<Range<u64>>,
    /// The unwind rule, if one is known. Without it, every stack word that is a code address counts as a frame.
    pub rule: Option<Arc<dyn Unwind>>,
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks").field("text", &self.text).field("is_guessed", &self.rule.is_none()).finish()
    }
}

impl Stacks {
    /// The call chain of a hit, innermost first, after the pc. Returns the number of entries written to `into`.
    pub fn of(&self, hit: &mut Hit<'_>, into: &mut [Frame]) -> usize {
        match &self.rule {
            Some(rule) => hit.callers(into, &**rule),
            None => hit.backtrace(into, |address| self.text.iter().any(|range| range.contains(&address))),
        }
    }
}

/// The unwind state of a CPU, with a stack pointer of 0, which the caller must set. `called` as in [`Standing::called`].
pub fn standing(cpu: &mut dyn Cpu, rule: &dyn Unwind, called: bool) -> Standing {
    let (frame, link) = rule.registers();
    let get = |reg: Option<Reg>| reg.map_or(0, |reg| cpu.get(reg));
    Standing { pc: cpu.pc(), sp: 0, frame: get(frame), link: if called { 0 } else { get(link) }, called }
}
