//! The brute-force comparison behind `detour_soundness` and the fuzz target `safety_checker`: runs a function from
//! every address at which it can be entered or resumed, without and with the jump.
//!
//! A small interpreter runs the text. Control flow is real. The effect of an instruction on registers is a made-up hash
//! of its bytes and of its pc-relative address, so a correctly relocated copy has the same effect.

use iced_x86::{Decoder, DecoderOptions};
use std::collections::BTreeSet;
use trapline_isa::arch::Isa;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_by};
use trapline_isa::x86::X86_64;

pub const ISA: &Isa = &X86_64;
pub const START: u64 = 0x40_0000;
/// The start of the next function, and the address at which a run ends.
pub const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
const TEXT_BYTES: usize = 0x1000;
/// Instructions that are executed before a run is cut off.
const STEPS: usize = 24;
/// A limit on steps that is high enough for that, because every loop of the longest function executes some instruction
/// or none at all.
const INSTRUCTIONS: usize = STEPS * 80;

/// A function and its surroundings.
pub struct Function {
    pub text: PlainText,
    pub end: u64,
    /// Addresses at which a task may be interrupted.
    pub boundaries: Vec<u64>,
    /// Addresses at which the function is entered: its own start and the next function's.
    entries: Vec<u64>,
}

impl Function {
    /// Takes at most 0x700 bytes at [`START`]; `text` also has the exception table and the patched places.
    pub fn new(mut text: PlainText) -> Function {
        let end = START + text.bytes.len() as u64;
        // The next function follows at once: two `inc`s and a return, then breakpoints, as in a kernel.
        text.bytes.extend([0xff, 0xc3, 0xff, 0xc2, 0xc3]);
        text.bytes.resize(TEXT_BYTES, 0xcc);
        let callee = (CALLEE - START) as usize;
        text.bytes[callee..callee + 3].copy_from_slice(&[0xff, 0xc2, 0xc3]);
        let mut read = text.clone();
        let steps = walk(ISA, START, end, |at, into: &mut [u8]| read.read(at, into));
        let boundaries = steps.map_while(Result::ok).map(|insn| insn.address).collect();
        Function { text, end, boundaries, entries: vec![START, end] }
    }
}

/// The result of a run: registers, the addresses after each step outside of the jump and the detour, and pushed values.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: [u32; 4],
    pushed: Vec<u64>,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Returned,
    /// An exception at this address of the original text.
    Died(u64),
    /// Cut off after this many executed instructions.
    Steps,
}

/// Runs the text. `back` maps addresses in the detour to the original, as the machine does for faults.
fn execute(text: &mut PlainText, from: u64, back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut outcome = Outcome { registers: [7, 3, 0, 0], pushed: Vec::new(), end: End::Steps };
    let (mut pc, mut zero, mut work, mut stack) = (from, false, 0, Vec::new());
    for _ in 0..INSTRUCTIONS {
        // Both runs are cut off after the same number of instructions with an effect.
        if work >= STEPS {
            break;
        }
        let Ok(insn) = decode_at(ISA, pc, &mut |at, into: &mut [u8]| text.read(at, into)) else {
            outcome.end = End::Died(back(pc));
            break;
        };
        let (next, at) = (insn.next(), back(pc));
        // The exception table is searched by the address that the guest knows.
        let fixup = text.fixups.iter().find(|(from, _)| *from == at).map(|(_, to)| *to);
        if let Some(to) = fixup {
            (pc, work) = (to, work + 1);
            continue;
        }
        let registers = &mut outcome.registers;
        work += usize::from(!matches!(*insn.bytes(), [0x90] | [0x0f, 0x1f, ..] | [0xeb, _] | [0xe9, ..]));
        match insn.flow {
            Flow::Next => {
                if let Some(result) = compute(&insn, registers) {
                    zero = result == 0;
                }
                pc = next;
            }
            Flow::Jump(target) => pc = target,
            Flow::Branch(target) => pc = if is_taken(&insn, zero, registers) { target } else { next },
            Flow::Call(target) => {
                outcome.pushed.push(next);
                stack.push(next);
                pc = target;
            }
            Flow::IndirectCall => {
                outcome.pushed.push(next);
                stack.push(next);
                pc = CALLEE;
            }
            // x86 has no conditional indirect jump.
            Flow::IndirectJump | Flow::IndirectBranch => pc = u64::from(registers[0]),
            Flow::Return => match stack.pop() {
                Some(to) => pc = to,
                None => {
                    outcome.end = End::Returned;
                    break;
                }
            },
            Flow::Trap => {
                outcome.end = End::Died(at);
                break;
            }
        }
    }
    // A loop of jumps and no-ops has no effect in either run, so the limit on steps ends both.
    outcome
}

