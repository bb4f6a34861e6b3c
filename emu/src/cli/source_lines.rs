//! `--lines`: source lines beside addresses, with the calls that were inlined there.

use super::Failure;
use super::debug_files::{DebugFiles, Infos, ModuleInfo};
use super::dwarf::DwarfArg;
use super::output::Paint;
use crate::boot::Kernel;
use crate::lines::coverage::Ran;
use crate::lines::{Frame, Info};
use crate::outputs::lcov::FileLines;
use crate::probed::Session;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::PathBuf;
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
    pub fn open(&self, image: &str, kernel: &Kernel, loaded: &[PathBuf]) -> Result<Option<DebugFiles>, Failure> {
        self.lines.then(|| self.dwarf.needed(image, kernel, loaded)).transpose()
    }
}

/// A section of a module in the guest.
struct Section {
    range: Range<u64>,
    /// The number of the module.
    module: usize,
    /// The section's address in the module's file.
    in_file: u64,
}

/// The source lines of addresses. Those that were asked for are kept.
pub struct SourceLines<'a> {
    infos: Infos<'a>,
    /// The sections of loaded modules, the newest module's first.
    placed: RefCell<Vec<Section>>,
    known: RefCell<HashMap<u64, Rc<[Frame]>>>,
}

impl<'a> SourceLines<'a> {
    /// Opens the debug information.
    pub fn new(files: &'a DebugFiles) -> Result<SourceLines<'a>, Failure> {
        Ok(SourceLines { infos: files.infos()?, placed: RefCell::default(), known: RefCell::default() })
    }

    /// The debug information.
    pub fn infos(&self) -> &Infos<'a> {
        &self.infos
    }

    /// Notes where the guest has its modules. Modules of another build than their files have no lines.
    pub fn modules_are_those_of(&self, session: &Session) {
        let mut placed = Vec::new();
        for name in session.modules().iter().rev() {
            let Some(number) = self.infos.modules.iter().position(|module| module.name == name) else { continue };
            let (Some(loaded), Some(file)) = (session.module(name), self.infos.modules.get(number)) else { continue };
            if file.info.file.is_of(loaded.image.segments.iter().map(|segment| &*segment.bytes)) == Some(false) {
                let note = Paint::for_errors().advice("note:");
                eprintln!(
                    "{note} the module {name} in the guest is of another build than its debug information, so it has no lines"
                );
                continue;
            }
            let section = |section: &crate::boot::Section| {
                let in_file = file.placed()?.address(&section.name, 0)?;
                Some(Section { range: section.range.clone(), module: number, in_file })
            };
            placed.extend(loaded.image.sections().iter().filter_map(section));
        }
        *self.placed.borrow_mut() = placed;
        self.known.borrow_mut().clear();
    }

    /// The debug information that has an address, and the address in its file.
    fn of(&self, address: u64) -> Option<(&Info<'a>, u64)> {
        let placed = self.placed.borrow();
        match placed.iter().find(|section| section.range.contains(&address)) {
            Some(section) => {
                let ModuleInfo { info, .. } = self.infos.modules.get(section.module)?;
                Some((info, section.in_file.wrapping_add(address - section.range.start)))
            }
            None => Some((self.infos.kernel.as_ref()?, address)),
        }
    }

    /// The functions at an address, innermost first. Empty if the debug information does not have the address.
    pub fn at(&self, address: u64) -> Rc<[Frame]> {
        if let Some(frames) = self.known.borrow().get(&address) {
            return Rc::clone(frames);
        }
        // An address without an answer is shown without a line.
        let found = self.of(address).map(|(info, address)| info.frames(address).unwrap_or_default());
        let frames: Rc<[Frame]> = found.unwrap_or_default().into();
        self.known.borrow_mut().insert(address, Rc::clone(&frames));
        frames
    }

    /// `fs/read_write.c:462`, and the functions that were inlined there; empty if nothing is known.
    pub fn text(&self, address: u64) -> String {
        text(&self.at(address))
    }

    /// The lines that ran, by source file, of the kernel and of the modules that are loaded.
    pub fn coverage(&self, blocks: &BTreeMap<u64, u32>) -> Result<BTreeMap<String, FileLines>, Failure> {
        let failed = |error| Failure::failed(format!("the debug information cannot be used: {error}"));
        let mut files = match &self.infos.kernel {
            Some(info) => info.coverage(&Ran::new(blocks.iter().map(|(start, length)| (*start, *length)))).map_err(failed)?,
            None => BTreeMap::new(),
        };
        let placed = self.placed.borrow();
        for (number, module) in self.infos.modules.iter().enumerate() {
            let in_file = |(start, length): (&u64, &u32)| {
                let section = placed.iter().find(|section| section.range.contains(start))?;
                (section.module == number).then(|| (section.in_file + (start - section.range.start), *length))
            };
            let mut ran: Vec<(u64, u32)> = blocks.iter().filter_map(in_file).collect();
            ran.sort_unstable();
            // Headers of the kernel are part of modules, too.
            for (name, lines) in module.info.coverage(&Ran::new(ran)).map_err(failed)? {
                files.entry(name).or_default().add(lines);
            }
        }
        Ok(files)
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
