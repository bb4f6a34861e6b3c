//! The committed kernels equal a build of the sources.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trapline_harness as harness;
use trapline_images::{Rebuilt, find, rebuild};

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        Folder(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn build(toolchain: [&'static str; 2], folder: &Folder) -> Vec<Rebuilt> {
    rebuild(toolchain, &folder.0).unwrap_or_else(|error| panic!("{error}"))
}

fn the_committed_kernels_are_what_the_sources_give(toolchain: [&'static str; 2]) {
    let folder = Folder::new(&format!("rebuild-{}", toolchain[0]));
    for kernel in build(toolchain, &folder) {
        let name = kernel.name;
        let built = std::fs::read(&kernel.file).unwrap_or_else(|error| panic!("{}: {error}", kernel.file.display()));
        let committed = find(name).unwrap_or_else(|| panic!("{name} is not built in")).bytes;
        assert!(built.starts_with(b"\x7fELF"), "{name}: not an ELF file");
        if kernel.by_the_recorded_tools() {
            assert!(built == committed, "{name}: images/tiny/prebuilt is not up to date; run images/tiny/update.sh");
        } else {
            println!("{name}: built by {:?}, committed by {:?}: bytes not compared", kernel.tools, kernel.recorded);
        }
    }
}

fn the_result_does_not_depend_on_where_it_is_built(toolchain: [&'static str; 2]) {
    let name = toolchain[0];
    let (one, other) = (Folder::new(&format!("here-{name}")), Folder::new(&format!("a-longer-name-elsewhere-{name}")));
    for (a, b) in build(toolchain, &one).into_iter().zip(build(toolchain, &other)) {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read(&a.file) == read(&b.file), "{}", a.name);
    }
}

fn main() -> ExitCode {
    harness::run([
        harness::each_toolchain(
            "the_committed_kernels_are_what_the_sources_give",
            the_committed_kernels_are_what_the_sources_give,
        ),
        harness::each_toolchain(
            "the_result_does_not_depend_on_where_it_is_built",
            the_result_does_not_depend_on_where_it_is_built,
        ),
    ])
}
