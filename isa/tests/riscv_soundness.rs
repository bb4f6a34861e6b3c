//! Tests the checker of jumps on generated functions (RISC-V). Where the checker allows a jump, the function must behave
//! the same with the jump, from every address at which it can be entered or resumed.
//!
//! The functions have instructions of 2 and 4 bytes, so a jump covers one or two of them, and a far jump up to four. An
//! interpreter of the few instructions in them runs the functions. By the calling convention a call overwrites all
//! temporaries, and only a0 and a1 count in the end.

use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::arch::Isa;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::Fault;
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_to_by};
use trapline_isa::riscv::RISCV64;

const ISA: &Isa = &RISCV64;
const START: u64 = 0xffff_ffff_8020_0000;
/// The start of the next function.
const CALLEE: u64 = START + 0x800;
const DETOUR: u64 = START + 0xc00;
/// Out of reach of the first jump.
const FAR: u64 = START - 0x4000_0000;
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
    /// `c.mv`, `c.add` and `c.li` of a0, a1 and t0 to t3.
    Move(u8, u8),
    Add(u8, u8),
    Load(u8),
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
        4 => (any::<u8>(), any::<u8>()).prop_map(|(to, from)| Move(to, from)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(to, from)| Add(to, from)),
        2 => any::<u8>().prop_map(Load),
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
            Move(..) | Add(..) | Load(_) => 2,
            _ => 4,
        }
    }
}

/// One of a0, a1, t0 to t3.
fn register(number: u8) -> u32 {
    [10, 11, 5, 6, 7, 28][usize::from(number) % 6]
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
            Piece::Move(to, from) => 0x8002 | register(to) << 7 | register(from) << 2,
            Piece::Add(to, from) => 0x9002 | register(to) << 7 | register(from) << 2,
            Piece::Load(number) => 0x4001 | register(number) << 7 | (u32::from(number) / 6 % 32) << 2,
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
    /// a0 and a1.
    results: [u64; 2],
    returns: Vec<u64>,
    /// The address in the original text where the run ended by an exception. `None`: it returned or was cut off.
    died: Option<u64>,
}

/// The text of a function and of its detour.
#[derive(Clone)]
struct Text {
    function: PlainText,
    detour: PlainText,
}

impl Text {
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.detour.read(address, into).or_else(|_| self.function.read(address, into))
    }
}

/// Applies the effect of an instruction to the registers. Returns whether it is more than a nop. `None`: no piece has
/// it, so it is the inside of another one.
fn works(insn: &Insn, place: u64, registers: &mut [u64; 32]) -> Option<bool> {
    let word = insn.bytes().iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
    let (rd, second) = ((word >> 7 & 31) as usize, (word >> 2 & 31) as usize);
    let value = match (insn.length(), word & 0x7f) {
        (2, _) if word & 0xe003 == 0x0001 => registers[rd].wrapping_add(second as u64),
        (2, _) if word & 0xe003 == 0x4001 => second as u64,
        (2, _) if word & 0xf003 == 0x8002 => registers[second],
        (2, _) if word & 0xf003 == 0x9002 => registers[rd].wrapping_add(registers[second]),
        (_, 0x17) => place.wrapping_add_signed(i64::from((word & 0xffff_f000) as i32)),
        (_, 0x13) if word >> 12 & 7 == 0 => registers[(word >> 15 & 31) as usize].wrapping_add(u64::from(word >> 20)),
        (_, 0x13) => registers[(word >> 15 & 31) as usize] ^ u64::from(word >> 20),
        _ => return None,
    };
    if rd != 0 {
        registers[rd] = value;
    }
    Some(!matches!(insn.bytes(), [0x01, 0x00] | [0x13, 0, 0, 0]))
}

/// A call and a return leave nothing in temporaries that their other side may read.
fn lose_temporaries(registers: &mut [u64; 32]) {
    [5, 6, 7, 28, 29, 30, 31].iter().for_each(|number| registers[*number] = 0xbad);
}

