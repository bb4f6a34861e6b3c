//! The committed kernels are what the sources give.

use std::path::{Path, PathBuf};
use trapline_images::{Build, find, rebuild, tally};

/// A folder of this test's own that goes with it.
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

fn build(folder: &Folder) -> Build {
    let build = rebuild(&folder.0).unwrap_or_else(|error| panic!("{error}"));
    for (name, tool) in &build.left_out {
        tally::lacks(&format!("{name} is not built again, as there is no {tool} here"));
    }
    build
}

#[test]
fn the_committed_kernels_are_what_the_sources_give() {
    let folder = Folder::new("rebuild");
    for kernel in build(&folder).kernels {
        let name = kernel.name;
        let built = std::fs::read(&kernel.file).unwrap_or_else(|error| panic!("{}: {error}", kernel.file.display()));
        let committed = find(name).unwrap_or_else(|| panic!("{name} is not built in")).bytes;
        assert!(built.starts_with(b"\x7fELF"), "{name}: not an ELF file");
        if kernel.by_the_recorded_tools() {
            assert!(built == committed, "{name}: images/tiny/prebuilt is not what the sources give; run images/tiny/update.sh");
        } else {
            println!("{name}: built by {:?}, committed by {:?}: bytes not compared", kernel.tools, kernel.recorded);
        }
    }
}

#[test]
fn the_result_does_not_depend_on_where_it_is_built() {
    let (one, other) = (Folder::new("here"), Folder::new("a-longer-name-elsewhere"));
    for (a, b) in build(&one).kernels.into_iter().zip(build(&other).kernels) {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read(&a.file) == read(&b.file), "{}", a.name);
    }
}
