//! Bytes to an instruction, by iced-x86; and past bytes that no CPU executes but that Linux's walk steps over.
//!
//! A walk from a function's start must end where Linux's ends. So bytes that have the shape of an instruction in the
//! one- and two-byte opcode maps are one, with [`Flow::Trap`]; [`super::rules`] refuses to probe them. Known
//! differences to Linux 6.1's decoder (`lib/insn.c`), none of which compilers or the kernel's assembly give rise to:
//! - a fifth distinct legacy prefix ends an instruction there, and so does any prefix behind a REX;
//! - unknown opcodes in the three-byte maps are two or three bytes long there, and no instruction here;
//! - XOP instructions are `pop` with something behind it there;
//! - `mov` of control registers with a ModRM that does not name a register has a displacement there.

use super::Mode;
use super::shape::{MARKERS, Shape};
use crate::insn::{Flow, Insn, LONGEST, Undecodable};
use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction};

/// Decodes one instruction out of `bytes`, which may be longer than it.
pub fn decode(mode: Mode, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    if MARKERS.iter().any(|marker| bytes.starts_with(marker)) {
        return decode_marked(mode, address, bytes);
    }
    let (instruction, error) = iced(mode, address, bytes);
    if error == DecoderError::None {
        return Ok(Insn::new(address, &bytes[..instruction.len()], flow(&instruction)));
    }
    // iced-x86 wants one more byte for some that it does not know; so its saying that bytes are missing is not the last
    // word.
    let cut = undecodable(address, bytes);
    let shape = Shape::of(mode, bytes).map_err(|_| cut)?;
    let invalid = Undecodable { truncated: cut.truncated && error == DecoderError::NoMoreBytes, ..cut };
    let length = shape.legacy_length(mode).ok_or(invalid)?;
    Ok(Insn::new(address, bytes.get(..length).ok_or(cut)?, Flow::Trap))
}

/// What iced-x86 makes of an instruction; `None` for one that no CPU executes.
pub fn known(mode: Mode, insn: &Insn) -> Option<Instruction> {
    let (instruction, error) = iced(mode, insn.address, insn.bytes());
    (error == DecoderError::None).then_some(instruction)
}

fn iced(mode: Mode, address: u64, bytes: &[u8]) -> (Instruction, DecoderError) {
    let mut decoder = Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (instruction, decoder.last_error())
}

/// The mark and what it stands before are one instruction, as for Linux.
fn decode_marked(mode: Mode, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let mark = MARKERS[0].len();
    let inner = decode(mode, address.wrapping_add(mark as u64), &bytes[mark..]);
    let inner = inner.map_err(|_| undecodable(address, bytes))?;
    Ok(Insn::new(address, &bytes[..mark + inner.bytes().len()], Flow::Trap))
}

/// More bytes would help only where there were fewer than the longest instruction has.
fn undecodable(address: u64, bytes: &[u8]) -> Undecodable {
    Undecodable { address, truncated: bytes.len() < LONGEST }
}

fn flow(instruction: &Instruction) -> Flow {
    let target = instruction.near_branch_target();
    match instruction.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch if instruction.is_jmp_short_or_near() => Flow::Jump(target),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::ConditionalBranch => Flow::Branch(target),
        FlowControl::Call if instruction.is_call_near() => Flow::Call(target),
        FlowControl::Call if instruction.is_call_far() => Flow::IndirectCall,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return if is_return(instruction) => Flow::Return,
        FlowControl::XbeginXabortXend => match instruction.code() {
            Code::Xbegin_rel16 | Code::Xbegin_rel32 => Flow::Branch(target),
            _ => Flow::Next,
        },
        FlowControl::Return | FlowControl::Call | FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
    }
}

fn is_return(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic::{Ret, Retf};
    matches!(instruction.mnemonic(), Ret | Retf)
}
