//! The line numbers of a unit: which source line an address belongs to, and where a line's statements are.

use super::error::Answer;
use super::units::{Info, Unit};
use gimli::{AttributeValue, constants as c};
use std::rc::Rc;

/// The code from one address to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The first address of the code.
    pub address: u64,
    /// The number of the source file in [`Rows::files`].
    pub file: u32,
    /// The line; 0 for code without a line.
    pub line: u32,
    /// Whether a statement begins here.
    pub is_statement: bool,
    /// Whether a sequence of code ends here.
    pub is_end: bool,
}

/// The rows of a unit, sorted by address, and its source files.
#[derive(Debug, Default)]
pub struct Rows {
    /// The line-number table. Each row ends at the next row's address.
    pub rows: Vec<Row>,
    /// The names of the source files, without the build's folder.
    pub files: Vec<Rc<str>>,
}

impl Rows {
    /// The row that holds an address.
    pub fn at(&self, address: u64) -> Option<&Row> {
        let behind = self.rows.partition_point(|row| row.address <= address);
        self.rows[..behind].last().filter(|row| !row.is_end)
    }

    /// The name of a row's source file.
    pub fn file(&self, number: u32) -> Rc<str> {
        self.files.get(number as usize).cloned().unwrap_or_else(|| "?".into())
    }
}

impl<'a> Info<'a> {
    /// The rows of a unit.
    pub(super) fn rows(&self, unit: &Unit<'a>) -> Answer<Rc<Rows>> {
        if let Some(rows) = unit.rows.get() {
            return Ok(Rc::clone(rows));
        }
        let rows = Rc::new(self.read_rows(unit)?);
        Ok(Rc::clone(unit.rows.get_or_init(|| rows)))
    }

    fn read_rows(&self, unit: &Unit<'a>) -> Answer<Rows> {
        let Some(program) = unit.unit.line_program.clone() else { return Ok(Rows::default()) };
        let header = program.header();
        let folder = unit.unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
        let mut files: Vec<Rc<str>> = Vec::new();
        // Before version 5 the numbers of files begin with 1.
        if header.version() < 5 {
            let own = unit.unit.name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            files.push(short(&own, &folder).into());
        }
        for file in header.file_names() {
            self.charge(1)?;
            let name = self.text(unit, file.path_name())?;
            let at = match file.directory(header) {
                Some(value) if file.directory_index() != 0 => self.text(unit, value)?,
                _ => String::new(),
            };
            let whole = if name.starts_with('/') || at.is_empty() { name } else { format!("{at}/{name}") };
            files.push(short(&whole, &folder).into());
        }
        let (mut rows, mut machine) = (Vec::new(), program.rows());
        while let Some((_, row)) = machine.next_row()? {
            self.charge(1)?;
            rows.push(Row {
                address: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                is_statement: row.is_stmt(),
                is_end: row.end_sequence(),
            });
        }
        // The end of a sequence stands in front of the start of the next one.
        rows.sort_by_key(|row| (row.address, !row.is_end));
        Ok(Rows { rows, files })
    }

    /// The source file and line where an entry says that it is declared.
    pub(super) fn declared(&self, place: super::units::Place) -> Answer<Option<(Rc<str>, u32)>> {
        let Some((number, line)) = self.attribute(place, c::DW_AT_decl_line)? else { return Ok(None) };
        let unit = self.unit(number)?;
        let file = match self.attribute(place, c::DW_AT_decl_file)? {
            Some((_, AttributeValue::FileIndex(file))) => file,
            Some((_, value)) => value.udata_value().unwrap_or(0),
            None => 0,
        };
        let line = line.udata_value().and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        Ok(Some((self.rows(&unit)?.file(u32::try_from(file).unwrap_or(u32::MAX)), line)))
    }
}

/// A name without the folder in which the kernel was compiled: `fs/read_write.c`.
fn short(name: &str, folder: &str) -> String {
    let name = name.strip_prefix("./").unwrap_or(name);
    if let Some(rest) = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')).filter(|_| !folder.is_empty()) {
        return rest.into();
    }
    // Distributions compile in a folder such as /build/linux-abc/linux-6.1.192.
    if name.starts_with('/') {
        let mut parts = name.split('/').scan(0, |at, part| {
            let start = *at;
            *at += part.len() + 1;
            Some((start, part))
        });
        let is_tree =
            |part: &str| part.strip_prefix("linux-").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
        if let Some((start, part)) = parts.find(|(_, part)| is_tree(part)) {
            return name.get(start + part.len() + 1..).unwrap_or(name).into();
        }
    }
    name.into()
}

/// Whether a file's name is the one that the user gave, which may lack folders in front.
pub fn is_named(file: &str, wanted: &str) -> bool {
    file == wanted || file.strip_suffix(wanted).is_some_and(|before| before.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LV-1
    #[test]
    fn names_of_files_lose_the_folder_of_the_build() {
        #[rustfmt::skip]
        let cases = [
            ("fs/read_write.c", "/home/me/linux", "fs/read_write.c"),
            ("./include/linux/fs.h", "/home/me/linux", "include/linux/fs.h"),
            ("/home/me/linux/fs/open.c", "/home/me/linux", "fs/open.c"),
            ("/build/linux-Ab/linux-6.1.192/include/linux/fs.h", "debian/build/x", "include/linux/fs.h"),
            ("/usr/lib/gcc/stdarg.h", "/home/me/linux", "/usr/lib/gcc/stdarg.h"),
            ("/home/me/linux2/a.c", "/home/me/linux", "/home/me/linux2/a.c"),
        ];
        for (name, folder, expected) in cases {
            assert_eq!(short(name, folder), expected, "{name}");
        }
        assert!(is_named("fs/open.c", "open.c") && is_named("fs/open.c", "fs/open.c") && !is_named("fs/reopen.c", "open.c"));
    }
}
