//! What a core can come to hold in its state, as the C part tells it.

use core::ffi::{CStr, c_char};

#[repr(C)]
pub(super) struct FieldOf {
    name: *const c_char,
    at: usize,
    bytes: usize,
    count: usize,
    is_own: bool,
}

/// Numbers in the state, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// What they are called, the first one with a 0 behind that if there are several.
    pub name: &'static str,
    /// Where the first lies.
    pub at: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// How many there are.
    pub count: usize,
    /// The core's own: scratch, and what follows from the rest.
    pub is_own: bool,
}

/// All of a table.
///
/// # Safety
/// So many rows stand there, for good, and each name is a text that ends with a 0 and stays.
pub(super) unsafe fn of(rows: *const FieldOf, count: usize) -> Vec<Field> {
    // SAFETY: the caller's.
    let rows = unsafe { core::slice::from_raw_parts(rows, count) };
    let field = |row: &FieldOf| {
        // SAFETY: the caller's.
        let name = unsafe { CStr::from_ptr(row.name) }.to_str().unwrap_or_default();
        Field { name, at: row.at, bytes: row.bytes, count: row.count, is_own: row.is_own }
    };
    rows.iter().map(field).collect()
}
