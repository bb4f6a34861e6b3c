//! Tests SYSCALL against the manual: each flag that a program can set, under several masks of a kernel, from 64-bit code and
//! from 32-bit code under a 64-bit kernel, and while SYSCALL is disabled. The machine executes SYSCALL in place of Unicorn.
//! A wrong mask is dangerous: with the direction flag set, a kernel clears memory backwards.

use crate::frames::{self, CODE, GDT, USER_CODE, USER_DATA};
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{DATA, ELSEWHERE, PLACE};

/// Offsets of the code that LSTAR and CSTAR lead to.
const LONG_ENTRY: u64 = PLACE + 0x600;
const NARROW_ENTRY: u64 = PLACE + 0x640;
/// The selector of 32-bit code for programs.
const NARROW_CODE: u64 = 0x40;
const LINUX_MASK: u64 = 0x25_7fd5;
const SLEEP: u8 = 0xf4;
const INVALID_OPCODE: u32 = 6;
/// CF, PF, AF, ZF, SF, DF, OF, NT, AC and ID: the flags that a program can set by POPF.
const OF_PROGRAMS: [u64; 10] = [1 << 0, 1 << 2, 1 << 4, 1 << 6, 1 << 7, 1 << 10, 1 << 11, 1 << 14, 1 << 18, 1 << 21];

/// WRMSR of a value.
fn wrmsr(number: u32, value: u64) -> Vec<u8> {
    let mut code = vec![0xb9];
    code.extend(number.to_le_bytes());
    code.push(0xb8);
    code.extend((value as u32).to_le_bytes());
    code.push(0xba);
    code.extend(((value >> 32) as u32).to_le_bytes());
    code.extend([0x0f, 0x30]);
    code
}

/// A machine after a program with these flags and this code segment has executed SYSCALL. `mask` is the kernel's FMASK.
fn called(flags: u64, mask: u64, code_segment: u64, enabled: bool) -> Bare {
    let mut bare = frames::ready(Arch::X86_64, 0x67);
    bare.put(GDT + NARROW_CODE, &0x00cf_fb00_0000_ffffu64.to_le_bytes());
    bare.put(ELSEWHERE, &[0x0f, 0x05]);
    for entry in [LONG_ENTRY, NARROW_ENTRY] {
        bare.put(entry, &[SLEEP; 4]);
    }
    // mov $EFER,%ecx; rdmsr; and $~1,%al or or $1,%al; wrmsr
    let mut code = vec![0xb9, 0x80, 0, 0, 0xc0, 0x0f, 0x32];
    code.extend(if enabled { [0x0c, 1] } else { [0x24, 0xfe] });
    code.extend([0x0f, 0x30]);
    let numbers = [(0xc000_0081, CODE << 32), (0xc000_0082, LONG_ENTRY), (0xc000_0083, NARROW_ENTRY), (0xc000_0084, mask)];
    for (number, value) in numbers {
        code.extend(wrmsr(number, value));
    }
    code.extend(frames::enters(Arch::X86_64, &[USER_DATA | 3, DATA + 0x1000, flags, code_segment | 3, ELSEWHERE]));
    bare.run(&code);
    bare
}

fn get(bare: &mut Bare, name: &str) -> u64 {
    bare.get(Arch::X86_64.isa().abi.register(name).expect("it has a name"))
}

#[test]
fn a_system_call_masks_every_flag() {
    let all: u64 = OF_PROGRAMS.iter().sum();
    let alone = OF_PROGRAMS.into_iter().flat_map(|flag| [flag, all & !flag]);
    let values: Vec<u64> = alone.chain([0, all]).map(|flags| flags | 0x202).collect();
    let masks = OF_PROGRAMS.into_iter().map(|flag| flag | 0x200).chain([0x200, LINUX_MASK, 0x3f_7fd5]);
    let mut tried = 0;
    for mask in masks {
        for flags in &values {
            for (segment, entry) in [(USER_CODE, LONG_ENTRY), (NARROW_CODE, NARROW_ENTRY)] {
                let name = format!("flags {flags:#x}, mask {mask:#x}, from {segment:#x}");
                let mut bare = called(*flags, mask, segment, true);
                let seen = ["flags", "r11", "cx", "ip", "cs", "ss"].map(|register| get(&mut bare, register));
                assert_eq!(seen, [flags & !mask, *flags, ELSEWHERE + 2, entry + 1, CODE, CODE + 8], "{name}: {seen:x?}");
                tried += 1;
            }
        }
    }
    println!("{tried} system calls");
    assert!(tried > 500, "{tried}");
}

#[test]
fn a_system_call_that_is_switched_off_is_no_instruction() {
    for segment in [USER_CODE, NARROW_CODE] {
        let mut bare = called(0x202, LINUX_MASK, segment, false);
        let exceptions: Vec<_> = bare.machine().happenings().iter().map(|event| (event.what, event.pc)).collect();
        let found = exceptions.iter().any(|(what, pc)| matches!(what, What::Exception(INVALID_OPCODE, _)) && *pc == ELSEWHERE);
        assert!(found, "{segment:#x}: {exceptions:x?}");
        assert!(!exceptions.iter().any(|(what, _)| matches!(what, What::SystemCall)), "{segment:#x}: {exceptions:x?}");
    }
}
