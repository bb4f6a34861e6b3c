//! Decodes PowerPC instructions: length and control flow. Every word decodes; [`super::rules`] refuses those that no
//! CPU has.

use super::{LENGTH, Set};
use crate::insn::{Flow, Insn, Undecodable};

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(set: Set, address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let cut = Undecodable { address, truncated: true };
    let first = bytes.get(..LENGTH).ok_or(cut)?;
    let word = set.word(first);
    let bytes = if is_prefix(set, word) { bytes.get(..2 * LENGTH).ok_or(cut)? } else { first };
    Ok(Insn::new(address, bytes, flow(set, address, word)))
}

/// Whether a word is the prefix of a prefixed instruction, which has 8 bytes.
pub fn is_prefix(set: Set, word: u32) -> bool {
    set.is_64() && word >> 26 == 1
}

/// The instruction's word; the prefix, if it has one.
pub fn word(set: Set, insn: &Insn) -> u32 {
    set.word(insn.bytes().get(..LENGTH).unwrap_or_default())
}

/// Instructions with `word & mask == value`, and their control flow.
struct FlowRow {
    mask: u32,
    value: u32,
    flow: fn(address: u64, word: u32) -> Flow,
}

const fn row(mask: u32, value: u32, flow: fn(u64, u32) -> Flow) -> FlowRow {
    FlowRow { mask, value, flow }
}

/// The first row that matches decides.
fn flow(set: Set, address: u64, word: u32) -> Flow {
    // Branches to TAR, which 32-bit CPUs do not have: there they are illegal instructions.
    const BY_TARGET_REGISTER: u32 = 0x4c00_0460;
    if !set.is_64() && word & 0xfc00_07fe == BY_TARGET_REGISTER {
        return Flow::Next;
    }
    let found = FLOWS.iter().find(|row| word & row.mask == row.value).map_or(Flow::Next, |row| (row.flow)(address, word));
    match found {
        Flow::Jump(target) => Flow::Jump(set.cut(target)),
        Flow::Branch(target) => Flow::Branch(set.cut(target)),
        Flow::Call(target) => Flow::Call(set.cut(target)),
        flow => flow,
    }
}

const TRAP: fn(u64, u32) -> Flow = |_, _| Flow::Trap;
const RETURN: fn(u64, u32) -> Flow = |_, _| Flow::Return;
const INDIRECT_JUMP: fn(u64, u32) -> Flow = |_, _| Flow::IndirectJump;
const INDIRECT_BRANCH: fn(u64, u32) -> Flow = |_, _| Flow::IndirectBranch;
const INDIRECT_CALL: fn(u64, u32) -> Flow = |_, _| Flow::IndirectCall;

/// In the BO field, bits 0x14 mean "always". The lowest bit of the word sets the link register.
#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    //  mask         value
    row(0xfc00_0001, 0x4800_0000, |at, word| Flow::Jump(far(at, word))),    // b, ba
    row(0xfc00_0001, 0x4800_0001, |at, word| Flow::Call(far(at, word))),    // bl, bla
    row(0xfc00_0001, 0x4000_0001, |at, word| Flow::Call(near(at, word))),   // bcl, bcla: maybe not taken
    row(0xfe80_0001, 0x4280_0000, |at, word| Flow::Jump(near(at, word))),   // bc, bca: always
    row(0xfc00_0001, 0x4000_0000, |at, word| Flow::Branch(near(at, word))), // bc, bca
    row(0xfc00_07ff, 0x4c00_0021, INDIRECT_CALL),                           // bclrl
    row(0xfe80_07ff, 0x4e80_0020, RETURN),                                  // blr
    row(0xfc00_07ff, 0x4c00_0020, INDIRECT_BRANCH),                         // bclr: beqlr and the like
    row(0xfc00_07ff, 0x4c00_0421, INDIRECT_CALL),                           // bcctrl
    row(0xfe80_07ff, 0x4e80_0420, INDIRECT_JUMP),                           // bctr
    row(0xfc00_07ff, 0x4c00_0420, INDIRECT_BRANCH),                         // bcctr
    row(0xfc00_07ff, 0x4c00_0461, INDIRECT_CALL),                           // bctarl
    row(0xfe80_07ff, 0x4e80_0460, INDIRECT_JUMP),                           // bctar: always
    row(0xfc00_07ff, 0x4c00_0460, INDIRECT_BRANCH),                         // bctar
    row(0xfc00_0000, 0x4400_0000, TRAP),                                    // sc, scv
    row(0xfc00_07fe, 0x4c00_0024, TRAP),                                    // rfid
    row(0xfc00_07fe, 0x4c00_004c, TRAP),                                    // rfmci
    row(0xfc00_07fe, 0x4c00_004e, TRAP),                                    // rfdi
    row(0xfc00_07fe, 0x4c00_0064, TRAP),                                    // rfi
    row(0xfc00_07fe, 0x4c00_0066, TRAP),                                    // rfci
    row(0xfc00_07fe, 0x4c00_00a4, TRAP),                                    // rfscv
    row(0xfc00_07fe, 0x4c00_0124, TRAP),                                    // rfebb
    row(0xfc00_07fe, 0x4c00_0224, TRAP),                                    // hrfid
    row(0xfc00_07fe, 0x4c00_0264, TRAP),                                    // urfid
    row(0xffe0_07fe, 0x7fe0_0008, TRAP),                                    // tw 31: always
    row(0xffe0_07fe, 0x7fe0_0088, TRAP),                                    // td 31
    row(0xffe0_0000, 0x0fe0_0000, TRAP),                                    // twi 31
    row(0xffe0_0000, 0x0be0_0000, TRAP),                                    // tdi 31
    row(0xfc00_0000, 0x0000_0000, TRAP),                                    // attn, and what no CPU has
];

