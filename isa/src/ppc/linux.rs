//! The PowerPC instructions that Linux 6.1 replaces by a jump. Used by [`Policy::Linux`](crate::plan::Policy).
//!
//! Linux's detours emulate the displaced instruction. So these are the instructions that Linux can emulate from
//! registers alone (`analyse_instr` returns 1), except conditional branches. Loads, stores and instructions that set
//! the overflow bit are not among them.

use super::decode::word;
use super::rules::{mfspr, mtspr, x};
use super::{LENGTH, Set};
use crate::insn::Insn;

/// Whether Linux 6.1, on a CPU with ISA 3.0, replaces the instruction by a jump.
pub fn optimises(set: Set, insn: &Insn) -> bool {
    let word = word(set, insn);
    let matches = |row: &JumpRow| word & row.mask == row.value && (set.is_64() || !row.only_64);
    insn.length() == LENGTH as u64 && TABLE.iter().any(matches)
}

struct JumpRow {
    mask: u32,
    value: u32,
    only_64: bool,
}

const fn row(mask: u32, value: u32) -> JumpRow {
    JumpRow { mask, value, only_64: false }
}

const fn only_64(mask: u32, value: u32) -> JumpRow {
    JumpRow { mask, value, only_64: true }
}

/// Mask of primary and extended opcode.
const X: u32 = 0xfc00_07fe;
const SPR: u32 = 0xfc1f_fffe;

