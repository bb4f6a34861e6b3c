//! PA-RISC: results, carries, nullification and traps of each family of computing instructions, by arithmetic of the test's own that follows
//! the manual. Each instruction runs in a block and in a delay slot, because the core runs these differently.

#[path = "parisc/manual.rs"]
mod manual;

use manual::{A, AT, B, T, TARGET, VALUES, bit, holds, mark, run, shift_holds, signed};
use trapline_core::parisc::{number, psw};

/// The result of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome {
    value: u32,
    carries: u32,
    nullifies: bool,
    exception: u32,
}

/// Runs an instruction with these numbers in [`A`] and [`B`], whose target is `to`, in a block and in a slot.
fn outcome(word: u32, [a, b]: [u32; 2], to: u32, status: u32, sar: u32) -> Outcome {
    let all = [false, true].map(|is_slot| {
        let machine = run(&[(AT, word), (AT + 4, mark(28)), (TARGET, mark(28))], |state| {
            state.general[A as usize].set(a);
            state.general[B as usize].set(b);
            state.control[number::SAR].set(sar);
            state.set_psw(status);
            if is_slot {
                state.back.set(TARGET);
            }
        });
        let state = &machine.state;
        let nullifies = machine.exception == number::BREAK && state.general[28].get() == 0;
        let carries = state.psw() & psw::CARRIES;
        Outcome { value: state.general[to as usize].get(), carries, nullifies, exception: machine.exception }
    });
    assert_eq!(all[0], all[1], "{word:08x}: in a block, and in a slot");
    all[0]
}

/// The carries out of the digits of a sum, as bits of the PSW.
fn carries(x: u32, y: u32, carry: u32) -> u32 {
    let out = |digit: u32| {
        let low = u64::MAX >> (60 - 4 * digit);
        (u64::from(x) & low) + (u64::from(y) & low) + u64::from(carry) > low
    };
    (0..8).map(|digit| u32::from(out(digit)) << (8 + digit)).sum()
}

/// The fields of a condition whose bit 3 negates it.
fn condition_field(condition: u32) -> u32 {
    (condition & 7) << 13 | (condition >> 3) << 12
}

/// The kind of an arithmetic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Add,
    /// It leaves the carries alone.
    AddLogical,
    Subtract,
    /// It only compares, and clears its target.
    Compare,
}

/// Compares an instruction that computes with `x` and `y`. `uses` tells whether the carry takes part, and `traps` whether an
/// overflow and the condition trap.
fn compare(word: u32, registers: [u32; 2], to: u32, (family, uses): (Family, bool), traps: [bool; 2], [x, y]: [u32; 2]) {
    let condition = word >> 13 & 7 | (word >> 12 & 1) << 3;
    for carry in [0, 1] {
        let status = if carry == 0 { 0x0500 } else { 0x8a00 };
        let is_sum = matches!(family, Family::Add | Family::AddLogical);
        let exact = match (is_sum, uses) {
            (true, _) => signed(x) + signed(y) + if uses { carry } else { 0 },
            (false, _) => signed(x) - signed(y) - if uses { 1 - carry } else { 0 },
        };
        let unsigned = match (is_sum, uses) {
            (true, _) => i64::from(x) + i64::from(y) + if uses { carry } else { 0 },
            (false, _) => i64::from(x) - i64::from(y) - if uses { 1 - carry } else { 0 },
        };
        let is_below = if is_sum { unsigned <= i64::from(u32::MAX) } else { unsigned < 0 };
        let condition_holds = holds(condition, exact, is_below);
        let exception = match traps {
            [true, _] if i64::from(exact as i32) != exact => number::OVERFLOW,
            [_, true] if condition_holds => number::CONDITIONAL,
            _ => number::BREAK,
        };
        let added = match (family, uses) {
            (Family::Add, _) => carries(x, y, if uses { carry as u32 } else { 0 }),
            (Family::Subtract, _) => carries(x, !y, if uses { carry as u32 } else { 1 }),
            _ => status & psw::CARRIES,
        };
        let value = if family == Family::Compare { 0 } else { exact as u32 };
        let old = [(A, registers[0]), (B, registers[1])].iter().find(|(register, _)| *register == to).map_or(0, |found| found.1);
        let expected = match exception {
            number::BREAK => Outcome { value, carries: added, nullifies: condition_holds && !traps[1], exception },
            _ => Outcome { value: old, carries: status & psw::CARRIES, nullifies: false, exception },
        };
        assert_eq!(outcome(word, registers, to, status, 0), expected, "{word:08x} of {x:x} and {y:x}, carry {carry}");
    }
}

