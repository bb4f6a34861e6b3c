//! Random SPARC V9 programs that terminate. They contain arithmetic and comparisons, branches of every kind with all
//! sorts of delay slots, loops, more nested windows than the CPU has, accesses to a data page, and floating point.

use super::{DATA, EXIT_AT, SAVED_AT, STACK, TEXT};
use trapline_isa::sparc64::abi::BIAS;

/// %g7 always points to the middle of the data.
const BASE: u32 = 7;
/// %l7 is the loop counter.
const COUNT: u32 = 23;
const SP: u32 = 14;
/// Registers that a program may write: all except stack and data pointers and return addresses.
const WRITTEN: &[u32] = &[0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29];
/// Even registers of these, for register pairs.
const PAIRS: &[u32] = &[2, 4, 8, 10, 12, 16, 18, 20, 24, 26, 28];
/// Stack frame size of `save`, in bytes.
const FRAME: i32 = 192;
/// Number of functions. Each calls at least the next one.
const FUNCTIONS: usize = 13;
const NOP: u32 = 0x0100_0000;

/// op3 of arithmetic, logic and multiplication. Adding 16 selects the form that sets the condition codes.
const SUMS: &[u32] = &[0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c];
/// op3 of divisions.
const QUOTIENTS: &[u32] = &[0x0d, 0x0e, 0x0f, 0x1e, 0x1f, 0x2d];
/// op3 of tagged arithmetic and of the multiply step.
const TAGGED: &[u32] = &[0x20, 0x21, 0x24];
/// op3 of integer loads and stores with their sizes in bytes. Pairs are separate.
const ACCESSES: &[(u32, i32)] = &[
    (0x00, 4),
    (0x01, 1),
    (0x02, 2),
    (0x04, 4),
    (0x05, 1),
    (0x06, 2),
    (0x08, 4),
    (0x09, 1),
    (0x0a, 2),
    (0x0b, 8),
    (0x0d, 1),
    (0x0e, 8),
    (0x0f, 4),
];
/// Floating-point operations: opf, then the widths of result and operands in words.
#[rustfmt::skip]
const FLOATS: &[(u32, u32, u32, u32)] = &[
    (0x01, 1, 0, 1), (0x02, 2, 0, 2), (0x05, 1, 0, 1), (0x06, 2, 0, 2), (0x09, 1, 0, 1), (0x0a, 2, 0, 2),
    (0x29, 1, 0, 1), (0x2a, 2, 0, 2), (0x41, 1, 1, 1), (0x42, 2, 2, 2), (0x45, 1, 1, 1), (0x46, 2, 2, 2),
    (0x49, 1, 1, 1), (0x4a, 2, 2, 2), (0x4d, 1, 1, 1), (0x4e, 2, 2, 2), (0x69, 2, 1, 1), (0x81, 2, 0, 1),
    (0x82, 2, 0, 2), (0x84, 1, 0, 2), (0x88, 2, 0, 2), (0xc4, 1, 0, 1), (0xc6, 1, 0, 2), (0xc8, 2, 0, 1),
    (0xc9, 2, 0, 1), (0xd1, 1, 0, 1), (0xd2, 1, 0, 2),
];
/// opf of VIS operations, all on 8-byte registers.
const PIXELS: &[u32] = &[0x48, 0x4c, 0x50, 0x52, 0x54, 0x56, 0x60, 0x62, 0x68, 0x6c, 0x6e, 0x70, 0x7c, 0x7e];

/// Pseudo-random numbers from a seed.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    /// Random data: small numbers, full-width numbers, and floats of similar size.
    pub fn data(&mut self, bytes: usize) -> Vec<u8> {
        let word = |random: &mut Random| match random.below(4) {
            0 => random.next(),
            1 => u64::from(random.below(64)),
            2 => (f64::from(random.below(4096)) / 16.0 - 128.0).to_bits(),
            _ => {
                let half = |random: &mut Random| u64::from((f64::from(random.below(4096)) as f32 / 16.0 - 128.0).to_bits());
                half(random) << 32 | half(random)
            }
        };
        (0..bytes / 8).flat_map(|_| word(self).to_be_bytes()).collect()
    }
}

