//! The registers that an instruction reads and writes, and those whose values nobody reads any more at an address.
//!
//! An instruction that is not known exactly counts as reading more registers than it does, and as writing fewer.

use super::Set;
use super::decode::{register, word};
use crate::function::walk_around;
use crate::insn::{Flow, Insn};
use crate::region::Surroundings;
use crate::regs::Reg;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A set of general registers, by number.
type Registers = u32;

const ALL: Registers = !0;
const NONE: Registers = 0;
const RA: Registers = 1 << 1;
const SP: Registers = 1 << 2;
/// a0 to a7.
const ARGUMENTS: Registers = 0xff << 10;
/// t0 to t6.
const TEMPORARIES: Registers = 0x7 << 5 | 0xf << 28;
/// Registers that a function need not preserve, without the results a0 and a1.
const DEAD_AT_RETURN: Registers = TEMPORARIES | 0x3f << 12;

/// The registers that an instruction reads, and those that it writes in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    reads: Registers,
    writes: Registers,
}

const fn usage(reads: Registers, writes: Registers) -> Usage {
    // x0 is no register.
    Usage { reads, writes: writes & !1 }
}

fn usage_of(set: Set, insn: &Insn) -> Usage {
    let word = word(insn);
    if insn.bytes().len() == 2 { compressed(set, word) } else { whole(word) }
}

fn whole(word: u32) -> Usage {
    let [rd, rs1, rs2] = [7, 15, 20].map(|low| 1 << register(word, low));
    match word & 0x7f {
        0x17 | 0x37 | 0x6f => usage(NONE, rd),                                    // auipc, lui, jal
        0x03 | 0x13 | 0x1b | 0x67 => usage(rs1, rd),                              // loads, arithmetic with immediates, jalr
        0x2f | 0x33 | 0x3b => usage(rs1 | rs2, rd),                               // atomic accesses, arithmetic
        0x23 | 0x63 => usage(rs1 | rs2, NONE),                                    // stores, branches
        0x07 | 0x0f | 0x27 => usage(rs1 | rs2, NONE),                             // loads and stores of other registers, fences
        0x43 | 0x47 | 0x4b | 0x4f | 0x53 | 0x57 | 0x77 => usage(rs1 | rs2, NONE), // floating point, vectors
        0x73 if word >> 12 & 3 != 0 => usage(rs1, rd),                            // csr*
        _ => usage(ALL, NONE),
    }
}

fn compressed(set: Set, word: u32) -> Usage {
    let (full, second) = (1 << register(word, 7), 1 << register(word, 2));
    let short = |low: u32| 1 << (8 + (word >> low & 7));
    let wide = set == Set::Rv64;
    match (word & 3, word >> 13 & 7) {
        (0, 0) if word >> 5 & 0xff != 0 => usage(SP, short(2)), // c.addi4spn
        (0, 2) => usage(short(7), short(2)),                    // c.lw
        (0, 3) if wide => usage(short(7), short(2)),            // c.ld
        (0, 1 | 3 | 5) => usage(short(7), NONE),                // c.fld, c.flw, c.fsd
        (0, 6 | 7) => usage(short(7) | short(2), NONE),         // c.sw, c.sd, c.fsw
        (1, 0) => usage(full, full),                            // c.addi
        (1, 1) if wide => usage(full, full),                    // c.addiw
        (1, 1) => usage(NONE, RA),                              // c.jal
        (1, 2) => usage(NONE, full),                            // c.li
        (1, 3) if full == SP => usage(SP, SP),                  // c.addi16sp
        (1, 3) if word >> 2 & 31 | word >> 12 & 1 != 0 => usage(NONE, full), // c.lui
        (1, 4) => usage(short(7) | short(2), short(7)),         // arithmetic
        (1, 5) => usage(NONE, NONE),                            // c.j
        (1, 6 | 7) => usage(short(7), NONE),                    // c.beqz, c.bnez
        (2, 0) => usage(full, full),                            // c.slli
        (2, 2) => usage(SP, full),                              // c.lwsp
        (2, 3) if wide => usage(SP, full),                      // c.ldsp
        (2, 1 | 3 | 5) => usage(SP, NONE),                      // c.fldsp, c.flwsp, c.fsdsp
        (2, 6 | 7) => usage(SP | second, NONE),                 // c.swsp, c.sdsp, c.fswsp
        (2, 4) => match (word >> 12 & 1, full, second) {
            (1, 1, 1) => usage(ALL, NONE),   // c.ebreak
            (0, _, 1) => usage(full, NONE),  // c.jr
            (1, _, 1) => usage(full, RA),    // c.jalr
            (0, ..) => usage(second, full),  // c.mv
            _ => usage(full | second, full), // c.add
        },
        _ => usage(ALL, NONE),
    }
}

/// Registers that a jump may use, best first: temporaries, then arguments from the last.
const CANDIDATES: [u8; 15] = [5, 6, 7, 28, 29, 30, 31, 17, 16, 15, 14, 13, 12, 11, 10];

/// A register for each of two addresses of a function whose value nobody reads any more there. `None` if one of them has
/// none, or if the function cannot be decoded.
///
/// By the calling convention a called function reads no temporary, and its caller reads only its results. Code that is
/// left for another part of the function, and fixups of faults, may read everything.
pub fn free(set: Set, at: [u64; 2], function: &Range<u64>, around: &mut dyn Surroundings) -> Option<[Reg; 2]> {
    let insns: Vec<Insn> = walk_around(set.isa(), function.clone(), around).map_while(Result::ok).collect();
    insns.last().filter(|last| last.next() >= function.end)?;
    let may_fault: Vec<bool> = insns.iter().map(|insn| around.expected_fault(insn.address..insn.next()).is_some()).collect();
    let live = live(set, &insns, &may_fault);
    let free = |address: u64| {
        let place = insns.binary_search_by_key(&address, |insn| insn.address).ok()?;
        let live = *live.get(place)?;
        CANDIDATES.iter().find(|number| live >> **number & 1 == 0).map(|number| Reg(*number))
    };
    Some([free(at[0])?, free(at[1])?])
}

/// For each instruction the registers that are read before they are written, on some path that begins there.
fn live(set: Set, insns: &[Insn], may_fault: &[bool]) -> Vec<Registers> {
    let mut live = vec![NONE; insns.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (place, insn) in insns.iter().enumerate().rev() {
            let at = |live: &[Registers], address: u64| {
                insns.binary_search_by_key(&address, |insn| insn.address).map_or(ALL, |place| live[place])
            };
            let behind = |live: &[Registers]| at(live, insn.next());
            let is_breakpoint = super::slot::is_breakpoint(insn.bytes());
            let Usage { reads, writes } = if is_breakpoint { usage(NONE, NONE) } else { usage_of(set, insn) };
            let then = match insn.flow {
                Flow::Next => behind(&live),
                Flow::Branch(target) => behind(&live) | at(&live, target),
                Flow::Jump(target) => at(&live, target),
                Flow::Call(_) | Flow::IndirectCall if writes == RA => {
                    ARGUMENTS | SP | 0x18 | behind(&live) & !(ARGUMENTS | TEMPORARIES | RA)
                }
                Flow::Return => ALL & !DEAD_AT_RETURN,
                // A BUG() is the last instruction of its path.
                Flow::Trap if is_breakpoint => {
                    if insns.len() == place + 1 {
                        NONE
                    } else {
                        behind(&live)
                    }
                }
                _ => ALL,
            };
            let now = if may_fault[place] { ALL } else { reads | then & !writes };
            changed |= core::mem::replace(&mut live[place], now) != now;
        }
    }
    live
}

#[cfg(test)]
mod tests;
