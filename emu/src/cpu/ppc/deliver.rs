//! Delivers an exception or interrupt to the guest as the CPU would: through the vectors at the bottom of memory or, if
//! translation stays on, those in the kernel's half of the address space.

use super::state::{HSRR0, HSRR1, LPCR, MSR, MSR_DR, MSR_HV, MSR_IR, MSR_LE, MSR_ME, MSR_RI, MSR_SF, SRR0, SRR1, set_msr};
use super::trap::{DATA, EMULATION, FETCH, PROGRAM, SYSTEM_CALL, TRACE};
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;

/// The vector of device interrupts.
const EXTERNAL: u64 = 0x500;
/// The vector of the decrementer.
pub const DECREMENTER: u32 = 0x900;

// LPCR: external interrupts use SRR0 (LPES); exceptions keep translation on (AIL).
const EXTERNAL_BY_SRR: u64 = 8;
const WITH_TRANSLATION: u64 = 3 << 23;
/// The address of the vectors that are used with translation on.
const TRANSLATED_VECTORS: u64 = 0xc000_0000_0000_4000;

/// The bits of MSR that are saved in SRR1.
const KEPT: u64 = !0x783f_0000;

/// The core's exception numbers, the architecture's vectors, and whether the hypervisor's registers (HSRR0, HSRR1) are
/// used.
#[rustfmt::skip]
const VECTORS: &[(u32, u64, bool)] = &[
    (DATA,        0x300, false),
    (FETCH,       0x400, false),
    (5,           0x600, false), // alignment
    (PROGRAM,     0x700, false),
    (7,           0x800, false), // floating point unavailable
    (SYSTEM_CALL, 0xc00, false),
    (65,          0x380, false), // data segment
    (66,          0x480, false), // instruction segment
    (TRACE,       0xd00, false),
    (73,          0xf20, false), // vector unavailable
    (94,          0xf40, false), // VSX unavailable
    (95,          0xf60, false), // facility unavailable
    (EMULATION,   0xe40, true),
    (98,          0xf80, true),
];

/// The bits of SRR1 that describe a program interrupt, from the core's error code.
pub fn reason(exception: &Exception) -> u64 {
    let error = exception.error.unwrap_or(0);
    match exception.vector {
        FETCH => u64::from(error),
        PROGRAM => match error & !15 {
            0x10 => 0x10_0000,
            0x30 => 0x4_0000,
            0x40 => 0x2_0000,
            _ => 0x8_0000,
        },
        _ => 0,
    }
}

/// Delivers the exception in the kernel's byte order. On a bare machine, the firmware has set that order for all
/// exceptions.
pub fn deliver<const LITTLE: bool>(
    cpu: &TrapContext,
    _: &mut CoreState,
    _: &Ram,
    exception: Exception,
    resume: u64,
) -> Result<(), Shutdown> {
    let control = cpu.handle().live64(LPCR);
    let (vector, is_hypervisors) = if exception.external {
        match exception.vector {
            DECREMENTER => (DECREMENTER.into(), false),
            // All devices share a vector; the kernel asks the interrupt controller which one it is.
            _ => (EXTERNAL, control & EXTERNAL_BY_SRR == 0),
        }
    } else {
        let row = VECTORS.iter().find(|(number, ..)| *number == exception.vector);
        let (_, vector, is_hypervisors) =
            row.ok_or_else(|| Shutdown { why: format!("exception {} of the core has no vector", exception.vector) })?;
        (*vector, *is_hypervisors)
    };
    let old = cpu.handle().live64(MSR);
    let (to_pc, to_state) = if is_hypervisors { (HSRR0, HSRR1) } else { (SRR0, SRR1) };
    cpu.set_live64(to_pc, resume);
    cpu.set_live64(to_state, old & KEPT | reason(&exception));
    let order = if LITTLE { MSR_LE } else { 0 };
    let translated = MSR_IR | MSR_DR;
    // An exception to the hypervisor leaves RI alone, and none changes ME.
    let kept = old & if is_hypervisors { MSR_ME | MSR_RI } else { MSR_ME };
    let state = MSR_SF | MSR_HV | kept | order;
    if control & WITH_TRANSLATION == WITH_TRANSLATION && old & translated == translated {
        set_msr(cpu, state | translated);
        cpu.set_pc(TRANSLATED_VECTORS + vector);
    } else {
        set_msr(cpu, state);
        cpu.set_pc(vector);
    }
    Ok(())
}
