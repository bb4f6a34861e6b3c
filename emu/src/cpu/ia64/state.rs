//! Registers in `isa`'s numbering.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::cpus::ia64::at;
use crate::unicorn::engine::{Handle, TrapContext};
use std::cell::Cell;
use trapline_core::ia64::{Real, State, ar, cr, psr};
use trapline_isa::arch::Isa;
use trapline_isa::ia64::abi::{self, b, r};
use trapline_isa::regs::Reg;

/// The cell of a register that is a plain field.
fn cell(state: &State, reg: Reg) -> Option<&Cell<u64>> {
    let application = |number: u8| state.application.get(usize::from(number));
    match reg {
        Reg(branch @ 136..=143) => state.branch.get(usize::from(branch - 136)),
        abi::PFS => application(ar::PFS),
        abi::LC => application(ar::LC),
        abi::EC => application(ar::EC),
        abi::FPSR => application(ar::FPSR),
        abi::K3 => application(3),
        abi::K6 => application(6),
        abi::IPSR => state.control.get(cr::IPSR),
        abi::IIP => state.control.get(cr::IIP),
        abi::IFS => state.control.get(cr::IFS),
        _ if reg == abi::COMPLETED[0] => Some(&state.last),
        _ if reg == abi::COMPLETED[1] => Some(&state.before_hit),
        _ => None,
    }
}

/// The bits of 64 registers from `first` on for which `is` is true.
fn bits(first: u8, is: impl Fn(u8) -> bool) -> u64 {
    (0..64).fold(0, |bits, bit| bits | u64::from(is(first + bit)) << bit)
}

/// Whether a general register exists in the frame.
fn is_in_frame(state: &State, number: u8) -> bool {
    number < 32 || u64::from(number) - 32 < state.frame.get() & 0x7f
}

/// The number of a register in the ALAT; `None` for general registers outside of the frame.
fn in_alat(state: &State, word: usize, bit: u8) -> Option<u32> {
    let number = bit + if word.is_multiple_of(2) { 0 } else { 64 };
    match word {
        0 | 1 => is_in_frame(state, number).then(|| state.alat_number(number)),
        _ => Some(state.alat_real(number)),
    }
}

/// The place of a register in a group of registers that each stand for 64 bits.
fn place(group: &[Reg], reg: Reg) -> Option<usize> {
    group.iter().position(|known| *known == reg)
}

/// The value of a register; `pc` of the pc. Registers outside of the frame read as 0.
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    let Some(state) = handle.ia64() else { return 0 };
    match reg {
        Reg(general @ ..=127) if is_in_frame(state, general) => state.r(general),
        abi::PC => pc,
        abi::PSR => state.status.get(),
        abi::CFM => state.frame.get(),
        abi::BSP => state.frame_at(),
        abi::PR => state.predicates.get(),
        _ => cell(state, reg).map(Cell::get).unwrap_or_else(|| set_of_bits(state, reg)),
    }
}

/// A register each of whose bits stands for another register.
fn set_of_bits(state: &State, reg: Reg) -> u64 {
    if let Some(word) = place(&abi::NATS, reg) {
        return bits(64 * word as u8, |number| is_in_frame(state, number) && state.is_nat(number));
    }
    if let Some(word) = place(&abi::ALAT, reg) {
        let has_entry = |bit| in_alat(state, word, bit).is_some_and(|number| state.alat.find(number).is_some());
        return bits(0, has_entry);
    }
    match place(&abi::FLOAT_NATS, reg) {
        Some(word) => bits(64 * word as u8, |number| state.f(number) == Real::NAT),
        None => 0,
    }
}

/// Sets a register. r0 stays 0, and registers outside of the frame keep their values. A general register loses its NaT bit.
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    let handle = cpu.handle();
    let Some(state) = handle.ia64() else { return };
    match reg {
        Reg(general @ ..=127) if is_in_frame(state, general) => state.set_r(general, value, false),
        abi::PSR => state.set_psr(value & !(3 << psr::RI) | u64::from(state.slot()) << psr::RI),
        abi::CFM if value != state.frame.get() => state.set_frame(value),
        abi::BSP if value != state.frame_at() => state.set_frame_at(value),
        abi::PR => state.predicates.set(value | 1),
        _ => match cell(state, reg) {
            Some(cell) => cell.set(value),
            None => set_bits(state, reg, value),
        },
    }
}

/// Sets NaT bits, or removes the entries of the ALAT whose bits are 0.
fn set_bits(state: &State, reg: Reg, value: u64) {
    if let Some(word) = place(&abi::NATS, reg) {
        for number in (64 * word as u8..).take(64).filter(|number| *number != 0 && is_in_frame(state, *number)) {
            state.set_r(number, state.r(number), value >> (number % 64) & 1 != 0);
        }
    }
    if let Some(word) = place(&abi::ALAT, reg) {
        let removed = (0..64).filter(|bit| value >> bit & 1 == 0);
        removed.filter_map(|bit| in_alat(state, word, bit)).for_each(|number| state.alat.remove(number));
    }
}

/// The data address of the last exception.
pub fn fault_address(handle: &Handle) -> u64 {
    handle.ia64().map_or(0, |state| state.fault_address.get())
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    image.get64(at::PC)
}

/// The offset of the register that holds the bundle of an interruption.
pub fn returns() -> Vec<usize> {
    vec![at::CONTROL + 8 * cr::IIP]
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    image.get64(at::STATUS) & psr::I == 0
}

/// Whether external interrupts are masked.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    handle.live64(at::STATUS) & psr::I == 0
}

/// Whether the CPU has the highest privilege.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    handle.live64(at::STATUS) >> psr::CPL & 3 == 0
}

/// Registers for a report about a dead guest: those of the frame only.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let Some(state) = handle.ia64() else { return Vec::new() };
    let names = abi::ELF.names.iter().filter(|(_, reg)| reg.0 >= 128 || is_in_frame(state, reg.0));
    let mut all: Vec<(&'static str, u64)> = names.map(|(name, reg)| (*name, get(handle, *reg, handle.pc()))).collect();
    for (name, number) in [("iip", cr::IIP), ("ipsr", cr::IPSR), ("isr", cr::ISR), ("ifa", cr::IFA), ("ifs", cr::IFS)] {
        all.push((name, state.control[number].get()));
    }
    all
}

/// The registers of core dumps: general ones, NaT bits, predicates, branch registers, the pc, the frame, the status, the backing
/// store, then application registers.
pub fn core_layout(isa: &Isa) -> Layout {
    let general = (0..32).map(r);
    let more = [abi::NATS[0], abi::PR].into_iter().chain((0..8).map(b)).map(Word::Of);
    let unknown = || Word::Of(r(0));
    let frame = [Word::Pc, Word::Of(abi::CFM), Word::Of(abi::PSR), unknown(), Word::Of(abi::BSP)];
    let last =
        [unknown(), unknown(), unknown(), unknown()].into_iter().chain([abi::FPSR, abi::PFS, abi::LC, abi::EC].map(Word::Of));
    Layout::words(isa, general.map(Word::Of).chain(more).chain(frame).chain(last), 128)
}
