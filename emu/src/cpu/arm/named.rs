//! The architectural state by register names, for snapshots: all registers that the core's interface shows.
//! Each save is verified as on AArch64 (`cpu/arm64/named.rs`): loading the values into a reset core must restore the
//! same bytes, except those that the core computes or keeps for itself.

use super::state::*;
use super::trap;
use crate::cpu::{Named, named};
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::arm::CoprocessorRegister;
use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::offsets::arm as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterARM;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named {
    save,
    check: |values| numbers(values).map(|_| ()),
    load,
    save_shared: |_| Values::default(),
    check_shared: |values| values.read([].into_iter()).map(|_| ()),
    load_shared: |_, values| values.read([].into_iter()).map(|_| ()),
};

const WORD: u128 = u32::MAX as u128;
const DOUBLE: u128 = u64::MAX as u128;

/// Registers that no mode banks.
const LOW: [RegisterARM; 8] = [
    RegisterARM::R0,
    RegisterARM::R1,
    RegisterARM::R2,
    RegisterARM::R3,
    RegisterARM::R4,
    RegisterARM::R5,
    RegisterARM::R6,
    RegisterARM::R7,
];
const HIGH: [RegisterARM; 5] = [RegisterARM::R8, RegisterARM::R9, RegisterARM::R10, RegisterARM::R11, RegisterARM::R12];
/// Registers that each mode banks. The first mode, that of user code, has no SPSR.
const BANKED: [RegisterARM; 3] = [RegisterARM::SP, RegisterARM::LR, RegisterARM::SPSR];

/// The modes with banked registers. User mode's are accessed in SYSTEM mode.
const MODES: [(&str, u64); 6] =
    [("usr", SYSTEM), ("fiq", FAST), ("irq", IRQ), ("svc", SUPERVISOR), ("abt", ABORT), ("und", UNDEFINED)];

#[rustfmt::skip]
const PLAIN: &[(&str, RegisterARM)] = &[
    ("fpexc", RegisterARM::FPEXC), ("fpscr", RegisterARM::FPSCR),
];

/// The other registers in the order in which they are loaded. SCTLR is last, because it switches the MMU on.
#[rustfmt::skip]
static COPROCESSOR: &[(&str, CoprocessorRegister)] = &[
    ("csselr",     CoprocessorRegister { cp: 15, crn: 0, opc1: 2, crm: 0, opc2: 0 }),
    ("cpacr",      cp15(1, 0, 0, 2)),
    ("ttbcr",      TTBCR),
    ("ttbr0",      TTBR0),
    ("ttbr1",      TTBR1),
    ("dacr",       cp15(3, 0, 0, 0)),
    ("dfsr",       DFSR),
    ("ifsr",       IFSR),
    ("dfar",       DFAR),
    ("ifar",       IFAR),
    ("par",        cp15(7, 0, 4, 0)),
    ("pmcr",       cp15(9, 0, 12, 0)),
    ("pmselr",     cp15(9, 0, 12, 5)),
    ("pmuserenr",  cp15(9, 0, 14, 0)),
    ("prrr",       cp15(10, 0, 2, 0)),
    ("nmrr",       cp15(10, 0, 2, 1)),
    ("vbar",       VBAR),
    ("fcseidr",    cp15(13, 0, 0, 0)),
    ("contextidr", CONTEXTIDR),
    ("tpidrurw",   cp15(13, 0, 0, 2)),
    ("tpidruro",   TPIDRURO),
    ("tpidrprw",   cp15(13, 0, 0, 4)),
    ("sctlr",      SCTLR),
];

/// The upper words of TTBR0 and TTBR1 in the long format, which 32-bit accesses do not show: the ASID and the upper
/// address bits.
const UPPER: [(&str, usize); 2] = [("ttbr0_upper", TABLES_LOW + 4), ("ttbr1_upper", TABLES_HIGH + 4)];

