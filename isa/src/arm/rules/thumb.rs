//! The Thumb tables of rules: 16-bit, then 32-bit. The last row of most groups refuses the rest of the
//! group.

use super::a32::{nothing, target};
use super::*;
use crate::arm::emulate::ALWAYS;

#[rustfmt::skip]
pub(super) static T16: &[RuleRow] = &[
    //     mask    value   registers  Linux 6.1     best
    both  (0xc000, 0x0000, b"----", Copy),                                        // shifts, add, sub, mov, cmp of low registers
    both  (0xfc00, 0x4000, b"----", Copy),                                        // other operations on low registers
    refuse(0xfff8, 0x47f8, &REGISTERS),                                           // blx pc
    both  (0xff07, 0x4700, b"----", Compute(exchange)),                           // bx, blx
    row   (0xff00, 0x4700, b"----", Compute(exchange), Refuse(&UNKNOWN)),         // bx, blx with other fixed bits
    refuse(0xffff, 0x44ff, &REGISTERS),                                           // add pc, pc
    both  (0xfc78, 0x4478, b"----", Compute(high)),                               // add, cmp, mov whose second register is the pc
    both  (0xfc87, 0x4487, b"----", Compute(high)),                               // add, cmp, mov whose first register is the pc
    both  (0xfc00, 0x4400, b"----", Copy),                                        // add, cmp, mov of other registers
    both  (0xf800, 0x4800, b"----", Compute(literal_16)),                         // ldr of a literal
    both  (0xc000, 0x4000, b"----", Copy),                                        // ldr, str
    both  (0xf000, 0x8000, b"----", Copy),                                        // ldrh, strh
    row   (0xf000, 0x9000, b"----", Compute(on_stack), Copy),                     // ldr, str on the stack
    both  (0xf800, 0xa000, b"----", Compute(address_16)),                         // adr
    row   (0xf800, 0xa800, b"----", Compute(stack_address), Copy),                // add of sp
    row   (0xff00, 0xb000, b"----", Compute(stack_pointer), Copy),                // add, sub to sp
    both  (0xf500, 0xb100, b"----", Compute(compare)),                            // cbz, cbnz
    refuse(0xffc0, 0xba80, &UNKNOWN),
    both  (0xf500, 0xb000, b"----", Copy),                                        // sxt, uxt, rev
    both  (0xff00, 0xbd00, b"----", Compute(pop)),                                // pop with the pc
    both  (0xfe00, 0xbc00, b"----", Copy),                                        // pop
    both  (0xfe00, 0xb400, b"----", Copy),                                        // push
    row   (0xffff, 0xbf10, b"----", Copy, Compute(nothing)),                      // yield
    row   (0xffff, 0xbf40, b"----", Copy, Compute(nothing)),                      // sev
    row   (0xffff, 0xbf30, b"----", Compute(nothing), Refuse(&WAIT)),             // wfi
    both  (0xffcf, 0xbf00, b"----", Compute(nothing)),                            // nop, wfe
    best  (0xff0f, 0xbf00, &HINT, Copy),
    both  (0xff00, 0xbf00, b"----", Compute(if_then)),                            // it
    best  (0xffef, 0xb662, &STATUS, Compute(mask)),                               // cpsie i, cpsid i
    best  (0xffe8, 0xb660, &STATUS, Step),                                        // cpsie, cpsid of a or f
    refuse(0xffff, 0xb650, &STATE),                                               // setend
    refuse(0xffff, 0xb658, &STATE),
    refuse(0xff00, 0xbe00, &UNDEFINED),                                           // bkpt
    refuse(0xf000, 0xb000, &UNKNOWN),
    both  (0xf000, 0xc000, b"----", Copy),                                        // ldm, stm
    refuse(0xff00, 0xde00, &UNDEFINED),                                           // udf
    refuse(0xff00, 0xdf00, &EXCEPTION),                                           // svc
    both  (0xf000, 0xd000, b"----", Compute(jump_16)),                            // b on a condition
    both  (0xf800, 0xe000, b"----", Compute(jump)),                               // b
];

