//! The running task: its address is in the CPU's lowcore.

use super::state::PREFIX;
use crate::boot::Kernel;
use crate::cpu::moment::CountPlace;
use crate::cpu::{TaskPlace, View, tasks};
use trapline_isa::function::walk;
use trapline_isa::insn::{Flow, Insn};
use trapline_isa::regs::Registers;
use trapline_isa::s390::S390X;

/// The running task. If its location is unknown, the start of the kernel stack identifies it.
pub fn current(view: &mut View) -> u64 {
    let lowcore = view.trap.handle().live64(PREFIX);
    let at = view.tasks.current.map(|offset| lowcore.wrapping_add(offset));
    let found = at.and_then(|at| view.ram.get64(at)).filter(|task| *task != 0);
    found.unwrap_or_else(|| view.get(view.isa.abi.sp) & !(view.isa.abi.stack_size - 1))
}

/// The locations found in the code that prints the running task. It loads the task's address by an `lg` from the
/// lowcore: without base and index, or with a base that it has set to 0 (newer kernels can move the lowcore). Then it
/// loads the number and computes the address of the name.
pub fn by_code(kernel: &Kernel) -> TaskPlace {
    let Some((start, bytes)) = tasks::printing_code(kernel) else { return TaskPlace::default() };
    let read = |at: u64, into: &mut [u8]| kernel.read(at, into);
    let code: Vec<Insn> = walk(&S390X, start, start + bytes.len() as u64, read).map_while(Result::ok).collect();
    let mut zero = None;
    let loads = code.iter().enumerate().find_map(|(number, insn)| {
        zero = zeroed(insn.bytes()).or(zero);
        Some((number, lowcore_load(insn.bytes(), zero)?))
    });
    let Some((number, (task, current))) = loads else { return TaskPlace::default() };
    let line: Vec<&[u8]> = code[number + 1..].iter().take_while(|insn| insn.flow == Flow::Next).map(Insn::bytes).collect();
    let member = |code| line.iter().filter_map(move |bytes| member(bytes, code, task)).max();
    TaskPlace { current: Some(current), pid: member(LOAD), comm: member(LOAD_ADDRESS), ..TaskPlace::default() }
}

/// The register that the instruction sets to 0 (`llilh` of 0).
fn zeroed(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [0xa5, first, 0, 0, ..] if first & 15 == 0x0e => Some(first >> 4),
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

/// `l` or `la` of a field in the task: its offset.
fn member(bytes: &[u8], code: u8, task: u8) -> Option<u64> {
    match bytes {
        [found, first, second, third] if *found == code && first & 15 == 0 && second >> 4 == task => Some(place(*second, *third)),
        _ => None,
    }
}

fn place(second: u8, third: u8) -> u64 {
    u64::from(second & 15) << 8 | u64::from(third)
}

/// The place of the preemption count: the word of the lowcore that this code loads and adds an interrupt to.
pub fn count_by_code(_: u64, code: &[u8]) -> Option<CountPlace> {
    let mut zero = None;
    let loads = code.windows(10).step_by(2).find_map(|bytes| {
        zero = zeroed(bytes).or(zero);
        match bytes {
            // l %r1,n; alfi %r1,65536
            [LOAD, register, second, third, 0xc2, added, 0x00, 0x01, 0x00, 0x00] => {
                let is_it = register & 15 == 0 && is_zero(second >> 4, zero) && *added == register | 0x0b;
                is_it.then(|| place(*second, *third))
            }
            _ => None,
        }
    });
    loads.map(CountPlace::OwnData)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_from_the_lowcore_is_told_from_others() {
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
        assert_eq!(member(&[0x58, 0x70, 0x17, 0x88], LOAD, 1), Some(0x788), "l %r7,1928(%r1)");
        assert_eq!(member(&[0x41, 0x60, 0x19, 0x38], LOAD_ADDRESS, 1), Some(0x938), "la %r6,2360(%r1)");
        assert_eq!(member(&[0x58, 0x20, 0x03, 0xa0], LOAD, 1), None, "l %r2,928");
    }

    #[test]
    fn the_count_is_what_an_interrupt_is_added_to() {
        // irq_enter_rcu of Debian's 6.1: brcl 0,0; l %r1,936; alfi %r1,65536; st %r1,936
        let code = [0xc0, 0x04, 0, 0, 0, 0, 0x58, 0x10, 0x03, 0xa8, 0xc2, 0x1b, 0x00, 0x01, 0x00, 0x00, 0x50, 0x10, 0x03, 0xa8];
        assert_eq!(count_by_code(0, &code), Some(CountPlace::OwnData(936)));
        assert_eq!(count_by_code(0, &code[..12]), None);
        // Of 6.12: llilh %r1,0; l %r2,936(%r1); alfi %r2,65536
        let code = [0xa5, 0x1e, 0, 0, 0x58, 0x20, 0x13, 0xa8, 0xc2, 0x2b, 0x00, 0x01, 0x00, 0x00];
        assert_eq!(count_by_code(0, &code), Some(CountPlace::OwnData(936)));
        assert_eq!(count_by_code(0, &code[4..]), None, "of some address");
    }
}
