use super::super::bundle::Unit;
use super::*;
use crate::regs::{Reg, Registers};

/// Registers without a CPU.
struct Bank {
    values: [u64; 256],
    pc: u64,
}

impl Bank {
    fn new(pc: u64) -> Bank {
        let mut bank = Bank { values: [0; 256], pc };
        bank.set(PR, 1);
        bank
    }

    fn set_each(&mut self, values: &[(Reg, u64)]) {
        values.iter().for_each(|(reg, value)| self.set(*reg, *value));
    }
}

impl Registers for Bank {
    fn get(&self, reg: Reg) -> u64 {
        self.values[usize::from(reg.0)]
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.values[usize::from(reg.0)] = value;
    }
    fn pc(&self) -> u64 {
        self.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

const HINTS: super::super::op::BranchHints = super::super::op::BranchHints { whether: 0, many: false, clear: false };

fn insn(op: Op, predicate: u8) -> Instruction {
    Instruction { unit: Unit::B, predicate, op, long_add: false }
}

fn branch(condition: Condition) -> Op {
    Op::Branch { condition, distance: -0x40, hints: HINTS }
}

/// KP-2: a call makes the outputs the new frame, also across collections of NaT bits, and a return undoes it.
#[test]
fn a_return_undoes_a_call() {
    for (place, registers) in (0..64).flat_map(|place| [0, 1, 20, 62, 63, 64, 95].map(|registers| (place, registers))) {
        let bottom = 0x8000 + 8 * place;
        if place == 63 {
            continue;
        }
        let mut bank = Bank::new(0x4000 + 12);
        let frame = 1 << 32 | registers << 7 | (registers + 1).min(96);
        bank.set_each(&[(CFM, frame), (BSP, bottom), (EC, 5), (PSR, 3 << LEVEL)]);
        assert!(emulate(&insn(Op::BranchCall { link: 6, distance: 0x100, hints: HINTS }, 0), &mut bank));
        assert_eq!((bank.pc, bank.get(b(6)), bank.get(CFM)), (0x4100, 0x4010, (registers + 1).min(96) - registers));
        assert_eq!(bank.get(PFS), frame | 5 << 52 | 3 << 62);
        // A collection is in front of the register behind 63 others.
        let expected = bottom + 8 * (registers + (place + registers) / 63);
        assert_eq!(bank.get(BSP), expected, "{place} {registers}");
        bank.set(EC, 0);
        assert!(emulate(&insn(Op::BranchReturn { at: 6, hints: HINTS }, 0), &mut bank));
        assert_eq!((bank.pc, bank.get(CFM), bank.get(BSP), bank.get(EC)), (0x4010, frame, bottom, 5), "{place} {registers}");
    }
}

/// KP-2: a return lowers the privilege, and never raises it.
#[test]
fn a_return_only_lowers_the_privilege() {
    for (own, previous, expected) in [(0, 3, 3), (3, 0, 3), (1, 2, 2)] {
        let mut bank = Bank::new(0x4000);
        bank.set(PSR, own << LEVEL | 1 << 13);
        bank.set(PFS, previous << 62);
        assert!(emulate(&insn(Op::BranchReturn { at: 0, hints: HINTS }, 0), &mut bank));
        assert_eq!(bank.get(PSR), expected << LEVEL | 1 << 13);
    }
}

/// KP-2: an instruction with a false predicate does nothing, and the next one is in the next slot or bundle. A long one
/// takes two slots.
#[test]
fn a_false_predicate_goes_on() {
    for (unit, from, to) in [(Unit::B, 0, 6), (Unit::B, 6, 12), (Unit::B, 12, 16), (Unit::X, 6, 16)] {
        let mut bank = Bank::new(0x4000 + from);
        let op = Op::BranchCall { link: 0, distance: 0x100, hints: HINTS };
        assert!(emulate(&Instruction { unit, ..insn(op, 6) }, &mut bank));
        assert_eq!((bank.pc, bank.get(b(0))), (0x4000 + to, 0));
        bank.set(PR, 1 << 6);
        bank.pc = 0x4000 + from;
        assert!(emulate(&Instruction { unit, ..insn(op, 6) }, &mut bank));
        assert_eq!((bank.pc, bank.get(b(0))), (0x4100, 0x4010));
    }
}

/// KP-2: a counted loop with rotation runs its kernel and then its epilogue, and p16 says which.
#[test]
fn a_counted_loop_rotates_registers() {
    let mut bank = Bank::new(0);
    bank.set_each(&[(LC, 2), (EC, 2), (CFM, 8 | 8 << 7 | 1 << 14), (PR, 1 | 1 << 16)]);
    let mut seen = alloc::vec::Vec::new();
    for _ in 0..5 {
        bank.pc = 0x4000 + 12;
        let op = branch(Condition::CountedTop);
        assert!(emulate(&insn(op, 0), &mut bank));
        let bases = (bank.get(CFM) >> 18 & 0x7f, bank.get(CFM) >> 32 & 0x3f);
        seen.push((bank.pc, bank.get(LC), bank.get(EC), predicate(&bank, 16), bases));
    }
    assert_eq!(
        seen,
        [
            (0x3fc0, 1, 2, true, (7, 47)),
            (0x3fc0, 0, 2, true, (6, 46)),
            (0x3fc0, 0, 1, false, (5, 45)),
            (0x4010, 0, 0, false, (4, 44)),
            (0x4010, 0, 0, false, (4, 44)),
        ]
    );
    // Without rotation: two more turns, and then on.
    let mut bank = Bank::new(0x400c);
    bank.set(LC, 1);
    let ends = [0x3fc0, 0x4010].map(|end| {
        bank.pc = 0x400c;
        assert!(emulate(&insn(branch(Condition::CountedLoop), 0), &mut bank));
        (bank.pc, end)
    });
    assert!(ends.iter().all(|(pc, end)| pc == end), "{ends:x?}");
}

/// KP-2: a while loop goes on while its predicate is true, and then for its epilogue. `br.wexit` is taken at the end.
#[test]
fn a_while_loop_looks_at_its_predicate() {
    for (condition, ends) in [(Condition::WhileTop, [0x3fc0, 0x3fc0, 0x4010]), (Condition::WhileExit, [0x4010, 0x4010, 0x3fc0])] {
        let mut bank = Bank::new(0);
        bank.set(EC, 2);
        for (turn, end) in ends.into_iter().enumerate() {
            bank.pc = 0x400c;
            bank.set(PR, 1 | u64::from(turn == 0) << 6);
            assert!(emulate(&insn(branch(condition), 6), &mut bank));
            assert_eq!(bank.pc, end, "{condition:?} {turn}");
        }
    }
}

/// KP-2: `chk.s` looks at the NaT bit, `mov` from the pc gives the bundle, and `rfi` restores frame, status and slot.
#[test]
fn checks_and_returns_from_interruptions() {
    let mut bank = Bank::new(0x4006);
    let check = insn(Op::CheckSpeculation { float: false, register: 70, distance: 0x80 }, 0);
    assert!(emulate(&check, &mut bank));
    assert_eq!(bank.pc, 0x400c);
    bank.set(NATS[1], 1 << 6);
    assert!(emulate(&check, &mut bank));
    assert_eq!(bank.pc, 0x4080);
    bank.pc = 0x4006;
    assert!(emulate(&insn(Op::MoveIp { to: 9 }, 0), &mut bank));
    assert_eq!((bank.get(r(9)), bank.pc), (0x4000, 0x400c));
    bank.set_each(&[(IPSR, 1 << RI | 3 << LEVEL | 1 << 13), (IIP, 0x7770), (IFS, 1 << 63 | 5), (BSP, 0x9030)]);
    assert!(emulate(&insn(Op::System(System::Rfi), 6), &mut bank));
    assert_eq!((bank.pc, bank.get(PSR), bank.get(CFM), bank.get(BSP)), (0x7776, 3 << LEVEL | 1 << 13, 5, 0x9008));
    assert!(!emulate(&insn(Op::System(System::Cover), 0), &mut bank));
    assert_eq!(bank.pc, 0x7776, "nothing has changed");
}

/// KP-2: a check of an advanced load branches unless the ALAT has its register, and clears the entry if it says so.
#[test]
fn checks_of_advanced_loads_ask_the_alat() {
    for (float, words) in [(false, [ALAT[0], ALAT[1]]), (true, [ALAT[2], ALAT[3]])] {
        for (register, word, bit) in [(3, words[0], 1 << 3), (70, words[1], 1 << 6)] {
            let mut bank = Bank::new(0x4000);
            let check = |clear| insn(Op::CheckAdvanced { float, clear, register, distance: 0x80 }, 0);
            assert!(emulate(&check(false), &mut bank));
            assert_eq!(bank.pc, 0x4080, "no entry");
            for (clear, left) in [(false, bit), (true, !bit)] {
                bank.pc = 0x4000;
                bank.set(word, bit);
                assert!(emulate(&check(clear), &mut bank));
                assert_eq!((bank.pc, bank.get(word)), (0x4006, left));
            }
        }
    }
}

/// KP-2: `fchkf` branches if a field has a flag that is not in field 0 or whose trap is not disabled.
#[test]
fn checks_of_flags_compare_with_field_0_and_traps() {
    let at = |field: u32, flag: u32| 1u64 << (13 + 13 * field + flag);
    // Field, status, whether it branches.
    let cases = [
        (1, 0x3f, false),
        (1, 0x3f | at(1, 2), true),
        (1, 0x3f | at(1, 2) | at(0, 2), false),
        (1, 0x3b | at(1, 2) | at(0, 2), true),
        (2, 0x3f | at(1, 2), false),
        (3, 0x3f | at(3, 5), true),
        (0, 0x3f | at(0, 5), false),
    ];
    for (status, value, taken) in cases {
        let mut bank = Bank::new(0x400c);
        bank.set(FPSR, value);
        assert!(emulate(&insn(Op::FloatCheck { status, distance: 0x80 }, 0), &mut bank));
        assert_eq!(bank.pc, if taken { 0x4080 } else { 0x4010 }, "{status} {value:#x}");
    }
}
