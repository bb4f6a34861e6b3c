//! Decodes s390x instructions: length and control flow.

use super::abi::r;
use super::fields::{halfword, place, r1, r2, word};
use super::opcodes::{code, length};
use crate::insn::{Flow, Insn, Progress, Undecodable};

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
///
/// Only breakpoints begin with a zero byte. The length of the instruction under a breakpoint is unknown, so they do not
/// decode.
pub fn decode(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let cut = Undecodable { address, truncated: true };
    let first = *bytes.first().ok_or(cut)?;
    let bytes = bytes.get(..length(first)).ok_or(cut)?;
    match first {
        0 => Err(Undecodable { address, truncated: false }),
        _ => Ok(Insn::new(address, bytes, flow(address, bytes))),
    }
}

/// Instructions with an operation code, and their control flow.
struct FlowRow {
    code: u16,
    flow: fn(address: u64, bytes: &[u8]) -> Flow,
}

const fn row(code: u16, flow: fn(u64, &[u8]) -> Flow) -> FlowRow {
    FlowRow { code, flow }
}

fn flow(address: u64, bytes: &[u8]) -> Flow {
    let code = code(bytes);
    let row = FLOWS.binary_search_by_key(&code, |row| row.code).ok().and_then(|found| FLOWS.get(found));
    row.map_or(Flow::Next, |row| (row.flow)(address, bytes))
}

const TRAP: fn(u64, &[u8]) -> Flow = |_, _| Flow::Trap;
const INDIRECT_BRANCH: fn(u64, &[u8]) -> Flow = |_, _| Flow::IndirectBranch;
const INDIRECT_CALL: fn(u64, &[u8]) -> Flow = |_, _| Flow::IndirectCall;
const NEAR_BRANCH: fn(u64, &[u8]) -> Flow = |at, bytes| Flow::Branch(near(at, bytes));

/// Sorted by operation code for binary search. Codes that are missing continue with the next instruction.
#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    row(0x0101, TRAP),                                                        // pr
    row(0x01ff, TRAP),                                                        // trap2
    row(0x0500, |_, bytes| link_by_register(bytes)),                          // balr
    row(0x0600, |_, bytes| count_by_register(bytes)),                         // bctr
    row(0x0700, |_, bytes| by_register(bytes)),                               // bcr
    row(0x0a00, TRAP),                                                        // svc
    row(0x0b00, |_, bytes| if r2(bytes) == 0 { Flow::Next } else { Flow::IndirectJump }), // bsm
    row(0x0c00, |_, bytes| link_by_register(bytes)),                          // bassm
    row(0x0d00, |_, bytes| link_by_register(bytes)),                          // basr
    // The executed instruction is not known here, and may be a branch.
    row(0x4400, INDIRECT_BRANCH),                                             // ex
    row(0x4500, INDIRECT_CALL),                                               // bal
    row(0x4600, INDIRECT_BRANCH),                                             // bct
    row(0x4700, |_, bytes| conditional(bytes, Flow::IndirectJump, Flow::IndirectBranch)), // bc
    row(0x4d00, INDIRECT_CALL),                                               // bas
    row(0x8200, TRAP),                                                        // lpsw
    row(0x8400, NEAR_BRANCH),                                                 // brxh
    row(0x8500, NEAR_BRANCH),                                                 // brxle
    row(0x8600, INDIRECT_BRANCH),                                             // bxh
    row(0x8700, INDIRECT_BRANCH),                                             // bxle
    row(0xa704, |at, bytes| conditional(bytes, Flow::Jump(near(at, bytes)), Flow::Branch(near(at, bytes)))), // brc
    row(0xa705, |at, bytes| Flow::Call(near(at, bytes))),                     // bras
    row(0xa706, NEAR_BRANCH),                                                 // brct
    row(0xa707, NEAR_BRANCH),                                                 // brctg
    row(0xaf00, TRAP),                                                        // mc
    row(0xb218, TRAP),                                                        // pc
    row(0xb228, TRAP),                                                        // pt
    row(0xb240, TRAP),                                                        // bakr
    row(0xb258, TRAP),                                                        // bsg
    row(0xb25a, TRAP),                                                        // bsa
    row(0xb277, TRAP),                                                        // rp
    row(0xb2b2, TRAP),                                                        // lpswe
    row(0xb2ff, TRAP),                                                        // trap4
    row(0xb946, |_, bytes| if bytes.get(3).is_none_or(|regs| regs & 15 == 0) { Flow::Next } else { Flow::IndirectBranch }), // bctgr
    row(0xb99e, TRAP),                                                        // pti
    row(0xc004, |at, bytes| conditional(bytes, Flow::Jump(far(at, bytes)), Flow::Branch(far(at, bytes)))), // brcl
    row(0xc005, |at, bytes| Flow::Call(far(at, bytes))),                      // brasl
    // Executes the instruction at its target, then continues behind itself, unless that instruction branches.
    row(0xc600, |at, bytes| Flow::Branch(far(at, bytes))),                    // exrl
    row(0xcc06, |at, bytes| Flow::Branch(far(at, bytes))),                    // brcth
    row(0xe346, INDIRECT_BRANCH),                                             // bctg
    row(0xe347, |_, bytes| conditional(bytes, Flow::IndirectJump, Flow::IndirectBranch)), // bic
    row(0xe560, INDIRECT_BRANCH),                                             // tbegin: comes back to it
    row(0xe561, INDIRECT_BRANCH),                                             // tbeginc
    row(0xeb44, INDIRECT_BRANCH),                                             // bxhg
    row(0xeb45, INDIRECT_BRANCH),                                             // bxleg
    row(0xeb71, TRAP),                                                        // lpswey
    row(0xec44, NEAR_BRANCH),                                                 // brxhg
    row(0xec45, NEAR_BRANCH),                                                 // brxlg
    row(0xec64, NEAR_BRANCH),                                                 // cgrj
    row(0xec65, NEAR_BRANCH),                                                 // clgrj
    row(0xec76, NEAR_BRANCH),                                                 // crj
    row(0xec77, NEAR_BRANCH),                                                 // clrj
    row(0xec7c, NEAR_BRANCH),                                                 // cgij
    row(0xec7d, NEAR_BRANCH),                                                 // clgij
    row(0xec7e, NEAR_BRANCH),                                                 // cij
    row(0xec7f, NEAR_BRANCH),                                                 // clij
    row(0xece4, INDIRECT_BRANCH),                                             // cgrb
    row(0xece5, INDIRECT_BRANCH),                                             // clgrb
    row(0xecf6, INDIRECT_BRANCH),                                             // crb
    row(0xecf7, INDIRECT_BRANCH),                                             // clrb
    row(0xecfc, INDIRECT_BRANCH),                                             // cgib
    row(0xecfd, INDIRECT_BRANCH),                                             // clgib
    row(0xecfe, INDIRECT_BRANCH),                                             // cib
    row(0xecff, INDIRECT_BRANCH),                                             // clib
];

