//! Support for a guest that single-steps its own code (x86 TF and the like). The guest must get one step trap after
//! each of its own instructions, and none for instructions in the window.

use crate::engine::Engine;
use crate::guest::{Answer, Cpu};
use crate::paused::Execution;
use crate::slots::Slot;
use trapline_isa::plan::Plan;

impl Engine {
    /// Handles a step trap with the pc in the window. The trap is ours if none of the guest's own instructions has run
    /// since the last one. If one has, the answer is `NotOurs`, and the pc is set to the address where the guest
    /// continues.
    pub fn stepped(&mut self, cpu: &mut impl Cpu) -> Answer {
        let (number, pc) = (cpu.number(), cpu.pc());
        if self.state.instances.trap_pad() == Some(pc) {
            // The guest stepped its return instruction. The trap belongs at the true return address.
            self.returned(cpu);
            return Answer::NotOurs;
        }
        // The CPU stands at the start of the pad, or at the breakpoint that ends a jprobe's handler, and has yet to run it.
        if self.state.instances.pad == Some(pc) || self.stub == Some(pc) {
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
            // One iteration of a repeated instruction has run, and the guest continues at the same instruction.
            Some(found) => {
                let execution = Execution::of(cpu, self.isa, &found.insn, point);
                self.paused.add(execution);
            }
            None => self.give_way_to_fault(cpu, point),
        }
        Answer::NotOurs
    }

    /// Handles a step trap at the start of a detour. The guest would see traps in the lead of the detour, and the frame that
    /// a faithful one pushes. So the handlers run here. The CPU goes on at the boosted copy of the instruction or, without
    /// one, behind the lead.
    fn detour_in_steps(&mut self, cpu: &mut impl Cpu, point: u32, slot: Slot) {
        let Some(found) = self.points.get(point) else { return };
        let to = if found.plan == Plan::Boost { slot.boosted() } else { slot.detoured() };
        cpu.set_pc(found.address());
        self.jumped_in(cpu, point);
        cpu.set_pc(to);
    }
}
