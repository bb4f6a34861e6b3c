//! Compressed sections (`SHF_COMPRESSED`, as `-gz` and `CONFIG_DEBUG_INFO_COMPRESSED` make them): a header with the method
//! and the unpacked size, then a stream of zlib or zstd.

use super::error::{Answer, LinesError};
use flate2::read::ZlibDecoder;
use goblin::elf::SectionHeader;
use goblin::elf::section_header::SHF_COMPRESSED;
use std::io::Read;
use trapline_isa::arch::Isa;
use zstd::stream::read::Decoder;

/// The methods: ELFCOMPRESS_ZLIB and ELFCOMPRESS_ZSTD.
const ZLIB: u64 = 1;
const ZSTD: u64 = 2;
/// The largest unpacked section. Debian's largest kernel has 300 MB of debug information in all.
const MOST_BYTES: u64 = 1 << 30;

/// The bytes of a section, unpacked if they are compressed.
pub fn unpacked(bytes: Vec<u8>, header: &SectionHeader, isa: &Isa) -> Answer<Vec<u8>> {
    if header.sh_flags & u64::from(SHF_COMPRESSED) == 0 {
        return Ok(bytes);
    }
    let malformed = |why: &str| LinesError::Malformed(format!("a compressed section {why}"));
    // 64-bit files have a reserved word behind the method. The alignment comes last.
    let (size_at, stream_at) = if isa.word == 8 { (8, 24) } else { (4, 12) };
    let number = |at: usize, length: usize| bytes.get(at..at + length).map(|bytes| isa.order.number(bytes));
    let (Some(method), Some(size), Some(stream)) = (number(0, 4), number(size_at, isa.word), bytes.get(stream_at..)) else {
        return Err(malformed("is shorter than its header"));
    };
    if size > MOST_BYTES {
        return Err(malformed(&format!("says that it has {size} bytes; at most {MOST_BYTES} are read")));
    }
    let mut whole = Vec::new();
    // One byte more than the header says shows a stream that is too long.
    let read = match method {
        ZLIB => ZlibDecoder::new(stream).take(size + 1).read_to_end(&mut whole),
        ZSTD => Decoder::with_buffer(stream).and_then(|from| from.take(size + 1).read_to_end(&mut whole)),
        other => return Err(malformed(&format!("has the unknown method {other}"))),
    };
    match read {
        Ok(_) if whole.len() as u64 == size => Ok(whole),
        Ok(_) => Err(malformed(&format!("is not of the {size} bytes that its header says"))),
        Err(error) => Err(malformed(&format!("cannot be unpacked: {error}"))),
    }
}
