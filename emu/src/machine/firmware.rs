//! Two kinds of trap that the guest does not see as exceptions: firmware calls (SBI, PSCI, OPAL and others), which the board
//! answers, and instructions that the core does not implement, which the CPU model executes.

use super::hooks::CLOCK_READ_NANOSECONDS;
use super::{Inner, Listener, StopReason, What};
use crate::boards::{At, FirmwareCall};
use crate::clock::ticks;
use crate::cpu::{Left, Trap, TrapKind};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Physical;
use trapline_isa::regs::Reg;
use trapline_probes::watch::By;

impl<L: Listener> Inner<L> {
    /// Passes a firmware call to the board and writes the results to registers.
    pub(super) fn firmware_call(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.resume);
        self.look_soon();
        let model = self.view.model;
        let at = At { cpu: self.view.current, now: self.view.clock.time() };
        let get = |register: &Reg| (model.registers.get)(&cpu.handle(), *register, trap.pc);
        let arguments: Vec<u64> = model.firmware.arguments.iter().map(get).collect();
        self.attribute_writes(None, trap.pc);
        let mut memory = Physical { ram: &self.view.ram };
        let results = self.board.firmware_call(at, FirmwareCall { arguments: &arguments, memory: &mut memory });
        for (register, value) in model.firmware.results.iter().zip(results) {
            (model.registers.set)(cpu, *register, value);
        }
        self.attribute_writes(Some(By::Device), trap.pc);
        cpu.set_pc(trap.resume);
        self.after_access(at);
        if self.is_parked() {
            cpu.stop();
        }
    }

    /// Executes an instruction that the core does not implement. The following instruction continues the line of code, even
    /// if this one is a copy in the window.
    pub(super) fn left_to_us(&mut self, cpu: &TrapContext, trap: Trap) {
        self.view.clock.close_at(trap.pc);
        let at = At { cpu: self.view.current, now: self.view.clock.time() };
        self.advance(at);
        self.look_soon();
        let frozen = self.frozen;
        let counts = |length: u64| if frozen { 0 } else { length };
        let copy = self.window.physical_of(trap.pc);
        self.attribute_writes(None, trap.pc);
        let left = (self.view.model.instructions.left)(cpu, &self.view.ram, &mut *self.board, at, copy);
        self.attribute_writes(Some(By::Instruction), trap.pc);
        match left {
            Left::Done { length, reads_clock } => {
                let next = trap.pc.wrapping_add(length);
                self.view.clock.resume(counts(length), Some(next));
                cpu.set_pc(next);
                if reads_clock && !self.frozen {
                    self.view.clock.add(ticks(CLOCK_READ_NANOSECONDS));
                    self.record(What::ClockRead, self.origin_of(trap.pc), at.now);
                }
                self.after_access(at);
                if self.is_parked() {
                    cpu.stop();
                }
            }
            Left::Went { length, waits } => {
                self.view.clock.resume(counts(length), None);
                if waits {
                    self.wait(cpu);
                }
            }
            Left::Raises(exception) => {
                let trap = Trap { kind: TrapKind::Exception, exception, ..trap };
                self.exception(cpu, trap);
            }
            Left::Dead(why) => self.shut_down(cpu, why),
        }
    }

    /// Puts the CPU to sleep.
    fn wait(&mut self, cpu: &TrapContext) {
        self.record(What::Halt, cpu.handle().pc(), self.view.clock.time());
        self.cpus[self.view.current].halted = true;
        self.stop_reason.get_or_insert(StopReason::Switch);
        cpu.stop();
    }
}