#[rustfmt::skip]
pub(super) static T32: &[RuleRow] = &[
    //     mask         value        registers  Linux 6.1     best
    // many registers
    refuse(0xfe4f_0000, 0xe80f_0000, &REGISTERS),
    refuse(0xffc0_0000, 0xe800_0000, &RETURN),                                    // srs, rfe
    refuse(0xffc0_0000, 0xe980_0000, &RETURN),
    refuse(0xfe50_8000, 0xe800_8000, &REGISTERS),                                 // stm with the pc
    refuse(0xfe50_c000, 0xe810_c000, &REGISTERS),                                 // ldm with lr and the pc
    refuse(0xfe40_2000, 0xe800_2000, &REGISTERS),                                 // ldm, stm with sp
    both  (0xfe50_8000, 0xe810_8000, b"----", Compute(block)),                    // ldm with the pc
    both  (0xfe40_0000, 0xe800_0000, b"----", Copy),                              // ldm, stm
    // two registers, exclusives, branches by a table
    both  (0xff60_0000, 0xe860_0000, b"wxx-", Either(pair)),                      // ldrd, strd
    both  (0xff40_0000, 0xe940_0000, b"wxx-", Either(pair)),
    both  (0xfff0_ffe0, 0xe8d0_f000, b"s--x", Compute(table)),                    // tbb, tbh
    row   (0xfff0_00e0, 0xe8d0_0000, b"s--x", Compute(table), Refuse(&UNKNOWN)),
    row   (0xffe0_00c0, 0xe8c0_0080, b"px--", Refuse(&EXCLUSIVE), Copy),          // lda, stl: not exclusive
    refuse(0xfe40_0000, 0xe840_0000, &EXCLUSIVE),
    // data processing of a shifted register
    both  (0xff70_0f00, 0xea10_0f00, b"x--x", Copy),                              // tst, teq
    both  (0xfff0_0f00, 0xeb10_0f00, b"p--x", Copy),                              // cmn
    both  (0xfff0_0f00, 0xebb0_0f00, b"p--x", Copy),                              // cmp
    both  (0xffcf_0000, 0xea4f_0000, b"--xx", Copy),                              // mov, mvn
    refuse(0xffa0_0000, 0xeaa0_0000, &UNKNOWN),
    refuse(0xffe0_0000, 0xeb20_0000, &UNKNOWN),
    refuse(0xffe0_0000, 0xeb80_0000, &UNKNOWN),
    refuse(0xffe0_0000, 0xebe0_0000, &UNKNOWN),
    both  (0xff4f_7f30, 0xeb0d_0d00, b"S-Sx", Copy),                              // add, sub to sp
    refuse(0xff4f_0f00, 0xeb0d_0d00, &REGISTERS),
    both  (0xff4f_0000, 0xeb0d_0000, b"S-px", Copy),                              // add, sub of sp
    both  (0xfe00_0000, 0xea00_0000, b"x-xx", Copy),
    // coprocessors: `best` looks at the rows of A32
    best  (0xef00_0000, 0xef00_0000, &COPROCESSOR, Copy),                         // SIMD
    refuse(0xfc00_0000, 0xec00_0000, &COPROCESSOR),
    // data processing of a shifted immediate of 8 bits
    both  (0xfb70_8f00, 0xf010_0f00, b"x---", Copy),                              // tst, teq
    both  (0xfbf0_8f00, 0xf110_0f00, b"p---", Copy),                              // cmn
    both  (0xfbf0_8f00, 0xf1b0_0f00, b"p---", Copy),                              // cmp
    both  (0xfbcf_8000, 0xf04f_0000, b"--x-", Copy),                              // mov, mvn
    refuse(0xfbe0_8000, 0xf0a0_0000, &UNKNOWN),
    refuse(0xfbc0_8000, 0xf0c0_0000, &UNKNOWN),
    refuse(0xfbe0_8000, 0xf120_0000, &UNKNOWN),
    refuse(0xfbe0_8000, 0xf180_0000, &UNKNOWN),
    refuse(0xfbe0_8000, 0xf1e0_0000, &UNKNOWN),
    both  (0xfb4f_8000, 0xf10d_0000, b"S-p-", Copy),                              // add, sub of sp
    both  (0xfa00_8000, 0xf000_0000, b"x-x-", Copy),
    // data processing of a plain immediate
    both  (0xfbff_8000, 0xf20f_0000, b"P-x-", Compute(address_32)),               // adr
    both  (0xfbff_8000, 0xf2af_0000, b"P-x-", Compute(address_32)),
    both  (0xfbff_8f00, 0xf20d_0d00, b"S-S-", Copy),                              // addw, subw to sp
    both  (0xfbff_8f00, 0xf2ad_0d00, b"S-S-", Copy),
    both  (0xfbf0_8000, 0xf200_0000, b"p-x-", Copy),                              // addw
    both  (0xfbf0_8000, 0xf2a0_0000, b"p-x-", Copy),                              // subw
    both  (0xfb70_8000, 0xf240_0000, b"--x-", Copy),                              // movw, movt
    both  (0xfb50_8000, 0xf300_0000, b"x-x-", Copy),                              // ssat, usat
    both  (0xfb70_8000, 0xf340_0000, b"x-x-", Copy),                              // sbfx, ubfx
    both  (0xfbff_8000, 0xf36f_0000, b"--x-", Copy),                              // bfc
    both  (0xfbf0_8000, 0xf360_0000, b"x-x-", Copy),                              // bfi
    refuse(0xfa00_8000, 0xf200_0000, &UNKNOWN),
    // branches, control
    row   (0xffff_ffff, 0xf3af_8001, b"----", Copy, Compute(nothing)),            // yield
    row   (0xfff0_d7ff, 0xf3a0_8001, b"----", Copy, Refuse(&UNKNOWN)),
    row   (0xffff_ffff, 0xf3af_8004, b"----", Copy, Compute(nothing)),            // sev
    row   (0xfff0_d7ff, 0xf3a0_8004, b"----", Copy, Refuse(&UNKNOWN)),
    row   (0xfff0_d7ff, 0xf3a0_8003, b"----", Compute(nothing), Refuse(&WAIT)),   // wfi
    both  (0xffff_fffd, 0xf3af_8000, b"----", Compute(nothing)),                  // nop, wfe
    row   (0xfff0_d7fc, 0xf3a0_8000, b"----", Compute(nothing), Refuse(&UNKNOWN)),
    both  (0xffff_f0ff, 0xf3ef_8000, b"--x-", Compute(read_status)),              // mrs of the CPSR
    row   (0xfff0_d000, 0xf3e0_8000, b"--x-", Compute(read_status), Refuse(&UNKNOWN)),
    best  (0xfff0_d700, 0xf3a0_8000, &HINT, Copy),
    best  (0xfff0_d0f0, 0xf3b0_8020, &BARRIER, Copy),                             // clrex
    best  (0xfff0_d0c0, 0xf3b0_8040, &BARRIER, Copy),                             // dsb, dmb, isb, sb
    row   (0xfff0_f0ff, 0xf380_8000, b"x---", Refuse(&STATUS), Step),             // msr to the CPSR
    refuse(0xffd0_d000, 0xf390_8000, &TRAP_STATE),                                // msr to, mrs of the SPSR
    refuse(0xfff0_d000, 0xf3f0_8000, &TRAP_STATE),
    refuse(0xfff0_d000, 0xf3d0_8000, &RETURN),                                    // subs pc, lr
    refuse(0xfff0_f000, 0xf7f0_a000, &UNDEFINED),                                 // udf
    refuse(0xffe0_f000, 0xf7e0_8000, &EXCEPTION),                                 // hvc, smc
    refuse(0xfb80_d000, 0xf380_8000, &STATE),
    both  (0xf800_d000, 0xf000_8000, b"----", Compute(jump_32)),                  // b on a condition
    both  (0xf800_d001, 0xf000_c000, b"----", Compute(jump)),                     // blx
    both  (0xf800_9000, 0xf000_9000, b"----", Compute(jump)),                     // b, bl
    refuse(0xf800_8000, 0xf000_8000, &UNKNOWN),
    row   (0xff10_0000, 0xf900_0000, b"p---", Refuse(&COPROCESSOR), Copy),        // SIMD loads and stores
    // hints about memory
    both  (0xfe7f_f000, 0xf81f_f000, b"----", Compute(nothing)),                  // pld, pli of a literal
    both  (0xffd0_f000, 0xf890_f000, b"p---", Compute(nothing)),
    both  (0xffd0_ff00, 0xf810_fc00, b"p---", Compute(nothing)),
    both  (0xfff0_f000, 0xf990_f000, b"p---", Compute(nothing)),
    both  (0xfff0_ff00, 0xf910_fc00, b"p---", Compute(nothing)),
    both  (0xffd0_ffc0, 0xf810_f000, b"p--x", Compute(nothing)),
    both  (0xfff0_ffc0, 0xf910_f000, b"p--x", Compute(nothing)),
    refuse(0xfe50_f000, 0xf810_f000, &UNKNOWN),
    // loads and stores of one register
    refuse(0xfe60_0000, 0xf860_0000, &UNKNOWN),
    refuse(0xfff0_0000, 0xf950_0000, &UNKNOWN),
    refuse(0xfe80_0d00, 0xf800_0800, &UNKNOWN),
    row   (0xfe80_0f00, 0xf800_0e00, b"px--", Refuse(&UNPRIVILEGED), Copy),       // ldrt, strt
    refuse(0xff1f_0000, 0xf80f_0000, &REGISTERS),                                 // a store to a literal
    refuse(0xff10_f000, 0xf800_f000, &REGISTERS),                                 // a store of the pc
    both  (0xff7f_0000, 0xf85f_0000, b"----", Compute(literal_word)),             // ldr of a literal
    both  (0xffe0_0800, 0xf840_0800, b"pa--", Either(transfer_8)),                // ldr, str
    both  (0xffe0_0000, 0xf8c0_0000, b"pa--", Either(transfer_12)),
    both  (0xffe0_0fc0, 0xf840_0000, b"pa-x", Either(transfer_register)),
    both  (0xfe5f_0000, 0xf81f_0000, b"-x--", Compute(literal_part)),             // ldrb, ldrsb, ldrh, ldrsh of a literal
    both  (0xfec0_0800, 0xf800_0800, b"px--", Copy),                              // bytes and halfwords
    both  (0xfec0_0000, 0xf880_0000, b"px--", Copy),
    both  (0xfe80_0fc0, 0xf800_0000, b"px-x", Copy),
    refuse(0xfe00_0000, 0xf800_0000, &UNKNOWN),
    // data processing of registers
    refuse(0xffe0_f080, 0xfa60_f080, &UNKNOWN),
    refuse(0xff80_f0b0, 0xfa80_f030, &UNKNOWN),
    refuse(0xffb0_f080, 0xfab0_f000, &UNKNOWN),
    both  (0xff8f_f080, 0xfa0f_f080, b"--xx", Copy),                              // sxt, uxt
    both  (0xff80_f080, 0xfa80_f000, b"x-xx", Copy),                              // parallel add and subtract
    both  (0xff80_f080, 0xfa00_f080, b"x-xx", Copy),                              // sxta, uxta
    both  (0xfff0_f0c0, 0xfa80_f080, b"x-xx", Copy),                              // qadd, qsub, qdadd, qdsub
    both  (0xfff0_f0f0, 0xfaa0_f080, b"x-xx", Copy),                              // sel
    both  (0xff80_f0f0, 0xfa00_f000, b"x-xx", Copy),                              // shifts by a register
    both  (0xfff0_f0f0, 0xfab0_f080, b"x-x=", Copy),                              // clz
    both  (0xfff0_f0c0, 0xfa90_f080, b"x-x=", Copy),                              // rev, rev16, rbit, revsh
    refuse(0xff00_f000, 0xfa00_f000, &UNKNOWN),
    // multiplication
    refuse(0xfff0_f0f0, 0xfb00_f010, &UNKNOWN),
    refuse(0xfff0_f0f0, 0xfb70_f010, &UNKNOWN),
    refuse(0xfff0_00f0, 0xfb70_0010, &UNKNOWN),
    both  (0xfff0_f0c0, 0xfb10_f000, b"x-xx", Copy),                              // smul of halves
    row   (0xfff0_f0c0, 0xfb60_f000, b"x-xx", Copy, Refuse(&REGISTERS)),          // smmls, which has no form without an addend
    both  (0xff80_f0e0, 0xfb00_f000, b"x-xx", Copy),                              // mul, smuad, smulw, smusd, smmul, usad8
    both  (0xfff0_00c0, 0xfb10_0000, b"xxxx", Copy),                              // smla of halves
    both  (0xff80_00c0, 0xfb00_0000, b"xxxx", Copy),                              // mla, mls, smlad, smlaw, smlsd, smmla, smmls, usada8
    refuse(0xff80_0000, 0xfb00_0000, &UNKNOWN),
    // long multiplication, division
    both  (0xfff0_00f0, 0xfbe0_0060, b"xxxx", Copy),                              // umaal
    both  (0xfff0_00c0, 0xfbc0_0080, b"xxxx", Copy),                              // smlal of halves
    both  (0xffe0_00e0, 0xfbc0_00c0, b"xxxx", Copy),                              // smlald, smlsld
    both  (0xff90_00f0, 0xfb80_0000, b"xxxx", Copy),                              // smull, umull, smlal, umlal
    row   (0xffd0_f0f0, 0xfb90_f0f0, b"x-xx", Refuse(&DIVIDE), Copy),             // sdiv, udiv
    refuse(0xff80_0000, 0xfb80_0000, &UNKNOWN),
    refuse(0xfc00_0000, 0xfc00_0000, &UNKNOWN),
];

