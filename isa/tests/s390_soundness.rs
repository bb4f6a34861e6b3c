//! Tests the checker of jumps on generated functions (s390x). A function must behave the same with every jump that the
//! checker allows, from every address at which it can be entered or resumed.
//!
//! The functions have instructions of 2, 4 and 6 bytes: branches, counts, comparisons, calls, `exrl` of their own
//! instructions, and data. A small interpreter runs them. Control flow is real; the effect of an instruction on
//! registers is a made-up hash.

use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_by};
use trapline_isa::s390::opcodes::code;
use trapline_isa::s390::{S390X, decode};

const START: u64 = 0x40_0000;
const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
const BYTES: usize = 0x1000;
/// Instructions that are executed before a run is cut off.
const STEPS: usize = 24;

/// A piece of a generated function. Targets are numbers of pieces, modulo their count.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Nop,
    /// `lr` of any registers, 2 bytes.
    Two(u8),
    /// `ahi`
    Four(u8),
    /// `afi`
    Six(u8),
    /// `larl` of a piece.
    Address(u8),
    /// `j`
    Jump(u8),
    /// `j` to the second halfword of another piece.
    Between(u8),
    /// `brct`
    Count(u8),
    /// `cij`
    Compare(u8),
    /// `brasl` of the next function or of a piece.
    Call,
    CallInto(u8),
    /// `exrl`
    Execute(u8),
    /// `ber %r14`
    ReturnIf,
    /// `br %r1`
    Switch,
    /// Data bytes behind a jump.
    Data,
    Return,
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        2 => Just(Nop),
        5 => any::<u8>().prop_map(Two),
        4 => any::<u8>().prop_map(Four),
        4 => any::<u8>().prop_map(Six),
        1 => any::<u8>().prop_map(Address),
        3 => any::<u8>().prop_map(Jump),
        1 => any::<u8>().prop_map(Between),
        2 => any::<u8>().prop_map(Count),
        2 => any::<u8>().prop_map(Compare),
        1 => Just(Call),
        1 => any::<u8>().prop_map(CallInto),
        1 => any::<u8>().prop_map(Execute),
        1 => Just(ReturnIf),
        1 => Just(Switch),
        1 => Just(Data),
        1 => Just(Return),
    ]
}

impl Piece {
    fn length(self) -> u64 {
        match self {
            Piece::Nop | Piece::Two(_) | Piece::ReturnIf | Piece::Switch | Piece::Return => 2,
            Piece::Four(_) | Piece::Jump(_) | Piece::Between(_) | Piece::Count(_) => 4,
            Piece::Data => 8,
            _ => 6,
        }
    }
}

/// The text of a function, followed by the next function.
struct Function {
    text: PlainText,
    end: u64,
    starts: Vec<u64>,
}

fn assemble(pieces: &[Piece]) -> Function {
    let next = |at: &mut u64, piece: &Piece| {
        let start = *at;
        *at += piece.length();
        Some(start)
    };
    let starts: Vec<u64> = pieces.iter().scan(START, next).collect();
    let target = |number: u8| starts[usize::from(number) % starts.len()];
    let mut bytes = Vec::new();
    for (piece, at) in pieces.iter().zip(&starts) {
        let halfwords = |to: u64| (to as i64 - *at as i64) / 2;
        let near = |first: u8, second: u8, to: u64| [&[first, second][..], &(halfwords(to) as i16).to_be_bytes()].concat();
        let far = |first: u8, second: u8, to: u64| [&[first, second][..], &(halfwords(to) as i32).to_be_bytes()].concat();
        bytes.extend(match *piece {
            Piece::Nop => vec![0x07, 0x07],
            Piece::Two(registers) => vec![0x18, registers],
            Piece::Four(number) => vec![0xa7, 0x1a, 0x00, number],
            Piece::Six(number) => vec![0xc2, 0x19, 0, 0, 0, number],
            Piece::Address(to) => far(0xc0, 0x10, CALLEE + u64::from(to & !1)),
            Piece::Jump(to) => near(0xa7, 0xf4, target(to)),
            Piece::Between(to) => near(0xa7, 0xf4, target(to) + 2),
            Piece::Count(to) => near(0xa7, 0x36, target(to)),
            Piece::Compare(to) => [near(0xec, 0x16, target(to)), vec![5, 0x7e]].concat(),
            Piece::Call => far(0xc0, 0xe5, CALLEE),
            Piece::CallInto(to) => far(0xc0, 0xe5, target(to)),
            Piece::Execute(to) => far(0xc6, 0x00, target(to)),
            Piece::ReturnIf => vec![0x07, 0x8e],
            Piece::Switch => vec![0x07, 0xf1],
            Piece::Data => vec![0xa7, 0xf4, 0x00, 0x04, 0x00, 0x00, 0x12, 0x34],
            Piece::Return => vec![0x07, 0xfe],
        });
    }
    let end = START + bytes.len() as u64;
    bytes.extend([0xa7, 0x2a, 0x00, 0x01, 0x07, 0xfe]);
    bytes.resize(BYTES, 0);
    bytes[(CALLEE - START) as usize..][..6].copy_from_slice(&[0xa7, 0x2a, 0x00, 0x02, 0x07, 0xfe]);
    Function { text: PlainText { start: START, bytes, ..PlainText::default() }, end, starts }
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: [u32; 3],
    returns: Vec<u64>,
    /// The address in the original text where the run ended by an exception. `None`: it returned or was cut off.
    died: Option<u64>,
}

