//! Builds detours: the code in the probe window that runs the instructions which an optimised probe's jump has
//! overwritten. Shared by all ISAs.
//!
//! A lean detour is one no-op, the displaced instructions, and a jump back. With the no-op, arriving at the detour and
//! jumping back to the first displaced instruction happen at different addresses, so that a hit is counted once.
//!
//! A faithful detour works like Linux's. In front of the displaced instructions it saves all registers on the guest's
//! stack in the layout of a breakpoint trap, calls a trampoline where handlers run, and restores the registers.

use crate::arch::Isa;
use crate::insn::{Flow, Insn};
use crate::plan::{Errno, Policy, Refusal, Tail};
use crate::region::{Region, Rule, Surroundings};
use crate::regs::Reg;
use core::ops::Range;

/// Bytes in the longest lean detour of any ISA. Equals the allocation unit of the probe window.
pub const LONGEST: usize = 32;
/// Bytes in the longest faithful detour of any ISA.
const LONGEST_FAITHFUL: usize = 256;

/// The code of a detour in front of the displaced instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// One no-op: handlers on the host see the live registers.
    #[default]
    Lean,
    /// Code that saves the registers on the guest's stack, calls the trampoline, and restores the registers.
    Faithful,
}

impl Form {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Lean => "lean",
            Form::Faithful => "faithful",
        }
    }
}

/// The jumps and detours of one ISA.
#[derive(Debug)]
pub struct Detour {
    /// Linux 6.1 optimises kprobes on this ISA too.
    pub in_linux: bool,
    /// Indirect jumps always lead to the start of an instruction. False on x86, where code jumps behind a prefix.
    pub instructions_are_whole: bool,
    /// Bytes in the jump.
    pub jump_length: u64,
    /// The no-op in front of the displaced instructions.
    pub lead: &'static [u8],
    /// The code of the return pad: it jumps to the true return address, which the host has put where the function had
    /// it (the popped stack word, or the link register). Empty if no instruction can do that; the pad is then a
    /// breakpoint.
    pub return_pad: &'static [u8],
    /// The jump that replaces instruction `over`, with its condition, and leads to `to`; `None` if `to` is out of
    /// reach.
    pub jump: fn(over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]>,
    /// Whether an instruction may be part of a detour, where the engine does not see it run.
    pub may_move: fn(&Insn, Policy) -> bool,
    /// The control flow of an instruction, as this policy judges it.
    pub flow: fn(&Insn, Policy) -> Flow,
    /// The code of faithful detours; `None` if the ISA has only lean ones.
    pub faithful: Option<&'static Faithful>,
    /// The jump to detours out of the reach of `jump`; `None` if the ISA has none.
    pub far: Option<&'static Far>,
}

/// Finds two registers whose values nobody reads, one at each address of a function.
pub type FreeRegisters = fn(at: [u64; 2], function: &Range<u64>, around: &mut dyn Surroundings) -> Option<[Reg; 2]>;

/// A jump that reaches further than an ISA's first one, and overwrites a register.
#[derive(Debug)]
pub struct Far {
    /// Bytes in the jump.
    pub jump_length: u64,
    /// Chooses the registers of the jump at the first address and of the jump back to the second one. Nobody reads their
    /// values there. `None` if no register is free.
    pub free: FreeRegisters,
    /// Encodes the jump from one address to another through a register; `None` if it does not reach.
    pub jump: fn(from: u64, to: u64, through: Reg) -> Option<[u8; JUMP_MOST]>,
}

impl Detour {
    /// The jump that replaces instruction `over` and leads to `to`, through this register if it is a far one. `None` if
    /// `to` is out of reach.
    pub fn jump_through(&self, over: &Insn, to: u64, through: Option<Reg>) -> Option<[u8; JUMP_MOST]> {
        match through {
            None => (self.jump)(over, to),
            Some(through) => (self.far?.jump)(over.address, to, through),
        }
    }

    /// Bytes in the jump through this register, or in the first jump.
    pub fn length_through(&self, through: Option<Reg>) -> u64 {
        self.far.filter(|_| through.is_some()).map_or(self.jump_length, |far| far.jump_length)
    }

    /// The offset of the displaced instructions, and the most bytes of the whole detour.
    pub fn room(&self, form: Form) -> Result<(usize, usize), Refusal> {
        match (form, self.faithful) {
            (Form::Lean, _) => Ok((self.lead.len(), LONGEST)),
            // Both forms leave the same room for displaced instructions.
            (Form::Faithful, Some(faithful)) => Ok((faithful.lead(), faithful.lead() + LONGEST - self.lead.len())),
            (Form::Faithful, None) => Err(NO_FAITHFUL),
        }
    }
}

