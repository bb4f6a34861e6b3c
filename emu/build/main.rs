//! The build script of `trapline`. It sets the environment variable `TRAPLINE_SOURCES` to a hash of all sources that can
//! change a guest's run. Snapshots of booted guests have this hash in their key, so a program from other sources does not use
//! them. The script also compiles the C code of the CPU core's translator (`translator.rs`).

#[cfg(feature = "cpu")]
mod translator;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The hashed files and folders, relative to this crate. Those that do not exist are skipped, such as the folders of the other
/// crates in a package from the registry.
const SOURCES: &[&str] = &["src", "build", "../core/src", "../isa/src", "../probes/src", "../script/src", "../Cargo.lock"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        let path = root.join(source);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
            add(&path, &mut hasher)?;
        }
    }
    println!("cargo::rustc-env=TRAPLINE_SOURCES={:016x}", hasher.finish());
    #[cfg(feature = "cpu")]
    translator::compile(&root)?;
    Ok(())
}

/// Adds a file's name and bytes to the hash, or all files of a folder, sorted by path so that the hash is the same on every
/// file system.
fn add(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if !path.is_dir() {
        path.file_name().hash(hasher);
        fs::read(path)?.hash(hasher);
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| add(entry, hasher))
}
