//! The CPU core with nothing of ours around it, calling an empty function: what a person would pick instead of probes,
//! for the benches to put beside them. A code hook on the function, alone or among others, or a breakpoint in it and an
//! empty hook for its trap.

use super::kinds::Register;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use unicorn_engine_sys::{self as sys, Arch, Mode, uc_engine, uc_error};

/// What watches the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Nothing watches it.
    Nothing,
    /// A code hook on its first instruction, and so many on addresses that never run.
    CodeHook {
        /// How many others there are.
        others: u64,
    },
    /// A breakpoint is its first instruction; the hook of its trap lets the guest go on behind it.
    Trap,
}

/// The guest of an ISA: call the function, count down, jump back; behind that is its end.
pub struct Program {
    /// What the library is opened for.
    pub library: (Arch, Mode),
    /// The pc, the stack pointer, and the register with the number of calls to come.
    pub registers: fn() -> [Register; 3],
    /// What is set in an address to say in which code it is.
    pub pointer_bits: u64,
    /// The loop, in which the function is FUNCTION - START = 0x100 bytes behind the loop's start.
    pub calls: &'static [u8],
    /// The function: an instruction that does nothing, and a return.
    pub nothing: &'static [u8],
    /// A breakpoint, and a return.
    pub breakpoint: &'static [u8],
    /// Bytes from the pc in the hook of a trap to the instruction behind the breakpoint.
    pub behind: u64,
}

const START: u64 = 0x1000;
const FUNCTION: u64 = 0x1100;
/// Where hooks are that are never called.
const ELSEWHERE: u64 = 0x2000;
const STACK_END: u64 = 0x8000;
const MEMORY: u64 = 0x10000;
const ALL_ACCESS: u32 = 7;

/// A core in front of its loop.
pub struct PlainCore {
    uc: *mut uc_engine,
    program: &'static Program,
    seen: Box<Seen>,
}

/// What the hook works on.
struct Seen {
    hits: u64,
    pc: Register,
    behind: u64,
}

extern "C" fn code(_: *mut uc_engine, _: u64, _: u32, user: *mut c_void) {
    // SAFETY: `user` is the box of the `PlainCore` whose run this is, and nobody else looks at it meanwhile.
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
    /// A core in front of that program.
    pub fn new(program: &'static Program, watch: Watch) -> Result<PlainCore, String> {
        let [pc, ..] = (program.registers)();
        let mut uc = null_mut();
        // SAFETY: plain calls of the library, each result checked. The callbacks have the signatures of their kinds;
        // `seen` lives in a box that is dropped after the engine is closed.
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

    /// From the first address to the last, or, if that comes before it, everywhere.
    ///
    /// # Safety
    /// `callback` must have the signature that this kind of hook calls.
    unsafe fn hook(&self, kind: sys::HookType, callback: *mut c_void, first: u64, last: u64) -> Result<(), String> {
        let user = (&raw const *self.seen).cast_mut().cast();
        let mut hook = 0;
        // SAFETY: the caller keeps to the contract; `user` lives as long as the engine.
        check(unsafe { sys::uc_hook_add(self.uc, &raw mut hook, kind.0 as c_int, callback, user, first, last) })
    }

    /// Calls the function so often; how often it was seen.
    pub fn run(&mut self, calls: u32) -> Result<u64, String> {
        let before = self.seen.hits;
        let program = self.program;
        // SAFETY: the registers have at most 8 bytes; the callbacks reach `seen` only during this call.
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

    /// OH-1: what stands beside our figures measures what it says.
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
