//! The model of SPARC V9 with the globals of UltraSPARC, after the manual's chapter on traps: the trap stack, the
//! state, the window.

use super::{Case, Changes, Numbers, RAISES, State, bit, registers, seen};
use crate::lab::DATA;
use trapline_isa::arch::Arch;
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi::{self, WINDOWS, r};

// Bits of PSTATE.
const ALTERNATE: u64 = 1;
const INTERRUPTS: u64 = 2;
const PRIVILEGED: u64 = 4;
const FLOATING: u64 = 0x10;
const TRAPS_LITTLE: u64 = 0x100;
const LITTLE: u64 = 0x200;
const OF_MMU: u64 = 0x400;

/// Conditions under which an instruction raises its trap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum If {
    Always,
    /// No TLB entry maps the address in %o1.
    Missed,
    Misaligned,
    FloatingOff,
    /// `Spills`: CANSAVE is 0. `Fills`: CANRESTORE is 0. `Unclean`: the next window must be cleaned.
    Spills,
    Fills,
    Unclean,
    Fetch,
    LevelZero,
}

#[rustfmt::skip]
const RAISING: &[(&str, u32, u64, If)] = &[
    ("ta",         0x91d0_2000, 0x100, If::Always),
    ("illtrap",    0x0000_0000, 0x10,  If::Always),
    ("sdivx",      0x936a_0000, 0x28,  If::Always),
    ("taddcctv",   0x8112_800b, 0x23,  If::Always),
    ("ldx odd",    0xd05a_6000, 0x34,  If::Misaligned),
    ("stx odd",    0xd072_6000, 0x34,  If::Misaligned),
    ("ldx missed", 0xd05a_6000, 0x68,  If::Missed),
    ("stx missed", 0xd072_6000, 0x68,  If::Missed),
    ("faddd",      0x89a0_0842, 0x20,  If::FloatingOff),
    ("save",       0x81e0_0000, 0x80,  If::Spills),
    ("flushw",     0x8158_0000, 0x80,  If::Spills),
    ("restore",    0x81e8_0000, 0xc0,  If::Fills),
    ("save",       0x81e0_0000, 0x24,  If::Unclean),
    ("a fetch",    0x0000_0000, 0x64,  If::Fetch),
    ("done",       0x81f0_0000, 0x10,  If::LevelZero),
];

/// Numbers of `ta` that trapline uses as breakpoints.
const OURS: [u64; 6] = [1, 0x70, 0x71, 0x78, 0x79, 0x7a];

const GLOBALS: [&str; 7] = ["g1", "g2", "g3", "g4", "g5", "g6", "g7"];
const OF_WINDOW: [&str; 24] = [
    "o0", "o1", "o2", "o3", "o4", "o5", "sp", "o7", "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "i0", "i1", "i2", "i3", "i4",
    "i5", "fp", "i7",
];
const STACKED: [[&str; 4]; 5] = [
    ["tpc1", "tnpc1", "tstate1", "tt1"],
    ["tpc2", "tnpc2", "tstate2", "tt2"],
    ["tpc3", "tnpc3", "tstate3", "tt3"],
    ["tpc4", "tnpc4", "tstate4", "tt4"],
    ["tpc5", "tnpc5", "tstate5", "tt5"],
];

/// The start value of a global register in the alternate or MMU bank.
fn banked(bank: u64, number: u64) -> u64 {
    (bank << 40) | (0x1111 * number)
}

/// The global registers of the alternate and the MMU bank. Each value contains its bank and its number. `saved` returns
/// a value of TSTATE with this PSTATE, which selects a bank.
fn in_banks(saved: impl Fn(u64) -> u64) -> Vec<(Reg, u64)> {
    let of = |bank| {
        let globals = (1..8).map(move |number: u8| (r(number), banked(bank, number.into())));
        [(abi::TSTATE, saved(PRIVILEGED | FLOATING | bank))].into_iter().chain(globals)
    };
    [ALTERNATE, OF_MMU].into_iter().flat_map(of).collect()
}

/// The number of a software trap that trapline does not use.
fn software_trap(numbers: &mut Numbers<'_>) -> u64 {
    loop {
        let number = numbers.below(0x80) as u64;
        if !OURS.contains(&number) {
            return number;
        }
    }
}