/// The target of a 16-bit displacement.
pub fn near(address: u64, bytes: &[u8]) -> u64 {
    place(address, halfword(bytes))
}

/// The target of a 32-bit displacement.
pub fn far(address: u64, bytes: &[u8]) -> u64 {
    place(address, word(bytes))
}

/// A mask of all condition codes always branches, an empty mask never does.
fn conditional(bytes: &[u8], always: Flow, maybe: Flow) -> Flow {
    match r1(bytes) {
        0 => Flow::Next,
        15 => always,
        _ => maybe,
    }
}

/// Register 0 means no branch. A jump to r14 is a return.
fn by_register(bytes: &[u8]) -> Flow {
    match r2(bytes) {
        0 => Flow::Next,
        14 => conditional(bytes, Flow::Return, Flow::IndirectBranch),
        _ => conditional(bytes, Flow::IndirectJump, Flow::IndirectBranch),
    }
}

fn link_by_register(bytes: &[u8]) -> Flow {
    if r2(bytes) == 0 { Flow::Next } else { Flow::IndirectCall }
}

fn count_by_register(bytes: &[u8]) -> Flow {
    if r2(bytes) == 0 { Flow::Next } else { Flow::IndirectBranch }
}

/// The registers of an instruction that an interrupt can suspend. Other long instructions end early by themselves, with
/// a condition code that says so.
pub fn progress(insn: &Insn) -> Progress {
    let bytes = insn.bytes();
    let pair = |first: u8| [r(first), r(first | 1)];
    match code(bytes) {
        // mvcl, clcl
        0x0e00 | 0x0f00 => {
            let ([to, to_length], [from, from_length]) = (pair(r1(bytes)), pair(r2(bytes)));
            Progress::by(&[to, to_length, from, from_length])
        }
        // pfmf: R2, in the fourth byte
        0xb9af => Progress::by(&[r(bytes.get(3).map_or(0, |regs| regs & 15))]),
        _ => Progress::NONE,
    }
}

#[cfg(test)]
mod tests;
