//! A cache of unpacked kernels, in the folder `trapline/unpacked` of the user's cache. Reading one takes a tenth of the
//! half second that unpacking with xz takes.
//!
//! A file's name is the BLAKE3 hash of the packed bytes. It holds the unpacked bytes as `frames` packs them, then their number in
//! eight bytes, little-endian, and the BLAKE3 hash of the file's name and everything before. A file that is unreadable or
//! damaged counts as missing, and the bytes are unpacked again.

use crate::boot::payload::Shelf;
use crate::files::write_whole;
use crate::frames;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const LENGTH: usize = 8;
const CHECKSUM: usize = 32;
/// The number of files to keep. The oldest ones are deleted first.
const MOST_FILES: usize = 12;
const ENDING: &str = "unpacked";

/// A cache in one folder.
#[derive(Clone, Debug)]
pub struct Unpacked {
    folder: PathBuf,
}

impl Unpacked {
    /// A cache in that folder, which is created when it is first written to.
    pub fn within(folder: &Path) -> Unpacked {
        Unpacked { folder: folder.to_path_buf() }
    }

    fn file(&self, packed: &[u8]) -> PathBuf {
        self.folder.join(format!("{}.{ENDING}", blake3::hash(packed).to_hex()))
    }

    fn read(&self, packed: &[u8], most: u64) -> io::Result<Option<Vec<u8>>> {
        let path = self.file(packed);
        let held = fs::read(&path)?;
        let Some((body, checksum)) = held.split_last_chunk::<CHECKSUM>() else { return Ok(None) };
        if checksum_of(&path, body) != *checksum {
            return Ok(None);
        }
        let Some((frames, len)) = body.split_last_chunk::<LENGTH>() else { return Ok(None) };
        let len = usize::try_from(u64::from_le_bytes(*len).min(most.saturating_add(1))).unwrap_or(usize::MAX);
        Ok((len as u64 <= most).then(|| frames::unpack(frames, len).ok()).flatten())
    }

    fn write(&self, packed: &[u8], unpacked: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.file(packed);
        let mut held = frames::pack(unpacked)?;
        held.extend_from_slice(&(unpacked.len() as u64).to_le_bytes());
        let checksum = checksum_of(&path, &held);
        held.extend_from_slice(checksum.as_bytes());
        let written = write_whole(&path, &path.with_extension(format!("{}", std::process::id())), &held);
        self.remove_oldest();
        written
    }

    fn remove_oldest(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .filter_map(|entry| Some((entry.metadata().and_then(|about| about.modified()).ok()?, entry.path())))
            .filter(|(_, path)| path.extension().is_some_and(|ending| ending == ENDING))
            .collect();
        files.sort();
        for (_, path) in files.iter().rev().skip(MOST_FILES) {
            // A file that cannot be deleted does no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// The checksum over a file's name and its content.
fn checksum_of(path: &Path, body: &[u8]) -> blake3::Hash {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    blake3::Hasher::new().update(name).update(body).finalize()
}

impl Shelf for Unpacked {
    fn find(&self, packed: &[u8], most: u64) -> Option<Vec<u8>> {
        self.read(packed, most).ok().flatten()
    }

    /// Ignores errors: a cache that cannot be written only costs time.
    fn keep(&self, packed: &[u8], unpacked: &[u8]) {
        let _ = self.write(packed, unpacked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("trapline-unpacked-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const PACKED: &[u8] = b"packed";
    const MOST: u64 = 1 << 20;

    #[test]
    fn only_cached_files_are_found() {
        let folder = Folder::new("found");
        let shelf = Unpacked::within(&folder.0.join("of/its/own"));
        let kernel = [7; 5000];
        assert_eq!(shelf.find(PACKED, MOST), None);
        shelf.keep(PACKED, &kernel);
        assert_eq!(shelf.find(PACKED, MOST).as_deref(), Some(&kernel[..]));
        assert_eq!(shelf.find(b"other", MOST), None);
        assert_eq!(shelf.find(PACKED, 4999), None, "more than is wanted");
        let others = fs::read_dir(folder.0.join("of/its/own")).expect("its folder").count();
        assert_eq!(others, 1, "nothing else is left");
    }

    #[test]
    fn a_truncated_changed_or_renamed_file_is_ignored() {
        let folder = Folder::new("damaged");
        let shelf = Unpacked::within(&folder.0);
        shelf.keep(PACKED, b"a kernel, a kernel, a kernel");
        let path = shelf.file(PACKED);
        let whole = fs::read(&path).expect("its file");
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            for bytes in [&changed[..], &whole[..at]] {
                fs::write(&path, bytes).expect("written");
                assert_eq!(shelf.find(PACKED, MOST), None, "byte {at}");
            }
        }
        fs::write(shelf.file(b"other"), &whole).expect("written");
        assert_eq!(shelf.find(b"other", MOST), None, "another's file");
        fs::write(&path, &whole).expect("written");
        assert!(shelf.find(PACKED, MOST).is_some(), "the test itself");
    }

    #[test]
    fn a_folder_that_cannot_be_is_no_reason_to_fail() {
        let folder = Folder::new("file");
        fs::write(&folder.0, b"a file").expect("written");
        let shelf = Unpacked::within(&folder.0.join("below"));
        shelf.keep(PACKED, b"a kernel");
        assert_eq!(shelf.find(PACKED, MOST), None);
        fs::remove_file(&folder.0).expect("removed");
    }

    #[test]
    fn only_so_many_are_kept() {
        let folder = Folder::new("many");
        let shelf = Unpacked::within(&folder.0);
        for number in 0..MOST_FILES as u32 + 5 {
            shelf.keep(&number.to_le_bytes(), b"a kernel");
        }
        assert_eq!(fs::read_dir(&folder.0).expect("its folder").count(), MOST_FILES);
        assert!(shelf.find(&(MOST_FILES as u32 + 4).to_le_bytes(), MOST).is_some(), "the newest");
    }
}
