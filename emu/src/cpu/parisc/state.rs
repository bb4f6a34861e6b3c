//! Registers in `isa`'s numbering.

use crate::boards::bare::{BOARD_BIT, TIMER_BIT};
use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::parisc::at;
use crate::unicorn::engine::{Handle, TrapContext};
use trapline_core::parisc::{State, number, psw};
use trapline_isa::arch::Isa;
use trapline_isa::parisc::abi;
use trapline_isa::regs::Reg;

/// The cell of a register that is a plain field.
fn cell(state: &State, reg: Reg) -> Option<&std::cell::Cell<u32>> {
    Some(match reg {
        Reg(general @ 0..32) => &state.general[usize::from(general)],
        abi::NPC => &state.back,
        abi::SPACE => &state.front_space,
        abi::NEXT_SPACE => &state.back_space,
        abi::LEVEL => &state.front_level,
        abi::NEXT_LEVEL => &state.back_level,
        abi::SAR => &state.control[number::SAR],
        Reg(space @ 40..48) => &state.spaces[usize::from(space - 40)],
        abi::CR27 => &state.control[27],
        abi::CR30 => &state.control[30],
        abi::IIR => &state.control[number::IIR],
        abi::ISR => &state.control[number::ISR],
        abi::IOR => &state.control[number::IOR],
        abi::IPSW => &state.control[number::IPSW],
        abi::SAVED_PC => &state.control[number::IIAOQ],
        abi::SAVED_NPC => &state.saved_back[1],
        Reg(56) => &state.control[number::IIASQ],
        Reg(57) => &state.saved_back[0],
        Reg(shadow @ 58..65) => &state.shadows[usize::from(shadow - 58)],
        _ => return None,
    })
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    let Some(state) = handle.parisc() else { return 0 };
    match reg {
        abi::PC => pc,
        abi::PSW => state.psw().into(),
        _ => cell(state, reg).map_or(0, |cell| cell.get().into()),
    }
}

/// Sets a register. r0 stays 0.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    let handle = cpu.handle();
    let (Some(state), value) = (handle.parisc(), value as u32) else { return };
    match reg {
        Reg(0) | abi::PC => {}
        abi::PSW => state.set_psw(value),
        abi::LEVEL | abi::NEXT_LEVEL => cell(state, reg).iter().for_each(|cell| cell.set(value & 3)),
        abi::SAR => state.control[number::SAR].set(value & 31),
        _ => cell(state, reg).iter().for_each(|cell| cell.set(value)),
    }
}

/// The data address of the last exception.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.live32(at::ADDRESS).into()
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get32(at::FRONT).into()
}

/// The offsets of the registers that hold the queue of an interruption.
pub fn returns() -> Vec<usize> {
    vec![at::CONTROL + 4 * number::IIAOQ]
}

/// Whether all external interrupts of the machine are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    are_off(image.get32(at::STATUS), image.get32(at::CONTROL + 4 * number::EIEM))
}

/// Whether the CPU accepts one of these interrupts, in EIRR's layout, when PSW I is 1.
pub fn lets_in(handle: &Handle, kinds: u64) -> bool {
    u64::from(handle.live32(at::CONTROL + 4 * number::EIEM)) & kinds != 0
}

/// Whether all external interrupts of the machine are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    are_off(handle.live32(at::STATUS), handle.live32(at::CONTROL + 4 * number::EIEM))
}

fn are_off(status: u32, mask: u32) -> bool {
    status & psw::I == 0 || mask & (BOARD_BIT | TIMER_BIT) == 0
}

/// Whether the CPU has the highest privilege.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live32(at::LEVEL) == 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let names = abi::ELF.names.iter().filter(|(name, _)| !matches!(*name, "ksp" | "kpc"));
    let mut all: Vec<(&'static str, u64)> = names.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).collect();
    for (name, reg) in [("iiaoq0", abi::SAVED_PC), ("iiaoq1", abi::SAVED_NPC)] {
        all.push((name, get(handle, reg, 0)));
    }
    all
}

/// The registers of core dumps: general and space registers, the queue, then some control registers.
pub fn core_layout(isa: &Isa) -> Layout {
    let general = (0..32).map(|number| if number == 0 { Word::Of(abi::PSW) } else { Word::Of(abi::r(number)) });
    let spaces = (0..8).map(|number| Word::Of(abi::sr(number)));
    let queue = [Word::Pc, Word::Of(abi::NPC), Word::Of(abi::SPACE), Word::Of(abi::NEXT_SPACE)];
    let control = [abi::SAR, abi::IIR, abi::ISR, abi::IOR].map(Word::Of);
    Layout::words(isa, general.chain(spaces).chain(queue).chain(control), 80)
}
