use super::super::{I386, X86_64, abi};
use super::*;
use crate::arch::Isa;
use crate::detour::{Code, Form, LONGEST, faithful, lean};
use crate::plan::Policy;
use crate::region::{PlainText, Region, Rule, region};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

const START: u64 = 0xffff_ffff_8100_0000;
/// push; mov; push; and a pc-relative load, which must be relocated.
const TEXT: [u8; 11] = [0x55, 0x89, 0xe5, 0x53, 0x8b, 0x05, 0, 1, 0, 0, 0xc3];
const BOTH: [(&Isa, Mode, &Faithful); 2] = [(&X86_64, Mode::Bits64, &BITS_64), (&I386, Mode::Bits32, &BITS_32)];

fn place(mode: Mode) -> (u64, u64, u64) {
    let start = START & mode.mask();
    (start, start + 0x1_0000, start + 0x2_0000)
}

fn a_region(isa: &'static Isa, start: u64) -> Region {
    let mut text = PlainText { start, bytes: TEXT.to_vec(), ..PlainText::default() };
    text.bytes.extend([0x90; 16]);
    region(isa, Policy::Best, start..start + TEXT.len() as u64, start, &mut text).expect("a jump may stand there")
}

fn a_detour(isa: &'static Isa, mode: Mode) -> Code {
    let (start, at, trampoline) = place(mode);
    faithful(isa, isa.detour.expect("x86 has jumps"), &a_region(isa, start), at, trampoline).expect("all in reach")
}

/// The content of a register or a stack word, as a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The value that the register had at the start.
    Was(Reg),
    /// The value that a handler has written into its word.
    Set(Reg),
    /// The value of the stack pointer, minus this number of bytes.
    Stack(i64),
    Number(u64),
    Open,
}

/// An interpreter for moves, pushes and pops.
struct Moves {
    mode: Mode,
    sp: i64,
    registers: BTreeMap<Reg, What>,
    stack: BTreeMap<i64, What>,
    called: Option<u64>,
}

impl Moves {
    fn new(mode: Mode) -> Moves {
        Moves { mode, sp: 0, registers: BTreeMap::new(), stack: BTreeMap::new(), called: None }
    }

    fn word(&self) -> i64 {
        self.mode.word() as i64
    }

    fn get(&self, reg: Reg) -> What {
        if reg == abi::SP { What::Stack(self.sp) } else { self.registers.get(&reg).copied().unwrap_or(What::Was(reg)) }
    }

    fn push(&mut self, what: What) {
        self.sp -= self.word();
        self.stack.insert(self.sp, what);
    }

    fn pop(&mut self) -> What {
        let what = self.stack.get(&self.sp).copied().unwrap_or(What::Open);
        self.sp += self.word();
        what
    }

    fn operand(&self, insn: &Instruction, number: u32) -> What {
        match insn.op_kind(number) {
            OpKind::Register => self.get(named(insn.op_register(number))),
            OpKind::Memory => self.stack.get(&self.effective(insn)).copied().unwrap_or(What::Open),
            _ => What::Number(insn.immediate(number) & self.mode.mask()),
        }
    }

    fn effective(&self, insn: &Instruction) -> i64 {
        assert_eq!(named(insn.memory_base()), abi::SP, "{:?}", insn.code());
        let displacement = insn.memory_displacement64();
        self.sp + if self.mode == Mode::Bits32 { i64::from(displacement as i32) } else { displacement as i64 }
    }

    fn run(&mut self, insn: &Instruction) {
        match insn.mnemonic() {
            Mnemonic::Push => self.push(self.operand(insn, 0)),
            Mnemonic::Pushfq | Mnemonic::Pushfd => self.push(self.get(abi::FLAGS)),
            Mnemonic::Pop => {
                let what = self.pop();
                self.registers.insert(named(insn.op0_register()), what);
            }
            Mnemonic::Popfq | Mnemonic::Popfd => {
                let what = self.pop();
                self.registers.insert(abi::FLAGS, what);
            }
            Mnemonic::Lea => self.sp = self.effective(insn),
            Mnemonic::Mov if insn.op0_kind() == OpKind::Register => {
                let what = self.operand(insn, 1);
                self.registers.insert(named(insn.op0_register()), what);
            }
            Mnemonic::Mov => {
                let (at, what) = (self.effective(insn), self.operand(insn, 1));
                self.stack.insert(at, what);
            }
            Mnemonic::Call => self.called = Some(insn.near_branch_target()),
            other => panic!("{other:?}"),
        }
    }
}

fn named(register: Register) -> Reg {
    match register {
        Register::DS => abi::DS,
        Register::ES => abi::ES,
        Register::FS => abi::FS,
        Register::SS => abi::SS,
        other => Reg(other.number() as u8),
    }
}

