//! A guest that steps its own code: it gets one trap behind each of its own instructions, and none behind those of the
//! window.

use crate::engine::Engine;
use crate::guest::{Answer, Cpu};
use crate::paused::Execution;
use crate::slots::Slot;
use trapline_isa::plan::Plan;

impl Engine {
    /// The trap of a step, with the pc in the window. Ours: no instruction of the guest's own has run since the last
    /// one. `NotOurs`: one has; the pc has been put to where the guest goes on.
    pub fn stepped(&mut self, cpu: &mut impl Cpu) -> Answer {
        let (number, pc) = (cpu.number(), cpu.pc());
        if self.scene.instances.trap_pad() == Some(pc) {
            // The return is what has been stepped: the trap comes where it leads.
            self.returned(cpu);
            return Answer::NotOurs;
        }
        if self.scene.instances.pad == Some(pc) || self.stub == Some(pc) {
            return self.resume(number, 0, true);
        }
        if let Some((point, slot)) = self.slot_around(pc).filter(|(_, slot)| (slot.detour()..slot.detoured()).contains(&pc)) {
            if pc == slot.detour() {
                self.detour_in_steps(cpu, point, slot);
            }
            return self.resume(number, 0, true);
        }
        let Some(point) = self.leave_slot(cpu, number, pc) else { return Answer::NotOurs };
        match self.points.get(point).filter(|found| found.address() == cpu.pc()) {
            // One turn of a repeated instruction.
            Some(found) => {
                let execution = Execution::of(cpu, self.isa, &found.insn, point);
                self.paused.add(execution);
            }
            None => self.give_way_to_fault(cpu, point),
        }
        Answer::NotOurs
    }

    /// A jump has led to a detour. Steps through that, and a frame laid on the stack by such, would show: the handlers
    /// run here, and the instruction alone then.
    fn detour_in_steps(&mut self, cpu: &mut impl Cpu, point: u32, slot: Slot) {
        let Some(found) = self.points.get(point) else { return };
        let to = if found.plan == Plan::Boost { slot.boosted() } else { slot.detoured() };
        cpu.set_pc(found.address());
        self.jumped_in(cpu, point);
        cpu.set_pc(to);
    }
}
