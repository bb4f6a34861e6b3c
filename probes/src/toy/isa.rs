//! The toy instruction set: the [`Isa`] tables for the engine, and [`execute`], which defines what each instruction
//! does.

use alloc::vec::Vec;
use trapline_isa::abi::{Abi, ReturnAddress};
use trapline_isa::arch::{Arch, Emulation, Isa, NO_DELAY_SLOTS};
use trapline_isa::detour::Detour;
use trapline_isa::entry::Pointers;
use trapline_isa::insn::{Flow, Insn, Progress, Undecodable};
use trapline_isa::linux::{Linux, Release, SystemCalls};
use trapline_isa::mem::{ByteOrder, Fault, Memory};
use trapline_isa::plan::{Copy, Errno, Patch, Plan, Refusal, Tail, Then};
use trapline_isa::regs::{Reg, Registers};
use trapline_isa::rows::Rows;

/// The stack pointer.
pub const SP: Reg = Reg(8);
/// Bit 0 is set while interrupts are enabled.
pub const FLAGS: Reg = Reg(9);
/// The link register of [`TOY_LINK`].
pub const LINK: Reg = Reg(7);
/// Nonzero if the last sum was 0. Events cannot name it.
pub const ZERO: Reg = Reg(10);
/// The data pointer of [`TOY_DESCRIPTORS`].
pub const DATA: Reg = Reg(6);
/// Number of registers.
pub const REGISTERS: usize = 11;
/// The breakpoint.
pub const BREAK: u8 = 0xcc;
/// Size of a task's stack in bytes, and its alignment.
pub const STACK: u64 = 0x1000;

#[rustfmt::skip]
mod opcode {
    pub const ADD: u8 = 0x01; pub const ADD_STEP: u8 = 0x02; pub const LOAD: u8 = 0x03; pub const STORE: u8 = 0x04;
    pub const FILL: u8 = 0x05; pub const LEA: u8 = 0x06; pub const JMP: u8 = 0x10; pub const CALL: u8 = 0x11;
    pub const RET: u8 = 0x12; pub const RET_POP: u8 = 0x13; pub const JNZ: u8 = 0x14; pub const MOV: u8 = 0x15;
    pub const PUSH: u8 = 0x16; pub const POP: u8 = 0x17; pub const JZ: u8 = 0x18;
    pub const JNZ_LIKELY: u8 = 0x19;
    pub const TRAP: u8 = 0x20; pub const HALT: u8 = 0x21;
    pub const IRET: u8 = 0x22; pub const NOP: u8 = 0x90; pub const LANDING: u8 = 0xee;
}
use opcode::*;

/// The plan of an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Boost,
    Step,
    Emulate,
    Refuse(Errno, &'static str),
}

#[rustfmt::skip]
const INSTRUCTIONS: &[(u8, usize, Way)] = &[
    // opcode length  way               operands and effect
    (ADD,      3, Way::Boost),     // r, imm8: r += imm8, and ZERO says whether it is 0
    (ADD_STEP, 3, Way::Step),      // like ADD, but must not be boosted
    (LOAD,     3, Way::Boost),     // r, a: r = [a]
    (STORE,    3, Way::Step),      // a, r: [a] = r
    (FILL,     1, Way::Boost),     // while r1 != 0: [r2] = low byte of r0, r2 += 1, r1 -= 1; can be interrupted
    (LEA,      6, Way::Step),      // r, rel32: r = next + rel32
    (JMP,      5, Way::Emulate),   // rel32
    (CALL,     5, Way::Emulate),   // rel32
    (RET,      1, Way::Emulate),
    (RET_POP,  2, Way::Emulate),   // imm8: also pops that many bytes of arguments
    (JNZ,      6, Way::Emulate),   // r, rel32
    (JZ,       5, Way::Emulate),   // rel32, on ZERO
    (JNZ_LIKELY, 6, Way::Emulate), // r, rel32: like JNZ, but the delay slot runs only if it jumps
    (MOV,      6, Way::Boost),     // r, imm32
    (PUSH,     2, Way::Boost),     // r
    (POP,      2, Way::Boost),     // r
    (TRAP,     1, Way::Refuse(Errno::EOPNOTSUPP, "a trap of the guest's own cannot run out of line")),
    (HALT,     1, Way::Refuse(Errno::EOPNOTSUPP, "a halted CPU would never come out of the slot")),
    (IRET,     1, Way::Refuse(Errno::EOPNOTSUPP, "a return from an interrupt cannot run out of line")),
    (NOP,      1, Way::Boost),
    (LANDING,  2, Way::Boost),     // a landing pad in front of a function's entry; does nothing
    (BREAK,    1, Way::Refuse(Errno::EINVAL, "the instruction is a breakpoint that is not ours")),
];

