//! Generated functions of RISC-V, in both widths, and where they and their detours lie.

use proptest::prelude::*;
use trapline_isa::arch::Isa;
use trapline_isa::region::PlainText;
use trapline_isa::riscv::Set;

const BYTES: usize = 0x1000;

/// A width, and the addresses of a function of it.
pub struct Place {
    pub set: Set,
    pub start: u64,
    /// A detour out of reach of the first jump.
    pub far: u64,
}

pub static PLACES: [Place; 2] = [
    Place { set: Set::Rv64, start: 0xffff_ffff_8020_0000, far: 0xffff_ffff_4020_0000 },
    // With 32 bits, a far jump reaches every address, by wrapping around.
    Place { set: Set::Rv32, start: 0xc020_0000, far: 0x4000_0000 },
];

impl Place {
    pub fn isa(&self) -> &'static Isa {
        self.set.isa()
    }

    /// The start of the next function, in reach of `c.jal`.
    pub fn callee(&self) -> u64 {
        self.start + 0x400
    }

    /// The detours that are tried: in reach of the first jump, and out of its reach.
    pub fn detours(&self) -> [u64; 2] {
        [self.start + 0xc00, self.far]
    }
}

/// A piece of a generated function. Targets are numbers of pieces, modulo their count.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    CompressedNop,
    /// `c.addi a0, N`
    CompressedSum(u8),
    /// `addi a0, a0, N`
    Sum(u8),
    /// `xori a1, a1, N`
    Other(u8),
    /// `auipc t0, N`
    Address(u8),
    /// `c.mv`, `c.add` and `c.li` of a0, a1 and t0 to t3.
    Move(u8, u8),
    Add(u8, u8),
    Load(u8),
    /// `c.j`
    CompressedJump(u8),
    /// `jal x0`
    Jump(u8),
    /// `c.bnez a0`
    CompressedBranch(u8),
    /// `bne a0, a1`
    Branch(u8),
    /// `bne a0, a1`, to the third byte of another piece.
    Between(u8),
    /// `jal ra`, to the next function or to a piece.
    Call,
    CallInto(u8),
    /// `c.jal` to the next function. RV64 has none: `jal ra` to it.
    CompressedCall,
    /// `c.jr a5`
    Switch,
    /// `ecall`, and the target of its exception table entry.
    Faulty(u8),
    /// A nop of 4 bytes that the kernel patches.
    Patched,
    /// `c.jr ra`
    Return,
}

pub fn piece() -> impl Strategy<Value = Piece> {
    use Piece::*;
    prop_oneof![
        2 => Just(CompressedNop),
        6 => any::<u8>().prop_map(CompressedSum),
        5 => any::<u8>().prop_map(Sum),
        3 => any::<u8>().prop_map(Other),
        1 => any::<u8>().prop_map(Address),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(to, from)| Move(to, from)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(to, from)| Add(to, from)),
        2 => any::<u8>().prop_map(Load),
        2 => any::<u8>().prop_map(CompressedJump),
        1 => any::<u8>().prop_map(Jump),
        2 => any::<u8>().prop_map(CompressedBranch),
        2 => any::<u8>().prop_map(Branch),
        1 => any::<u8>().prop_map(Between),
        1 => Just(Call),
        1 => any::<u8>().prop_map(CallInto),
        1 => Just(CompressedCall),
        1 => Just(Switch),
        1 => any::<u8>().prop_map(Faulty),
        1 => Just(Patched),
        1 => Just(Return),
    ]
}

impl Piece {
    fn length(self, set: Set) -> u64 {
        use Piece::*;
        match self {
            CompressedNop | CompressedSum(_) | CompressedJump(_) | CompressedBranch(_) | Switch | Return => 2,
            Move(..) | Add(..) | Load(_) => 2,
            CompressedCall if set == Set::Rv32 => 2,
            _ => 4,
        }
    }
}

/// One of a0, a1, t0 to t3.
fn register(number: u8) -> u32 {
    [10, 11, 5, 6, 7, 28][usize::from(number) % 6]
}

/// Bit `from` of a distance, moved to bit `to`.
fn bits(distance: i64, from: u32, count: u32, to: u32) -> u32 {
    (distance as u32 >> from & ((1 << count) - 1)) << to
}

