//! Output for users: tables with aligned columns, lines of JSON, progress bars.

use super::Failure;
pub use super::paint::Paint;
pub use crate::outputs::numbers::thousands;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Writes to standard output.
pub fn emit(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// The value as one line of JSON.
pub fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    match serde_json::to_string(value) {
        Ok(line) => Ok(line + "\n"),
        Err(error) => Err(Failure::failed(format!("the answer cannot be written as JSON: {error}"))),
    }
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text is left-aligned.
    Left,
    /// Numbers are right-aligned.
    Right,
}

/// A function that colours the text of a cell.
pub type Style = fn(Paint, &str) -> String;

/// A cell of a table: its text and its style.
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell without colour.
    pub fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), style: |_, text| text.to_string() }
    }

    /// A cell with a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }
}

/// A table for people. The last column is not padded.
pub struct Table {
    columns: &'static [(&'static str, Align)],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings. If all are empty, it has no heading line.
    pub fn new(columns: &'static [(&'static str, Align)]) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text.
    pub fn render(&self, paint: Paint) -> String {
        let heading = || self.columns.iter().map(|(name, _)| Cell::styled(*name, Paint::faint)).collect::<Vec<_>>();
        let headings: Vec<Vec<Cell>> =
            if self.columns.iter().all(|(name, _)| name.is_empty()) { Vec::new() } else { vec![heading()] };
        let lines = || headings.iter().chain(&self.rows);
        let width =
            |column: usize| lines().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (number, cell) in row.iter().enumerate() {
                let width = widths.get(number).copied().unwrap_or(0);
                let blanks = " ".repeat(width.saturating_sub(cell.text.chars().count()));
                let painted = (cell.style)(paint, &cell.text);
                let align = self.columns.get(number).map_or(Align::Left, |(_, align)| *align);
                line += &match (align, number + 1 == row.len()) {
                    (Align::Left, true) => painted,
                    (Align::Left, false) => painted + &blanks,
                    (Align::Right, _) => blanks + &painted,
                };
                line += "  ";
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A progress bar on standard error. It is hidden if standard error is not a terminal.
pub fn progress(total: u64, what: &'static str) -> ProgressBar {
    if !io::stderr().is_terminal() || total == 0 {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {human_pos}/{human_len} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

/// A status line on standard error for work of unknown length. It is hidden if standard error is not a terminal.
pub fn spinner() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let line = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {wide_msg}") {
        line.set_style(style);
    }
    line
}

/// Formats an address with the digits of a whole word, such as `ffffffff81000000`.
pub fn hex_address(address: u64, word: usize) -> String {
    format!("{address:0width$x}", width = word * 2)
}

/// Formats bytes with blanks between them, such as `0f 1f 44`.
pub fn spaced_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Formats bytes without blanks, such as `0f1f44`.
pub fn packed_bytes(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DV-1
    #[test]
    fn tables_line_up_and_colours_do_not_move_them() {
        let mut table = Table::new(&[("name", Align::Left), ("hits", Align::Right), ("why", Align::Left)]);
        table.row(vec![Cell::styled("a", Paint::good), Cell::plain("1,234"), Cell::plain("")]);
        table.row(vec![Cell::plain("long name"), Cell::plain("5"), Cell::plain("because")]);
        let plain = "name        hits  why\na          1,234\nlong name      5  because\n";
        assert_eq!(table.render(Paint::none()), plain);
        let coloured = table.render(Paint::colourful());
        assert!(coloured.contains("\x1b[32ma\x1b[0m          1,234"), "{coloured}");
    }
}
