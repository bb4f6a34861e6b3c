//! 32-bit programs (AArch32 at EL0) under a 64-bit ARM kernel: which exception each instruction raises, what the kernel sees of
//! the program then, and that no instruction leads out of the program other than by the vectors for such programs.

use super::ended;
use trapline::machine::What;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_tests::lab::hostile::Bare;
use trapline_tests::lab::{HANDLERS, PAGE_TABLES};

/// Physical start of RAM. The program's pages have the same virtual addresses.
const BASE: u64 = 0x4000_0000;
/// 2 MiB that the program may read, write and execute, behind everything of the bench.
const PAGES: u64 = 0x80_0000;
const CODE: u64 = BASE + PAGES;
const DATA: u64 = CODE + 0x8000;
const STACK: u64 = CODE + 0xf000;
/// Memory that only the kernel may access.
const OF_KERNEL: u64 = BASE + 0x60_0000;
/// An address that is not mapped.
const NOWHERE: u64 = 0x7234_5678;

// SPSR_EL1 and CPSR.
const USER: u64 = 0x10;
const THUMB: u64 = 1 << 5;
const BIG: u64 = 1 << 9;
const STEP: u64 = 1 << 21;
const ZERO: u64 = 1 << 30;
const FLAGS: u64 = 0xf << 28;

// SCTLR_EL1.
const MMU: u64 = 1;
const BARRIERS: u64 = 1 << 5;
const NO_SETEND: u64 = 1 << 8;
const NO_TRAPS: u64 = 1 << 16 | 1 << 18;
const CONTROL: u64 = 0x00c5_0838 | MMU | BARRIERS | NO_TRAPS;

/// The kernel's settings, and the program's state when it begins.
#[derive(Clone, Copy)]
struct Begin {
    status: u64,
    at: u64,
    control: u64,
    /// CNTKCTL_EL1.
    timer: u64,
    /// MDSCR_EL1.
    debug: u64,
    registers: [u64; 15],
}

const BEGIN: Begin = {
    let mut registers = [0; 15];
    registers[1] = DATA;
    registers[2] = NOWHERE;
    registers[3] = OF_KERNEL;
    registers[4] = 0xd3;
    registers[13] = STACK;
    registers[14] = CODE + 0x101;
    Begin { status: USER, at: CODE, control: CONTROL, timer: 0, debug: 0, registers }
};

/// The state in the vector of a 32-bit program's exception.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    syndrome: u64,
    /// The return address.
    at: u64,
    fault_address: u64,
    status: u64,
    x: Vec<u64>,
    program_stack: u64,
}

const NAMES: [&str; 31] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
    "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30",
];

