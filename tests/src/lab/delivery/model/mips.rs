//! The expected state after an exception on MIPS32 and MIPS64, release 2, by volume III of the manual: Cause, EPC, Status,
//! and the registers that hold a faulting address.

use super::{Case, Changes, Numbers, RAISES, State, bit, registers, seen};
use crate::lab::mips::MAPPED;
use crate::lab::{DATA, DATA_BYTES, HANDLERS};
use trapline_isa::arch::Arch;
use trapline_isa::mips::abi::r;

// Bits of Status.
const COPROCESSOR_1: u64 = 1 << 29;
const COPROCESSOR_0: u64 = 1 << 28;
const EXTENDED: u64 = 0x80;
const LEVEL: u64 = 2;
const MASKS: u64 = 0xff00;
// Bits of the Cause register.
const DELAYED: u64 = 1 << 31;
const UNIT_BIT: u32 = 28;
const CODE: u64 = 0x7c;
const OWN_VECTOR: u64 = 1 << 23;
const BY_SOFTWARE: u64 = 0x300;

/// The kind of address error. The address is in a2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Nowhere,
    /// The exception sets BadVAddr only.
    Misaligned,
    /// The TLB has no entry for the address.
    Missed,
    /// The TLB has an entry for the address, but it is invalid or read-only.
    Refused,
}

#[derive(Clone, Copy)]
struct Raise {
    name: &'static str,
    word: u32,
    code: u64,
    at: Where,
    /// The coprocessor that is disabled.
    unit: Option<u64>,
    /// The instruction's displacement, which is added to a2.
    offset: u64,
    is_fetch: bool,
}

const RAISE: Raise = Raise { name: "", word: 0, code: 0, at: Where::Nowhere, unit: None, offset: 0, is_fetch: false };
const REFUSED: u64 = DATA_BYTES;

#[rustfmt::skip]
const RAISING: &[Raise] = &[
    Raise { name: "syscall",    word: 0x0000_000c, code: 8, ..RAISE },
    Raise { name: "break 7",    word: 0x0007_000d, code: 9, ..RAISE },
    Raise { name: "reserved",   word: 0x0000_0035, code: 10, ..RAISE },
    Raise { name: "monitor",    word: 0x0000_0185, code: 10, ..RAISE },
    Raise { name: "teq",        word: 0x0000_0034, code: 13, ..RAISE },
    Raise { name: "add",        word: 0x0085_1020, code: 12, ..RAISE },
    Raise { name: "add.s",      word: 0x4600_0000, code: 11, unit: Some(1), ..RAISE },
    Raise { name: "lw odd",     word: 0x8cc2_0001, code: 4, at: Where::Misaligned, offset: 1, ..RAISE },
    Raise { name: "sw odd",     word: 0xacc2_0002, code: 5, at: Where::Misaligned, offset: 2, ..RAISE },
    Raise { name: "lw missed",  word: 0x8cc2_0000, code: 2, at: Where::Missed, ..RAISE },
    Raise { name: "sb missed",  word: 0xa0c2_0000, code: 3, at: Where::Missed, ..RAISE },
    Raise { name: "sw clean",   word: 0xacc2_0000, code: 1, at: Where::Refused, ..RAISE },
    Raise { name: "lw invalid", word: 0x8cc2_1000, code: 2, at: Where::Refused, offset: 0x1000, ..RAISE },
    Raise { name: "sw invalid", word: 0xacc2_1000, code: 3, at: Where::Refused, offset: 0x1000, ..RAISE },
    Raise { name: "fetch odd",  code: 4, at: Where::Misaligned, is_fetch: true, ..RAISE },
    Raise { name: "fetch missed", code: 2, at: Where::Missed, is_fetch: true, ..RAISE },
];

/// Decodes a case.
pub fn case(arch: Arch, numbers: &mut Numbers<'_>) -> Case {
    let raise = numbers.pick(RAISING);
    let is_wide = matches!(arch, Arch::Mips64 | Arch::Mips64el);
    let base = match raise.at {
        Where::Missed => 0x1000_0000 + 0x2000 * numbers.below(64) as u64 + 4 * numbers.below(64) as u64,
        Where::Refused => seen(arch, MAPPED + REFUSED) + 4 * numbers.below(64) as u64,
        _ => seen(arch, DATA) + 4 * numbers.below(64) as u64,
    };
    let base = if raise.is_fetch && raise.at == Where::Misaligned { seen(arch, RAISES) + 2 } else { base };
    let bad = base + raise.offset;
    let unit_1 = if raise.unit == Some(1) { 0 } else { bit(numbers, COPROCESSOR_1) };
    // A 64-bit kernel has KX set. SX and UX are both set, or both clear.
    let extended = if is_wide { EXTENDED | bit(numbers, 0x60) } else { 0 };
    let status = COPROCESSOR_0 | unit_1 | extended | numbers.any() & MASKS | bit(numbers, LEVEL);
    let cause = bit(numbers, OWN_VECTOR) | numbers.any() & BY_SOFTWARE;
    let is_delayed = !raise.is_fetch && numbers.one_in(3);
    let words = |words: &[u32]| words.iter().flat_map(|word| arch.isa().order.word_bytes(*word)).collect::<Vec<u8>>();
    // mtc0 a0,Cause; mtc0 a1,EPC (dmtc0); mtc0 a2,EntryHi; mtc0 a3,Status; ehb; b itself; nop
    let wide = if is_wide { 0x0020_0000 } else { 0 };
    let front = words(&[0x4084_6800, 0x4085_7000 | wide, 0x4086_5000, 0x4087_6000, 0x0000_00c0, 0x1000_ffff, 0]);
    let entry = if raise.is_fetch { bad } else { seen(arch, RAISES) };
    let model = move |before: &State| {
        let mut changes = Changes::default();
        let was_there = before["status"] & LEVEL != 0;
        let mut after = before["cause"] & !CODE | raise.code << 2;
        if !was_there {
            changes.set("epc", entry);
            after = after & !DELAYED | if is_delayed { DELAYED } else { 0 };
        }
        if let Some(unit) = raise.unit {
            after = after & !(3 << UNIT_BIT) | unit << UNIT_BIT;
        }
        changes.set("cause", after);
        changes.set("status", before["status"] | LEVEL);
        if raise.at != Where::Nowhere {
            changes.set("badvaddr", bad);
        }
        if matches!(raise.at, Where::Missed | Where::Refused) {
            let page = if is_wide { bad & 0xc000_03ff_ffff_e000 } else { bad & 0xffff_e000 };
            changes.set("entryhi", before["entryhi"] & 0xff | page);
        }
        let is_user = bad >> 31 == 0;
        let refill = if is_wide && (!is_user || before["status"] & 0x20 != 0) { 0x80 } else { 0 };
        let offset = if raise.at == Where::Missed && !was_there { refill } else { 0x180 };
        changes.set("pc", seen(arch, HANDLERS) + offset);
        changes
    };
    let code = if is_delayed { words(&[0x1000_0001, raise.word]) } else { words(&[raise.word]) };
    let front_registers = vec![(r(4), cause), (r(5), numbers.any()), (r(6), numbers.below(256) as u64), (r(7), status)];
    let own = [(r(4), 0x7fff_ffff), (r(5), 0x7fff_ffff), (r(6), base)];
    Case {
        name: format!("{}, status {status:x}, cause {cause:x}, in a slot: {is_delayed}", raise.name),
        front,
        front_registers,
        registers: registers(arch, numbers, &own),
        memory: Vec::new(),
        code,
        entry,
        model: Box::new(model),
        written: None,
    }
}
