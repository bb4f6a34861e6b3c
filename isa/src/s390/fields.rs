//! The parts of an instruction: where each format has its registers, numbers and places.

/// The byte at this place; 0 behind the end.
pub fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The first register, or a mask, in bits 8 to 11.
pub fn r1(bytes: &[u8]) -> u8 {
    byte(bytes, 1) >> 4
}

/// The second or third register, or an index, in bits 12 to 15.
pub fn r2(bytes: &[u8]) -> u8 {
    byte(bytes, 1) & 15
}

/// The base of the place in bits 16 to 31.
pub fn base(bytes: &[u8]) -> u8 {
    byte(bytes, 2) >> 4
}

/// What is added to it: 12 bits without a sign.
pub fn displacement(bytes: &[u8]) -> i32 {
    i32::from(byte(bytes, 2) & 15) << 8 | i32::from(byte(bytes, 3))
}

/// The same in long formats: 20 bits with a sign, of which the high ones stand behind the low ones.
pub fn long_displacement(bytes: &[u8]) -> i32 {
    i32::from(byte(bytes, 4) as i8) << 12 | displacement(bytes)
}

/// The number of 16 bits behind the registers.
pub fn halfword(bytes: &[u8]) -> i16 {
    i16::from_be_bytes([byte(bytes, 2), byte(bytes, 3)])
}

/// The number of 32 bits behind the registers.
pub fn word(bytes: &[u8]) -> i32 {
    i32::from_be_bytes([byte(bytes, 2), byte(bytes, 3), byte(bytes, 4), byte(bytes, 5)])
}

/// The place that is so many halfwords away.
pub fn place(address: u64, halfwords: impl Into<i64>) -> u64 {
    address.wrapping_add_signed(halfwords.into() << 1)
}
