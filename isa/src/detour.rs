//! Detours: where the instructions run whose place the jump of an optimised probe has taken. Written once for all ISAs.
//!
//! A lean detour is one instruction that does nothing, the displaced instructions, and a jump back. The first is there
//! so that coming to the detour and coming back to the first displaced instruction are two places, and one hit is not
//! counted twice.
//!
//! A faithful one has in front of them what Linux's has: all registers go to the guest's stack, as a breakpoint's
//! trap would lay them there, a trampoline is called, and the registers come back as they stand there by then.

use crate::arch::Isa;
use crate::insn::{Flow, Insn};
use crate::plan::{Errno, Policy, Refusal, Tail};
use crate::region::{Region, Rule};
use crate::regs::Reg;

/// The most bytes that a lean detour has on any ISA; a unit of the probe window.
pub const LONGEST: usize = 32;
/// The most bytes that a faithful one has.
const LONGEST_FAITHFUL: usize = 256;

/// What a detour does in front of the displaced instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Nothing: the host looks at the live registers.
    #[default]
    Lean,
    /// It saves them on the guest's stack, calls the trampoline, and takes them back.
    Faithful,
}

impl Form {
    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Form::Lean => "lean",
            Form::Faithful => "faithful",
        }
    }
}

/// How an ISA replaces several instructions by one jump.
#[derive(Debug)]
pub struct Detour {
    /// Linux 6.1 optimises on this ISA too.
    pub in_linux: bool,
    /// What is in a register when code jumps by it is where an instruction begins. (On x86 there are jumps behind a
    /// prefix.)
    pub instructions_are_whole: bool,
    /// Bytes of the jump.
    pub jump_length: u64,
    /// The instruction that does nothing, in front of the displaced ones.
    pub lead: &'static [u8],
    /// What leads back from where a hijacked function has returned to, once the host has put the true return address
    /// where the function had it: the stack word just popped, or the register. Empty: there is no such instruction, and
    /// a breakpoint does it.
    pub return_pad: &'static [u8],
    /// The jump that stands where an instruction was, on that one's condition, and leads to `to`; `None` if that is too
    /// far.
    pub jump: fn(over: &Insn, to: u64) -> Option<[u8; JUMP_MOST]>,
    /// Whether an instruction may run in a detour among others, with no engine looking on.
    pub may_move: fn(&Insn, Policy) -> bool,
    /// Where an instruction leads, as this policy sees it.
    pub flow: fn(&Insn, Policy) -> Flow,
    /// How registers are saved and taken back; `None`: there is the lean form alone.
    pub faithful: Option<&'static Faithful>,
}

impl Detour {
    /// Bytes in front of the displaced instructions, and the most bytes of the whole detour.
    pub fn room(&self, form: Form) -> Result<(usize, usize), Refusal> {
        match (form, self.faithful) {
            (Form::Lean, _) => Ok((self.lead.len(), LONGEST)),
            // The same instructions have room in both forms.
            (Form::Faithful, Some(faithful)) => Ok((faithful.lead(), faithful.lead() + LONGEST - self.lead.len())),
            (Form::Faithful, None) => Err(NO_FAITHFUL),
        }
    }
}

/// The refusal where an ISA has no faithful form.
pub const NO_FAITHFUL: Refusal = Refusal::new(Errno::EOPNOTSUPP, "there is no faithful detour on this ISA; use lean ones");

/// How an ISA's registers go to the guest's stack and come back.
#[derive(Debug)]
pub struct Faithful {
    /// Puts the frame below the stack pointer, which then points to its lowest word. Changes no other register, nor a
    /// flag.
    pub save: &'static [u8],
    /// Calls the trampoline with the ABI's first two arguments: the probed address, and the frame's. `None`: out of
    /// reach.
    pub call: fn(probed: u64, from: u64, trampoline: u64) -> Option<[u8; CALL_MOST]>,
    /// Bytes of that.
    pub call_length: usize,
    /// Takes registers, flags and stack pointer back out of the frame.
    pub restore: &'static [u8],
    /// What the trampoline does once the host has run the handlers: it returns.
    pub trampoline: &'static [u8],
    /// What each word of the frame is, lowest first.
    pub frame: &'static [Word],
}

/// The most bytes that a call with its arguments has on any ISA.
pub const CALL_MOST: usize = 24;
/// The most words of a frame.
pub const FRAME_MOST: usize = 40;

/// A word of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Which register it holds.
    pub reg: Reg,
    /// How it comes there, and what becomes of it.
    pub kind: Fate,
}

/// How a word of the frame comes there, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Saved, and taken back as handlers have left it.
    Restored,
    /// Saved only: what handlers do to it is forgotten.
    Saved,
    /// The guest's code leaves the word open: the host puts there what the CPU has. What handlers do to it is
    /// forgotten.
    Filled,
    /// The stack pointer, saved when it had moved so many bytes; the host mends it. What handlers do to it is
    /// forgotten.
    Moved(u64),
}

impl Faithful {
    /// Bytes in front of the displaced instructions.
    pub const fn lead(&self) -> usize {
        self.save.len() + self.call_length + self.restore.len()
    }
}

/// The most bytes that a jump has on any ISA.
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

    /// The displaced instructions and the way back.
    fn push_region(&mut self, isa: &Isa, region: &Region, at: u64) -> Result<(), Refusal> {
        for insn in region.insns() {
            let last = insn.next() == region.end();
            let copy = (isa.copy)(insn, at.wrapping_add(self.len as u64), if last { Tail::JumpBack } else { Tail::Breakpoint })?;
            self.push(if last { copy.bytes() } else { &copy.bytes()[..copy.displaced] })?;
        }
        Ok(())
    }
}

/// The lean detour of a region, to run at `at`.
pub fn lean(isa: &Isa, detour: &Detour, region: &Region, at: u64) -> Result<Code, Refusal> {
    let mut code = Code::new(LONGEST);
    code.push(detour.lead)?;
    code.push_region(isa, region, at)?;
    Ok(code)
}

/// The faithful detour of a region, to run at `at`, with the trampoline there.
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
