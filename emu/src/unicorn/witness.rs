//! A listener for self-checks: does nothing but remember the last trap.

use super::engine::{BlockContext, Events, Handle, InstructionContext, SyscallContext, TrapContext};

/// What a core reported last.
#[derive(Debug, Default)]
pub struct Witness {
    /// Its vector and the pc at that moment; `None` as a vector: an invalid instruction.
    pub last: Option<(Option<u32>, u64)>,
    /// After the trap the run ends.
    pub stops: bool,
    /// How many blocks have called.
    pub blocks: u64,
    /// In front of that one the run ends, if it is not 0.
    pub ends_at_blocks: u64,
    /// The register that was written last, and what to it.
    pub written: Option<(u32, u64)>,
}

impl Witness {
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

impl Events for Witness {
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
}

/// The error of a self-check, by what did not come out as it must.
pub fn unfit(what: &str) -> String {
    format!(
        "this build of the CPU core does not pass its self-check ({what}): trapline needs Unicorn 2.1.5 on a 64-bit Linux host"
    )
}
