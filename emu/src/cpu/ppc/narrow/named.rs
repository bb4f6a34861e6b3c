//! The architectural state by register names, for snapshots: registers at their offsets in the core's state.
//! Each save is verified: loading the values into a reset core must restore the same bytes, except those that the core
//! computes or keeps for itself. So the table is complete, or the save fails.

use super::state::{self, MSR, set_msr};
use super::window;
use crate::cpu::Named;
use crate::cpu::named::{self, Field, HALF};
use crate::snapshot::registers::Values;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::offsets::ppc as offset;
use std::ops::Range;
use std::sync::LazyLock;
use unicorn_engine_sys::RegisterPPC;

/// The functions of this file. The core has no state shared by all CPUs.
pub const NAMED: Named = Named { save, check: |values| numbers(values).map(|_| ()), load, ..Named::NOTHING_SHARED };

/// Registers that exist once.
#[rustfmt::skip]
const SINGLE: &[(&str, usize, usize, u128)] = &[
    ("nip",              state::PC,              4, HALF),
    ("msr",              MSR,                    4, HALF),
    ("link",             state::LINK,            4, HALF),
    ("ctr",              state::COUNT,           4, HALF),
    ("xer",              state::XER,             4, HALF),
    ("xer.so",           offset::XER_SO,         4, 1),
    ("xer.ov",           offset::XER_OV,         4, 1),
    ("xer.ca",           offset::XER_CA,         4, 1),
    ("xer.ov32",         offset::XER_OV32,       4, 1),
    ("xer.ca32",         offset::XER_CA32,       4, 1),
    ("reserved.address", state::RESERVATION,     4, HALF),
    ("reserved.value",   offset::RESERVED_VALUE, 4, HALF),
    ("fpscr",            state::FPSCR,           4, HALF),
];

const CONDITIONS: usize = 8;
const SEGMENTS: usize = 16;
/// The words of all BATs: for data and for instructions, upper and lower words.
const BLOCK_WORDS: usize = 32;
const SPECIALS: usize = 1024;
const VECTORS: usize = 64;

/// State that the core computes from other registers or keeps for itself, and the last exception.
const OWN: &[Range<usize>] = &[
    offset::RESULT_HIGH..state::SEGMENTS, // the upper half of a result, and the kind of the last access
    offset::PENDING_FLUSHES..offset::PENDING_FLUSHES_END, // pending TLB flushes
    offset::ROUNDING..state::FPSCR,       // rounding modes and arithmetic flags, derived from the status
    state::ERROR_CODE..state::ERROR_CODE + 4, // the last exception
    offset::VECTOR_BASE..offset::VECTOR_BASE_END, // the core's vector base, derived from MSR
    state::FLAGS..state::FLAGS + 16,      // the translator's flags, derived from other state
];

static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: String, at, bytes, bits| fields.push(Field { name, at, bytes, bits });
    for number in 0..usize::from(state::GENERAL) {
        add(format!("gpr{number}"), state::REGS + 4 * number, 4, HALF);
    }
    for number in 0..CONDITIONS {
        add(format!("cr{number}"), state::CONDITION + 4 * number, 4, 15);
    }
    for number in 0..SEGMENTS {
        add(format!("sr{number}"), state::SEGMENTS + 4 * number, 4, HALF);
    }
    for number in 0..BLOCK_WORDS {
        add(format!("bat{number}"), state::BLOCKS + 4 * number, 4, HALF);
    }
    for (name, at, bytes, bits) in SINGLE {
        add(name.to_string(), *at, *bytes, *bits);
    }
    for number in 0..VECTORS {
        add(format!("vsr{number}"), state::VECTORS + 16 * number, 16, u128::MAX);
    }
    for number in 0..SPECIALS {
        add(format!("spr{number}"), state::special(number), 4, HALF);
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
    window::look_at_hidden_blocks(cpu);
    // Through Unicorn's register interface, so that the core derives other state from them.
    let handle = cpu.handle();
    cpu.write(RegisterPPC::FPSCR, handle.live32(state::FPSCR).into());
    set_msr(cpu, handle.live32(MSR).into());
    Ok(())
}
