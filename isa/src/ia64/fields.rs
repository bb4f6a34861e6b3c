//! The fields of IA-64 instructions. The manual counts bits from the lowest, which is bit 0.

/// Bits `high` to `low` of a slot, both included.
pub const fn bits(word: u64, high: u32, low: u32) -> u64 {
    word >> low & (u64::MAX >> (63 - (high - low)))
}

/// Bits `high` to `low` of a slot as the number of a register or another small number, at most 8 bits.
pub const fn small(word: u64, high: u32, low: u32) -> u8 {
    bits(word, high, low) as u8
}

/// Whether a bit is set.
pub const fn has(word: u64, bit: u32) -> bool {
    word >> bit & 1 != 0
}

/// Sign-extends a field of `width` bits.
pub const fn signed(field: u64, width: u32) -> i64 {
    (field << (64 - width)) as i64 >> (64 - width)
}

/// The major opcode.
pub const fn opcode(word: u64) -> u32 {
    bits(word, 40, 37) as u32
}

/// The immediate of 8 bits: its sign is bit 36.
pub const fn imm8(word: u64) -> i64 {
    signed(bits(word, 36, 36) << 7 | bits(word, 19, 13), 8)
}

/// The immediate of 14 bits of `adds` and `addp4`.
pub const fn imm14(word: u64) -> i64 {
    signed(bits(word, 36, 36) << 13 | bits(word, 32, 27) << 7 | bits(word, 19, 13), 14)
}

/// The immediate of 22 bits of `addl`.
pub const fn imm22(word: u64) -> i64 {
    signed(bits(word, 36, 36) << 21 | bits(word, 26, 22) << 16 | bits(word, 35, 27) << 7 | bits(word, 19, 13), 22)
}

/// The immediate of `break`, `nop` and `hint`, without the bits that only `break.x` has.
pub const fn imm21(word: u64) -> u64 {
    bits(word, 36, 36) << 20 | bits(word, 25, 6)
}

/// The distance in bytes of a branch, a prediction, or `chk.a`.
pub const fn distance_of_branch(word: u64) -> i64 {
    signed(bits(word, 36, 36) << 20 | bits(word, 32, 13), 21) << 4
}

/// The distance in bytes of `chk.s`.
pub const fn distance_of_check(word: u64) -> i64 {
    signed(bits(word, 36, 36) << 20 | bits(word, 32, 20) << 7 | bits(word, 12, 6), 21) << 4
}

/// The distance in bytes of `fchkf`.
pub const fn distance_of_flags(word: u64) -> i64 {
    signed(imm21(word), 21) << 4
}

/// The distance in bytes of `brl`, whose middle part is in the bundle's slot 1.
pub const fn distance_of_long(word: u64, long: u64) -> i64 {
    ((bits(word, 36, 36) << 59 | bits(long, 40, 2) << 20 | bits(word, 32, 13)) << 4) as i64
}

/// The immediate of `movl`, whose middle part is in the bundle's slot 1.
pub const fn imm64(word: u64, long: u64) -> u64 {
    bits(word, 36, 36) << 63
        | bits(long, 40, 0) << 22
        | bits(word, 21, 21) << 21
        | bits(word, 26, 22) << 16
        | bits(word, 35, 27) << 7
        | bits(word, 19, 13)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: scattered immediates have the values that the assembler was given.
    #[test]
    fn scattered_fields_are_put_together() {
        assert_eq!(signed(0x80, 8), -128);
        assert_eq!(signed(0x7f, 8), 127);
        assert_eq!(bits(0x1ff_ffff_ffff, 40, 0), 0x1ff_ffff_ffff);
        assert_eq!(imm14(1 << 36), -8192);
        assert_eq!(imm22(1 << 36 | 0x1f << 22 | 0x1ff << 27 | 0x7f << 13), -1);
        assert_eq!(distance_of_branch(1 << 36), -(1 << 24));
        assert_eq!(distance_of_branch(1 << 13), 16);
        assert_eq!(distance_of_check(1 << 6), 16);
        assert_eq!(distance_of_long(1 << 36, 0), i64::MIN);
        assert_eq!(imm64(0, 1), 1 << 22);
        assert_eq!(imm64(1 << 36 | 1 << 21, 0), 1 << 63 | 1 << 21);
    }
}
