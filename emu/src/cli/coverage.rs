//! `--coverage FILE`: the blocks of kernel code that ran, in drcov's format.

use super::Failure;
use super::output::{Paint, thousands};
use crate::outputs::drcov::{self, Block, CodeModule};
use crate::probed::Session;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The file, which is opened before the guest runs, so that a wrong name fails at once.
pub struct CoverageFile {
    file: File,
    name: String,
}

impl CoverageFile {
    /// Opens the file.
    pub fn new(path: &Path) -> Result<CoverageFile, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| Failure::usage(format!("`{name}` cannot be written: {error}")))?;
        Ok(CoverageFile { file, name })
    }

    /// Writes what ran until now, and prints the numbers on standard error.
    pub fn write(self, session: &mut Session) -> Result<(), Failure> {
        let modules: Vec<CodeModule> = session.code().into_iter().map(|(name, range)| CodeModule { name, range }).collect();
        let blocks: Vec<Block> = session.covered().into_iter().map(|(start, len)| Block { start, len }).collect();
        let mut to = BufWriter::new(self.file);
        let failed = |error: io::Error| Failure::failed(format!("`{}` cannot be written: {error}", self.name));
        let written =
            drcov::write(&mut to, &modules, &blocks).and_then(|written| to.flush().map(|()| written)).map_err(failed)?;
        let elsewhere = match written.elsewhere {
            0 => String::new(),
            count => format!("; {} more lie outside the kernel's text and its modules", thousands(count as u64)),
        };
        let note = Paint::for_errors().advice("note:");
        eprintln!("{note} `{}` has {} blocks that ran{elsewhere}", self.name, thousands(written.blocks as u64));
        Ok(())
    }
}
