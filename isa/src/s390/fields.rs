//! The fields of an instruction: registers, immediates, base and displacement, by format.

/// The byte at this offset; 0 behind the end of the instruction.
pub fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// R1, or a mask: bits 8 to 11.
pub fn r1(bytes: &[u8]) -> u8 {
    byte(bytes, 1) >> 4
}

/// R2, R3 or the index X2: bits 12 to 15.
pub fn r2(bytes: &[u8]) -> u8 {
    byte(bytes, 1) & 15
}

/// B2, the base register: bits 16 to 19.
pub fn base(bytes: &[u8]) -> u8 {
    byte(bytes, 2) >> 4
}

/// D2, the displacement: 12 bits, unsigned.
pub fn displacement(bytes: &[u8]) -> i32 {
    i32::from(byte(bytes, 2) & 15) << 8 | i32::from(byte(bytes, 3))
}

/// The displacement in long formats: 20 bits, signed. The high bits follow the low bits.
pub fn long_displacement(bytes: &[u8]) -> i32 {
    i32::from(byte(bytes, 4) as i8) << 12 | displacement(bytes)
}

/// The 16-bit immediate behind the registers.
pub fn halfword(bytes: &[u8]) -> i16 {
    i16::from_be_bytes([byte(bytes, 2), byte(bytes, 3)])
}

/// The 32-bit immediate behind the registers.
pub fn word(bytes: &[u8]) -> i32 {
    i32::from_be_bytes([byte(bytes, 2), byte(bytes, 3), byte(bytes, 4), byte(bytes, 5)])
}

/// The target of a relative address, which counts in halfwords.
pub fn place(address: u64, halfwords: impl Into<i64>) -> u64 {
    address.wrapping_add_signed(halfwords.into() << 1)
}
