//! Tests the checker of jumps on generated functions (RISC-V, 64 and 32 bits). A function must behave the same with every
//! jump that the checker allows, from every address at which it can be entered or resumed.
//!
//! The functions have instructions of 2 and 4 bytes, so a jump covers one or two of them, and a far jump up to four. An
//! interpreter of the few instructions in them runs the functions. By the calling convention a call overwrites all
//! temporaries, and only a0 and a1 count in the end.

mod pieces;

use pieces::{Function, PLACES, Place, assemble, piece};
use proptest::prelude::*;
use std::collections::BTreeSet;
use trapline_isa::detour::lean;
use trapline_isa::function::{decode_at, walk};
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::mem::Fault;
use trapline_isa::plan::Policy;
use trapline_isa::region::{PlainText, Rule, Surroundings, region_to_by};
use trapline_isa::riscv::Set;

/// Instructions that are executed before a run is cut off.
const STEPS: usize = 24;

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
fn works(set: Set, insn: &Insn, place: u64, registers: &mut [u64; 32]) -> Option<bool> {
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
        registers[rd] = set.cut(value);
    }
    Some(!matches!(insn.bytes(), [0x01, 0x00] | [0x13, 0, 0, 0]))
}

/// A call and a return leave nothing in temporaries that their other side may read.
fn lose_temporaries(registers: &mut [u64; 32]) {
    [5, 6, 7, 28, 29, 30, 31].iter().for_each(|number| registers[*number] = 0xbad);
}

/// Runs the text of a width. `back` maps addresses in the detour to the original. Instructions of jumps do not count as work.
fn execute(set: Set, text: &mut Text, from: u64, places: &[u64], jumps: &[u64], back: &dyn Fn(u64) -> u64) -> Outcome {
    let mut registers: [u64; 32] = std::array::from_fn(|number| 0x1_0001 * number as u64);
    let mut outcome = Outcome { results: [0; 2], returns: Vec::new(), died: None };
    let (mut pc, mut work, mut stack) = (from, 0, Vec::new());
    for _ in 0..STEPS * 80 {
        if work >= STEPS {
            break;
        }
        let Ok(insn) = decode_at(set.isa(), pc, &mut |at, into: &mut [u8]| text.read(at, into)) else {
            outcome.died = Some(back(pc));
            break;
        };
        // `c.bnez a0` does not read a1, so a far jump may overwrite a1 in front of it.
        let second = if insn.length() == 2 { 0 } else { registers[11].rotate_left(7) };
        let is_odd = (registers[10] ^ second).count_ones() & 1 == 1;
        pc = match insn.flow {
            Flow::Next => match works(set, &insn, pc, &mut registers) {
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
                if is_odd { target } else { insn.next() }
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
                set.cut(registers[(word >> 15 & 31) as usize].wrapping_add_signed(i64::from(word as i32 >> 20)) & !1)
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
    let (place, start) = (function.place, function.place.start);
    let isa = place.isa();
    let whole = start..function.end;
    let steps = walk(isa, start, function.end, |at, into: &mut [u8]| around.read(at, into));
    let insns: Vec<Insn> = steps.map_while(Result::ok).collect();
    let begins: Vec<u64> = insns.iter().map(|insn| insn.address).collect();
    let table = isa.detour.expect("there are detours");
    insns.iter().find_map(|insn| {
        let address = insn.address;
        let mut around = function.text.clone();
        let region = region_to_by(isa, Policy::Best, whole.clone(), (address, Some(detour)), &mut around, applies).ok()?;
        let code = lean(isa, table, &region, detour).ok()?;
        let through = region.far().map(|[through, _]| through);
        let jump = table.jump_through(insn, detour, through).expect("in reach");
        *judged += 1;
        let length = table.length_through(through) as usize;
        assert_eq!(length, if detour == place.far { 8 } else { 4 });
        let at = (address - start) as usize;
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
                    let site = (site - start) as usize;
                    text.function.bytes[site..site + 4].copy_from_slice(&[0x93, 0xc5, 0x75, 0x07]);
                }
            }
            for from in &resumed {
                let expected = execute(place.set, &mut plain, *from, &begins, &[], &|pc| pc);
                let seen = execute(place.set, &mut probed, *from, &begins, &[address, way_back], &back);
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
        for place in &PLACES {
            for detour in place.detours() {
                let found = first_difference(&assemble(place, &pieces), detour, &|_| true, &mut 0);
                prop_assert!(found.is_none(), "{:?} {pieces:?}: {}", place.set, found.unwrap_or_default());
            }
        }
    }
}

/// Each rule is needed by one of these functions, and enough jumps are allowed.
fn every_rule_is_needed(place: &'static Place) {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let functions: Vec<Function> = (0..6000)
        .map(|_| prop::collection::vec(piece(), 1..14).new_tree(&mut runner).expect("no filters"))
        .map(|tree| assemble(place, &tree.current()))
        .collect();
    for detour in place.detours() {
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
            let is_implied = detour == place.far && dropped == Rule::NoRoom;
            assert!(is_implied || functions.iter().any(is_caught), "nobody misses the rule `{}` at {detour:#x}", dropped.name());
        }
    }
}

/// OP-2: the checker allows enough jumps, and without any one of its rules the test above would fail.
#[test]
fn each_rule_of_the_checker_is_necessary_on_riscv64() {
    every_rule_is_needed(&PLACES[0]);
}

/// OP-2: the rules are needed with 32-bit registers too, where `c.jal` is a call.
#[test]
fn each_rule_of_the_checker_is_necessary_on_riscv32() {
    every_rule_is_needed(&PLACES[1]);
}
