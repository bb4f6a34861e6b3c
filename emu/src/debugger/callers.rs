//! The kernel backtrace of `monitor callers`: unwinds a CPU's or a sleeping task's stack by the kernel's unwind tables or
//! frame pointers (`unwind/`).

use crate::boot::Kernel;
use crate::cpu::View;
use crate::cpu::switched::Kept;
use crate::history::timeline::Timeline;
use crate::unwind;
use trapline_isa::mem::Memory;
use trapline_isa::regs::{Reg, Registers};
use trapline_probes::context::Frame;
use trapline_probes::unwind::{Standing, Walked, standing, walk};

/// The largest number of addresses in a backtrace.
const CALLERS: usize = 32;

/// The stack of a guest without probes, where every return address is the true one.
struct Plain<'a>(&'a mut View);

impl Walked for Plain<'_> {
    fn word(&mut self, at: u64) -> Option<u64> {
        self.0.read_number(at, self.0.isa.word).ok()
    }

    fn real(&mut self, _: u64, address: u64) -> u64 {
        address
    }
}

/// The pc and the callers of the running CPU, or of a task with the saved registers `kept`, innermost first. `None` if no
/// unwind rule is known for this kernel.
pub(super) fn of(timeline: &mut Timeline, kernel: &Kernel, kept: Option<&Kept>) -> Option<Vec<u64>> {
    let rule = unwind::of(kernel)?;
    let mut frames = [Frame::default(); CALLERS];
    let found = timeline.look().look(|view| {
        let at = match kept {
            None => Standing { sp: view.get(view.isa.abi.sp), ..standing(view, &*rule, false) },
            Some(kept) => {
                let get = |reg: Option<Reg>| reg.and_then(|reg| kept.get(reg)).unwrap_or(0);
                Standing { pc: kept.pc, sp: get(Some(view.isa.abi.sp)), frame: get(rule.registers().0), link: 0, called: true }
            }
        };
        walk(&*rule, at, &mut frames, &mut Plain(view))
    });
    Some(frames.iter().take(found).map(|frame| frame.address).collect())
}
