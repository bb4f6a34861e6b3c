//! The file of `--report`, `--coverage` and `--vmcore`.

use super::Failure;
use std::fs::File;
use std::io;
use std::path::Path;

/// A file for a result. It is opened before the guest runs, so that a wrong name fails at once.
pub struct OutFile {
    /// The open file.
    pub file: File,
    /// Its name, for messages.
    pub name: String,
}

impl OutFile {
    /// Opens the file.
    pub fn new(path: &Path) -> Result<OutFile, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| Failure::usage(format!("`{name}` cannot be written: {error}")))?;
        Ok(OutFile { file, name })
    }

    /// The failure of a write.
    pub fn failed(&self) -> impl Fn(io::Error) -> Failure {
        move |error| Failure::failed(format!("`{}` cannot be written: {error}", self.name))
    }
}