/// The constructs that a stretch of code may contain.
#[derive(Clone, Copy)]
struct May {
    /// The first function that it may call. Calls go only to later functions, so the program ends.
    call_from: usize,
    loops: bool,
    calls: bool,
}

/// A program that is being generated.
pub struct Program {
    random: Random,
    words: Vec<u32>,
    /// Positions of calls, and the functions that they call.
    calls: Vec<(usize, usize)>,
}

/// An instruction `op3` with two source registers.
fn three(op3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    2 << 30 | rd << 25 | op3 << 19 | rs1 << 14 | rs2
}

/// An instruction `op3` with an immediate.
fn number(op3: u32, rd: u32, rs1: u32, value: i32) -> u32 {
    three(op3, rd, rs1, 1 << 13 | value as u32 & 0x1fff)
}

fn access(op3: u32, rd: u32, at: i32) -> u32 {
    number(op3, rd, BASE, at) | 1 << 30
}

fn sethi(rd: u32, value: u64) -> u32 {
    rd << 25 | 4 << 22 | (value >> 10) as u32 & 0x3f_ffff
}

/// The encoded number of a floating-point register: for 8-byte registers bit 5 moves to bit 0.
fn float(number: u32, width: u32) -> u32 {
    if width == 2 { number & 0x1e | number >> 5 } else { number & 31 }
}

impl Program {
    /// The code of the program with that seed, at [`TEXT`].
    pub fn of(seed: u64) -> Vec<u32> {
        let mut program = Program { random: Random(seed), words: Vec::new(), calls: Vec::new() };
        program.begin();
        program.stretch(60, May { call_from: 1, loops: true, calls: true });
        program.call(0);
        program.stretch(20, May { call_from: FUNCTIONS, loops: true, calls: false });
        program.end();
        let mut starts = Vec::new();
        for function in 0..FUNCTIONS {
            starts.push(program.words.len());
            program.function(function);
        }
        for (at, function) in &program.calls {
            program.words[*at] = 1 << 30 | (starts[*function] as i32 - *at as i32) as u32 & 0x3fff_ffff;
        }
        program.words
    }

    /// Code that sets the pointers and fills all registers.
    fn begin(&mut self) {
        self.words.push(sethi(BASE, DATA + 0x800));
        self.words.push(number(2, BASE, BASE, ((DATA + 0x800) & 0x3ff) as i32));
        let sp = STACK - BIAS;
        self.words.extend([sethi(SP, sp), number(2, SP, SP, (sp & 0x3ff) as i32)]);
        self.words.push(number(0x30, 6, 0, 4)); // wr 4,%fprs
        self.words.extend((0..32).filter(|register| ![0, 6, 7, SP].contains(register)).map(|register| {
            access(0x0b, register, 8 * register as i32) // ldx
        }));
        self.words.push(number(2, 6, BASE, 0));
        self.words.extend((0..64).step_by(2).map(|register| access(0x23, float(register, 2), 8 * register as i32))); // ldd
    }

    /// Code that stores all registers at the end.
    fn end(&mut self) {
        let store = |op3: u32, rd: u32, at: i32| number(op3, rd, 6, at) | 1 << 30;
        self.words.push(sethi(6, SAVED_AT));
        self.words.extend((0..32).map(|register| store(0x0e, register, 8 * register as i32)));
        for (row, special) in [0, 2, 19].into_iter().enumerate() {
            // rd %y, %ccr, %gsr
            self.words.extend([three(0x28, 1, special, 0), store(0x0e, 1, 256 + 8 * row as i32)]);
        }
        self.words.push(store(0x25, 1, 0x118)); // stx %fsr
        self.words.extend((0..64).step_by(2).map(|register| store(0x27, float(register, 2), 0x200 + 4 * register as i32)));
        let here = TEXT + 4 * self.words.len() as u64;
        self.words.extend([0x1080_0000 | (EXIT_AT - here) as u32 >> 2, NOP]);
    }

