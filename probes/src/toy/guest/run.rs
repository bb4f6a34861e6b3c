//! Executes the toy guest's code, instruction by instruction, and asks the engine at breakpoints, jumps to detours, faults and
//! interrupts.
//!
//! [`ToyGuest::run`] and the functions beside it return the reason why the CPU stopped. Time counts the guest's own code, and the
//! displaced instructions of a copy or a detour.

use super::{BREAKPOINT, PAGE_FAULT, Stop, ToyCpu, ToyGuest, in_window};
use crate::engine::Engine;
use crate::guest::{Answer, Guest, WINDOW_UNIT, WindowUse};
use crate::toy::isa::{self, Effect, FLAGS, SP};
use trapline_isa::insn::Insn;
use trapline_isa::regs::{Reg, Registers};

/// The function that interrupts call.
const INTERRUPT_HANDLER: &str = "irq_handler";

impl ToyGuest {
    /// Runs a CPU until it stops.
    pub fn run(&mut self, engine: &mut Engine, cpu: usize) -> Stop {
        self.run_steps(engine, cpu, 1_000_000)
    }

    /// Runs a CPU for at most `steps` steps. An instruction, a trap and an interrupt are one step each.
    pub fn run_steps(&mut self, engine: &mut Engine, cpu: usize, steps: usize) -> Stop {
        for _ in 0..steps {
            if let Some(stop) = self.step(engine, cpu) {
                return stop;
            }
        }
        Stop::Steps
    }

    /// Runs a CPU until `there` accepts its pc. Returns false if it stops before.
    pub fn run_to(&mut self, engine: &mut Engine, cpu: usize, there: impl Fn(u64) -> bool) -> bool {
        for _ in 0..10_000 {
            if there(self.cpus[cpu].pc) {
                return true;
            }
            if self.step(engine, cpu).is_some() {
                return false;
            }
        }
        false
    }

    /// Takes a due interrupt, or executes one instruction.
    fn step(&mut self, engine: &mut Engine, number: usize) -> Option<Stop> {
        if self.take_interrupt(engine, number) {
            return None;
        }
        let pc = self.cpus[number].pc;
        if let Some(WindowUse::Detour { origin, jump, point, .. }) = self.window.get(&pc).copied() {
            self.jump_in(engine, number, origin, jump, point);
        }
        let decoded = self.fetch(pc);
        let Some(insn) = decoded else { return Some(Stop::Exception { trapnr: PAGE_FAULT, pc }) };
        if insn.bytes()[0] == isa::BREAK {
            return self.breakpoint(engine, number);
        }
        let return_address = self.isa.abi.return_address;
        // Registers and memory of one CPU must be two objects here.
        let mut state = State(self.cpus[number].clone());
        let outcome = isa::execute(insn.bytes(), pc, &mut state, &mut self.cpu(number), return_address);
        let repeating = outcome == Ok(Effect::Again);
        match outcome {
            Err(_) => {
                self.cpus[number].in_slot = isa::has_slot(insn.bytes());
                return self.exception(engine, number, PAGE_FAULT);
            }
            Ok(Effect::Trap(trapnr)) => return self.exception(engine, number, trapnr),
            Ok(Effect::Halt) => return Some(Stop::Halted),
            Ok(Effect::Done | Effect::Again) => {}
        }
        let counted = self.counted(pc, insn.length());
        let cpu = &mut self.cpus[number];
        (cpu.registers, cpu.pc, cpu.repeating) = (state.0.registers, state.0.pc, repeating);
        cpu.time += if cpu.frozen { 0 } else { counted };
        None
    }

    /// The instruction at a pc. `None` if no code is there.
    fn fetch(&self, pc: u64) -> Option<Insn> {
        if !in_window(pc) && self.text_kind(pc).is_none() {
            return None;
        }
        (self.isa.decode)(pc, self.memory.get(pc as usize..)?).ok()
    }

    /// The bytes that an instruction counts. In the window only the displaced instruction counts.
    fn counted(&self, pc: u64, length: u64) -> u64 {
        let unit = pc - pc % WINDOW_UNIT as u64;
        match self.window.get(&unit).filter(|_| in_window(pc)) {
            None => length,
            Some(WindowUse::Copy { displaced, .. }) if pc == unit => u64::from(*displaced),
            Some(WindowUse::Detour { displaced, lead, .. }) => {
                let copies = unit + u64::from(*lead)..unit + u64::from(*lead + *displaced);
                if copies.contains(&pc) { length } else { 0 }
            }
            Some(_) => 0,
        }
    }