fn decoded(mode: Mode, bytes: &[u8], at: u64) -> Vec<Instruction> {
    Decoder::with_ip(mode.bits(), bytes, at, DecoderOptions::NONE).into_iter().collect()
}

/// OP-4: the frame has the layout of `pt_regs`; the call gets the probed address and the frame; the handlers' changes
/// of the frame are restored, flags and stack pointer included.
#[test]
fn the_frame_is_pt_regs_and_handlers_changes_are_restored() {
    // `struct pt_regs` of both widths, from its end.
    let orders = [
        "ss sp flags cs ip orig_ax di si dx cx ax r8 r9 r10 r11 bx bp r12 r13 r14 r15",
        "ss sp flags cs ip orig_ax gs fs es ds ax bp di si dx cx bx",
    ];
    for ((isa, mode, table), pushed) in BOTH.into_iter().zip(orders) {
        let (start, at, trampoline) = place(mode);
        let code = a_detour(isa, mode);
        let mut moves = Moves::new(mode);
        let behind_call = table.save.len() + table.call_length;
        for insn in decoded(mode, &code.bytes()[..behind_call], at) {
            assert_eq!(insn.rflags_modified(), 0, "{isa:?}: {:?} changes a flag before the handlers have seen it", insn.code());
            assert!((insn.ip() - at) as usize >= table.save.len() || insn.mnemonic() != Mnemonic::Mov, "a register while saving");
            moves.run(&insn);
        }
        assert_eq!(moves.called, Some(trampoline), "{isa:?}");
        let arguments = [What::Number(start), What::Stack(moves.sp)];
        assert_eq!(isa.abi.arguments[..2].iter().map(|reg| moves.get(*reg)).collect::<Vec<_>>(), arguments, "{isa:?}");

        let order: Vec<Reg> = pushed.split(' ').rev().map(|name| isa.abi.register(name).expect("a name of the table")).collect();
        assert_eq!(table.frame.iter().map(|word| word.reg).collect::<Vec<_>>(), order, "{isa:?}");
        assert_eq!(moves.sp, -(order.len() as i64) * moves.word(), "{isa:?}: no hole above it");
        for (number, word) in table.frame.iter().enumerate() {
            let place = moves.sp + number as i64 * moves.word();
            let held = moves.stack.get(&place).copied().unwrap_or(What::Open);
            let fits = match word.kind {
                Saving::Restored | Saving::Saved => held == What::Was(word.reg),
                Saving::Moved(by) => held == What::Stack(-(by as i64)),
                Saving::Filled => matches!(held, What::Open | What::Number(_)),
            };
            assert!(fits, "{isa:?}: the word of {:?} holds {held:?}", word.reg);
            moves.stack.insert(place, What::Set(word.reg));
        }

        for insn in decoded(mode, &code.bytes()[behind_call..table.lead()], at + behind_call as u64) {
            moves.run(&insn);
        }
        assert_eq!(moves.sp, 0, "{isa:?}");
        for word in table.frame.iter().filter(|word| word.kind == Saving::Restored) {
            assert_eq!(moves.get(word.reg), What::Set(word.reg), "{isa:?}");
        }
    }
}

/// OP-4: the relocated instructions and the jump back are those of the lean form.
#[test]
fn both_forms_run_the_same_displaced_instructions() {
    for (isa, mode, table) in BOTH {
        let (start, at, _) = place(mode);
        let detour = isa.detour.expect("x86 has jumps");
        let code = a_detour(isa, mode);
        let here = at + table.lead() as u64;
        let same_place = lean(isa, detour, &a_region(isa, start), here - detour.lead.len() as u64).expect("in reach");
        assert_eq!(&code.bytes()[table.lead()..], &same_place.bytes()[detour.lead.len()..], "{isa:?}");
    }
}

/// OP-4: both forms hold the same regions, and an unreachable trampoline is refused.
#[test]
fn both_forms_hold_the_same_regions() {
    for (isa, mode, table) in BOTH {
        let detour = isa.detour.expect("x86 has jumps");
        let (lead, most) = detour.room(Form::Faithful).expect("x86 has it");
        assert_eq!((lead, most - lead), (table.lead(), LONGEST - detour.lead.len()), "{isa:?}");
        let (start, at, _) = place(mode);
        let far = faithful(isa, detour, &a_region(isa, start), at, at - (1 << 31) - 0x1000);
        assert_eq!(
            far.err().and_then(|refusal| Rule::of(&refusal)),
            (mode == Mode::Bits64).then_some(Rule::OutOfReach),
            "{isa:?}"
        );
    }
}