    /// A function with its own register window, or a leaf function in its caller's window.
    fn function(&mut self, this: usize) {
        let may = May { call_from: this + 4, loops: true, calls: true };
        if self.random.below(4) == 0 && this + 1 < FUNCTIONS {
            // A leaf function cannot call, so open a window around the call.
            self.stretch(6, May { calls: false, ..may });
            self.open();
            self.call(this + 1);
            self.stretch(4, May { calls: false, ..may });
            self.close();
            self.words.push(0x81c3_e008); // retl
            let slot = self.plain();
            self.words.push(slot);
            return;
        }
        self.open();
        self.stretch(12, may);
        if this + 1 < FUNCTIONS {
            self.call(this + 1);
        }
        self.stretch(8, may);
        if self.random.below(3) == 0 {
            let slot = self.plain();
            self.words.extend([0x81cf_e008, slot]); // return %i7 + 8
        } else {
            self.words.push(0x81c7_e008); // ret
            self.close();
        }
    }

    /// Code that opens a window and fills its registers.
    fn open(&mut self) {
        self.words.push(number(0x3c, SP, SP, -FRAME));
        let rest = (8..14).chain([15]).chain(16..24);
        let loads = rest.map(|register| access(0x0b, register, 8 * (self.random.below(512) as i32 - 256))).collect::<Vec<_>>();
        self.words.extend(loads);
    }

    /// Code that closes the window by `restore`, with or without an addition.
    fn close(&mut self) {
        let [from, other, to] = [self.random.below(32), self.random.below(32), self.written()];
        let restore = if self.random.below(2) == 0 { three(0x3d, to, from, other) } else { three(0x3d, 0, 0, 0) };
        self.words.push(restore);
    }

    fn call(&mut self, function: usize) {
        self.calls.push((self.words.len(), function));
        let slot = self.plain();
        self.words.extend([0, slot]);
    }

    fn stretch(&mut self, count: u32, may: May) {
        for _ in 0..count {
            match self.random.below(40) {
                0..=7 => self.skip(may),
                8 if may.loops => self.round(may),
                9 => {
                    self.open();
                    self.stretch(3, May { loops: true, calls: false, ..may });
                    self.close();
                }
                10 if may.calls && may.call_from < FUNCTIONS => {
                    let function = may.call_from + self.random.below((FUNCTIONS - may.call_from) as u32) as usize;
                    self.call(function);
                }
                11 => self.jump(),
                _ => {
                    let word = self.plain();
                    self.words.push(word);
                }
            }
        }
    }

    /// A branch that skips some instructions.
    fn skip(&mut self, may: May) {
        let at = self.words.len();
        let (branch, slot) = (self.branch(), self.plain());
        self.words.extend([branch, slot]);
        let count = self.random.below(4);
        self.stretch(count, May { loops: false, calls: false, ..may });
        self.lead(at, self.words.len());
    }

    /// A loop with a few iterations.
    fn round(&mut self, may: May) {
        let times = 1 + self.random.below(5) as i32;
        self.words.push(number(2, COUNT, 0, times));
        let head = self.words.len();
        self.stretch(4, May { loops: false, calls: false, ..may });
        let at = self.words.len() + 1;
        let annuls = self.random.below(2) << 29;
        // bne, bne %xcc, brnz
        let branch = self.random.of(&[0x1280_0000, 0x1268_0000, 0x0ac8_0000 | COUNT << 14]) | annuls;
        let slot = self.plain();
        self.words.extend([number(0x14, COUNT, COUNT, 1), branch, slot]);
        self.lead(at, head);
    }