/// State that the core computes from other registers or keeps for itself, and the last exception.
const OWN: &[Range<usize>] = &[
    offset::FLAGS..offset::SATURATED, // the condition flags, stored in words of which only some bits count
    offset::TRANSLATOR_FLAGS..offset::TRANSLATOR_FLAGS_END, // the translator's flags, derived from other state
    offset::COUNTER_START..offset::COUNTER_START_END, // the host time at which its cycle counter started
    offset::WIDE_PC..offset::WIDE_PSTATE, // the pc of 64-bit code, which never runs here
    SYNDROME..offset::EXCEPTION_LEVEL_END, // the last exception
    offset::SCRATCH..offset::SCRATCH_END, // scratch of one vector instruction
    offset::EXCLUSIVE..offset::EXCLUSIVE_LAST_END, // the exclusive monitor, which any return from an exception clears
];

/// Names and bits, in the order of the values.
static WANTED: LazyLock<Vec<(String, u128)>> = LazyLock::new(|| {
    let low = (0..13).map(|number| (format!("r{number}"), WORD));
    let fast = (8..13).map(|number| (format!("r{number}_fiq"), WORD));
    let banked = MODES.iter().flat_map(|(mode, _)| ["sp", "lr", "spsr"].map(|name| (format!("{name}_{mode}"), WORD)));
    let own = ["cpsr", "pc"].map(|name| (name.to_string(), WORD));
    let plain = PLAIN.iter().map(|(name, _)| (name.to_string(), WORD));
    let vectors = (0..VECTORS).map(|number| (format!("d{number}"), DOUBLE));
    let coprocessor = COPROCESSOR.iter().map(|(name, _)| (name.to_string(), WORD));
    let upper = UPPER.iter().map(|(name, _)| (name.to_string(), WORD));
    low.chain(fast).chain(banked).chain(own).chain(plain).chain(vectors).chain(coprocessor).chain(upper).collect()
});

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    let numbers = values.read(WANTED.iter().map(|(name, bits)| Wanted { name, bits: *bits }))?;
    match numbers.get(STATUS).map(|status| *status as u64 & CPSR_MODE) {
        Some(mode) if mode == USER || MODES.iter().any(|(_, known)| *known == mode) => Ok(numbers),
        _ => Err("the register `cpsr` is of a mode that there is not".into()),
    }
}

/// The index of CPSR among the values.
const STATUS: usize = 13 + HIGH.len() + MODES.len() * BANKED.len();

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    let handle = cpu.handle();
    // Switching through the modes also stores the present mode's banked registers in the place that `load` leaves them
    // in.
    let (status, pc) = (handle.read(RegisterARM::CPSR), handle.pc());
    let banks = banks(cpu, status);
    image.save(handle);
    let mut values = Values::default();
    for ((name, _), value) in WANTED.iter().zip(all(&handle, banks, status, pc)) {
        values.put(name.as_str(), value);
    }
    named::tried(cpu, image, OWN, values, |image, values| load(cpu, image, reset, values))
}

/// The registers of all modes: r0 to r12 of user code, r8 to r12 of fast interrupts, then each mode's banked registers.
fn banks(cpu: &TrapContext, status: u64) -> Vec<u64> {
    let handle = cpu.handle();
    let mut banks = Vec::new();
    for (_, mode) in MODES {
        cpu.write(RegisterARM::CPSR, status & !CPSR_MODE | mode);
        match mode {
            SYSTEM => banks.extend(LOW.iter().chain(&HIGH).map(|register| handle.read(*register))),
            FAST => {
                let own = HIGH.map(|register| handle.read(register));
                banks.splice(13..13, own);
            }
            _ => {}
        }
        banks.extend(BANKED.map(|register| handle.read(register)));
    }
    cpu.write(RegisterARM::CPSR, status);
    banks
}