#[rustfmt::skip]
static TABLE: &[JumpRow] = &[
    //      mask         value
    row    (0xfc00_0000, 0x4800_0000), // b, bl, ba, bla
    row    (X,           x(19, 0)),    // mcrf
    row    (X,           x(19, 33)),   // crnor
    row    (X,           x(19, 129)),  // crandc
    row    (X,           x(19, 150)),  // isync
    row    (X,           x(19, 193)),  // crxor
    row    (X,           x(19, 225)),  // crnand
    row    (X,           x(19, 257)),  // crand
    row    (X,           x(19, 289)),  // creqv
    row    (X,           x(19, 417)),  // crorc
    row    (X,           x(19, 449)),  // cror
    only_64(0xfc00_003e, 0x4c00_0004), // addpcis
    only_64(0xfc00_003f, 0x1000_0030), // maddhd
    only_64(0xfc00_003f, 0x1000_0031), // maddhdu
    only_64(0xfc00_003f, 0x1000_0033), // maddld
    row    (0xfc00_0000, 7 << 26),     // mulli
    row    (0xfc00_0000, 8 << 26),     // subfic
    row    (0xfc00_0000, 10 << 26),    // cmpli
    row    (0xfc00_0000, 11 << 26),    // cmpi
    row    (0xfc00_0000, 12 << 26),    // addic
    row    (0xfc00_0000, 13 << 26),    // addic.
    row    (0xfc00_0000, 14 << 26),    // addi
    row    (0xfc00_0000, 15 << 26),    // addis
    row    (0xfc00_0000, 20 << 26),    // rlwimi
    row    (0xfc00_0000, 21 << 26),    // rlwinm
    row    (0xfc00_0000, 23 << 26),    // rlwnm
    row    (0xfc00_0000, 24 << 26),    // ori
    row    (0xfc00_0000, 25 << 26),    // oris
    row    (0xfc00_0000, 26 << 26),    // xori
    row    (0xfc00_0000, 27 << 26),    // xoris
    row    (0xfc00_0000, 28 << 26),    // andi.
    row    (0xfc00_0000, 29 << 26),    // andis.
    only_64(0xfc00_0010, 30 << 26),    // rldicl, rldicr, rldic, rldimi
    only_64(0xfc00_001e, 0x7800_0010), // rldcl
    only_64(0xfc00_001e, 0x7800_0012), // rldcr
    row    (0xfc00_003e, 0x7c00_001e), // isel
    row    (X,           x(31, 19)),   // mfcr, mfocrf
    row    (X,           x(31, 144)),  // mtcrf, mtocrf
    row    (SPR,         mfspr(1)),    // mfxer
    row    (SPR,         mfspr(8)),    // mflr
    row    (SPR,         mfspr(9)),    // mfctr
    row    (SPR,         mtspr(1)),    // mtxer
    row    (SPR,         mtspr(8)),    // mtlr
    row    (SPR,         mtspr(9)),    // mtctr
    row    (X,           x(31, 598)),  // sync, lwsync, ptesync
    row    (X,           x(31, 854)),  // eieio
    row    (X,           x(31, 0)),    // cmp
    row    (X,           x(31, 32)),   // cmpl
    row    (X,           x(31, 508)),  // cmpb
    only_64(X,           x(31, 128)),  // setb
    row    (X,           x(31, 8)),    // subfc
    only_64(X,           x(31, 9)),    // mulhdu
    row    (X,           x(31, 10)),   // addc
    row    (X,           x(31, 11)),   // mulhwu
    row    (X,           x(31, 40)),   // subf
    only_64(X,           x(31, 73)),   // mulhd
    row    (X,           x(31, 75)),   // mulhw
    row    (X,           x(31, 104)),  // neg
    row    (X,           x(31, 136)),  // subfe
    row    (X,           x(31, 138)),  // adde
    row    (X,           x(31, 200)),  // subfze
    row    (X,           x(31, 202)),  // addze
    row    (X,           x(31, 232)),  // subfme
    only_64(X,           x(31, 233)),  // mulld
    row    (X,           x(31, 234)),  // addme
    row    (X,           x(31, 235)),  // mullw
    only_64(X,           x(31, 265)),  // modud
    row    (X,           x(31, 266)),  // add
    only_64(X,           x(31, 267)),  // moduw
    only_64(X,           x(31, 393)),  // divdeu
    only_64(X,           x(31, 425)),  // divde
    only_64(X,           x(31, 457)),  // divdu
    row    (X,           x(31, 459)),  // divwu
    only_64(X,           x(31, 489)),  // divd
    row    (X,           x(31, 491)),  // divw
    only_64(X | 3 << 16, x(31, 755)),               // darn 0
    only_64(X | 3 << 16, x(31, 755) | 1 << 16),     // darn 1
    only_64(X | 3 << 16, x(31, 755) | 2 << 16),     // darn 2
    only_64(X,           x(31, 777)),  // modsd
    only_64(X,           x(31, 779)),  // modsw
    row    (X,           x(31, 26)),   // cntlzw
    only_64(X,           x(31, 58)),   // cntlzd
    row    (X,           x(31, 28)),   // and
    row    (X,           x(31, 60)),   // andc
    row    (X,           x(31, 122)),  // popcntb
    row    (X,           x(31, 124)),  // nor
    row    (X,           x(31, 154)),  // prtyw
    row    (X,           x(31, 186)),  // prtyd
    only_64(X,           x(31, 252)),  // bpermd
    row    (X,           x(31, 284)),  // eqv
    row    (X,           x(31, 316)),  // xor
    row    (X,           x(31, 378)),  // popcntw
    row    (X,           x(31, 412)),  // orc
    row    (X,           x(31, 444)),  // or
    row    (X,           x(31, 476)),  // nand
    only_64(X,           x(31, 506)),  // popcntd
    only_64(X,           x(31, 538)),  // cnttzw
    only_64(X,           x(31, 570)),  // cnttzd
    row    (X,           x(31, 922)),  // extsh
    row    (X,           x(31, 954)),  // extsb
    only_64(X,           x(31, 986)),  // extsw
    row    (X,           x(31, 24)),   // slw
    only_64(X,           x(31, 27)),   // sld
    row    (X,           x(31, 536)),  // srw
    only_64(X,           x(31, 539)),  // srd
    row    (X,           x(31, 792)),  // sraw
    only_64(X,           x(31, 794)),  // srad
    row    (X,           x(31, 824)),  // srawi
    only_64(X,           x(31, 826)),  // sradi
    only_64(X,           x(31, 827)),  // sradi of 32 and more
    only_64(X,           x(31, 890)),  // extswsli
    only_64(X,           x(31, 891)),  // extswsli of 32 and more
];