/// The result of an executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The instruction is done and the pc is set.
    Done,
    /// One iteration of a repeated instruction is done. The pc is unchanged.
    Again,
    /// The CPU stops for good.
    Halt,
    /// An exception with this number.
    Trap(u32),
}

/// Executes the instruction at `at` and, if it has one, its delay slot. On a fault nothing has changed.
pub fn execute(
    bytes: &[u8],
    at: u64,
    regs: &mut dyn Registers,
    mem: &mut dyn Memory,
    return_address: ReturnAddress,
) -> Result<Effect, Fault> {
    let (own, slot) = with_slot(bytes);
    let behind = at + bytes.len() as u64;
    let (link, is_nullified) = (regs.get(LINK), nullifies(own, regs));
    let effect = execute_one(own, at, behind, regs, mem, return_address)?;
    if slot.is_empty() || is_nullified {
        return Ok(effect);
    }
    let to = regs.pc();
    let done = execute_one(slot, at + own.len() as u64, behind, regs, mem, return_address);
    regs.set_pc(if done.is_ok() { to } else { at });
    done.inspect_err(|_| regs.set(LINK, link))
}

/// Splits an instruction from its delay slot.
fn with_slot(bytes: &[u8]) -> (&[u8], &[u8]) {
    let row = INSTRUCTIONS.iter().find(|(code, ..)| Some(code) == bytes.first());
    bytes.split_at(row.map_or(bytes.len(), |(_, length, _)| *length).min(bytes.len()))
}

/// Whether the bytes include a delay slot.
pub fn has_slot(bytes: &[u8]) -> bool {
    !with_slot(bytes).1.is_empty()
}

/// Whether a likely branch is not taken, which skips its delay slot.
fn nullifies(own: &[u8], regs: &dyn Registers) -> bool {
    matches!(own, [JNZ_LIKELY, reg, ..] if regs.get(Reg(reg & 7)) == 0)
}

/// Executes one instruction. `next` is the address after it and its delay slot.
fn execute_one(
    bytes: &[u8],
    at: u64,
    next: u64,
    regs: &mut dyn Registers,
    mem: &mut dyn Memory,
    return_address: ReturnAddress,
) -> Result<Effect, Fault> {
    let behind = at + bytes.len() as u64;
    let reg = |index: usize| Reg(bytes.get(index).copied().unwrap_or(0) & 7);
    let order = mem.order();
    let relative = || behind.wrapping_add(displacement(order, bytes) as i64 as u64);
    let imm8 = bytes.last().copied().unwrap_or(0);
    let sp = regs.get(SP);
    let mut pc = next;
    match bytes.first().copied().unwrap_or(TRAP) {
        ADD | ADD_STEP => {
            let sum = regs.get(reg(1)).wrapping_add(u64::from(imm8));
            regs.set(reg(1), sum);
            regs.set(ZERO, u64::from(sum == 0));
        }
        LOAD => {
            let value = mem.read_number(regs.get(reg(2)), 8)?;
            regs.set(reg(1), value);
        }
        STORE => mem.write_number(regs.get(reg(1)), regs.get(reg(2)), 8)?,
        FILL => {
            let (left, to) = (regs.get(Reg(1)), regs.get(Reg(2)));
            if left != 0 {
                mem.write_number(to, regs.get(Reg(0)), 1)?;
                regs.set(Reg(1), left - 1);
                regs.set(Reg(2), to + 1);
            }
            if left > 1 {
                regs.set_pc(at);
                return Ok(Effect::Again);
            }
        }
        LEA => regs.set(reg(1), relative()),
        JMP => pc = relative(),
        CALL => {
            match return_address {
                ReturnAddress::OnStack => {
                    mem.write_number(sp.wrapping_sub(8), next, 8)?;
                    regs.set(SP, sp.wrapping_sub(8));
                }
                ReturnAddress::In(link) => regs.set(link, next),
            }
            pc = relative();
        }
        code @ (RET | RET_POP) => {
            let popped = if code == RET_POP { u64::from(imm8) } else { 0 };
            pc = match return_address {
                ReturnAddress::OnStack => {
                    let to = mem.read_number(sp, 8)?;
                    regs.set(SP, sp + 8 + popped);
                    to
                }
                ReturnAddress::In(link) => regs.get(link),
            };
        }
        JNZ | JNZ_LIKELY if regs.get(reg(1)) != 0 => pc = relative(),
        JZ if regs.get(ZERO) != 0 => pc = relative(),
        MOV => regs.set(reg(1), displacement(order, bytes) as u32 as u64),
        PUSH => {
            mem.write_number(sp.wrapping_sub(8), regs.get(reg(1)), 8)?;
            regs.set(SP, sp.wrapping_sub(8));
        }
        POP => {
            let value = mem.read_number(sp, 8)?;
            regs.set(reg(1), value);
            regs.set(SP, sp + 8);
        }
        IRET => {
            let flags = mem.read_number(sp, 8)?;
            pc = mem.read_number(sp + 8, 8)?;
            regs.set(FLAGS, flags);
            regs.set(SP, sp + 16);
        }
        HALT => return Ok(Effect::Halt),
        TRAP => return Ok(Effect::Trap(6)),
        _ => {}
    }
    regs.set_pc(pc);
    Ok(Effect::Done)
}

