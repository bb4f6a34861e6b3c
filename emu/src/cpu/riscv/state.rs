//! Registers in `isa`'s numbering, and their offsets in the core's state for both widths.

use crate::cpu::{Layout, Word};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Handle, InstructionContext, TrapContext};
use crate::unicorn::offsets::{riscv32, riscv64};
use trapline_isa::arch::Isa;
use trapline_isa::regs::Reg;
use trapline_isa::riscv::abi;

/// The number of general registers. They come first in the state.
pub const GENERAL: u8 = 32;

/// Interrupts are enabled in supervisor mode.
const STATUS_SIE: u64 = 1 << 1;
/// The core's number for supervisor mode. Programs run in mode 0.
pub const SUPERVISOR: u64 = 1;

/// The number of the software interrupt, by which harts interrupt each other.
pub const SOFTWARE: u32 = 1;
/// The number of the timer's interrupt.
pub const TIMER: u32 = 5;
/// The number of the interrupt of devices.
pub const EXTERNAL: u32 = 9;

/// Offsets of registers, each as wide as a word.
pub struct Places {
    is_wide: bool,
    /// The pc.
    pub pc: usize,
    /// The floating-point registers, 8 bytes each in both widths.
    pub floats: usize,
    /// The rounding mode.
    rounding: usize,
    /// Accumulated exceptions of floating-point operations, as Unicorn has them.
    float_flags: usize,
    /// The address of the access that failed last.
    pub fault_address: usize,
    /// The hart's number.
    number: usize,
    /// The mode: 1 for supervisor, 0 for user.
    pub mode: usize,
    /// mstatus, of which sstatus is a part.
    pub status: usize,
    /// Pending interrupts: sip.
    pub pending: usize,
    /// Enabled interrupts: sie.
    pub enabled: usize,
    /// The root of the page tables.
    pub satp: usize,
    /// The address of an exception.
    pub stval: usize,
    /// The address of the handler.
    pub stvec: usize,
    /// The return address of an exception.
    pub sepc: usize,
    /// The cause of an exception.
    pub scause: usize,
    /// Linux's own: the running task while a program runs, 0 in the kernel.
    pub sscratch: usize,
    /// The end of the saved state.
    end: usize,
}

macro_rules! places {
    ($of:ident, $is_wide:expr) => {
        Places {
            is_wide: $is_wide,
            pc: $of::PC,
            floats: $of::FLOATS,
            rounding: $of::ROUNDING,
            float_flags: $of::FLOAT_FLAGS,
            fault_address: $of::FAULT_ADDRESS,
            number: $of::NUMBER,
            mode: $of::MODE,
            status: $of::STATUS,
            pending: $of::PENDING,
            enabled: $of::ENABLED,
            satp: $of::SATP,
            stval: $of::STVAL,
            stvec: $of::STVEC,
            sepc: $of::SEPC,
            scause: $of::SCAUSE,
            sscratch: $of::SSCRATCH,
            end: $of::SAVED,
        }
    };
}

/// The offsets of 64-bit cores.
pub static WIDE: Places = places!(riscv64, true);
/// The offsets of 32-bit cores.
pub static NARROW: Places = places!(riscv32, false);

/// The offsets of this core.
#[inline]
pub fn places(handle: &Handle) -> &'static Places {
    if handle.is_wide() { &WIDE } else { &NARROW }
}

impl Places {
    /// Reads a register.
    #[inline]
    pub fn word(&self, handle: &Handle, of: fn(&Places) -> usize) -> u64 {
        if self.is_wide { handle.live64(of(self)) } else { handle.live32(of(self)).into() }
    }

    fn saved(&self, image: &CoreState, of: fn(&Places) -> usize) -> u64 {
        if self.is_wide { image.get64(of(self)) } else { image.get32(of(self)).into() }
    }
}

/// An address, cut to the width of this core.
pub fn cut(handle: &Handle, address: u64) -> u64 {
    if handle.is_wide() { address } else { address & 0xffff_ffff }
}

/// Whether the hart is in supervisor mode.
#[inline]
pub fn in_kernel(handle: &Handle) -> bool {
    places(handle).word(handle, |places| places.mode) == SUPERVISOR
}

/// Whether interrupts are masked. A program cannot mask them.
#[inline]
pub fn interrupts_off(handle: &Handle) -> bool {
    in_kernel(handle) && places(handle).word(handle, |places| places.status) & STATUS_SIE == 0
}

/// Whether sie accepts one of these interrupts.
pub fn lets_in(handle: &Handle, signals: u64) -> bool {
    places(handle).word(handle, |places| places.enabled) & signals != 0
}

/// Writes the pending interrupts into sip.
pub fn show_pins(cpu: &InstructionContext, signals: u64) {
    let at = places(&cpu.handle()).pending;
    if cpu.handle().is_wide() { cpu.set_live64(at, signals) } else { cpu.set_live32(at, signals as u32) }
}

