//! Proves, once per process, the offsets and private functions that are used on z/Architecture cores, and that the
//! instructions that Unicorn does not execute arrive here.

use super::core::CORE;
use super::state::{
    self, CALL_LENGTH, CALL_NUMBER, CONTROL, EXECUTED, HOME, PREFIX, PROBLEM, PROGRAM_CODE, PROGRAM_LENGTH, TRANSLATES, WIDE,
};
use super::trap::{PROGRAM, SYSTEM_CALL};
use super::window::{SET_PREFIX, TRANSLATION};
use crate::unicorn::cpus::s390::LEFT_TO_US;
use crate::unicorn::engine::Core;
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterS390X;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

// Program interruptions.
const OPERATION: u32 = 1;
const PRIVILEGED: u32 = 2;
const SEGMENT: u32 = 0x10;

/// The register number by which the board learns of control register 0 (`translator/loop.c`).
const CONTROL_0: u32 = 0xb700;

const CODE: u64 = 0x1_0000;
const SEGMENTS: u64 = 0x2_4000;
const PAGES: u64 = 0x2_0000;
const TABLE_LENGTH: u64 = 3;
const INVALID: u64 = 0x20;

/// `aghi %r1,1`, `aghi %r2,1`, and the breakpoint that ends each test program.
const ADD_1: [u8; 4] = [0xa7, 0x1b, 0, 1];
const ADD_2: [u8; 4] = [0xa7, 0x2b, 0, 1];
const END: [u8; 2] = [0, 2];

struct Bench {
    ram: Ram,
    core: Core<RecordingEvents>,
    /// The register that the last run wrote to the board, with its value.
    written: Option<(u32, u64)>,
}

impl Bench {
    fn new() -> Result<Bench, String> {
        let ram = Ram::at(0, 4 << 20, ByteOrder::Big).ok_or("the host has no memory for the self-check")?;
        let core = Core::new(&CORE, &ram)?;
        Ok(Bench { ram, core, written: None })
    }

    /// Runs code, followed by the breakpoint, with this PSW mask up to the first exception. Returns its number and pc.
    fn run(&mut self, mask: u64, code: &[&[u8]]) -> Option<(Option<u32>, u64)> {
        let bytes = [&code.concat()[..], &END].concat();
        self.put(CODE, &bytes);
        self.again(mask)
    }

    /// Overwrites code and drops its translation blocks.
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.ram.write(at, bytes);
    }

    /// Runs the code that is there again.
    fn again(&mut self, mask: u64) -> Option<(Option<u32>, u64)> {
        self.again_at(CODE, mask)
    }

    fn again_at(&mut self, at: u64, mask: u64) -> Option<(Option<u32>, u64)> {
        let cpu = self.core.stopped();
        cpu.write(RegisterS390X::PSWM, mask);
        cpu.set_pc(at);
        let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
        self.core.run(&mut events);
        self.written = events.written;
        events.last
    }

    fn general(&self, number: u8) -> u64 {
        self.core.handle().general(number).unwrap_or(0)
    }

    fn set_general(&self, register: RegisterS390X, value: u64) {
        self.core.stopped().write(register, value);
    }

    /// The last program interruption, and the length of its instruction.
    fn program(&self) -> (u32, u32) {
        (self.core.handle().live32(PROGRAM_CODE), self.core.handle().live32(PROGRAM_LENGTH))
    }
}

