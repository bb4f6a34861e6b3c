//! The architectural state by register names, for snapshots: registers at their offsets in the core's state.
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use super::state::{self, MSR, set_msr};
use crate::cpu::Named;
use crate::cpu::named::{self, Field, HALF, WORD};
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::offsets::ppc64 as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterPPC;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named { save, check: |values| numbers(values).map(|_| ()), load, ..Named::NOTHING_SHARED };

/// Registers that exist once.
#[rustfmt::skip]
const SINGLE: &[(&str, usize, usize, u128)] = &[
    ("nip",              state::PC,                8,  WORD),
    ("msr",              MSR,                      8,  WORD),
    ("link",             offset::LINK,             8,  WORD),
    ("ctr",              offset::COUNT,            8,  WORD),
    ("cfar",             offset::CFAR,             8,  WORD),
    ("xer",              offset::XER,              8,  WORD),
    ("xer.so",           offset::XER_SO,           8,  1),
    ("xer.ov",           offset::XER_OV,           8,  1),
    ("xer.ca",           offset::XER_CA,           8,  1),
    ("xer.ov32",         offset::XER_OV32,         8,  1),
    ("xer.ca32",         offset::XER_CA32,         8,  1),
    ("reserved.address", state::RESERVATION,       8,  WORD),
    ("reserved.value",   offset::RESERVED_VALUE,   8,  WORD),
    ("reserved.value2",  offset::RESERVED_VALUE_2, 8,  WORD),
    ("vscr",             state::VSCR,              4,  HALF),
    ("vscr.sat",         state::VSCR_SAT,          16, u128::MAX),
    ("fpscr",            state::FPSCR,             8,  WORD),
];

const CONDITIONS: usize = 8;
const SPECIALS: usize = 1024;
const VECTORS: usize = 64;

/// State that the core computes from other registers or keeps for itself, and the last exception.
const OWN: &[Range<usize>] = &[
    offset::RESULT_HIGH..offset::RESULT_HIGH + 12, // the upper half of a result, and the kind of the last access
    offset::VSCR_SAT_END..state::FPSCR,            // rounding modes and arithmetic flags, derived from the status
    state::ERROR_CODE..state::ERROR_CODE + 4,      // the last exception
    state::FLAGS..state::FLAGS + 24,               // the translator's flags, derived from other state
];

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: String, at, bytes, bits| fields.push(Field { name, at, bytes, bits });
    for number in 0..usize::from(state::GENERAL) {
        add(format!("gpr{number}"), state::REGS + 8 * number, 8, WORD);
    }
    for number in 0..CONDITIONS {
        add(format!("cr{number}"), offset::CONDITION + 4 * number, 4, 15);
    }
    for (name, at, bytes, bits) in SINGLE {
        add(name.to_string(), *at, *bytes, *bits);
    }
    for number in 0..VECTORS {
        add(format!("vsr{number}"), state::VECTORS + 16 * number, 16, u128::MAX);
    }
    for number in 0..SPECIALS {
        add(format!("spr{number}"), state::special(number), 8, WORD);
    }
    fields
});

fn numbers(values: &Values) -> Result<Vec<u128>, String> {
    values.read(named::wanted(&FIELDS))
}

fn save(cpu: &TrapContext, image: &mut CoreState, reset: &CoreState) -> Result<Values, String> {
    image.save(cpu.handle());
    let values = named::values_of(&FIELDS, image)?;
    named::tried(cpu, image, OWN, values, |image, values| load(cpu, image, reset, values))
}

fn load(cpu: &TrapContext, _image: &mut CoreState, reset: &CoreState, values: &Values) -> Result<(), String> {
    let numbers = numbers(values)?;
    reset.restore(cpu.handle());
    named::set(&FIELDS, cpu, &numbers);
    // Through Unicorn's register interface, so that the core derives other state from them.
    let handle = cpu.handle();
    cpu.write(RegisterPPC::FPSCR, handle.live64(state::FPSCR));
    set_msr(cpu, handle.live64(MSR));
    Ok(())
}