/// The target of `b` and `bl`.
fn far(address: u64, word: u32) -> u64 {
    target(address, word, signed(word & 0x03ff_fffc, 26))
}

/// The target of `bc`.
fn near(address: u64, word: u32) -> u64 {
    target(address, word, signed(word & 0xfffc, 16))
}

/// Bit 1 (AA) makes the value an absolute address.
fn target(address: u64, word: u32, value: i64) -> u64 {
    if word & 2 != 0 { value as u64 } else { address.wrapping_add_signed(value) }
}

/// Sign-extends the low `bits` bits.
pub(super) fn signed(value: u32, bits: u32) -> i64 {
    i64::from(value) << (64 - bits) >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Flow::*;

    const HERE: u64 = 0xc000_0000_0001_0ff0;

    fn flow_of(set: Set, address: u64, word: u32) -> Flow {
        let insn = decode(set, address, &set.bytes(word)).expect("a whole word");
        assert_eq!(insn.length(), 4, "{word:08x}");
        insn.flow
    }

    /// KP-2: displacements at both ends of their range, absolute addresses, and every kind of control flow.
    #[test]
    fn instructions_decode_to_their_target() {
        let at = |distance: i64| HERE.wrapping_add_signed(distance);
        #[rustfmt::skip]
        let cases: &[(&str, u32, Flow)] = &[
            ("b .",                       0x4800_0000, Jump(HERE)),
            ("b, the farthest",           0x49ff_fffc, Jump(at(0x1ff_fffc))),
            ("b, the farthest back",      0x4a00_0000, Jump(at(-0x200_0000))),
            ("ba to 0x100",               0x4800_0102, Jump(0x100)),
            ("ba to the top",             0x4bff_fffe, Jump(0xffff_ffff_ffff_fffc)),
            ("bl .+4",                    0x4800_0005, Call(at(4))),
            ("bl, the farthest back",     0x4a00_0001, Call(at(-0x200_0000))),
            ("bla",                       0x4800_0103, Call(0x100)),
            ("beq .+8",                   0x4182_0008, Branch(at(8))),
            ("bne, the farthest",         0x4082_7ffc, Branch(at(0x7ffc))),
            ("bdnz, the farthest back",   0x4200_8000, Branch(at(-0x8000))),
            ("beqa",                      0x4182_fffe, Branch(0xffff_ffff_ffff_fffc)),
            ("bc 20: always",             0x4280_0008, Jump(at(8))),
            ("bc 31: always",             0x43ff_0008, Jump(at(8))),
            ("bcl 20,31,.+4",             0x429f_0005, Call(at(4))),
            ("beql .+8: maybe not taken", 0x4182_0009, Call(at(8))),
            ("blr",                       0x4e80_0020, Return),
            ("beqlr",                     0x4d82_0020, IndirectBranch),
            ("bdnzlr",                    0x4e00_0020, IndirectBranch),
            ("blrl",                      0x4e80_0021, IndirectCall),
            ("beqlrl",                    0x4d82_0021, IndirectCall),
            ("bctr",                      0x4e80_0420, IndirectJump),
            ("beqctr",                    0x4d82_0420, IndirectBranch),
            ("bctrl",                     0x4e80_0421, IndirectCall),
            ("bctar",                     0x4e80_0460, IndirectJump),
            ("beqtar",                    0x4d82_0460, IndirectBranch),
            ("bctarl",                    0x4e80_0461, IndirectCall),
            ("sc",                        0x4400_0002, Trap),
            ("scv 0",                     0x4400_0001, Trap),
            ("rfid",                      0x4c00_0024, Trap),
            ("rfmci",                     0x4c00_004c, Trap),
            ("rfdi",                      0x4c00_004e, Trap),
            ("rfi",                       0x4c00_0064, Trap),
            ("rfci",                      0x4c00_0066, Trap),
            ("rfscv",                     0x4c00_00a4, Trap),
            ("rfebb 1",                   0x4c00_0924, Trap),
            ("hrfid",                     0x4c00_0224, Trap),
            ("urfid",                     0x4c00_0264, Trap),
            ("trap",                      0x7fe0_0008, Trap),
            ("td 31",                     0x7fe4_1888, Trap),
            ("twi 31",                    0x0fe3_0000, Trap),
            ("tdi 31",                    0x0be3_0000, Trap),
            ("no instruction",            0x0000_0000, Trap),
            ("attn",                      0x0000_0200, Trap),
            ("tweq: may not trap",        0x7c83_2008, Next),
            ("tdnei: may not trap",       0x0b03_0000, Next),
            ("stop",                      0x4c00_02e4, Next),
            ("isync",                     0x4c00_012c, Next),
            ("addpcis",                   0x4c60_0004, Next),
            ("mtmsrd",                    0x7d41_0164, Next),
            ("nop",                       0x6000_0000, Next),
            ("std r0,16(r1)",             0xf801_0010, Next),
        ];
        for (what, word, expected) in cases {
            assert_eq!(flow_of(Set::Little64, HERE, *word), *expected, "{what}");
            assert_eq!(flow_of(Set::Big64, HERE, *word), *expected, "{what}");
        }
    }

    /// KP-2: an instruction that the CPU does not have raises an exception, so it has no target.
    #[test]
    fn branches_to_tar_need_64_bits() {
        for word in [0x4e80_0460, 0x4d82_0460, 0x4e80_0461] {
            assert_eq!(flow_of(Set::Big32, HERE & 0xffff_fffc, word), Next, "{word:08x}");
        }
    }

    /// KP-2: targets of 32-bit branches wrap.
    #[test]
    fn addresses_of_32_bits_wrap() {
        assert_eq!(flow_of(Set::Big32, 0xffff_fff8, 0x4800_0010), Jump(8));
        assert_eq!(flow_of(Set::Big32, 8, 0x4182_fff0), Branch(0xffff_fff8));
        assert_eq!(flow_of(Set::Big32, HERE & 0xffff_fffc, 0x4bff_ffff), Call(0xffff_fffc));
    }

    /// KP-5: a prefix and its suffix are one instruction on 64-bit CPUs.
    #[test]
    fn a_prefixed_instruction_has_two_words() {
        for set in [Set::Little64, Set::Big64] {
            let bytes = [set.bytes(0x0610_0000), set.bytes(0x3860_0010), set.bytes(0)].concat();
            let insn = decode(set, HERE, &bytes).expect("both words");
            assert_eq!((insn.length(), insn.flow), (8, Next));
            assert_eq!(insn.bytes(), &bytes[..8]);
            assert_eq!(decode(set, HERE, &bytes[..7]), Err(Undecodable { address: HERE, truncated: true }));
        }
        assert_eq!(flow_of(Set::Big32, 0xc000_0000, 0x0610_0000), Next);
    }

    /// KP-5
    #[test]
    fn truncated_bytes_do_not_decode() {
        for set in [Set::Big32, Set::Big64, Set::Little64] {
            for length in 0..LENGTH {
                assert_eq!(decode(set, HERE, &[0x60; LENGTH][..length]), Err(Undecodable { address: HERE, truncated: true }));
            }
        }
    }
}
