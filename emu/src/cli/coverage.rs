//! `--coverage FILE`: the kernel code that ran, as blocks in drcov's format, or as source lines in lcov's.

use super::Failure;
use super::out_file::OutFile;
use super::output::{Paint, thousands};
use super::source_lines::SourceLines;
use crate::outputs::drcov::{self, Block, CodeModule};
use crate::outputs::lcov;
use crate::probed::Session;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Whether the file is one of lcov's, by its name.
pub fn is_lcov(path: &Path) -> bool {
    path.extension().and_then(|ending| ending.to_str()) == Some("info")
}

/// The file, and its format.
pub struct CoverageFile {
    out: OutFile,
    is_lcov: bool,
}

impl CoverageFile {
    /// Opens the file.
    pub fn new(path: &Path) -> Result<CoverageFile, Failure> {
        Ok(CoverageFile { out: OutFile::new(path)?, is_lcov: is_lcov(path) })
    }

    /// Writes what ran until now, and prints the numbers on standard error.
    pub fn write(self, session: &mut Session, lines: Option<&SourceLines<'_>>) -> Result<(), Failure> {
        let said = match lines.filter(|_| self.is_lcov) {
            Some(lines) => self.write_lines(session, lines)?,
            None => self.write_blocks(session)?,
        };
        eprintln!("{} `{}` has {said}", Paint::for_errors().advice("note:"), self.out.name);
        Ok(())
    }

    fn write_blocks(&self, session: &mut Session) -> Result<String, Failure> {
        let modules: Vec<CodeModule> = session.code().into_iter().map(|(name, range)| CodeModule { name, range }).collect();
        let blocks: Vec<Block> = session.covered().into_iter().map(|(start, len)| Block { start, len }).collect();
        let mut to = BufWriter::new(&self.out.file);
        let written = drcov::write(&mut to, &modules, &blocks)
            .and_then(|written| to.flush().map(|()| written))
            .map_err(self.out.failed())?;
        let elsewhere = match written.elsewhere {
            0 => String::new(),
            count => format!("; {} more lie outside the kernel's text and its modules", thousands(count as u64)),
        };
        Ok(format!("{} blocks that ran{elsewhere}", thousands(written.blocks as u64)))
    }

    fn write_lines(&self, session: &mut Session, lines: &SourceLines<'_>) -> Result<String, Failure> {
        let files = lines.coverage(&session.covered())?;
        let mut to = BufWriter::new(&self.out.file);
        lcov::write(&mut to, &files).and_then(|()| to.flush()).map_err(self.out.failed())?;
        let (ran, all) = files.values().fold((0, 0), |(ran, all), file| (ran + file.ran(), all + file.lines.len()));
        let (ran, all, files) = (thousands(ran as u64), thousands(all as u64), thousands(files.len() as u64));
        Ok(format!("{ran} lines that ran, of {all} in {files} source files"))
    }
}
