//! The running task: its address is in the CPU's lowcore.

use super::state::{MASK, PREFIX};
use crate::boot::Kernel;
use crate::cpu::members::{self, Step};
use crate::cpu::moment::CountPlace;
use crate::cpu::{TaskPlace, View, tasks};
use crate::unicorn::engine::Handle;
use trapline_isa::function::walk;
use trapline_isa::insn::Insn;
use trapline_isa::regs::Registers;
use trapline_isa::s390::S390X;

/// The running task. If its location is unknown, the start of the kernel stack identifies it.
pub fn current(view: &mut View) -> u64 {
    let lowcore = view.trap.handle().live64(PREFIX);
    let at = view.tasks.current.map(|offset| lowcore.wrapping_add(offset));
    let found = at.and_then(|at| view.ram.get64(at)).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// The bytes of a word of a program in the addressing mode of 31 bits.
pub fn narrow_word(handle: &Handle) -> Option<usize> {
    const EXTENDED_ADDRESSING: u64 = 1 << 32;
    (handle.live64(MASK) & EXTENDED_ADDRESSING == 0).then_some(4)
}

/// The locations found in the code that prints the running task. It loads the task's address by an `lg` from the
/// lowcore: without base and index, or with a base that it has set to 0 (newer kernels can move the lowcore). Then it
/// loads the number and computes the address of the name.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((start, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let read = |at: u64, into: &mut [u8]| kernel.read(at, into);
    let code: Vec<Insn> = walk(&S390X, start, start + bytes.len() as u64, read).map_while(Result::ok).collect();
    let (mut zero, mut current) = (None, None);
    let steps = code.iter().map(|insn| {
        zero = zeroed(insn.bytes()).or(zero);
        match lowcore_load(insn.bytes(), zero) {
            Some((task, place)) if current.is_none_or(|current| current == place) => {
                current = Some(place);
                Step::Task(task)
            }
            _ => step(insn.bytes()),
        }
    });
    let TaskPlace { pid, comm, .. } = members::find(steps, None);
    TaskPlace { current, pid, comm, ..TaskPlace::default() }
}

/// Registers that a called function may change: r0 to r5 and r14.
const OF_THE_CALLED: u32 = 0x403f;

/// The effect of an instruction on registers.
fn step(bytes: &[u8]) -> Step {
    let first = |byte: &u8| byte >> 4;
    let last = |byte: &u8| byte & 15;
    let short = |high: &u8, low: &u8| i64::from(u16::from(last(high)) << 8 | u16::from(*low));
    let long = |high: &u8, low: &u8, top: &u8| i64::from(*top as i8) << 12 | short(high, low);
    let half = |high: &u8, low: &u8| i64::from(i16::from_be_bytes([*high, *low]));
    // A base and an index; 0 is none.
    let by = |into: u8, index: u8, base: u8, found: &dyn Fn(u8) -> Step| match (index, base) {
        (0, 0) => Step::Others(1 << into),
        (0, register) | (register, 0) => found(register),
        _ => Step::Others(1 << into),
    };
    match bytes {
        // lgr
        [0xb9, 0x04, _, both] => Step::Address { into: first(both), base: last(both), distance: 0 },
        // lghi, aghi, aghik
        [0xa7, r, high, low] if last(r) == 9 => Step::Constant { into: first(r), value: half(high, low) },
        [0xa7, r, high, low] if last(r) == 0xb => Step::Address { into: first(r), base: first(r), distance: half(high, low) },
        [0xec, r, high, low, _, 0xd9] => Step::Address { into: first(r), base: last(r), distance: half(high, low) },
        // la, lay
        [LOAD_ADDRESS, r, high, low] => {
            by(first(r), last(r), first(high), &|base| Step::Address { into: first(r), base, distance: short(high, low) })
        }
        [0xe3, r, high, low, top, 0x71] => {
            by(first(r), last(r), first(high), &|base| Step::Address { into: first(r), base, distance: long(high, low, top) })
        }
        // l; ly, lgf, llgf and lg
        [LOAD, r, high, low] => by(first(r), last(r), first(high), &|base| Step::Load {
            into: first(r),
            base,
            distance: short(high, low),
            is_number: true,
        }),
        [0xe3, r, high, low, top, kind @ (0x58 | 0x14 | 0x16 | 0x04)] => by(first(r), last(r), first(high), &|base| Step::Load {
            into: first(r),
            base,
            distance: long(high, low, top),
            is_number: *kind != 0x04,
        }),
        // Calls: basr, bras, brasl
        [0x0d, r] if last(r) != 0 => Step::Others(OF_THE_CALLED),
        [0xa7, r, ..] | [0xc0, r, ..] if last(r) == 5 => Step::Others(OF_THE_CALLED),
        // Branches, comparisons and stores
        [0xa7 | 0xc0, r, ..] if last(r) == 4 => Step::Others(0),
        [0x07 | 0x40 | 0x42 | 0x47 | 0x50 | 0x90 | 0x91 | 0x92 | 0x95 | 0xd2 | 0xe5, ..] => Step::Others(0),
        [0xe3, .., 0x20 | 0x21 | 0x24 | 0x50 | 0x51 | 0x70 | 0x72] | [0xeb, .., 0x24 | 0x26 | 0x51 | 0x52 | 0x55] => {
            Step::Others(0)
        }
        [0xec, .., 0x64 | 0x65 | 0x76 | 0x77 | 0x7c..=0x7f] => Step::Others(0),
        // Loads of several registers may load any.
        [0xeb | 0x98, ..] => Step::Others(0xffff),
        [_, r, ..] => Step::Others(1 << first(r)),
        _ => Step::Others(0),
    }
}

