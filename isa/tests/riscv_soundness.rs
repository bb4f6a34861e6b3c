//! Tests the checker of jumps on generated functions (RISC-V). Where the checker allows a jump, the function must behave
//! the same with the jump, from every address at which it can be entered or resumed.
//!
//! The functions have instructions of 2 and 4 bytes, so a jump covers one or two of them. A small interpreter runs the
//! functions. Control flow is real; the effect of an instruction on registers is a made-up hash of its bytes.

use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::arch::Isa;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_by};
use trapline_isa::riscv::RISCV64;

const ISA: &Isa = &RISCV64;
const START: u64 = 0xffff_ffff_8020_0000;
/// The start of the next function.
const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
const BYTES: usize = 0x1000;
/// Instructions that are executed before a run is cut off.
const STEPS: usize = 24;

/// A piece of a generated function. Targets are numbers of pieces, modulo their count.
#[derive(Clone, Copy, Debug)]
enum Piece {
    CompressedNop,
    /// `c.addi a0, N`
    CompressedSum(u8),
    /// `addi a0, a0, N`
    Sum(u8),
    /// `xori a1, a1, N`
    Other(u8),
    /// `auipc t0, N`
    Address(u8),
    /// `c.j`
    CompressedJump(u8),
    /// `jal x0`
    Jump(u8),
    /// `c.bnez a0`
    CompressedBranch(u8),
    /// `bne a0, a1`
    Branch(u8),
    /// `bne a0, a1`, to the third byte of another piece.
    Between(u8),
    /// `jal ra`, to the next function or to a piece.
    Call,
    CallInto(u8),
    /// `c.jr a5`
    Switch,
    /// `ecall`, and the target of its exception table entry.
    Faulty(u8),
    /// A nop of 4 bytes that the kernel patches.
    Patched,
    /// `c.jr ra`
    Return,
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        2 => Just(CompressedNop),
        6 => any::<u8>().prop_map(CompressedSum),
        5 => any::<u8>().prop_map(Sum),
        3 => any::<u8>().prop_map(Other),
        1 => any::<u8>().prop_map(Address),
        2 => any::<u8>().prop_map(CompressedJump),
        1 => any::<u8>().prop_map(Jump),
        2 => any::<u8>().prop_map(CompressedBranch),
        2 => any::<u8>().prop_map(Branch),
        1 => any::<u8>().prop_map(Between),
        1 => Just(Call),
        1 => any::<u8>().prop_map(CallInto),
        1 => Just(Switch),
        1 => any::<u8>().prop_map(Faulty),
        1 => Just(Patched),
        1 => Just(Return),
    ]
}

impl Piece {
    fn length(self) -> u64 {
        use Piece::*;
        match self {
            CompressedNop | CompressedSum(_) | CompressedJump(_) | CompressedBranch(_) | Switch | Return => 2,
            _ => 4,
        }
    }
}

/// Bit `from` of a distance, moved to bit `to`.
fn bits(distance: i64, from: u32, count: u32, to: u32) -> u32 {
    (distance as u32 >> from & ((1 << count) - 1)) << to
}

fn jal(link: u32, distance: i64) -> u32 {
    bits(distance, 20, 1, 31)
        | bits(distance, 1, 10, 21)
        | bits(distance, 11, 1, 20)
        | bits(distance, 12, 8, 12)
        | link << 7
        | 0x6f
}

fn bne(distance: i64) -> u32 {
    bits(distance, 12, 1, 31) | bits(distance, 5, 6, 25) | bits(distance, 1, 4, 8) | bits(distance, 11, 1, 7) | 0x00b5_1063
}

fn c_j(distance: i64) -> u32 {
    let scattered = bits(distance, 11, 1, 12) | bits(distance, 4, 1, 11) | bits(distance, 8, 2, 9) | bits(distance, 10, 1, 8);
    scattered | bits(distance, 6, 1, 7) | bits(distance, 7, 1, 6) | bits(distance, 1, 3, 3) | bits(distance, 5, 1, 2) | 0xa001
}

fn c_bnez(distance: i64) -> u32 {
    let scattered = bits(distance, 8, 1, 12) | bits(distance, 3, 2, 10) | bits(distance, 6, 2, 5);
    scattered | bits(distance, 1, 2, 3) | bits(distance, 5, 1, 2) | 0xe101
}

/// The text of a function, followed by the next function.
struct Function {
    text: PlainText,
    end: u64,
}

/// `c.addi a0, 1; c.addi a0, 2; c.jr ra`
const LEAF: [u8; 6] = [0x05, 0x05, 0x09, 0x05, 0x82, 0x80];

