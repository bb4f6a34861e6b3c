//! The cache of snapshots of booted guests, in `trapline/snapshots` of the user's cache folder. A snapshot is written
//! completely or not at all. Any defect of one is a reason to boot and write it again.

use super::file::{self, Key};
use super::{Snapshot, SnapshotError};
use crate::files::write_whole;
use std::fs;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A larger file is not one of ours.
const MOST_FILE_BYTES: u64 = 4 << 30;

/// Identifies the program that made a snapshot: its version and a hash of its sources. Other sources may run guests
/// differently.
pub const TRAPLINE: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("TRAPLINE_SOURCES"));

/// The path of a snapshot's file. `None` if the user has no cache folder.
pub fn path(key: &Key) -> Option<PathBuf> {
    let images = trapline_images::cache_folder()?;
    Some(images.with_file_name("snapshots").join(format!("{}.snapshot", key.name())))
}

/// The cached snapshot, if there is one. An error says what is wrong with it.
pub fn find(key: &Key, most: u64) -> Result<Option<Snapshot>, SnapshotError> {
    let Some(path) = path(key) else { return Ok(None) };
    let unreadable = |error: io::Error| SnapshotError::Damaged(format!("`{}` cannot be read: {error}", path.display()));
    let size = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(unreadable)?.len(),
    };
    if size > MOST_FILE_BYTES {
        return Err(SnapshotError::Damaged(format!("`{}` has {size} bytes", path.display())));
    }
    file::read(&fs::read(&path).map_err(unreadable)?, key, most).map(Some)
}

/// The reason why a snapshot is not in the cache.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotKept {
    /// The user has no cache folder.
    #[error("there is no cache folder: neither XDG_CACHE_HOME nor HOME is set")]
    NoFolder,
    /// The machine cannot be saved as a snapshot, or the snapshot has no form as a file.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The file cannot be written.
    #[error("`{}` cannot be written: {why}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        why: String,
    },
}

/// Writes a snapshot to the cache. Returns its path.
pub fn keep(key: &Key, snapshot: &Snapshot) -> Result<PathBuf, NotKept> {
    let path = path(key).ok_or(NotKept::NoFolder)?;
    let file = file::write(key, snapshot)?;
    let folder = path.parent().ok_or(NotKept::NoFolder)?;
    let cannot = |error: io::Error| NotKept::Unwritable { path: path.clone(), why: error.to_string() };
    fs::create_dir_all(folder).map_err(cannot)?;
    write_whole(&path, &folder.join(format!(".{}-{}", key.name(), std::process::id())), &file).map_err(cannot)?;
    Ok(path)
}
