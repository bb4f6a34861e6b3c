//! The kernel inside a file: a bzImage's payload or a compressed vmlinux, unpacked until the ELF file shows.
//!
//! Layout of a bzImage: Documentation/arch/x86/boot.rst of Linux, boot protocol 2.08 and later. Nothing in a guest
//! unpacks itself unless a whole bzImage is booted; this is the way round that.

use crate::error::BootError;
use std::borrow::Cow;
use std::io::Read;

/// No kernel with all its debug information is larger than this when it is unpacked.
pub const MOST_BYTES: u64 = 1 << 30;

/// Where what was unpacked before may lie: some methods take half a second for a kernel.
pub trait Shelf {
    /// What these bytes gave, if it has at most so many bytes.
    fn find(&self, packed: &[u8], most: u64) -> Option<Vec<u8>>;
    /// They gave this.
    fn keep(&self, packed: &[u8], unpacked: &[u8]);
}

/// A shelf on which nothing ever lies.
impl Shelf for () {
    fn find(&self, _: &[u8], _: u64) -> Option<Vec<u8>> {
        None
    }
    fn keep(&self, _: &[u8], _: &[u8]) {}
}

/// A bzImage holds a compressed ELF file, and may be compressed itself.
const MOST_LAYERS: usize = 3;

/// Fields of a bzImage's header.
const SETUP_SECTORS: usize = 0x1f1;
const BOOT_FLAG: usize = 0x1fe;
const HEADER_MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;
/// The first protocol whose header says where the payload is.
const WITH_PAYLOAD: u16 = 0x208;
const SECTOR: usize = 512;

/// The way in which bytes are compressed.
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
    (&[0x02, 0x21, 0x4c, 0x18],           Method::Lz4), // the older frame, which kernels use
    (b"BZh",                              Method::Bzip2),
    (&[0x89, b'L', b'Z', b'O', 0, 0x0d],  Method::Lzo),
];

impl Method {
    fn of(bytes: &[u8]) -> Option<Method> {
        MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, method)| *method)
    }

    /// Whether it takes longer than reading what it gives from a file.
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

/// The innermost file: an ELF file, a raw image of ARM, or whatever else cannot be unpacked further.
pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, BootError> {
    unpack_at_most(bytes, MOST_BYTES)
}

/// The same with another limit for every layer.
pub fn unpack_at_most(bytes: &[u8], most: u64) -> Result<Cow<'_, [u8]>, BootError> {
    unpack_from(&(), bytes, most)
}

/// The same, with a look at the shelf first.
pub(super) fn unpack_from<'a>(shelf: &dyn Shelf, bytes: &'a [u8], most: u64) -> Result<Cow<'a, [u8]>, BootError> {
    let mut inner = Cow::Borrowed(bytes);
    for _ in 0..MOST_LAYERS {
        let next = if let Some(payload) = payload(&inner)? {
            payload_unpacked(shelf, payload, most)?
        } else if let Some(method) = Method::of(&inner) {
            expand(shelf, method, &inner, most)?
        } else {
            break;
        };
        inner = Cow::Owned(next);
    }
    Ok(inner)
}

/// Whether these bytes look compressed.
pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    Method::of(bytes).is_some()
}

