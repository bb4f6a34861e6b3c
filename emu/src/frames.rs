//! Compressed memory of cache files: a zstd frame for each 2 MiB, so that all cores can unpack it into one buffer.

use std::io;
use std::num::NonZero;
use std::thread;
use thiserror::Error;

/// Bytes in each frame except the last one, which may be shorter.
pub const PIECE: usize = 2 << 20;
/// The compression level. It is low, because the time of reading counts more than the size.
const LEVEL: i32 = 1;

/// The reason why packed bytes cannot be unpacked.
#[derive(Debug, Error)]
pub enum Damage {
    /// The bytes do not begin with a whole frame.
    #[error("it has a frame without an end")]
    NoEnd,
    /// The length needs another number of frames.
    #[error("it has {has} frames instead of {needs}")]
    Count {
        /// The number of frames.
        has: usize,
        /// The number that the length needs.
        needs: usize,
    },
    /// A frame does not unpack.
    #[error("{0}")]
    Frame(#[from] io::Error),
    /// A frame holds less than its place.
    #[error("a frame holds {0} bytes instead of {1}")]
    Short(usize, usize),
    /// The host cannot give so much memory.
    #[error("the host has no memory for its {0} bytes")]
    NoMemory(usize),
    /// A thread has ended early.
    #[error("a thread that unpacks it has ended")]
    NoThread,
}

/// Compresses these bytes.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    for piece in bytes.chunks(PIECE) {
        packed.extend_from_slice(&zstd::bulk::compress(piece, LEVEL)?);
    }
    Ok(packed)
}

/// Returns the `len` bytes that were packed. Fails with the reason if `packed` holds anything else.
pub fn unpack(packed: &[u8], len: usize) -> Result<Vec<u8>, Damage> {
    let frames = split(packed, len.div_ceil(PIECE))?;
    // An allocation that fails ends the process, so it is tried first. It touches no memory.
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| Damage::NoMemory(len))?;
    // The host gives zeroed memory page by page, when a thread first writes it.
    let mut bytes = vec![0; len];
    let mut work: Vec<_> = frames.into_iter().zip(bytes.chunks_mut(PIECE)).collect();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = work.len().div_ceil(cores).max(1);
    thread::scope(|scope| {
        let begun: Vec<_> = work.chunks_mut(share).map(|share| scope.spawn(|| unpack_share(share))).collect();
        begun.into_iter().try_for_each(|share| share.join().unwrap_or(Err(Damage::NoThread)))
    })?;
    Ok(bytes)
}

/// Splits into frames, which must be this many.
fn split(mut packed: &[u8], count: usize) -> Result<Vec<&[u8]>, Damage> {
    let mut frames = Vec::new();
    while !packed.is_empty() {
        let len = zstd::zstd_safe::find_frame_compressed_size(packed).ok();
        let Some((frame, rest)) = len.filter(|len| *len > 0).and_then(|len| packed.split_at_checked(len)) else {
            return Err(Damage::NoEnd);
        };
        frames.push(frame);
        packed = rest;
    }
    if frames.len() != count {
        return Err(Damage::Count { has: frames.len(), needs: count });
    }
    Ok(frames)
}

/// Unpacks frames, each into a place of exactly its size.
fn unpack_share(share: &mut [(&[u8], &mut [u8])]) -> Result<(), Damage> {
    for (frame, place) in share {
        let len = zstd::bulk::decompress_to_buffer(frame, place)?;
        if len != place.len() {
            return Err(Damage::Short(len, place.len()));
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
