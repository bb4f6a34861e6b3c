//! The fields of PA-RISC instructions. The manual counts bits from the highest, which is bit 0.

/// Bits `from` to `to` of a word, as the manual counts them.
pub const fn bits(word: u32, from: u32, to: u32) -> u32 {
    word >> (31 - to) & (u32::MAX >> (31 - (to - from)))
}

/// The opcode.
pub const fn opcode(word: u32) -> u32 {
    word >> 26
}

/// A number in a field of `width` bits whose lowest bit is the sign.
pub const fn low_sign(field: u32, width: u32) -> i32 {
    let sign = (field & 1).wrapping_neg();
    (sign << (width - 1) | field >> 1) as i32
}

/// A 5-bit number with its sign in the lowest bit, from the low end of `field`.
pub const fn signed5(field: u32) -> i32 {
    low_sign(field & 31, 5)
}

/// An 11-bit number with its sign in the lowest bit.
pub const fn signed11(word: u32) -> i32 {
    low_sign(word & 0x7ff, 11)
}

/// A 14-bit number with its sign in the lowest bit.
pub const fn signed14(word: u32) -> i32 {
    low_sign(word & 0x3fff, 14)
}

/// The two scattered parts at the low end of every branch: 10 bits of words, and the bit above them.
const fn low_words(word: u32) -> u32 {
    let w2 = bits(word, 19, 29);
    (w2 & 1) << 10 | w2 >> 1
}

/// Distance in bytes of a branch of 12 bits.
pub const fn distance12(word: u32) -> i32 {
    ((((word & 1).wrapping_neg()) << 11 | low_words(word)) << 2) as i32
}

/// Distance in bytes of a branch of 17 bits.
pub const fn distance17(word: u32) -> i32 {
    ((((word & 1).wrapping_neg()) << 16 | bits(word, 11, 15) << 11 | low_words(word)) << 2) as i32
}

/// Distance in bytes of a branch of 22 bits.
pub const fn distance22(word: u32) -> i32 {
    ((((word & 1).wrapping_neg()) << 21 | bits(word, 6, 15) << 11 | low_words(word)) << 2) as i32
}

/// Encodes a distance of 17 bits; `None` if it is too far.
pub const fn with_distance17(word: u32, distance: i64) -> Option<u32> {
    if distance & 3 != 0 || distance < -(1 << 18) || distance >= 1 << 18 {
        return None;
    }
    let words = (distance >> 2) as u32;
    Some(word | words >> 16 & 1 | (words >> 11 & 31) << 16 | (words >> 10 & 1) << 2 | (words & 0x3ff) << 3)
}

/// The immediate of `ldil` and `addil`: 21 bits, shifted to the top of a word.
pub const fn left21(word: u32) -> u32 {
    let x = word & 0x1f_ffff;
    ((x & 1) << 20 | (x & 0xffe) << 8 | (x & 0xc000) >> 7 | (x & 0x1f_0000) >> 14 | (x & 0x3000) >> 12) << 11
}

/// The space register of a far branch or of `mfsp` and `mtsp`; its highest bit stands last.
pub const fn space3(word: u32) -> u32 {
    bits(word, 16, 17) | bits(word, 18, 18) << 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-2: scattered immediates, checked against binutils' view of these words.
    #[test]
    fn scattered_fields_are_put_together() {
        assert_eq!(signed14(0x37de_0080), 64, "ldo 64(sp),sp");
        assert_eq!(signed14(0x6bc2_3fd9), -20, "stw rp,-20(sp)");
        assert_eq!(left21(0x2040_1000), 0x1000_0000_u32.wrapping_mul(0) + left21(0x1000), "only the low 21 bits count");
        assert_eq!(distance17(0xe840_0000), 0);
        for distance in [0_i64, 4, -4, 1024, 4096, -4096, 8 << 10, (1 << 18) - 4, -(1 << 18)] {
            let word = with_distance17(0xe800_0002, distance).expect("in reach");
            assert_eq!(i64::from(distance17(word)), distance);
            assert_eq!(word & !0x001f_1ffd, 0xe800_0002);
        }
        for distance in [1 << 18, -(1 << 18) - 4, 2] {
            assert_eq!(with_distance17(0xe800_0002, distance), None);
        }
    }
}