    /// A register jump that skips some instructions.
    fn jump(&mut self) {
        let (count, link) = (self.random.below(3), self.random.of(&[0, 0, 4]));
        let slot = self.plain();
        // rd %pc, %g5; jmpl %g5 + to, link
        self.words.extend([0x8b41_4000, number(0x38, link, 5, 12 + 4 * count as i32), slot]);
        for _ in 0..count {
            let word = self.plain();
            self.words.push(word);
        }
    }

    /// Sets the target of a branch.
    fn lead(&mut self, at: usize, to: usize) {
        let word = &mut self.words[at];
        let distance = (to as i32 - at as i32) as u32;
        *word |= match *word >> 22 & 7 {
            2 | 6 => distance & 0x3f_ffff,
            3 => (distance & 0xc000) << 6 | distance & 0x3fff,
            _ => distance & 0x7_ffff,
        };
    }

    /// A random branch without a target.
    fn branch(&mut self) -> u32 {
        let annuls = self.random.below(2) << 29;
        let (condition, codes) = (self.random.below(16) << 25, self.random.below(4) << 20);
        annuls
            | match self.random.below(6) {
                0 => 2 << 22 | condition,
                1 | 2 => 1 << 22 | condition | codes & 2 << 20 | 1 << 19,
                3 => 3 << 22 | self.random.of(&[1, 2, 3, 5, 6, 7]) << 25 | self.random.below(32) << 14,
                4 => 6 << 22 | condition,
                _ => 5 << 22 | condition | codes,
            }
    }

    fn written(&mut self) -> u32 {
        self.random.of(WRITTEN)
    }

    /// Adds a random second operand, register or immediate.
    fn with_operand(&mut self, op3: u32, rd: u32) -> u32 {
        let rs1 = self.random.below(32);
        match self.random.below(2) {
            0 => three(op3, rd, rs1, self.random.below(32)),
            _ => number(op3, rd, rs1, self.random.next() as i32),
        }
    }

    /// A random aligned offset in the data, for an access of `bytes` bytes.
    fn place(&mut self, bytes: i32) -> i32 {
        (self.random.below(4096) as i32 - 2048) & -bytes
    }

    /// A random instruction that does not branch.
    fn plain(&mut self) -> u32 {
        let to = self.written();
        match self.random.below(24) {
            0..=6 => {
                let op3 = self.random.of(SUMS) | self.random.of(&[0, 0x10]);
                // `mulx` has no form that sets the codes. `subc` is at another op3.
                let op3 = if op3 == 0x19 { 9 } else { op3 };
                self.with_operand(op3, to)
            }
            7 => self.with_operand(9, to),
            8 => number(self.random.of(QUOTIENTS), to, self.random.below(32), 1 | self.random.next() as i32),
            9 => {
                let op3 = self.random.of(TAGGED);
                self.with_operand(op3, to)
            }
            10 | 11 => {
                let (op3, rs1, wide) = (0x25 + self.random.below(3), self.random.below(32), self.random.below(2));
                let by =
                    if self.random.below(2) == 0 { self.random.below(32) } else { 1 << 13 | self.random.below(32 + 32 * wide) };
                three(op3, to, rs1, wide << 12 | by)
            }
            12 => {
                // movcc by every condition code register, movr
                let by = if self.random.below(2) == 0 { self.random.below(32) } else { 1 << 13 | self.random.below(512) };
                if self.random.below(2) == 0 {
                    let codes = self.random.of(&[4 << 16, 4 << 16 | 2 << 11, 0, 1 << 11, 2 << 11, 3 << 11]);
                    three(0x2c, to, 0, codes | self.random.below(16) << 14 | by)
                } else {
                    three(0x2f, to, self.random.below(32), self.random.of(&[1, 2, 3, 5, 6, 7]) << 10 | by)
                }
            }
            13 => self.special(to),
            14..=16 => {
                let (op3, bytes) = self.random.of(ACCESSES);
                access(op3, to, self.place(bytes))
            }
            17 => self.odd_access(to),
            18 => sethi(to, self.random.next()),
            19 => self.float_access(),
            20 | 21 => self.float_operation(),
            22 => self.float_condition(),
            _ => {
                let [one, other, result] = [0; 3].map(|_: u32| float(2 * self.random.below(32), 2));
                three(0x36, result, one, self.random.of(PIXELS) << 5 | other)
            }
        }
    }

