//! Tests the checker of jumps on generated functions (x86). A function must behave the same with every jump that the
//! checker allows, from every address at which it can be entered or resumed.
//!
//! The functions have loops, a switch, a call, a fault with a fixup, undecodable bytes, and a place that the kernel
//! patches. A second test leaves out each rule of the checker in turn, and expects a difference.

mod soundness;

use proptest::prelude::*;
use soundness::{CALLEE, Function, START, first_difference};
use trapline_isa::region::{PlainText, Rule};

/// A piece of a generated function. Targets are numbers of pieces, modulo their count.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Nop,
    /// `inc` of register 0 to 3.
    Inc(u8),
    /// `mov` of an immediate.
    Mov(u8, u8),
    Jump(u8),
    /// A jump into another piece, one byte behind its start.
    Between(u8),
    /// `dec` of a register, then `jnz`.
    Loop(u8),
    Call,
    /// A call into the function itself, which returns.
    CallInto(u8),
    /// `mov $target, %eax; jmp *%rax`
    Switch(u8),
    /// `ud2`, and the target of its exception table entry.
    Faulty(u8),
    /// Data bytes behind a jump.
    Data,
    /// Five bytes that the kernel patches: a no-op or five `inc`s.
    Patched,
    Return,
}

fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        4 => Just(Nop),
        6 => (0..4u8).prop_map(Inc),
        // 5 is `add $imm32, %eax`, which an entry in the middle sees.
        3 => (0..4u8, prop_oneof![Just(5), any::<u8>()]).prop_map(|(register, value)| Mov(register, value)),
        3 => any::<u8>().prop_map(Jump),
        1 => any::<u8>().prop_map(Between),
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

impl Piece {
    fn length(self) -> usize {
        match self {
            Piece::Nop | Piece::Return => 1,
            Piece::Inc(_) | Piece::Faulty(_) => 2,
            Piece::Data => 5,
            Piece::Jump(_) | Piece::Between(_) => 2,
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
            Piece::Between(to) => vec![0xeb, short(target(to) + 1, 2)],
            Piece::Loop(to) => vec![0xff, 0xc9, 0x75, short(target(to), 4)],
            Piece::Call => [&[0xe8][..], &near(CALLEE)].concat(),
            Piece::CallInto(to) => [&[0xe8][..], &near(target(to))].concat(),
            Piece::Switch(to) => [&[0xb8][..], &(target(to) as u32).to_le_bytes(), &[0xff, 0xe0]].concat(),
            Piece::Faulty(to) => {
                text.fixups.push((*at, target(to)));
                vec![0x0f, 0x0b]
            }
            // Behind the jump: an invalid opcode.
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
    Function::new(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// OP-2, OP-3: the function behaves the same with an allowed jump.
    #[test]
    fn an_allowed_jump_does_not_change_the_function(pieces in prop::collection::vec(piece(), 1..14)) {
        let function = assemble(&pieces);
        let found = first_difference(&function, &|_| true, &mut 0);
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
    let rules = [
        Rule::NoRoom,
        Rule::Undecodable,
        Rule::IndirectJump,
        Rule::JumpInto,
        Rule::CallInto,
        Rule::JumpBetween,
        Rule::Fixup,
        Rule::Unmovable,
        Rule::Reserved,
    ];
    for dropped in rules {
        let caught = functions.iter().any(|function| first_difference(function, &|rule| rule != dropped, &mut 0).is_some());
        assert!(caught, "nobody misses the rule `{}`", dropped.name());
    }
}