/// The 32-bit number in the last four bytes.
fn displacement(order: ByteOrder, bytes: &[u8]) -> i32 {
    bytes.last_chunk::<4>().map_or(0, |last| order.number(last) as i32)
}

fn decode(order: ByteOrder, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let first = *bytes.first().ok_or(Undecodable { address, truncated: true })?;
    let row = INSTRUCTIONS.iter().find(|(code, ..)| *code == first);
    let (_, length, _) = row.ok_or(Undecodable { address, truncated: false })?;
    let bytes = bytes.get(..*length).ok_or(Undecodable { address, truncated: true })?;
    let target = address.wrapping_add(*length as u64).wrapping_add(displacement(order, bytes) as i64 as u64);
    let flow = match first {
        JMP => Flow::Jump(target),
        CALL => Flow::Call(target),
        JNZ | JNZ_LIKELY | JZ => Flow::Branch(target),
        RET | RET_POP => Flow::Return,
        TRAP | HALT | IRET | BREAK => Flow::Trap,
        _ => Flow::Next,
    };
    Ok(Insn::new(address, bytes, flow))
}

/// With delay slots, a branch and its slot are decoded as one instruction.
fn decode_delayed(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let own = decode(ByteOrder::Little, address, bytes)?;
    if matches!(own.flow, Flow::Next | Flow::Trap) {
        return Ok(own);
    }
    let slot = decode(ByteOrder::Little, own.next(), &bytes[own.bytes().len()..])?;
    match slot.flow {
        Flow::Next => Ok(Insn::new(address, &bytes[..own.bytes().len() + slot.bytes().len()], own.flow)),
        _ => Err(Undecodable { address: slot.address, truncated: false }),
    }
}

/// The copy contains the delay slot only. A jump back has a delay slot of its own.
fn copy_delayed(insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let (own, slot) = with_slot(insn.bytes());
    let of_slot = Insn::new(insn.address + own.len() as u64, slot, Flow::Next);
    let mut copy = copy(ByteOrder::Little, if slot.is_empty() { insn } else { &of_slot }, at, tail)?;
    if tail == Tail::JumpBack {
        copy.bytes[copy.len] = NOP;
        copy.len += 1;
    }
    Ok(copy)
}

fn emulate_delayed(insn: &Insn, regs: &mut dyn Registers, mem: &mut dyn Memory) -> Result<Then, Fault> {
    let (own, slot) = with_slot(insn.bytes());
    let (link, is_nullified) = (regs.get(LINK), nullifies(own, regs));
    execute_one(own, insn.address, insn.next(), regs, mem, ReturnAddress::In(LINK))?;
    Ok(match slot.is_empty() || is_nullified {
        true => Then::Onwards,
        false => Then::Copy { undo: (own.first() == Some(&CALL)).then_some((LINK, link)) },
    })
}