fn check() -> Result<(), String> {
    let mut bench = Bench::new()?;
    state::self_check(&bench.core.stopped()).map_err(unfit)?;
    let sums = |bench: &Bench| (bench.general(1), bench.general(2));
    for register in [RegisterS390X::R1, RegisterS390X::R2] {
        bench.set_general(register, 0);
    }

    // Overwrites code that has run. The core must see the new code after the drop.
    let first = bench.run(WIDE, &[&ADD_1]);
    let seen = sums(&bench);
    bench.run(WIDE, &[&ADD_2]);
    if (first, seen, sums(&bench)) != (Some((Some(PROGRAM), CODE + 4)), (1, 0), (1, 1)) {
        return Err(unfit("dropping translated code"));
    }
    if bench.program() != (OPERATION, 2) {
        return Err(unfit("how a breakpoint arrives"));
    }
    // Self-modifying code: st %r4,0(%r5); st %r6,4(%r5); basr %r14,%r5; st %r7,0(%r5); basr %r14,%r5.
    for (register, value) in [
        (RegisterS390X::R4, u32::from_be_bytes(ADD_1).into()),
        (RegisterS390X::R5, CODE + 0x1000),
        (RegisterS390X::R6, 0x07fe_0000),
        (RegisterS390X::R7, u32::from_be_bytes(ADD_2).into()),
    ] {
        bench.set_general(register, value);
    }
    let call: [u8; 2] = [0x0d, 0xe5];
    bench.run(WIDE, &[&[0x50, 0x40, 0x50, 0], &[0x50, 0x60, 0x50, 4], &call, &[0x50, 0x70, 0x50, 0], &call]);
    if sums(&bench) != (2, 2) {
        return Err(unfit("stores over translated code"));
    }
    check_refused(&mut bench)?;
    // svc 66
    let last = bench.run(WIDE, &[&[0x0a, 0x42]]);
    let call = (bench.core.handle().live32(CALL_NUMBER), bench.core.handle().live32(CALL_LENGTH));
    if (last, call) != (Some((Some(SYSTEM_CALL), CODE)), (0x42, 2)) {
        return Err(unfit("how a system call arrives"));
    }
    check_prefix(&mut bench)?;
    check_translation(&mut bench)?;
    check_left_to_us(&mut bench)?;
    check_executed(&mut bench)?;
    check_control(&mut bench)?;
    check_low_protection(&mut bench)?;
    // aghi %r1,1; j back.
    bench.ram.write(CODE, &[ADD_1, [0xa7, 0xf4, 0xff, 0xfe]].concat());
    bench.core.stopped().write(RegisterS390X::PSWM, WIDE);
    bench.core.stopped().set_pc(CODE);
    bench.set_general(RegisterS390X::R1, 0);
    line::self_check(&mut bench.core, CODE, 8, |cpu| cpu.read(RegisterS390X::R1))
}

/// An instruction that ends its block by an exception belongs to the block: a breakpoint, or a privileged instruction
/// in a user program. If the guest or the host overwrites it, the block must be dropped.
fn check_refused(bench: &mut Bench) -> Result<(), String> {
    const SPX: [u8; 4] = [0xb2, 0x10, 0x30, 0];
    // st %r4,4(%r5); br %r14; their target is aghi %r1,1 and the instruction under test.
    let overwrites: [&[u8]; 2] = [&[0x50, 0x40, 0x50, 0x04], &[0x07, 0xfe]];
    for (refused, mask) in [(&END[..], WIDE), (&SPX[..], WIDE | PROBLEM)] {
        for guest_writes in [false, true] {
            bench.set_general(RegisterS390X::R1, 0);
            bench.set_general(RegisterS390X::R2, 0);
            let first = bench.run(mask, &[&ADD_1, refused]);
            let rest = [&ADD_2[..], &END].concat();
            if guest_writes {
                bench.put(CODE + 8, &END);
                bench.put(CODE + 0x1000, &overwrites.concat());
                bench.set_general(RegisterS390X::R4, u32::from_be_bytes(ADD_2).into());
                bench.set_general(RegisterS390X::R5, CODE);
                bench.set_general(RegisterS390X::R14, CODE);
                bench.again_at(CODE + 0x1000, mask);
            } else {
                bench.ram.write(CODE + 6, &rest[2..]);
                bench.put(CODE + 4, &rest[..2]);
                bench.again(mask);
            }
            let sums = (bench.general(1), bench.general(2));
            if (first.map(|(_, at)| at), sums) != (Some(CODE + 4), (2, 1)) {
                return Err(unfit("that what is refused is a part of its block"));
            }
        }
    }
    Ok(())
}

