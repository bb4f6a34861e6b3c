//! Registers, flags and memory before and after each instruction, worked out by hand from the manual.

#![allow(clippy::type_complexity)] // tables of cases

use super::super::Mode::{Bits32, Bits64};
use super::super::abi::{AX, BX, R15, SI};
use super::super::{I386, X86_64, rules};
use super::*;
use crate::arch::Emulation;
use crate::mem::ByteOrder;
use crate::plan::{Plan, Policy};

const HERE: u64 = 0x8000_1000;
const STACK: u64 = 0x100;

/// A CPU with 512 bytes of memory at 0, some of which may be unreachable.
struct Toy {
    regs: [u64; 32],
    pc: u64,
    memory: [u8; 512],
    unreachable: core::ops::Range<u64>,
}

impl Registers for Toy {
    fn get(&self, reg: Reg) -> u64 {
        self.regs[usize::from(reg.0)]
    }
    fn set(&mut self, reg: Reg, value: u64) {
        self.regs[usize::from(reg.0)] = value;
    }
    fn pc(&self) -> u64 {
        self.pc
    }
    fn set_pc(&mut self, pc: u64) {
        self.pc = pc;
    }
}

/// The memory of a [`Toy`], apart from its registers because both are borrowed at once.
struct Ram<'a>(&'a mut [u8; 512], core::ops::Range<u64>);

impl Ram<'_> {
    fn check(&self, address: u64, len: usize, write: bool) -> Result<usize, Fault> {
        let end = address.wrapping_add(len as u64);
        let outside = end > 512 || end < address || (address < self.1.end && self.1.start < end);
        if outside { Err(Fault { address, write }) } else { Ok(address as usize) }
    }
}

