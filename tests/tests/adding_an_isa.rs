//! Checks that `docs/adding-an-isa.md` lists exactly the files that name many ISAs. These are the files that a new ISA
//! changes.
//!
//! The test reads source files, build scripts, tests, benches, fuzz targets, shell scripts, C code and the makefile,
//! without comments. A file that names at least four families of ISAs counts as a list of ISAs. A file with one to
//! three names is specific to these ISAs, such as a test of x86's ports. `scripts/check-floors.sh` has stricter rules
//! for the program's own sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The families of ISAs, each with the lower-case prefixes of words that name it.
const FAMILIES: &[(&str, &[&str])] = &[
    ("arm", &["arm", "thumb2", "armhf"]),
    ("arm64", &["arm64", "aarch64"]),
    ("ia64", &["ia64", "itanium2"]),
    ("mips", &["mips", "mipsel", "mips64", "mips64el"]),
    ("parisc", &["parisc", "hppa"]),
    ("ppc", &["ppc", "ppc64", "ppc64le", "ppc64el", "powerpc", "powerpc64", "powerpc64le", "powernv"]),
    ("riscv", &["riscv", "riscv32", "riscv64"]),
    ("s390", &["s390", "s390x"]),
    ("sparc", &["sparc", "sparc64"]),
    ("x86", &["x86", "x86_64", "i386", "i686", "amd64"]),
];

/// The number of families from which on a file is a list.
const MANY: usize = 4;

/// The ends of the names of files that are read.
const KINDS: &[&str] = &[".rs", ".c", ".h", ".S", ".sh", ".toml", "Makefile"];

/// Folders without hand-written files.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files below a folder, relative to the root.
fn files(folder: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder of the repository").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = folder.join(&name);
        let kind = entry.file_type().expect("a file's type");
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            files(&path, into);
        } else if kind.is_file() && KINDS.iter().any(|end| name.ends_with(end)) {
            into.push(path.to_string_lossy().into_owned());
        }
    }
}

/// A file's text without comments.
fn code(name: &str, text: &str) -> String {
    let line_comment = if [".sh", ".toml", "Makefile"].iter().any(|end| name.ends_with(end)) { "#" } else { "//" };
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*").filter(|_| line_comment == "//") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, behind)| behind);
    }
    kept.push_str(rest);
    let without = |line: &str| line.find(line_comment).map_or(line.to_string(), |at| line[..at].to_string());
    kept.lines().map(without).collect::<Vec<_>>().join("\n")
}

/// The families that a text names.
fn families(text: &str) -> BTreeSet<&'static str> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_letter(letter)).map(str::to_ascii_lowercase);
    words
        .filter_map(|word| FAMILIES.iter().find(|(_, names)| names.contains(&word.as_str())))
        .map(|(family, _)| *family)
        .collect()
}

/// The files and folders in the tables of the document. A folder of an ISA is written with `<arch>`.
fn listed() -> BTreeSet<String> {
    let document = fs::read_to_string(root().join("docs/adding-an-isa.md")).expect("the document");
    let first = |line: &str| line.strip_prefix("| ").and_then(|line| line.split_once(" |")).map(|(cell, _)| cell.to_string());
    let cells = document.lines().filter_map(first);
    let names = |cell: String| cell.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
    cells.flat_map(names).filter(|name| root().join(name).is_file()).collect()
}

#[test]
fn every_list_of_isas_is_in_the_document() {
    let mut all = Vec::new();
    files(Path::new(""), &mut all);
    assert!(all.len() > 500, "{} files were read", all.len());
    let is_list = |name: &&String| {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        families(&code(name, &text)).len() >= MANY
    };
    let lists: BTreeSet<&str> = all.iter().filter(is_list).map(String::as_str).collect();
    let listed = listed();
    let unlisted: Vec<&&str> = lists.iter().filter(|name| !listed.contains(**name)).collect();
    assert!(unlisted.is_empty(), "files that name {MANY} ISAs or more, and docs/adding-an-isa.md does not list: {unlisted:#?}");
}

#[test]
fn comments_and_parts_of_words_name_no_isa() {
    for (name, text, expected) in [
        ("a.rs", "let a = Arch::X86_64; // arm64, mips", 1),
        ("a.c", "int a; /* x86 arm\n mips */ int riscv64;", 1),
        ("a.sh", "echo s390x # ppc64", 1),
        ("Makefile", "A := debian/amd64 debian/armhf", 2),
        ("a.rs", "charm(alarm, mips_of, sparc64)", 1),
    ] {
        assert_eq!(families(&code(name, text)).len(), expected, "{text}");
    }
}
