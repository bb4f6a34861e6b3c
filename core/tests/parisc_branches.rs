//! PA-RISC: branches, their slots, links and nullification, returns from interruptions, and what programs may not do, by the manual.

#[path = "parisc/manual.rs"]
mod manual;

use manual::host::REQUESTED;
use manual::{A, AT, B, BEFORE, Machine, T, TARGET, VALUES, bit, holds, mark, run, shift_holds, signed};
use trapline_core::parisc::{number, psw};

/// A branch's distance from [`AT`], in its word.
fn distance(target: u32) -> u32 {
    let words = (target.wrapping_sub(AT + 8) as i32 >> 2) as u32;
    words >> 31 | (words >> 10 & 1) << 2 | (words & 0x3ff) << 3
}

/// Runs a branch. Returns whether it was taken, and whether its slot ran.
fn branches(word: u32, registers: &[(u32, u32)], status: u32) -> (bool, bool, Machine) {
    let words = [(AT, word), (AT + 4, mark(27)), (AT + 8, mark(28)), (TARGET, mark(29)), (BEFORE, mark(29))];
    let machine = run(&words, |state| {
        registers.iter().for_each(|(register, value)| state.general[*register as usize].set(*value));
        state.control[number::SAR].set(3);
        state.set_psw(status);
    });
    assert_eq!(machine.exception, number::BREAK, "{word:08x}");
    let [slot, next, target] = [27, 28, 29].map(|register| machine.state.general[register].get() == 1);
    assert_ne!(next, target, "{word:08x}");
    (target, slot, machine)
}

