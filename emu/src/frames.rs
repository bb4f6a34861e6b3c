//! Compressed memory of cache files: a zstd frame for each 2 MiB, so that all cores can unpack it into one buffer.

use std::io;
use std::num::NonZero;
use std::thread;

/// Bytes in each frame except the last one, which may be shorter.
pub const PIECE: usize = 2 << 20;
/// The compression level. It is low, because the time of reading counts more than the size.
const LEVEL: i32 = 1;

/// Compresses these bytes.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    for piece in bytes.chunks(PIECE) {
        packed.extend_from_slice(&zstd::bulk::compress(piece, LEVEL)?);
    }
    Ok(packed)
}

/// Returns the `len` bytes that were packed. Fails with the reason if `packed` holds anything else.
pub fn unpack(packed: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let frames = split(packed, len.div_ceil(PIECE))?;
    // An allocation that fails ends the process, so it is tried first. It touches no memory.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| format!("the host has no memory for its {len} bytes"))?;
    // The host gives zeroed memory page by page, when a thread first writes it.
    let mut bytes = vec![0; len];
    let mut work: Vec<_> = frames.into_iter().zip(bytes.chunks_mut(PIECE)).collect();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = work.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        let begun: Vec<_> = work.chunks_mut(share).map(|share| scope.spawn(|| unpack_share(share))).collect();
        begun.into_iter().try_for_each(|share| share.join().unwrap_or_else(|_| Err("a thread that unpacks it ended".into())))
    })?;
    Ok(bytes)
}

/// Splits into frames, which must be this many.
fn split(mut packed: &[u8], count: usize) -> Result<Vec<&[u8]>, String> {
    let mut frames = Vec::new();
    while !packed.is_empty() {
        let len = zstd::zstd_safe::find_frame_compressed_size(packed).ok();
        let Some((frame, rest)) = len.filter(|len| *len > 0).and_then(|len| packed.split_at_checked(len)) else {
            return Err("it has a frame without an end".into());
        };
        frames.push(frame);
        packed = rest;
    }
    if frames.len() != count {
        return Err(format!("it has {} frames instead of {count}", frames.len()));
    }
    Ok(frames)
}

/// Unpacks frames, each into a place of exactly its size.
fn unpack_share(share: &mut [(&[u8], &mut [u8])]) -> Result<(), String> {
    for (frame, place) in share {
        let len = zstd::bulk::decompress_to_buffer(frame, *place).map_err(|error| error.to_string())?;
        if len != place.len() {
            return Err(format!("a frame holds {len} bytes instead of {}", place.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bytes_come_back_and_nothing_else_is_taken() {
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 3) as u8 ^ (at >> 16) as u8).collect();
            let packed = pack(&bytes).expect("in memory");
            assert!(unpack(&packed, len).expect("its own bytes") == bytes, "{len}");
            let others = [len + 1, len + PIECE, len.saturating_sub(1), len.saturating_sub(PIECE)];
            for other in others.into_iter().filter(|other| *other != len) {
                assert!(unpack(&packed, other).is_err(), "{len} taken for {other}");
            }
            for cut in [packed.len().saturating_sub(1), packed.len() / 2].into_iter().filter(|cut| *cut < packed.len()) {
                assert!(unpack(&packed[..cut], len).is_err(), "{len} cut off at {cut}");
            }
        }
    }
}