/// The pc as literal loads use it: aligned down to 4.
fn aligned(insn: &Insn) -> u32 {
    (insn.address as u32).wrapping_add(Set::Thumb.bias()) & !3
}

fn jump_on(insn: &Insn, condition: u8, links: bool, exchanges: bool) -> Computation {
    Computation::Jump { condition, links, exchanges, target: target(insn) }
}

fn jump_16(insn: &Insn, word: u32) -> Computation {
    jump_on(insn, (word >> 8) as u8 & 15, false, false)
}

fn jump_32(insn: &Insn, word: u32) -> Computation {
    jump_on(insn, (word >> 22) as u8 & 15, false, false)
}

/// Branches without a condition: `b` (16 and 32 bits), `bl`, `blx`.
fn jump(insn: &Insn, word: u32) -> Computation {
    let is_wide = insn.bytes().len() == crate::arm::LENGTH;
    jump_on(insn, ALWAYS, is_wide && word >> 14 & 1 != 0, is_wide && word >> 12 & 1 == 0)
}

fn exchange(_: &Insn, word: u32) -> Computation {
    Computation::Exchange { register: (word >> 3) as u8 & 15, links: word >> 7 & 1 != 0 }
}

fn compare(insn: &Insn, word: u32) -> Computation {
    Computation::Compare { register: word as u8 & 7, if_not: word >> 11 & 1 != 0, target: target(insn) }
}

