//! Files of the user's cache: the snapshot cache and the cache of unpacked kernels write theirs by this function.

use std::path::Path;
use std::{fs, io};

/// Writes a file atomically: first under the name `beside`, then it is renamed. An interrupted write leaves no partial
/// file at `path`.
pub fn write_whole(path: &Path, beside: &Path, bytes: &[u8]) -> io::Result<()> {
    let written = fs::write(beside, bytes).and_then(|()| fs::rename(beside, path));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}