/// Sets the prefix to 0x2000 by spx 0(%r3), and checks its offset and that of EXECUTE's pending target.
fn check_prefix(bench: &mut Bench) -> Result<(), String> {
    bench.ram.write(0x3000, &0x2000_u32.to_be_bytes());
    bench.set_general(RegisterS390X::R3, 0x3000);
    bench.run(WIDE, &[&[0xb2, 0x10, 0x30, 0]]);
    let seen = bench.core.handle().live64(PREFIX);
    bench.core.stopped().set_live64(PREFIX, 0);
    bench.core.flush_tlb();
    if (seen, bench.core.handle().live64(EXECUTED)) != (0x2000, 0) {
        return Err(unfit("where the prefix is kept"));
    }
    if bench.written != Some((SET_PREFIX, 0x2000)) {
        return Err(unfit("that the machine is told when the lowcore moves"));
    }
    Ok(())
}

/// The home space maps the first MiB identically, and nothing behind it.
fn check_translation(bench: &mut Bench) -> Result<(), String> {
    const READ: u64 = 0x3_1238;
    const WRITTEN: u64 = 0x3_3450;
    const NEITHER: u64 = 0x3_5000;
    const NOWHERE: u64 = 0x10_0000;
    for page in 0..256 {
        bench.ram.write(PAGES + 8 * page, &(page << 12).to_be_bytes());
    }
    for segment in 0..2048 {
        let entry = if segment == 0 { PAGES } else { INVALID };
        bench.ram.write(SEGMENTS + 8 * segment, &entry.to_be_bytes());
    }
    bench.core.stopped().set_live64(CONTROL + 8 * 13, SEGMENTS | TABLE_LENGTH);
    bench.core.flush_tlb();
    for (register, address) in [(RegisterS390X::R8, READ), (RegisterS390X::R9, WRITTEN), (RegisterS390X::R10, NOWHERE)] {
        bench.set_general(register, address);
    }
    // stg %r1,0(%r9); lg %r0,0(%r8); lg %r0,0(%r10).
    let load = |base: u8| [0xe3, 0, base << 4, 0, 0, 0x04];
    let last = bench.run(TRANSLATES | HOME | WIDE, &[&[0xe3, 0x10, 0x90, 0, 0, 0x24], &load(8), &load(10)]);
    if (last, bench.program()) != (Some((Some(PROGRAM), CODE + 12)), (SEGMENT, 6)) {
        return Err(unfit("how a fault of memory arrives"));
    }
    if bench.ram.word64(TRANSLATION) >> 12 != NOWHERE >> 12 {
        return Err(unfit("where the address of a fault is kept"));
    }
    let core = &bench.core;
    let find = |at, write| core.handle().cached_physical(&bench.ram, at, 8, write);
    let shown = [READ, WRITTEN, NEITHER].map(|at| [false, true].map(|write| find(at, write)));
    core.flush_tlb();
    let forgotten = find(WRITTEN, true);
    if shown[0][0] != Some(READ) || shown[1][1] != Some(WRITTEN) || shown[2] != [None; 2] || forgotten.is_some() {
        return Err(unfit("where the core has last found a page"));
    }
    Ok(())
}