/// KP-2: all conditions of branches, forwards and backwards, with and without nullification of the slot.
#[test]
fn branches_are_taken_and_nullify_their_slots() {
    let mut outcomes = [0; 4];
    for (target, nullifies) in [TARGET, BEFORE].iter().flat_map(|target| [(*target, 0), (*target, 2)]) {
        let low = distance(target) | nullifies;
        let mut check = |word: u32, x: u32, y: u32, expected: bool, sets: Option<u32>| {
            let word = word | low;
            let (is_taken, runs_slot, machine) = branches(word, &[(A, y), (B, x)], 0);
            assert_eq!(is_taken, expected, "{word:08x} of {x:x} and {y:x}");
            // Forwards a taken branch nullifies its slot, and backwards one that is not taken.
            assert_eq!(runs_slot, nullifies == 0 || is_taken != (target == TARGET), "slot of {word:08x}");
            assert_eq!(machine.state.general[A as usize].get(), sets.unwrap_or(y), "{word:08x} of {x:x} and {y:x}");
            outcomes[usize::from(is_taken) * 2 + usize::from(runs_slot)] += 1;
        };
        for (x, y) in VALUES.iter().flat_map(|x| VALUES.map(|y| (*x, y))) {
            for condition in 0..8 {
                let fields = A << 21 | B << 16 | condition << 13;
                let exact = signed(x) - signed(y);
                let sum = signed(x) + signed(y);
                let is_low = u64::from(x) + u64::from(y) <= u64::from(u32::MAX);
                for (negated, opcode) in [(0, 0x20), (8, 0x22)] {
                    check(opcode << 26 | fields, x, y, holds(condition | negated, exact, x < y), None);
                }
                for (negated, opcode) in [(0, 0x28), (8, 0x2a)] {
                    check(opcode << 26 | fields, x, y, holds(condition | negated, sum, is_low), Some(sum as u32));
                }
                check(0x32 << 26 | fields, x, y, shift_holds(condition, x), Some(x));
            }
        }
        for (number, y) in (-16..16).flat_map(|number: i32| VALUES.map(|y| (number as u32, y))) {
            for condition in 0..8 {
                let fields = A << 21 | (number << 1 & 31 | number >> 31) << 16 | condition << 13;
                let (exact, sum) = (signed(number) - signed(y), signed(number) + signed(y));
                let is_low = u64::from(number) + u64::from(y) <= u64::from(u32::MAX);
                for (negated, opcode) in [(0, 0x21), (8, 0x23)] {
                    check(opcode << 26 | fields, 0, y, holds(condition | negated, exact, number < y), None);
                }
                for (negated, opcode) in [(0, 0x29), (8, 0x2b)] {
                    check(opcode << 26 | fields, 0, y, holds(condition | negated, sum, is_low), Some(sum as u32));
                }
                check(0x33 << 26 | fields, 0, y, shift_holds(condition, number), Some(number));
            }
        }
        for (number, x) in (0..32).flat_map(|number| [0x1234_5678_u32, !0x1234_5678].map(|x| (number, x))) {
            for inverts in [0, 1] {
                let fields = B << 16 | inverts << 15 | 1 << 14;
                check(0x31 << 26 | number << 21 | fields, x, 9, (bit(x, number) == 1) != (inverts == 1), None);
                // `bvb` takes the bit from the shift amount register.
                check(0x30 << 26 | fields, x, 9, (bit(x, 3) == 1) != (inverts == 1), None);
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 1000), "{outcomes:?}");
}

/// KP-2: branches that are always taken, with their links, and branches that are nullified themselves.
#[test]
fn links_are_the_address_behind_the_slot() {
    let long = |target: u32| distance(target) | if target < AT { 31 << 16 } else { 0 };
    for nullifies in [0, 2] {
        let check = |word: u32, link: usize, registers: &[(u32, u32)]| {
            let (is_taken, runs_slot, machine) = branches(word | nullifies, registers, 0);
            assert!(is_taken && runs_slot == (nullifies == 0), "{word:08x}");
            let expected = if link == 0 { 0 } else { AT + 8 };
            assert_eq!(machine.state.general[link].get(), expected, "{word:08x}");
            // A nullified branch is none, and sets no link.
            let (is_taken, runs_slot, machine) = branches(word | nullifies, registers, psw::N);
            assert!(!is_taken && runs_slot, "nullified {word:08x}");
            assert_eq!(machine.state.general[link].get(), 0, "nullified {word:08x}");
        };
        for target in [TARGET, BEFORE] {
            check(0x3a << 26 | 2 << 21 | long(target), 2, &[]);
            check(0x3a << 26 | long(target), 0, &[]);
            // `bv` and `be`, also with a link.
            check(0x3a << 26 | A << 21 | 6 << 13, 0, &[(A, target)]);
            check(0x3a << 26 | A << 21 | B << 16 | 6 << 13, 0, &[(A, target - 0x80), (B, 0x10)]);
            check(0x38 << 26 | A << 21 | 1 << 13, 0, &[(A, target)]);
            check(0x39 << 26 | A << 21 | 1 << 13, 31, &[(A, target)]);
        }
        // `blr` goes to the address behind the slot and 8 bytes for each unit.
        check(0x3a << 26 | 2 << 21 | B << 16 | 2 << 13, 2, &[(B, (TARGET - AT - 8) / 8)]);
    }
}

/// KP-2: a branch in the slot of another one runs one instruction at the first target, unless it nullifies it.
#[test]
fn a_branch_in_a_slot_leaves_one_instruction_at_the_target() {
    const SECOND: u32 = 0x1200;
    for nullifies in [0, 2] {
        let words = [
            (AT, 0x3a << 26 | 2 << 21 | distance(TARGET)),
            (AT + 4, 0x3a << 26 | 3 << 21 | distance(SECOND - 4) | nullifies),
            (TARGET, mark(28)),
            (TARGET + 4, mark(29)),
            (SECOND, mark(27)),
        ];
        let machine = run(&words, |_| ());
        let seen = [27, 28, 29, 2, 3].map(|register| machine.state.general[register].get());
        // The second link is the address behind the instruction at the first target.
        assert_eq!(seen, [1, u32::from(nullifies == 0), 0, AT + 8, TARGET + 4]);
        assert_eq!(machine.state.front.get(), SECOND + 4);
    }
}

/// KP-2: an instruction nullifies exactly one other one, also in the next page, and also a branch or one that would trap.
#[test]
fn one_instruction_is_nullified() {
    // `or,tr r0,r0,r0`.
    let always = 2 << 26 | 1 << 12 | 9 << 6;
    // The first page ends at the instruction, at the nullified one, or not at all.
    for at in [AT - 4, AT - 8, AT] {
        let machine = run(&[(at, always), (at + 4, mark(27)), (at + 8, mark(28))], |state| state.go_to(at));
        let seen = [27, 28].map(|register| machine.state.general[register].get());
        assert_eq!(seen, [0, 1], "at {at:x}");
    }
    // A nullified branch, break, or privileged instruction has no effect.
    for word in [0x3a << 26 | distance(TARGET), 0, 0x60 << 5, 0x13 << 26] {
        let machine = run(&[(AT, always), (AT + 4, word), (AT + 8, mark(28))], |state| {
            state.front_level.set(3);
            state.back_level.set(3);
        });
        assert_eq!((machine.state.general[28].get(), machine.exception), (1, number::BREAK), "{word:08x}");
    }
}

/// KP-2: a program reads the interval timer unless PSW S forbids it, and no other control registers but the shift amount, cr26 and cr27.
#[test]
fn programs_read_the_interval_timer_unless_it_is_secret() {
    let read = |register: u32, level: u32, status: u32| {
        let word = register << 21 | 0x45 << 5 | T;
        let machine = run(&[(AT, word)], |state| {
            state.control.iter().for_each(|cell| cell.set(0x11));
            state.set_psw(status);
            state.front_level.set(level);
            state.back_level.set(level);
        });
        (machine.state.general[T as usize].get(), machine.exception)
    };
    for register in [0].into_iter().chain(8..32_u32) {
        let value = match register as usize {
            number::ITMR => 0x1234,
            number::EIRR => REQUESTED | 0x11,
            _ => 0x11,
        };
        for status in [0, psw::S] {
            assert_eq!(read(register, 0, status), (value, number::BREAK), "cr{register} at level 0");
            let is_open = matches!(register, 11 | 26 | 27) || register == 16 && status == 0;
            let expected = if is_open { (value, number::BREAK) } else { (0, number::PRIVILEGED_REGISTER) };
            assert_eq!(read(register, 3, status), expected, "cr{register} at level 3, PSW {status:x}");
        }
    }
}

/// KP-2: a write of the interval timer's comparator and one of EIRR reach the machine with the address of the instruction, from a delay
/// slot too. A write to EIRR clears the bits that are 1, and a read has the machine's requests. Programs reach neither.
#[test]
fn the_machine_sees_the_comparator_and_the_pending_interrupts() {
    let write = |register: usize| (register as u32) << 21 | A << 16 | 0xc2 << 5;
    let read_requests = (number::EIRR as u32) << 21 | 0x45 << 5 | T;
    // b .+8
    let branch = 0xe800_0000;
    let words = [branch, write(number::ITMR), write(number::EIRR), read_requests];
    let places: Vec<(u32, u32)> = words.iter().zip((AT..).step_by(4)).map(|(word, at)| (at, *word)).collect();
    for level in [0, 3] {
        let machine = run(&places, |state| {
            state.general[A as usize].set(0x6);
            state.control[number::EIRR].set(0x5);
            state.front_level.set(level);
            state.back_level.set(level);
        });
        let [comparator, pending] = [number::ITMR, number::EIRR].map(|register| machine.state.control[register].get());
        let read = machine.state.general[T as usize].get();
        if level != 0 {
            assert_eq!((machine.exception, comparator, pending, read), (number::PRIVILEGED_REGISTER, 0, 0x5, 0));
            assert_eq!(machine.written, []);
            continue;
        }
        assert_eq!((machine.exception, comparator, pending, read), (number::BREAK, 0x6, 0x1, REQUESTED | 0x1));
        let of = |register: usize, at: u32| (number::word_of(register), 0x6, at);
        assert_eq!(machine.written, [of(number::ITMR, AT + 4), of(number::EIRR, AT + 8)]);
        assert_eq!(number::word_of(number::ITMR), 0x0200_1840, "mtctl r0,cr16");
    }
}

/// KP-2: `rfi` goes on with both instructions of the saved queue, which may be anywhere, at their levels, and with PSW N.
#[test]
fn a_return_from_an_interruption_restores_the_queue() {
    const OTHER: u32 = 0x1300;
    let shadowed = [1, 8, 9, 16, 17, 24, 25];
    for (code, restores) in [(0x60, false), (0x65, true)] {
        for nullified in [0, psw::N] {
            let words = [(AT, code << 5), (TARGET, mark(27)), (TARGET + 4, mark(29)), (OTHER, mark(28))];
            let machine = run(&words, |state| {
                state.control[number::IIAOQ].set(TARGET | 3);
                state.saved_back[1].set(OTHER | 3);
                state.control[number::IPSW].set(nullified | psw::I | psw::V | 0x8100);
                state.shadows.iter().for_each(|shadow| shadow.set(0x77));
            });
            let state = &machine.state;
            let seen = [27, 28, 29].map(|register| state.general[register].get());
            assert_eq!(seen, [u32::from(nullified == 0), 1, 0]);
            assert_eq!((state.front.get(), state.front_level.get()), (OTHER + 4, 3));
            assert_eq!(state.psw(), psw::I | psw::V | 0x8100);
            let expected = if restores { 0x77 } else { 0 };
            assert!(shadowed.iter().all(|register| state.general[*register].get() == expected), "{code:x}");
        }
    }
}

/// KP-2: privileged instructions and registers trap in a program, before they change anything. The kernel may use all.
#[test]
fn programs_may_not_use_privileged_instructions_and_registers() {
    let system = |code: u32| code << 5 | A << 16;
    let absolute = |code: u32| 3 << 26 | A << 21 | 1 << 12 | code << 6;
    let operations = [0x60, 0x65, 0x6b, 0x73, 0xc3].map(system).into_iter();
    let translations = [0x00, 0x01, 0x08, 0x09, 0x40, 0x41, 0x48, 0x49, 0x4c, 0x4d].map(|code| 1 << 26 | code << 6 | A << 21);
    let operations = operations.chain(translations).chain([5 << 26, absolute(6), absolute(14), 3 << 26 | A << 21 | 6 << 6]);
    let registers = (8..32).filter(|register| *register != 11).map(|register| system(0xc2) | register << 21);
    let spaces = [5, 6, 7].map(|space| system(0xc1) | (space & 3) << 14 | (space >> 2) << 13);
    let all = operations.map(|word| (word | T, number::PRIVILEGED));
    let all = all.chain(registers.chain(spaces).map(|word| (word, number::PRIVILEGED_REGISTER)));
    let mut count = 0;
    for (word, expected) in all {
        for is_slot in [false, true] {
            let seen = |level: u32| {
                run(&[(AT, word)], |state| {
                    state.general[A as usize].set(0x200);
                    state.general[T as usize].set(0x55);
                    state.front_level.set(level);
                    state.back_level.set(level);
                    if is_slot {
                        state.back.set(TARGET);
                    }
                })
            };
            let machine = seen(3);
            let state = &machine.state;
            assert_eq!((machine.exception, state.front.get()), (expected, AT), "{word:08x}");
            assert_eq!((state.general[T as usize].get(), state.psw(), state.front_level.get()), (0x55, 0, 3), "{word:08x}");
            let untouched = state.control.iter().chain(&state.spaces).all(|cell| cell.get() == 0);
            assert!(untouched && state.tlb.0.iter().all(|entry| entry.page.get() == 0), "{word:08x}");
            let allowed = seen(0).exception;
            assert!(
                allowed != number::PRIVILEGED && allowed != number::PRIVILEGED_REGISTER,
                "{word:08x} in the kernel: {allowed}"
            );
            count += 1;
        }
    }
    assert_eq!(count, 2 * (5 + 10 + 4 + 23 + 3));
}
