//! Tells the program what it was built from: a hash of the sources that decide about a guest's run. Snapshots of booted
//! guests carry it, so that one made by other sources is never taken for this one's. And compiles the CPU core's
//! translator (`translator.rs`).

#[cfg(feature = "cpu")]
mod translator;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

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