/// Instructions that Unicorn must leave to the machine, and whether user programs may execute them.
#[rustfmt::skip]
const LEFT: &[(&[u8], bool)] = &[
    (&[0x82, 0, 0x30, 0],       false), // lpsw
    (&[0x83, 0x12, 0, 0x44],    false), // diag
    (&[0xae, 0x12, 0x30, 0],    false), // sigp
    (&[0xb2, 0x02, 0x30, 0],    false), // stidp
    (&[0xb2, 0x04, 0x30, 0],    false), // sck
    (&[0xb2, 0x05, 0x30, 0],    true),  // stck
    (&[0xb2, 0x06, 0x30, 0],    false), // sckc
    (&[0xb2, 0x07, 0x30, 0],    false), // stckc
    (&[0xb2, 0x08, 0x30, 0],    false), // spt
    (&[0xb2, 0x09, 0x30, 0],    false), // stpt
    (&[0xb2, 0x12, 0x30, 0],    false), // stap
    (&[0xb2, 0x20, 0x00, 0x12], false), // servc
    (&[0xb2, 0x30, 0x00, 0x00], false), // csch
    (&[0xb2, 0x31, 0x00, 0x00], false), // hsch
    (&[0xb2, 0x32, 0x30, 0],    false), // msch
    (&[0xb2, 0x33, 0x30, 0],    false), // ssch
    (&[0xb2, 0x34, 0x30, 0],    false), // stsch
    (&[0xb2, 0x35, 0x30, 0],    false), // tsch
    (&[0xb2, 0x36, 0x30, 0],    false), // tpi
    (&[0xb2, 0x37, 0x00, 0x00], false), // sal
    (&[0xb2, 0x38, 0x00, 0x00], false), // rsch
    (&[0xb2, 0x39, 0x30, 0],    false), // stcrw
    (&[0xb2, 0x3a, 0x30, 0],    false), // stcps
    (&[0xb2, 0x3b, 0x00, 0x00], false), // rchp
    (&[0xb2, 0x3c, 0x00, 0x00], false), // schm
    (&[0xb2, 0x5f, 0x00, 0x10], false), // chsc
    (&[0xb2, 0x76, 0x00, 0x00], false), // xsch
    (&[0xb2, 0x78, 0x30, 0],    true),  // stcke
    (&[0xb2, 0x7c, 0x30, 0],    true),  // stckf
    (&[0xb2, 0x7d, 0x30, 0],    false), // stsi
    (&[0xb2, 0xb0, 0x30, 0],    true),  // stfle
    (&[0xb2, 0xb1, 0x30, 0],    false), // stfl
    (&[0xb2, 0xb2, 0x30, 0],    false), // lpswe
    (&[0xc8, 0x01, 0x30, 0, 0x30, 0], true), // ectg
];

/// Each instruction must arrive with the pc at itself, with nothing executed, both first in a block and after an
/// instruction whose condition code is computed lazily. User programs must get an exception for privileged ones.
fn check_left_to_us(bench: &mut Bench) -> Result<(), String> {
    const COMPARE: [u8; 4] = [0xa7, 0x1e, 0, 0]; // chi %r1,0
    for (bytes, is_anyones) in LEFT {
        let name = || unfit(&format!("that {bytes:02x?} is left to us"));
        for (first, cc) in [(1, 2), (0, 0), (u64::MAX, 1)] {
            bench.set_general(RegisterS390X::R1, first);
            bench.ram.write(0x3000, &[0x5a; 16]);
            let last = bench.run(WIDE, &[&COMPARE, bytes]);
            let condition = state::condition(&bench.core.handle());
            let mut operand = [0; 16];
            bench.ram.read(0x3000, &mut operand);
            if (last, condition, operand) != (Some((Some(LEFT_TO_US), CODE + 4)), cc, [0x5a; 16]) {
                return Err(name());
            }
        }
        if bench.run(WIDE, &[bytes]) != Some((Some(LEFT_TO_US), CODE)) {
            return Err(name());
        }
        let last = bench.run(WIDE | PROBLEM, &[bytes]);
        let refused = last == Some((Some(PROGRAM), CODE)) && bench.program().0 == PRIVILEGED;
        if !(if *is_anyones { last == Some((Some(LEFT_TO_US), CODE)) } else { refused }) {
            return Err(name());
        }
    }
    Ok(())
}

/// An instruction executed by EXECUTE is left to the machine as well: the pc is EXECUTE's, and the instruction is in
/// the state.
fn check_executed(bench: &mut Bench) -> Result<(), String> {
    const TARGET: u64 = 0x3_8000;
    const STCK: [u8; 4] = [0xb2, 0x05, 0x30, 0];
    bench.ram.write(TARGET, &STCK);
    bench.set_general(RegisterS390X::R5, TARGET);
    // ex %r0,0(%r5)
    let last = bench.run(WIDE, &[&ADD_1, &[0x44, 0, 0x50, 0]]);
    let executed = bench.core.handle().live64(EXECUTED);
    bench.core.stopped().set_live64(EXECUTED, 0);
    let expected = u64::from(u32::from_be_bytes(STCK)) << 32 | 4;
    if (last, executed) != (Some((Some(LEFT_TO_US), CODE + 4)), expected) {
        return Err(unfit("how what EXECUTE executes is left to us"));
    }
    Ok(())
}