fn plan(insn: &Insn) -> Result<Plan, Refusal> {
    let row = INSTRUCTIONS.iter().find(|(code, ..)| Some(code) == insn.bytes().first());
    match row.map(|(_, _, way)| *way) {
        Some(Way::Boost) => Ok(Plan::Boost),
        Some(Way::Step) => Ok(Plan::Step),
        Some(Way::Emulate) => Ok(Plan::Emulate(Emulation::AsWritten)),
        Some(Way::Refuse(errno, why)) => Err(Refusal::new(errno, why)),
        None => Err(Refusal::new(Errno::EINVAL, "this is no instruction")),
    }
}

fn copy(order: ByteOrder, insn: &Insn, at: u64, tail: Tail) -> Result<Copy, Refusal> {
    let mut bytes: Vec<u8> = insn.bytes().to_vec();
    if matches!(bytes.first(), Some(&(LEA | JMP | CALL | JNZ | JNZ_LIKELY | JZ))) {
        let moved = insn.address.wrapping_sub(at) as i32;
        let displacement = displacement(order, &bytes).wrapping_add(moved);
        let from = bytes.len() - 4;
        order.put(displacement as u64, &mut bytes[from..]);
    }
    let displaced = bytes.len();
    match tail {
        Tail::Breakpoint => bytes.push(BREAK),
        Tail::JumpBack => {
            let behind = at + bytes.len() as u64 + JUMP_LENGTH;
            bytes.extend(&jump(order, insn.next().wrapping_sub(behind))[..JUMP_LENGTH as usize]);
        }
    }
    let mut copy = Copy { bytes: [0; 32], len: bytes.len(), displaced };
    copy.bytes[..bytes.len()].copy_from_slice(&bytes);
    Ok(copy)
}

/// A jump by `far` bytes from its end.
fn jump(order: ByteOrder, far: u64) -> [u8; 8] {
    let mut bytes = [JMP, 0, 0, 0, 0, 0, 0, 0];
    order.put(far, &mut bytes[1..JUMP_LENGTH as usize]);
    bytes
}

const NAMES: &[(&str, Reg)] = &[
    ("r0", Reg(0)),
    ("r1", Reg(1)),
    ("r2", Reg(2)),
    ("r3", Reg(3)),
    ("r4", Reg(4)),
    ("r5", Reg(5)),
    ("r6", Reg(6)),
    ("r7", Reg(7)),
    ("sp", SP),
    ("flags", FLAGS),
];

const ABI: Abi = Abi {
    sp: SP,
    result: Reg(0),
    arguments: &[Reg(0), Reg(1)],
    stack_arguments: 8,
    return_address: ReturnAddress::OnStack,
    names: NAMES,
    hidden: &[("zero", ZERO)],
    stack_size: STACK,
    ..Abi::USUAL
};

static ABI_STACK: Abi = ABI;
static ABI_DESCRIPTORS: Abi = Abi { pointers: Pointers::Descriptor(&[DATA]), ..ABI };
static ABI_LINK: Abi = Abi { stack_arguments: 0, return_address: ReturnAddress::In(LINK), ..ABI };

const LINUX: Linux = Linux {
    releases: &[Release::V6_1],
    pc_bias: 1,
    boundary_errno: Errno::EILSEQ,
    finds_boundaries: true,
    ftrace_carries: true,
    code_prefix: "",
    named_entry: trapline_isa::entry::named_at_symbol,
    no_return_probes: &["__switch_to"],
    is_entered_by_exceptions: |_| false,
    in_other_modes: &[],
    system_calls: SystemCalls::PLAIN,
    signals: &[],
    program: None,
};

