//! Decodes instructions with iced-x86. Also gives a length to bytes that no CPU executes but Linux's decoder steps
//! over.
//!
//! A walk from a function's start must find the boundaries that Linux finds. So bytes with the shape of an instruction
//! in the one-byte and two-byte opcode maps decode to an instruction with [`Flow::Trap`], which [`super::rules`]
//! refuses to probe. These differences from Linux 6.1's decoder (`lib/insn.c`) are known; no compiler and no kernel
//! assembly produces such bytes:
//! - A fifth distinct legacy prefix ends an instruction in Linux, and so does a prefix after REX.
//! - An unknown opcode of the three-byte maps has two or three bytes in Linux. Here it is undecodable.
//! - Linux takes XOP instructions for `pop` followed by other bytes.
//! - Linux reads a displacement in a `mov` of a control register whose ModRM names memory.

use super::Mode;
use super::shape::{MARKERS, Shape};
use crate::insn::{Flow, Insn, LONGEST, Undecodable};
use iced_x86::{Code, Decoder, DecoderError, DecoderOptions, FlowControl, Instruction};

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(mode: Mode, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    if MARKERS.iter().any(|marker| bytes.starts_with(marker)) {
        return decode_marked(mode, address, bytes);
    }
    let (instruction, error) = iced(mode, address, bytes);
    if error == DecoderError::None {
        return Ok(Insn::new(address, &bytes[..instruction.len()], flow(&instruction)));
    }
    // iced-x86 may ask for one more byte of an instruction that it does not know, so "bytes missing" can also mean
    // unknown.
    let cut = undecodable(address, bytes);
    let shape = Shape::of(mode, bytes).map_err(|_| cut)?;
    let invalid = Undecodable { truncated: cut.truncated && error == DecoderError::NoMoreBytes, ..cut };
    let length = shape.legacy_length(mode).ok_or(invalid)?;
    Ok(Insn::new(address, bytes.get(..length).ok_or(cut)?, Flow::Trap))
}

/// iced-x86's view of an instruction; `None` if no CPU executes it.
pub fn known(mode: Mode, insn: &Insn) -> Option<Instruction> {
    let (instruction, error) = iced(mode, insn.address, insn.bytes());
    (error == DecoderError::None).then_some(instruction)
}

fn iced(mode: Mode, address: u64, bytes: &[u8]) -> (Instruction, DecoderError) {
    let mut decoder = Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (instruction, decoder.last_error())
}

/// Decodes a hypervisor's marker and the instruction behind it as one instruction, as Linux does.
fn decode_marked(mode: Mode, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let mark = MARKERS[0].len();
    let inner = decode(mode, address.wrapping_add(mark as u64), &bytes[mark..]);
    let inner = inner.map_err(|_| undecodable(address, bytes))?;
    Ok(Insn::new(address, &bytes[..mark + inner.bytes().len()], Flow::Trap))
}

/// The error for these bytes. More bytes could help only if there were fewer than the longest instruction has.
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
