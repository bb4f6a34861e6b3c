//! Proves, once per process, the offsets and private functions that are used on AArch64 cores.

use super::core::CORE;
use super::state::{self, PSTATE_ENTRY, SPSR_EL1, SYNDROME};
use super::trap::{BREAKPOINT, DATA_ABORT, SYSTEM_CALL};
use super::{boot, state::FAULT_ADDRESS};
use crate::cpu::check::{self, Bench, Snippets};
use crate::unicorn::kinds::Register;
use crate::unicorn::recording_events::unfit;
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterARM64;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const WFI: u32 = 0xd503_207f;

fn check() -> Result<(), String> {
    let mut bench = Bench::new(&CORE, 0x4000_0000, ByteOrder::Little, |cpu| {
        cpu.write(RegisterARM64::PSTATE, PSTATE_ENTRY);
        cpu.set_system(SPSR_EL1, 0);
    })?;
    boot::open_levels(&bench.core.stopped());
    state::self_check(&bench.core.stopped(), &mut bench.image).map_err(unfit)?;
    let code = bench.code;
    check::prove(
        &mut bench,
        &Snippets {
            counters: [RegisterARM64::X0, RegisterARM64::X1].map(Register::from),
            // add x0, x0, #1; add x1, x1, #1
            add: [0x9100_0400, 0x9100_0421],
            end: WFI,
            // x6 holds the instruction `ret`.
            values: [
                (RegisterARM64::X4.into(), 0x9100_0400),
                (RegisterARM64::X5.into(), code + 0x1000),
                (RegisterARM64::X6.into(), 0xd65f_03c0),
                (RegisterARM64::X7.into(), 0x9100_0421),
            ],
            // str w4, [x5]; str w6, [x5, #4]; blr x5; str w7, [x5]; blr x5
            overwrite: &[0xb900_00a4, 0xb900_04a6, 0xd63f_00a0, 0xb900_00a7, 0xd63f_00a0],
            // str x1, [x9]; ldr x0, [x8]
            touch: [0xf900_0121, 0xf940_0100],
            touched: [RegisterARM64::X9, RegisterARM64::X8].map(Register::from),
            word: 8,
        },
    )?;
    // brk #4: the pc is its own address. svc #0x1357: the pc is behind it.
    let last = bench.run(&[0xd420_0080, WFI]);
    if (last, bench.image.get32(SYNDROME)) != (Some((Some(BREAKPOINT), code)), 0xf200_0004) {
        return Err(unfit("how a breakpoint arrives"));
    }
    let last = bench.run(&[0xd400_0001 | 0x1357 << 5, WFI]);
    if (last, bench.image.get32(SYNDROME)) != (Some((Some(SYSTEM_CALL), code + 4)), 0x5600_1357) {
        return Err(unfit("where the syndrome of an exception is kept"));
    }
    // movz x3, #0x1235; ldxr x2, [x3]: an unaligned exclusive load, so it faults.
    let last = bench.run(&[0xd282_46a3, 0xc85f_7c62, WFI]);
    if (last, bench.image.get64(FAULT_ADDRESS)) != (Some((Some(DATA_ABORT), code + 4)), 0x1235) {
        return Err(unfit("where the address of a fault is kept"));
    }
    // add x0, x0, #1; b back.
    bench.place(&[0x9100_0400, 0x17ff_ffff]);
    check::prove_counting(&mut bench, 8, RegisterARM64::X0.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unicorn::engine::Core;
    use crate::unicorn::ram::Ram;
    use crate::unicorn::recording_events::RecordingEvents;
    use trapline_isa::regs::Reg;

    const CODE: u64 = 0x4010_0000;

    /// The flags as set by code rather than by a write of PSTATE, and all other registers.
    #[test]
    fn registers_read_in_place_equal_the_librarys() {
        self_check().unwrap();
        let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).unwrap();
        let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
        boot::open_levels(&core.stopped());
        #[rustfmt::skip]
        let cases = [
            ("subs x0, x1, x2", 0xeb02_0020, [0, 1, 0x8000_0000_0000_0000, u64::MAX]),
            ("subs w0, w1, w2", 0x6b02_0020, [0, 1, 0x8000_0000, 0xffff_ffff]),
            ("adds x0, x1, x2", 0xab02_0020, [0, 1, 0x8000_0000_0000_0000, u64::MAX]),
            ("ands x0, x1, x2", 0xea02_0020, [0, 1, 0x8000_0000_0000_0000, u64::MAX]),
        ];
        let (mut set, mut clear) = (0, 0);
        for (what, word, values) in cases {
            for (one, other) in values.iter().flat_map(|one| values.map(|other| (*one, other))) {
                for level in [PSTATE_ENTRY, PSTATE_ENTRY & !1, 0, 1 << 7] {
                    core.stopped().write(RegisterARM64::PSTATE, level);
                    core.stopped().set_system(SPSR_EL1, 0);
                    ram.set_word32(CODE, word);
                    ram.set_word32(CODE + 4, 0xd420_0080);
                    core.stopped().write(RegisterARM64::X1, one);
                    core.stopped().write(RegisterARM64::X2, other);
                    core.stopped().set_pc(CODE);
                    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
                    core.run(&mut events);
                    assert_eq!(events.last, Some((Some(BREAKPOINT), CODE + 4)), "{what}");
                    let handle = core.handle();
                    for ((name, register), number) in state::NAMES.iter().zip(0..) {
                        let live = state::get(&handle, Reg(number), handle.pc());
                        assert_eq!(live, handle.read(*register), "{name} behind {what} of {one:#x} and {other:#x}");
                    }
                    let pstate = handle.read(RegisterARM64::PSTATE);
                    assert_eq!(super::super::trap::in_kernel(&handle), pstate & state::PSTATE_EL != 0, "{what}");
                    assert_eq!(super::super::trap::interrupts_off(&handle), pstate & state::PSTATE_IRQ_MASKED != 0, "{what}");
                    (set, clear) = (set | pstate, clear | !pstate);
                }
            }
        }
        let all = 0xf000_0000;
        assert_eq!((set & all, clear & all), (all, all), "each flag was seen in both states");
    }
}
