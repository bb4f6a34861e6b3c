//! Line coverage in the format of lcov's tracefiles, which genhtml, editors and code review tools read. A run says which
//! lines ran, not how often, so a count is 1 or 0.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// The coverage of one source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLines {
    /// Each function by its name: the line of its declaration, and whether it ran.
    pub functions: BTreeMap<String, (u32, bool)>,
    /// Each line with code, and whether some of it ran.
    pub lines: BTreeMap<u32, bool>,
}

impl FileLines {
    /// The number of lines that ran.
    pub fn ran(&self) -> usize {
        self.lines.values().filter(|ran| **ran).count()
    }

    /// Adds the coverage of the same file from elsewhere: some of a line ran if it ran in one of them.
    pub fn add(&mut self, other: FileLines) {
        for (name, (line, ran)) in other.functions {
            self.functions.entry(name).or_insert((line, false)).1 |= ran;
        }
        for (line, ran) in other.lines {
            *self.lines.entry(line).or_default() |= ran;
        }
    }
}

/// Writes the file.
pub fn write(to: &mut impl Write, files: &BTreeMap<String, FileLines>) -> io::Result<()> {
    writeln!(to, "TN:")?;
    for (name, file) in files {
        writeln!(to, "SF:{name}")?;
        for (name, (line, _)) in &file.functions {
            writeln!(to, "FN:{line},{name}")?;
        }
        for (name, (_, ran)) in &file.functions {
            writeln!(to, "FNDA:{},{name}", u8::from(*ran))?;
        }
        let ran = file.functions.values().filter(|(_, ran)| *ran).count();
        writeln!(to, "FNF:{}\nFNH:{ran}", file.functions.len())?;
        for (line, ran) in &file.lines {
            writeln!(to, "DA:{line},{}", u8::from(*ran))?;
        }
        writeln!(to, "LF:{}\nLH:{}\nend_of_record", file.lines.len(), file.ran())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-6: functions and lines have their counts and their sums.
    #[test]
    fn a_tracefile_has_counts_and_sums() {
        let functions = [("read".to_string(), (3, true)), ("write".to_string(), (9, false))].into();
        let file = FileLines { functions, lines: [(3, true), (4, true), (9, false)].into() };
        let mut out = Vec::new();
        write(&mut out, &[("fs/a.c".to_string(), file)].into()).expect("it is written");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "TN:\nSF:fs/a.c\nFN:3,read\nFN:9,write\nFNDA:1,read\nFNDA:0,write\nFNF:2\nFNH:1\n\
             DA:3,1\nDA:4,1\nDA:9,0\nLF:3\nLH:2\nend_of_record\n"
        );
    }
}
