//! Proves, once per process, the offsets and private functions that are used on SPARC cores.

use super::core::CORE;
use super::state::{self, CANRESTORE, CANSAVE, CLEANWIN, DATA_ACCESS, TBA, TL};
use super::trap::{FETCH_MISS, ILLEGAL};
use crate::cpu::check::{self, Bench, Snippets};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::Register;
use crate::unicorn::recording_events::unfit;
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use trapline_isa::regs::Reg;
use trapline_isa::sparc64::abi::{self, WINDOWS};
use unicorn_engine_sys::RegisterSPARC;

/// Returns the result of the proof, which is made at the first call.
pub fn check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(prove).clone()
}

/// `ta 5`, which ends the tested code, and its trap number.
const END: u32 = 0x91d0_2005;
const ENDED: u32 = 0x105;
const NOP: u32 = 0x0100_0000;
/// PSTATE.AG within TSTATE: the alternate globals are selected, as in most trap handlers.
const HANDLERS_GLOBALS: u64 = 1 << 8;
/// The instruction `add %o0,1,%o0`.
const COUNT: u32 = 0x9002_2001;
/// The instruction `ldx [%g1],%o0`.
const LOAD: u32 = 0xd058_6000;

/// A TLB entry for RAM: 4 MiB, privileged, writable, locked, cacheable.
const ENTRY: u64 = 1 << 63 | 3 << 61 | 1 << 6 | 1 << 5 | 1 << 4 | 1 << 2 | 1 << 1 | 1;

/// Switches the MMU on and maps the bench's RAM identically.
fn in_kernel(cpu: &TrapContext) {
    cpu.prepare_sparc();
    for (at, value) in [(state::LSU, 0xc), (state::DATA_TLB, 0), (state::DATA_TLB + 8, ENTRY)] {
        cpu.set_live64(at, value);
    }
    cpu.handle().set_fetch_entry(0, 0, ENTRY);
}

fn prove() -> Result<(), String> {
    let mut bench = Bench::new(&CORE, 0, ByteOrder::Big, in_kernel)?;
    in_kernel(&bench.core.stopped());
    check_registers(&bench.core.stopped(), &mut bench.image).map_err(unfit)?;
    let [g1, g2, g3, g4] = [RegisterSPARC::G1, RegisterSPARC::G2, RegisterSPARC::G3, RegisterSPARC::G4].map(Register::from);
    let [o0, o1] = [RegisterSPARC::O0, RegisterSPARC::O1].map(Register::from);
    let here = bench.code;
    let at = |offset: u64| here + offset;
    check::prove(
        &mut bench,
        &Snippets {
            counters: [o0, o1],
            // add %o0,1,%o0; add %o1,1,%o1
            add: [COUNT, 0x9202_6001],
            end: END,
            // %g3 holds `retl`; the addition is in its delay slot.
            values: [(g1, COUNT.into()), (g2, at(0x1000)), (g3, 0x81c3_e008), (g4, 0x9202_6001)],
            // stw %g3,[%g2]; stw %g1,[%g2+4]; jmpl %g2,%o7; nop; stw %g4,[%g2+4]; jmpl %g2,%o7; nop
            overwrite: &[0xc620_a000, 0xc220_a004, 0x9fc0_8000, NOP, 0xc820_a004, 0x9fc0_8000, NOP],
            // stx %o0,[%g2]; ldx [%g1],%o0
            touch: [0xd070_a000, LOAD],
            touched: [g2, g1],
            word: 8,
        },
    )?;
    check_exceptions(&mut bench, g1)?;
    // Delivers a trap: checks TPC, TNPC, the level and the vector, and that none is delivered at the last level.
    let cpu = bench.core.stopped();
    cpu.set_live64(TBA, 0x20_8000);
    if !cpu.enter_trap(0x34, at(16), at(64)) {
        return Err(unfit("how an exception enters its handler"));
    }
    let handle = bench.core.handle();
    let [first, next, state] = [0, 8, 16].map(|into| handle.live64(state::trap_place(1) + into));
    let number = handle.live32(state::trap_place(1) + 24);
    if (first, next, number, handle.pc(), handle.live32(TL)) != (at(16), at(64), 0x34, 0x20_8000 + 0x34 * 32, 1) {
        return Err(unfit("where an exception notes what it returns to"));
    }
    // A trap handler has other %g registers. TSTATE selects them.
    let inside = state::get(&handle, abi::TSTATE, 0);
    cpu.set_trap_state(state);
    let outside = state::get(&handle, abi::TSTATE, 0);
    if (outside, inside & HANDLERS_GLOBALS) != (state, HANDLERS_GLOBALS) || inside == state {
        return Err(unfit("what an exception saves of the CPU's state"));
    }
    cpu.set_trap_state(inside);
    let entered = (0..8).filter(|_| cpu.enter_trap(0x34, at(16), at(20))).count();
    if (entered, handle.live32(TL)) != (4, 5) {
        return Err(unfit("the levels of traps"));
    }
    // add %o0,1,%o0; ba back; nop.
    bench.place(&[COUNT, 0x10bf_ffff, NOP]);
    check::prove_counting(&mut bench, 12, o0)
}

/// A test case: instructions, the value of %g1, the state of register windows, and the expected trap with its pc and
/// npc.
type Case<'a> = (&'a [u32], u64, &'a dyn Fn(&TrapContext), (u32, u64, u64));

