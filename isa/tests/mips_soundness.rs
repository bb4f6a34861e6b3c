//! Tests the checker of jumps on generated functions (MIPS). A function must behave the same with every jump that the
//! checker allows, from every address at which it can be entered or resumed.
//!
//! The functions have branches, branches-likely and calls with filled delay slots, and branches into and behind delay
//! slots. A small interpreter runs them. Control flow is real; the effect of an instruction on registers is a made-up
//! hash.

use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::arch::Isa;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mips::{MIPSEL, Set, decode};
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_by};

const ISA: &Isa = &MIPSEL;
const SET: Set = Set::Little32;
const START: u64 = 0x8040_0000;
const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
const BYTES: usize = 0x1000;
/// Instructions that are executed before a run is cut off.
const STEPS: usize = 24;

/// A piece of a generated function: words and a target piece, modulo their count. The content of a delay slot is the
/// immediate of an `addiu`; 0 means `nop`.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Nop,
    /// `addiu v0,v0,N`
    Sum(u8),
    /// `xori v1,v1,N`
    Other(u8),
    /// `b`
    Jump(u8, u8),
    /// `bne v0,v1`
    Branch(u8, u8),
    /// `bnel v0,v1`
    Likely(u8, u8),
    /// `bne` to the second word of another piece, or behind it.
    Between(u8, u8),
    /// `bltzal v0`
    Link(u8, u8),
    /// `jal` of the next function or of a piece.
    Call(u8),
    CallInto(u8, u8),
    /// `jr t9`
    Switch(u8),
    /// `syscall`
    Trap,
    Return(u8),
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    let two = || (any::<u8>(), any::<u8>());
    prop_oneof![
        1 => Just(Nop),
        5 => any::<u8>().prop_map(Sum),
        5 => any::<u8>().prop_map(Other),
        2 => two().prop_map(|(to, slot)| Jump(to, slot)),
        2 => two().prop_map(|(to, slot)| Branch(to, slot)),
        2 => two().prop_map(|(to, slot)| Likely(to, slot)),
        1 => two().prop_map(|(to, slot)| Between(to, slot)),
        1 => two().prop_map(|(to, slot)| Link(to, slot)),
        1 => any::<u8>().prop_map(Call),
        1 => two().prop_map(|(to, slot)| CallInto(to, slot)),
        1 => any::<u8>().prop_map(Switch),
        1 => Just(Trap),
        1 => any::<u8>().prop_map(Return),
    ]
}

impl Piece {
    fn length(self) -> u64 {
        match self {
            Piece::Nop | Piece::Sum(_) | Piece::Other(_) | Piece::Trap => 4,
            _ => 8,
        }
    }
}

fn sum(number: u8) -> u32 {
    if number == 0 { 0 } else { 0x2442_0000 | u32::from(number) }
}

/// The text of a function, followed by the next function.
struct Function {
    text: PlainText,
    end: u64,
}

/// `addiu v0,v0,N; jr ra; nop`
fn leaf(number: u8) -> Vec<u8> {
    [sum(number), 0x03e0_0008, 0].iter().flat_map(|word| SET.bytes(*word)).collect()
}

fn assemble(pieces: &[Piece]) -> Function {
    let next = |at: &mut u64, piece: &Piece| {
        let start = *at;
        *at += piece.length();
        Some(start)
    };
    let starts: Vec<u64> = pieces.iter().scan(START, next).collect();
    let target = |number: u8| starts[usize::from(number) % starts.len()];
    let mut words = Vec::new();
    for (piece, at) in pieces.iter().zip(&starts) {
        let near = |base: u32, to: u64| base | (to.wrapping_sub(at + 4) >> 2) as u32 & 0xffff;
        let far = |to: u64| 0x0c00_0000 | (to >> 2) as u32 & 0x03ff_ffff;
        words.extend(match *piece {
            Piece::Nop => vec![0],
            Piece::Sum(number) => vec![sum(number.max(1))],
            Piece::Other(number) => vec![0x3863_0000 | u32::from(number)],
            Piece::Jump(to, slot) => vec![near(0x1000_0000, target(to)), sum(slot)],
            Piece::Branch(to, slot) => vec![near(0x1443_0000, target(to)), sum(slot)],
            Piece::Likely(to, slot) => vec![near(0x5443_0000, target(to)), sum(slot)],
            Piece::Between(to, slot) => vec![near(0x1443_0000, target(to) + 4), sum(slot)],
            Piece::Link(to, slot) => vec![near(0x0450_0000, target(to)), sum(slot)],
            Piece::Call(slot) => vec![far(CALLEE), sum(slot)],
            Piece::CallInto(to, slot) => vec![far(target(to)), sum(slot)],
            Piece::Switch(slot) => vec![0x0320_0008, sum(slot)],
            Piece::Trap => vec![0x0000_000c],
            Piece::Return(slot) => vec![0x03e0_0008, sum(slot)],
        });
    }
    let mut bytes: Vec<u8> = words.into_iter().flat_map(|word| SET.bytes(word)).collect();
    let end = START + bytes.len() as u64;
    bytes.extend(leaf(1));
    bytes.resize(BYTES, 0x0d);
    bytes[(CALLEE - START) as usize..][..12].copy_from_slice(&leaf(2));
    Function { text: PlainText { start: START, bytes, ..PlainText::default() }, end }
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: [u32; 3],
    returns: Vec<u64>,
    /// The address in the original text where the run ended by an exception. `None`: it returned or was cut off.
    died: Option<u64>,
}

