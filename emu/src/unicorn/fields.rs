//! The table of fields of a CPU's state that the C part of some kinds of CPU exports (`translator/<cpu>/own.h`), for
//! snapshots by names.

use core::ffi::{CStr, c_char};

/// A row of that table, as C lays it out. [`Field`] has the meanings.
#[repr(C)]
pub(super) struct FieldOf {
    name: *const c_char,
    at: usize,
    bytes: usize,
    count: usize,
    is_own: bool,
}

/// A field of the state: one number, or an array of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name of the field, as snapshots use it. It is empty if the field is internal.
    pub name: &'static str,
    /// The offset of the first number in the state, in bytes.
    pub at: usize,
    /// The size in bytes of each number.
    pub bytes: usize,
    /// The number of numbers.
    pub count: usize,
    /// Whether the field is internal to the core: scratch, or derived from other fields.
    pub is_own: bool,
}

/// Reads a table of fields.
///
/// # Safety
/// `rows` must point to `count` rows that exist forever, and each name to a text that ends with a 0 and exists forever.
pub(super) unsafe fn of(rows: *const FieldOf, count: usize) -> Vec<Field> {
    // SAFETY: guaranteed by the caller.
    let rows = unsafe { core::slice::from_raw_parts(rows, count) };
    let field = |row: &FieldOf| {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { CStr::from_ptr(row.name) }.to_str().unwrap_or_default();
        Field { name, at: row.at, bytes: row.bytes, count: row.count, is_own: row.is_own }
    };
    rows.iter().map(field).collect()
}
