//! The architectural state by register names, for snapshots: all registers that the core's interface shows.
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use super::state::{self, HCR_EL2, NAMES, PSTATE_ENTRY, PSTATE_NARROW, SCR_EL3, SCTLR_EL1, SPSR_EL1, SYNDROME, TCR_EL1};
use crate::cpu::{Named, named};
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::arm64::SystemRegister;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::aarch64 as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterARM64;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named {
    save,
    check: |values| numbers(values).map(|_| ()),
    load,
    save_shared: |_| Values::default(),
    check_shared: |values| values.read([].into_iter()).map(|_| ()),
    load_shared: |_, values| values.read([].into_iter()).map(|_| ()),
};

const WORD: u128 = u64::MAX as u128;
const HALF: u128 = u32::MAX as u128;
/// Condition flags, masks, IL, SS, PAN, UAO, and EL1 or EL0 with either stack pointer.
const PSTATE: u128 = 0xf0e0_03cd;
/// PSTATE of a 32-bit program: condition flags, Q, the IT state, J, SS, IL, GE, E, masks, T, and user mode.
const NARROW: u128 = 0xff3f_fff0;
const VECTORS: u8 = 32;

#[rustfmt::skip]
const PLAIN: &[(&str, RegisterARM64, u128)] = &[
    ("sp_el0", RegisterARM64::SP_EL0, WORD), ("sp_el1", RegisterARM64::SP_EL1, WORD), ("elr_el1", RegisterARM64::ELR_EL1, WORD),
    ("esr_el1", RegisterARM64::ESR_EL1, WORD), ("far_el1", RegisterARM64::FAR_EL1, WORD), ("fpcr", RegisterARM64::FPCR, HALF),
    ("fpsr", RegisterARM64::FPSR, HALF),
];

const fn system(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> SystemRegister {
    SystemRegister { op0, op1, crn, crm, op2 }
}

/// The other registers in the order in which they are loaded. SPSR_EL1 is last, because its write makes the core
/// re-evaluate all others. OSDLR_EL1 is left out: Unicorn keeps no value of it, and returns R0 and R1 of 32-bit programs.
#[rustfmt::skip]
static SYSTEM: &[(&str, SystemRegister)] = &[
    ("scr_el3",         SCR_EL3),
    ("hcr_el2",         HCR_EL2),
    ("mdscr_el1",       system(2, 0, 0, 2, 2)),
    ("oslsr_el1",       system(2, 0, 1, 1, 4)),
    ("csselr_el1",      system(3, 2, 0, 0, 0)),
    ("sctlr_el1",       SCTLR_EL1),
    ("actlr_el1",       system(3, 0, 1, 0, 1)),
    ("cpacr_el1",       system(3, 0, 1, 0, 2)),
    ("ttbr0_el1",       system(3, 0, 2, 0, 0)),
    ("ttbr1_el1",       system(3, 0, 2, 0, 1)),
    ("tcr_el1",         TCR_EL1),
    ("afsr0_el1",       system(3, 0, 5, 1, 0)),
    ("afsr1_el1",       system(3, 0, 5, 1, 1)),
    ("par_el1",         system(3, 0, 7, 4, 0)),
    ("pmcr_el0",        system(3, 3, 9, 12, 0)),
    ("pmuserenr_el0",   system(3, 3, 9, 14, 0)),
    ("mair_el1",        system(3, 0, 10, 2, 0)),
    ("amair_el1",       system(3, 0, 10, 3, 0)),
    ("vbar_el1",        system(3, 0, 12, 0, 0)),
    ("contextidr_el1",  system(3, 0, 13, 0, 1)),
    ("tpidr_el1",       system(3, 0, 13, 0, 4)),
    ("tpidr_el0",       system(3, 3, 13, 0, 2)),
    ("tpidrro_el0",     system(3, 3, 13, 0, 3)),
    ("cntkctl_el1",     system(3, 0, 14, 1, 0)),
    ("spsr_el1",        SPSR_EL1),
];

/// State that the core computes from other registers or keeps for itself, and the last exception.
const OWN: &[Range<usize>] = &[
    // The condition flags, stored in words of which only some bits count. The rest of a 32-bit program's CPSR, which is in PSTATE.
    offset::FLAGS..offset::BRANCH_TYPE_END,
    offset::NARROW_CPSR..offset::NARROW_CPSR_END,           // likewise
    offset::IS_64_BIT..offset::IS_64_BIT_END,               // likewise
    offset::NARROW_REGS..offset::NARROW_REGS_END,           // a 32-bit program's registers, which are also in X0 to X14
    offset::BANKED..offset::BANKED_LAST_END,                // registers of modes that never run
    offset::TRANSLATOR_FLAGS..offset::TRANSLATOR_FLAGS_END, // the translator's flags, derived from other state
    offset::COUNTER_START..offset::COUNTER_START_END,       // the host time at which its cycle counter started
    SYNDROME..offset::EXCEPTION_LEVEL_END,                  // the last exception
    offset::EXCLUSIVE..offset::EXCLUSIVE_LAST_END,          // the exclusive monitor, which any return from an exception clears
];

/// Names and bits, in the order of the values.
static WANTED: LazyLock<Vec<(String, u128)>> = LazyLock::new(|| {
    let own = NAMES.iter().map(|(name, _)| (name.to_string(), if *name == "pstate" { PSTATE | NARROW } else { WORD }));
    let plain = PLAIN.iter().map(|(name, _, bits)| (name.to_string(), *bits));
    let system = SYSTEM.iter().map(|(name, _)| (name.to_string(), WORD));
    let vectors = (0..VECTORS).map(|number| (format!("v{number}"), u128::MAX));
    own.chain(plain).chain(vectors).chain(system).collect()
});

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    let numbers = values.read(WANTED.iter().map(|(name, bits)| Wanted { name, bits: *bits }))?;
    let pstate = NAMES.iter().position(|(name, _)| *name == "pstate").and_then(|place| numbers.get(place)).copied().unwrap_or(0);
    let allowed = if pstate & u128::from(PSTATE_NARROW) != 0 { NARROW } else { PSTATE };
    if pstate & !allowed != 0 {
        return Err(format!("the register `pstate` is {pstate:#x}, which is no state of EL0 or EL1"));
    }
    Ok(numbers)
}

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    let handle = cpu.handle();
    image.save(handle);
    let mut values = Values::default();
    for ((name, bits), value) in WANTED.iter().zip(all(&handle)) {
        if value & !bits != 0 {
            return Err(format!("the register `{name}` is {value:#x}, which it should not be"));
        }
        values.put(name.as_str(), value);
    }
    named::tried(cpu, image, OWN, values, |image, values| load(cpu, image, reset, values))
}