fn if_then(_: &Insn, word: u32) -> Computation {
    Computation::IfThen(word as u8)
}

fn mask(_: &Insn, word: u32) -> Computation {
    let masks = (word & 7) << 6;
    if word >> 4 & 1 == 0 { Computation::Unmask(masks) } else { Computation::Mask(masks) }
}

fn read_status(_: &Insn, word: u32) -> Computation {
    Computation::ReadStatus((word >> 8) as u8 & 15)
}

/// `add`, `cmp` and `mov` of high registers.
fn high(_: &Insn, word: u32) -> Computation {
    let (second, first) = (word >> 3 & 15, word >> 4 & 8 | word & 7);
    let operation = match word >> 8 & 3 {
        0 => 0xe080_0000 | first << 16 | first << 12,
        1 => 0xe150_0000 | first << 16,
        _ => 0xe1a0_0000 | first << 12,
    };
    Computation::Alu(operation | second)
}

fn literal_16(insn: &Insn, word: u32) -> Computation {
    let from = aligned(insn).wrapping_add((word & 0xff) << 2);
    Computation::Literal { register: (word >> 8) as u8 & 7, bytes: 4, is_signed: false, from }
}

fn address_16(insn: &Insn, word: u32) -> Computation {
    Computation::Address { register: (word >> 8) as u8 & 7, value: aligned(insn).wrapping_add((word & 0xff) << 2) }
}

