//! Delivers an exception or interrupt to the guest as the CPU would: through its vector, with translation off.

use super::state::{MSR, MSR_ME, SRR0, SRR1, set_msr};
use crate::cpu::ppc::deliver::{DECREMENTER, reason};
use crate::cpu::ppc::trap::{DATA, FETCH, PROGRAM, SYSTEM_CALL, TRACE};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;

/// The vector of device interrupts.
const EXTERNAL: u32 = 0x500;
/// The bits of MSR that are saved in SRR1.
const KEPT: u64 = !0x783f_0000;
/// MSR.IP: vectors are at the end of the address space. Exceptions do not change it.
const MSR_IP: u64 = 0x40;
const HIGH_VECTORS: u64 = 0xfff0_0000;

/// The core's exception numbers and the architecture's vectors.
const VECTORS: &[(u32, u32)] = &[
    (DATA, 0x300),
    (FETCH, 0x400),
    (5, 0x600), // alignment
    (PROGRAM, 0x700),
    (7, 0x800), // floating point unavailable
    (SYSTEM_CALL, 0xc00),
    (TRACE, 0xd00),
];

/// Delivers the exception to the guest as the CPU would.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, _: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let vector = if exception.external {
        if exception.vector == DECREMENTER { DECREMENTER } else { EXTERNAL }
    } else {
        let row = VECTORS.iter().find(|(number, _)| *number == exception.vector);
        row.ok_or_else(|| Shutdown { why: format!("exception {} of the core has no vector", exception.vector) })?.1
    };
    let old = u64::from(cpu.handle().live32(MSR));
    cpu.set_live32(SRR0, resume as u32);
    cpu.set_live32(SRR1, (old & KEPT | reason(&exception)) as u32);
    set_msr(cpu, old & (MSR_IP | MSR_ME));
    cpu.set_pc(if old & MSR_IP != 0 { HIGH_VECTORS } else { 0 } + u64::from(vector));
    Ok(())
}
