//! The unwinding rule of a kernel together with those of its modules, which come and go while probes hold the rule.

use super::{chain, exidx, orc, prologue, register_stack, register_windows};
use crate::boot::Kernel;
use arc_swap::ArcSwap;
use std::ops::Range;
use std::sync::Arc;
use trapline_isa::regs::Reg;
use trapline_probes::unwind::{Caller, Standing, Unwind};

/// The rule for the code of one module.
#[derive(Clone)]
pub struct ModuleRule {
    /// The address ranges of its code.
    pub text: Vec<Range<u64>>,
    /// The unwinding rule for this code.
    pub rule: Arc<dyn Unwind>,
}

/// The rules of a kernel and of its modules. A hit reads them without a lock.
pub struct Rules {
    kernel: Arc<dyn Unwind>,
    modules: ArcSwap<Vec<ModuleRule>>,
}

impl Rules {
    /// The rule of a kernel without modules.
    pub fn new(kernel: Arc<dyn Unwind>) -> Rules {
        Rules { kernel, modules: ArcSwap::default() }
    }

    /// Replaces the rules of the modules.
    pub fn set_modules(&self, modules: Vec<ModuleRule>) {
        self.modules.store(Arc::new(modules));
    }

    /// Calls `then` with the rule for the code in which a function stands.
    fn with<T>(&self, at: &Standing, then: impl FnOnce(&dyn Unwind) -> T) -> T {
        // After a call that does not return, the return address may be the start of the next section.
        let pc = if at.called { at.pc.wrapping_sub(1) } else { at.pc };
        let modules = self.modules.load();
        match modules.iter().find(|module| module.text.iter().any(|range| range.contains(&pc))) {
            Some(module) => then(&*module.rule),
            None => then(&*self.kernel),
        }
    }
}

impl Unwind for Rules {
    fn registers(&self) -> (Option<Reg>, Option<Reg>) {
        self.kernel.registers()
    }

    fn caller(&self, at: &Standing, read: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
        self.with(at, |rule| rule.caller(at, read))
    }

    fn at_true_pc(&self, caller: Standing) -> Standing {
        self.with(&caller, |rule| rule.at_true_pc(caller))
    }
}

/// The rule for a module's code, by the method of its ISA. `None` if the module has no tables for it.
pub fn of_module(module: &Kernel) -> Option<Arc<dyn Unwind>> {
    if let Some(tables) = orc::Orc::of_module(module) {
        return Some(Arc::new(tables));
    }
    if let Some((_, looks)) = super::PROLOGUES.iter().find(|(arches, _)| arches.contains(&module.arch)) {
        let code = module.segments.iter().filter(|segment| segment.executable).map(|segment| segment.range());
        return Some(Arc::new(prologue::Prologues::new(module, code, looks)?));
    }
    if let Some((_, shape)) = super::WINDOWS.iter().find(|(arch, _)| *arch == module.arch) {
        return Some(Arc::new(register_windows::RegisterWindows::new(module, *shape)));
    }
    if let Some((_, stack)) = super::STACKS.iter().find(|(arch, _)| *arch == module.arch) {
        return Some(Arc::new(register_stack::RegisterStack::new(module, *stack)));
    }
    if let Some(tables) = exidx::Exidx::of_module(module) {
        return Some(Arc::new(tables));
    }
    let (_, chain) = super::CHAINS.iter().find(|(arch, _)| *arch == module.arch)?;
    Some(Arc::new(chain::Chained::new(module, chain)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that tells its own number.
    struct Told(u64);

    impl Unwind for Told {
        fn registers(&self) -> (Option<Reg>, Option<Reg>) {
            (None, None)
        }

        fn caller(&self, at: &Standing, _: &mut dyn FnMut(u64) -> Option<u64>) -> Option<Caller> {
            Some((Standing { sp: self.0, ..*at }, 0))
        }
    }

    /// BY-1: a module's code is unwound by the module's rule while it is loaded.
    #[test]
    fn code_is_unwound_by_the_rule_of_its_module() {
        let rules = Rules::new(Arc::new(Told(1)));
        let by = |pc, called| {
            let at = Standing { pc, called, ..Standing::default() };
            rules.caller(&at, &mut |_| None).map(|(caller, _)| caller.sp)
        };
        assert_eq!(by(0x1000, false), Some(1));
        let module =
            |start, number| ModuleRule { text: std::iter::once(start..start + 0x100).collect(), rule: Arc::new(Told(number)) };
        rules.set_modules(vec![module(0x1000, 2), module(0x1100, 3)]);
        assert_eq!(
            (by(0x1000, false), by(0x1100, false), by(0x1100, true), by(0x1200, false)),
            (Some(2), Some(3), Some(2), Some(1))
        );
        rules.set_modules(vec![]);
        assert_eq!(by(0x1000, false), Some(1));
    }
}
