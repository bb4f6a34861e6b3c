//! Decodes AArch64 instructions: control flow. Every word decodes; [`super::rules`] refuses those that no CPU has.

use super::LENGTH;
use crate::insn::{Flow, Insn, Undecodable};

/// Decodes one instruction at the start of `bytes`, which may be longer than it.
pub fn decode(address: u64, bytes: &[u8]) -> Result<Insn, Undecodable> {
    let bytes = bytes.get(..LENGTH).ok_or(Undecodable { address, truncated: true })?;
    Ok(Insn::new(address, bytes, flow(address, word_of(bytes))))
}

/// The instruction as a number; 0, which is `udf`, if it does not have 4 bytes.
pub fn word(insn: &Insn) -> u32 {
    word_of(insn.bytes())
}

fn word_of(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_le_bytes)
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

fn flow(address: u64, word: u32) -> Flow {
    FLOWS.iter().find(|row| word & row.mask == row.value).map_or(Flow::Next, |row| (row.flow)(address, word))
}

/// The first row that matches decides.
#[rustfmt::skip]
static FLOWS: &[FlowRow] = &[
    //  mask         value
    row(0xfc00_0000, 0x1400_0000, |at, word| Flow::Jump(target_26(at, word))),   // b
    row(0xfc00_0000, 0x9400_0000, |at, word| Flow::Call(target_26(at, word))),   // bl
    row(0xff00_000e, 0x5400_000e, |at, word| Flow::Jump(target_19(at, word))),   // b.al, b.nv: always
    row(0xff00_0000, 0x5400_0000, |at, word| Flow::Branch(target_19(at, word))), // b.cond, bc.cond
    row(0x7e00_0000, 0x3400_0000, |at, word| Flow::Branch(target_19(at, word))), // cbz, cbnz
    row(0x7e00_0000, 0x3600_0000, |at, word| Flow::Branch(target_14(at, word))), // tbz, tbnz
    row(0xffff_fc1f, 0xd61f_0000, |_, _| Flow::IndirectJump),                    // br
    row(0xffff_fc1f, 0xd63f_0000, |_, _| Flow::IndirectCall),                    // blr
    row(0xffff_fc1f, 0xd65f_0000, |_, _| Flow::Return),                          // ret
    row(0xfeff_f800, 0xd61f_0800, |_, _| Flow::IndirectJump),                    // braa, brab, braaz, brabz
    row(0xfeff_f800, 0xd63f_0800, |_, _| Flow::IndirectCall),                    // blraa, blrab, blraaz, blrabz
    row(0xffff_fbff, 0xd65f_0bff, |_, _| Flow::Return),                          // retaa, retab
    row(0xff00_0000, 0xd500_0000, |_, _| Flow::Next),                            // system instructions, hints, barriers
    row(0x1c00_0000, 0x1400_0000, |_, _| Flow::Trap),                            // eret, svc, brk.., and what no CPU has
    row(0xffff_0000, 0x0000_0000, |_, _| Flow::Trap),                            // udf
];

/// The target of `b` and `bl`.
fn target_26(address: u64, word: u32) -> u64 {
    displaced(address, word, 0, 26, 2)
}

/// The target of `b.cond`, `cbz` and literal loads.
pub(super) fn target_19(address: u64, word: u32) -> u64 {
    displaced(address, word, 5, 19, 2)
}

/// The target of `tbz`.
fn target_14(address: u64, word: u32) -> u64 {
    displaced(address, word, 5, 14, 2)
}

/// The result of `adr` or `adrp`. The two low bits of the displacement are apart from the others.
pub(super) fn address_of(address: u64, word: u32) -> u64 {
    let distance = signed(word, 5, 19) << 2 | i64::from(word >> 29 & 3);
    match word >> 31 {
        0 => address.wrapping_add_signed(distance),
        _ => (address & !0xfff).wrapping_add_signed(distance << 12),
    }
}

fn displaced(address: u64, word: u32, low: u32, bits: u32, scale: u32) -> u64 {
    address.wrapping_add_signed(signed(word, low, bits) << scale)
}

