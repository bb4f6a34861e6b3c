//! The jump of an optimised probe: how long it is and how far it reaches (spec/isa-x86.md 8).

/// `jmp rel32`.
pub const JUMP: u8 = 0xe9;
/// Bytes of the jump.
pub const JUMP_LENGTH: usize = 5;
/// How far from the end of the jump a detour may lie, either way.
pub const REACH: u64 = 1 << 31;
