//! Registers by the numbers of `isa`, and where they lie in the core's state.
//!
//! The library counts windows downwards: `save` goes to the one before, whose %i0-%i7 are this one's %o0-%o7, and so in
//! memory a window's registers stand in the order %o, %l, %i.

use crate::unicorn::engine::{Handle, TrapContext};
use crate::unicorn::surgery::CoreState;
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi::{self, BEHIND_CALL, BIAS, WINDOWS};

/// %g0 to %g7; they come first in the state.
pub const GLOBALS: u8 = 8;
/// The pc, and behind it npc.
pub const PC: usize = 0x48;
const NPC: usize = PC + 8;
const Y: usize = 0x58;
const FSR: usize = 0x90;
/// The window, by the library's own number; 4 bytes.
pub const CWP: usize = 0x198;
/// Where traps lead.
pub const TBA: usize = 0x1a0;
/// Interrupts up to this level are off; 4 bytes.
const PIL: usize = 0x1a8;
/// The windows, 16 registers each; the last one's %i0-%i7 stand behind them while it is the current one.
pub const WINDOW: usize = 0x1b8;
const WINDOW_BYTES: usize = 128;
/// Which MMUs are on.
pub const LSU: usize = 0x1208;
/// What the MMU of data was last asked for in vain.
pub const DATA_ACCESS: usize = 0x12c0;
/// The TLB of fetches, which has the same form.
pub const FETCH_TLB: usize = 0x1310;
/// Its TLB: for each entry its page and context, and what they lead to.
pub const DATA_TLB: usize = 0x1710;
const ASI: usize = 0x1c44;
/// The state of the CPU; 4 bytes.
pub const PSTATE: usize = 0x1c48;
/// The level of traps; 4 bytes.
pub const TL: usize = 0x1c4c;
/// How many windows are free; 4 bytes, as are the next ones.
pub const CANSAVE: usize = 0x1c54;
/// How many hold callers.
pub const CANRESTORE: usize = 0x1c58;
/// How many hold those of another space.
pub const OTHERWIN: usize = 0x1c5c;
/// Which handlers their exceptions have.
pub const WSTATE: usize = 0x1c60;
/// How many hold nothing of another space's.
pub const CLEANWIN: usize = 0x1c64;
const FPRS: usize = 0x1f68;
/// What each level of traps has saved, 32 bytes apart: the pc, npc, the state, and the number of the trap.
const TRAPS: usize = 0x1b40;
const LEVELS: u32 = 5;

/// Where the first of these lies, for that level.
pub fn trap_place(level: u32) -> usize {
    TRAPS + 32 * level.min(LEVELS) as usize
}

/// Where the addresses lie that they return to.
pub fn returns() -> Vec<usize> {
    (1..=LEVELS).flat_map(|level| [trap_place(level), trap_place(level) + 8]).collect()
}

/// Interrupts are let in.
const PSTATE_IE: u32 = 2;
/// Code of the kernel's privilege runs.
const PSTATE_PRIV: u32 = 4;
/// The level at which a board without a controller interrupts.
pub const INTERRUPT_LEVEL: u32 = 14;

/// The window of the CPU as its register says.
fn window(handle: &Handle) -> u64 {
    (WINDOWS - 1).wrapping_sub(handle.live32(CWP).into())
}

/// Where a register of the current window lies, from 8 for %o0 on.
fn in_window(handle: &Handle, number: u8) -> usize {
    WINDOW + WINDOW_BYTES * handle.live32(CWP) as usize + 8 * usize::from(number - GLOBALS)
}

#[inline]
fn general(handle: &Handle, number: u8) -> u64 {
    if number < GLOBALS { handle.live64(8 * usize::from(number)) } else { handle.live64(in_window(handle, number)) }
}

/// Which of all windows' registers it is, if it is one.
fn in_all_windows(number: u8) -> Option<usize> {
    number.checked_sub(abi::FIRST_OF_WINDOWS).map(usize::from).filter(|number| *number < abi::WINDOW_REGISTERS)
}

/// Where that one lies: while the last window is the current one, the first eight stand behind all others.
fn place_of(handle: &Handle, number: usize) -> usize {
    let moved = number < 8 && u64::from(handle.live32(CWP)) == WINDOWS - 1;
    WINDOW + 8 * if moved { abi::WINDOW_REGISTERS + number } else { number }
}

/// Reads a register of `isa`'s numbering; the pc is the one given.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    match reg {
        Reg(number) if number < 32 => general(handle, number),
        Reg(number) if in_all_windows(number).is_some() => {
            in_all_windows(number).map_or(0, |number| handle.live64(place_of(handle, number)))
        }
        abi::SP => general(handle, 14).wrapping_add(BIAS),
        abi::RA => general(handle, 15).wrapping_add(BEHIND_CALL),
        abi::NPC if handle.pc() == pc => handle.live64(NPC),
        abi::NPC => pc.wrapping_add(4),
        abi::CCR => handle.condition_codes(),
        abi::CANRESTORE => handle.live32(CANRESTORE).into(),
        abi::CANSAVE => handle.live32(CANSAVE).into(),
        abi::CWP => window(handle),
        abi::PC => pc,
        abi::Y => handle.live64(Y) & 0xffff_ffff,
        abi::TSTATE => tstate(handle),
        abi::FPRS => handle.live64(FPRS),
        abi::FSR => handle.live64(FSR),
        abi::TL => handle.live32(TL).into(),
        abi::TPC => handle.live64(trap_place(handle.live32(TL))),
        abi::TNPC => handle.live64(trap_place(handle.live32(TL)) + 8),
        abi::TRAPPED => handle.live64(trap_place(handle.live32(TL)) + 16),
        _ => 0,
    }
}

