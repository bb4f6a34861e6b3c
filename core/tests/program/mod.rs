//! Generates random PA-RISC programs, which must end the same under our core and under QEMU 7.2.
//!
//! They contain no instruction whose result is undefined, and none that QEMU executes wrongly (see `arithmetic`).

/// A generator of random numbers.
pub struct Random(pub u64);

impl Random {
    /// Any number.
    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }

    /// One of these values.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    /// True once in `count` calls on average.
    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }
}

/// Encodes an immediate of this many bits. PA-RISC has the sign in the lowest bit.
pub fn low_sign(value: i32, bits: u32) -> u32 {
    let mask = (1 << bits) - 1;
    let value = value as u32 & mask;
    value << 1 & mask | value >> (bits - 1) & 1
}

/// The register that points to the data page; programs do not change it.
pub const POINTER: u32 = 26;

/// The registers that programs use: not the pointer, the data pointer and the stack pointer.
fn register(random: &mut Random) -> u32 {
    match random.below(32) {
        POINTER | 27 | 30 => 1,
        other => other,
    }
}

/// Whether a word is a branch.
pub fn is_branch(word: u32) -> bool {
    matches!(word >> 26, 0x20..=0x23 | 0x28..=0x2b | 0x30..=0x33 | 0x38..=0x3a)
}

/// A random instruction.
fn instruction(random: &mut Random) -> u32 {
    let [a, b, t] = [(); 3].map(|()| register(random));
    match random.below(100) {
        0..42 => arithmetic(random, [a, b, t]),
        // comiclr, subi, addi
        42..55 => {
            let code = random.of(&[0x24_u32, 0x25, 0x2d]);
            let (condition, negated) = condition(random);
            let immediate = random.next() & if random.one_in(2) { 0x7ff } else { 0xf };
            code << 26 | a << 21 | t << 16 | condition << 13 | negated << 12 | immediate
        }
        // vshd, shd
        55..62 => {
            let fixed = random.below(2);
            let position = if fixed == 1 { random.below(32) } else { 0 };
            0x34 << 26 | a << 21 | b << 16 | random.below(8) << 13 | (2 * fixed) << 10 | position << 5 | t
        }
        62..70 => {
            // The field must not extend beyond the left end of the word.
            let position = random.below(32);
            // vextru, vextrs, extru, extrs
            let code = random.of(&[4_u32, 5, 6, 7]);
            let length = if code < 6 { 31 } else { random.below(32).max(31 - position) };
            let position = if code < 6 { 0 } else { position };
            0x34 << 26 | a << 21 | t << 16 | random.below(8) << 13 | code << 10 | position << 5 | length
        }
        // zvdep, vdep, zdep, dep, and the same with an immediate
        70..78 => {
            let code = random.below(8);
            let position = if code & 2 == 0 { 0 } else { random.below(32) };
            let length = if code & 2 == 0 { 31 } else { random.below(32).max(position) };
            0x35 << 26 | t << 21 | b << 16 | random.below(8) << 13 | code << 10 | position << 5 | length
        }
        // ldil, addil, ldo
        78..81 => {
            let code = random.of(&[0x08_u32, 0x0a, 0x0d]);
            let low = if code == 0x0d { t << 16 | random.next() & 0x3fff } else { random.next() & 0x1f_ffff };
            code << 26 | a << 21 | low
        }
        // mtctl of SAR, mtsarcm
        81..84 => 11 << 21 | b << 16 | random.of(&[0xc2_u32, 0xc6]) << 5,
        84..93 => branch(random, [a, b]),
        _ => access(random, t),
    }
}

/// The condition field of an instruction, and the bit that negates it.
fn condition(random: &mut Random) -> (u32, u32) {
    match random.below(3) {
        0 => (0, 0),
        1 => (1 + random.below(7), 0),
        _ => (random.below(8), 1),
    }
}