pub(crate) const BASE: Isa = Isa {
    // The engine never uses `arch`, but the field needs a value.
    arch: Arch::X86_64,
    word: 8,
    order: ByteOrder::Little,
    longest: 6,
    alignment: 1,
    group: 1,
    pointer_bits: 0,
    named_by: |address| address,
    breakpoint: &[BREAK],
    breakpoint_over: |_| Patch::of(&[BREAK]),
    in_group: None,
    no_detour: "",
    is_breakpoint: |_, bytes| bytes.first() == Some(&BREAK),
    variable_length: true,
    entry: |beginning, asked, _| {
        let entry = if beginning.bytes.first() == Some(&LANDING) { 2 } else { 0 };
        (asked == 0 || asked == entry).then_some(entry)
    },
    progress: |insn| if insn.bytes() == [FILL] { Progress::by(&[Reg(1), Reg(2)]) } else { Progress::NONE },
    address_register: |_| None,
    linux: LINUX,
    switches_stacks: &["__switch_to_asm"],
    abi: &ABI_STACK,
    decode: |address, bytes| decode(ByteOrder::Little, address, bytes),
    far_target: |_, _| None,
    plan: |insn, _| plan(insn),
    check_context: |_, _, _, _| Ok(()),
    in_delay_slot: NO_DELAY_SLOTS,
    rows: Rows::NONE,
    rules: &[],
    copy: |insn, at, tail| copy(ByteOrder::Little, insn, at, tail),
    emulate: |_, insn, regs, mem| execute(insn.bytes(), insn.address, regs, mem, ReturnAddress::OnStack).map(|_| Then::Onwards),
    detour: Some(&DETOUR),
};

static DETOUR: Detour = DETOURS;
static DETOUR_BIG: Detour = Detour { jump: |over, to| Some(jump_to(ByteOrder::Big, over, to)), ..DETOURS };

fn jump_to(order: ByteOrder, over: &Insn, to: u64) -> [u8; 8] {
    jump(order, to.wrapping_sub(over.address + JUMP_LENGTH))
}

/// With delay slots the jump has one, too.
static DETOUR_DELAYED: Detour = Detour {
    jump_length: JUMP_LENGTH + 1,
    jump: |over, to| {
        let mut bytes = jump_to(ByteOrder::Little, over, to);
        bytes[JUMP_LENGTH as usize] = NOP;
        Some(bytes)
    },
    ..DETOURS
};

const DETOURS: Detour = Detour {
    in_linux: true,
    instructions_are_whole: false,
    jump_length: JUMP_LENGTH,
    lead: &[NOP],
    return_pad: &[],
    jump: |over, to| Some(jump_to(ByteOrder::Little, over, to)),
    may_move: |insn, _| matches!(plan(insn), Ok(Plan::Boost)) && insn.bytes().first() != Some(&FILL),
    flow: |insn, _| insn.flow,
    faithful: None,
    far: None,
};
const JUMP_LENGTH: u64 = 5;

/// The plain toy: calls push the return address.
pub static TOY: Isa = BASE;
/// Calls leave the return address in a register.
pub static TOY_LINK: Isa = Isa {
    abi: &ABI_LINK,
    emulate: |_, insn, regs, mem| execute(insn.bytes(), insn.address, regs, mem, ReturnAddress::In(LINK)).map(|_| Then::Onwards),
    ..BASE
};
/// Big-endian, including numbers inside instructions.
pub static TOY_BIG: Isa = Isa {
    order: ByteOrder::Big,
    decode: |address, bytes| decode(ByteOrder::Big, address, bytes),
    copy: |insn, at, tail| copy(ByteOrder::Big, insn, at, tail),
    detour: Some(&DETOUR_BIG),
    ..BASE
};
/// With delay slots: the instruction after a branch runs before the branch takes effect. Calls use a link register.
pub static TOY_DELAYS: Isa = Isa {
    abi: &ABI_LINK,
    longest: 12,
    decode: decode_delayed,
    copy: copy_delayed,
    emulate: |_, insn, regs, mem| emulate_delayed(insn, regs, mem),
    detour: Some(&DETOUR_DELAYED),
    ..BASE
};
/// With function descriptors: a function's plain name is its descriptor, which holds the code address and the [`DATA`]
/// pointer. The code's own name begins with a dot.
pub static TOY_DESCRIPTORS: Isa = Isa { abi: &ABI_DESCRIPTORS, linux: Linux { code_prefix: ".", ..LINUX }, ..BASE };