/// KP-2: all conditions of additions, subtractions and comparisons, with their carries and traps.
#[test]
fn sums_and_differences_have_their_conditions_carries_and_traps() {
    use Family::*;
    let all = [
        (0x18, (Add, false), [false, false]),
        (0x38, (Add, false), [true, false]),
        (0x1c, (Add, true), [false, false]),
        (0x3c, (Add, true), [true, false]),
        (0x28, (AddLogical, false), [false, false]),
        (0x10, (Subtract, false), [false, false]),
        (0x30, (Subtract, false), [true, false]),
        (0x13, (Subtract, false), [false, true]),
        (0x33, (Subtract, false), [true, true]),
        (0x14, (Subtract, true), [false, false]),
        (0x34, (Subtract, true), [true, false]),
        (0x22, (Compare, false), [false, false]),
    ];
    for (code, family, traps) in all {
        for condition in 0..16 {
            for (x, y) in VALUES.iter().flat_map(|x| VALUES.map(|y| (*x, y))) {
                // The first operand is r1 of the manual, which stands in the place of b.
                let word = 2 << 26 | A << 21 | B << 16 | condition_field(condition) | code << 6 | T;
                compare(word, [y, x], T, family, traps, [x, y]);
            }
        }
    }
}

/// KP-2: the same instructions with an immediate operand.
#[test]
fn immediate_operands_have_the_same_conditions_and_traps() {
    use Family::*;
    let all = [
        (0x2d, 0, Add, [false, false]),
        (0x2d, 0x800, Add, [true, false]),
        (0x2c, 0, Add, [false, true]),
        (0x2c, 0x800, Add, [true, true]),
        (0x25, 0, Subtract, [false, false]),
        (0x25, 0x800, Subtract, [true, false]),
        (0x24, 0, Compare, [false, false]),
    ];
    for (opcode, bit, family, traps) in all {
        for condition in 0..16 {
            for (x, y) in [0_i32, 1, -1, 5, 1023, -1024].iter().flat_map(|x| VALUES.map(|y| (*x as u32, y))) {
                let word = opcode << 26 | A << 21 | B << 16 | condition_field(condition) | bit | x.rotate_left(1) & 0x7ff;
                compare(word, [y, 7], B, (family, false), traps, [x, y]);
            }
        }
    }
}

/// KP-2: `sh1add` to `sh3add` in all three kinds. The test leaves out sums that fit although their shifted operand does not.
#[test]
fn shifted_operands_are_added() {
    for (x, y) in VALUES.iter().flat_map(|x| VALUES.map(|y| (*x, y))) {
        for shift in 1..4 {
            let (shifted, exact) = (x << shift, (signed(x) << shift) + signed(y));
            let overflows = i64::from(exact as i32) != exact;
            for (code, keeps, traps) in [(0x18, false, false), (0x28, true, false), (0x38, false, true)] {
                if traps && !overflows && signed(x) << shift != signed(shifted) {
                    continue;
                }
                for condition in [0, 1, 7, 9, 15] {
                    let word = 2 << 26 | A << 21 | B << 16 | condition_field(condition) | (code + shift) << 6 | T;
                    let value = shifted.wrapping_add(y);
                    let found = match condition & 7 {
                        0 => false,
                        1 => value == 0,
                        _ => value & 1 != 0,
                    };
                    let expected = match traps && overflows {
                        true => Outcome { value: 0, carries: 0x0500, nullifies: false, exception: number::OVERFLOW },
                        false => Outcome {
                            value,
                            carries: if keeps { 0x0500 } else { carries(shifted, y, 0) },
                            nullifies: found != (condition >= 8),
                            exception: number::BREAK,
                        },
                    };
                    assert_eq!(outcome(word, [y, x], T, 0x0500, 0), expected, "{word:08x} of {x:x} and {y:x}");
                }
            }
        }
    }
}