/// A hash of the instruction: its bytes and its pc-relative address.
fn meaning(insn: &Insn) -> u32 {
    let mut bytes = insn.bytes().to_vec();
    if code(&bytes) == 0xc000 {
        let named = decode::far(insn.address, &bytes);
        bytes.truncate(2);
        bytes.extend(named.to_be_bytes());
    }
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn execute(text: &mut PlainText, from: u64, places: &[u64], back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut outcome = Outcome { registers: [7, 3, 5], returns: Vec::new(), died: None };
    let (mut pc, mut work, mut stack) = (from, 0, Vec::new());
    for _ in 0..STEPS * 80 {
        if work >= STEPS {
            break;
        }
        let read = &mut |at, into: &mut [u8]| text.read(at, into);
        let Ok(mut insn) = decode_at(&S390X, pc, read) else {
            outcome.died = Some(back(pc));
            break;
        };
        let next = insn.next();
        // `exrl` executes the instruction at its target in place; `exrl` of an `exrl` is invalid.
        if let (0xc600, Some(target)) = (code(insn.bytes()), insn.flow.target()) {
            match decode_at(&S390X, target, read) {
                Ok(executed) if code(executed.bytes()) != 0xc600 => insn = executed,
                _ => {
                    outcome.died = Some(back(pc));
                    break;
                }
            }
        }
        let is_nop = matches!(insn.bytes(), [0x07, 0x00 | 0x07] | [0xc0, 0xf4, ..] | [0xa7, 0xf4, ..]);
        work += usize::from(!is_nop);
        let registers = &mut outcome.registers;
        let odd = registers.iter().fold(u32::from(insn.bytes()[0]), |all, one| all.rotate_left(3) ^ one).count_ones() & 1 == 1;
        pc = match insn.flow {
            Flow::Next if is_nop => next,
            Flow::Next => {
                let hash = meaning(&insn);
                let register = &mut registers[(hash % 3) as usize];
                *register = register.wrapping_mul(31).wrapping_add(hash);
                next
            }
            Flow::Jump(target) => target,
            Flow::Branch(target) => {
                registers[0] = registers[0].wrapping_mul(17).wrapping_add(1);
                if odd { target } else { next }
            }
            Flow::Call(target) => {
                outcome.returns.push(next);
                stack.push(next);
                target
            }
            // The jump table holds starts of instructions of this function.
            Flow::IndirectJump => places[registers[1] as usize % places.len()],
            Flow::Return => match stack.pop() {
                Some(to) => to,
                None => break,
            },
            Flow::IndirectBranch if insn.bytes() == [0x07, 0x8e] => match stack.pop() {
                Some(to) if odd => to,
                None if odd => break,
                caller => {
                    stack.extend(caller);
                    next
                }
            },
            Flow::IndirectBranch | Flow::IndirectCall | Flow::Trap => {
                outcome.died = Some(back(pc));
                break;
            }
        };
    }
    outcome
}

/// Tries every address where a probe may stand and the checker, with the rules that `applies` accepts, allows a jump.
fn first_difference(function: &Function, applies: &dyn Fn(Rule) -> bool, looks: bool, judged: &mut usize) -> Option<String> {
    let mut around = function.text.clone();
    let whole = START..function.end;
    let steps = walk(&S390X, START, function.end, |at, into: &mut [u8]| around.read(at, into));
    let insns: Vec<Insn> = steps.map_while(Result::ok).collect();
    let begins: Vec<u64> = insns.iter().map(|insn| insn.address).collect();
    insns.iter().find_map(|insn| {
        let address = insn.address;
        let mut around = function.text.clone();
        if looks && (S390X.check_context)(insn, Policy::Best, whole.clone(), &mut around).is_err() {
            return None;
        }
        let region = region_by(&S390X, Policy::Best, whole.clone(), address, &mut around, applies).ok()?;
        let table = S390X.detour.expect("there are detours");
        let code = lean(&S390X, table, &region, DETOUR).ok()?;
        let jump = (table.jump)(insn, DETOUR).expect("in reach");
        *judged += 1;
        let mut probed = function.text.clone();
        let at = (address - START) as usize;
        probed.bytes[at..at + 6].copy_from_slice(&jump[..6]);
        let detour = (DETOUR - START) as usize;
        probed.bytes[detour..detour + code.bytes().len()].copy_from_slice(code.bytes());
        let lead = DETOUR + table.lead.len() as u64;
        let back = |pc: u64| if (lead..DETOUR + 32).contains(&pc) { address + (pc - lead) } else { pc };
        let places: BTreeSet<u64> = insns.iter().map(|insn| insn.address).chain(function.starts.iter().copied()).collect();
        let resumed = places.into_iter().filter(|place| *place <= address || *place >= address + 6);
        // No task is resumed in data or inside an instruction.
        let resumed = resumed.filter(|place| insns.iter().any(|insn| insn.address == *place)).chain([function.end]);
        let mut plain = function.text.clone();
        for from in resumed.collect::<Vec<_>>() {
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
        let function = assemble(&pieces);
        let found = first_difference(&function, &|_| true, true, &mut 0);
        prop_assert!(found.is_none(), "{pieces:?}: {}", found.unwrap_or_default());
    }
}

/// OP-2: the checker allows enough jumps, and without any one of its rules, or the check for `exrl`, the test above
/// would fail.
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
        assert_eq!(first_difference(function, &|_| true, true, &mut judged), None);
    }
    assert!(judged > 2000, "only {judged} places were allowed at all");
    let rules =
        [Rule::NoRoom, Rule::Undecodable, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto, Rule::JumpBetween, Rule::Unmovable];
    for dropped in rules {
        let caught = functions.iter().any(|function| first_difference(function, &|rule| rule != dropped, true, &mut 0).is_some());
        assert!(caught, "nobody misses the rule `{}`", dropped.name());
    }
    let caught = functions.iter().any(|function| first_difference(function, &|_| true, false, &mut 0).is_some());
    assert!(caught, "nobody misses the look for what is executed");
}
