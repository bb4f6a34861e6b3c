//! Replaces the sections of docs/overhead.md that the programs of this package write. Each is between two marks, which are
//! HTML comments.

use std::fs;
use std::path::PathBuf;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/overhead.md")
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- {name}: begins -->\n"), format!("<!-- {name}: ends -->\n")]
}

/// The text of a section in the file, with its marks. Only the marks if the file has no such section.
fn kept(name: &str) -> String {
    let [begins, ends] = marks(name);
    let text = fs::read_to_string(file()).unwrap_or_default();
    let inside = text.split_once(&begins).and_then(|(_, rest)| rest.split_once(&ends)).map_or("", |(inside, _)| inside);
    format!("{begins}{inside}{ends}")
}

/// Replaces the contents of a section. Fails if the file has no marks of this name.
pub fn replace(name: &str, contents: &str) -> Result<(), String> {
    let [begins, ends] = marks(name);
    let file = file();
    let failed = |error| format!("{}: {error}", file.display());
    let text = fs::read_to_string(&file).map_err(failed)?;
    let old = kept(name);
    if !text.contains(&old) {
        return Err(format!("{} has no place for it: {}", file.display(), begins.trim()));
    }
    fs::write(&file, text.replace(&old, &format!("{begins}{contents}{ends}"))).map_err(failed)
}