/// KP-2: logical and unit operations, whose conditions look at a word or at its parts. The carries stay.
#[test]
fn logical_and_unit_operations_have_their_conditions() {
    let parts = |value: u32, bits: u32| (0..32 / bits).map(move |part| value >> (part * bits) & (u32::MAX >> (32 - bits)));
    let logical = |x: u32, y: u32| [(0x00, x & !y), (0x08, x & y), (0x09, x | y), (0x0a, x ^ y)];
    let conditions = |conditions: &'static [u32]| conditions.iter().flat_map(|condition| [*condition, condition + 8]);
    let check = |code: u32, condition: u32, [x, y]: [u32; 2], value: u32, found: bool| {
        let word = 2 << 26 | A << 21 | B << 16 | condition_field(condition) | code << 6 | T;
        let holds = found != (condition >= 8);
        let expected = match code == 0x27 && holds {
            true => Outcome { value: 0, carries: 0x8a00, nullifies: false, exception: number::CONDITIONAL },
            false => Outcome { value, carries: 0x8a00, nullifies: holds, exception: number::BREAK },
        };
        assert_eq!(outcome(word, [y, x], T, 0x8a00, 0), expected, "{word:08x} of {x:x} and {y:x}");
    };
    for (x, y) in VALUES.iter().flat_map(|x| VALUES.map(|y| (*x, y))) {
        for (code, value) in logical(x, y) {
            for condition in conditions(&[0, 1, 2, 3, 7]) {
                let found = match condition & 7 {
                    0 => false,
                    1 => value == 0,
                    2 => signed(value) < 0,
                    3 => signed(value) <= 0,
                    _ => value & 1 != 0,
                };
                check(code, condition, [x, y], value, found);
            }
        }
        let has_zero = |value: u32, condition: u32| match condition & 7 {
            2 => parts(value, 8).any(|part| part == 0),
            3 => parts(value, 16).any(|part| part == 0),
            _ => false,
        };
        for condition in conditions(&[0, 2, 3]) {
            check(0x0e, condition, [x, y], x ^ y, has_zero(x ^ y, condition));
        }
        let value = x.wrapping_add(!y);
        let out = carries(x, !y, 0) >> 8;
        for condition in conditions(&[0, 2, 3, 4, 6, 7]) {
            let found = match condition & 7 {
                4 => out != 0,
                6 => out & 0b1010_1010 != 0,
                7 => out & 0b1000_1000 != 0,
                _ => has_zero(value, condition),
            };
            check(0x26, condition, [x, y], value, found);
            check(0x27, condition, [x, y], value, found);
        }
    }
}

/// KP-2: packed decimal numbers are added and subtracted by the manual's sequences, with `dcor`; `idcor` adds 6 to each digit that
/// carried.
#[test]
fn decimal_corrections_make_decimal_sums() {
    let packed = |value: u32| (0..8).map(|digit| (value / 10_u32.pow(digit) % 10) << (4 * digit)).sum::<u32>();
    let between = |code: u32, a: u32, b: u32, t: u32| 2 << 26 | a << 21 | b << 16 | code << 6 | t;
    let numbers = [0, 1, 9, 10, 99, 12_345_678, 90_909_090, 99_999_999, 50_505_050, 45_454_545, 87_654_321];
    for (x, y) in numbers.iter().flat_map(|x| numbers.map(|y| (*x, y))) {
        let result = |words: [u32; 3]| {
            let words: Vec<(u32, u32)> = (0..).map(|number| AT + 4 * number).zip(words).collect();
            let machine = run(&words, |state| {
                [(A, packed(x)), (B, packed(y)), (T, 0x6666_6666)]
                    .iter()
                    .for_each(|(register, value)| state.general[*register as usize].set(*value));
            });
            machine.state.general[T as usize].get()
        };
        let sum = result([between(0x18, A, T, T), between(0x18, B, T, T), between(0x2e, T, 0, T)]);
        assert_eq!(sum, packed((x + y) % 100_000_000), "{x} + {y}");
        let difference = result([between(0x10, B, A, T), between(0x2e, T, 0, T), mark(7)]);
        assert_eq!(difference, packed((x + 100_000_000 - y) % 100_000_000), "{x} - {y}");
    }
    for status in (0..256).map(|digits| digits << 8) {
        let six = (0..8).filter(|digit| status >> (8 + digit) & 1 != 0).map(|digit| 6 << (4 * digit)).sum::<u32>();
        let seen = outcome(between(0x2f, A, 0, T), [0x0123_4567, 0], T, status, 0);
        assert_eq!((seen.value, seen.carries), (0x0123_4567_u32.wrapping_add(six), status));
    }
}