/// Applies the made-up effect to the registers. Returns the result if the instruction sets flags.
fn compute(insn: &Insn, registers: &mut [u32; 4]) -> Option<u32> {
    match *insn.bytes() {
        [0x90] | [0x0f, 0x1f, ..] => None,
        [0xff, code @ 0xc0..=0xc3] => {
            let register = &mut registers[usize::from(code & 3)];
            *register = register.wrapping_add(1);
            Some(*register)
        }
        [0xff, 0xc9] => {
            registers[1] = registers[1].wrapping_sub(1);
            Some(registers[1])
        }
        [code @ 0xb8..=0xbb, a, b, c, d] => {
            registers[usize::from(code & 3)] = u32::from_le_bytes([a, b, c, d]);
            None
        }
        _ => {
            let hash = meaning(insn);
            let register = &mut registers[(hash & 3) as usize];
            *register = register.wrapping_mul(31).wrapping_add(hash);
            Some(*register)
        }
    }
}

/// A hash of the instruction: its bytes and its pc-relative address.
fn meaning(insn: &Insn) -> u32 {
    let mut bytes = insn.bytes().to_vec();
    let mut decoder = Decoder::with_ip(64, insn.bytes(), insn.address, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if decoded.is_ip_rel_memory_operand() {
        let offsets = decoder.get_constant_offsets(&decoded);
        let from = offsets.displacement_offset();
        bytes[from..from + offsets.displacement_size()].fill(0);
        bytes.extend(decoded.ip_rel_memory_address().to_le_bytes());
    }
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Whether a branch is taken: really for `jz` and `jnz`, otherwise made up.
fn is_taken(insn: &Insn, zero: bool, registers: &[u32; 4]) -> bool {
    match *insn.bytes() {
        [0x74, _] => zero,
        [0x75, _] => !zero,
        [opcode, ..] => registers.iter().fold(u32::from(opcode), |all, one| all.rotate_left(3) ^ one).count_ones() & 1 == 1,
        [] => false,
    }
}

/// Tries every address where the checker, with the rules that `applies` accepts, allows a jump. Returns the first
/// difference.
pub fn first_difference(function: &Function, applies: &dyn Fn(Rule) -> bool, judged: &mut usize) -> Option<String> {
    function.boundaries.iter().find_map(|address| difference(function, *address, applies, judged))
}

/// Like [`first_difference`], for a jump at one address.
pub fn difference(function: &Function, address: u64, applies: &dyn Fn(Rule) -> bool, judged: &mut usize) -> Option<String> {
    let table = ISA.detour.expect("x86 has detours");
    let mut around = function.text.clone();
    let Ok(region) = region_by(ISA, Policy::Best, START..function.end, address, &mut around, applies) else { return None };
    let Ok(code) = lean(ISA, table, &region, DETOUR) else { return None };
    *judged += 1;
    let jump = (table.jump)(&region.insns()[0], DETOUR).expect("in reach");
    let length = table.jump_length as usize;
    let mut probed = function.text.clone();
    let at = (address - START) as usize;
    probed.bytes[at..at + length].copy_from_slice(&jump[..length]);
    let detour = (DETOUR - START) as usize;
    probed.bytes[detour..detour + code.bytes().len()].copy_from_slice(code.bytes());
    let back = |pc: u64| match pc.checked_sub(DETOUR + 1) {
        Some(into) if pc < DETOUR + 32 => address + into,
        _ => pc,
    };
    // The optimizer waits for tasks inside the region; a task anywhere else may arrive at any time.
    let places: BTreeSet<u64> = function.boundaries.iter().chain(&function.entries).copied().collect();
    let resumed = |place: u64| function.entries.contains(&place) || place <= address || place >= address + table.jump_length;
    for patched in [false, true] {
        let (mut plain, mut probed) = (function.text.clone(), probed.clone());
        for site in function.text.patched.iter().filter(|_| patched) {
            for text in [&mut plain, &mut probed] {
                let site = (site - START) as usize;
                text.bytes[site..site + 5].copy_from_slice(&[0xff, 0xc0, 0xff, 0xc3, 0x90]);
            }
        }
        for &from in places.iter().filter(|place| resumed(**place)) {
            let expected = execute(&mut plain, from, &|pc| pc);
            let seen = execute(&mut probed, from, &back);
            if expected != seen {
                return Some(format!("jump at +{at:#x}, from {from:#x}: {expected:x?} became {seen:x?}"));
            }
        }
    }
    None
}