    /// Special registers, population count, window flush, memory barrier.
    fn special(&mut self, to: u32) -> u32 {
        match self.random.below(10) {
            0 => three(0x28, to, 0, 0),                      // rd %y
            1 => three(0x28, to, 2, 0),                      // rd %ccr
            2 => three(0x28, to, 5, 0),                      // rd %pc
            3 => self.with_operand(0x30, 0),                 // wr %y
            4 => self.with_operand(0x30, 2),                 // wr %ccr
            5 => number(0x30, 19, self.random.below(32), 0), // wr %gsr
            6 => three(0x2e, to, 0, self.random.below(32)),  // popc
            7 => three(0x2b, 0, 0, 0),                       // flushw
            8 => three(0x28, 0, 15, 1 << 13 | 0x4f),         // membar
            _ => {
                // array, alignaddr; not edge, which this core gets wrong (docs/unicorn.md)
                let opf = self.random.of(&[0x10, 0x12, 0x14, 0x18, 0x1a]);
                three(0x36, to, self.random.below(32), opf << 5 | self.random.below(32))
            }
        }
    }

    /// Register pairs, atomic exchanges, alternate address spaces.
    fn odd_access(&mut self, to: u32) -> u32 {
        let space = self.random.of(&[0x80, 0x88]) << 5;
        let pair = self.random.of(PAIRS);
        match self.random.below(6) {
            0 => access(0x03, pair, self.place(8)),                                  // ldd
            1 => access(0x07, pair, self.place(8)),                                  // std
            2 => three(0x3c, to, BASE, 0x80 << 5 | self.random.below(32)) | 1 << 30, // casa
            3 => three(0x3e, to, BASE, 0x80 << 5 | self.random.below(32)) | 1 << 30, // casxa
            4 => three(0x10 + self.random.of(&[0, 1, 2, 4, 5, 6, 8, 10, 11, 14]), to, BASE, space) | 1 << 30,
            _ => access(0x2d, self.random.below(4), self.place(8)), // prefetch
        }
    }

    fn float_access(&mut self) -> u32 {
        match self.random.below(5) {
            0 => access(0x20, self.random.below(32), self.place(4)),
            1 => access(0x23, self.random.below(32), self.place(8)),
            2 => access(0x24, self.random.below(32), self.place(4)),
            3 => access(0x27, self.random.below(32), self.place(8)),
            _ => access(0x25, 1, self.place(8)), // stx %fsr
        }
    }

    fn float_operation(&mut self) -> u32 {
        let (opf, result, one, other) = self.random.of(FLOATS);
        let mut register = |width: u32| match width {
            0 => 0,
            1 => self.random.below(32),
            _ => float(2 * self.random.below(32), 2),
        };
        three(0x34, register(result), register(one), opf << 5 | register(other))
    }

    /// Floating-point compares, and moves by their result.
    fn float_condition(&mut self) -> u32 {
        let [one, other, result] = [0; 3].map(|_: u32| self.random.below(32));
        match self.random.below(3) {
            0 => three(0x35, self.random.below(4), one, self.random.of(&[0x51, 0x52, 0x55, 0x56]) << 5 | other),
            1 => {
                let codes = self.random.of(&[0, 1, 2, 3, 4, 6]) << 11;
                three(0x35, result, self.random.below(16), codes | self.random.of(&[1, 2]) << 5 | other)
            }
            _ => three(0x35, result, one, self.random.of(&[1, 2, 3, 5, 6, 7]) << 10 | self.random.of(&[5, 6]) << 5 | other),
        }
    }
}
