//! The description of an event's entries, as in the kernel's file `format`, and the entries' values.

use super::super::Seen;
use super::super::values::UNREADABLE;
use super::Order;
use std::fmt::Write;
use trapline_probes::events::format::{Field, Format, Reader, Value};
use trapline_probes::events::places::Places;
use trapline_probes::events::types::{Stored, Style};

/// The number of the event that has a call chain.
pub const KERNEL_STACK: u16 = 4;

/// Bytes of the fields that every entry begins with.
const COMMON: usize = 8;

const COMMON_FIELDS: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

/// The entries of one event.
pub struct Layout {
    /// The event's number in the file.
    pub id: u16,
    /// The description.
    pub text: String,
}

/// A value's type in C, its size, whether it is signed, and how it is printed.
struct Column {
    kind: &'static str,
    size: usize,
    signed: bool,
    print: &'static str,
    is_string: bool,
}

impl Column {
    fn of(stored: Stored) -> Column {
        let number = |kind, size, signed, print| Column { kind, size, signed, print, is_string: false };
        match stored {
            Stored::Integer(1, Style::Unsigned) => number("u8", 1, false, "%u"),
            Stored::Integer(2, Style::Unsigned) => number("u16", 2, false, "%u"),
            Stored::Integer(4, Style::Unsigned) => number("u32", 4, false, "%u"),
            Stored::Integer(_, Style::Unsigned) => number("u64", 8, false, "%Lu"),
            // Readers extend the sign of a small number only if its print format says how small it is.
            Stored::Integer(1, Style::Signed) => number("s8", 1, true, "%hhd"),
            Stored::Integer(2, Style::Signed) => number("s16", 2, true, "%hd"),
            Stored::Integer(4, Style::Signed) => number("s32", 4, true, "%d"),
            Stored::Integer(_, Style::Signed) => number("s64", 8, true, "%Ld"),
            Stored::Integer(1, Style::Hex) => number("u8", 1, false, "0x%x"),
            Stored::Integer(2, Style::Hex) => number("u16", 2, false, "0x%x"),
            Stored::Integer(4, Style::Hex) => number("u32", 4, false, "0x%x"),
            Stored::Integer(_, Style::Hex) => number("u64", 8, false, "0x%Lx"),
            Stored::Symbol(4) => number("u32", 4, false, "%pS"),
            Stored::Symbol(_) => number("u64", 8, false, "%pS"),
            Stored::SymbolString(_) | Stored::String | Stored::UserString => {
                Column { kind: "__data_loc char[]", size: 4, signed: true, print: "\\\"%s\\\"", is_string: true }
            }
        }
    }
}

impl Layout {
    /// The description of the entries of this event.
    pub fn new(id: u16, format: &Format, order: Order) -> Layout {
        let mut text = format!("name: {}\nID: {id}\nformat:\n{COMMON_FIELDS}", format.event);
        let mut at = COMMON;
        let mut field = |kind: &str, name: &str, size: usize, signed: bool| {
            let _ = writeln!(text, "\tfield:{kind} {name};\toffset:{at};\tsize:{size};\tsigned:{};", u8::from(signed));
            at += size;
        };
        let (mut print, mut arguments) = (String::new(), String::new());
        if format.returns {
            field("unsigned long", "__probe_func", order.word, false);
            field("unsigned long", "__probe_ret_ip", order.word, false);
            // The kernel prints numbers here. Readers have the symbols, so ours are printed by name.
            print.push_str("(%pS <- %ps)");
            arguments.push_str(", (void *)REC->__probe_ret_ip, (void *)REC->__probe_func");
        } else {
            field("unsigned long", "__probe_ip", order.word, false);
            print.push_str("(%pS)");
            arguments.push_str(", (void *)REC->__probe_ip");
        }
        for argument in &format.fields {
            let column = Column::of(argument.stored);
            let (name, count) = (&argument.name, usize::from(argument.count.unwrap_or(1)));
            match argument.count {
                None => field(column.kind, name, column.size, column.signed),
                Some(count) => field(column.kind, &format!("{name}[{count}]"), column.size * usize::from(count), column.signed),
            }
            let _ = write!(print, " {name}=");
            print.push_str(if argument.count.is_some() { "{" } else { "" });
            for index in 0..count {
                print.push_str(if index == 0 { "" } else { "," });
                print.push_str(column.print);
                let element = if argument.count.is_some() { format!("{name}[{index}]") } else { name.clone() };
                let _ = match column.is_string {
                    true => write!(arguments, ", __get_str({element})"),
                    false => write!(arguments, ", REC->{element}"),
                };
            }
            print.push_str(if argument.count.is_some() { "}" } else { "" });
        }
        let _ = write!(text, "\nprint fmt: \"{print}\"{arguments}\n");
        Layout { id, text }
    }
}

