//! Soundness by brute force: where the checker says that a jump may stand, a function does the same with the jump in place,
//! from every place at which it can be entered or resumed.
//!
//! A small interpreter runs generated functions: loops, a switch, a call, an instruction that faults and is mended, bytes that are
//! no instruction, a place that the kernel patches. Each rule of the checker is then left out in turn, and must be missed.

use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::arch::Isa;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_by};
use trapline_isa::x86::X86_64;

const ISA: &Isa = &X86_64;
const START: u64 = 0x40_0000;
/// The next function, and the place where everything ends.
const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
const TEXT_BYTES: usize = 0x1000;
/// So much work is compared.
const STEPS: usize = 24;
/// Enough to do that work, for the longest function does some in each turn or none at all.
const INSTRUCTIONS: usize = STEPS * 80;

/// What a generated function is made of; targets are numbers of pieces, cut to how many there are.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Nop,
    /// `inc` of register 0 to 3.
    Inc(u8),
    /// `mov` of an immediate.
    Mov(u8, u8),
    Jump(u8),
    /// `jnz` after `dec` of a register.
    Loop(u8),
    Call,
    /// A call into the function itself; the callee's return comes back.
    CallInto(u8),
    /// `mov $target, %eax; jmp *%rax`
    Switch(u8),
    /// `ud2`, and where the exception table leads.
    Faulty(u8),
    /// Bytes over which a jump leads.
    Data,
    /// Five bytes that the kernel changes between a nop and `inc`s.
    Patched,
    Return,
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        4 => Just(Nop),
        6 => (0..4u8).prop_map(Inc),
        3 => (0..4u8, any::<u8>()).prop_map(|(register, value)| Mov(register, value)),
        3 => any::<u8>().prop_map(Jump),
        3 => any::<u8>().prop_map(Loop),
        1 => Just(Call),
        1 => any::<u8>().prop_map(CallInto),
        1 => any::<u8>().prop_map(Switch),
        1 => any::<u8>().prop_map(Faulty),
        1 => Just(Data),
        1 => Just(Patched),
        1 => Just(Return),
    ]
}

struct Function {
    text: PlainText,
    end: u64,
    /// Where an interrupted task may stand.
    boundaries: Vec<u64>,
    /// Where the function is entered: its start, and the next function's.
    entries: Vec<u64>,
}

impl Piece {
    fn length(self) -> usize {
        match self {
            Piece::Nop | Piece::Return => 1,
            Piece::Inc(_) | Piece::Faulty(_) => 2,
            Piece::Data => 5,
            Piece::Jump(_) => 2,
            Piece::Mov(..) | Piece::Call | Piece::CallInto(_) | Piece::Patched => 5,
            Piece::Loop(_) => 4,
            Piece::Switch(_) => 7,
        }
    }
}

fn assemble(pieces: &[Piece]) -> Function {
    let starts: Vec<u64> = pieces
        .iter()
        .scan(START, |at, piece| {
            let start = *at;
            *at += piece.length() as u64;
            Some(start)
        })
        .collect();
    let end = START + pieces.iter().map(|piece| piece.length() as u64).sum::<u64>();
    let target = |number: u8| starts[usize::from(number) % starts.len()];
    let mut text = PlainText { start: START, ..PlainText::default() };
    for (piece, at) in pieces.iter().zip(&starts) {
        let short = |to: u64, length: u64| (to as i64 - (at + length) as i64) as i8 as u8;
        let near = |to: u64| ((to as i64 - (at + 5) as i64) as i32).to_le_bytes();
        let bytes: Vec<u8> = match *piece {
            Piece::Nop => vec![0x90],
            Piece::Inc(register) => vec![0xff, 0xc0 | register],
            Piece::Mov(register, value) => vec![0xb8 | register, value, 0, 0, 0],
            Piece::Jump(to) => vec![0xeb, short(target(to), 2)],
            Piece::Loop(to) => vec![0xff, 0xc9, 0x75, short(target(to), 4)],
            Piece::Call => [&[0xe8][..], &near(CALLEE)].concat(),
            Piece::CallInto(to) => [&[0xe8][..], &near(target(to))].concat(),
            Piece::Switch(to) => [&[0xb8][..], &(target(to) as u32).to_le_bytes(), &[0xff, 0xe0]].concat(),
            Piece::Faulty(to) => {
                text.fixups.push((*at, target(to)));
                vec![0x0f, 0x0b]
            }
            // Behind the jump: an opcode that no CPU has.
            Piece::Data => vec![0xeb, 0x03, 0x0f, 0x3a, 0xff],
            Piece::Patched => {
                text.patched.push(*at);
                vec![0x0f, 0x1f, 0x44, 0, 0]
            }
            Piece::Return => vec![0xc3],
        };
        assert_eq!(bytes.len(), piece.length());
        text.bytes.extend(bytes);
    }
    // The next function begins at once: two `inc`s and a return.
    text.bytes.extend([0xff, 0xc3, 0xff, 0xc2, 0xc3]);
    text.bytes.resize(TEXT_BYTES, 0x90);
    let callee = (CALLEE - START) as usize;
    text.bytes[callee..callee + 3].copy_from_slice(&[0xff, 0xc2, 0xc3]);
    let mut read = text.clone();
    let boundaries =
        walk(ISA, START, end, |at, into: &mut [u8]| read.read(at, into)).map_while(Result::ok).map(|insn| insn.address).collect();
    Function { text, end, boundaries, entries: vec![START, end] }
}

