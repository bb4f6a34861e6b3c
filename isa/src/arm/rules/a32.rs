//! The A32 table of rules, in the groups of the architecture manual. The last row of most groups refuses the rest of
//! the group.

use super::*;
use crate::arm::emulate;

#[rustfmt::skip]
pub(super) static TABLE: &[RuleRow] = &[
    //     mask         value        registers  Linux 6.1     best
    // unconditional instructions
    both  (0xff30_f000, 0xf510_f000, b"----", Compute(nothing)),                  // pld, pldw
    both  (0xff70_f000, 0xf450_f000, b"----", Compute(nothing)),                  // pli
    both  (0xff30_f010, 0xf710_f000, b"----", Compute(nothing)),
    both  (0xff70_f010, 0xf650_f000, b"----", Compute(nothing)),
    row   (0xfe30_0000, 0xf410_0000, b"----", Compute(nothing), Refuse(&UNKNOWN)), // hints that do not exist
    row   (0xfe30_0010, 0xf610_0000, b"----", Compute(nothing), Refuse(&UNKNOWN)),
    both  (0xfe00_0000, 0xfa00_0000, b"----", Compute(jump)),                     // blx
    best  (0xffff_ffff, 0xf57f_f01f, &BARRIER, Copy),                             // clrex
    best  (0xffff_ffc0, 0xf57f_f040, &BARRIER, Copy),                             // dsb, dmb, isb, sb
    best  (0xfffb_ff7f, 0xf108_0000, &STATUS, Compute(mask)),                     // cpsie i, cpsid i
    best  (0xfffb_fe3f, 0xf108_0000, &STATUS, Step),                              // cpsie, cpsid of a, f: secure code may forbid
    refuse(0xfff1_fe20, 0xf100_0000, &STATE),                                     // cps: another mode
    refuse(0xffff_fdff, 0xf101_0000, &STATE),                                     // setend
    refuse(0xfe00_0000, 0xf800_0000, &RETURN),                                    // srs, rfe
    best  (0xfe00_0000, 0xf200_0000, &COPROCESSOR, Copy),                         // SIMD
    row   (0xff10_0000, 0xf400_0000, b"p---", Refuse(&COPROCESSOR), Copy),        // SIMD loads and stores
    refuse(0xf000_0000, 0xf000_0000, &UNKNOWN),
    // miscellaneous instructions
    both  (0x0fff_0fff, 0x010f_0000, b"-p--", Compute(read_status)),              // mrs of the CPSR
    row   (0x0ff0_00f0, 0x0100_0000, b"-p--", Compute(read_status), Refuse(&UNKNOWN)), // mrs with other fixed bits, as below
    both  (0x0fff_fff0, 0x012f_ff10, b"---a", Compute(exchange)),                 // bx
    row   (0x0ff0_00f0, 0x0120_0010, b"---a", Compute(exchange), Refuse(&UNKNOWN)),
    both  (0x0fff_fff0, 0x012f_ff30, b"---p", Compute(exchange)),                 // blx
    row   (0x0ff0_00f0, 0x0120_0030, b"---p", Compute(exchange), Refuse(&UNKNOWN)),
    both  (0x0ff0_00f0, 0x0160_0010, b"-p-p", Copy),                              // clz
    both  (0x0f90_00f0, 0x0100_0050, b"pp-p", Copy),                              // qadd, qsub, qdadd, qdsub
    row   (0x0ff0_fff0, 0x0120_f000, b"---p", Refuse(&STATUS), Step),             // msr to the CPSR
    refuse(0x0fb0_00f0, 0x0120_0000, &TRAP_STATE),                                // msr to the SPSR
    refuse(0x0ff0_00f0, 0x0140_0000, &TRAP_STATE),                                // mrs of the SPSR
    refuse(0x0ff0_00f0, 0x0120_0070, &UNDEFINED),                                 // bkpt
    refuse(0x0f90_00f0, 0x0100_0070, &EXCEPTION),                                 // hvc, smc
    refuse(0x0ff0_00f0, 0x0160_0060, &RETURN),                                    // eret
    refuse(0x0f90_0080, 0x0100_0000, &UNKNOWN),
    // multiplication of halfwords
    both  (0x0ff0_0090, 0x0140_0080, b"pppp", Copy),                              // smlal of halves
    both  (0x0ff0_00b0, 0x0120_00a0, b"p-pp", Copy),                              // smulw
    both  (0x0ff0_0090, 0x0160_0080, b"p-pp", Copy),                              // smul of halves
    both  (0x0ff0_0090, 0x0100_0080, b"pppp", Copy),                              // smla of halves
    both  (0x0ff0_00b0, 0x0120_0080, b"pppp", Copy),                              // smlaw
    refuse(0x0f90_0090, 0x0100_0080, &UNKNOWN),
    // multiplication of words
    both  (0x0fe0_00f0, 0x0000_0090, b"p-pp", Copy),                              // mul
    both  (0x0fe0_00f0, 0x0020_0090, b"pppp", Copy),                              // mla
    both  (0x0ff0_00f0, 0x0060_0090, b"pppp", Copy),                              // mls
    both  (0x0ff0_00f0, 0x0040_0090, b"pppp", Copy),                              // umaal
    both  (0x0f80_00f0, 0x0080_0090, b"pppp", Copy),                              // umull, umlal, smull, smlal
    refuse(0x0f00_00f0, 0x0000_0090, &UNKNOWN),
    // synchronisation
    row   (0x0f90_0ff0, 0x0190_0c90, b"pp--", Refuse(&EXCLUSIVE), Copy),          // lda: acquiring, not exclusive
    row   (0x0f90_0ff0, 0x0180_0c90, b"p--p", Refuse(&EXCLUSIVE), Copy),          // stl
    refuse(0x0f80_00f0, 0x0180_0090, &EXCLUSIVE),                                 // ldrex, strex of all sizes
    refuse(0x0f00_00f0, 0x0100_0090, &UNKNOWN),                                   // swp, which no ARMv7 kernel has
    // loads and stores of halfwords, of signed values and of two words
    row   (0x0f60_0090, 0x0020_0090, b"pp-p", Refuse(&UNPRIVILEGED), Copy),       // strht, ldrht, ldrsbt, ldrsht
    row   (0x0f60_0090, 0x0060_0090, b"pp--", Refuse(&UNPRIVILEGED), Copy),
    refuse(0x0e10_e0d0, 0x0000_e0d0, &REGISTERS),                                 // ldrd, strd of the pc
    row   (0x0e50_10d0, 0x0000_10d0, b"wp-p", Either(extra), Refuse(&REGISTERS)), // ldrd, strd from an odd register on
    row   (0x0e50_10d0, 0x0040_10d0, b"wp--", Either(extra), Refuse(&REGISTERS)),
    both  (0x0e50_0fd0, 0x0000_00d0, b"wp-p", Either(extra)),                     // ldrd, strd
    row   (0x0e50_00d0, 0x0000_00d0, b"wp-p", Either(extra), Refuse(&UNKNOWN)),
    both  (0x0e50_00d0, 0x0040_00d0, b"wp--", Either(extra)),
    both  (0x0e50_0ff0, 0x0000_00b0, b"wp-p", Either(extra)),                     // strh
    row   (0x0e50_00f0, 0x0000_00b0, b"wp-p", Either(extra), Refuse(&UNKNOWN)),
    both  (0x0e50_00f0, 0x0040_00b0, b"wp--", Either(extra)),
    both  (0x0e50_0f90, 0x0010_0090, b"wp-p", Either(extra)),                     // ldrh, ldrsb, ldrsh
    row   (0x0e50_0090, 0x0010_0090, b"wp-p", Either(extra), Refuse(&UNKNOWN)),
    both  (0x0e50_0090, 0x0050_0090, b"wp--", Either(extra)),
    refuse(0x0e00_0090, 0x0000_0090, &UNKNOWN),
    // data processing of registers
    refuse(0x0e10_f000, 0x0010_f000, &RETURN),                                    // movs pc: return from an exception
    row   (0xffff_ffff, 0xe1a0_c00d, b"----", Compute(alu), Copy),                // mov ip, sp
    both  (0x0f90_f010, 0x0110_0000, b"a--a", Either(alu)),                       // tst, teq, cmp, cmn
    row   (0x0f90_0010, 0x0110_0000, b"a--a", Either(alu), Refuse(&UNKNOWN)),
    both  (0x0faf_0010, 0x01a0_0000, b"-a-a", Either(alu)),                       // mov, mvn, shifts
    row   (0x0fa0_0010, 0x01a0_0000, b"-a-a", Either(alu), Refuse(&UNKNOWN)),
    both  (0x0e00_0010, 0x0000_0000, b"aa-a", Either(alu)),
    both  (0x0f90_0090, 0x0110_0010, b"p-pp", Copy),                              // tst, teq, cmp, cmn, shifted by a register
    both  (0x0fa0_0090, 0x01a0_0010, b"-ppp", Copy),
    both  (0x0e00_0090, 0x0000_0010, b"pppp", Copy),
    refuse(0x0e00_0000, 0x0000_0000, &UNKNOWN),
    // data processing of immediates, hints
    both  (0x0fb0_0000, 0x0300_0000, b"-p--", Copy),                              // movw, movt
    row   (0x0fff_ffff, 0x0320_f001, b"----", Copy, Compute(nothing)),            // yield: one CPU runs at a time
    row   (0x0fff_00ff, 0x0320_0001, b"----", Copy, Refuse(&UNKNOWN)),
    row   (0x0fff_ffff, 0x0320_f004, b"----", Copy, Compute(nothing)),            // sev
    row   (0x0fff_00ff, 0x0320_0004, b"----", Copy, Refuse(&UNKNOWN)),
    row   (0x0fff_00ff, 0x0320_0003, b"----", Compute(nothing), Refuse(&WAIT)),   // wfi
    both  (0x0fff_fffc, 0x0320_f000, b"----", Compute(nothing)),                  // nop, wfe
    row   (0x0fff_00fc, 0x0320_0000, b"----", Compute(nothing), Refuse(&UNKNOWN)),
    best  (0x0fff_0000, 0x0320_0000, &HINT, Copy),                                // csdb, dbg
    best  (0x0ff0_0000, 0x0320_0000, &STATUS, Step),                              // msr to the CPSR
    refuse(0x0fb0_0000, 0x0320_0000, &TRAP_STATE),                                // msr to the SPSR
    refuse(0x0e10_f000, 0x0210_f000, &RETURN),
    both  (0x0f90_f000, 0x0310_0000, b"a---", Either(alu)),                       // tst, teq, cmp, cmn
    row   (0x0f90_0000, 0x0310_0000, b"a---", Either(alu), Refuse(&UNKNOWN)),
    both  (0x0faf_0000, 0x03a0_0000, b"-a--", Either(alu)),                       // mov, mvn
    row   (0x0fa0_0000, 0x03a0_0000, b"-a--", Either(alu), Refuse(&UNKNOWN)),
    both  (0x0e00_0000, 0x0200_0000, b"aa--", Either(alu)),                       // all others, with adr
    // media: saturating, parallel and packing
    both  (0x0ff0_00f0, 0x0680_00b0, b"pp-p", Copy),                              // sel
    both  (0x0fa0_0030, 0x06a0_0010, b"-p-p", Copy),                              // ssat, usat
    both  (0x0fb0_00f0, 0x06a0_0030, b"-p-p", Copy),                              // ssat16, usat16
    both  (0x0fb0_0070, 0x06b0_0030, b"-p-p", Copy),                              // rev, rev16, rbit, revsh
    refuse(0x0fb0_0010, 0x0600_0010, &UNKNOWN),
    refuse(0x0f80_00f0, 0x0600_00b0, &UNKNOWN),
    refuse(0x0f80_00f0, 0x0600_00d0, &UNKNOWN),
    both  (0x0f80_0010, 0x0600_0010, b"pp-p", Copy),                              // parallel add and subtract
    both  (0x0ff0_0030, 0x0680_0010, b"pp-p", Copy),                              // pkh
    refuse(0x0fb0_00f0, 0x0690_0070, &UNKNOWN),
    both  (0x0f8f_00f0, 0x068f_0070, b"-p-p", Copy),                              // sxt, uxt
    both  (0x0f80_00f0, 0x0680_0070, b"pp-p", Copy),                              // sxta, uxta
    refuse(0x0f00_0010, 0x0600_0010, &UNKNOWN),
    // media: multiplication, division and bit fields
    refuse(0x0ff0_00f0, 0x07f0_00f0, &UNDEFINED),                                 // udf
    both  (0x0ff0_0090, 0x0740_0010, b"pppp", Copy),                              // smlald, smlsld
    both  (0x0ff0_f090, 0x0700_f010, b"p-pp", Copy),                              // smuad, smusd
    both  (0x0ff0_f0d0, 0x0750_f010, b"p-pp", Copy),                              // smmul
    both  (0x0ff0_f0f0, 0x0780_f010, b"p-pp", Copy),                              // usad8
    both  (0x0ff0_0090, 0x0700_0010, b"pppp", Copy),                              // smlad, smlsd
    both  (0x0ff0_00d0, 0x0750_0010, b"pppp", Copy),                              // smmla
    both  (0x0ff0_00f0, 0x0780_0010, b"pppp", Copy),                              // usada8
    both  (0x0ff0_00d0, 0x0750_00d0, b"pppp", Copy),                              // smmls
    both  (0x0fa0_0070, 0x07a0_0050, b"-p-p", Copy),                              // sbfx, ubfx
    both  (0x0fe0_007f, 0x07c0_001f, b"-p--", Copy),                              // bfc
    both  (0x0fe0_0070, 0x07c0_0010, b"-p-p", Copy),                              // bfi
    row   (0x0fd0_f0f0, 0x0710_f010, b"p-pp", Refuse(&DIVIDE), Copy),             // sdiv, udiv
    refuse(0x0f00_0010, 0x0700_0010, &UNKNOWN),
    // loads and stores of words and bytes
    refuse(0x0c40_f000, 0x0440_f000, &REGISTERS),                                 // ldrb, strb of the pc
    row   (0x0f20_0000, 0x0420_0000, b"pp--", Refuse(&UNPRIVILEGED), Copy),       // ldrt, strt, ldrbt, strbt
    row   (0x0f20_0000, 0x0620_0000, b"pp-p", Refuse(&UNPRIVILEGED), Copy),
    both  (0x0e10_0000, 0x0400_0000, b"wa--", Either(transfer)),                  // str, strb
    both  (0x0e10_0000, 0x0600_0000, b"wa-p", Either(transfer)),
    both  (0x0e10_0000, 0x0410_0000, b"wa--", Either(transfer)),                  // ldr, ldrb
    both  (0x0e10_0000, 0x0610_0000, b"wa-p", Either(transfer)),
    // loads and stores of many registers, branches
    row   (0x0e4f_0000, 0x080f_0000, b"----", Compute(block), Refuse(&REGISTERS)), // ldm, stm at the pc
    both  (0x0e40_8000, 0x0800_0000, b"a---", Either(block)),                     // ldm, stm without the pc
    both  (0x0e40_8000, 0x0800_8000, b"----", Compute(block)),                    // ldm, stm with the pc
    row   (0x0e40_8000, 0x0840_0000, b"p---", Refuse(&RETURN), Copy),             // ldm, stm of user space's registers
    refuse(0x0e40_8000, 0x0840_8000, &RETURN),
    both  (0x0e00_0000, 0x0a00_0000, b"----", Compute(jump)),                     // b, bl
    // coprocessors and system calls, which are all remaining words
    refuse(0x0f00_0000, 0x0f00_0000, &EXCEPTION),                                 // svc
    refuse(0x0f3f_0e00, 0x0d1f_0a00, &LITERAL),                                   // vldr of a literal
    row   (0x0fe0_0ed0, 0x0c40_0a10, b"pp--", Refuse(&COPROCESSOR), Copy),        // vmov of two registers
    row   (0x0e00_0e00, 0x0c00_0a00, b"p---", Refuse(&COPROCESSOR), Copy),        // vector loads and stores
    best  (0x0f00_0e10, 0x0e00_0a00, &COPROCESSOR, Copy),                         // vector operations
    best  (0x0fef_0f10, 0x0ee1_0a10, &COPROCESSOR, Copy),                         // vmrs, vmsr of FPSCR
    refuse(0x0fe0_0f10, 0x0ee0_0a10, &STATE),                                     // vmrs, vmsr of other registers
    row   (0x0f00_0e10, 0x0e00_0a10, b"-p--", Refuse(&COPROCESSOR), Copy),        // vmov
    best  (0x0f10_0f10, 0x0e10_0f10, &COPROCESSOR, Copy),                         // mrc p15
    refuse(0x0fff_0fff, 0x0e07_0f90, &WAIT),                                      // mcr p15, c7, c0, 4: wfi
    row   (0x0f1f_0f10, 0x0e03_0f10, b"-p--", Refuse(&COPROCESSOR), Step),        // mcr p15, c3: domains
    row   (0x0f1f_0f10, 0x0e07_0f10, b"-p--", Refuse(&COPROCESSOR), Step),        // mcr p15, c7: caches, barriers
    row   (0x0f1f_0f10, 0x0e08_0f10, b"-p--", Refuse(&COPROCESSOR), Step),        // mcr p15, c8: TLBs
    row   (0x0f1f_0f10, 0x0e0d_0f10, b"-p--", Refuse(&COPROCESSOR), Step),        // mcr p15, c13: thread pointers, context
    row   (0x0f1f_0f10, 0x0e0e_0f10, b"-p--", Refuse(&COPROCESSOR), Step),        // mcr p15, c14: timers
    refuse(0x0f10_0f10, 0x0e00_0f10, &STATE),                                     // any other mcr p15
    row   (0x0ff0_0f00, 0x0c50_0f00, b"pp--", Refuse(&COPROCESSOR), Copy),        // mrrc p15
    refuse(0x0ff0_0f00, 0x0c40_0f00, &STATE),                                     // mcrr p15
    refuse(0x0c00_0000, 0x0c00_0000, &COPROCESSOR),
];

