//! i386 and x86_64: one decoder, two tables (being written).

use crate::arch::Isa;

/// 32-bit x86.
pub static I386: Isa = todo!();
/// 64-bit x86.
pub static X86_64: Isa = todo!();
