//! The architectural state by register names, for snapshots: registers at their offsets in the core's state.
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use super::state::{self, EXECUTED};
use crate::cpu::Named;
use crate::cpu::named::{self, Field, HALF, WORD};
use crate::snapshot::registers::{Values, Wanted};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::offsets::s390x as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterS390X;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named { save, check: |values| numbers(values).map(|_| ()), load, ..Named::NOTHING_SHARED };

/// Registers that exist once. The rounding mode is derived from FPC only when an instruction loads FPC, so it is saved,
/// too.
#[rustfmt::skip]
const SINGLE: &[(&str, usize, usize, u128)] = &[
    ("fpc",              offset::FPC,               4, HALF),
    ("rounding",         offset::ROUNDING,          1, 7),
    ("psw.addr",         state::PC,                 8, WORD),
    ("prefix",           state::PREFIX,             8, 0x7fff_e000),
    ("recorded.address", state::RECORDED_ADDRESS,   8, WORD),
    ("recorded.why",     state::RECORDED,           2, 0xffff),
    ("comparator",       offset::COMPARATOR,        8, WORD),
    ("timer",            offset::TIMER,             8, WORD),
    ("programmable",     offset::PROGRAMMABLE,      4, HALF),
    ("program",          offset::PROGRAM_PARAMETER, 8, WORD),
];

/// State that the core computes from other registers or keeps for itself, the last exception, the last branch.
const OWN: &[Range<usize>] = &[
    offset::CONDITION..offset::CONDITION_END, // the condition code, or the operation that determines it
    offset::ARITHMETIC_FLAGS..offset::MASK,   // arithmetic flags, and the second half of a result
    offset::MASK + 5..offset::MASK + 6,       // the condition code in the PSW mask when it was loaded
    offset::CONDITION_OPERANDS..offset::EXECUTED, // the operands that determine the condition code
    offset::EXCEPTION_ADDRESS..offset::PREFIX, // the last exception
    offset::PROGRAM_CODE..offset::RECORDED_ADDRESS, // program interruption and system call
    offset::LAST_BRANCH..offset::LAST_BRANCH_END, // the last branch
];

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: String, at, bytes, bits| fields.push(Field { name, at, bytes, bits });
    for number in 0..usize::from(state::GENERAL) {
        add(format!("gpr{number}"), state::REGS + 8 * number, 8, WORD);
    }
    for number in 0..32 {
        add(format!("vr{number}"), offset::VECTORS + 16 * number, 16, u128::MAX);
    }
    for number in 0..16 {
        add(format!("ar{number}"), offset::ACCESS + 4 * number, 4, HALF);
    }
    for number in 0..16 {
        add(format!("cr{number}"), state::CONTROL + 8 * number, 8, WORD);
    }
    for (name, at, bytes, bits) in SINGLE {
        add(name.to_string(), *at, *bytes, *bits);
    }
    fields
});

/// The PSW mask with the condition code is read through Unicorn's register interface.
const PSW: (&str, u128) = ("psw.mask", WORD);

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    let mask = Wanted { name: PSW.0, bits: PSW.1 };
    let numbers = values.read(named::wanted(&FIELDS).chain([mask]))?;
    match numbers.last() {
        Some(mask) if state::is_sound(*mask as u64) => Ok(numbers),
        _ => Err("the register `psw.mask` has a value that no PSW has".into()),
    }
}

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    if cpu.handle().live64(EXECUTED) != 0 {
        return Err("the CPU is between EXECUTE and the instruction that it executes".into());
    }
    image.save(cpu.handle());
    let mut values = named::values_of(&FIELDS, image)?;
    values.put(PSW.0, cpu.handle().read(RegisterS390X::PSWM).into());
    named::tried(cpu, image, OWN, values, |image, values| load(cpu, image, reset, values))
}

fn load(cpu: &TrapContext, _image: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = numbers(values)?;
    reset.restore(cpu.handle());
    named::set(&FIELDS, cpu, &numbers);
    if let Some(mask) = numbers.last() {
        cpu.write(RegisterS390X::PSWM, *mask as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Config, Machine};

    /// BY-4: the rounding mode, which follows from FPC only when an instruction loads FPC, is saved.
    #[test]
    fn the_rounding_mode_is_saved() {
        const WORD: usize = offset::ROUNDING & !3;
        const SHIFT: usize = 8 * (offset::ROUNDING & 3);
        let builtin = trapline_images::find("tiny/s390x").expect("it is built in");
        let kernel = crate::boot::Kernel::from_bytes(builtin.bytes).expect("a kernel");
        let mut machine = Machine::new(&kernel, &Config::default(), |_| ()).expect("a machine");
        let mode = |machine: &mut Machine<()>| machine.look(|view| view.trap.handle().live32(WORD) >> SHIFT & 0xff);
        let put = |machine: &mut Machine<()>, mode: u32| {
            machine.look(|view| {
                let rest = view.trap.handle().live32(WORD) & !(0xff << SHIFT);
                view.trap.set_live32(WORD, rest | mode << SHIFT);
            });
        };
        put(&mut machine, 2);
        let snapshot = machine.snapshot().expect("everything has a name");
        put(&mut machine, 0);
        machine.restore(&snapshot).expect("it fits");
        assert_eq!(mode(&mut machine), 2);
    }
}