/// Applies the effect of a word to the registers. Returns whether it has one.
fn works(word: u32, registers: &mut [u32; 3]) -> bool {
    let hash = word.to_le_bytes().iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    if word != 0 {
        let register = &mut registers[(hash % 3) as usize];
        *register = register.wrapping_mul(31).wrapping_add(hash);
    }
    word != 0
}

fn execute(text: &mut PlainText, from: u64, places: &[u64], back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut outcome = Outcome { registers: [7, 3, 5], returns: Vec::new(), died: None };
    let (mut pc, mut work, mut stack) = (from, 0, Vec::new());
    for _ in 0..STEPS * 80 {
        if work >= STEPS {
            break;
        }
        let Ok(insn) = decode_at(ISA, pc, &mut |at, into: &mut [u8]| text.read(at, into)) else {
            outcome.died = Some(back(pc));
            break;
        };
        let (word, next) = (decode::word(SET, &insn), insn.next());
        let registers = &mut outcome.registers;
        let odd = registers.iter().fold(0, |all: u32, one| all.rotate_left(3) ^ one).count_ones() & 1 == 1;
        // A branch-likely that is not taken nullifies its delay slot.
        let (is_likely, is_branch) = (word >> 26 == 0x15, matches!(insn.flow, Flow::Branch(_)));
        let slot = decode::delay_slot_of(&insn).filter(|_| !(is_likely && is_branch && !odd));
        if let Some(slot) = slot {
            work += usize::from(works(decode::word(SET, &slot), registers));
        }
        pc = match insn.flow {
            Flow::Next => {
                work += usize::from(works(word, registers));
                next
            }
            Flow::Jump(target) => target,
            Flow::Branch(target) => {
                work += 1;
                if odd { target } else { next }
            }
            Flow::Call(target) => {
                work += 1;
                outcome.returns.push(next);
                // `bltzal` may not be taken.
                if word >> 26 == 3 || odd {
                    stack.push(next);
                    target
                } else {
                    next
                }
            }
            // The jump table holds starts of instructions of this function.
            Flow::IndirectJump => {
                work += 1;
                places[registers[1] as usize % places.len()]
            }
            Flow::Return => match stack.pop() {
                Some(to) => to,
                None => break,
            },
            Flow::IndirectBranch | Flow::IndirectCall | Flow::Trap => {
                outcome.died = Some(back(pc));
                break;
            }
        };
    }
    outcome
}

/// Tries every address where the checker, with the rules that `applies` accepts, allows a jump.
fn first_difference(function: &Function, applies: &dyn Fn(Rule) -> bool, judged: &mut usize) -> Option<String> {
    let mut around = function.text.clone();
    let whole = START..function.end;
    let steps = walk(ISA, START, function.end, |at, into: &mut [u8]| around.read(at, into));
    let insns: Vec<Insn> = steps.map_while(Result::ok).collect();
    let begins: Vec<u64> = insns.iter().map(|insn| insn.address).collect();
    insns.iter().find_map(|insn| {
        let address = insn.address;
        let mut around = function.text.clone();
        let region = region_by(ISA, Policy::Best, whole.clone(), address, &mut around, applies).ok()?;
        let table = ISA.detour.expect("there are detours");
        let code = lean(ISA, table, &region, DETOUR).ok()?;
        let jump = (table.jump)(insn, DETOUR).expect("in reach");
        *judged += 1;
        let mut probed = function.text.clone();
        let at = (address - START) as usize;
        let length = table.jump_length as usize;
        probed.bytes[at..at + length].copy_from_slice(&jump[..length]);
        let detour = (DETOUR - START) as usize;
        probed.bytes[detour..detour + code.bytes().len()].copy_from_slice(code.bytes());
        let lead = DETOUR + table.lead.len() as u64;
        let back = |pc: u64| if (lead..DETOUR + 32).contains(&pc) { address + (pc - lead) } else { pc };
        // A task may be interrupted at every instruction. In a delay slot the CPU repeats the branch.
        let resumed: BTreeSet<u64> = begins.iter().copied().filter(|place| *place <= address || *place >= address + 8).collect();
        let mut plain = function.text.clone();
        for from in resumed.into_iter().chain([function.end]) {
            let expected = execute(&mut plain, from, &begins, &|pc| pc);
            let seen = execute(&mut probed, from, &begins, &back);
            if expected != seen {
                return Some(format!("jump at +{at:#x}, from {from:#x}: {expected:x?} became {seen:x?}"));
            }
        }
        None
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// OP-2, OP-3: the function behaves the same with an allowed jump.
    #[test]
    fn an_allowed_jump_does_not_change_the_function(pieces in prop::collection::vec(piece(), 1..14)) {
        let found = first_difference(&assemble(&pieces), &|_| true, &mut 0);
        prop_assert!(found.is_none(), "{pieces:?}: {}", found.unwrap_or_default());
    }
}

/// OP-2: the checker allows enough jumps, and without any one of its rules the test above would fail.
#[test]
fn each_rule_of_the_checker_is_necessary() {
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
    // `JumpBetween` refuses a branch into a delay slot, which is harmless here.
    let rules = [Rule::NoRoom, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto, Rule::Unmovable];
    for dropped in rules {
        let caught = functions.iter().any(|function| first_difference(function, &|rule| rule != dropped, &mut 0).is_some());
        assert!(caught, "nobody misses the rule `{}`", dropped.name());
    }
}