/// What a run leaves behind: registers, where it was after each step outside the jump and the detour, what it pushed.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: [u32; 4],
    pushed: Vec<u64>,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Returned,
    /// An exception at this place, of the original text.
    Died(u64),
    /// Cut off after so many pieces of work.
    Steps,
}

/// Runs the text. `back` maps addresses in the detour to the original, as the machine does for faults.
fn execute(text: &mut PlainText, from: u64, back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut outcome = Outcome { registers: [7, 3, 0, 0], pushed: Vec::new(), end: End::Steps };
    let (mut pc, mut zero, mut work, mut stack) = (from, false, 0, Vec::new());
    for _ in 0..INSTRUCTIONS {
        // Both runs are cut where they have done the same work: instructions that change something.
        if work >= STEPS {
            break;
        }
        let Ok(insn) = decode_at(ISA, pc, &mut |at, into: &mut [u8]| text.read(at, into)) else {
            outcome.end = End::Died(back(pc));
            break;
        };
        let next = insn.next();
        let registers = &mut outcome.registers;
        match *insn.bytes() {
            [0x90] | [0x0f, 0x1f, ..] => pc = next,
            [0xff, code @ 0xc0..=0xc3] => {
                let register = &mut registers[usize::from(code & 3)];
                *register = register.wrapping_add(1);
                zero = *register == 0;
                (pc, work) = (next, work + 1);
            }
            [0xff, 0xc9] => {
                registers[1] = registers[1].wrapping_sub(1);
                zero = registers[1] == 0;
                (pc, work) = (next, work + 1);
            }
            [code @ 0xb8..=0xbb, a, b, c, d] => {
                registers[usize::from(code & 3)] = u32::from_le_bytes([a, b, c, d]);
                (pc, work) = (next, work + 1);
            }
            [0xeb, _] | [0xe9, ..] => pc = insn.flow.target().expect("a target"),
            [0x75, _] => {
                work += 1;
                pc = if zero { next } else { insn.flow.target().expect("a target") };
            }
            [0xe8, ..] => {
                outcome.pushed.push(next);
                stack.push(next);
                (pc, work) = (insn.flow.target().expect("a target"), work + 1);
            }
            [0xff, 0xe0] => (pc, work) = (u64::from(registers[0]), work + 1),
            [0xc3] => match stack.pop() {
                Some(to) => (pc, work) = (to, work + 1),
                None => {
                    outcome.end = End::Returned;
                    break;
                }
            },
            _ => {
                // An exception: the table is asked for the place as the guest knows it.
                let at = back(pc);
                work += 1;
                match text.fixups.iter().find(|(from, _)| *from == at) {
                    Some((_, to)) if insn.bytes() == [0x0f, 0x0b] => pc = *to,
                    _ => {
                        outcome.end = End::Died(at);
                        break;
                    }
                }
            }
        }
    }
    // A loop of jumps and nops alone does no work for ever; so it does in both.
    outcome
}

/// Tries every place that the checker allows by the rules that apply. Gives the first way in which the jump is seen.
fn first_difference(function: &Function, applies: &dyn Fn(Rule) -> bool, judged: &mut usize) -> Option<String> {
    let table = ISA.detour.expect("x86 has detours");
    for &address in &function.boundaries {
        let mut around = function.text.clone();
        let Ok(region) = region_by(ISA, Policy::Best, START..function.end, address, &mut around, applies) else { continue };
        let Ok(code) = lean(ISA, table, &region, DETOUR) else { continue };
        *judged += 1;
        let jump = (table.jump)(address, DETOUR).expect("in reach");
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
        // The worker waits for tasks that stand under the jump; everybody else may come at any time.
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
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// OP-2, OP-3: what the checker allows cannot be seen by the function.
    #[test]
    fn an_allowed_jump_changes_nothing(pieces in prop::collection::vec(piece(), 1..14)) {
        let function = assemble(&pieces);
        let found = first_difference(&function, &|_| true, &mut 0);
        prop_assert!(found.is_none(), "{pieces:?}: {}", found.unwrap_or_default());
    }
}

/// OP-2: the checker is not sound by refusing everything, and none of its rules is idle: without it the test above would fail.
#[test]
fn a_checker_without_one_of_its_rules_is_caught() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let functions: Vec<Function> = (0..6000)
        .map(|_| prop::collection::vec(piece(), 1..14).new_tree(&mut runner).expect("no filters"))
        .map(|tree| assemble(&tree.current()))
        .collect();
    let mut judged = 0;
    for function in &functions {
        assert_eq!(first_difference(function, &|_| true, &mut judged), None);
    }
    assert!(judged > 2000, "only {judged} places were allowed at all");
    let rules = [
        Rule::NoRoom,
        Rule::Undecodable,
        Rule::IndirectJump,
        Rule::JumpInto,
        Rule::CallInto,
        Rule::Fixup,
        Rule::Unmovable,
        Rule::Reserved,
    ];
    for dropped in rules {
        let caught = functions.iter().any(|function| first_difference(function, &|rule| rule != dropped, &mut 0).is_some());
        assert!(caught, "nobody misses the rule `{}`", dropped.name());
    }
}
