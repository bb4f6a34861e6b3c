//! `--lines`: source lines beside addresses, with the calls that were inlined there.

use super::Failure;
use super::dwarf::{self, DwarfArg};
use crate::boot::Kernel;
use crate::lines::coverage::Ran;
use crate::lines::{DebugFile, Frame, Info};
use crate::outputs::lcov::FileLines;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The arguments `--dwarf` and `--lines`.
#[derive(clap::Args, Default)]
pub struct LinesArg {
    #[command(flatten)]
    pub dwarf: DwarfArg,
    /// Shows the source line of each address, and the calls that were inlined there. Needs debug information (--dwarf,
    /// or an image that has it)
    #[arg(long)]
    pub lines: bool,
}

impl LinesArg {
    /// The debug information, if lines are asked for.
    pub fn open(&self, image: &str, kernel: &Kernel) -> Result<Option<DebugFile>, Failure> {
        self.lines.then(|| self.dwarf.needed(image, kernel)).transpose()
    }
}

/// The source lines of addresses. Those that were asked for are kept.
pub struct SourceLines<'a> {
    info: Info<'a>,
    known: RefCell<HashMap<u64, Rc<[Frame]>>>,
}

impl<'a> SourceLines<'a> {
    /// Opens the debug information.
    pub fn new(file: &'a DebugFile) -> Result<SourceLines<'a>, Failure> {
        Ok(SourceLines { info: dwarf::info(file)?, known: RefCell::default() })
    }

    /// The debug information.
    pub fn info(&self) -> &Info<'a> {
        &self.info
    }

    /// The functions at an address, innermost first. Empty if the debug information does not have the address.
    pub fn at(&self, address: u64) -> Rc<[Frame]> {
        if let Some(frames) = self.known.borrow().get(&address) {
            return Rc::clone(frames);
        }
        // An address without an answer is shown without a line.
        let frames: Rc<[Frame]> = self.info.frames(address).unwrap_or_default().into();
        self.known.borrow_mut().insert(address, Rc::clone(&frames));
        frames
    }

    /// `fs/read_write.c:462`, and the functions that were inlined there; empty if nothing is known.
    pub fn text(&self, address: u64) -> String {
        text(&self.at(address))
    }

    /// The lines that ran, by source file.
    pub fn coverage(&self, ran: &Ran) -> Result<BTreeMap<String, FileLines>, Failure> {
        self.info.coverage(ran).map_err(|error| Failure::failed(format!("the debug information cannot be used: {error}")))
    }
}

/// `fs/read_write.c:462 (new_sync_read < vfs_read)` for frames, innermost first: the line, and the functions if one of
/// them was inlined.
pub fn text(frames: &[Frame]) -> String {
    let Some(first) = frames.first() else { return String::new() };
    let place = match first.line {
        0 => first.file.to_string(),
        line => format!("{}:{line}", first.file),
    };
    let names: Vec<&str> = frames.iter().map(|frame| &*frame.function).collect();
    match names.len() {
        1 => place,
        _ => format!("{place} ({})", names.join(" < ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-1: a line is shown with the functions that were inlined there.
    #[test]
    fn a_line_has_the_functions_that_were_inlined() {
        let frame = |function: &str, line, inlined| Frame { function: function.into(), file: "fs/a.c".into(), line, inlined };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[frame("read", 7, false)]), "fs/a.c:7");
        assert_eq!(text(&[frame("read", 0, false)]), "fs/a.c");
        assert_eq!(text(&[frame("inner", 3, true), frame("read", 7, false)]), "fs/a.c:3 (inner < read)");
    }
}
