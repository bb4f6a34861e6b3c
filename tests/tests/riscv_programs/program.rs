//! Random RISC-V programs that terminate, with full and compressed instructions: arithmetic, multiplication and division,
//! accesses of every size, atomic ones too, branches, loops, calls, computed jumps, and floating point.
//!
//! A program may be anywhere in memory: whatever is computed from the pc or the stack pointer becomes a distance from the
//! program's start before it is used.

use super::{DATA, EXIT_AT, SAVED_AT, STACK};

/// s0 always points to the middle of the data. Compressed accesses reach 248 bytes behind it.
const BASE: u32 = 8;
const SP: u32 = 2;
/// s11 always points to the program's start.
const START: u32 = 27;
/// tp is the loop counter.
const COUNT: u32 = 4;
/// ra and gp hold addresses.
const LINK: u32 = 1;
const PLACE: u32 = 3;
/// Registers that a program may write.
const WRITTEN: &[u32] = &[5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31];
/// Those that compressed instructions with three bits for a register can name.
const NEAR: &[u32] = &[9, 10, 11, 12, 13, 14, 15];
/// The first half of the floating-point registers holds doubles, the other one single numbers: what a double is as a single
/// number, QEMU computes in another way since 5.2.
const SINGLES: u32 = 16;

/// funct7 and funct3 of operations on two registers: those of the base, multiplication and division.
#[rustfmt::skip]
const SUMS: &[(u32, u32)] = &[
    (0, 0), (0x20, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0x20, 5), (0, 6), (0, 7),
    (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7),
];
/// funct7 and funct3 of operations on the lower half of 64-bit registers.
const SHORT_SUMS: &[(u32, u32)] = &[(0, 0), (0x20, 0), (0, 1), (0, 5), (0x20, 5), (1, 0), (1, 4), (1, 5), (1, 6), (1, 7)];
/// funct5 of atomic operations.
const ATOMIC: &[u32] = &[0x00, 0x01, 0x04, 0x08, 0x0c, 0x10, 0x14, 0x18, 0x1c];
/// funct3 of loads and stores with their sizes in bytes, and whether only 64 bits have them.
const LOADS: &[(u32, i32, bool)] =
    &[(0, 1, false), (1, 2, false), (2, 4, false), (4, 1, false), (5, 2, false), (3, 8, true), (6, 4, true)];
const STORES: &[(u32, i32, bool)] = &[(0, 1, false), (1, 2, false), (2, 4, false), (3, 8, true)];

/// Pseudo-random numbers from a seed.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u32 {
        (self.next() % end) as u32
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Data with small and large numbers.
    pub fn data(mut self, bytes: usize) -> Vec<u8> {
        let mut data = Vec::new();
        while data.len() < bytes {
            let word = self.next();
            let word = if word & 3 == 0 { (word >> 32) % 100 } else { word };
            data.extend(word.to_le_bytes());
        }
        data
    }
}

/// A program under construction.
pub struct Program {
    code: Vec<u8>,
    random: Random,
    is_wide: bool,
}

impl Program {
    /// The code of a program of this width.
    pub fn of(seed: u64, is_wide: bool) -> Vec<u8> {
        let mut program = Program { code: Vec::new(), random: Random(seed), is_wide };
        program.write();
        program.code
    }

    fn at(&self) -> u64 {
        self.code.len() as u64
    }

    fn full(&mut self, word: u32) {
        self.code.extend(word.to_le_bytes());
    }

    fn half(&mut self, word: u32) {
        self.code.extend((word as u16).to_le_bytes());
    }

    fn rd(&mut self) -> u32 {
        self.random.of(WRITTEN)
    }

    /// A register to read. It may be zero.
    fn source(&mut self) -> u32 {
        if self.random.below(16) == 0 { 0 } else { self.random.of(WRITTEN) }
    }

    fn near(&mut self) -> u32 {
        self.random.of(NEAR)
    }

