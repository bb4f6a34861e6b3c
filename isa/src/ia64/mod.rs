//! IA-64 (Itanium), little-endian: bundles of 16 bytes with three instructions each.
//!
//! The decoder and the disassembler know every instruction of the manual. [`rules`] decides which ones may be probed, and
//! [`slot`] makes breakpoints and copies, and [`emulate`] executes what cannot run in a copy. No ISA is registered with them
//! yet, so no kernel can be probed.

pub mod abi;
pub mod bundle;
pub mod decode;
pub mod disasm;
pub mod emulate;
pub mod fields;
pub mod names;
pub mod op;
pub mod rules;
pub mod slot;
