//! Temporary files without a name. The system removes them when the process ends, however it ends.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes an empty file in the folder for temporary files.
pub fn spool() -> io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("trapline-spool-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