/// Loads of control register 0 must be reported to the board, and no other instruction.
fn check_control(bench: &mut Bench) -> Result<(), String> {
    const PLACE: u64 = 0x3_9000;
    let before = bench.core.handle().live64(CONTROL);
    bench.set_general(RegisterS390X::R3, PLACE);
    for register in 0..16 {
        bench.ram.write(PLACE + 8 * register, &before.to_be_bytes());
    }
    let low = before & !0xffff_ffff | before >> 32;
    #[rustfmt::skip]
    let cases: [(&str, &[u8], Option<u64>); 5] = [
        ("lctlg %c0,%c0",   &[0xeb, 0x00, 0x30, 0, 0, 0x2f], Some(before)),
        ("lctlg %c12,%c2",  &[0xeb, 0xc2, 0x30, 0, 0, 0x2f], Some(before)),
        ("stctg %c0,%c0",   &[0xeb, 0x00, 0x30, 0, 0, 0x25], None),
        ("lctlg %c2,%c3",   &[0xeb, 0x23, 0x30, 0, 0, 0x2f], None),
        ("lctl %c0,%c0",    &[0xb7, 0x00, 0x30, 0],          Some(low)),
    ];
    for (name, code, expected) in cases {
        bench.run(WIDE, &[code]);
        if bench.written != expected.map(|value| (CONTROL_0, value)) {
            return Err(unfit(&format!("that the board is told of control register 0 ({name})")));
        }
    }
    bench.core.stopped().set_live64(CONTROL, before);
    Ok(())
}