fn assemble(pieces: &[Piece]) -> Function {
    let next = |at: &mut u64, piece: &Piece| {
        let start = *at;
        *at += piece.length();
        Some(start)
    };
    let starts: Vec<u64> = pieces.iter().scan(START, next).collect();
    let target = |number: u8| starts[usize::from(number) % starts.len()];
    let mut text = PlainText { start: START, ..PlainText::default() };
    for (piece, at) in pieces.iter().zip(&starts) {
        let to = |address: u64| address.wrapping_sub(*at) as i64;
        let word = match *piece {
            Piece::CompressedNop => 0x0001,
            Piece::CompressedSum(number) => 0x0501 | (u32::from(number) % 31 + 1) << 2,
            Piece::Sum(number) => 0x0005_0513 | (u32::from(number) + 1) << 20,
            Piece::Other(number) => 0x0005_c593 | u32::from(number) << 20,
            Piece::Address(number) => 0x0000_0297 | u32::from(number) << 12,
            Piece::CompressedJump(number) => c_j(to(target(number))),
            Piece::Jump(number) => jal(0, to(target(number))),
            Piece::CompressedBranch(number) => c_bnez(to(target(number))),
            Piece::Branch(number) => bne(to(target(number))),
            Piece::Between(number) => bne(to(target(number) + 2)),
            Piece::Call => jal(1, to(CALLEE)),
            Piece::CallInto(number) => jal(1, to(target(number))),
            Piece::Switch => 0x8782,
            Piece::Faulty(number) => {
                text.fixups.push((*at, target(number)));
                0x0000_0073
            }
            Piece::Patched => {
                text.patched.push(*at);
                0x0000_0013
            }
            Piece::Return => 0x8082,
        };
        text.bytes.extend(&word.to_le_bytes()[..piece.length() as usize]);
    }
    let end = START + text.bytes.len() as u64;
    text.bytes.extend(LEAF);
    // Zeros are illegal instructions.
    text.bytes.resize(BYTES, 0);
    text.bytes[(CALLEE - START) as usize..][..LEAF.len()].copy_from_slice(&LEAF);
    Function { text, end }
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    registers: [u32; 3],
    returns: Vec<u64>,
    /// The address in the original text where the run ended by an exception. `None`: it returned or was cut off.
    died: Option<u64>,
}

/// Applies the effect of an instruction to the registers. Returns whether it has one.
fn works(insn: &Insn, registers: &mut [u32; 3]) -> bool {
    let is_nop = matches!(insn.bytes(), [0x01, 0x00] | [0x13, 0, 0, 0]);
    // `auipc` means its sum with its address.
    let place = if insn.bytes()[0] & 0x7f == 0x17 { insn.address } else { 0 };
    let bytes = insn.bytes().iter().copied().chain(place.to_le_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    if !is_nop {
        let register = &mut registers[(hash % 3) as usize];
        *register = register.wrapping_mul(31).wrapping_add(hash);
    }
    !is_nop
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
        let registers = &mut outcome.registers;
        let odd = registers.iter().fold(0, |all: u32, one| all.rotate_left(3) ^ one).count_ones() & 1 == 1;
        pc = match insn.flow {
            Flow::Next => {
                work += usize::from(works(&insn, registers));
                insn.next()
            }
            Flow::Jump(target) => target,
            Flow::Branch(target) => {
                work += 1;
                if odd { target } else { insn.next() }
            }
            Flow::Call(target) => {
                work += 1;
                outcome.returns.push(insn.next());
                stack.push(insn.next());
                target
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
            // The exception table is searched by the address that the guest knows.
            Flow::Trap => match text.fixups.iter().find(|(from, _)| *from == back(pc)) {
                Some((_, to)) => {
                    work += 1;
                    *to
                }
                None => {
                    outcome.died = Some(back(pc));
                    break;
                }
            },
            Flow::IndirectBranch | Flow::IndirectCall => panic!("there is none: {insn:x?}"),
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
    let table = ISA.detour.expect("there are detours");
    insns.iter().find_map(|insn| {
        let address = insn.address;
        let mut around = function.text.clone();
        let region = region_by(ISA, Policy::Best, whole.clone(), address, &mut around, applies).ok()?;
        let code = lean(ISA, table, &region, DETOUR).ok()?;
        let jump = (table.jump)(insn, DETOUR).expect("in reach");
        *judged += 1;
        let length = table.jump_length as usize;
        let at = (address - START) as usize;
        let mut probed = function.text.clone();
        probed.bytes[at..at + length].copy_from_slice(&jump[..length]);
        let detour = (DETOUR - START) as usize;
        probed.bytes[detour..detour + code.bytes().len()].copy_from_slice(code.bytes());
        let lead = DETOUR + table.lead.len() as u64;
        let back = |pc: u64| if (lead..DETOUR + 32).contains(&pc) { address + (pc - lead) } else { pc };
        // The optimizer waits for tasks inside the region. A task anywhere else may arrive at any time.
        let is_resumed = |place: &u64| *place <= address || *place >= address + table.jump_length;
        let resumed: BTreeSet<u64> = begins.iter().copied().filter(is_resumed).chain([function.end]).collect();
        for is_patched in [false, true] {
            let (mut plain, mut probed) = (function.text.clone(), probed.clone());
            for site in function.text.patched.iter().filter(|_| is_patched) {
                for text in [&mut plain, &mut probed] {
                    let site = (site - START) as usize;
                    text.bytes[site..site + 4].copy_from_slice(&[0x93, 0xc5, 0x75, 0x07]);
                }
            }
            for from in &resumed {
                let expected = execute(&mut plain, *from, &begins, &|pc| pc);
                let seen = execute(&mut probed, *from, &begins, &back);
                if expected != seen {
                    return Some(format!("jump at +{at:#x}, from {from:#x}: {expected:x?} became {seen:x?}"));
                }
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
    let rules = [Rule::NoRoom, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto, Rule::Fixup, Rule::Unmovable, Rule::Reserved];
    for dropped in rules {
        let caught = functions.iter().any(|function| first_difference(function, &|rule| rule != dropped, &mut 0).is_some());
        assert!(caught, "nobody misses the rule `{}`", dropped.name());
    }
}
