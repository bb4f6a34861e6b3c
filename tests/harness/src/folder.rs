//! A folder for a test's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A new folder among the computer's temporary files. It goes when the value is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes a folder. The name is for people who find it; a kernel's name may be a part of it.
    pub fn new(name: &str) -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trapline-{}-{}-{number}", name.replace('/', "_"), std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Folder(path)
    }

    /// The path of a file in it, which need not be there.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes a file, and makes the folders above it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        let made = fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).and_then(|()| fs::write(&path, bytes));
        made.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
