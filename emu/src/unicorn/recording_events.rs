//! [`RecordingEvents`]: the callbacks of cores that self-checks and tests run. They record traps, blocks and register writes,
//! and emulate nothing.

use super::engine::{BlockContext, Events, Handle, InstructionContext, SyscallContext, TrapContext};

/// A record of a core's last callbacks, and when its run shall end.
#[derive(Debug, Default)]
pub struct RecordingEvents {
    /// The vector and pc of the last trap; no vector for an invalid instruction.
    pub last: Option<(Option<u32>, u64)>,
    /// Whether the run ends after the trap.
    pub stops: bool,
    /// The number of blocks that have called.
    pub blocks: u64,
    /// The number of the block before which the run ends; 0 for none.
    pub ends_at_blocks: u64,
    /// The register that was written last, and its value.
    pub written: Option<(u32, u64)>,
}

impl RecordingEvents {
    fn note(&mut self, cpu: &TrapContext, vector: Option<u32>) {
        let pc = cpu.handle().pc();
        self.last = Some((vector, pc));
        if self.stops {
            cpu.stop();
            return;
        }
        cpu.set_pc(pc);
    }
}

impl Events for RecordingEvents {
    fn block(&mut self, _: u64, _: u32, cpu: BlockContext<'_>) {
        self.blocks += 1;
        if self.blocks == self.ends_at_blocks {
            cpu.stop();
        }
    }
    fn answers(&self, _: &Handle, _: u32) -> bool {
        true
    }
    fn always_wants(&self, _: u64) -> bool {
        false
    }
    fn is_window(&self, _: u64) -> bool {
        false
    }
    fn no_memory(&mut self) {}
    fn interrupt(&mut self, cpu: &TrapContext, vector: u32) {
        self.note(cpu, Some(vector));
    }
    fn invalid_instruction(&mut self, cpu: &TrapContext) {
        self.note(cpu, None);
    }
    fn memory_in(&mut self, _: &InstructionContext, _: u64, _: u32) -> u64 {
        0
    }
    fn memory_out(&mut self, _: &InstructionContext, _: u64, _: u32, _: u64) {}
    fn port_in(&mut self, _: &InstructionContext, _: u64, _: u32) -> u64 {
        0
    }
    fn port_out(&mut self, _: &InstructionContext, _: u64, _: u32, _: u64) {}
    fn identify(&mut self, _: &InstructionContext) {}
    fn read_clock(&mut self, _: &InstructionContext) {}
    fn system_call(&mut self, _: &SyscallContext) {}
    fn register_in(&mut self, _: &InstructionContext, _: u32) -> Option<u64> {
        None
    }
    fn register_out(&mut self, _: &InstructionContext, register: u32, value: u64) -> bool {
        self.written = Some((register, value));
        false
    }
    fn points(&mut self, _: &InstructionContext, _: u64, _: u64) -> Option<&[u32]> {
        None
    }
    fn user_hit(&mut self, _: u64, _: u32) {}
    fn pauses(&mut self, _: &InstructionContext) {}
}

/// The error of a failed self-check; `what` names the failed check.
pub fn unfit(what: &str) -> String {
    format!(
        "this build of the CPU core does not pass its self-check ({what}): trapline needs Unicorn 2.1.5 on a 64-bit Linux host"
    )
}