/// Writes the pending interrupts of a board into sip, at an interrupt.
pub fn set_pending(cpu: &TrapContext, signals: u64) {
    let at = places(&cpu.handle()).pending;
    if cpu.handle().is_wide() { cpu.set_live64(at, signals) } else { cpu.set_live32(at, signals as u32) }
}

/// Reads a register in `isa`'s numbering. `pc` is returned for the pc.
#[inline]
pub fn get(handle: &Handle, reg: Reg, pc: u64) -> u64 {
    let word = |of| places(handle).word(handle, of);
    match reg {
        Reg(0) => 0,
        Reg(number) if number < GENERAL => cut(handle, handle.general(number).unwrap_or(0)),
        abi::PC => pc,
        abi::STATUS => handle.riscv_status(),
        abi::BAD_ADDRESS => word(|places| places.stval),
        abi::CAUSE => word(|places| places.scause),
        abi::FIRST_ARGUMENT => get(handle, abi::A0, pc),
        _ => float(handle, reg),
    }
}

/// The number of floating-point registers.
const FLOATS: u8 = 32;

/// The offset of a floating-point register.
fn float_place(handle: &Handle, reg: Reg) -> Option<usize> {
    let number = reg.0.checked_sub(abi::F0.0).filter(|number| *number < FLOATS)?;
    Some(places(handle).floats + 8 * usize::from(number))
}

/// A floating-point register, or the rounding mode and the accumulated exceptions.
fn float(handle: &Handle, reg: Reg) -> u64 {
    let control = || {
        let rounding = places(handle).word(handle, |places| places.rounding);
        rounding << 8 | u64::from(handle.live32(places(handle).float_flags) & 0xff)
    };
    match float_place(handle, reg) {
        Some(at) => handle.live64(at),
        None if reg.0 == abi::F0.0 + FLOATS => control(),
        None => 0,
    }
}

/// Sets a register in `isa`'s numbering. Registers that describe exceptions are not changed.
#[inline]
pub fn set(cpu: &TrapContext, reg: Reg, value: u64) {
    match reg {
        Reg(0) => {}
        Reg(number) if number < GENERAL => match cpu.handle().is_wide() {
            true => cpu.set_live64(8 * usize::from(number), value),
            false => cpu.set_live32(4 * usize::from(number), value as u32),
        },
        abi::STATUS => cpu.set_riscv_status(value),
        _ => {
            if let Some(at) = float_place(&cpu.handle(), reg) {
                cpu.set_live64(at, value);
            }
        }
    }
}

/// The offsets in a saved state. That of a 64-bit core is larger.
fn places_in(image: &CoreState) -> &'static Places {
    if image.len() >= WIDE.end { &WIDE } else { &NARROW }
}

/// Starts a hart at this address, with its number in a0 and this value in a1.
pub fn start(image: &mut CoreState, number: usize, entry: u64, argument: u64) {
    let places = places_in(image);
    let word = if places.is_wide { 8 } else { 4 };
    let values = [(places.number, number as u64), (places.pc, entry), (10 * word, number as u64), (11 * word, argument)];
    for (at, value) in values {
        if places.is_wide { image.set64(at, value) } else { image.set32(at, value as u32) }
    }
}

/// The pc in a saved state.
pub fn saved_pc(image: &CoreState) -> u64 {
    places_in(image).saved(image, |places| places.pc)
}

/// Whether interrupts are masked in a saved state.
pub fn saved_interrupts_off(image: &CoreState) -> bool {
    let places = places_in(image);
    places.saved(image, |places| places.mode) == SUPERVISOR && places.saved(image, |places| places.status) & STATUS_SIE == 0
}

/// Registers for a report about a dead guest.
pub fn dump(handle: &Handle) -> Vec<(&'static str, u64)> {
    let word = |of| places(handle).word(handle, of);
    let named = abi::LP64.names.iter().filter(|(_, reg)| reg.0 > 0 && reg.0 <= abi::STATUS.0);
    let general = named.map(|(name, reg)| (if *reg == abi::PC { "pc" } else { *name }, get(handle, *reg, handle.pc())));
    let system = [
        ("cause", word(|places| places.scause)),
        ("epc", word(|places| places.sepc)),
        ("badaddr", word(|places| places.stval)),
        ("tvec", word(|places| places.stvec)),
        ("satp", word(|places| places.satp)),
        ("scratch", word(|places| places.sscratch)),
        ("mode", word(|places| places.mode)),
    ];
    general.chain(system).collect()
}

/// The registers of core dumps: the pc, then x1 to x31.
pub fn core_layout(isa: &Isa) -> Layout {
    Layout::words(isa, [Word::Pc].into_iter().chain((1..GENERAL).map(|number| Word::Of(abi::x(number)))), 0)
}