fn jal(link: u32, distance: i64) -> u32 {
    bits(distance, 20, 1, 31)
        | bits(distance, 1, 10, 21)
        | bits(distance, 11, 1, 20)
        | bits(distance, 12, 8, 12)
        | link << 7
        | 0x6f
}

fn bne(distance: i64) -> u32 {
    bits(distance, 12, 1, 31) | bits(distance, 5, 6, 25) | bits(distance, 1, 4, 8) | bits(distance, 11, 1, 7) | 0x00b5_1063
}

fn c_j(distance: i64) -> u32 {
    let scattered = bits(distance, 11, 1, 12) | bits(distance, 4, 1, 11) | bits(distance, 8, 2, 9) | bits(distance, 10, 1, 8);
    scattered | bits(distance, 6, 1, 7) | bits(distance, 7, 1, 6) | bits(distance, 1, 3, 3) | bits(distance, 5, 1, 2) | 0xa001
}

fn c_bnez(distance: i64) -> u32 {
    let scattered = bits(distance, 8, 1, 12) | bits(distance, 3, 2, 10) | bits(distance, 6, 2, 5);
    scattered | bits(distance, 1, 2, 3) | bits(distance, 5, 1, 2) | 0xe101
}

/// The text of a function, followed by the next function.
pub struct Function {
    pub place: &'static Place,
    pub text: PlainText,
    pub end: u64,
}

/// `c.addi a0, 1; c.addi a0, 2; c.jr ra`
const LEAF: [u8; 6] = [0x05, 0x05, 0x09, 0x05, 0x82, 0x80];

pub fn assemble(place: &'static Place, pieces: &[Piece]) -> Function {
    let next = |at: &mut u64, piece: &Piece| {
        let start = *at;
        *at += piece.length(place.set);
        Some(start)
    };
    let starts: Vec<u64> = pieces.iter().scan(place.start, next).collect();
    let target = |number: u8| starts[usize::from(number) % starts.len()];
    let mut text = PlainText { start: place.start, ..PlainText::default() };
    for (piece, at) in pieces.iter().zip(&starts) {
        let to = |address: u64| address.wrapping_sub(*at) as i64;
        let word = match *piece {
            Piece::CompressedNop => 0x0001,
            Piece::CompressedSum(number) => 0x0501 | (u32::from(number) % 31 + 1) << 2,
            Piece::Sum(number) => 0x0005_0513 | (u32::from(number) + 1) << 20,
            Piece::Other(number) => 0x0005_c593 | u32::from(number) << 20,
            Piece::Address(number) => 0x0000_0297 | u32::from(number) << 12,
            Piece::Move(to, from) => 0x8002 | register(to) << 7 | register(from) << 2,
            Piece::Add(to, from) => 0x9002 | register(to) << 7 | register(from) << 2,
            Piece::Load(number) => 0x4001 | register(number) << 7 | (u32::from(number) / 6 % 32) << 2,
            Piece::CompressedJump(number) => c_j(to(target(number))),
            Piece::Jump(number) => jal(0, to(target(number))),
            Piece::CompressedBranch(number) => c_bnez(to(target(number))),
            Piece::Branch(number) => bne(to(target(number))),
            Piece::Between(number) => bne(to(target(number) + 2)),
            Piece::CompressedCall if place.set == Set::Rv32 => c_j(to(place.callee())) & !0x8000,
            Piece::Call | Piece::CompressedCall => jal(1, to(place.callee())),
            Piece::CallInto(number) => jal(1, to(target(number))),
            Piece::Switch => 0x8782,
            Piece::Faulty(number) => {
                text.fixups.push((*at, target(number)));
                0x0000_0073
            }
            Piece::Patched => {
                text.patched.push(*at);
                0x0000_0013
            }
            Piece::Return => 0x8082,
        };
        text.bytes.extend(&word.to_le_bytes()[..piece.length(place.set) as usize]);
    }
    let end = place.start + text.bytes.len() as u64;
    text.bytes.extend(LEAF);
    // Zeros are illegal instructions.
    text.bytes.resize(BYTES, 0);
    text.bytes[(place.callee() - place.start) as usize..][..LEAF.len()].copy_from_slice(&LEAF);
    Function { place, text, end }
}
