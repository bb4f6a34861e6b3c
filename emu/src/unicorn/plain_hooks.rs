//! The baseline of the benches: Unicorn without the machine, running a loop that calls a function. The function has
//! Unicorn's own code hook on it, alone or among others, or a breakpoint whose trap an empty hook handles. [`Watch`] says
//! which.

use super::kinds::Register;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use unicorn_engine_sys::{self as sys, Arch, Mode, uc_engine, uc_error};

/// The way in which the function is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Not at all.
    Nothing,
    /// A code hook on its first instruction, and others on addresses that never run.
    CodeHook {
        /// The number of the others.
        others: u64,
    },
    /// Its first instruction is a breakpoint, and the hook for the trap continues behind it.
    Trap,
}

/// The guest program of an ISA: a loop that calls the function and counts down, until it falls through to its end.
pub struct Program {
    /// The arguments for opening Unicorn.
    pub library: (Arch, Mode),
    /// The pc, the stack pointer, and the register with the number of calls left.
    pub registers: fn() -> [Register; 3],
    /// The bits of a pc that select the instruction set.
    pub pointer_bits: u64,
    /// The loop; the function is FUNCTION - START = 0x100 bytes behind the loop's start.
    pub calls: &'static [u8],
    /// The function: an instruction that does nothing, and a return.
    pub nothing: &'static [u8],
    /// A breakpoint, and a return.
    pub breakpoint: &'static [u8],
    /// The distance from the pc in the hook of a trap to the instruction behind the breakpoint.
    pub behind: u64,
}

const START: u64 = 0x1000;
const FUNCTION: u64 = 0x1100;
/// The address of the hooks that are never called.
const ELSEWHERE: u64 = 0x2000;
const STACK_END: u64 = 0x8000;
const MEMORY: u64 = 0x10000;
const ALL_ACCESS: u32 = 7;

/// A core at the start of its loop.
pub struct PlainCore {
    uc: *mut uc_engine,
    program: &'static Program,
    seen: Box<Seen>,
}

/// The data of the hook.
struct Seen {
    hits: u64,
    pc: Register,
    behind: u64,
}

extern "C" fn code(_: *mut uc_engine, _: u64, _: u32, user: *mut c_void) {
    // SAFETY: `user` is the box of the `PlainCore` that runs, and nothing else accesses it during the run.
    unsafe { (*user.cast::<Seen>()).hits += 1 };
}

extern "C" fn trap(uc: *mut uc_engine, _: u32, user: *mut c_void) {
    // SAFETY: as in `code`; the register has at most 8 bytes.
    unsafe {
        let seen = &mut *user.cast::<Seen>();
        seen.hits += 1;
        if seen.behind != 0 {
            let mut pc = 0u64;
            sys::uc_reg_read(uc, seen.pc.0, (&raw mut pc).cast());
            pc += seen.behind;
            sys::uc_reg_write(uc, seen.pc.0, (&raw const pc).cast());
        }
    }
}

impl PlainCore {
    /// Makes a core for this program.
    pub fn new(program: &'static Program, watch: Watch) -> Result<PlainCore, String> {
        let [pc, ..] = (program.registers)();
        let mut uc = null_mut();
        // SAFETY: plain calls of Unicorn, each result checked. The callbacks have the signatures of their kinds; `seen`
        // is in a box that is dropped after the engine is closed.
        unsafe {
            check(sys::uc_open(program.library.0, program.library.1, &raw mut uc))?;
            let seen = Box::new(Seen { hits: 0, pc, behind: program.behind | program.pointer_bits });
            let core = PlainCore { uc, program, seen };
            check(sys::uc_mem_map(uc, 0, MEMORY, ALL_ACCESS))?;
            let function = if watch == Watch::Trap { program.breakpoint } else { program.nothing };
            for (at, bytes) in [(START, program.calls), (FUNCTION, function)] {
                check(sys::uc_mem_write(uc, at, bytes.as_ptr().cast(), bytes.len() as _))?;
            }
            match watch {
                Watch::Nothing => {}
                Watch::CodeHook { others } => {
                    for at in std::iter::once(FUNCTION).chain((0..others).map(|number| ELSEWHERE + 4 * number)) {
                        core.hook(sys::HookType::CODE, code as *mut c_void, at, at)?;
                    }
                }
                Watch::Trap => core.hook(sys::HookType::INTR, trap as *mut c_void, 1, 0)?,
            }
            Ok(core)
        }
    }

    /// Adds a hook from the first address to the last; everywhere if `last` is less than `first`.
    ///
    /// # Safety
    /// `callback` must have the signature that this kind of hook calls.
    unsafe fn hook(&self, kind: sys::HookType, callback: *mut c_void, first: u64, last: u64) -> Result<(), String> {
        let user = (&raw const *self.seen).cast_mut().cast();
        let mut hook = 0;
        // SAFETY: the caller guarantees the signature; `user` lives as long as the engine.
        check(unsafe { sys::uc_hook_add(self.uc, &raw mut hook, kind.0 as c_int, callback, user, first, last) })
    }

    /// Calls the function `calls` times; returns how many of the calls were seen.
    pub fn run(&mut self, calls: u32) -> Result<u64, String> {
        let before = self.seen.hits;
        let program = self.program;
        // SAFETY: the registers have at most 8 bytes; the callbacks access `seen` only during this call.
        unsafe {
            let [_, stack, counter] = (program.registers)();
            for (register, value) in [(stack, STACK_END), (counter, u64::from(calls))] {
                check(sys::uc_reg_write(self.uc, register.0, (&raw const value).cast()))?;
            }
            check(sys::uc_emu_start(self.uc, START | program.pointer_bits, START + program.calls.len() as u64, 0, 0))?;
        }
        Ok(self.seen.hits - before)
    }
}

impl Drop for PlainCore {
    fn drop(&mut self) {
        // SAFETY: opened in `new`, closed once.
        unsafe { sys::uc_close(self.uc) };
    }
}

fn check(answer: uc_error) -> Result<(), String> {
    if answer == uc_error::OK { Ok(()) } else { Err(format!("the core without us: {answer}")) }
}

#[cfg(test)]
mod tests {
    use super::{PlainCore, Watch};
    use trapline_isa::arch::Arch;

    /// OH-1: the figures that ours are compared with measure what they claim to.
    #[test]
    fn every_call_is_seen_by_what_watches_and_by_nothing_else() {
        for arch in Arch::ALL {
            let Some(program) = crate::arches::of(*arch).machine.as_ref().and_then(|machine| machine.program) else { continue };
            let cases = [
                (Watch::Nothing, 0),
                (Watch::CodeHook { others: 0 }, 100),
                (Watch::CodeHook { others: 1000 }, 100),
                (Watch::Trap, 100),
            ];
            for (watch, seen) in cases {
                let mut core = PlainCore::new(program, watch).expect("a core");
                assert_eq!((core.run(100), core.run(100)), (Ok(seen), Ok(seen)), "{} {watch:?}", arch.name());
            }
        }
    }
}