/// Runs the text. `back` maps addresses in the detour to the original. Instructions of jumps do not count as work.
fn execute(text: &mut Text, from: u64, places: &[u64], jumps: &[u64], back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut registers: [u64; 32] = std::array::from_fn(|number| 0x1_0001 * number as u64);
    let mut outcome = Outcome { results: [0; 2], returns: Vec::new(), died: None };
    let (mut pc, mut work, mut stack) = (from, 0, Vec::new());
    for _ in 0..STEPS * 80 {
        if work >= STEPS {
            break;
        }
        let Ok(insn) = decode_at(ISA, pc, &mut |at, into: &mut [u8]| text.read(at, into)) else {
            outcome.died = Some(back(pc));
            break;
        };
        let parity = (registers[10] ^ registers[11].rotate_left(7)).count_ones() & 1 == 1;
        pc = match insn.flow {
            Flow::Next => match works(&insn, pc, &mut registers) {
                Some(is_work) => {
                    work += usize::from(is_work && !jumps.contains(&pc));
                    insn.next()
                }
                None => {
                    outcome.died = Some(back(pc));
                    break;
                }
            },
            Flow::Jump(target) => target,
            Flow::Branch(target) => {
                work += 1;
                if parity { target } else { insn.next() }
            }
            Flow::Call(target) => {
                work += 1;
                outcome.returns.push(insn.next());
                stack.push(insn.next());
                lose_temporaries(&mut registers);
                target
            }
            // The jump of an optimised probe, or the jump back.
            Flow::IndirectJump if insn.length() == 4 => {
                let word = u32::from_le_bytes(insn.bytes().try_into().expect("a word"));
                registers[(word >> 15 & 31) as usize].wrapping_add_signed(i64::from(word as i32 >> 20)) & !1
            }
            // The jump table holds starts of instructions of this function.
            Flow::IndirectJump => {
                work += 1;
                places[registers[11] as usize % places.len()]
            }
            Flow::Return => match stack.pop() {
                Some(to) => {
                    lose_temporaries(&mut registers);
                    to
                }
                None => break,
            },
            // The exception table is searched by the address that the guest knows.
            Flow::Trap => match text.function.fixups.iter().find(|(from, _)| *from == back(pc)) {
                Some((_, to)) => {
                    work += 1;
                    *to
                }
                None => {
                    outcome.died = Some(back(pc));
                    break;
                }
            },
            Flow::IndirectBranch | Flow::IndirectCall => {
                outcome.died = Some(back(pc));
                break;
            }
        };
    }
    // A run that was cut off may be where a result is not needed any more, and a jump has overwritten it.
    if work < STEPS {
        outcome.results = [registers[10], registers[11]];
    }
    outcome
}

/// Tries every address where the checker, with the rules that `applies` accepts, allows a jump to this detour.
fn first_difference(function: &Function, detour: u64, applies: &dyn Fn(Rule) -> bool, judged: &mut usize) -> Option<String> {
    let mut around = function.text.clone();
    let whole = START..function.end;
    let steps = walk(ISA, START, function.end, |at, into: &mut [u8]| around.read(at, into));
    let insns: Vec<Insn> = steps.map_while(Result::ok).collect();
    let begins: Vec<u64> = insns.iter().map(|insn| insn.address).collect();
    let table = ISA.detour.expect("there are detours");
    insns.iter().find_map(|insn| {
        let address = insn.address;
        let mut around = function.text.clone();
        let region = region_to_by(ISA, Policy::Best, whole.clone(), (address, Some(detour)), &mut around, applies).ok()?;
        let code = lean(ISA, table, &region, detour).ok()?;
        let through = region.far().map(|[through, _]| through);
        let jump = table.jump_through(insn, detour, through).expect("in reach");
        *judged += 1;
        let length = table.length_through(through) as usize;
        assert_eq!(length, if detour == FAR { 8 } else { 4 });
        let at = (address - START) as usize;
        let mut probed = function.text.clone();
        probed.bytes[at..at + length].copy_from_slice(&jump[..length]);
        let lead = detour + table.lead.len() as u64;
        let way_back = lead + (region.end() - region.start());
        let back = |pc: u64| if (lead..detour + 32).contains(&pc) { address + (pc - lead) } else { pc };
        // The optimizer waits for tasks inside the region. A task anywhere else may arrive at any time.
        let is_resumed = |place: &u64| *place <= address || *place >= address + length as u64;
        let resumed: BTreeSet<u64> = begins.iter().copied().filter(is_resumed).chain([function.end]).collect();
        let nowhere = PlainText { start: detour, ..PlainText::default() };
        let detour = PlainText { start: detour, bytes: code.bytes().to_vec(), ..PlainText::default() };
        for is_patched in [false, true] {
            let mut plain = Text { function: function.text.clone(), detour: nowhere.clone() };
            let mut probed = Text { function: probed.clone(), detour: detour.clone() };
            for site in function.text.patched.iter().filter(|_| is_patched) {
                for text in [&mut plain, &mut probed] {
                    let site = (site - START) as usize;
                    text.function.bytes[site..site + 4].copy_from_slice(&[0x93, 0xc5, 0x75, 0x07]);
                }
            }
            for from in &resumed {
                let expected = execute(&mut plain, *from, &begins, &[], &|pc| pc);
                let seen = execute(&mut probed, *from, &begins, &[address, way_back], &back);
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
        for detour in [DETOUR, FAR] {
            let found = first_difference(&assemble(&pieces), detour, &|_| true, &mut 0);
            prop_assert!(found.is_none(), "{pieces:?}: {}", found.unwrap_or_default());
        }
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
    for detour in [DETOUR, FAR] {
        let mut judged = 0;
        for function in &functions {
            assert_eq!(first_difference(function, detour, &|_| true, &mut judged), None);
        }
        assert!(judged > 1500, "only {judged} places were allowed at all");
        println!("{judged} jumps to {detour:#x}");
        let rules =
            [Rule::NoRoom, Rule::IndirectJump, Rule::JumpInto, Rule::CallInto, Rule::Fixup, Rule::Unmovable, Rule::Reserved];
        for dropped in rules {
            let is_caught = |function| first_difference(function, detour, &|rule| rule != dropped, &mut 0).is_some();
            // A far jump's way back needs an instruction behind it.
            let is_implied = detour == FAR && dropped == Rule::NoRoom;
            assert!(is_implied || functions.iter().any(is_caught), "nobody misses the rule `{}` at {detour:#x}", dropped.name());
        }
    }
}
