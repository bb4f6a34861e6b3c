//! Unpacks the kernel in an ARM zImage. A table of the decompressor, which is meant for kexec, gives the payload's end
//! and the kernel's load address.
//!
//! The table is that of Linux 4.15 and later (arch/arm/boot/compressed/vmlinux.lds.S). No code of the decompressor
//! runs.

use super::payload::{self, Shelf};
use crate::error::BootError;

const MAGIC: (usize, u32) = (0x24, 0x016f_2818);
/// The magic number that says that there is a table.
const TABLE_MAGIC: (usize, u32) = (0x34, 0x4545_4545);
const TABLE: usize = 0x38;
/// The tag of the row used here: the offset of the unpacked size, the bytes of zeroed memory behind the image, and the
/// image's distance from the start of RAM.
const SIZES: u32 = 0x5a53_4c4b;
const SIZES_WORDS: usize = 6;

/// The kernel from a zImage.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The image as it must be in memory.
    pub bytes: Vec<u8>,
    /// The size of the zeroed memory behind the image.
    pub zeroed: u64,
    /// The load address, as a distance from the start of RAM.
    pub text_offset: u64,
}

/// Whether these bytes are a zImage.
pub fn is_zimage(bytes: &[u8]) -> bool {
    payload::word(bytes, MAGIC.0) == MAGIC.1
}

/// Unpacks the kernel.
pub fn unpack(shelf: &dyn Shelf, bytes: &[u8]) -> Result<Inner, BootError> {
    let refused = |why: &str| BootError::Payload { what: "the zImage", why: why.into() };
    let table = (payload::word(bytes, TABLE_MAGIC.0) == TABLE_MAGIC.1).then(|| payload::word(bytes, TABLE) as usize);
    let table = table.ok_or_else(|| refused("its header has no table of sizes (Linux before 4.15)"))?;
    let row = sizes(bytes, table).ok_or_else(|| refused("its table does not say where the payload is"))?;
    let at = |number: usize| payload::word(bytes, row + 4 * number);
    let (size_at, zeroed, text_offset) = (at(2) as usize, at(3), at(4));
    let Some(held) = bytes.get(..size_at.saturating_add(4)).filter(|held| held.len() >= 4 && size_at > row) else {
        let (needs, has) = (size_at as u64 + 4, bytes.len() as u64);
        return Err(BootError::Truncated { what: "the payload of the zImage".into(), needs, has });
    };
    // The file does not give the payload's start, and the decompressor in front of it may contain the same magic
    // numbers.
    let starts = (row..size_at).filter(|start| payload::is_compressed(&held[*start..]));
    let budget = payload::budget();
    let mut first_failure = None;
    for start in starts {
        if budget.is_spent() {
            break;
        }
        match payload::payload_unpacked(shelf, &held[start..], &budget) {
            Ok(bytes) => return Ok(Inner { bytes, zeroed: zeroed.into(), text_offset: text_offset.into() }),
            Err(error) => first_failure = first_failure.or(Some(error)),
        }
    }
    Err(first_failure.unwrap_or_else(|| refused("it holds nothing in a known compression format")))
}

/// The offset of the row of sizes. A row is the number of its words, a tag, and data; a row without words ends the
/// table.
fn sizes(bytes: &[u8], table: usize) -> Option<usize> {
    let mut row = table;
    for _ in 0..16 {
        let words = payload::word(bytes, row) as usize;
        if words < 2 || words > bytes.len() / 4 {
            return None;
        }
        if words >= SIZES_WORDS && payload::word(bytes, row + 4) == SIZES {
            return Some(row);
        }
        row = row.checked_add(4 * words)?;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    /// A zImage around an image, with a magic number in its decompressor where no payload starts.
    pub fn zimage(image: &[u8], text_offset: u32) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(image).expect("into memory");
        let packed = packed.finish().expect("into memory");
        const ROW: usize = 0x44;
        let payload = ROW + 4 * SIZES_WORDS + 0x40;
        let mut bytes = vec![0; payload];
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        put(MAGIC.0, MAGIC.1);
        put(TABLE_MAGIC.0, TABLE_MAGIC.1);
        put(TABLE, 0x3c);
        put(0x3c, 2);
        put(0x40, 0x1234_5678);
        let size_at = payload + packed.len() - 4;
        for (number, word) in [SIZES_WORDS as u32, SIZES, size_at as u32, 0x100, text_offset, 0].into_iter().enumerate() {
            put(ROW + 4 * number, word);
        }
        bytes[ROW + 4 * SIZES_WORDS + 8..][..3].copy_from_slice(&[0x1f, 0x8b, 8]);
        [bytes, packed, b"what is behind it".to_vec()].concat()
    }

    const IMAGE: &[u8] = b"a kernel, a kernel, a kernel, a kernel, a kernel, a kernel, a kernel";

    /// KP-4
    #[test]
    fn the_image_and_its_place_come_out() {
        let bytes = zimage(IMAGE, 0x20_8000);
        assert!(is_zimage(&bytes) && !is_zimage(IMAGE));
        let inner = Inner { bytes: IMAGE.to_vec(), zeroed: 0x100, text_offset: 0x20_8000 };
        assert_eq!(unpack(&(), &bytes), Ok(inner));
    }

    /// KP-4
    #[test]
    fn damaged_files_are_refused_in_words_and_never_panic() {
        let whole = zimage(IMAGE, 0x8000);
        let without = |at: usize| [&whole[..at], &[0; 4], &whole[at + 4..]].concat();
        #[rustfmt::skip]
        let cases = [
            ("an old zImage",       without(TABLE_MAGIC.0),             "no table of sizes"),
            ("an empty table",      without(0x3c),                      "does not say where the payload is"),
            ("cut off",             whole[..whole.len() - 40].to_vec(), "cut off: the payload of the zImage"),
            ("another size",        without(whole.len() - 21),          "gzip"),
        ];
        for (what, bytes, expected) in cases {
            let error = unpack(&(), &bytes).expect_err(what);
            assert!(error.to_string().contains(expected), "{what}: {error}");
        }
        for at in 0..whole.len() {
            for value in [0, 0xff, whole[at] ^ 0x80] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = unpack(&(), &damaged);
            }
            let _ = unpack(&(), &whole[..at]);
        }
    }
}
