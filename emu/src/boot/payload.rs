//! Unpacks a kernel file: a bzImage's payload or a compressed vmlinux, layer by layer until an ELF file or a raw image
//! appears.
//!
//! An EFI zboot image (CONFIG_EFI_ZBOOT: the vmlinuz.efi of arm64 and riscv) is an EFI program whose first bytes give
//! the offset of its payload (drivers/firmware/efi/libstub/zboot-header.S).
//!
//! The layout of a bzImage is in Documentation/arch/x86/boot.rst of Linux, boot protocol 2.08 and later. Unpacking on
//! the host avoids running the decompressor in the guest, unless a whole bzImage is booted.

use crate::error::BootError;
use std::borrow::Cow;
use std::io::Read;
use trapline_probes::budget::Budget;

/// Limit for unpacked bytes; even a kernel with all its debug information is smaller.
pub const MOST_BYTES: u64 = 1 << 30;

/// A cache of unpacked data; some methods take half a second for a kernel.
pub trait Shelf {
    /// Returns the data that was unpacked from these bytes, if it has at most `most` bytes.
    fn find(&self, packed: &[u8], most: u64) -> Option<Vec<u8>>;
    /// Stores the data that was unpacked from these bytes.
    fn keep(&self, packed: &[u8], unpacked: &[u8]);
}

/// A cache that is always empty.
impl Shelf for () {
    fn find(&self, _: &[u8], _: u64) -> Option<Vec<u8>> {
        None
    }
    fn keep(&self, _: &[u8], _: &[u8]) {}
}

/// Limit of nested compression: a bzImage holds a compressed ELF file, and may be compressed itself.
const MOST_LAYERS: usize = 3;

/// Offsets of the fields of a bzImage's header.
const SETUP_SECTORS: usize = 0x1f1;
const BOOT_FLAG: usize = 0x1fe;
const HEADER_MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// The first boot protocol whose header gives the payload's offset.
const WITH_PAYLOAD: u16 = 0x208;
const SECTOR: usize = 512;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Gzip,
    Xz,
    Lzma,
    Zstd,
    Lz4,
    Bzip2,
    Lzo,
}

#[rustfmt::skip]
const MAGICS: &[(&[u8], Method)] = &[
    (&[0x1f, 0x8b],                       Method::Gzip),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0],  Method::Xz),
    (&[0x5d, 0, 0],                       Method::Lzma),
    (&[0x28, 0xb5, 0x2f, 0xfd],           Method::Zstd),
    (&[0x04, 0x22, 0x4d, 0x18],           Method::Lz4),
    (&[0x02, 0x21, 0x4c, 0x18],           Method::Lz4), // the older frame format, which kernels use
    (b"BZh",                              Method::Bzip2),
    (&[0x89, b'L', b'Z', b'O', 0, 0x0d],  Method::Lzo),
];

impl Method {
    fn of(bytes: &[u8]) -> Option<Method> {
        MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, method)| *method)
    }

    /// Whether unpacking takes longer than reading the unpacked data from a file.
    fn is_slow(self) -> bool {
        matches!(self, Method::Gzip | Method::Xz | Method::Lzma)
    }

    fn name(self) -> &'static str {
        match self {
            Method::Gzip => "gzip",
            Method::Xz => "xz",
            Method::Lzma => "lzma",
            Method::Zstd => "zstd",
            Method::Lz4 => "lz4",
            Method::Bzip2 => "bzip2",
            Method::Lzo => "lzo",
        }
    }
}

/// Returns the innermost file: an ELF file, a raw image of ARM, or anything else that is not compressed.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, BootError> {
    unpack_at_most(bytes, MOST_BYTES)
}

/// Like [`unpack`], with another limit for the sum of all layers.
pub fn unpack_at_most(bytes: &[u8], most: u64) -> Result<Cow<'_, [u8]>, BootError> {
    unpack_from(&(), bytes, &Budget::of(most))
}

/// The budget for unpacking a kernel: one step for each byte that a decoder gives, fewer for each byte that it takes.
/// All layers of a file share one budget, and so do all offsets at which a payload is tried.
pub(super) fn budget() -> Budget {
    Budget::of(MOST_BYTES)
}