/// What these bytes begin with, unpacked; anything may stand behind it.
pub(super) fn first_unpacked(shelf: &dyn Shelf, bytes: &[u8], most: u64) -> Result<Vec<u8>, BootError> {
    match Method::of(bytes) {
        Some(method) => expand(shelf, method, bytes, most),
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

/// Where in a bzImage the code begins that unpacks the payload.
pub(super) fn protected_mode(bytes: &[u8]) -> usize {
    let sectors = match byte(bytes, SETUP_SECTORS) {
        0 => 4,
        sectors => usize::from(sectors),
    };
    (sectors + 1) * SECTOR
}

/// A payload's last word is the size of what it holds (gzip: a part of its format).
pub(super) fn payload_unpacked(shelf: &dyn Shelf, payload: &[u8], most: u64) -> Result<Vec<u8>, BootError> {
    let Some(method) = Method::of(payload) else {
        // Not compressed at all (CONFIG_KERNEL_UNCOMPRESSED), or by means unknown here: the caller looks what it is.
        return Ok(payload.to_vec());
    };
    let (compressed, size) = payload.split_last_chunk::<4>().unwrap_or((payload, &[0; 4]));
    let size = u64::from(u32::from_le_bytes(*size));
    let held = if method == Method::Gzip { payload } else { compressed };
    let unpacked = expand(shelf, method, held, most)?;
    if unpacked.len() as u64 != size {
        let why = format!("it should give {size} bytes and gave {}", unpacked.len());
        return Err(BootError::Payload { what: method.name(), why });
    }
    Ok(unpacked)
}

/// What is in the first compressed stream here, whatever stands behind it.
pub(super) fn stream_unpacked(shelf: &dyn Shelf, bytes: &[u8], most: u64) -> Result<Vec<u8>, BootError> {
    let method = Method::of(bytes).ok_or(BootError::UnknownCompression { method: "no method that is known here" })?;
    expand(shelf, method, bytes, most)
}

pub(super) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// 32 bits; zero behind the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([byte(bytes, at), byte(bytes, at + 1), byte(bytes, at + 2), byte(bytes, at + 3)])
}

/// Memory that a decoder may use for itself.
const DECODER_MEMORY: u64 = 256 << 20;
/// The kernel's build compresses with windows of up to 2^27.
const ZSTD_WINDOW: u32 = 27;

fn expand(shelf: &dyn Shelf, method: Method, bytes: &[u8], most: u64) -> Result<Vec<u8>, BootError> {
    if !method.is_slow() {
        return decode(method, bytes, most);
    }
    if let Some(unpacked) = shelf.find(bytes, most) {
        return Ok(unpacked);
    }
    let unpacked = decode(method, bytes, most)?;
    shelf.keep(bytes, &unpacked);
    Ok(unpacked)
}

fn decode(method: Method, bytes: &[u8], most: u64) -> Result<Vec<u8>, BootError> {
    let failed = |error: std::io::Error| BootError::Payload { what: method.name(), why: error.to_string() };
    let decoder: Box<dyn Read + '_> = match method {
        Method::Gzip => Box::new(flate2::bufread::GzDecoder::new(bytes)),
        Method::Xz | Method::Lzma => {
            let stream = liblzma::stream::Stream::new_auto_decoder(DECODER_MEMORY, 0).map_err(|error| failed(error.into()))?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(bytes, stream))
        }
        Method::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(bytes).map_err(failed)?.single_frame();
            decoder.window_log_max(ZSTD_WINDOW).map_err(failed)?;
            Box::new(decoder)
        }
        Method::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
        Method::Bzip2 | Method::Lzo => return Err(BootError::UnknownCompression { method: method.name() }),
    };
    let mut unpacked = Vec::new();
    decoder.take(most + 1).read_to_end(&mut unpacked).map_err(failed)?;
    if unpacked.len() as u64 > most {
        let why = format!("it unpacks to more than {most} bytes, which no kernel has");
        return Err(BootError::Payload { what: method.name(), why });
    }
    Ok(unpacked)
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

    /// The older frame: blocks, each behind its size; this one is a literal run, as no real encoder is at hand.
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
    fn what_was_slow_to_unpack_is_taken_from_the_shelf_the_next_time() {
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
                let inner = unpack_from(&shelf, &bytes, MOST_BYTES).unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(String::from_utf8_lossy(&inner), String::from_utf8_lossy(INNER), "{what}");
                assert_eq!(shelf.0.borrow().len(), kept, "{what}");
            }
            // What is on the shelf is what counts: nothing is unpacked a second time.
            if let Some(byte) = shelf.0.borrow_mut().last_mut().and_then(|(_, unpacked)| unpacked.last_mut()) {
                *byte = b'!';
            }
            let inner = unpack_from(&shelf, &bytes, MOST_BYTES).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(&inner[..] != INNER, kept > 0, "{what}");
        }
    }

    /// KP-4
    #[test]
    fn what_cannot_be_unpacked_is_said_in_words() {
        let whole = bzimage(&sized(xz(INNER), INNER.len()), 0x20f);
        #[rustfmt::skip]
        let cases = [
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
    fn what_unpacks_to_more_than_any_kernel_is_refused() {
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