/// Checks the number, pc and npc of each exception.
fn check_exceptions(bench: &mut Bench, g1: Register) -> Result<(), String> {
    let here = bench.code;
    let at = |offset: u64| here + offset;
    /// An unmapped address; a misaligned one in mapped memory; the address at which the window's entry maps the code.
    const NOWHERE: u64 = 0x50_0008;
    const ODD: u64 = 0x40_0001;
    const WINDOW: u64 = 0x7000_0000;
    /// ba, 16 bytes further; jmp %g1; save; restore; flushw
    const BA: u32 = 0x1080_0004;
    const JMP: u32 = 0x81c0_4000;
    const SAVE: u32 = 0x9de3_bf40;
    const RESTORE: u32 = 0x81e8_0000;
    const FLUSH: u32 = 0x8158_0000;
    let windows = |free: u32, kept: u32| {
        move |cpu: &TrapContext| {
            cpu.set_live32(CANSAVE, free);
            cpu.set_live32(CANRESTORE, kept);
        }
    };
    let as_it_is = windows(6, 0);
    #[rustfmt::skip]
    let cases: [Case<'_>; 12] = [
        (&[NOP, NOP, END],       0,          &as_it_is,        (ENDED, at(8), at(12))),
        (&[NOP, 0],              0,          &as_it_is,        (ILLEGAL, at(4), at(8))),
        (&[NOP, BA, LOAD],       ODD,        &as_it_is,        (0x34, at(8), at(20))),
        (&[NOP, BA, 0x91d0_2070], 0,         &as_it_is,        (0x170, at(8), at(20))),
        (&[NOP, LOAD],           NOWHERE,    &as_it_is,        (0x68, at(4), at(8))),
        (&[BA, LOAD],            NOWHERE,    &as_it_is,        (0x68, at(4), at(16))),
        (&[JMP, NOP],            0x60_0000,  &as_it_is,        (FETCH_MISS, 0x60_0000, 0x60_0004)),
        (&[NOP, SAVE],           0,          &windows(0, 6),   (0x80, at(4), at(8))),
        (&[NOP, RESTORE],        0,          &windows(6, 0),   (0xc0, at(4), at(8))),
        (&[NOP, FLUSH],          0,          &windows(3, 3),   (0x80, at(4), at(8))),
        (&[NOP, FLUSH, END],     0,          &windows(6, 0),   (ENDED, at(8), at(12))),
        (&[JMP, NOP, END],       WINDOW + here + 8, &as_it_is, (ENDED, WINDOW + here + 8, WINDOW + here + 12)),
    ];
    for (words, value, prepare, expected) in cases {
        bench.place(words);
        bench.set(g1, value);
        prepare(&bench.core.stopped());
        bench.core.handle().set_fetch_entry(63, WINDOW, ENTRY);
        let found = bench.go();
        let handle = bench.core.handle();
        if found != Some((Some(expected.0), expected.1)) || state::next_pc(&handle) != expected.2 {
            return Err(unfit("where an exception comes, and where the CPU would go on"));
        }
        if expected.0 == 0x68 && handle.live64(DATA_ACCESS) != NOWHERE & !0x1fff {
            return Err(unfit("where the address of a fault is kept"));
        }
    }
    Ok(())
}

/// Writes values one way and reads them the other; the error names the field that differs.
fn check_registers(cpu: &TrapContext, image: &mut CoreState) -> Result<(), &'static str> {
    let handle = cpu.handle();
    if (handle.live32(CANSAVE), handle.live32(CLEANWIN), handle.live32(TL)) != (6, 7, 0) || !state::in_kernel(&handle) {
        return Err("the state after a reset");
    }
    for window in 0..WINDOWS {
        state::set(cpu, abi::CWP, window);
        if state::get(&handle, abi::CWP, 0) != window {
            return Err("the window");
        }
        for number in 1..32 {
            let (reg, mark) = (Reg(number), 0x8765_4321_1234_5678 + window * 100 + u64::from(number));
            state::set(cpu, reg, mark);
            if state::get(&handle, reg, 0) != mark || handle.window_by_library(number) != mark {
                return Err("a general register");
            }
        }
    }
    // `save` goes to the next register window, whose %i0-%i7 are this one's %o0-%o7.
    let outs = abi::o(3);
    for window in 0..WINDOWS {
        state::set(cpu, abi::CWP, window);
        state::set(cpu, outs, window + 77);
        state::set(cpu, abi::CWP, (window + 1) % WINDOWS);
        if state::get(&handle, Reg(outs.0 + 16), 0) != window + 77 {
            return Err("how windows lie over one another");
        }
    }
    for codes in 0..256 {
        state::set(cpu, abi::CCR, codes);
        if state::get(&handle, abi::CCR, 0) != codes || state::get(&handle, abi::TSTATE, 0) >> 32 != codes {
            return Err("the condition codes");
        }
    }
    state::set(cpu, abi::SP, 0x1000);
    state::set(cpu, abi::RA, 0x2000);
    if [abi::o(6), abi::o(7)].map(|reg| state::get(&handle, reg, 0)) != [0x1000 - abi::BIAS, 0x2000 - 8] {
        return Err("the stack pointer or the return address");
    }
    cpu.set_pc(0x1111_2220);
    cpu.set_next_pc(0x3333_4440);
    image.save(handle);
    let next = [0x1111_2220, 0x1111_2224].map(|pc| state::get(&handle, abi::NPC, pc));
    if (state::saved_pc(image), next) != (0x1111_2220, [0x3333_4440, 0x1111_2228]) || !state::saved_interrupts_off(image) {
        return Err("pc, npc or the state of interrupts");
    }
    for window in (0..WINDOWS).rev() {
        state::set(cpu, abi::CWP, window);
        (1..32).for_each(|number| state::set(cpu, Reg(number), 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The core behaves as the machine expects: pc and npc at exceptions, register windows, trap levels.
    #[test]
    fn the_core_passes_its_self_check() {
        assert_eq!(super::check(), Ok(()));
    }
}
