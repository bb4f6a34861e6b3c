//! The report on a guest that died or was stopped: registers and backtrace.

use super::Session;
use super::kernel_stack::{Followed, Stopped, stack_words};
use crate::unicorn::crash;
use trapline_isa::regs::Registers;
use trapline_probes::context::Frame;
use trapline_probes::guest::Cpu;
use trapline_probes::unwind::{Standing, Unwind, standing, walk};

/// The state of a stopped guest.
#[derive(Clone, Debug)]
pub struct Report {
    /// The running CPU's number.
    pub cpu: usize,
    /// The names and values of its registers.
    pub registers: Vec<(&'static str, u64)>,
    /// The pc of every CPU, with its name.
    pub cpus: Vec<(u64, String)>,
    /// The callers, innermost first. The pad is replaced by the true return addresses.
    pub calls: Vec<(u64, String)>,
    /// Whether the callers are guesses: all code addresses on the stack, which may be stale. This is so if the kernel's
    /// stack cannot be unwound.
    pub are_guessed: bool,
}

/// The largest number of callers.
const CALLS: usize = 16;

impl Session {
    /// Makes the report. If the CPU core crashes meanwhile, the report has only the places of the CPUs.
    pub fn report(&mut self) -> Report {
        crash::contain(|| self.full_report()).unwrap_or_else(|_| Report {
            cpu: self.machine.current_cpu(),
            registers: Vec::new(),
            cpus: self.machine.pcs().into_iter().map(|pc| (pc, self.kernel().symbols.describe(pc))).collect(),
            calls: Vec::new(),
            are_guessed: false,
        })
    }

    fn full_report(&mut self) -> Report {
        let pcs = self.machine.pcs();
        let isa = self.kernel().arch.isa();
        let stack = self.machine.look(|view| stack_words(view, isa));
        let task = self.machine.look(|view| view.task());
        let followed = Followed::of(self.engine(), task, &stack);
        let rule = self.stacks().rule.filter(|_| self.machine.in_kernel());
        let walked = rule.map(|rule| self.walked(&*rule, &followed)).unwrap_or_default();
        let are_guessed = walked.is_empty();
        let calls = match are_guessed {
            true => self.guessed(&stack, &followed),
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

    /// The words of this stack that point into code, with true addresses in place of the pad's.
    fn guessed(&self, stack: &[(u64, u64)], followed: &Followed) -> Vec<u64> {
        let mut pads = 0;
        let mut real = |(slot, word): &(u64, u64)| {
            let address = followed.real(*slot, *word, &mut pads);
            self.kernel().tables.is_text(address).then_some(address)
        };
        stack.iter().filter_map(&mut real).take(CALLS).collect()
    }

    /// The callers of the running CPU's pc, by unwinding.
    fn walked(&mut self, rule: &dyn Unwind, followed: &Followed) -> Vec<u64> {
        let mut frames = [Frame::default(); CALLS + 1];
        let count = self.machine.look(|view| {
            let at = Standing { sp: view.get(view.isa.abi.sp), ..standing(view, rule, false) };
            let word = view.isa.word;
            walk(rule, at, &mut frames, &mut Stopped { cpu: view, word, followed, pads: 0 })
        });
        frames[..count].iter().skip(1).map(|frame| frame.address).collect()
    }
}