/// A random instruction between registers. QEMU executes some wrongly, so these are left out:
///
/// * `dcor`: QEMU takes the carries into the highest bits of digits.
/// * `ds` whose target is its second operand: QEMU computes V from the new value.
/// * Conditions of `shladd` on overflow and carry: QEMU ignores the bits that are shifted out.
fn arithmetic(random: &mut Random, [a, b, t]: [u32; 3]) -> u32 {
    // andcm, and, or, xor, uxor, uaddcm, comclr, ds, add, sh1add, sh2add, sh3add, addl, sh1addl, sh2addl, sh3addl, addc, sub,
    // subb; add and sub again, so that they are chosen more often.
    const CODES: [u32; 21] = [
        0x00, 0x08, 0x09, 0x0a, 0x0e, 0x26, 0x22, 0x11, 0x18, 0x19, 0x1a, 0x1b, 0x28, 0x29, 0x2a, 0x2b, 0x1c, 0x10, 0x14, 0x18,
        0x10,
    ];
    let code = random.of(&CODES);
    let (mut condition, mut negated) = condition(random);
    let allowed: &[u32] = match code {
        0x00 | 0x08 | 0x09 | 0x0a => &[0, 1, 2, 3, 7],
        0x0e => &[0, 2, 3],
        0x26 => &[0, 2, 3, 4, 6, 7],
        0x19..=0x1b | 0x29..=0x2b => &[0, 1, 7],
        _ => &[0, 1, 2, 3, 4, 5, 6, 7],
    };
    if !allowed.contains(&condition) {
        condition = 0;
    }
    if condition == 0 && !matches!(code, 0x00 | 0x08 | 0x09 | 0x0a) {
        negated = 0;
    }
    let t = if code == 0x11 && t == a { 0 } else { t };
    2 << 26 | a << 21 | b << 16 | condition << 13 | negated << 12 | code << 6 | t
}

/// A branch forwards, over its delay slot and at most three more instructions.
fn branch(random: &mut Random, [a, b]: [u32; 2]) -> u32 {
    let (distance, nullifies) = (random.below(4), random.below(2));
    let low = distance << 3 | nullifies << 1;
    // 12 and 13: `bl`, with a short distance and with a long one. 10 and 11: `bvb` and `bb`.
    match random.below(14) {
        12 => 0x3a << 26 | register(random) << 21 | low,
        13 => 0x3a << 26 | 5 << 13 | low,
        10 => 0x30 << 26 | b << 16 | random.below(2) << 15 | 1 << 14 | low,
        11 => 0x31 << 26 | random.below(32) << 21 | b << 16 | random.below(2) << 15 | 1 << 14 | low,
        kind => {
            // combt, comibt, combf, comibf, addbt, addibt, addbf, addibf, movb, movib
            let code = [0x20, 0x21, 0x22, 0x23, 0x28, 0x29, 0x2a, 0x2b, 0x32, 0x33][kind as usize];
            code << 26 | a << 21 | b << 16 | random.below(8) << 13 | low
        }
    }
}

/// A load or store in the data page.
fn access(random: &mut Random, t: u32) -> u32 {
    let word = 4 * random.below(64);
    match random.below(10) {
        // 0 to 3: `ldw` with a short displacement, `stby`, `ldcw`, and stores with a short displacement.
        0 => 3 << 26 | POINTER << 21 | low_sign(random.below(4) as i32 * 4, 5) << 16 | 1 << 12 | 2 << 6 | t,
        1 => 3 << 26 | POINTER << 21 | t << 16 | random.below(2) << 13 | 1 << 12 | 12 << 6 | low_sign(random.below(15) as i32, 5),
        2 => 3 << 26 | POINTER << 21 | low_sign(0, 5) << 16 | 1 << 12 | 7 << 6 | t,
        3 => {
            3 << 26
                | POINTER << 21
                | t << 16
                | 1 << 12
                | random.of(&[8_u32, 9, 10]) << 6
                | low_sign(random.below(3) as i32 * 4, 5)
        }
        _ => {
            // ldb, ldh, ldw, stb, sth, stw
            let code = random.of(&[0x10_u32, 0x11, 0x12, 0x18, 0x19, 0x1a]);
            let offset = match code & 3 {
                0 => word + random.below(4),
                1 => word + 2 * random.below(2),
                _ => word,
            };
            code << 26 | POINTER << 21 | t << 16 | low_sign(offset as i32, 14)
        }
    }
}

/// The body of a program, of `len` instructions and eight no-ops. No branch is in the delay slot of another one. The
/// no-ops are the targets of branches near the end.
pub fn body(seed: u64, len: usize) -> Vec<u32> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut words: Vec<u32> = Vec::new();
    // The first numbers of similar seeds are similar.
    for _ in 0..10 {
        random.next();
    }
    while words.len() < len {
        let word = instruction(&mut random);
        if !(is_branch(word) && words.last().copied().is_some_and(is_branch)) {
            words.push(word);
        }
    }
    words.extend([0x0800_0240; 8]);
    words
}
