//! The layout of an instruction's bytes: prefixes, opcode, ModRM, and the offsets of displacement and immediate.
//!
//! The probing rules are about these bytes, and Linux looks at nothing else. Linux also steps over bytes that no CPU
//! executes (`lea` of a register, reserved opcodes) if they have the layout of an instruction, so lengths of those are
//! computed here too.

use super::Mode;
use crate::insn::LONGEST;

/// An instruction, split into prefixes, opcode and operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The marker of Xen or KVM that asks the hypervisor to emulate the instruction precedes it.
    pub marker: bool,
    /// Its legacy prefixes.
    pub prefixes: Prefixes,
    /// Its REX prefix; 0 if there is none.
    pub rex: u8,
    /// The map of its opcode.
    pub map: Map,
    /// The last byte of the opcode.
    pub opcode: u8,
    /// Its ModRM byte, if it has one.
    pub modrm: Option<u8>,
    /// Offset and size of the displacement, in bytes.
    pub displacement: (usize, usize),
    /// Offset of the immediate, which is last.
    pub immediate: usize,
}

/// An opcode map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// `xx`
    One,
    /// `0F xx`
    Two,
    /// `0F 38 xx`
    Three38,
    /// `0F 3A xx`
    Three3A,
    /// VEX, EVEX or XOP, with this map number.
    Vector(u8),
}

/// A set of legacy prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(u16);

impl Prefixes {
    const ALL: [u8; 11] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf0, 0xf2, 0xf3];

    /// Whether this prefix byte is in the set.
    pub fn has(self, prefix: u8) -> bool {
        Prefixes::ALL.iter().position(|known| *known == prefix).is_some_and(|bit| self.0 & 1 << bit != 0)
    }

    fn add(&mut self, byte: u8) -> bool {
        let bit = Prefixes::ALL.iter().position(|known| *known == byte);
        self.0 |= bit.map_or(0, |bit| 1 << bit);
        bit.is_some()
    }
}

/// The bytes that Xen and KVM put in front of an instruction that they are to emulate.
pub const MARKERS: [[u8; 5]; 2] = [[0x0f, 0x0b, 0x78, 0x65, 0x6e], [0x0f, 0x0b, 0x6b, 0x76, 0x6d]];

/// The error for bytes that end before the instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

impl Shape {
    /// Splits the instruction at the start of `bytes`.
    pub fn of(mode: Mode, bytes: &[u8]) -> Result<Shape, Truncated> {
        let mut at = 0;
        let marker = MARKERS.iter().any(|marker| bytes.starts_with(marker));
        if marker {
            at = MARKERS[0].len();
        }
        let (mut prefixes, mut rex) = (Prefixes::default(), 0);
        loop {
            let next = byte(bytes, at)?;
            // A REX prefix that is not directly in front of the opcode is ignored.
            let is_rex = mode == Mode::Bits64 && next & 0xf0 == 0x40;
            if !is_rex && !prefixes.add(next) {
                break;
            }
            rex = if is_rex { next } else { 0 };
            at += 1;
        }
        let (map, opcode_at) = map_at(mode, bytes, at)?;
        let opcode = byte(bytes, opcode_at)?;
        at = opcode_at + 1;
        let modrm = if has_modrm(map, opcode) { Some(byte(bytes, at)?) } else { None };
        let mut displacement = (at, 0);
        if let Some(modrm) = modrm {
            at += 1;
            displacement = displacement_at(mode, prefixes, modrm, bytes, at, is_control_move(map, opcode))?;
            at = displacement.0 + displacement.1;
        }
        Ok(Shape { marker, prefixes, rex, map, opcode, modrm, displacement, immediate: at })
    }

    /// The byte by which Linux 6.1 identifies the instruction: the first opcode byte. For vector instructions this is
    /// their only one, so Linux takes them for legacy instructions.
    pub fn first_opcode(&self) -> u8 {
        match self.map {
            Map::One | Map::Vector(_) => self.opcode,
            Map::Two | Map::Three38 | Map::Three3A => 0x0f,
        }
    }

    /// The reg field of ModRM; 0 without ModRM.
    pub fn reg(&self) -> u8 {
        self.modrm.unwrap_or(0) >> 3 & 7
    }

    /// Whether ModRM names a register, not memory.
    pub fn is_register(&self) -> bool {
        self.modrm.is_some_and(|modrm| modrm >= 0xc0)
    }

    /// Whether its memory operand is relative to the next instruction.
    pub fn is_ip_relative(&self, mode: Mode) -> bool {
        mode == Mode::Bits64 && self.modrm.is_some_and(|modrm| modrm & 0xc7 == 0x05) && self.displacement.1 == 4
    }