/// A word of the 16 that a window has at its stack, where that window is still in the CPU.
pub fn held(handle: &Handle, address: u64) -> Option<u64> {
    const WINDOW_WORDS: u64 = 16 * 8;
    let current = u64::from(handle.live32(CWP));
    (0..=u64::from(handle.live32(CANRESTORE)).min(WINDOWS)).find_map(|back| {
        let (number, last) = ((current + back) % WINDOWS, WINDOWS - 1);
        let start = WINDOW + WINDOW_BYTES * number as usize;
        let sp = handle.live64(start + 8 * 6).wrapping_add(BIAS);
        let into = address.checked_sub(sp).filter(|into| *into < WINDOW_WORDS && into % 8 == 0)? as usize;
        // Those that are the next window's too stand at the beginning again, unless the last one is the current.
        let wraps = into >= 64 && number == last && current != last;
        Some(handle.live64(if wraps { WINDOW + into - 64 } else { start + 64 + into }))
    })
}

/// What a trap would save now.
fn tstate(handle: &Handle) -> u64 {
    let [asi, pstate] = [ASI, PSTATE].map(|at| u64::from(handle.live32(at)));
    handle.condition_codes() << 32 | (asi & 0xff) << 24 | (pstate & 0xf3f) << 8 | window(handle)
}

/// npc at the pc where the core stands.
pub fn next_pc(handle: &Handle) -> u64 {
    handle.live64(NPC)
}

/// Sets a register of `isa`'s numbering; what traps have saved not at all.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    let handle = cpu.handle();
    match reg {
        Reg(0) => {}
        Reg(number) if number < GLOBALS => cpu.set_live64(8 * usize::from(number), value),
        Reg(number) if number < 32 => cpu.set_live64(in_window(&handle, number), value),
        Reg(number) if in_all_windows(number).is_some() => {
            if let Some(number) = in_all_windows(number) {
                cpu.set_live64(place_of(&handle, number), value);
            }
        }
        abi::SP => cpu.set_live64(in_window(&handle, 14), value.wrapping_sub(BIAS)),
        abi::RA => cpu.set_live64(in_window(&handle, 15), value.wrapping_sub(BEHIND_CALL)),
        abi::CCR => cpu.set_condition_codes(value),
        abi::CANRESTORE => cpu.set_live32(CANRESTORE, value as u32),
        abi::CANSAVE => cpu.set_live32(CANSAVE, value as u32),
        abi::CWP => cpu.set_window(value),
        abi::Y => cpu.set_live64(Y, value & 0xffff_ffff),
        abi::TSTATE => cpu.set_trap_state(value),
        abi::TL => cpu.set_live32(TL, value.min(LEVELS.into()) as u32),
        abi::FPRS => cpu.set_live64(FPRS, value & 7),
        _ => {}
    }
}

/// The pc of a CPU that another one has displaced from the core.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether such a CPU has interrupts off.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    are_off(image.get32(PSTATE), image.get32(PIL))
}

/// Whether none of the board's is let in.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    are_off(handle.live32(PSTATE), handle.live32(PIL))
}

fn are_off(pstate: u32, level: u32) -> bool {
    pstate & PSTATE_IE == 0 || level >= INTERRUPT_LEVEL
}

/// Code of the kernel's privilege runs.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live32(PSTATE) & PSTATE_PRIV != 0
}

/// Everything that a person wants to see of a CPU that has died.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    const NAMES: [&str; 32] = [
        "g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7", "o0", "o1", "o2", "o3", "o4", "o5", "sp", "o7", "l0", "l1", "l2", "l3",
        "l4", "l5", "l6", "l7", "i0", "i1", "i2", "i3", "i4", "i5", "fp", "i7",
    ];
    let general = NAMES.iter().zip(0..).map(|(name, number)| (*name, general(handle, number)));
    let others = [
        ("pc", handle.pc()),
        ("npc", next_pc(handle)),
        ("y", handle.live64(Y) & 0xffff_ffff),
        ("tstate", tstate(handle)),
        ("pil", handle.live32(PIL).into()),
        ("fprs", handle.live64(FPRS)),
        ("fsr", handle.live64(FSR)),
        ("cansave", handle.live32(CANSAVE).into()),
        ("canrestore", handle.live32(CANRESTORE).into()),
        ("otherwin", handle.live32(OTHERWIN).into()),
        ("cleanwin", handle.live32(CLEANWIN).into()),
        ("wstate", handle.live32(WSTATE).into()),
        ("tba", handle.live64(TBA)),
        ("daccess", handle.live64(DATA_ACCESS)),
        ("tl", handle.live32(TL).into()),
    ];
    // The innermost first.
    const SAVED: [[&str; 4]; LEVELS as usize] = [
        ["tpc1", "tnpc1", "tstate1", "tt1"],
        ["tpc2", "tnpc2", "tstate2", "tt2"],
        ["tpc3", "tnpc3", "tstate3", "tt3"],
        ["tpc4", "tnpc4", "tstate4", "tt4"],
        ["tpc5", "tnpc5", "tstate5", "tt5"],
    ];
    let levels = (1..).zip(SAVED).take(handle.live32(TL) as usize).collect::<Vec<_>>();
    let saved = levels.into_iter().rev().flat_map(|(level, names)| {
        let at = trap_place(level);
        let [pc, next, state] = [0, 8, 16].map(|into| handle.live64(at + into));
        names.into_iter().zip([pc, next, state, handle.live32(at + 24).into()])
    });
    general.chain(others).chain(saved).collect()
}