/// The refusal on ISAs without faithful detours.
pub const NO_FAITHFUL: Refusal = Refusal::new(Errno::EOPNOTSUPP, "there is no faithful detour on this ISA; use lean ones");

/// The code that saves and restores an ISA's registers on the guest's stack.
#[derive(Debug)]
pub struct Faithful {
    /// Stores the register frame below the stack pointer, which then points to the frame's lowest word. Changes no
    /// other register and no flag.
    pub save: &'static [u8],
    /// The call of the trampoline with two arguments: the probed address and the address of the frame. `None` if the
    /// trampoline is out of reach.
    pub call: fn(probed: u64, from: u64, trampoline: u64) -> Option<[u8; CALL_MOST]>,
    /// Bytes in that call.
    pub call_length: usize,
    /// Restores registers, flags and stack pointer from the frame.
    pub restore: &'static [u8],
    /// The code of the trampoline behind the place where the host runs handlers: a return.
    pub trampoline: &'static [u8],
    /// The layout of the frame, lowest word first.
    pub frame: &'static [FrameWord],
}

/// Bytes in the longest call of a trampoline, on any ISA.
pub const CALL_MOST: usize = 24;
/// Words in the longest frame.
pub const FRAME_MOST: usize = 40;

/// A word of the register frame of a faithful detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameWord {
    /// The register in this word.
    pub reg: Reg,
    /// The code that writes the word, and whether it is restored.
    pub kind: Saving,
}

/// The code that writes a word of the frame, and whether the word is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// The guest's code saves it and restores it with the handlers' changes.
    Restored,
    /// The guest's code saves it. Changes by handlers are lost.
    Saved,
    /// The host writes the CPU's value into the word that the guest's code leaves free. Changes by handlers are lost.
    Filled,
    /// The stack pointer, saved after the guest's code has moved it by this number of bytes; the host corrects the value.
    /// Changes by handlers are lost.
    Moved(u64),
}

impl Faithful {
    /// The offset of the displaced instructions in the detour.
    pub const fn lead(&self) -> usize {
        self.save.len() + self.call_length + self.restore.len()
    }
}

/// Bytes in the longest jump of any ISA.
pub const JUMP_MOST: usize = 8;

/// The bytes of a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    bytes: [u8; LONGEST_FAITHFUL],
    len: usize,
    most: usize,
}

impl Code {
    fn new(most: usize) -> Code {
        Code { bytes: [0; LONGEST_FAITHFUL], len: 0, most: most.min(LONGEST_FAITHFUL) }
    }

    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let end = self.len + bytes.len();
        let room = self.bytes[..self.most].get_mut(self.len..end).ok_or(Rule::TooLong.refusal())?;
        room.copy_from_slice(bytes);
        self.len = end;
        Ok(())
    }

    /// Appends the displaced instructions and the jump back.
    fn push_region(&mut self, isa: &Isa, region: &Region, at: u64) -> Result<(), Refusal> {
        let far = isa.detour.and_then(|detour| detour.far).zip(region.far());
        for insn in region.insns() {
            let last = far.is_none() && insn.next() == region.end();
            let copy = (isa.copy)(insn, at.wrapping_add(self.len as u64), if last { Tail::JumpBack } else { Tail::Breakpoint })?;
            self.push(if last { copy.bytes() } else { &copy.bytes()[..copy.displaced] })?;
        }
        if let Some((far, [_, through])) = far {
            let back = (far.jump)(at.wrapping_add(self.len as u64), region.end(), through).ok_or(Rule::OutOfReach.refusal())?;
            self.push(&back[..far.jump_length as usize])?;
        }
        Ok(())
    }
}

/// The lean detour of a region, placed at `at`.
pub fn lean(isa: &Isa, detour: &Detour, region: &Region, at: u64) -> Result<Code, Refusal> {
    let mut code = Code::new(LONGEST);
    code.push(detour.lead)?;
    code.push_region(isa, region, at)?;
    Ok(code)
}

/// The faithful detour of a region, placed at `at`.
pub fn faithful(isa: &Isa, detour: &Detour, region: &Region, at: u64, trampoline: u64) -> Result<Code, Refusal> {
    let (_, most) = detour.room(Form::Faithful)?;
    let table = detour.faithful.ok_or(NO_FAITHFUL)?;
    let call = (table.call)(region.start(), at.wrapping_add(table.save.len() as u64), trampoline);
    let mut code = Code::new(most);
    code.push(table.save)?;
    code.push(call.ok_or(Rule::OutOfReach.refusal())?.get(..table.call_length).unwrap_or_default())?;
    code.push(table.restore)?;
    code.push_region(isa, region, at)?;
    Ok(code)
}
