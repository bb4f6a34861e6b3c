//! Vectors by which another implementation of kprobes can test itself: instructions of each row of an ISA's table, with
//! the decision about each, its copy, and the effect of those that are computed. They come from the ISA library alone;
//! nothing runs.

mod state;

use serde::Serialize;
use state::{Given, Recorded};
use std::collections::BTreeMap;
use trapline_isa::arch::{Arch, Isa};
use trapline_isa::insn::{Insn, LONGEST};
use trapline_isa::plan::{Plan, Policy, Tail, Then};
use trapline_isa::regs::Registers;

/// The settings of a list of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The rules that decide.
    pub policy: Policy,
    /// The address of all instructions.
    pub address: u64,
    /// The address of all copies.
    pub copy_at: u64,
    /// The address of data, to which some registers point.
    pub data: u64,
    /// The number of examples of each row.
    pub each: usize,
}

impl Settings {
    /// Addresses as in a kernel of this ISA, with the best policy.
    pub fn of(arch: Arch) -> Settings {
        let address = if arch.isa().word == 8 { 0xffff_ffff_8100_0000 } else { 0xc010_0000 };
        Settings { policy: Policy::Best, address, copy_at: address + 0x8_0000, data: address + 0x20_0000, each: 3 }
    }
}

/// An instruction with the decision about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vector {
    /// The ISA.
    pub arch: &'static str,
    /// The number of the row of the table that decides. `None`: no row does, and the instruction may run anywhere.
    pub row: Option<usize>,
    /// The address of the instruction, in hexadecimal.
    pub address: String,
    /// Its bytes, in hexadecimal. On MIPS a branch includes its delay slot.
    pub bytes: String,
    /// `emulate`, `boost`, `step` or `refuse`.
    pub verdict: &'static str,
    /// The rule that refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// The errno of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<&'static str>,
    /// The copy, of an instruction that runs as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<Copied>,
    /// The effect, of an instruction that is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// The code that runs elsewhere instead of an instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// The address at which the copy runs, in hexadecimal.
    pub at: String,
    /// Its bytes, without what follows them.
    pub bytes: String,
    /// The address at which the guest continues behind it.
    pub then: String,
}

/// The state in front of an instruction, and the changes behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// All registers, by name.
    pub registers: BTreeMap<&'static str, String>,
    /// The memory that it reads: address and bytes.
    pub memory: Vec<(String, String)>,
    /// The registers that have changed.
    pub changed: BTreeMap<&'static str, String>,
    /// The memory that it has written.
    pub written: Vec<(String, String)>,
    /// The pc behind it.
    pub pc: String,
    /// Whether the instruction in the delay slot must run in between. A `nop` need not.
    pub delay_slot: bool,
}

/// A number in hexadecimal.
fn hex(number: u64) -> String {
    format!("{number:#x}")
}

/// Bytes in hexadecimal.
fn packed(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Seeds that are tried for each example.
const TRIES: u64 = 60;
/// Examples of instructions that are in no row.
const IN_NO_ROW: usize = 48;

/// The vectors of an ISA. Rows that never decide, such as opcodes that no CPU has, are left out.
pub fn of(arch: Arch, settings: &Settings) -> Vec<Vector> {
    let isa = arch.isa();
    let mut vectors = Vec::new();
    for row in 0..isa.rows.count() {
        let mut known: Vec<Insn> = Vec::new();
        for seed in 0..TRIES {
            if known.len() >= settings.each {
                break;
            }
            let Some(bytes) = (isa.rows.example)(row, mixed(row as u64, seed)) else { break };
            let insn = (isa.decode)(settings.address + (isa.rows.offset)(row), &bytes);
            let Some(insn) = insn.ok().filter(|insn| (isa.rows.of)(insn) == Some(row) && !known.contains(insn)) else { continue };
            vectors.push(vector(isa, (&insn, &bytes), settings, seed));
            known.push(insn);
        }
    }
    let others = (0..IN_NO_ROW as u64 * TRIES).filter_map(|seed| {
        let bytes: Vec<u8> = (0..LONGEST as u64).map(|at| (mixed(seed, at) >> 40) as u8).collect();
        let insn = (isa.decode)(settings.address, &bytes).ok().filter(|insn| (isa.rows.of)(insn).is_none())?;
        Some((insn, bytes))
    });
    vectors.extend(others.take(IN_NO_ROW).map(|(insn, bytes)| vector(isa, (&insn, &bytes), settings, 1)));
    vectors
}

/// A number that looks random.
fn mixed(one: u64, other: u64) -> u64 {
    let mixed = (one ^ other.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 32
}

/// Makes the vector of an instruction: the decision, and its copy or the effect of its emulation. The seed decides about
/// registers and memory before the emulation.
fn vector(isa: &'static Isa, (insn, text): (&Insn, &[u8]), settings: &Settings, seed: u64) -> Vector {
    let decided = (isa.plan)(insn, settings.policy);
    // A copy keeps its place in its group.
    let before = insn.address - isa.group_start(insn.address);
    let copy_at = settings.copy_at + before;
    let copied = || (isa.copy)(insn, copy_at, Tail::Breakpoint);
    let copy = match decided {
        Ok(Plan::Boost | Plan::Step) => Some(copied()),
        _ => None,
    };
    let refusal = decided.as_ref().err().or(copy.as_ref().and_then(|copy| copy.as_ref().err()));
    let verdict = match (&decided, refusal) {
        (_, Some(_)) | (Err(_), _) => "refuse",
        (Ok(Plan::Emulate(_)), None) => "emulate",
        (Ok(Plan::Boost), None) => "boost",
        (Ok(Plan::Step), None) => "step",
    };
    let effect = match &decided {
        Ok(Plan::Emulate(what)) => {
            let given = Given::new(isa, settings, seed);
            let (mut state, mut memory) = given.start(insn.address);
            (isa.emulate)(what, insn, &mut state, &mut memory).ok().map(|then| effect(isa, &given, &state, &memory, then))
        }
        _ => None,
    };
    Vector {
        arch: isa.arch.name(),
        row: (isa.rows.of)(insn),
        address: hex(insn.address),
        bytes: packed(if isa.group > 1 { text } else { insn.bytes() }),
        verdict,
        rule: refusal.and_then(|refusal| isa.rule_of(refusal)).map(|rule| rule.name),
        errno: refusal.map(|refusal| refusal.errno.name()),
        copy: copy.and_then(Result::ok).map(|copy| Copied {
            at: hex(copy_at),
            bytes: packed(copy.bytes().get(..before as usize + copy.displaced).unwrap_or_default()),
            then: hex(insn.next()),
        }),
        effect,
    }
}

fn effect(isa: &Isa, given: &Given, state: &state::State, memory: &Recorded, then: Then) -> Effect {
    let pieces = |pieces: &[(u64, Vec<u8>)]| pieces.iter().map(|(at, bytes)| (hex(*at), packed(bytes))).collect();
    let mask = u64::MAX >> (64 - 8 * isa.word);
    let pc = match then {
        Then::DelaySlot { then } => then,
        Then::Onwards | Then::Copy { .. } => state.pc(),
    };
    Effect {
        registers: given.registers.iter().map(|(name, _, value)| (*name, hex(*value))).collect(),
        memory: pieces(&memory.read),
        changed: given.changed(state).map(|(name, value)| (name, hex(value & mask))).collect(),
        written: pieces(&memory.written),
        pc: hex(pc & mask),
        delay_slot: then != Then::Onwards,
    }
}