/// Compares an instruction of shifts with its result, with the condition of the word.
fn check_shift(word: u32, operands: [u32; 2], to: u32, sar: u32, value: u32) {
    let seen = outcome(word, operands, to, 0x0500, sar);
    let nullifies = shift_holds(word >> 13 & 7, value);
    let expected = Outcome { value, carries: 0x0500, nullifies, exception: number::BREAK };
    assert_eq!(seen, expected, "{word:08x} of {operands:x?} by {sar}");
}

/// KP-2: `shd` and `vshd` of all amounts, `extru` and `extrs`, also by the shift amount register, of all fields.
#[test]
fn shifts_and_extractions_take_the_fields_of_all_lengths() {
    let pairs = [[0x8000_0001, 0x7fff_fffe], [0x1234_5678, 0x9abc_def0], [0, u32::MAX]];
    for (amount, [low, high]) in (0..32).flat_map(|amount| pairs.map(|pair| (amount, pair))) {
        let bits: Vec<u32> = (0..32).map(|number| bit(high, number)).chain((0..32).map(|number| bit(low, number))).collect();
        let value = bits[32 - amount as usize..64 - amount as usize].iter().fold(0, |value, bit| value << 1 | bit);
        for condition in 0..8 {
            let word = 0x34 << 26 | A << 21 | B << 16 | condition << 13 | T;
            check_shift(word | 2 << 10 | (31 - amount) << 5, [low, high], T, 3, value);
            check_shift(word, [low, high], T, amount, value);
        }
    }
    for (end, len) in (0..32_u32).flat_map(|end| (1..=end + 1).map(move |len| (end, len))) {
        for source in [0x8765_4321_u32, 0x5aa5_c33c] {
            let field = (end + 1 - len..=end).fold(0, |value, number| value << 1 | bit(source, number));
            let sign = bit(source, end + 1 - len);
            let extended = if sign != 0 && len < 32 { field | u32::MAX << len } else { field };
            let condition = (end + len) % 8;
            let word = 0x34 << 26 | A << 21 | T << 16 | condition << 13 | (32 - len);
            check_shift(word | 6 << 10 | end << 5, [source, 0], T, 0, field);
            check_shift(word | 7 << 10 | end << 5, [source, 0], T, 0, extended);
            check_shift(word | 4 << 10, [source, 0], T, end, field);
            check_shift(word | 5 << 10, [source, 0], T, end, extended);
        }
    }
}

/// KP-2: deposits of all fields, of a register and of a number, at a fixed place and by the shift amount register, into a register and
/// into zeros.
#[test]
fn deposits_set_the_fields_of_all_lengths() {
    for (end, len) in (0..32_u32).flat_map(|end| (1..=end + 1).map(move |len| (end, len))) {
        for (source, old) in [(0x8765_4321_u32, 0x5aa5_c33c_u32), (0x5a, u32::MAX)] {
            let into = |source: u32, old: u32| {
                (0..32).fold(0, |value, number| {
                    let is_inside = (end + 1 - len..=end).contains(&number);
                    let from = if is_inside { bit(source, 31 - (end - number)) } else { bit(old, number) };
                    value << 1 | from
                })
            };
            let condition = (end + len) % 8;
            // The target is A, and the source B.
            let word = 0x35 << 26 | A << 21 | condition << 13 | (32 - len);
            for (code, is_number) in [(0, false), (4, true)] {
                let number = (source as i32) << 27 >> 27;
                let from = if is_number { (number as u32) << 1 & 31 | (number < 0) as u32 } else { B };
                let source = if is_number { number as u32 } else { source };
                for (merges, old_part) in [(0, 0), (1, old)] {
                    let value = into(source, old_part);
                    check_shift(word | from << 16 | (code + 2 + merges) << 10 | (31 - end) << 5, [old, source], A, 0, value);
                    check_shift(word | from << 16 | (code + merges) << 10, [old, source], A, end, value);
                }
            }
        }
    }
}
