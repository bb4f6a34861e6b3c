//! Operation codes of s390x: where an instruction has its code, and which codes exist on machines up to the z16.

use super::fields::byte;
use alloc::vec::Vec;

/// The length of an instruction, by its first byte.
pub const fn length(first: u8) -> usize {
    match first >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

/// The place of the second part of an operation code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// None: the code is the first byte.
    None,
    /// In the second byte.
    Second,
    /// In the low half of the second byte.
    SecondLow,
    /// In the sixth byte.
    Sixth,
}

const fn rest(first: u8) -> Rest {
    match first {
        0x01 | 0xb2 | 0xb3 | 0xb9 | 0xe5 => Rest::Second,
        0xa5 | 0xa7 | 0xc0 | 0xc2 | 0xc4 | 0xc6 | 0xc8 | 0xcc => Rest::SecondLow,
        0xe3 | 0xe6 | 0xe7 | 0xeb | 0xec | 0xed => Rest::Sixth,
        _ => Rest::None,
    }
}

/// The operation code: the first byte, then its second part or 0.
pub fn code(bytes: &[u8]) -> u16 {
    let first = byte(bytes, 0);
    let rest = match rest(first) {
        Rest::None => 0,
        Rest::Second => byte(bytes, 1),
        Rest::SecondLow => byte(bytes, 1) & 15,
        Rest::Sixth => byte(bytes, 5),
    };
    u16::from(first) << 8 | u16::from(rest)
}