pub(super) fn nothing(_: &Insn, _: u32) -> Computation {
    Computation::Nothing
}

/// b, bl and blx.
fn jump(insn: &Insn, word: u32) -> Computation {
    let exchanges = word >> 28 == 15;
    let links = exchanges || word >> 24 & 1 != 0;
    Computation::Jump { condition: emulate::ALWAYS, links, exchanges, target: target(insn) }
}

/// The target of a branch, a 32-bit address.
pub(super) fn target(insn: &Insn) -> u32 {
    insn.flow.target().unwrap_or(insn.address) as u32
}

fn exchange(_: &Insn, word: u32) -> Computation {
    Computation::Exchange { register: word as u8 & 15, links: word >> 5 & 1 != 0 }
}

fn read_status(_: &Insn, word: u32) -> Computation {
    Computation::ReadStatus((word >> 12) as u8 & 15)
}

fn mask(_: &Insn, word: u32) -> Computation {
    let masks = word & emulate::MASKS;
    if word >> 18 & 1 == 0 { Computation::Unmask(masks) } else { Computation::Mask(masks) }
}

fn alu(_: &Insn, word: u32) -> Computation {
    Computation::Alu(word)
}

fn transfer(_: &Insn, word: u32) -> Computation {
    Computation::Transfer(word)
}

fn extra(_: &Insn, word: u32) -> Computation {
    Computation::Extra(word)
}

fn block(_: &Insn, word: u32) -> Computation {
    Computation::Block(word)
}
