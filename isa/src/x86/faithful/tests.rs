//! The bytes, by disassembly and by what they do.