impl Memory for Ram<'_> {
    fn order(&self) -> ByteOrder {
        ByteOrder::Little
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let at = self.check(address, into.len(), false)?;
        into.copy_from_slice(&self.0[at..at + into.len()]);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        let at = self.check(address, bytes.len(), true)?;
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

impl Toy {
    fn new() -> Toy {
        let mut toy = Toy { regs: [0; 32], pc: HERE, memory: [0x11; 512], unreachable: 0..0 };
        toy.set(SP, STACK);
        toy.set(FLAGS, 2);
        toy
    }

    fn with(mut self, reg: Reg, value: u64) -> Toy {
        self.set(reg, value);
        self
    }

    fn with_word(mut self, address: usize, value: u64) -> Toy {
        self.memory[address..address + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn word(&self, address: usize, size: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.memory[address..address + size]);
        u64::from_le_bytes(bytes)
    }

    fn run(&mut self, mode: Mode, bytes: &[u8]) -> Result<(), Fault> {
        let isa = if mode == Bits64 { &X86_64 } else { &I386 };
        let insn = (isa.decode)(HERE, bytes).expect("an instruction");
        let Ok(Plan::Emulate(what)) = rules::plan(mode, &insn, Policy::Best) else { panic!("{bytes:x?} is computed") };
        let mut memory = self.memory;
        let mut ram = Ram(&mut memory, self.unreachable.clone());
        let result = (isa.emulate)(&what, &insn, self, &mut ram);
        self.memory = memory;
        result.map(|_| ())
    }
}

fn ran(mode: Mode, bytes: &[u8], mut toy: Toy) -> Toy {
    toy.run(mode, bytes).expect("no fault");
    toy
}

/// KP-2
#[test]
fn jumps_go_where_they_point() {
    let toy = || Toy::new().with(AX, 0x1_2345_6789).with(R15, 0x77).with(BX, 0x80).with(SI, 2).with_word(0x90, 0x1_0000_4444);
    #[rustfmt::skip]
    let cases: &[(&str, Mode, &[u8], u64)] = &[
        ("jmp rel8",                          Bits64, &[0xeb, 0x10],                               HERE + 2 + 0x10),
        ("jmp rel8 back",                     Bits64, &[0xeb, 0xfe],                               HERE),
        ("jmp rel32 over the top",            Bits32, &[0xe9, 0, 0, 0, 0x7f],                      0xff00_1005),
        ("jmp rel32 around the top",          Bits32, &[0xe9, 0xfb, 0xff, 0xff, 0x7f],             0x0000_1000),
        ("jmp rel32 below 4 GiB",             Bits64, &[0xe9, 0, 0, 0, 0x80],                      0x1005),
        ("jmp *%rax",                         Bits64, &[0xff, 0xe0],                               0x1_2345_6789),
        ("jmp *%r15",                         Bits64, &[0x41, 0xff, 0xe7],                         0x77),
        ("jmp *0x10(%rbx)",                   Bits64, &[0xff, 0x63, 0x10],                         0x1_0000_4444),
        ("jmp *0x10(%ebx)",                   Bits32, &[0xff, 0x63, 0x10],                         0x4444),
        ("jmp *(%rbx,%rsi,8)",                Bits64, &[0xff, 0x24, 0xf3],                         0x1_0000_4444),
        ("jmp *0x90",                         Bits64, &[0xff, 0x24, 0x25, 0x90, 0, 0, 0],          0x1_0000_4444),
        ("jmp *0x90",                         Bits32, &[0xff, 0x25, 0x90, 0, 0, 0],                0x4444),
        ("addr16 jmp *0x10(%bx)",             Bits32, &[0x67, 0xff, 0x67, 0x10],                   0x4444),
    ];
    for (what, mode, bytes, expected) in cases {
        assert_eq!(ran(*mode, bytes, toy()).pc, *expected, "{what}");
    }
    let through_text = Toy::new().run(Bits64, &[0xff, 0x25, 0x8a, 0xf0, 0xff, 0x7f]);
    assert_eq!(through_text, Err(Fault { address: 0x1_0000_0090, write: false }), "jmp *distance(%rip)");
    let fs = ran(Bits32, &[0x64, 0xff, 0x63, 0x08], toy().with(FS_BASE, 8));
    assert_eq!(fs.pc, 0x4444, "jmp *%fs:8(%ebx)");
    let gs = ran(Bits64, &[0x65, 0xff, 0x24, 0x25, 0xf0, 0xff, 0xff, 0xff], toy().with(GS_BASE, 0xa0));
    assert_eq!(gs.pc, 0x1_0000_4444, "jmp *%gs:-0x10");
    let narrow = ran(Bits64, &[0x67, 0xff, 0x63, 0x10], toy().with(BX, 0xffff_ffff_0000_0080));
    assert_eq!(narrow.pc, 0x1_0000_4444, "addr32 jmp *0x10(%ebx) looks at half of rbx");
    let high = ran(Bits32, &[0x67, 0xff, 0x67, 0x10], toy().with(BX, 0xabcd_0080));
    assert_eq!(high.pc, 0x4444, "addr16 jmp *0x10(%bx) looks at a quarter of it");
}

/// KP-2: the conditions of `jcc`, each against flags that hold and flags that do not.
#[test]
fn a_branch_is_taken_when_its_condition_holds() {
    let (c, p, z, s, o) = (CARRY, PARITY, ZERO, SIGN, OVERFLOW);
    #[rustfmt::skip]
    let cases: [(&str, u8, &[u64], &[u64]); 8] = [
        // odd opcodes are the opposite  taken with                     not taken with
        ("jo",  0x70, &[o, o | c | z],                         &[0, c, p, z, s]),
        ("jb",  0x72, &[c, c | z],                             &[0, p, z, s, o]),
        ("je",  0x74, &[z, z | s],                             &[0, c, p, s, o]),
        ("jbe", 0x76, &[c, z, c | z],                          &[0, p, s, o]),
        ("js",  0x78, &[s, s | o],                             &[0, c, p, z, o]),
        ("jp",  0x7a, &[p, p | z],                             &[0, c, z, s, o]),
        ("jl",  0x7c, &[s, o, s | z],                          &[0, s | o, z, c, p]),
        ("jle", 0x7e, &[s, o, z, s | o | z],                   &[0, s | o, c, p]),
    ];
    for (what, opcode, taken, not_taken) in cases {
        let outcomes = taken.iter().map(|flags| (flags, true)).chain(not_taken.iter().map(|flags| (flags, false)));
        for (flags, holds) in outcomes {
            for negated in [false, true] {
                let opcode = opcode | u8::from(negated);
                let short = ran(Bits64, &[opcode, 0x20], Toy::new().with(FLAGS, *flags));
                let near = ran(Bits32, &[0x0f, opcode + 0x10, 0x20, 0, 0, 0], Toy::new().with(FLAGS, *flags));
                let distance = if holds != negated { 0x20 } else { 0 };
                assert_eq!((short.pc, near.pc), (HERE + 2 + distance, HERE + 6 + distance), "{what} {flags:#x} {negated}");
            }
        }
    }
}

/// KP-2: the counter is decremented before the test (Linux 6.1 tests first), with the width of an address.
#[test]
fn loops_decrement_before_they_test() {
    const LOOPNE: u8 = 0xe0;
    const LOOPE: u8 = 0xe1;
    const PLAIN: u8 = 0xe2;
    const JCXZ: u8 = 0xe3;
    #[rustfmt::skip]
    let cases: &[(&str, Mode, bool, u8, u64, u64, bool, u64)] = &[
        // what                           67     opcode  zf    counter                taken  counter after
        ("loop, last turn",     Bits64, false, PLAIN,  0,    1,                     false, 0),
        ("loop, one more",      Bits64, false, PLAIN,  0,    2,                     true,  1),
        ("loop from 0",         Bits64, false, PLAIN,  0,    0,                     true,  u64::MAX),
        ("loop from 0",         Bits32, false, PLAIN,  0,    0,                     true,  0xffff_ffff),
        ("addr32 loop from 0",  Bits64, true,  PLAIN,  0,    0x5_0000_0000,         true,  0xffff_ffff),
        ("addr32 loop",         Bits64, true,  PLAIN,  0,    0x5_0000_0001,         false, 0),
        ("addr16 loop from 0",  Bits32, true,  PLAIN,  0,    0xabcd_0000,           true,  0xabcd_ffff),
        ("addr16 loop",         Bits32, true,  PLAIN,  0,    0xabcd_0001,           false, 0xabcd_0000),
        ("loope, equal",        Bits64, false, LOOPE,  ZERO, 2,                     true,  1),
        ("loope, not equal",    Bits64, false, LOOPE,  0,    2,                     false, 1),
        ("loope, counted out",  Bits64, false, LOOPE,  ZERO, 1,                     false, 0),
        ("loopne, not equal",   Bits32, false, LOOPNE, 0,    2,                     true,  1),
        ("loopne, equal",       Bits32, false, LOOPNE, ZERO, 2,                     false, 1),
        ("loopne, counted out", Bits32, false, LOOPNE, 0,    1,                     false, 0),
        ("jrcxz of 0",          Bits64, false, JCXZ,   0,    0,                     true,  0),
        ("jrcxz of half a 0",   Bits64, false, JCXZ,   0,    0x5_0000_0000,         false, 0x5_0000_0000),
        ("jecxz of half a 0",   Bits64, true,  JCXZ,   0,    0x5_0000_0000,         true,  0x5_0000_0000),
        ("jcxz of half a 0",    Bits32, true,  JCXZ,   0,    0xabcd_0000,           true,  0xabcd_0000),
    ];
    for (what, mode, narrow, opcode, flags, counter, taken, after) in cases {
        let bytes = [0x67, *opcode, 0xf0];
        let bytes = &bytes[usize::from(!narrow)..];
        let toy = ran(*mode, bytes, Toy::new().with(CX, *counter).with(FLAGS, *flags));
        let next = HERE + bytes.len() as u64;
        assert_eq!(toy.pc, if *taken { next - 0x10 } else { next }, "{what}");
        assert_eq!(toy.get(CX), *after, "{what}: the counter");
        assert_eq!(toy.get(FLAGS), *flags, "{what}: the flags");
    }
}

/// KP-2
#[test]
fn calls_push_the_address_behind_them_and_returns_pop_it() {
    let call = ran(Bits64, &[0xe8, 0, 1, 0, 0], Toy::new());
    assert_eq!((call.pc, call.get(SP), call.word(0xf8, 8)), (HERE + 0x105, STACK - 8, HERE + 5));
    let padded = ran(Bits64, &[0x2e, 0xe8, 0, 1, 0, 0], Toy::new());
    assert_eq!(padded.word(0xf8, 8), HERE + 6, "behind all of it, not 5 bytes on");
    let call = ran(Bits32, &[0xe8, 0, 1, 0, 0], Toy::new());
    assert_eq!((call.pc, call.get(SP), call.word(0xfc, 4)), (HERE + 0x105, STACK - 4, HERE + 5));
    assert_eq!(call.word(0xf8, 4), 0x1111_1111, "no byte more");

    let through_sp = ran(Bits64, &[0xff, 0xd4], Toy::new());
    assert_eq!((through_sp.pc, through_sp.word(0xf8, 8)), (STACK, HERE + 2), "call *%rsp: as it was before the push");
    let through_stack = ran(Bits64, &[0xff, 0x14, 0x24], Toy::new().with_word(0x100, 0x5678));
    assert_eq!((through_stack.pc, through_stack.get(SP)), (0x5678, STACK - 8), "call *(%rsp): likewise");
    let overlapping = ran(Bits64, &[0xff, 0x54, 0x24, 0xf8], Toy::new().with_word(0xf8, 0x9abc));
    assert_eq!((overlapping.pc, overlapping.word(0xf8, 8)), (0x9abc, HERE + 4), "call *-8(%rsp): read, then overwritten");

    let back = |mode, bytes: &[u8]| ran(mode, bytes, Toy::new().with_word(0x100, 0x9_8765_4321));
    let ret = back(Bits64, &[0xc3]);
    assert_eq!((ret.pc, ret.get(SP)), (0x9_8765_4321, STACK + 8));
    let ret = back(Bits32, &[0xc3]);
    assert_eq!((ret.pc, ret.get(SP)), (0x8765_4321, STACK + 4));
    let ret = back(Bits32, &[0xc2, 0x0c, 0]);
    assert_eq!((ret.pc, ret.get(SP)), (0x8765_4321, STACK + 4 + 12), "ret $12 takes the arguments too");
    let ret = back(Bits64, &[0xc2, 0, 0x80]);
    assert_eq!(ret.get(SP), STACK + 8 + 0x8000, "and what it takes is not signed");
    let mut wrapped = Toy::new().with(SP, 0);
    let fault = wrapped.run(Bits32, &[0xe8, 0, 0, 0, 0]);
    assert_eq!(fault, Err(Fault { address: 0xffff_fffc, write: true }), "a 32-bit stack wraps at 4 GiB");
}

/// KP-2
#[test]
fn flag_instructions_behave_as_at_privilege_level_0() {
    const ALL: u64 = 0x003f_7fd7; // every flag there is, and the bit that is always set
    let pushed = |mode, bytes: &[u8], size: usize| {
        let toy = ran(mode, bytes, Toy::new().with(FLAGS, ALL));
        assert_eq!((toy.get(SP), toy.get(FLAGS), toy.pc), (STACK - size as u64, ALL, HERE + bytes.len() as u64));
        toy.word((STACK as usize) - size, size)
    };
    assert_eq!(pushed(Bits64, &[0x9c], 8), ALL & !(RESUME | VIRTUAL_8086), "RF and VM are not shown");
    assert_eq!(pushed(Bits32, &[0x9c], 4), ALL & !(RESUME | VIRTUAL_8086));
    assert_eq!(pushed(Bits64, &[0x66, 0x9c], 2), ALL & 0xffff);
    assert_eq!(pushed(Bits64, &[0x66, 0x48, 0x9c], 8), ALL & !(RESUME | VIRTUAL_8086), "REX.W outdoes 66");

    let kept = RESUME | VIRTUAL_8086 | 1 << 19 | 1 << 20 | 2; // VIF, VIP
    #[rustfmt::skip]
    let cases: &[(&str, Mode, &[u8], u64, u64, u64)] = &[
        // what                               before   popped     after
        ("popfq sets what it may", Bits64, &[0x9d],            2,       u64::MAX,  POPPED | 2),
        ("popfq clears it",        Bits64, &[0x9d],            ALL,     0,         kept & !RESUME),
        ("popfd",                  Bits32, &[0x9d],            2,       u64::MAX,  POPPED | 2),
        ("popfw sets half of it",  Bits64, &[0x66, 0x9d],      2,       u64::MAX,  POPPED & 0xffff | 2),
        ("popfw clears half",      Bits32, &[0x66, 0x9d],      ALL,     0,         ALL & !0x7fd5 & !RESUME),
        ("interrupts on",          Bits64, &[0x9d],            2,       0x202,     0x202),
    ];
    for (what, mode, bytes, before, popped, after) in cases {
        let toy = ran(*mode, bytes, Toy::new().with(FLAGS, *before).with_word(0x100, *popped));
        let size = if bytes[0] == 0x66 { 2 } else { mode.word() as u64 };
        assert_eq!((toy.get(FLAGS), toy.get(SP)), (*after, STACK + size), "{what}");
    }
    let cli = ran(Bits64, &[0xfa], Toy::new().with(FLAGS, ALL));
    assert_eq!((cli.get(FLAGS), cli.pc), (ALL & !INTERRUPTS, HERE + 1));
    let sti = ran(Bits32, &[0xfb], Toy::new());
    assert_eq!((sti.get(FLAGS), sti.pc), (2 | INTERRUPTS, HERE + 1));
}

/// KP-9: the copy then runs and raises the fault, so the state must be unchanged.
#[test]
fn a_fault_changes_nothing() {
    #[rustfmt::skip]
    let cases: &[(&str, Mode, &[u8], core::ops::Range<u64>, Fault)] = &[
        // what                                                    unreachable   first to fault
        ("call, no stack",               Bits64, &[0xe8, 0, 0, 0, 0], 0xf8..0x100,  Fault { address: 0xf8, write: true }),
        ("call *(%rbx): memory first",   Bits64, &[0xff, 0x13],       0..0x100,     Fault { address: 0x80, write: false }),
        ("call *(%rbx): then the stack", Bits64, &[0xff, 0x13],       0xf8..0x100,  Fault { address: 0xf8, write: true }),
        ("call *(%ebx), no stack",       Bits32, &[0xff, 0x13],       0xfc..0x100,  Fault { address: 0xfc, write: true }),
        ("jmp *(%rbx)",                  Bits64, &[0xff, 0x23],       0x87..0x88,   Fault { address: 0x80, write: false }),
        ("ret",                          Bits64, &[0xc3],             0x100..0x108, Fault { address: 0x100, write: false }),
        ("pushf",                        Bits32, &[0x9c],             0xff..0x100,  Fault { address: 0xfc, write: true }),
        ("popf",                         Bits32, &[0x9d],             0x103..0x104, Fault { address: 0x100, write: false }),
    ];
    for (what, mode, bytes, unreachable, expected) in cases {
        let mut toy = Toy::new().with(BX, 0x80);
        toy.unreachable = unreachable.clone();
        let before = (toy.regs, toy.pc, toy.memory);
        assert_eq!(toy.run(*mode, bytes), Err(*expected), "{what}");
        assert!((toy.regs, toy.pc, toy.memory) == before, "{what}");
    }
}

/// KP-2: an `Emulation` of another ISA is left to the CPU.
#[test]
fn an_emulation_of_another_isa_changes_nothing() {
    let insn = (X86_64.decode)(HERE, &[0x90]).expect("nop");
    let mut toy = Toy::new();
    let mut memory = toy.memory;
    let result = (X86_64.emulate)(&Emulation::AsWritten, &insn, &mut toy, &mut Ram(&mut memory, 0..0));
    assert_eq!((result.is_err(), toy.pc), (true, HERE));
}