fn on_stack(_: &Insn, word: u32) -> Computation {
    Computation::Transfer(0xe58d_0000 | (word >> 11 & 1) << 20 | (word >> 8 & 7) << 12 | (word & 0xff) << 2)
}

/// In A32 an immediate shifted left by 2 is one rotated right by 30.
fn stack_address(_: &Insn, word: u32) -> Computation {
    Computation::Alu(0xe28d_0f00 | (word >> 8 & 7) << 12 | word & 0xff)
}

fn stack_pointer(_: &Insn, word: u32) -> Computation {
    let operation = if word >> 7 & 1 == 0 { 0xe28d_df00 } else { 0xe24d_df00 };
    Computation::Alu(operation | word & 0x7f)
}

fn pop(_: &Insn, word: u32) -> Computation {
    Computation::Block(0xe8bd_8000 | word & 0xff)
}

/// T32 and A32 have the same bits for this instruction.
fn block(_: &Insn, word: u32) -> Computation {
    Computation::Block(0xe800_0000 | word & 0x01bf_ffff)
}

fn pair(insn: &Insn, word: u32) -> Computation {
    let offset = (word & 0xff) << 2;
    let at = if word >> 23 & 1 != 0 { aligned(insn).wrapping_add(offset) } else { aligned(insn).wrapping_sub(offset) };
    let (low, high) = ((word >> 12) as u8 & 15, (word >> 8) as u8 & 15);
    if word >> 20 & 1 == 0 { Computation::StorePair { low, high, to: at } } else { Computation::LoadPair { low, high, from: at } }
}