/// Decodes a case.
pub fn case(numbers: &mut Numbers<'_>) -> Case {
    let arch = Arch::Sparc64;
    let (name, word, trap, when) = numbers.pick(RAISING);
    let number = software_trap(numbers);
    let (word, trap) = if name == "ta" { (word | number as u32, trap + number) } else { (word, trap) };
    let most = WINDOWS - 2;
    let free = match when {
        If::Spills if name == "save" => 0,
        If::Spills => numbers.below(6) as u64,
        If::Unclean => 1 + numbers.below(6) as u64,
        _ => numbers.below(7) as u64,
    };
    let of_others = if numbers.one_in(2) { numbers.below((most - free) as usize + 1) as u64 } else { 0 };
    let (free, of_others) = if when == If::Fills { (most - of_others, of_others) } else { (free, of_others) };
    let filled = most - free - of_others;
    let clean = if when == If::Unclean { filled } else { WINDOWS - 1 };
    let wstate = numbers.below(64) as u64;
    let level = if when == If::LevelZero { 0 } else { numbers.below(4) as u64 };
    let floating = if when == If::FloatingOff { 0 } else { bit(numbers, FLOATING) };
    let state = PRIVILEGED | floating | bit(numbers, INTERRUPTS) | bit(numbers, TRAPS_LITTLE) | bit(numbers, LITTLE);
    let window = numbers.below(WINDOWS as usize) as u64;
    let drawn = numbers.any();
    let saved = |state: u64| (drawn & 0xff) << 32 | 0x80 << 24 | state << 8 | window;
    let address = match when {
        If::Missed | If::Fetch => seen(arch, 0x80_0000) + 8 * numbers.below(4096) as u64,
        If::Misaligned => seen(arch, DATA) + 4,
        _ => seen(arch, DATA),
    };
    let is_delayed = when != If::Fetch && numbers.one_in(3);
    let entry = if when == If::Fetch { address } else { seen(arch, RAISES) };
    // At the front: wrpr of %wstate, %otherwin and %cleanwin.
    let wrpr = |number: u32, from: u32| 0x8190_0000 | number << 25 | from << 14;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let front = words(&[wrpr(14, 1), wrpr(13, 2), wrpr(12, 3), 0x1080_0000, 0x0100_0000]);
    let mut own = in_banks(saved);
    own.push((abi::TSTATE, saved(state)));
    own.extend(registers(arch, numbers, &[]).into_iter().filter(|(reg, _)| reg.0 < 32));
    own.extend([(r(9), address), (r(10), 1), (r(11), 2)]);
    own.extend([(abi::TL, level), (abi::CANSAVE, free), (abi::CANRESTORE, filled), (abi::FPRS, 4)]);
    let model = move |before: &State| {
        let mut changes = Changes::default();
        let by_window = if of_others != 0 { 0x20 | (wstate & 0x38) >> 1 } else { (wstate & 7) << 2 };
        let trap = if matches!(trap, 0x80 | 0xc0) { trap | by_window } else { trap };
        let (pc, next) = if is_delayed { (entry + 4, entry + 12) } else { (entry, entry + 4) };
        let names = STACKED[level as usize];
        for (name, value) in names.into_iter().zip([pc, next, before["tstate"], trap]) {
            changes.set(name, value);
        }
        changes.set("tl", level + 1);
        let moved = match when {
            If::Spills => window + free + 2,
            If::Fills => window + WINDOWS - 1,
            If::Unclean => window + 1,
            _ => window,
        } % WINDOWS;
        if moved != window {
            changes.registers.extend(OF_WINDOW.map(|name| (name, None)));
        }
        let bank = if matches!(trap, 0x64 | 0x68) { OF_MMU } else { ALTERNATE };
        changes.registers.extend((1..).zip(GLOBALS).map(|(number, name)| (name, Some(banked(bank, number)))));
        let order = if state & TRAPS_LITTLE != 0 { TRAPS_LITTLE | LITTLE } else { 0 };
        let now = PRIVILEGED | FLOATING | order | bank;
        changes.set("tstate", before["tstate"] & !0xf_ff1f | now << 8 | moved);
        let vector = before["tba"] & !0x7fff | if level > 0 { 0x4000 } else { 0 } | trap << 5;
        changes.set("pc", vector);
        changes.set("npc", vector + 4);
        if when == If::Missed {
            changes.set("daccess", address & !0x1fff);
        }
        changes
    };
    Case {
        name: format!("{name} at level {level}, state {state:x}, windows {free} {filled} {of_others}, in a slot: {is_delayed}"),
        front,
        front_registers: vec![(r(1), wstate), (r(2), of_others), (r(3), clean)],
        registers: own,
        memory: Vec::new(),
        // ba to the third instruction
        code: if is_delayed { words(&[0x1080_0003, word]) } else { words(&[word]) },
        entry,
        model: Box::new(model),
        written: None,
    }
}
