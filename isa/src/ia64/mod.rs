//! IA-64 (Itanium), little-endian: bundles of 16 bytes with three instructions each.
//!
//! The decoder and the disassembler know every instruction of the manual. No ISA is registered with them yet, so no
//! kernel can be probed.

pub mod bundle;
pub mod decode;
pub mod disasm;
pub mod fields;
pub mod names;
pub mod op;