/// Like [`unpack`], with a cache that is asked first.
pub(super) fn unpack_from<'a>(shelf: &dyn Shelf, bytes: &'a [u8], budget: &Budget) -> Result<Cow<'a, [u8]>, BootError> {
    let mut inner = Cow::Borrowed(bytes);
    for _ in 0..MOST_LAYERS {
        let next = if let Some(payload) = payload(&inner)? {
            payload_unpacked(shelf, payload, budget)?
        } else if let Some(payload) = zboot_payload(&inner)? {
            stream_unpacked(shelf, payload, budget)?
        } else if let Some(method) = Method::of(&inner) {
            expand(shelf, method, &inner, budget)?
        } else {
            break;
        };
        inner = Cow::Owned(next);
    }
    Ok(inner)
}

/// Whether these bytes begin with the magic number of a compression format.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    Method::of(bytes).is_some()
}

/// Unpacks the compressed stream that these bytes begin with; any bytes may follow it.
pub(super) fn first_unpacked(shelf: &dyn Shelf, bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, BootError> {
    match Method::of(bytes) {
        Some(method) => expand(shelf, method, bytes, budget),
        None => Ok(bytes.to_vec()),
    }
}

/// Whether these bytes are a bzImage.
pub fn is_bzimage(bytes: &[u8]) -> bool {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    at(BOOT_FLAG, &[0x55, 0xaa]) && at(HEADER_MAGIC, b"HdrS")
}

/// The compressed kernel in a bzImage; `None` for other files.
fn payload(bytes: &[u8]) -> Result<Option<&[u8]>, BootError> {
    if !is_bzimage(bytes) {
        return Ok(None);
    }
    let version = u16::from_le_bytes([byte(bytes, VERSION), byte(bytes, VERSION + 1)]);
    if version < WITH_PAYLOAD {
        let why = format!("its boot protocol, {}.{:02}, does not say where its payload is", version >> 8, version & 0xff);
        return Err(BootError::Payload { what: "the bzImage", why });
    }
    let start = protected_mode(bytes) as u64 + u64::from(word(bytes, PAYLOAD_OFFSET));
    let end = start + u64::from(word(bytes, PAYLOAD_LENGTH));
    match bytes.get(start as usize..end as usize) {
        Some(payload) if !payload.is_empty() => Ok(Some(payload)),
        Some(_) => Err(BootError::Payload { what: "the bzImage", why: "its header says that its payload is empty".into() }),
        None => Err(BootError::Truncated { what: "the payload of the bzImage".into(), needs: end, has: bytes.len() as u64 }),
    }
}

/// The magic numbers of a zboot image with their offsets. The payload's offset and size follow.
const ZBOOT_MAGICS: [(usize, &[u8]); 2] = [(0, b"MZ"), (4, b"zimg")];
const ZBOOT_OFFSET: usize = 8;
const ZBOOT_SIZE: usize = 12;

/// The compressed kernel in a zboot image; `None` for other files.
fn zboot_payload(bytes: &[u8]) -> Result<Option<&[u8]>, BootError> {
    if !ZBOOT_MAGICS.iter().all(|(at, magic)| bytes.get(*at..).is_some_and(|rest| rest.starts_with(magic))) {
        return Ok(None);
    }
    let start = word(bytes, ZBOOT_OFFSET) as usize;
    let end = start + word(bytes, ZBOOT_SIZE) as usize;
    let cut_off =
        || BootError::Truncated { what: "the payload of the EFI zboot image".into(), needs: end as u64, has: bytes.len() as u64 };
    bytes.get(start..end).ok_or_else(cut_off).map(Some)
}

/// Offset in a bzImage of the code that unpacks the payload.
pub(super) fn protected_mode(bytes: &[u8]) -> usize {
    let sectors = match byte(bytes, SETUP_SECTORS) {
        0 => 4,
        sectors => usize::from(sectors),
    };
    (sectors + 1) * SECTOR
}

/// Unpacks a payload whose last four bytes are the unpacked size (in gzip they are part of the format).
pub(super) fn payload_unpacked(shelf: &dyn Shelf, payload: &[u8], budget: &Budget) -> Result<Vec<u8>, BootError> {
    let Some(method) = Method::of(payload) else {
        // It is uncompressed (CONFIG_KERNEL_UNCOMPRESSED) or in an unknown format: the caller finds out which.
        return Ok(payload.to_vec());
    };
    let (compressed, size) = payload.split_last_chunk::<4>().unwrap_or((payload, &[0; 4]));
    let size = u64::from(u32::from_le_bytes(*size));
    let held = if method == Method::Gzip { payload } else { compressed };
    let unpacked = expand(shelf, method, held, budget)?;
    if unpacked.len() as u64 != size {
        let why = format!("it should give {size} bytes and gave {}", unpacked.len());
        return Err(BootError::Payload { what: method.name(), why });
    }
    Ok(unpacked)
}

/// Unpacks the first compressed stream; any bytes may follow it.
pub(super) fn stream_unpacked(shelf: &dyn Shelf, bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, BootError> {
    let method = Method::of(bytes).ok_or(BootError::UnknownCompression { method: "an unknown method" })?;
    expand(shelf, method, bytes, budget)
}

pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Reads 32 bits, little-endian; bytes behind the end read as zero.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([byte(bytes, at), byte(bytes, at + 1), byte(bytes, at + 2), byte(bytes, at + 3)])
}

/// Limit for a decoder's own memory.
const DECODER_MEMORY: u64 = 256 << 20;
/// The largest window of kernel builds, as a power of two.
const ZSTD_WINDOW: u32 = 27;

/// The number of bytes taken by a decoder that cost one step of the budget.
const PACKED_BYTES_A_STEP: u64 = 16;
/// The cost of each attempt in steps, as some decoders build large tables first.
const STEPS_A_TRY: u64 = 1 << 16;

fn expand(shelf: &dyn Shelf, method: Method, bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, BootError> {
    if !method.is_slow() {
        return decode(method, bytes, budget);
    }
    if let Some(unpacked) = shelf.find(bytes, budget.most().saturating_sub(budget.spent())) {
        return charged(method, unpacked, 0, budget);
    }
    let unpacked = decode(method, bytes, budget)?;
    shelf.keep(bytes, &unpacked);
    Ok(unpacked)
}

fn decode(method: Method, bytes: &[u8], budget: &Budget) -> Result<Vec<u8>, BootError> {
    let failed = |error: std::io::Error| BootError::Payload { what: method.name(), why: error.to_string() };
    let left = budget.most().saturating_sub(budget.spent());
    let (mut input, mut unpacked) = (bytes, Vec::new());
    let decoded = decoder(method, &mut input)
        .and_then(|decoder| decoder.take(left.saturating_add(1)).read_to_end(&mut unpacked).map_err(failed));
    let taken = (bytes.len() - input.len()) as u64;
    let unpacked = charged(method, unpacked, STEPS_A_TRY.min(taken) + taken / PACKED_BYTES_A_STEP, budget)?;
    decoded.map(|_| unpacked)
}

/// Charges the budget for the bytes that a decoder gave and for those that it took.
fn charged(method: Method, unpacked: Vec<u8>, taken: u64, budget: &Budget) -> Result<Vec<u8>, BootError> {
    let is_enough = budget.charge(unpacked.len() as u64).is_ok();
    if is_enough && (budget.charge(taken).is_ok() || !unpacked.is_empty()) {
        return Ok(unpacked);
    }
    let why = format!("it unpacks to more than {} bytes, which no kernel has", budget.most());
    Err(BootError::Payload { what: method.name(), why })
}

/// Makes a decoder, which takes from the input only what it needs.
fn decoder<'a>(method: Method, input: &'a mut &[u8]) -> Result<Box<dyn Read + 'a>, BootError> {
    let failed = |error: std::io::Error| BootError::Payload { what: method.name(), why: error.to_string() };
    Ok(match method {
        Method::Gzip => Box::new(flate2::bufread::GzDecoder::new(input)),
        Method::Xz | Method::Lzma => {
            let stream = liblzma::stream::Stream::new_auto_decoder(DECODER_MEMORY, 0).map_err(|error| failed(error.into()))?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
        Method::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(input).map_err(failed)?.single_frame();
            decoder.window_log_max(ZSTD_WINDOW).map_err(failed)?;
            Box::new(decoder)
        }
        Method::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(input)),
        Method::Bzip2 | Method::Lzo => return Err(BootError::UnknownCompression { method: method.name() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const INNER: &[u8] = b"\x7fELF and what follows it, follows it, follows it, follows it, follows it";

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The older LZ4 frame: blocks, each with its size in front. This one block is a literal run, as no crate encodes
    /// the format.
    fn old_lz4(bytes: &[u8]) -> Vec<u8> {
        let mut block = vec![0xf0, (bytes.len() - 15) as u8];
        block.extend_from_slice(bytes);
        [&[0x02, 0x21, 0x4c, 0x18][..], &(block.len() as u32).to_le_bytes(), &block].concat()
    }

    fn bzimage(payload: &[u8], version: u16) -> Vec<u8> {
        let mut bytes = vec![0; 2 * SECTOR + 16];
        bytes[SETUP_SECTORS] = 1;
        bytes[BOOT_FLAG..BOOT_FLAG + 2].copy_from_slice(&[0x55, 0xaa]);
        bytes[HEADER_MAGIC..HEADER_MAGIC + 4].copy_from_slice(b"HdrS");
        bytes[VERSION..VERSION + 2].copy_from_slice(&version.to_le_bytes());
        bytes[PAYLOAD_OFFSET] = 16;
        bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(b"what is behind the payload");
        bytes
    }

    fn zboot(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x5a; 0x100];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[4..8].copy_from_slice(b"zimg");
        bytes[ZBOOT_OFFSET..ZBOOT_OFFSET + 4].copy_from_slice(&0x100u32.to_le_bytes());
        bytes[ZBOOT_SIZE..ZBOOT_SIZE + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        [&bytes, payload, b"what is behind the payload"].concat()
    }

    fn sized(compressed: Vec<u8>, size: usize) -> Vec<u8> {
        [&compressed[..], &(size as u32).to_le_bytes()].concat()
    }

    /// KP-4
    #[test]
    fn the_inner_file_is_found_however_it_is_packed() {
        let zstd = zstd::encode_all(INNER, 19).unwrap();
        let size = INNER.len();
        #[rustfmt::skip]
        let cases = [
            ("the ELF file itself",         INNER.to_vec()),
            ("gzip",                        gzip(INNER)),
            ("xz",                          xz(INNER)),
            ("zstd",                        zstd.clone()),
            ("lz4",                         old_lz4(INNER)),
            ("a bzImage, gzip",             bzimage(&gzip(INNER), 0x20f)),
            ("a bzImage, xz",               bzimage(&sized(xz(INNER), size), 0x20f)),
            ("a bzImage, zstd",             bzimage(&sized(zstd, size), 0x20f)),
            ("a bzImage, lz4",              bzimage(&sized(old_lz4(INNER), size), 0x208)),
            ("a bzImage, not compressed",   bzimage(INNER, 0x20f)),
            ("a zboot image, gzip",         zboot(&gzip(INNER))),
            ("a zboot image, zstd",         zboot(&zstd::encode_all(INNER, 3).unwrap())),
            ("a zboot image, xz",           zboot(&xz(INNER))),
            ("an xz of a bzImage",          xz(&bzimage(&sized(xz(INNER), size), 0x20f))),
        ];
        for (what, bytes) in cases {
            let inner = unpack(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(String::from_utf8_lossy(&inner), String::from_utf8_lossy(INNER), "{what}");
        }
    }

    #[derive(Default)]
    struct Remembers(std::cell::RefCell<Vec<(Vec<u8>, Vec<u8>)>>);

    impl Shelf for Remembers {
        fn find(&self, packed: &[u8], most: u64) -> Option<Vec<u8>> {
            let kept = self.0.borrow();
            let (_, unpacked) = kept.iter().find(|(known, unpacked)| known == packed && unpacked.len() as u64 <= most)?;
            Some(unpacked.clone())
        }
        fn keep(&self, packed: &[u8], unpacked: &[u8]) {
            self.0.borrow_mut().push((packed.to_vec(), unpacked.to_vec()));
        }
    }

    #[test]
    fn a_slow_payload_is_cached() {
        let zstd = zstd::encode_all(INNER, 3).unwrap();
        #[rustfmt::skip]
        let cases = [
            ("xz",                      xz(INNER),                                          1),
            ("gzip in a bzImage",       bzimage(&gzip(INNER), 0x20f),                       1),
            ("an xz of a bzImage",      xz(&bzimage(&sized(xz(INNER), INNER.len()), 0x20f)), 2),
            ("zstd, which is fast",     zstd,                                               0),
            ("what is not packed",      INNER.to_vec(),                                     0),
        ];
        for (what, bytes, kept) in cases {
            let shelf = Remembers::default();
            for _ in 0..2 {
                let inner = unpack_from(&shelf, &bytes, &budget()).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(String::from_utf8_lossy(&inner), String::from_utf8_lossy(INNER), "{what}");
                assert_eq!(shelf.0.borrow().len(), kept, "{what}");
            }
            // The cached data is what is returned: nothing is unpacked a second time.
            if let Some(byte) = shelf.0.borrow_mut().last_mut().and_then(|(_, unpacked)| unpacked.last_mut()) {
                *byte = b'!';
            }
            let inner = unpack_from(&shelf, &bytes, &budget()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(&inner[..] != INNER, kept > 0, "{what}");
        }
    }

    /// KP-4, BY-1: layers within layers and many places to try share one budget.
    #[test]
    fn layers_and_tries_share_a_budget() {
        const MOST: u64 = 1 << 20;
        let bomb = gzip(&vec![0; MOST as usize - 10_000]);
        let twice = gzip(&[&vec![0; 600_000][..], &gzip(&vec![0; 600_000])].concat());
        assert!(unpack_at_most(&bomb, MOST).is_ok(), "what fits is unpacked");
        let nested = xz(&gzip(&[&gzip(&vec![0; 700_000])[..], &vec![7; 900_000]].concat()));
        for (what, bytes) in [("a bomb", gzip(&vec![0; 2 * MOST as usize])), ("in two layers", nested)] {
            let error = unpack_at_most(&bytes, MOST).expect_err(what);
            assert!(error.to_string().contains("more than"), "{what}: {error}");
        }
        assert!(unpack_at_most(&twice, MOST).is_ok(), "what stands behind zeros is no layer");
        // Like a search that tries one offset after the other.
        let budget = Budget::of(MOST);
        let piece = gzip(&vec![0; 100_000]);
        let tries = (0..1000).take_while(|_| stream_unpacked(&(), &piece, &budget).is_ok()).count();
        assert!((5..=10).contains(&tries), "{tries} tries");
        // No output and much input: empty blocks of deflate.
        let empty = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0, 0, 0, 0xff, 0xff].repeat(1 << 16)].concat();
        let budget = Budget::of(MOST);
        for _ in 0..1000 {
            let _ = stream_unpacked(&(), &empty, &budget);
        }
        assert!(budget.is_spent(), "{budget:?}");
    }

    /// KP-4
    #[test]
    fn a_payload_that_cannot_be_unpacked_gets_a_message() {
        let whole = bzimage(&sized(xz(INNER), INNER.len()), 0x20f);
        #[rustfmt::skip]
        let cases = [
            ("half a zboot image",  zboot(&gzip(INNER))[..0x120].to_vec(),                      "cut off: the payload of the EFI zboot image"),
            ("an odd zboot image",  zboot(INNER),                                               "an unknown method"),
            ("half a bzImage",      whole[..whole.len() - 60].to_vec(),                         "cut off: the payload of the bzImage"),
            ("an old bzImage",      bzimage(&gzip(INNER), 0x207),                               "its boot protocol, 2.07,"),
            ("an empty payload",    bzimage(&[], 0x20f),                                        "its payload is empty"),
            ("another size",        bzimage(&sized(xz(INNER), 5), 0x20f),                       "it should give 5 bytes"),
            ("half an xz",          xz(INNER)[..40].to_vec(),                                   "cannot be unpacked (xz)"),
            ("half a gzip",         gzip(INNER)[..20].to_vec(),                                 "cannot be unpacked (gzip)"),
            ("half a zstd",         zstd::encode_all(INNER, 3).unwrap()[..20].to_vec(),         "cannot be unpacked (zstd)"),
            ("bzip2",               b"BZh91AY&SY".to_vec(),                                     "compressed with bzip2"),
        ];
        for (what, bytes, expected) in cases {
            let error = unpack(&bytes).expect_err(what);
            assert!(error.to_string().contains(expected), "{what}: {error}");
            assert!(!error.advice().is_empty(), "{what}");
        }
    }

    /// KP-4: a small file that unpacks to a huge one is refused before it fills the memory.
    #[test]
    fn a_payload_larger_than_any_kernel_is_refused() {
        let bomb = xz(&vec![0; 1 << 20]);
        assert!(unpack_at_most(&bomb, 1 << 20).is_ok());
        let error = unpack_at_most(&bomb, (1 << 20) - 1).unwrap_err();
        assert!(error.to_string().contains("unpacks to more than 1048575 bytes"), "{error}");
    }

    /// KP-4
    #[test]
    fn damaged_files_never_panic() {
        let whole = [xz(INNER), gzip(INNER), old_lz4(INNER), zstd::encode_all(INNER, 3).unwrap()];
        for bytes in whole.iter().flat_map(|bytes| [bytes.clone(), bzimage(&sized(bytes.clone(), INNER.len()), 0x20f)]) {
            for at in 0..bytes.len() {
                for value in [0, 0xff, bytes[at] ^ 1] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    let _ = unpack_at_most(&damaged, 1 << 20);
                }
                let _ = unpack_at_most(&bytes[..at], 1 << 20);
            }
        }
    }
}