fn register(number: usize) -> Reg {
    Arch::Arm64.isa().abi.register(NAMES[number]).expect("it has a name")
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A machine whose tables map the program's pages.
fn machine() -> Bare {
    // A block: valid, for programs too, shareable, accessed.
    const BLOCK: u64 = 1 | 1 << 6 | 3 << 8 | 1 << 10;
    let mut bare = Bare::new(Arch::Arm64);
    bare.put(PAGE_TABLES + 0x2000 + 8 * (PAGES >> 21), &(CODE | BLOCK).to_le_bytes());
    // mrs x16, spsr_el1; mrs x17, sp_el0; wfi
    bare.put(HANDLERS + 0x600, &bytes(&[0xd538_4010, 0xd538_4111, 0xd503_207f]));
    bare
}

/// Runs a program from this state to its first exception. `None`: it had none in the time.
fn run(bare: &mut Bare, begin: &Begin, code: &[u8]) -> Option<Seen> {
    const KEPT: u64 = 0x1122_3344_5566_7700;
    bare.put(PAGES + (begin.at - CODE), code);
    bare.put(PAGES + (DATA - CODE), &[1, 2, 3, 4, 5, 6, 7, 8]);
    for number in 0..31 {
        bare.set(register(number), KEPT + number as u64);
    }
    for (number, value) in begin.registers.iter().enumerate() {
        // The upper half is not the program's.
        bare.set(register(number), *value | 0xdead_0000_0000_0000);
    }
    for (number, value) in [(22, begin.status), (23, begin.at), (25, begin.control), (26, begin.timer), (27, begin.debug)] {
        bare.set(register(number), value);
    }
    // msr daifset, #8; msr sctlr_el1, x25; msr cntkctl_el1, x26; msr mdscr_el1, x27; isb; msr spsr_el1, x22; msr elr_el1, x23;
    // msr sp_el0, x24; eret
    #[rustfmt::skip]
    let enter = [
        0xd503_48df, 0xd518_1019, 0xd518_e11a, 0xd510_025b, 0xd503_3fdf, 0xd518_4016, 0xd518_4037, 0xd518_4118, 0xd69f_03e0,
    ];
    let stop = bare.run(&bytes(&enter));
    ended("a 32-bit program", &stop);
    let pc = bare.machine().pcs()[0];
    if pc & 0xfff != (HANDLERS + 0x60c) & 0xfff || !bare.machine().in_kernel() {
        return None;
    }
    let named: Vec<(&str, u64)> = bare.machine().registers();
    let get = |name: &str| named.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
    let x: Vec<u64> = NAMES.iter().map(|name| get(name)).collect();
    for (number, value) in x.iter().enumerate().filter(|(number, _)| (15..31).contains(number)) {
        let is_set = matches!(number, 16 | 17 | 22 | 23 | 25..=27);
        assert!(is_set || *value == KEPT + number as u64, "x{number} is {value:#x}: the program has no such register");
    }
    Some(Seen {
        syndrome: get("esr"),
        at: get("elr"),
        fault_address: get("far"),
        status: x[16],
        program_stack: x[17],
        x: x[..15].to_vec(),
    })
}

fn arm(words: &[u32]) -> Vec<u8> {
    bytes(words)
}

fn thumb(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

const SVC: u32 = 0xef00_0000;
/// The syndrome of `svc #0`.
const CALLED: u64 = 0x4600_0000;
const UNDEFINED: u64 = 0x0200_0000;

/// A program, its state at the start, the syndrome, the offset of the return address, and the fault address where it counts.
type Case = (&'static str, Begin, Vec<u8>, u64, u64, Option<u64>);

fn cases() -> Vec<Case> {
    let in_thumb = Begin { status: USER | THUMB, ..BEGIN };
    let without_barriers = Begin { control: CONTROL & !BARRIERS, ..BEGIN };
    let with_timer = Begin { timer: 3, ..BEGIN };
    let fixed_order = Begin { control: CONTROL | NO_SETEND, ..BEGIN };
    let equal = Begin { status: USER | ZERO, ..BEGIN };
    let stepped = Begin { status: USER | STEP, debug: 1, ..BEGIN };
    let pending = Begin { debug: 1, ..BEGIN };
    vec![
        ("svc", BEGIN, arm(&[SVC | 0x1234]), CALLED | 0x1234, 4, None),
        ("svceq, not taken", BEGIN, arm(&[0x0f00_0001, SVC | 2]), CALLED | 2, 8, None),
        ("svc in Thumb code", in_thumb, thumb(&[0xdf56]), 0x4400_0056, 2, None),
        ("udf", BEGIN, arm(&[0xe7f0_00f0]), UNDEFINED, 0, None),
        ("udf in Thumb code", in_thumb, thumb(&[0xde00]), UNDEFINED, 0, None),
        ("bkpt", BEGIN, arm(&[0xe121_2374]), 0xe200_1234, 0, None),
        ("bkpt in Thumb code", in_thumb, thumb(&[0xbeab]), 0xe000_00ab, 0, None),
        ("hvc", BEGIN, arm(&[0xe140_0070]), UNDEFINED, 0, None),
        ("smc", BEGIN, arm(&[0xe160_0070]), UNDEFINED, 0, None),
        ("a load from nowhere", BEGIN, arm(&[0xe592_0000]), 0x9200_0006, 0, Some(NOWHERE)),
        ("a store to nowhere", BEGIN, arm(&[0xe582_0000]), 0x9200_0046, 0, Some(NOWHERE)),
        ("a load of the kernel's", BEGIN, arm(&[0xe593_0000]), 0x9200_000e, 0, Some(OF_KERNEL)),
        ("a store to the kernel's", BEGIN, arm(&[0xe583_0000]), 0x9200_004e, 0, Some(OF_KERNEL)),
        ("a jump to nowhere", BEGIN, arm(&[0xe12f_ff12]), 0x8200_0006, NOWHERE.wrapping_sub(CODE), Some(NOWHERE)),
        ("bxj", BEGIN, arm(&[0xe12f_ff22]), 0x8200_0006, NOWHERE.wrapping_sub(CODE), Some(NOWHERE)),
        ("cps to supervisor mode", BEGIN, arm(&[0xf102_0013, SVC]), CALLED, 8, None),
        ("cpsid", BEGIN, arm(&[0xf10c_01c0, SVC]), CALLED, 8, None),
        ("msr cpsr_c to supervisor mode", BEGIN, arm(&[0xe121_f004, SVC]), CALLED, 8, None),
        ("msr cpsr_c in Thumb code", in_thumb, thumb(&[0xf384, 0x8100, 0xdf00]), 0x4400_0000, 6, None),
        ("msr spsr", BEGIN, arm(&[0xe16f_f004]), UNDEFINED, 0, None),
        ("rfe", BEGIN, arm(&[0xf891_0a00]), UNDEFINED, 0, None),
        ("srs", BEGIN, arm(&[0xf8cd_0513]), UNDEFINED, 0, None),
        ("subs pc, lr", BEGIN, arm(&[0xe25e_f004]), UNDEFINED, 0, None),
        ("ldm with the user's registers", BEGIN, arm(&[0xe8d1_8001]), UNDEFINED, 0, None),
        ("eret", BEGIN, arm(&[0xe160_006e]), UNDEFINED, 0, None),
        ("enterx in Thumb code", in_thumb, thumb(&[0xf3bf, 0x8f1f]), UNDEFINED, 0, None),
        ("mrc of SCTLR", BEGIN, arm(&[0xee11_0f10]), UNDEFINED, 0, None),
        ("mcr of TTBR0", BEGIN, arm(&[0xee02_0f10]), UNDEFINED, 0, None),
        ("mrc of PMCCNTR", BEGIN, arm(&[0xee19_0f1d]), 0x0fe0_241b, 0, None),
        ("mrrc of CNTVCT", BEGIN, arm(&[0xec51_0f1e]), 0x13e1_041d, 0, None),
        ("mrrc of CNTVCT, allowed", with_timer, arm(&[0xec51_0f1e, SVC]), CALLED, 8, None),
        ("mrc of CNTV_CTL", with_timer, arm(&[0xee1e_0f33]), 0x0fe2_0000 | 14 << 10 | 3 << 1 | 1, 0, None),
        ("mcr of TPIDRURW", BEGIN, arm(&[0xee0d_1f50, SVC]), CALLED, 8, None),
        ("mcr of TPIDRURO", BEGIN, arm(&[0xee0d_1f70]), UNDEFINED, 0, None),
        ("the barriers of ARMv6", BEGIN, arm(&[0xee07_0f9a, 0xee07_0fba, 0xee07_0f95, SVC]), CALLED, 16, None),
        ("dsb of ARMv6, disabled", without_barriers, arm(&[0xee07_0f9a]), UNDEFINED, 0, None),
        ("dmb of ARMv6, disabled", without_barriers, arm(&[0xee07_0fba]), UNDEFINED, 0, None),
        ("isb of ARMv6, disabled", without_barriers, arm(&[0xee07_0f95]), UNDEFINED, 0, None),
        ("setend, disabled", fixed_order, arm(&[0xf101_0200]), UNDEFINED, 0, None),
        ("swp", BEGIN, arm(&[0xe101_0090]), UNDEFINED, 0, None),
        ("swpb", BEGIN, arm(&[0xe141_0090]), UNDEFINED, 0, None),
        ("swpne, not taken", equal, arm(&[0x1101_0090, SVC]), CALLED, 8, None),
        ("wfe and yield", BEGIN, arm(&[0xe320_f002, 0xe320_f001, SVC]), CALLED, 12, None),
        ("a step", stepped, arm(&[0xe3a0_0001, SVC]), 0xcb00_0022, 4, None),
        ("a step that has been made", pending, arm(&[0xe3a0_0001, SVC]), 0xca00_0022, 0, None),
        ("a step of svc", stepped, arm(&[SVC]), CALLED, 4, None),
    ]
}

/// BY-3, C7: each exception of a 32-bit program reaches its own vector with the syndrome of the manual. The program's mode
/// and masks do not change, and it has no registers other than R0 to R14.
#[test]
fn exceptions_of_32_bit_programs_are_those_of_the_manual() {
    let mut wrong = Vec::new();
    for (what, begin, code, syndrome, offset, fault_address) in cases() {
        let mut bare = machine();
        let Some(seen) = run(&mut bare, &begin, &code) else {
            wrong.push(format!("{what}: no exception"));
            continue;
        };
        let status = seen.status & !FLAGS & !(0x0600_fc00) & !(0xf << 16);
        let calls = bare.machine().happenings().iter().filter(|event| matches!(event.what, What::SystemCall)).count();
        let is_right = seen.syndrome == syndrome
            && seen.at == CODE.wrapping_add(offset)
            && fault_address.is_none_or(|address| seen.fault_address == address)
            && status == begin.status & !FLAGS & !STEP
            && seen.x[13] == STACK
            && seen.x.iter().all(|value| *value >> 32 == 0)
            && calls == usize::from(syndrome >> 26 == 0x11);
        if !is_right {
            wrong.push(format!("{what}: {calls} system calls, {seen:x?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// BY-3: the state of an IT block is in the saved status, and a return continues within the block.
#[test]
fn an_it_block_continues_where_it_was_left() {
    let mut bare = machine();
    let begin = Begin { status: USER | THUMB | ZERO, ..BEGIN };
    // itt eq; moveq r0, #1; ldreq r0, [r2]
    let code = thumb(&[0xbf04, 0x2001, 0x6810, 0xdf00]);
    let seen = run(&mut bare, &begin, &code).expect("the load faults");
    assert_eq!((seen.at, seen.status, seen.x[0]), (CODE + 4, USER | THUMB | ZERO | 2 << 10, 1));
    // Back at the load with its condition met, or not.
    let again = Begin { status: seen.status, at: CODE + 4, ..BEGIN };
    let seen = run(&mut bare, &again, &code[4..]).expect("the load faults again");
    assert_eq!((seen.at, seen.syndrome), (CODE + 4, 0x9200_0006));
    let passes = Begin { status: USER | THUMB | 2 << 10, at: CODE + 4, ..BEGIN };
    let seen = run(&mut bare, &passes, &code[4..]).expect("a system call");
    assert_eq!((seen.at, seen.syndrome, seen.status), (CODE + 8, 0x4400_0000, USER | THUMB));
}

/// BY-3: the byte order of data is the program's own and returns with it.
#[test]
fn a_program_changes_the_byte_order_of_its_data() {
    let mut bare = machine();
    // setend be; ldr r0, [r1]; svc
    let seen = run(&mut bare, &BEGIN, &arm(&[0xf101_0200, 0xe591_0000, SVC])).expect("a system call");
    assert_eq!((seen.status, seen.x[0]), (USER | BIG, 0x0102_0304));
    let again = Begin { status: seen.status, ..BEGIN };
    let seen = run(&mut bare, &again, &arm(&[0xe591_0000, 0xf101_0000, 0xe591_5000, SVC])).expect("a system call");
    assert_eq!((seen.status, seen.x[0], seen.x[5]), (USER, 0x0102_0304, 0x0403_0201));
}

/// BY-3: flags, Q and GE are saved and restored, and the timer that the program reads is the guest's.
#[test]
fn the_status_of_a_program_survives_an_exception() {
    let mut bare = machine();
    let set = 0xf80a_0010;
    let begin = Begin { status: set, ..BEGIN };
    assert_eq!(run(&mut bare, &begin, &arm(&[SVC])).map(|seen| seen.status), Some(set));
    // mrrc r5, r6 of CNTVCT; mrc r7 of CNTFRQ; mrrc r8, r9 of CNTVCT; svc
    let begin = Begin { timer: 3, ..BEGIN };
    let seen = run(&mut bare, &begin, &arm(&[0xec56_5f1e, 0xee1e_7f10, 0xec59_8f1e, SVC])).expect("a system call");
    let (first, second) = (seen.x[5] | seen.x[6] << 32, seen.x[8] | seen.x[9] << 32);
    assert_eq!(seen.x[7], 1_000_000_000);
    assert!(first < second && second - first < 1_000 && second <= bare.machine().now(), "{first} {second}");
}

/// C7: arbitrary words as A32 and as T32 code. A program ends in its own vector or not at all, and the kernel has no exception.
#[test]
fn no_word_leads_out_of_a_32_bit_program() {
    const WORDS: u32 = 2_000;
    let (mut bare, mut ends, mut state) = (machine(), [0u32; 64], 0x9e37_79b9_7f4a_7c15u64);
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    for number in 0..WORDS {
        // Every other word is unconditional code of A32.
        let word = match number % 4 {
            0 => next() | 0xf000_0000,
            1 => next() & 0x0fff_ffff | 0xe000_0000,
            _ => next(),
        };
        let status = USER | (u64::from(number & 1) * THUMB) | (u64::from(next()) & 0xf80f_0000);
        let begin = Begin { status, ..BEGIN };
        let from = bare.machine().happenings().len();
        // svc and udf behind it
        let seen = run(&mut bare, &begin, &arm(&[word, SVC, 0xe7f0_00f0]));
        let what = format!("{word:#010x} with status {status:#x}");
        // The vector itself waits behind its last instruction.
        let of_program = bare.machine().happenings().iter().skip(from).filter(|event| event.pc & 0xfff != 0x60c);
        for event in of_program {
            assert!(event.pc < 1 << 32, "{what}: {event:x?}");
        }
        match seen {
            Some(seen) => {
                // User mode, and no exception is masked.
                assert_eq!(seen.status & 0x1df, USER, "{what}: {seen:x?}");
                ends[(seen.syndrome >> 26) as usize] += 1;
            }
            // It waits or loops.
            None => bare = machine(),
        }
    }
    println!("{ends:?}");
    assert!(ends[0] > 300 && ends[0x11] > 150 && ends[0x24] > 200 && ends[0x20] > 20, "{ends:?}");
}