    /// A jump has led to a detour. The displaced instructions count there, so take back what the jump counted.
    fn jump_in(&mut self, engine: &mut Engine, number: usize, origin: u64, jump: u8, point: u32) {
        let cpu = &mut self.cpus[number];
        let detour = core::mem::replace(&mut cpu.pc, origin);
        cpu.time -= if cpu.frozen { 0 } else { u64::from(jump) };
        let around = self.around;
        let mut view = self.cpu(number);
        around(true);
        let is_simple =
            !engine.is_busy(number) && (engine.jumped_in_simply(&mut view, point) || engine.entered_simply(&mut view, point));
        if !is_simple {
            engine.jumped_in(&mut view, point);
        }
        around(false);
        self.cpus[number].pc = detour;
    }

    /// Asks the engine about a breakpoint.
    fn breakpoint(&mut self, engine: &mut Engine, number: usize) -> Option<Stop> {
        self.cpus[number].traps += 1;
        let around = self.around;
        let mut view = self.cpu(number);
        around(true);
        let answer = engine.breakpoint(&mut view);
        around(false);
        self.apply_answer(number, answer, BREAKPOINT)
    }

    /// Asks the engine about an exception in the window, or while a handler in guest code runs. Any other is the guest's own.
    fn exception(&mut self, engine: &mut Engine, number: usize, trapnr: u32) -> Option<Stop> {
        let around = self.around;
        let frozen = self.cpus[number].frozen;
        if !in_window(self.cpus[number].pc) && !frozen {
            return Some(Stop::Exception { trapnr, pc: self.cpus[number].pc });
        }
        let mut view = self.cpu(number);
        around(true);
        let answer = engine.fault(&mut view, trapnr);
        around(false);
        self.apply_answer(number, answer, trapnr)
    }

    /// Applies the engine's answer to a trap. Returns a stop if the exception is the guest's own.
    fn apply_answer(&mut self, number: usize, answer: Answer, trapnr: u32) -> Option<Stop> {
        let cpu = &mut self.cpus[number];
        cpu.repeating = false;
        match answer {
            Answer::NotOurs => Some(Stop::Exception { trapnr, pc: cpu.pc }),
            Answer::Resume(resume) => {
                cpu.time += u64::from(resume.counted);
                cpu.frozen = resume.frozen;
                None
            }
        }
    }

    /// Enters the interrupt handler if an interrupt is due and may be taken here. Returns whether it did.
    fn take_interrupt(&mut self, engine: &mut Engine, number: usize) -> bool {
        let cpu = &self.cpus[number];
        let is_due = cpu.interrupt_at.is_some_and(|at| cpu.time >= at) && cpu.registers[usize::from(FLAGS.0)] & 1 != 0;
        let is_place = !cpu.frozen && (!in_window(cpu.pc) || cpu.repeating);
        if !is_due || !is_place {
            return false;
        }
        let handler = self.address(INTERRUPT_HANDLER);
        if handler == 0 {
            return false;
        }
        if in_window(cpu.pc) {
            let around = self.around;
            let mut view = self.cpu(number);
            around(true);
            engine.interrupted(&mut view);
            around(false);
        }
        let cpu = &mut self.cpus[number];
        cpu.interrupts.push((cpu.time, cpu.pc));
        cpu.interrupt_at = cpu.interrupt_period.map(|period| cpu.time + period);
        cpu.repeating = false;
        let (pc, flags, sp) = (cpu.pc, cpu.registers[usize::from(FLAGS.0)], cpu.registers[usize::from(SP.0)] - 16);
        cpu.registers[usize::from(SP.0)] = sp;
        cpu.registers[usize::from(FLAGS.0)] = 0;
        cpu.pc = handler;
        self.poke_word(sp, flags);
        self.poke_word(sp + 8, pc);
        true
    }
}

/// A copy of a CPU's registers, so that an instruction can run while the guest's memory is borrowed.
struct State(ToyCpu);

impl Registers for State {
    fn get(&self, reg: Reg) -> u64 {
        self.0.registers.get(usize::from(reg.0)).copied().unwrap_or(0)
    }
    fn set(&mut self, reg: Reg, value: u64) {
        if let Some(register) = self.0.registers.get_mut(usize::from(reg.0)) {
            *register = value;
        }
    }
    fn pc(&self) -> u64 {
        self.0.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.0.pc = pc;
    }
}