    /// The length by the legacy opcode maps, whether a CPU knows the instruction or not. `None` in the other maps,
    /// where Linux does not step over unknown instructions either.
    pub fn legacy_length(&self, mode: Mode) -> Option<usize> {
        let operand16 = self.prefixes.has(0x66) && self.rex & 8 == 0;
        let word = if operand16 { 2 } else { 4 };
        let immediate = match (self.map, self.opcode) {
            (Map::One, 0xf6 | 0xf7) if self.reg() > 1 => 0,
            (Map::One, 0xe8 | 0xe9) | (Map::Two, 0x80..=0x8f) if mode == Mode::Bits64 => 4,
            (Map::Two, 0x80..=0x8f) => word,
            (Map::Two, 0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) => 1,
            (Map::Two, _) => 0,
            #[rustfmt::skip]
            (Map::One, 0x6a | 0x6b | 0x70..=0x80 | 0x82 | 0x83 | 0xa8 | 0xb0..=0xb7 | 0xc0 | 0xc1 | 0xc6 | 0xcd | 0xd4 | 0xd5 | 0xe0..=0xe7 | 0xeb | 0xf6) => 1,
            (Map::One, 0x68 | 0x69 | 0x81 | 0xa9 | 0xc7 | 0xe8 | 0xe9 | 0xf7) => word,
            (Map::One, 0xb8..=0xbf) => {
                if self.rex & 8 != 0 {
                    8
                } else {
                    word
                }
            }
            (Map::One, 0xc2 | 0xca) => 2,
            (Map::One, 0xc8) => 3,
            (Map::One, 0x9a | 0xea) => word + 2,
            (Map::One, 0xa0..=0xa3) => address_size(mode, self.prefixes),
            (Map::One, 0x00..=0x3f) if self.opcode & 7 == 4 => 1,
            (Map::One, 0x00..=0x3f) if self.opcode & 7 == 5 => word,
            (Map::One, _) => 0,
            _ => return None,
        };
        Some(self.immediate + immediate)
    }
}

/// Bytes of an effective address.
pub fn address_size(mode: Mode, prefixes: Prefixes) -> usize {
    match (mode, prefixes.has(0x67)) {
        (Mode::Bits64, false) => 8,
        (Mode::Bits64, true) | (Mode::Bits32, false) => 4,
        (Mode::Bits32, true) => 2,
    }
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Truncated> {
    if at >= LONGEST { Err(Truncated) } else { bytes.get(at).copied().ok_or(Truncated) }
}

/// The opcode map, and the offset of the opcode's last byte.
fn map_at(mode: Mode, bytes: &[u8], at: usize) -> Result<(Map, usize), Truncated> {
    let vector = |bytes: &[u8]| Ok(mode == Mode::Bits64 || byte(bytes, at + 1)? >= 0xc0);
    match byte(bytes, at)? {
        0x0f => match byte(bytes, at + 1)? {
            0x38 => Ok((Map::Three38, at + 2)),
            0x3a => Ok((Map::Three3A, at + 2)),
            _ => Ok((Map::Two, at + 1)),
        },
        0xc5 if vector(bytes)? => Ok((Map::Vector(1), at + 2)),
        0xc4 if vector(bytes)? => Ok((Map::Vector(byte(bytes, at + 1)? & 0x1f), at + 3)),
        0x62 if vector(bytes)? => Ok((Map::Vector(byte(bytes, at + 1)? & 0x07), at + 4)),
        // XOP. Map numbers below 8 are `pop`.
        0x8f if byte(bytes, at + 1)? & 0x1f >= 8 => Ok((Map::Vector(bytes[at + 1] & 0x1f), at + 3)),
        _ => Ok((Map::One, at)),
    }
}

fn has_modrm(map: Map, opcode: u8) -> bool {
    #[rustfmt::skip]
    let one = match opcode {
        0x00..=0x3f => opcode & 7 < 4,
        0x62 | 0x63 | 0x69 | 0x6b | 0x80..=0x8f | 0xc0 | 0xc1 | 0xc4..=0xc7 | 0xd0..=0xd3 | 0xd8..=0xdf | 0xf6 | 0xf7 | 0xfe | 0xff => true,
        _ => false,
    };
    #[rustfmt::skip]
    let two = !matches!(opcode, 0x04..=0x0c | 0x0e | 0x24..=0x27 | 0x30..=0x37 | 0x39 | 0x3b..=0x3f | 0x77 | 0x80..=0x8f | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf);
    match map {
        Map::One => one,
        Map::Two => two,
        Map::Three38 | Map::Three3A => true,
        Map::Vector(number) => (number, opcode) != (1, 0x77), // vzeroupper
    }
}

/// Whether this is a `mov` of a control, debug or test register, which ignores the mode field of ModRM.
fn is_control_move(map: Map, opcode: u8) -> bool {
    map == Map::Two && matches!(opcode, 0x20..=0x23)
}

fn displacement_at(
    mode: Mode,
    prefixes: Prefixes,
    modrm: u8,
    bytes: &[u8],
    at: usize,
    registers_only: bool,
) -> Result<(usize, usize), Truncated> {
    let (form, rm) = (modrm >> 6, modrm & 7);
    if form == 3 || registers_only {
        return Ok((at, 0));
    }
    if address_size(mode, prefixes) == 2 {
        return Ok(match (form, rm) {
            (0, 6) | (2, _) => (at, 2),
            (1, _) => (at, 1),
            _ => (at, 0),
        });
    }
    let (at, base) = if rm == 4 { (at + 1, byte(bytes, at)? & 7) } else { (at, rm) };
    Ok(match (form, base) {
        (0, 5) | (2, _) => (at, 4),
        (1, _) => (at, 1),
        _ => (at, 0),
    })
}
