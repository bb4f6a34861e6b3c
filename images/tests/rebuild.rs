//! The committed kernels are what the sources give.

use std::path::{Path, PathBuf};
use trapline_images::{find, installed_tools, rebuild, recorded_tools};

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

#[test]
fn the_committed_kernels_are_what_the_sources_give() {
    let folder = Folder::new("rebuild");
    let rebuilt = rebuild(&folder.0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(rebuilt.tools, installed_tools().unwrap_or_else(|error| panic!("{error}")));
    for (name, path) in &rebuilt.kernels {
        let built = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let committed = find(name).unwrap_or_else(|| panic!("{name} is not built in")).bytes;
        assert!(built.starts_with(b"\x7fELF"), "{name}: not an ELF file");
        if rebuilt.tools_are_the_recorded_ones() {
            assert!(built == committed, "{name}: images/tiny/prebuilt is not what the sources give; run images/tiny/update.sh");
        } else {
            println!("{name}: built by {:?}, committed by {:?}: bytes not compared", rebuilt.tools, recorded_tools());
        }
    }
}

#[test]
fn the_result_does_not_depend_on_where_it_is_built() {
    let (one, other) = (Folder::new("here"), Folder::new("a-longer-name-elsewhere"));
    let build = |folder: &Folder| rebuild(&folder.0).unwrap_or_else(|error| panic!("{error}")).kernels;
    for ((name, a), (_, b)) in build(&one).into_iter().zip(build(&other)) {
        let read = |path: &Path| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read(&a) == read(&b), "{name}");
    }
}