/// Every register, in the order of [`WANTED`].
fn all(handle: &Handle, banks: Vec<u64>, status: u64, pc: u64) -> Vec<u128> {
    let plain = PLAIN.iter().map(|(_, register)| handle.read(*register));
    let vectors = (0..VECTORS).map(|number| handle.double(number));
    let coprocessor = COPROCESSOR.iter().map(|(_, register)| handle.coprocessor(*register));
    let upper = UPPER.iter().map(|(_, at)| handle.live32(*at).into());
    banks.into_iter().chain([status, pc]).chain(plain).chain(vectors).chain(coprocessor).chain(upper).map(u128::from).collect()
}

fn load(cpu: &TrapContext, _image: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers: Vec<u64> = numbers(values)?.into_iter().map(|number| number as u64).collect();
    let mut numbers = numbers.into_iter();
    let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<u64>>();
    reset.restore(cpu.handle());
    let (low, fast, banked) = (take(13), take(HIGH.len()), take(MODES.len() * BANKED.len()));
    let (own, plain, vectors, coprocessor) = (take(2), take(PLAIN.len()), take(VECTORS.into()), take(COPROCESSOR.len()));
    let upper = take(UPPER.len());
    let [status, pc] = own[..] else { return Err("the register `pc` is missing".into()) };
    for ((_, mode), banked) in MODES.iter().zip(banked.chunks(BANKED.len())) {
        cpu.write(RegisterARM::CPSR, status & !CPSR_MODE | mode);
        match *mode {
            SYSTEM => LOW.iter().chain(&HIGH).zip(&low).for_each(|(register, value)| cpu.write(*register, *value)),
            FAST => HIGH.iter().zip(&fast).for_each(|(register, value)| cpu.write(*register, *value)),
            _ => {}
        }
        BANKED.iter().zip(banked).for_each(|(register, value)| cpu.write(*register, *value));
    }
    // Leaves every mode once, so that the core stores its banked registers in the same place as after `banks`.
    cpu.write(RegisterARM::CPSR, status & !CPSR_MODE | SYSTEM);
    cpu.write(RegisterARM::CPSR, status);
    for ((_, register), value) in PLAIN.iter().zip(plain) {
        cpu.write(*register, value);
    }
    for (number, value) in (0..VECTORS).zip(vectors) {
        cpu.set_double(number, value);
    }
    for ((_, register), value) in COPROCESSOR.iter().zip(coprocessor) {
        cpu.set_coprocessor(*register, value);
    }
    // Written last, because a write of the lower word clears the upper one.
    for ((_, at), value) in UPPER.iter().zip(upper) {
        cpu.set_live32(*at, value as u32);
    }
    cpu.set_pc(pc);
    trap::park(cpu);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Config, Machine};

    /// BY-4: the upper words of TTBR0 and TTBR1 in the long format, which hold the ASID, are saved.
    #[test]
    fn registers_of_tables_in_the_long_format_are_saved_whole() {
        let builtin = trapline_images::find("tiny/arm").expect("it is built in");
        let kernel = crate::boot::Kernel::from_bytes(builtin.bytes).expect("a kernel");
        let config = Config { cpu: Some("cortex-a15".into()), ..Config::default() };
        let mut machine = Machine::new(&kernel, &config, |_| ()).expect("a machine");
        let upper = |machine: &mut Machine<()>| machine.look(|view| UPPER.map(|(_, at)| view.trap.handle().live32(at)));
        let put = |machine: &mut Machine<()>, values: [u32; 2]| {
            machine.look(|view| UPPER.iter().zip(values).for_each(|((_, at), value)| view.trap.set_live32(*at, value)));
        };
        put(&mut machine, [0x0012_0000, 0x00ff_0001]);
        let snapshot = machine.snapshot().expect("everything has a name");
        put(&mut machine, [0, 0]);
        machine.restore(&snapshot).expect("it fits");
        assert_eq!(upper(&mut machine), [0x0012_0000, 0x00ff_0001]);
    }
}
