//! Contains a crash of the CPU core. Unicorn was not written for guests that attack it: it may call `exit` or `abort`,
//! or fault. [`contain`] turns each of these into a [`Crash`], so that the run ends with its summary and its report.
//!
//! This is only the last line of defense: it does not undo what the core has overwritten before. The bounds in
//! docs/unicorn.md are what keeps a guest out of the host's memory.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The way in which the core has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It called `exit` with this status.
    Exit(u8),
    /// An assertion of its own failed: source file, line and text.
    Assertion(String),
    /// It raised this signal.
    Signal(i32),
}

impl fmt::Display for Crash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |signal| match signal {
            SIGABRT => "it aborted (SIGABRT)".into(),
            SIGSEGV => "it accessed memory that it does not have (SIGSEGV)".into(),
            other => format!("signal {other}"),
        };
        match self {
            Crash::Exit(status) => write!(to, "it tried to end the process with status {status}"),
            Crash::Assertion(place) => write!(to, "an assertion of its own failed ({place})"),
            Crash::Signal(signal) => to.write_str(&name(*signal)),
        }
    }
}

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;
/// The values of `crash.c`.
const ASSERTION: c_int = 128;
const EXIT: c_int = 256;

unsafe extern "C-unwind" {
    fn trapline_contain(run: extern "C-unwind" fn(*mut c_void), argument: *mut c_void) -> c_int;
    fn trapline_assertion() -> *const c_char;
}

/// A function and its result. A panic is a result, too, because it must not unwind through C.
struct Task<F, R> {
    run: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
}

extern "C-unwind" fn call<F: FnOnce() -> R, R>(task: *mut c_void) {
    // SAFETY: `contain` passes its own task, and does not touch it during the call.
    let task = unsafe { &mut *task.cast::<Task<F, R>>() };
    if let Some(run) = task.run.take() {
        task.result = Some(catch_unwind(AssertUnwindSafe(run)));
    }
}

/// Calls `run` and returns its result, or the crash that has ended it. After a crash the frames that ran are gone without
/// their destructors. Whatever they changed may be half done, so the machine must not run again.
pub fn contain<R>(run: impl FnOnce() -> R) -> Result<R, Crash> {
    fn with<F: FnOnce() -> R, R>(run: F) -> Result<R, Crash> {
        let mut task = Task { run: Some(run), result: None };
        // SAFETY: `call` gets the task that it is made for, and no panic leaves it.
        let end = unsafe { trapline_contain(call::<F, R>, (&raw mut task).cast()) };
        match (end, task.result) {
            (0, Some(Ok(result))) => Ok(result),
            (0, Some(Err(panic))) => resume_unwind(panic),
            (ASSERTION, _) => Err(Crash::Assertion(assertion())),
            (EXIT.., _) => Err(Crash::Exit(end as u8)),
            _ => Err(Crash::Signal(end)),
        }
    }
    with(run)
}

fn assertion() -> String {
    // SAFETY: the string belongs to this thread and ends with a zero.
    let text = unsafe { CStr::from_ptr(trapline_assertion()) };
    let text = text.to_string_lossy();
    // The path on the computer that compiled Unicorn is of no use.
    text.rsplit_once("/qemu/").map_or(&*text, |(_, place)| place).into()
}

/// Ways to crash, to test [`contain`].
#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn exit(status: c_int) -> !;
        fn abort() -> !;
        fn raise(signal: c_int) -> c_int;
        fn g_assertion_message_expr(file: *const c_char, line: c_int, text: *const c_char) -> !;
    }

    /// Every way out of the process, twice, one inside the other, and a return between.
    #[test]
    fn every_crash_is_contained_and_the_thread_goes_on() {
        for _ in 0..2 {
            // SAFETY: each of these is contained.
            let ways: [(fn(), Crash); 6] = [
                (|| unsafe { exit(3) }, Crash::Exit(3)),
                (|| unsafe { abort() }, Crash::Signal(SIGABRT)),
                (|| unsafe { (16 as *mut u8).write_volatile(1) }, Crash::Signal(SIGSEGV)),
                (|| _ = unsafe { raise(8) }, Crash::Signal(8)),
                (
                    || unsafe { g_assertion_message_expr(c"/somewhere/qemu/fpu/a.c".as_ptr(), 7, c"x < y".as_ptr()) },
                    Crash::Assertion("fpu/a.c:7: x < y".into()),
                ),
                (
                    || unsafe { g_assertion_message_expr(c"a.c".as_ptr(), 7, core::ptr::null()) },
                    Crash::Assertion("a.c:7: not reached".into()),
                ),
            ];
            for (way, crash) in ways {
                assert_eq!(contain(way), Err(crash.clone()));
                let inner = contain(|| (contain(way), contain(|| 5)));
                assert_eq!(inner, Ok((Err(crash.clone()), Ok(5))));
                assert_eq!(contain(|| drop(contain(|| 5).map(|_| way()))), Err(crash));
            }
        }
        assert_eq!(contain(|| 7), Ok(7));
    }

    /// A panic is not a crash: it unwinds as if it was not contained, and the next crash is still contained.
    #[test]
    fn a_panic_goes_through() {
        let told = catch_unwind(|| contain(|| panic!("on purpose"))).map_err(|panic| panic.downcast_ref::<&str>().copied());
        assert_eq!(told, Err(Some("on purpose")));
        // SAFETY: it is contained.
        assert_eq!(contain(|| unsafe { exit(1) }), Err::<(), _>(Crash::Exit(1)));
    }

    /// A crash of another thread is contained in that thread only.
    #[test]
    fn each_thread_has_its_own_net() {
        let end = contain(|| {
            // SAFETY: it is contained.
            std::thread::spawn(|| contain(|| unsafe { abort() })).join().expect("it has an end")
        });
        assert_eq!(end, Ok(Err::<(), _>(Crash::Signal(SIGABRT))));
    }
}