fn table(_: &Insn, word: u32) -> Computation {
    Computation::Table { base: (word >> 16) as u8 & 15, index: word as u8 & 15, has_halfwords: word >> 4 & 1 != 0 }
}

/// The immediate has three parts.
fn address_32(insn: &Insn, word: u32) -> Computation {
    let offset = (word >> 26 & 1) << 11 | (word >> 12 & 7) << 8 | word & 0xff;
    let value = if word >> 23 & 1 == 0 { aligned(insn).wrapping_add(offset) } else { aligned(insn).wrapping_sub(offset) };
    Computation::Address { register: (word >> 8) as u8 & 15, value }
}

fn literal_word(_: &Insn, word: u32) -> Computation {
    Computation::Transfer(0xe51f_0000 | word & 0x0080_ffff)
}

fn literal_part(insn: &Insn, word: u32) -> Computation {
    let offset = word & 0xfff;
    let from = if word >> 23 & 1 != 0 { aligned(insn).wrapping_add(offset) } else { aligned(insn).wrapping_sub(offset) };
    let (size, is_signed) = (1 + (word >> 21 & 1), word >> 24 & 1 != 0);
    Computation::Literal { register: (word >> 12) as u8 & 15, bytes: size as u8, is_signed, from }
}

/// An offset of 8 bits, before or after the access, with or without write-back.
fn transfer_8(_: &Insn, word: u32) -> Computation {
    let (is_pre, is_up, is_written_back) = (word >> 10 & 1, word >> 9 & 1, word >> 8 & word >> 10 & 1);
    Computation::Transfer(0xe400_0000 | is_pre << 24 | is_up << 23 | is_written_back << 21 | word & 0x001f_f0ff)
}

fn transfer_12(_: &Insn, word: u32) -> Computation {
    Computation::Transfer(0xe580_0000 | word & 0x001f_ffff)
}

/// The offset is a register shifted left by 0 to 3.
fn transfer_register(_: &Insn, word: u32) -> Computation {
    Computation::Transfer(0xe780_0000 | word & 0x001f_f00f | (word >> 4 & 3) << 7)
}
