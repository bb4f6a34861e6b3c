//! Offsets in the CPU state of each kind of core, in bytes, as the C compiler sees them in Unicorn's headers.
//!
//! The build script writes them (`build/translator.rs`), from the lists `translator/<cpu>/offsets.h`. `NAME` is a field's
//! offset, and `NAME_END` the offset behind it. MIPS and SPARC have tables in their own C part instead.
#![allow(missing_docs, dead_code)] // Named after Unicorn's fields; not every end is used.

include!(concat!(env!("OUT_DIR"), "/offsets.rs"));
