//! Pieces of HTML: escaped text, and tables that are readable without a script.

use crate::outputs::numbers::thousands;

/// Text without the characters that have a meaning in HTML, in attributes and in scripts.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Text, which is escaped when it is written.
    Text(String),
    /// A number, which is sorted as one.
    Number(u64),
    /// No value.
    Empty,
    /// A number with a bar of this share, in percent.
    Bar(u64, u64),
}

/// A table with a caption. Its columns can be sorted by the page's script.
pub fn table(caption: &str, columns: &[&str], rows: &[Vec<Cell>]) -> String {
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\"><table class=\"sorts\"><caption>{0}</caption><thead><tr>",
        escaped(caption)
    );
    for column in columns {
        out += &format!("<th scope=\"col\">{}</th>", escaped(column));
    }
    out += "</tr></thead><tbody>\n";
    for row in rows {
        out += "<tr>";
        for (number, cell) in row.iter().enumerate() {
            let (open, close) = if number == 0 { ("<th scope=\"row\"", "</th>") } else { ("<td", "</td>") };
            out += open;
            out += &match cell {
                Cell::Text(text) => format!(">{}", escaped(text)),
                Cell::Number(number) => format!(" class=\"number\" data-value=\"{number}\">{}", thousands(*number)),
                Cell::Empty => ">".into(),
                Cell::Bar(number, share) => format!(
                    " class=\"number\" data-value=\"{number}\">{} <span class=\"bar\" aria-hidden=\"true\" style=\"width:{}px\"></span>",
                    thousands(*number),
                    (*share).min(100) * 2
                ),
            };
            out += close;
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// Nanoseconds with a fitting unit.
pub fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..10_000 => format!("{nanoseconds} ns"),
        10_000..10_000_000 => format!("{:.3} us", nanoseconds as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.3} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.3} s", nanoseconds as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AN-4: text of the guest cannot become markup.
    #[test]
    fn text_of_the_guest_is_no_markup() {
        assert_eq!(escaped("<script>\"a\" & 'b'\u{1b}[31m"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}[31m");
        let table = table("<b>", &["a&b"], &[vec![Cell::Text("</table>".into()), Cell::Number(1234), Cell::Bar(5, 1000)]]);
        assert!(table.contains("&lt;b&gt;") && table.contains("a&amp;b") && table.contains("&lt;/table&gt;"), "{table}");
        assert!(table.contains("data-value=\"1234\">1,234") && table.contains("width:200px"), "{table}");
    }
}
