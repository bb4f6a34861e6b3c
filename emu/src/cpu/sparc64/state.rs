//! Registers in `isa`'s numbering, and their offsets in the core's state.
//!
//! Unicorn counts register windows downwards: `save` goes to the previous one, whose %i0-%i7 are this one's %o0-%o7. So
//! a window's registers are stored in the order %o, %l, %i.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_isa::arch::Isa;
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi::{self, BEHIND_CALL, BIAS, WINDOWS};

/// The number of global registers (%g0 to %g7), which come first in the state.
pub const GLOBALS: u8 = 8;
/// Offset of the pc. npc follows.
pub const PC: usize = 0x48;
const NPC: usize = PC + 8;
const Y: usize = 0x58;
const FSR: usize = 0x90;
/// Offset of the current register window's number, as Unicorn counts; 4 bytes.
pub const CWP: usize = 0x198;
/// Offset of TBA, the base of the trap table.
pub const TBA: usize = 0x1a0;
/// Offset of PIL: interrupts up to this level are masked; 4 bytes.
const PIL: usize = 0x1a8;
/// Offset of the register windows, 16 registers each. While the last window is current, its %i0-%i7 are stored behind
/// all windows.
pub const WINDOW: usize = 0x1b8;
const WINDOW_BYTES: usize = 128;
/// Offset of the LSU control register, which enables the MMUs.
pub const LSU: usize = 0x1208;
/// Offset of the data MMU's tag access register, which has the address of the last miss.
pub const DATA_ACCESS: usize = 0x12c0;
/// Offset of the instruction TLB, with entries like the data TLB's.
pub const FETCH_TLB: usize = 0x1310;
/// Offset of the data TLB: for each entry a tag with page and context, and the data.
pub const DATA_TLB: usize = 0x1710;
const ASI: usize = 0x1c44;
/// Offset of PSTATE; 4 bytes.
pub const PSTATE: usize = 0x1c48;
/// Offset of TL, the trap level; 4 bytes.
pub const TL: usize = 0x1c4c;
/// Offset of CANSAVE, the number of free register windows; 4 bytes, like the following.
pub const CANSAVE: usize = 0x1c54;
/// Offset of CANRESTORE, the number of windows that hold callers.
pub const CANRESTORE: usize = 0x1c58;
/// Offset of OTHERWIN, the number of windows of another address space.
pub const OTHERWIN: usize = 0x1c5c;
/// Offset of WSTATE, which selects the spill and fill handlers.
pub const WSTATE: usize = 0x1c60;
/// Offset of CLEANWIN, the number of windows without another address space's data.
pub const CLEANWIN: usize = 0x1c64;
const FPRS: usize = 0x1f68;
/// Offset of the trap levels' saved state, 32 bytes each: TPC, TNPC, TSTATE and TT.
const TRAPS: usize = 0x1b40;
const LEVELS: u32 = 5;

/// The offset of a trap level's saved state.
pub fn trap_place(level: u32) -> usize {
    TRAPS + 32 * level.min(LEVELS) as usize
}

/// The offsets of the return addresses of all trap levels.
pub fn returns() -> Vec<usize> {
    (1..=LEVELS).flat_map(|level| [trap_place(level), trap_place(level) + 8]).collect()
}

/// Interrupts are enabled.
const PSTATE_IE: u32 = 2;
/// Privileged mode.
const PSTATE_PRIV: u32 = 4;
/// The level of interrupts on a board without a controller.
pub const INTERRUPT_LEVEL: u32 = 14;

/// The current register window, as in CWP.
fn window(handle: &Handle) -> u64 {
    (WINDOWS - 1).wrapping_sub(handle.live32(CWP).into())
}

/// The offset of a register of the current window, from number 8 for %o0 on.
fn in_window(handle: &Handle, number: u8) -> usize {
    WINDOW + WINDOW_BYTES * handle.live32(CWP) as usize + 8 * usize::from(number - GLOBALS)
}

#[inline]
fn general(handle: &Handle, number: u8) -> u64 {
    if number < GLOBALS { handle.live64(8 * usize::from(number)) } else { handle.live64(in_window(handle, number)) }
}

/// The index among the registers of all windows, for a number in `isa`'s numbering.
fn in_all_windows(number: u8) -> Option<usize> {
    number.checked_sub(abi::FIRST_OF_WINDOWS).map(usize::from).filter(|number| *number < abi::WINDOW_REGISTERS)
}

/// The offset of that register. While the last window is current, the first eight registers are stored behind all
/// others.
fn place_of(handle: &Handle, number: usize) -> usize {
    let moved = number < 8 && u64::from(handle.live32(CWP)) == WINDOWS - 1;
    WINDOW + 8 * if moved { abi::WINDOW_REGISTERS + number } else { number }
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
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

/// A word of the 16 that a register window has on its stack, if that window has not been spilled.
pub fn held(handle: &Handle, address: u64) -> Option<u64> {
    const WINDOW_WORDS: u64 = 16 * 8;
    let current = u64::from(handle.live32(CWP));
    (0..=u64::from(handle.live32(CANRESTORE)).min(WINDOWS)).find_map(|back| {
        let (number, last) = ((current + back) % WINDOWS, WINDOWS - 1);
        let start = WINDOW + WINDOW_BYTES * number as usize;
        let sp = handle.live64(start + 8 * 6).wrapping_add(BIAS);
        let into = address.checked_sub(sp).filter(|into| *into < WINDOW_WORDS && into % 8 == 0)? as usize;
        // The %i registers are the next window's %o registers. Those of the last window are stored at the beginning,
        // unless it is current.
        let wraps = into >= 64 && number == last && current != last;
        Some(handle.live64(if wraps { WINDOW + into - 64 } else { start + 64 + into }))
    })
}

/// The value that a trap would save in TSTATE now.
fn tstate(handle: &Handle) -> u64 {
    let [asi, pstate] = [ASI, PSTATE].map(|at| u64::from(handle.live32(at)));
    handle.condition_codes() << 32 | (asi & 0xff) << 24 | (pstate & 0xf3f) << 8 | window(handle)
}

/// The npc that belongs to the core's pc.
pub fn next_pc(handle: &Handle) -> u64 {
    handle.live64(NPC)
}

/// Sets a register in `isa`'s numbering. TPC, TNPC and the saved TSTATE are not changed.
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

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(PC)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    are_off(image.get32(PSTATE), image.get32(PIL))
}

/// Whether the board's interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    are_off(handle.live32(PSTATE), handle.live32(PIL))
}

fn are_off(pstate: u32, level: u32) -> bool {
    pstate & PSTATE_IE == 0 || level >= INTERRUPT_LEVEL
}

/// Whether the CPU is in privileged mode.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live32(PSTATE) & PSTATE_PRIV != 0
}

/// Registers for a report about a dead guest.
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
    // The innermost trap level first.
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

/// The registers of core dumps: %g, %o, %l and %i, then TSTATE, pc, npc and Y.
pub fn core_layout(isa: &Isa) -> Layout {
    let general = (0..32).map(|number| Word::Of(abi::r(number)));
    Layout::words(isa, general.chain([Word::Of(abi::TSTATE), Word::Pc, Word::Of(abi::NPC), Word::Of(abi::Y)]), 0)
}
