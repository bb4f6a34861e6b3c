//! The marks of Linux images for IA-64.

use super::{ENTRY_TEXT, Marks};

/// Its tables of exceptions have distances.
pub static MARKS: Marks = Marks {
    // The area is our own kernel's; Linux has none.
    unlisted_areas: &[ENTRY_TEXT],
    ..Marks::NONE
};
