//! The layout of a copied structure or array. A script may keep such a copy in a map. With the layout, its members can be
//! read and printed later, when guest memory has changed.

use super::numbers::extend;
use super::show::{json_text, put};
use super::types::Enumeration;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use trapline_isa::mem::ByteOrder;

/// The layout of a byte string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An integer.
    Number {
        /// The size in bytes.
        size: u8,
        /// Whether it is signed.
        signed: bool,
        /// For a bit field: the number of bits below it, and its width.
        bits: Option<(u8, u8)>,
        /// The guest's byte order.
        order: ByteOrder,
    },
    /// An enum of this size.
    Named(Arc<Enumeration>, u8, ByteOrder),
    /// An address of this size.
    Address(u8, ByteOrder),
    /// A string of at most this many bytes, which a 0 ends.
    Text(u64),
    /// An array of this length.
    Array(Box<Shape>, u64),
    /// A structure.
    Struct {
        /// The name of its type in C.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// Its members with their offsets, including those of anonymous structures.
        members: Vec<(String, u64, Shape)>,
    },
}

impl Shape {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Shape::Number { size, .. } | Shape::Address(size, _) | Shape::Named(_, size, _) => (*size).into(),
            Shape::Text(size) | Shape::Struct { size, .. } => *size,
            Shape::Array(of, count) => of.size().saturating_mul(*count),
        }
    }

    /// The number of its members and elements, with those of inner structures, and itself.
    pub(super) fn count_of_members(&self) -> u64 {
        match self {
            Shape::Array(of, _) => 1 + of.count_of_members(),
            Shape::Struct { members, .. } => 1 + members.iter().map(|(.., member)| member.count_of_members()).sum::<u64>(),
            _ => 1,
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Shape::Number { size, signed, .. } => format!("{}int{}", if *signed { "" } else { "u" }, u32::from(*size) * 8),
            Shape::Named(of, ..) => format!("enum {}", of.name),
            Shape::Address(..) => "void *".into(),
            Shape::Text(count) => format!("char[{count}]"),
            Shape::Array(of, count) => format!("{}[{count}]", of.name()),
            Shape::Struct { name, .. } => format!("struct {name}"),
        }
    }

    /// Writes a copy with this layout as text: `{ .x = 1, .y = [2,3] }`. Missing bytes count as zeros.
    pub fn write(&self, out: &mut Vec<u8>, bytes: &[u8], json: bool) {
        match self {
            Shape::Number { size, signed, bits, order } => {
                let mut number = order.number(front(bytes, *size));
                let (shift, width) = bits.unwrap_or((0, size.saturating_mul(8)));
                let unused = 64 - u32::from(width.clamp(1, 64));
                number = number >> u32::from(shift).min(63) << unused;
                match signed {
                    true => put(out, format_args!("{}", number as i64 >> unused)),
                    false => put(out, format_args!("{}", number >> unused)),
                }
            }
            Shape::Named(of, size, order) => {
                let number = extend(order.number(front(bytes, *size)), *size, of.signed);
                match of.name_of(number) {
                    Some(name) if !json => out.extend_from_slice(name.as_bytes()),
                    _ if of.signed => put(out, format_args!("{}", number as i64)),
                    _ => put(out, format_args!("{number}")),
                }
            }
            Shape::Address(size, order) => {
                let number = order.number(front(bytes, *size));
                if json { put(out, format_args!("{number}")) } else { put(out, format_args!("{number:#x}")) }
            }
            Shape::Text(_) if json => json_text(out, text(bytes)),
            Shape::Text(_) => out.extend_from_slice(text(bytes)),
            Shape::Array(of, count) => {
                let size = (of.size() as usize).max(1);
                out.push(b'[');
                let elements = bytes.chunks(size).take(usize::try_from(*count).unwrap_or(usize::MAX));
                for (number, element) in elements.enumerate() {
                    if number > 0 {
                        out.push(b',');
                    }
                    of.write(out, element, json);
                }
                out.push(b']');
            }
            Shape::Struct { members, .. } => {
                out.extend_from_slice(if json { b"{" } else { b"{ " });
                for (number, (name, at, shape)) in members.iter().enumerate() {
                    let (before, behind) = if json { ("\"", "\": ") } else { (".", " = ") };
                    put(out, format_args!("{}{before}{name}{behind}", if number > 0 { ", " } else { "" }));
                    let rest = bytes.get(usize::try_from(*at).unwrap_or(usize::MAX)..).unwrap_or_default();
                    let size = usize::try_from(shape.size()).unwrap_or(usize::MAX);
                    shape.write(out, &rest[..size.min(rest.len())], json);
                }
                out.extend_from_slice(if json { b"}" } else { b" }" });
            }
        }
    }
}

fn front(bytes: &[u8], size: u8) -> &[u8] {
    bytes.get(..usize::from(size.min(8))).unwrap_or_default()
}

/// The bytes up to the first 0.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}