/// The signed number in `bits` bits from bit `low` on.
fn signed(word: u32, low: u32, bits: u32) -> i64 {
    i64::from(word << (32 - low - bits)) << 32 >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0xffff_8000_0801_0ff0;

    /// KP-2: displacements at both ends of their range, and every kind of control flow.
    #[test]
    fn instructions_decode_to_their_target() {
        use Flow::*;
        let at = |distance: i64| HERE.wrapping_add_signed(distance);
        #[rustfmt::skip]
        let cases: &[(&str, u32, Flow)] = &[
            ("b .",                     0x1400_0000, Jump(HERE)),
            ("b, the farthest",         0x15ff_ffff, Jump(at(0x7ff_fffc))),
            ("b, the farthest back",    0x1600_0000, Jump(at(-0x800_0000))),
            ("bl .+4",                  0x9400_0001, Call(at(4))),
            ("bl, the farthest back",   0x9600_0000, Call(at(-0x800_0000))),
            ("b.eq .+8",                0x5400_0040, Branch(at(8))),
            ("b.le, the farthest",      0x547f_ffed, Branch(at(0xf_fffc))),
            ("bc.eq .-0x100000",        0x5480_0010, Branch(at(-0x10_0000))),
            ("b.al: always taken",      0x5400_004e, Jump(at(8))),
            ("cbz w0, .-4",             0x34ff_ffe0, Branch(at(-4))),
            ("cbnz x30, the farthest",  0xb57f_fffe, Branch(at(0xf_fffc))),
            ("tbz w1, #0, .+4",         0x3600_0021, Branch(at(4))),
            ("tbz x1, #63, farthest",   0xb6fb_ffe1, Branch(at(0x7ffc))),
            ("tbnz, the farthest back", 0x3704_0003, Branch(at(-0x8000))),
            ("br x16",                  0xd61f_0200, IndirectJump),
            ("blr x8",                  0xd63f_0100, IndirectCall),
            ("ret",                     0xd65f_03c0, Return),
            ("ret x5",                  0xd65f_00a0, Return),
            ("braa x0, x1",             0xd71f_0801, IndirectJump),
            ("brabz x0",                0xd61f_0c1f, IndirectJump),
            ("blraaz x0",               0xd63f_081f, IndirectCall),
            ("retab",                   0xd65f_0fff, Return),
            ("eret",                    0xd69f_03e0, Trap),
            ("eretaa",                  0xd69f_0bff, Trap),
            ("drps",                    0xd6bf_03e0, Trap),
            ("svc #0",                  0xd400_0001, Trap),
            ("brk #0x800",              0xd421_0000, Trap),
            ("udf #0",                  0x0000_0000, Trap),
            ("cbgt: newer CPUs only",   0x7400_0000, Trap),
            ("nop",                     0xd503_201f, Next),
            ("msr daifset, #2",         0xd503_42df, Next),
            ("adr x0, .",               0x1000_0000, Next),
            ("ldr x0, .",               0x5800_0000, Next),
            ("add x0, x0, #1",          0x9100_0400, Next),
        ];
        for (what, word, expected) in cases {
            let insn = decode(HERE, &word.to_le_bytes()).expect("a whole word");
            assert_eq!((insn.flow, insn.length()), (*expected, 4), "{what}");
        }
    }

    /// KP-5
    #[test]
    fn truncated_bytes_do_not_decode() {
        for length in 0..LENGTH {
            assert_eq!(decode(HERE, &[0x1f; LENGTH][..length]), Err(Undecodable { address: HERE, truncated: true }));
        }
    }

    /// KP-2: the parts of the displacement of `adr` and `adrp`.
    #[test]
    fn adr_and_adrp_compute_addresses_and_pages() {
        let page = HERE & !0xfff;
        #[rustfmt::skip]
        let cases: &[(&str, u32, u64)] = &[
            ("adr x0, .+1",             0x3000_0000, HERE + 1),
            ("adr x0, .+4",             0x1000_0020, HERE + 4),
            ("adr, the farthest",       0x707f_ffe0, HERE + 0xf_ffff),
            ("adr, the farthest back",  0x1080_0000, HERE - 0x10_0000),
            ("adrp x0, .",              0x9000_0000, page),
            ("adrp x0, three pages on", 0xf000_0000, page + 0x3000),
            ("adrp, the farthest",      0xf07f_ffe0, page + 0xffff_f000),
            ("adrp, the farthest back", 0x9080_0000, page - 0x1_0000_0000),
        ];
        for (what, word, expected) in cases {
            assert_eq!(address_of(HERE, *word), *expected, "{what}");
        }
    }
}