/// Low-address protection covers the first 512 bytes of the first two pages, and no other bytes.
fn check_low_protection(bench: &mut Bench) -> Result<(), String> {
    const PROTECTION: u32 = 4;
    const PROTECTS: u64 = 1 << 28;
    let before = bench.core.handle().live64(CONTROL);
    bench.core.stopped().set_live64(CONTROL, before | PROTECTS);
    for (place, is_refused) in [(0x3ac, false), (0x1f8, true), (0x1fc, true), (0x200, false), (0x13fc, false), (0x11fe, true)] {
        bench.core.flush_tlb();
        bench.set_general(RegisterS390X::R5, place);
        // stg %r1,0(%r5)
        let last = bench.run(WIDE, &[&[0xe3, 0x10, 0x50, 0, 0, 0x24]]);
        let refused = last == Some((Some(PROGRAM), CODE)) && bench.program().0 == PROTECTION;
        if refused != is_refused {
            return Err(unfit(&format!("the protection of the lowest bytes at {place:#x}")));
        }
    }
    bench.core.stopped().set_live64(CONTROL, before);
    bench.core.flush_tlb();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::s390::trap::RECORDED;
    use trapline_isa::regs::Reg;
    use trapline_isa::s390::abi;

    /// The condition code as set by code rather than by a write of the PSW.
    #[test]
    fn registers_read_in_place_equal_the_librarys() {
        self_check().unwrap();
        let mut bench = Bench::new().unwrap();
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], [u64; 5])] = &[
            ("cr %r1,%r2",   &[0x19, 0x12],             [0, 1, 0x8000_0000, 0xffff_ffff, 5]),
            ("clgr %r1,%r2", &[0xb9, 0x21, 0, 0x12],    [0, 1, 1 << 63, u64::MAX, 5]),
            ("agr %r1,%r2",  &[0xb9, 0x08, 0, 0x12],    [0, 1, 1 << 63, u64::MAX, 5]),
            ("slgr %r1,%r2", &[0xb9, 0x0b, 0, 0x12],    [0, 1, 1 << 63, u64::MAX, 5]),
            ("ngr %r1,%r2",  &[0xb9, 0x80, 0, 0x12],    [0, 1, 1 << 63, u64::MAX, 5]),
            ("tmll %r1,5",   &[0xa7, 0x11, 0, 5],       [0, 1, 4, u64::MAX, 5]),
        ];
        let mut seen = [false; 4];
        for (what, bytes, values) in cases {
            for (one, other) in values.iter().flat_map(|one| values.map(|other| (*one, other))) {
                bench.set_general(RegisterS390X::R1, one);
                bench.set_general(RegisterS390X::R2, other);
                let last = bench.run(WIDE, &[bytes]);
                assert_eq!(last, Some((Some(PROGRAM), CODE + bytes.len() as u64)), "{what}");
                let handle = bench.core.handle();
                let condition = state::get(&handle, abi::CC, 0);
                assert_eq!(condition, handle.read(RegisterS390X::PSWM) >> 44 & 3, "{what} of {one:#x} and {other:#x}");
                assert_eq!(state::get(&handle, abi::MASK, 0), WIDE, "{what}");
                assert_eq!(state::get(&handle, Reg(2), 0), other, "{what}");
                seen[condition as usize] = true;
            }
        }
        assert_eq!(seen, [true; 4], "each condition code was seen");
    }

    /// Single-step (PER): the exception comes after the instruction, also after a branch, with its condition code.
    #[test]
    fn a_per_event_follows_its_instruction_with_the_condition_code() {
        self_check().unwrap();
        let mut bench = Bench::new().unwrap();
        for (number, value) in [(9, 1 << 30), (10, CODE), (11, CODE + 0xff)] {
            bench.core.stopped().set_live64(CONTROL + 8 * number, value);
        }
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], u64, u64)] = &[
            ("cr %r1,%r2",   &[0x19, 0x12],             2,      2),
            ("tmll %r1,5",   &[0xa7, 0x11, 0, 5],       4,      3),
            ("aghi %r1,-5",  &[0xa7, 0x1b, 0xff, 0xfb], 4,      0),
            ("lghi %r1,0",   &[0xa7, 0x19, 0, 0],       4,      2),
            ("brasl",        &[0xc0, 0xe5, 0, 0, 0, 8], 16,     2),
            ("j",            &[0xa7, 0xf4, 0, 8],       16,     2),
            ("br %r3",       &[0x07, 0xf3],             0x40,   2),
        ];
        for (what, bytes, next, cc) in cases {
            for (register, value) in [(RegisterS390X::R1, 5), (RegisterS390X::R2, 4), (RegisterS390X::R3, CODE + 0x40)] {
                bench.set_general(register, value);
            }
            let last = bench.run(WIDE | state::RECORDS | 2 << 44, &[bytes]);
            let handle = bench.core.handle();
            let recorded = handle.live64(state::RECORDED_ADDRESS);
            assert_eq!((last, bench.program().0), (Some((Some(PROGRAM), CODE + next)), RECORDED), "{what}");
            assert_eq!((state::condition(&handle), recorded), (*cc, CODE), "{what}");
            bench.core.stopped().set_live32(state::RECORDED, 0);
        }
    }

    /// 32-bit instructions keep the upper half of their register, in short and in long blocks.
    #[test]
    fn the_upper_half_is_left_alone() {
        self_check().unwrap();
        let mut bench = Bench::new().unwrap();
        // lr, ar, sr, nr, or, xr.
        type Does = fn(u32, u32) -> u32;
        let operations: [(u8, Does); 6] = [
            (0x18, |_, other| other),
            (0x1a, u32::wrapping_add),
            (0x1b, u32::wrapping_sub),
            (0x14, |one, other| one & other),
            (0x16, |one, other| one | other),
            (0x17, |one, other| one ^ other),
        ];
        let registers = [RegisterS390X::R0, RegisterS390X::R1, RegisterS390X::R2, RegisterS390X::R3];
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            random >> 24
        };
        for length in (1..40).chain([200]) {
            let mut expected = [0; 4].map(|_: u64| next() << 32 ^ next());
            for (register, value) in registers.into_iter().zip(expected) {
                bench.set_general(register, value);
            }
            let mut code = Vec::new();
            for _ in 0..length {
                let (operation, does) = operations[next() as usize % 6];
                let (one, other) = (next() as usize % 4, next() as usize % 4);
                code.extend([operation, (one << 4 | other) as u8]);
                let lower = does(expected[one] as u32, expected[other] as u32);
                expected[one] = expected[one] & !0xffff_ffff | u64::from(lower);
            }
            bench.run(WIDE, &[&code]);
            assert_eq!([0, 1, 2, 3].map(|number| bench.general(number)), expected, "{code:02x?}");
        }
    }
}
