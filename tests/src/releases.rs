//! The Debian kernel releases on this computer: those of the catalogue, and those that were pulled by the name of a suite.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use trapline::boot::{Kernel, kernels};

/// A kernel release on this computer.
#[derive(Clone)]
pub struct Release {
    /// The release, such as `6.12.48+deb13-amd64`.
    pub name: String,
    /// The kernel's file.
    pub file: PathBuf,
    /// The image folder that contains it.
    pub folder: PathBuf,
}

impl Release {
    /// The busybox for its ISA.
    pub fn busybox(&self, kernel: &Kernel) -> PathBuf {
        self.folder.join("busybox").join(format!("busybox-{}", kernels::of(kernel.arch).debian))
    }
}

/// The releases, sorted by name, each once.
pub fn releases() -> Vec<Release> {
    let mut found = BTreeMap::new();
    for folder in trapline_images::folders() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let names = ["vmlinuz", "vmlinux"].into_iter().flat_map(|stem| ["", ".xz"].map(|end| format!("{stem}-{name}{end}")));
            if let Some(file) = names.map(|name| entry.path().join(name)).find(|file| file.is_file()) {
                found.entry(name.clone()).or_insert(Release { name, file, folder: folder.clone() });
            }
        }
    }
    found.into_values().collect()
}