    fn constant(&mut self, opcode: u32, funct3: u32, rd: u32, rs: u32, value: i32) {
        self.full((value as u32) << 20 | rs << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    fn registers(&mut self, opcode: u32, (funct7, funct3): (u32, u32), rd: u32, rs: u32, other: u32) {
        self.full(funct7 << 25 | other << 20 | rs << 15 | funct3 << 12 | rd << 7 | opcode);
    }

    fn store(&mut self, opcode: u32, funct3: u32, rs: u32, base: u32, offset: i32) {
        let offset = offset as u32;
        self.full((offset >> 5 & 0x7f) << 25 | rs << 20 | base << 15 | funct3 << 12 | (offset & 0x1f) << 7 | opcode);
    }

    /// Turns an address into its distance from the program's start.
    fn relative(&mut self, register: u32) {
        self.registers(0x33, (0x20, 0), register, register, START);
    }

    /// Loads the address of this place in the program's memory.
    fn address(&mut self, register: u32, place: u64) {
        let distance = place.wrapping_sub(self.at()) as i64 as i32;
        self.full((distance.wrapping_add(0x800) as u32 & 0xffff_f000) | register << 7 | 0x17);
        self.constant(0x13, 0, register, register, distance << 20 >> 20);
    }

    fn write(&mut self) {
        self.address(START, 0);
        // `address` was the first: its own place is the program's start.
        self.address(BASE, DATA + 0x800);
        self.address(SP, STACK);
        let word = if self.is_wide { 8 } else { 4 };
        let load = if self.is_wide { 3 } else { 2 };
        for (number, register) in (0..).zip(WRITTEN) {
            self.constant(0x03, load, *register, BASE, number * word - 0x800);
        }
        for register in 0..32 {
            let funct3 = if register < SINGLES { 3 } else { 2 };
            self.constant(0x07, funct3, register, BASE, 8 * register as i32);
        }
        self.full(0x0030_1073); // csrw fcsr, zero
        let functions = self.functions();
        for _ in 0..160 {
            if self.random.below(12) == 0 {
                let function = self.random.of(&functions);
                self.jump(LINK, function);
            } else {
                self.block();
            }
        }
        self.save();
    }

    /// Functions, which the program jumps over. They call nothing.
    fn functions(&mut self) -> Vec<u64> {
        let over = self.at();
        self.full(0);
        let functions = (0..6)
            .map(|number| {
                let entry = self.at();
                for _ in 0..4 {
                    self.step();
                }
                // A compressed or a full return.
                if number % 2 == 0 {
                    self.half(0x8082)
                } else {
                    self.full(0x0000_8067)
                }
                entry
            })
            .collect();
        self.patch(over, |distance| jal(0, distance));
        functions
    }

    /// Writes the full instruction at this place, which leads to the present one.
    fn patch(&mut self, at: u64, of: impl FnOnce(i32) -> u32) {
        let word = of((self.at() - at) as i32);
        self.code[at as usize..at as usize + 4].copy_from_slice(&word.to_le_bytes());
    }

    fn patch_half(&mut self, at: u64, of: impl FnOnce(i32) -> u32) {
        let word = of((self.at() - at) as i32) as u16;
        self.code[at as usize..at as usize + 2].copy_from_slice(&word.to_le_bytes());
    }

    fn jump(&mut self, link: u32, to: u64) {
        let distance = to.wrapping_sub(self.at()) as i64 as i32;
        self.full(jal(link, distance));
    }

    fn steps(&mut self, most: u64) {
        for _ in 0..=self.random.below(most) {
            self.step();
        }
    }

    /// Something with a branch, or a step.
    fn block(&mut self) {
        match self.random.below(14) {
            0 | 1 => {
                let (funct3, one, other) = (self.random.of(&[0, 1, 4, 5, 6, 7]), self.source(), self.source());
                let at = self.at();
                self.full(0);
                self.steps(3);
                self.patch(at, |distance| branch(funct3, one, other, distance));
            }
            2 => {
                let (op, near) = (self.random.of(&[0xc001, 0xe001]), self.near());
                let at = self.at();
                self.half(1);
                self.steps(3);
                self.patch_half(at, |distance| compressed_branch(op, near, distance));
            }
            3 => self.counted(),
            4 => {
                let link = self.random.of(&[0, LINK]);
                let at = self.at();
                self.full(0);
                self.steps(2);
                self.patch(at, |distance| jal(link, distance));
                self.link(link);
            }
            5 => {
                // c.j, and on 32 bits c.jal.
                let links = !self.is_wide && self.random.below(2) == 0;
                let at = self.at();
                self.half(1);
                self.steps(2);
                self.patch_half(at, |distance| compressed_jump(if links { 0x2001 } else { 0xa001 }, distance));
                self.link(if links { LINK } else { 0 });
            }
            6 => {
                // auipc and jalr, whose link may be its own base.
                let link = self.random.of(&[0, LINK, PLACE]);
                let at = self.at();
                self.full(PLACE << 7 | 0x17);
                self.full(0);
                self.steps(2);
                let distance = (self.at() - at) as u32;
                let word = distance << 20 | PLACE << 15 | link << 7 | 0x67;
                self.code[at as usize + 4..at as usize + 8].copy_from_slice(&word.to_le_bytes());
                self.link(link);
            }
            7 => {
                // c.jr and c.jalr through a computed address.
                let links = self.random.below(2);
                let at = self.at();
                self.full(PLACE << 7 | 0x17);
                self.full(0);
                self.half(0x8002 | links << 12 | PLACE << 7);
                self.steps(2);
                let distance = (self.at() - at) as u32;
                let word = distance << 20 | PLACE << 15 | PLACE << 7 | 0x13;
                self.code[at as usize + 4..at as usize + 8].copy_from_slice(&word.to_le_bytes());
                self.link(if links == 1 { LINK } else { 0 });
            }
            _ => self.step(),
        }
    }

    /// Keeps the distance that a jump has left in its link register.
    fn link(&mut self, link: u32) {
        if link != 0 {
            self.relative(link);
            let rd = self.rd();
            self.registers(0x33, (0, 4), rd, rd, link);
        }
    }

    /// A loop.
    fn counted(&mut self) {
        let rounds = 1 + self.random.below(4) as i32;
        self.constant(0x13, 0, COUNT, 0, rounds);
        let top = self.at();
        self.steps(4);
        self.constant(0x13, 0, COUNT, COUNT, -1);
        let distance = top.wrapping_sub(self.at()) as i64 as i32;
        self.full(branch(1, COUNT, 0, distance));
    }

    /// An instruction, or a few that belong together, without a branch.
    fn step(&mut self) {
        match self.random.below(20) {
            0..=2 => {
                let short = self.is_wide && self.random.below(3) == 0;
                let (rd, rs, other) = (self.rd(), self.source(), self.source());
                let op = self.random.of(if short { SHORT_SUMS } else { SUMS });
                self.registers(if short { 0x3b } else { 0x33 }, op, rd, rs, other);
            }
            3 | 4 => self.with_constant(),
            5 => {
                let (rd, upper) = (self.rd(), self.random.next() as u32 & 0xffff_f000);
                let counts = self.random.below(2) == 0;
                self.full(upper | rd << 7 | if counts { 0x17 } else { 0x37 });
                if counts {
                    self.relative(rd);
                }
            }
            6 | 7 => self.access(),
            8 => self.atomic(),
            9..=11 => self.floating(),
            12 => self.floating_access(),
            13 => self.control(),
            14..=16 => self.compressed(),
            _ => self.compressed_access(),
        }
    }

    fn with_constant(&mut self) {
        let (rd, rs, value) = (self.rd(), self.source(), (self.random.next() as i32) >> 20);
        let funct3 = self.random.below(8);
        let short = self.is_wide && matches!(funct3, 0 | 1 | 5) && self.random.below(2) == 0;
        let bits = if self.is_wide && !short { 63 } else { 31 };
        let value = match funct3 {
            1 => value & bits,
            5 => value & bits | (value & 0x40) << 4,
            _ => value,
        };
        self.constant(if short { 0x1b } else { 0x13 }, funct3, rd, rs, value);
    }

    fn offset(&mut self, size: i32) -> i32 {
        ((self.random.next() as i32) >> 20) / size * size
    }

    fn access(&mut self) {
        let is_load = self.random.below(2) == 0;
        let (funct3, size, wide) = self.random.of(if is_load { LOADS } else { STORES });
        if wide && !self.is_wide {
            return;
        }
        let offset = self.offset(size);
        if is_load {
            let rd = self.rd();
            self.constant(0x03, funct3, rd, BASE, offset);
        } else {
            let rs = self.source();
            self.store(0x23, funct3, rs, BASE, offset);
        }
    }

    fn atomic(&mut self) {
        let wide = self.is_wide && self.random.below(2) == 0;
        let (funct3, offset) = (if wide { 3 } else { 2 }, self.offset(8));
        self.constant(0x13, 0, PLACE, BASE, offset);
        let (rd, rs, orders) = (self.rd(), self.source(), self.random.below(4));
        if self.random.below(4) == 0 {
            // lr, an addition, sc. The three belong together, so no probe may be in between.
            self.registers(0x2f, (0x02 << 2, funct3), rd, PLACE, 0);
            self.constant(0x13, 0, rd, rd, 1);
            let other = self.rd();
            self.registers(0x2f, (0x03 << 2, funct3), other, PLACE, rd);
        } else {
            let op = self.random.of(ATOMIC);
            self.registers(0x2f, (op << 2 | orders, funct3), rd, PLACE, rs);
        }
    }

    /// A floating-point register, and the bit of its format.
    fn float(&mut self, single: bool) -> u32 {
        self.random.below(16) + if single { SINGLES } else { 0 }
    }

    fn floating(&mut self) {
        let single = self.random.below(2) == 0;
        let format = u32::from(!single);
        let (one, other, third, to) = (self.float(single), self.float(single), self.float(single), self.float(single));
        let (rd, rs, rounding) = (self.rd(), self.source(), self.random.of(&[0, 1, 2, 3, 4, 7]));
        let integer = self.random.below(if self.is_wide { 4 } else { 2 });
        let op = |funct5: u32| funct5 << 2 | format;
        match self.random.below(12) {
            0..=3 => {
                let funct5 = self.random.of(&[0, 1, 2, 3]);
                self.registers(0x53, (op(funct5), rounding), to, one, other);
            }
            4 => self.registers(0x53, (op(0x0b), rounding), to, one, 0),
            5 => {
                let sign = self.random.below(3);
                self.registers(0x53, (op(0x04), sign), to, one, other);
            }
            6 => {
                let comparison = self.random.below(3);
                self.registers(0x53, (op(0x14), comparison), rd, one, other);
            }
            7 => self.registers(0x53, (op(0x1c), 1), rd, one, 0),
            8 => self.registers(0x53, (op(0x18), rounding), rd, one, integer),
            9 => self.registers(0x53, (op(0x1a), rounding), to, rs, integer),
            10 => {
                // fcvt.s.d or fcvt.d.s
                let from = self.float(!single);
                self.registers(0x53, (op(0x08), rounding), to, from, u32::from(single));
            }
            _ => {
                let kind = self.random.of(&[0x43, 0x47, 0x4b, 0x4f]);
                self.registers(kind, (third << 2 | format, rounding), to, one, other);
            }
        }
    }

    fn floating_access(&mut self) {
        let single = self.random.below(2) == 0;
        let (funct3, register, offset) = (if single { 2 } else { 3 }, self.float(single), self.offset(8));
        match self.random.below(3) {
            0 => self.constant(0x07, funct3, register, BASE, offset),
            1 => self.store(0x27, funct3, register, BASE, offset),
            _ => {
                // Between the two kinds of registers.
                let (rd, rs) = (self.rd(), self.source());
                match (self.random.below(2), single || self.is_wide) {
                    (0, true) => self.registers(0x53, (0x1c << 2 | u32::from(!single), 0), rd, register, 0),
                    (_, true) => self.registers(0x53, (0x1e << 2 | u32::from(!single), 0), register, rs, 0),
                    _ => {}
                }
            }
        }
    }

    /// The control register of floating point: its flags and its rounding.
    fn control(&mut self) {
        const READ: u32 = 2;
        let rd = self.rd();
        match self.random.below(3) {
            0 => self.full(3 << 20 | READ << 12 | rd << 7 | 0x73),
            1 => {
                let rounding = self.random.below(5);
                self.full(2 << 20 | rounding << 15 | 5 << 12 | rd << 7 | 0x73);
            }
            _ => {
                let rs = self.source();
                self.full(1 << 20 | rs << 15 | 1 << 12 | rd << 7 | 0x73);
            }
        }
    }

    fn compressed(&mut self) {
        let (rd, rs, near, other) = (self.rd(), self.random.of(WRITTEN), self.near(), self.near());
        let value = self.random.below(64);
        let not_nothing = value.max(1);
        // Six bits of a constant lie in bit 12 and in bits 2 to 6.
        let six = |value: u32| (value >> 5 & 1) << 12 | (value & 31) << 2;
        let shift = if self.is_wide { not_nothing } else { (not_nothing & 31).max(1) };
        match self.random.below(11) {
            0 => self.half(0x0001 | six(not_nothing) | rd << 7),
            1 => self.half(0x4001 | six(value) | rd << 7),
            2 => self.half(0x6001 | six(not_nothing) | rd << 7),
            3 => self.half(0x8002 | rd << 7 | rs << 2),
            4 => self.half(0x9002 | rd << 7 | rs << 2),
            5 => self.half(0x0002 | six(shift) | rd << 7),
            6 => {
                let right = self.random.of(&[0x8001, 0x8401]);
                self.half(right | six(shift) | (near - 8) << 7);
            }
            7 => self.half(0x8801 | six(value) | (near - 8) << 7),
            8 => {
                let kinds: &[u32] = if self.is_wide { &[0, 1, 2, 3, 8, 9] } else { &[0, 1, 2, 3] };
                let kind = self.random.of(kinds);
                self.half(0x8c01 | (kind >> 3) << 12 | (kind & 3) << 5 | (near - 8) << 7 | (other - 8) << 2);
            }
            9 if self.is_wide => self.half(0x2001 | six(value) | rd << 7),
            _ => {
                // c.addi4spn
                let distance = 4 * not_nothing;
                let bits =
                    (distance >> 4 & 3) << 11 | (distance >> 6 & 15) << 7 | (distance >> 2 & 1) << 6 | (distance >> 3 & 1) << 5;
                self.half(bits | (near - 8) << 2);
                self.relative(near);
            }
        }
    }

    fn compressed_access(&mut self) {
        let (near, rd, rs) = (self.near(), self.rd(), self.random.of(WRITTEN));
        let is_load = self.random.below(2) == 0;
        let store = u32::from(!is_load) << 15;
        // Bits 13 and 14: 2 for four bytes, 1 for a double, 3 for eight bytes.
        let kind = self.random.of(if self.is_wide { &[2, 1, 3] } else { &[2, 1] });
        let number = self.random.below(16);
        if self.random.below(2) == 0 {
            // Relative to s0. Doubles are in fs1 and fa0 to fa5 then.
            let offset = number * if kind == 2 { 4 } else { 8 };
            let bits = match kind {
                2 => (offset >> 3 & 7) << 10 | (offset >> 2 & 1) << 6 | (offset >> 6 & 1) << 5,
                _ => (offset >> 3 & 7) << 10 | (offset >> 6 & 3) << 5,
            };
            self.half(store | kind << 13 | bits | (BASE - 8) << 7 | (near - 8) << 2);
            return;
        }
        let register = match (kind, is_load) {
            (1, _) => self.float(false),
            (_, true) => rd,
            (_, false) => rs,
        };
        let offset = number * if kind == 2 { 4 } else { 8 };
        let bits = match (kind, is_load) {
            (2, true) => (offset >> 5 & 1) << 12 | (offset >> 2 & 7) << 4 | (offset >> 6 & 3) << 2 | register << 7,
            (_, true) => (offset >> 5 & 1) << 12 | (offset >> 3 & 3) << 5 | (offset >> 6 & 7) << 2 | register << 7,
            (2, false) => (offset >> 2 & 15) << 9 | (offset >> 6 & 3) << 7 | register << 2,
            (_, false) => (offset >> 3 & 7) << 10 | (offset >> 6 & 7) << 7 | register << 2,
        };
        self.half(2 | store | kind << 13 | bits);
    }

    /// Stores the registers, and jumps to the exit.
    fn save(&mut self) {
        self.address(LINK, SAVED_AT);
        let funct3 = if self.is_wide { 3 } else { 2 };
        for register in WRITTEN {
            self.store(0x23, funct3, *register, LINK, 8 * *register as i32);
        }
        self.full(3 << 20 | 2 << 12 | PLACE << 7 | 0x73);
        self.store(0x23, 2, PLACE, LINK, 0);
        for register in 0..32 {
            self.store(0x27, if register < SINGLES { 3 } else { 2 }, register, LINK, 0x200 + 8 * register as i32);
        }
        self.address(PLACE, EXIT_AT);
        self.full(PLACE << 15 | 0x67);
    }
}

fn jal(link: u32, distance: i32) -> u32 {
    let bits = distance as u32;
    (bits >> 20 & 1) << 31 | (bits >> 1 & 0x3ff) << 21 | (bits >> 11 & 1) << 20 | (bits >> 12 & 0xff) << 12 | link << 7 | 0x6f
}

fn branch(funct3: u32, one: u32, other: u32, distance: i32) -> u32 {
    let bits = distance as u32;
    let high = (bits >> 12 & 1) << 31 | (bits >> 5 & 0x3f) << 25;
    high | other << 20 | one << 15 | funct3 << 12 | (bits >> 1 & 15) << 8 | (bits >> 11 & 1) << 7 | 0x63
}

fn compressed_branch(op: u32, near: u32, distance: i32) -> u32 {
    let bits = distance as u32;
    let high = (bits >> 8 & 1) << 12 | (bits >> 3 & 3) << 10;
    op | high | (near - 8) << 7 | (bits >> 6 & 3) << 5 | (bits >> 1 & 3) << 3 | (bits >> 5 & 1) << 2
}

fn compressed_jump(op: u32, distance: i32) -> u32 {
    let bits = distance as u32;
    let high = (bits >> 11 & 1) << 12 | (bits >> 4 & 1) << 11 | (bits >> 8 & 3) << 9 | (bits >> 10 & 1) << 8;
    op | high | (bits >> 6 & 1) << 7 | (bits >> 7 & 1) << 6 | (bits >> 1 & 7) << 3 | (bits >> 5 & 1) << 2
}
