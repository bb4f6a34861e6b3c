//! Delivers an exception or interrupt to the guest as the CPU would: stores its description in the lowcore, and swaps
//! the PSW there.

use super::channels::{CLASS_SHIFT, INTERRUPTION};
use super::paging::PREFIXED;
use super::state::{LETS_ANY_IN, PREFIX, RECORDED, RECORDED_ADDRESS, WAITS, is_sound, set_psw};
use super::trap::{self, CALL, is_nullifying};
use crate::boards::s390ccw::BY_CHANNEL;
use crate::cpu::{Exception, Shutdown};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::ram::Ram;
use unicorn_engine_sys::RegisterS390X;

// Offsets in the lowcore.
const EXTERNAL_PARAMETER: u64 = 0x80;
const EXTERNAL_CODE: u64 = 0x86;
const CALL_WHAT: u64 = 0x88;
const PROGRAM_WHAT: u64 = 0x8c;
const RECORDED_WHY: u64 = 0x96;
const RECORDED_WHERE: u64 = 0x98;
/// The address of the last branch. It is stored as 0, because the core's value differs with and without probes.
const LAST_BRANCH: u64 = 0x110;

/// The offsets in the lowcore of the old PSW and the new PSW of an interruption.
struct Swap {
    old: u64,
    new: u64,
}

const CHANNEL: Swap = Swap { old: 0x170, new: 0x1f0 };
const EXTERNAL: Swap = Swap { old: 0x130, new: 0x1b0 };
const SYSTEM_CALL: Swap = Swap { old: 0x140, new: 0x1c0 };
const PROGRAM: Swap = Swap { old: 0x150, new: 0x1d0 };

/// Delivers the exception. `detail` is the length of the instruction for a program interruption, and the parameter for
/// an interrupt: of a channel, the subsystem-identification word and the subchannel's word.
pub fn deliver(cpu: &TrapContext, _: &mut CoreState, ram: &Ram, exception: Exception, resume: u64) -> Result<(), Shutdown> {
    let lowcore = cpu.handle().live64(PREFIX);
    if !ram.holds(lowcore, PREFIXED as usize) {
        return Err(Shutdown { why: format!("the CPU's lowcore at {lowcore:#x} is not in memory, so nothing can be delivered") });
    }
    let half = |at: u64, value: u32| ram.write(lowcore + at, &(value as u16).to_be_bytes());
    let length = exception.detail;
    let (swap, back) = if exception.external && exception.vector & BY_CHANNEL != 0 {
        ram.set_word(lowcore + INTERRUPTION, exception.detail, 8);
        ram.set_word(lowcore + INTERRUPTION + 8, u64::from(exception.vector & !BY_CHANNEL) << CLASS_SHIFT, 4);
        (CHANNEL, resume)
    } else if exception.external {
        ram.set_word(lowcore + EXTERNAL_PARAMETER, exception.detail, 4);
        ram.set_word(lowcore + EXTERNAL_CODE - 2, exception.vector.into(), 4);
        (EXTERNAL, resume)
    } else if exception.vector == CALL {
        let number = cpu.handle().live32(super::state::CALL_NUMBER) & 0xff;
        ram.set_word(lowcore + CALL_WHAT, length << 16 | u64::from(number), 4);
        (SYSTEM_CALL, resume)
    } else {
        ram.set_word(lowcore + PROGRAM_WHAT, length << 16 | u64::from(exception.vector), 4);
        ram.set_word(lowcore + LAST_BRANCH, 0, 8);
        if exception.vector == trap::RECORDED {
            half(RECORDED_WHY, cpu.handle().live32(RECORDED) & 0xffff);
            ram.set_word(lowcore + RECORDED_WHERE, cpu.handle().live64(RECORDED_ADDRESS), 8);
        }
        // A PER event of an instruction that did not complete is dropped.
        cpu.set_live32(RECORDED, cpu.handle().live32(RECORDED) & !0xffff);
        let is_done = exception.vector == trap::RECORDED || is_nullifying(exception.vector) || exception.fetch;
        (PROGRAM, if is_done { resume } else { resume.wrapping_add(length) })
    };
    let old = cpu.handle().read(RegisterS390X::PSWM);
    ram.set_word(lowcore + swap.old, old, 8);
    ram.set_word(lowcore + swap.old + 8, back, 8);
    let [mask, address] = [0, 8].map(|at| ram.word64(lowcore + swap.new + at));
    let why = if !is_sound(mask) {
        format!("the PSW {mask:016x} {address:016x} of its handler is invalid")
    } else if mask & WAITS != 0 {
        let what = if mask & LETS_ANY_IN == 0 { "stops the CPU" } else { "waits" };
        format!("the PSW {mask:016x} {address:016x} of its handler {what}")
    } else if (mask, address) == (old, resume) {
        format!("its handler at {address:#x} is the instruction that raised it")
    } else {
        set_psw(cpu, mask, address);
        return Ok(());
    };
    let what = if exception.external { "interrupt" } else { "exception" };
    Err(Shutdown { why: format!("{what} {:#x} at {resume:#x} cannot be delivered: {why}", exception.vector) })
}