/// An instruction with an operation code, whose other bits come from `free`.
pub fn with_code(code: u16, free: u64) -> Vec<u8> {
    let [first, second] = code.to_be_bytes();
    let mut bytes = free.to_le_bytes()[..length(first)].to_vec();
    let place = match rest(first) {
        Rest::None => None,
        Rest::Second => Some((1, second)),
        Rest::SecondLow => Some((1, byte(&bytes, 1) & 0xf0 | second & 15)),
        Rest::Sixth => Some((5, second)),
    };
    for (at, value) in [Some((0, first)), place].into_iter().flatten() {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
    bytes
}

/// Whether some machine has an instruction with this code.
pub fn is_known(code: u16) -> bool {
    let [first, second] = code.to_be_bytes();
    match rest(first) {
        Rest::None => second == 0 && bit(&ONE_BYTE, first),
        _ => TWO_BYTES.iter().find(|(byte, _)| *byte == first).is_some_and(|(_, rows)| bit(rows, second)),
    }
}

/// Tests one bit of a 256-bit bitmap: 16 bits per row, highest bit first. Missing rows are zero.
fn bit(rows: &[u16], byte: u8) -> bool {
    rows.get(usize::from(byte >> 4)).is_some_and(|row| row & 0x8000 >> (byte & 15) != 0)
}

#[rustfmt::skip]
const ONE_BYTE: [u16; 16] = [
    //0123456789abcdef
    0b0000111100111111, // SPM BALR BCTR BCR, SVC BSM BASSM BASR MVCL CLCL
    0b1111111111111111,
    0b1111111111111111,
    0b1111111111111111,
    0b1111111111111111,
    0b1100111111111111,
    0b1000000111111111,
    0b1100000011111111,
    0b1011111111111111, // but 81
    0b1111111111110000,
    0b0000000011001111, // MVCLE CLCLE, STNSM STOSM SIGP MC
    0b0100001100110111, // LRA STCTL LCTL CS CDS CLM STCM ICM
    0b0000010100000000, // BPRP BPP
    0b1111111101111111,
    0b0110000011100011, // PKU UNPKU MVCIN PKA UNPKA PLO LMD
    0b1111000011111100,
];

/// The second parts that exist, as bitmaps, by first byte.
#[rustfmt::skip]
const TWO_BYTES: &[(u8, &[u16])] = &[
    (0x01, &[0x693e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0001]),
    (0xa5, &[0xffff]),
    (0xa7, &[0xffff]),
    (0xb2, &[0xeff4, 0xe8e0, 0xffff, 0xfff8, 0xcfff, 0xafa7, 0x1000, 0x0bcc, 0x8f03, 0x004c, 0x0f00, 0xe0c4, 0, 0, 0xcc8c, 0x00a9]),
    (0xb3, &[0xffff, 0xffff, 0x0e03, 0x03ff, 0xfffc, 0xd1d1, 0xf740, 0xff01, 0x0c08, 0xeeee, 0xeeee, 0x0ee0, 0x4ee4, 0xffff, 0xfdfd, 0x7f7f]),
    (0xb9, &[0xffff, 0xfbff, 0xc7ff, 0xc0fb, 0x7270, 0x7070, 0xcf00, 0x3f00, 0xfff7, 0xffff, 0xe83b, 0xf007, 0x80f5, 0xbef5, 0xfffc, 0xaff4]),
    (0xc0, &[0xcfff]),
    (0xc2, &[0xccff]),
    (0xc4, &[0x2f9f]),
    (0xc6, &[0xafaf]),
    (0xc8, &[0xec00]),
    (0xcc, &[0x02b5]),
    (0xe3, &[0x3aff, 0x3fff, 0xce23, 0xeafb, 0x03cc, 0xdffb, 0, 0xf7f8, 0xffc3, 0xcfcd, 0, 0, 0xbbb5, 0x8800]),
    (0xe5, &[0xe023, 0, 0, 0, 0x0888, 0x0ccc, 0xc000]),
    (0xe6, &[0x7f73, 0, 0, 0x0d0d, 0x0040, 0xeeff, 0, 0xfdfe]),
    (0xe7, &[0xfff2, 0x3030, 0x6100, 0x93a3, 0xfe24, 0xb209, 0xefff, 0xbdaf, 0xef3f, 0x0d03, 0x7f7f, 0x08dd, 0xfd3a, 0x0fd3, 0x35b3, 0xf5df]),
    (0xeb, &[0x083d, 0x080c, 0xde1d, 0xc002, 0x0c08, 0x6f00, 0x0022, 0x4022, 0xc023, 0x82b0, 0, 0, 0x8000, 0xc80f, 0xfba0, 0x3ba0]),
    (0xec, &[0, 0, 0, 0, 0x2e02, 0x4f44, 0x0c00, 0xf30f, 0, 0, 0, 0, 0, 0x00f0, 0x0c00, 0x030f]),
    (0xed, &[0x0fff, 0xedff, 0x0e03, 0x0dff, 0xc0c0, 0xccc0, 0x0f00, 0, 0, 0, 0x00ff]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// KP-5: the two highest bits of the first byte give the length.
    #[test]
    fn the_first_two_bits_give_the_length() {
        for first in 0..=255 {
            let expected = [2, 4, 4, 6][usize::from(first) / 64];
            assert_eq!(length(first), expected, "{first:02x}");
        }
    }

    /// KP-2: the second part of an operation code, format by format.
    #[test]
    fn operation_codes_are_read_by_format() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], u16)] = &[
            ("br %r14",                  &[0x07, 0xfe],                         0x0700),
            ("pr",                       &[0x01, 0x01],                         0x0101),
            ("la %r1,2(%r3)",            &[0x41, 0x10, 0x30, 0x02],             0x4100),
            ("aghi %r2,-1",              &[0xa7, 0x2b, 0xff, 0xff],             0xa70b),
            ("stck 0(%r1)",              &[0xb2, 0x05, 0x10, 0x00],             0xb205),
            ("lgr %r2,%r3",              &[0xb9, 0x04, 0x00, 0x23],             0xb904),
            ("brasl %r14,.",             &[0xc0, 0xe5, 0, 0, 0, 0],             0xc005),
            ("mvc 0(4,%r1),0(%r2)",      &[0xd2, 0x03, 0x10, 0, 0x20, 0],       0xd200),
            ("lg %r1,8(%r2)",            &[0xe3, 0x10, 0x20, 0x08, 0, 0x04],    0xe304),
            ("stmg %r14,%r15,136(%r15)", &[0xeb, 0xef, 0xf0, 0x88, 0, 0x24],    0xeb24),
            ("mvghi 0(%r1),4",           &[0xe5, 0x48, 0x10, 0, 0, 4],          0xe548),
            ("cij %r2,0,8,.",            &[0xec, 0x28, 0, 0, 0, 0x7e],          0xec7e),
            ("lg, truncated",            &[0xe3, 0x10, 0x20],                   0xe300),
        ];
        for (what, bytes, expected) in cases {
            assert_eq!(code(bytes), *expected, "{what}");
        }
    }

    /// KP-2: unassigned codes, among them the first and the last of each format.
    #[test]
    fn unassigned_operation_codes_are_unknown() {
        let known = [
            0x0700, 0x0101, 0x01ff, 0x4400, 0x8000, 0xad00, 0xb2b2, 0xb904, 0xb9fd, 0xc000, 0xc600, 0xe304, 0xe706, 0xebd0,
            0xedaf,
        ];
        let unknown = [
            0x0000, 0x0100, 0x0300, 0x0800, 0x5200, 0x8100, 0xa100, 0xb203, 0xb9ff, 0xc002, 0xc0ff, 0xe300, 0xedb0, 0xff00,
            0x0701,
        ];
        for code in known {
            assert!(is_known(code), "{code:04x}");
        }
        for code in unknown {
            assert!(!is_known(code), "{code:04x}");
        }
    }
}
