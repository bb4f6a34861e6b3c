//! The fields of a core's state, as listed by the C part.

use core::ffi::{CStr, c_char};

#[repr(C)]
pub(super) struct FieldOf {
    name: *const c_char,
    at: usize,
    bytes: usize,
    count: usize,
    is_own: bool,
}

/// Consecutive numbers in the state.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name; if there are several, the first one's, with a 0 at the end.
    pub name: &'static str,
    /// The offset of the first.
    pub at: usize,
    /// The bytes of each.
    pub bytes: usize,
    /// The number of them.
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