/// The description of call chains.
pub fn kernel_stack(order: Order) -> String {
    let at = if order.word == 8 { 16 } else { 12 };
    let callers: String = (0..8).map(|number| format!(", (void *)REC->caller[{number}]")).collect();
    format!(
        "name: kernel_stack\nID: {KERNEL_STACK}\nformat:\n{COMMON_FIELDS}\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:unsigned long caller[8];\toffset:{at};\tsize:{};\tsigned:0;\n\nprint fmt: \"{}\"{callers}\n",
        8 * order.word,
        "\\t=> %ps\\n".repeat(8),
    )
}

/// Appends a call chain behind the common fields.
pub fn put_stack(out: &mut Vec<u8>, order: Order, frames: impl Iterator<Item = u64>) {
    let size_at = out.len();
    order.put(out, 0, 4);
    out.resize(if order.word == 8 { 16 } else { 12 }, 0);
    let mut count = 0;
    for frame in frames {
        order.put(out, frame, order.word);
        count += 1;
    }
    // Readers stop at this mark; the kernel writes it behind chains that are shorter than the field.
    order.put(out, u64::MAX, order.word);
    order.amend(out, size_at, count);
}

/// Appends the event's own fields behind the common ones.
pub fn put_values(out: &mut Vec<u8>, order: Order, seen: &Seen<'_>, values: &mut Reader<'_>, places: &mut Places) {
    let header = &seen.record.header;
    order.put(out, header.ip, order.word);
    if seen.format.returns {
        order.put(out, header.return_ip, order.word);
    }
    let mut strings = Strings { end: fixed_end(seen.format, order), text: Vec::new() };
    for Field { stored, count, .. } in &seen.format.fields {
        for _ in 0..count.unwrap_or(1) {
            match values.next(*stored) {
                Value::Unsigned(number) | Value::Hex(number) | Value::Symbol(number) => {
                    order.put(out, number, Column::of(*stored).size);
                }
                Value::Signed(number) => order.put(out, number as u64, Column::of(*stored).size),
                Value::SymbolString(address) => strings.put(out, order, places.text(address, seen.symbols).as_bytes()),
                Value::String(text) => strings.put(out, order, text.unwrap_or(UNREADABLE.as_bytes())),
            }
        }
    }
    out.extend_from_slice(&strings.text);
}

/// The offset behind the fields of fixed size.
fn fixed_end(format: &Format, order: Order) -> usize {
    let words = if format.returns { 2 } else { 1 };
    let sizes = format.fields.iter().map(|field| Column::of(field.stored).size * usize::from(field.count.unwrap_or(1)));
    COMMON + words * order.word + sizes.sum::<usize>()
}

/// Strings stand behind the fixed fields. Each field has the string's offset and length.
struct Strings {
    end: usize,
    text: Vec<u8>,
}

impl Strings {
    fn put(&mut self, out: &mut Vec<u8>, order: Order, text: &[u8]) {
        let (at, len) = (self.end + self.text.len(), text.len() + 1);
        order.put(out, (len as u64) << 16 | at as u64, 4);
        self.text.extend_from_slice(text);
        self.text.push(0);
    }
}