/// Every register, in the order of [`WANTED`].
fn all(handle: &Handle) -> Vec<u128> {
    let own = NAMES.iter().map(|(_, register)| u128::from(handle.read(*register)));
    let plain = PLAIN.iter().map(|(_, register, _)| u128::from(handle.read(*register)));
    let vector = |number| {
        let [low, high] = handle.vector(number);
        u128::from(low) | u128::from(high) << 64
    };
    let system = SYSTEM.iter().map(|(_, register)| u128::from(handle.system(*register)));
    own.chain(plain).chain((0..VECTORS).map(vector)).chain(system).collect()
}

fn load(cpu: &TrapContext, _image: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let mut numbers = numbers(values)?.into_iter();
    reset.restore(cpu.handle());
    // Loaded while EL1 with its own stack pointer is current. The saved PSTATE is loaded at the end.
    cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    let own: Vec<u128> = numbers.by_ref().take(NAMES.len()).collect();
    let own = || NAMES.iter().zip(&own).map(|((_, register), value)| (*register, *value as u64));
    for (register, value) in own().filter(|(register, _)| !matches!(register, RegisterARM64::PC | RegisterARM64::PSTATE)) {
        cpu.write(register, value);
    }
    for ((_, register, _), value) in PLAIN.iter().zip(numbers.by_ref()) {
        cpu.write(*register, value as u64);
    }
    for (number, value) in (0..VECTORS).zip(numbers.by_ref()) {
        cpu.set_vector(number, [value as u64, (value >> 64) as u64]);
    }
    for (register, value) in own() {
        match register {
            RegisterARM64::PC => cpu.set_pc(value),
            RegisterARM64::PSTATE if value & PSTATE_NARROW != 0 => state::set_narrow_pstate(cpu, value),
            RegisterARM64::PSTATE => cpu.write(register, value),
            _ => {}
        }
    }
    for ((_, register), value) in SYSTEM.iter().zip(numbers) {
        cpu.set_system(*register, value as u64);
    }
    Ok(())
}
