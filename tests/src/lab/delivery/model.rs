//! Compares exception delivery with models that were written from the architecture manuals. Each case raises an
//! exception in a random CPU state. Afterwards every register that the machine knows, and the memory that the CPU
//! writes, must match the model.
//!
//! A case is decoded from bytes, like [`super::case`]. The models share no code with the machine.

mod mips;
mod ppc;
mod riscv;
mod s390;
mod sparc64;

use super::Numbers;
use crate::lab::hostile::{Bare, seen};
use crate::lab::{CODE, CODE_BYTES, HANDLERS, HANDLERS_BYTES, PLACE, bench};
use std::collections::BTreeMap;
use trapline::machine::Stop;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;

/// The ISAs that have such models.
pub const MODELLED: &[Arch] = &[
    Arch::Ppc64le,
    Arch::Ppc64,
    Arch::Ppc,
    Arch::S390x,
    Arch::Mips,
    Arch::Mipsel,
    Arch::Mips64,
    Arch::Mips64el,
    Arch::Sparc64,
    Arch::Riscv64,
    Arch::Riscv32,
];

/// Every register of the CPU by name.
type State = BTreeMap<&'static str, u64>;

/// The changes that the manual prescribes for a case. A register without a value may hold anything.
#[derive(Default)]
struct Changes {
    registers: Vec<(&'static str, Option<u64>)>,
    memory: Vec<(u64, Vec<u8>)>,
}

impl Changes {
    fn set(&mut self, name: &'static str, value: u64) {
        self.registers.push((name, Some(value)));
    }
}

/// Computes the changes from the state before the exception.
type Model = Box<dyn Fn(&State) -> Changes>;

/// A case: code that brings the CPU into a state, and code that raises an exception there.
struct Case {
    name: String,
    /// Code that brings the CPU into its state. It runs with the next field's registers.
    front: Vec<u8>,
    front_registers: Vec<(Reg, u64)>,
    /// The registers when the exception is raised.
    registers: Vec<(Reg, u64)>,
    memory: Vec<(u64, Vec<u8>)>,
    /// The code that raises the exception. It is placed at [`RAISES`].
    code: Vec<u8>,
    /// The address of the exception handler.
    entry: u64,
    model: Model,
    /// Memory that the CPU may write: start and bytes.
    written: Option<(u64, usize)>,
}

/// Offsets of the loop in which the CPU waits after setup, and of the instruction that raises the exception.
const WAITS: u64 = PLACE + 0x200;
const RAISES: u64 = PLACE + 0x400;

/// A jump to itself.
fn stay(arch: Arch) -> Vec<u8> {
    let word = |word: u32| arch.isa().order.word_bytes(word).to_vec();
    match arch {
        Arch::Ppc | Arch::Ppc64 | Arch::Ppc64le => word(0x4800_0000),
        Arch::S390x => vec![0xa7, 0xf4, 0, 0],
        Arch::Riscv64 | Arch::Riscv32 => word(0x0000_006f),
        // The branch needs a nop in its delay slot.
        Arch::Sparc64 => [word(0x1080_0000), word(0x0100_0000)].concat(),
        _ => [word(0x1000_ffff), word(0)].concat(),
    }
}

fn filled(arch: Arch, len: u64) -> Vec<u8> {
    stay(arch).iter().copied().cycle().take(len as usize).collect()
}

/// Runs the case that is decoded from these bytes, and returns its name. `Err` lists the differences from the model.
pub fn run(arch: Arch, bytes: &[u8]) -> Result<String, String> {
    let mut numbers = Numbers(bytes);
    let case = match arch {
        Arch::Ppc64le | Arch::Ppc64 => ppc::wide(arch, &mut numbers),
        Arch::Ppc => ppc::narrow(&mut numbers),
        Arch::S390x => s390::case(&mut numbers),
        Arch::Sparc64 => sparc64::case(&mut numbers),
        Arch::Riscv64 | Arch::Riscv32 => riscv::case(arch, &mut numbers),
        _ => mips::case(arch, &mut numbers),
    };
    let mut bare = Bare::new(arch);
    bare.put(CODE, &filled(arch, CODE_BYTES));
    // The page of the handlers has two of 4 KiB on some ISAs.
    bare.put(HANDLERS, &filled(arch, 2 * HANDLERS_BYTES));
    bare.put(PLACE, &case.front);
    for (at, bytes) in &case.memory {
        bare.put(*at, bytes);
    }
    case.front_registers.iter().for_each(|(reg, value)| bare.set(*reg, *value));
    go(&mut bare, seen(arch, PLACE)).map_err(|why| format!("{}: in front of it {why}", case.name))?;
    bare.put(RAISES, &case.code);
    case.registers.iter().for_each(|(reg, value)| bare.set(*reg, *value));
    bare.machine().set_pc(case.entry);
    let (before, memory_before) = (state(&mut bare), memory(&mut bare, &case));
    go(&mut bare, case.entry).map_err(|why| format!("{}: {why}", case.name))?;
    let (mut expected, mut memory_expected) = (before.clone(), memory_before);
    let changes = (case.model)(&before);
    let after = state(&mut bare);
    for (name, value) in &changes.registers {
        match value {
            Some(value) => expected.insert(name, *value),
            None => after.get(name).and_then(|value| expected.insert(name, *value)),
        };
    }
    for (at, bytes) in &changes.memory {
        let from = (at - case.written.map_or(0, |(start, _)| start)) as usize;
        memory_expected[from..from + bytes.len()].copy_from_slice(bytes);
    }
    let mut wrong: Vec<String> = Vec::new();
    for name in expected.keys().chain(after.keys().filter(|name| !expected.contains_key(*name))) {
        let [expected, after] = [&expected, &after].map(|state| state.get(name).copied());
        if expected != after {
            wrong.push(format!("{name} is {after:x?}, not {expected:x?}"));
        }
    }
    let memory_after = memory(&mut bare, &case);
    for (at, (expected, after)) in memory_expected.iter().zip(&memory_after).enumerate().filter(|(_, (one, other))| one != other)
    {
        wrong.push(format!("byte {at:#x} is {after:02x}, not {expected:02x}"));
    }
    match wrong.is_empty() {
        true => Ok(case.name),
        false => Err(format!("{}: {}", case.name, wrong.join(", "))),
    }
}

/// Runs briefly. By then the CPU loops in a jump to itself.
fn go(bare: &mut Bare, at: u64) -> Result<(), String> {
    let machine = bare.machine();
    machine.set_pc(at);
    let until = machine.now() + 200;
    match machine.run_until(until) {
        Stop::Limit => Ok(()),
        other => Err(format!("the run ended: {other:?}")),
    }
}

fn state(bare: &mut Bare) -> State {
    bare.machine().registers().into_iter().collect()
}

fn memory(bare: &mut Bare, case: &Case) -> Vec<u8> {
    let (start, len) = case.written.unwrap_or_default();
    let mut bytes = vec![0; len];
    bare.machine().ram().read(start, &mut bytes);
    bytes
}

/// A general register's value.
fn value(numbers: &mut Numbers<'_>) -> u64 {
    match numbers.below(4) {
        0 => numbers.below(256) as u64,
        1 => numbers.pick(&[0, u64::MAX, 1 << 31, 1 << 63, 0x7fff_ffff]),
        _ => numbers.any(),
    }
}

/// Random values for the general registers except the stack pointer, then the case's own registers.
fn registers(arch: Arch, numbers: &mut Numbers<'_>, own: &[(Reg, u64)]) -> Vec<(Reg, u64)> {
    let (abi, not_general) = (arch.isa().abi, bench(arch).not_general);
    let names = abi.names.iter().filter(|(name, reg)| !not_general.contains(name) && *reg != abi.sp);
    let mut all: Vec<(Reg, u64)> = names.map(|(_, reg)| (*reg, value(numbers))).collect();
    all.extend_from_slice(own);
    all
}

fn bit(numbers: &mut Numbers<'_>, value: u64) -> u64 {
    if numbers.one_in(2) { value } else { 0 }
}