/// `llilh` or `lghi` of 0: the register.
fn zeroed(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [0xa5, first, 0, 0, ..] if first & 15 == 0x0e => Some(first >> 4),
        [0xa7, first, 0, 0, ..] if first & 15 == 0x09 => Some(first >> 4),
        _ => None,
    }
}

/// Whether the base is 0: no base register, or one that holds 0.
fn is_zero(base: u8, zero: Option<u8>) -> bool {
    base == 0 || zero == Some(base)
}

/// `lg` of a doubleword in the lowcore: the register, and the offset in the lowcore.
fn lowcore_load(bytes: &[u8], zero: Option<u8>) -> Option<(u8, u64)> {
    match bytes {
        [0xe3, first, second, third, 0, 0x04] if first & 15 == 0 && is_zero(second >> 4, zero) => {
            Some((first >> 4, place(*second, *third)))
        }
        _ => None,
    }
}

const LOAD: u8 = 0x58;
const LOAD_ADDRESS: u8 = 0x41;

fn place(second: u8, third: u8) -> u64 {
    u64::from(second & 15) << 8 | u64::from(third)
}

/// Finds `preempt_count`: the word of the lowcore to which this code adds `interrupt`, the kernel's HARDIRQ_OFFSET.
pub fn count_by_code(_: u64, code: &[u8], interrupt: u64) -> Option<CountPlace> {
    let (mut zero, mut has_constant) = (None, false);
    let [_, _, _, _, high @ .., _, _] = interrupt.to_be_bytes();
    let whole = (interrupt as u32).to_be_bytes();
    let found = code.windows(10).step_by(2).find_map(|bytes| {
        zero = zeroed(bytes).or(zero);
        match bytes {
            // l %r1,n; alfi %r1,interrupt
            [LOAD, register, second, third, 0xc2, added, rest @ ..] if rest == whole => {
                let is_it = register & 15 == 0 && is_zero(second >> 4, zero) && *added == register | 0x0b;
                is_it.then(|| place(*second, *third))
            }
            // llilh %r1,interrupt
            [0xa5, register, constant @ .., _, _, _, _, _, _] if register & 15 == 0x0e && constant == high => {
                has_constant = true;
                None
            }
            // cs, laa, csg and laag of that constant (7.2, and CPUs from z196 on)
            [0xba, _, second, third, ..] | [0xeb, _, second, third, 0, 0xf8 | 0x30 | 0xe8, ..] if has_constant => {
                is_zero(second >> 4, zero).then(|| place(*second, *third))
            }
            _ => None,
        }
    });
    found.map(CountPlace::OwnData)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::moment::{HARD_INTERRUPT, NEWER_HARD_INTERRUPT};

    #[test]
    fn a_load_from_the_lowcore_is_recognised() {
        #[rustfmt::skip]
        let cases = [
            ("lg %r1,832",              [0xe3, 0x10, 0x03, 0x40, 0x00, 0x04], None,     Some((1, 832))),
            ("lg %r1,832(%r2)",         [0xe3, 0x10, 0x23, 0x40, 0x00, 0x04], None,     None),
            ("lg %r1,832(%r2), r2 0",   [0xe3, 0x10, 0x23, 0x40, 0x00, 0x04], Some(2),  Some((1, 832))),
            ("lg %r1,832(%r2), r3 0",   [0xe3, 0x10, 0x23, 0x40, 0x00, 0x04], Some(3),  None),
            ("lg %r1,832(%r2,0)",       [0xe3, 0x12, 0x03, 0x40, 0x00, 0x04], None,     None),
            ("stg %r1,832",             [0xe3, 0x10, 0x03, 0x40, 0x00, 0x24], None,     None),
        ];
        for (what, bytes, zero, expected) in cases {
            assert_eq!(lowcore_load(&bytes, zero), expected, "{what}");
        }
        assert_eq!(
            [zeroed(&[0xa5, 0x1e, 0, 0]), zeroed(&[0xa5, 0x1e, 0, 1]), zeroed(&[0xa5, 0x1a, 0, 0])],
            [Some(1), None, None]
        );
        assert_eq!(zeroed(&[0xa7, 0x29, 0, 0]), Some(2), "lghi %r2,0");
    }

    /// DV-4: `dump_stack_print_info` of Debian's 6.1 and 7.2 behind the load of the task's address.
    #[test]
    fn number_and_name_are_read_from_the_code_that_prints_them() {
        let place = |code: &[&[u8]]| {
            let steps = code.iter().map(|bytes| step(bytes));
            let TaskPlace { pid, comm, .. } = members::find(std::iter::once(Step::Task(6)).chain(steps), None);
            (pid, comm)
        };
        // l %r7,1928(%r6); brasl; la %r8,2360(%r6)
        let old: [&[u8]; 3] = [&[0x58, 0x70, 0x67, 0x88], &[0xc0, 0xe5, 0, 0, 1, 0], &[0x41, 0x80, 0x69, 0x38]];
        assert_eq!(place(&old), (Some(0x788), Some(0x938)));
        // aghi %r6,0x990; lg %r1,-0x18(%r6); ly %r7,-0x1d8(%r6); l %r8,0x18(%r1); brasl
        #[rustfmt::skip]
        let new: [&[u8]; 5] = [
            &[0xa7, 0x6b, 0x09, 0x90], &[0xe3, 0x10, 0x6f, 0xe8, 0xff, 0x04], &[0xe3, 0x70, 0x6e, 0x28, 0xff, 0x58],
            &[0x58, 0x80, 0x10, 0x18], &[0xc0, 0xe5, 0xff, 0x9c, 0xb1, 0x6f],
        ];
        assert_eq!(place(&new), (Some(0x7b8), Some(0x990)));
        assert_eq!(place(&new[1..]), (None, None), "no name");
    }

    #[test]
    fn the_count_is_what_an_interrupt_is_added_to() {
        // irq_enter_rcu of Debian's 6.1: brcl 0,0; l %r1,936; alfi %r1,65536; st %r1,936
        let code = [0xc0, 0x04, 0, 0, 0, 0, 0x58, 0x10, 0x03, 0xa8, 0xc2, 0x1b, 0x00, 0x01, 0x00, 0x00, 0x50, 0x10, 0x03, 0xa8];
        assert_eq!(count_by_code(0, &code, HARD_INTERRUPT), Some(CountPlace::OwnData(936)));
        assert_eq!(count_by_code(0, &code[..12], HARD_INTERRUPT), None);
        // 6.12: llilh %r1,0; l %r2,936(%r1); alfi %r2,65536
        let code = [0xa5, 0x1e, 0, 0, 0x58, 0x20, 0x13, 0xa8, 0xc2, 0x2b, 0x00, 0x01, 0x00, 0x00];
        assert_eq!(count_by_code(0, &code, HARD_INTERRUPT), Some(CountPlace::OwnData(936)));
        assert_eq!(count_by_code(0, &code[4..], HARD_INTERRUPT), None, "of some address");
        // 7.2: lghi %r2,0; llilh %r3,1; l %r1,936(%r2); lr %r4,%r1; ar %r4,%r3; cs %r1,%r4,936(%r2); jl; 4 bytes more
        #[rustfmt::skip]
        let code = [
            0xa7, 0x29, 0, 0, 0xa5, 0x3e, 0, 1, 0x58, 0x10, 0x23, 0xa8, 0x18, 0x41, 0x1a, 0x43, 0xba, 0x14, 0x23, 0xa8, 0xa7, 0x44,
            0xff, 0xfc, 0, 0, 0, 0,
        ];
        assert_eq!(count_by_code(0, &code, HARD_INTERRUPT), Some(CountPlace::OwnData(936)));
        assert_eq!(count_by_code(0, &[&code[..4], &code[8..]].concat(), HARD_INTERRUPT), None, "nothing says what is added");
        // 7.3: lghi %r2,0; llilh %r3,0x100; lg %r1,936(%r2); csg %r1,%r4,936(%r2); 4 bytes more
        #[rustfmt::skip]
        let code = [
            0xa7, 0x29, 0, 0, 0xa5, 0x3e, 1, 0, 0xe3, 0x10, 0x23, 0xa8, 0, 4, 0xeb, 0x14, 0x23, 0xa8, 0, 0x30, 0, 0, 0, 0,
        ];
        let found = |interrupt| count_by_code(0, &code, interrupt);
        assert_eq!([HARD_INTERRUPT, NEWER_HARD_INTERRUPT].map(found), [None, Some(CountPlace::OwnData(936))]);
    }
}
