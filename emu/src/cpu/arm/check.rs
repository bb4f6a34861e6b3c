//! Proves, once per process, the offsets and private functions that are used on 32-bit ARM cores.

use super::core::CORE;
use super::state::{self, CPSR_THUMB, FAULT_ADDRESS, SUPERVISOR, SYNDROME};
use super::trap::{self, DATA_ABORT, SYSTEM_CALL};
use crate::cpu::check::{self, Bench, Snippets};
use crate::unicorn::engine::TrapContext;
use crate::unicorn::kinds::Register;
use crate::unicorn::recording_events::unfit;
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterARM;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const WFI: u32 = 0xe320_f003;

fn check() -> Result<(), String> {
    let in_mode = |cpu: &TrapContext, thumb: u64| {
        cpu.write(RegisterARM::CPSR, SUPERVISOR | thumb);
        trap::park(cpu);
    };
    let mut bench = Bench::new(&CORE, 0x4000_0000, ByteOrder::Little, |cpu| {
        cpu.write(RegisterARM::CPSR, SUPERVISOR);
        trap::park(cpu);
    })?;
    state::self_check(&bench.core.stopped(), &mut bench.image).map_err(unfit)?;
    let code = bench.code;
    check::prove(
        &mut bench,
        &Snippets {
            counters: [RegisterARM::R0, RegisterARM::R1].map(Register::from),
            // add r0, r0, #1; add r1, r1, #1
            add: [0xe280_0001, 0xe281_1001],
            end: WFI,
            // r6 holds the instruction `bx lr`.
            values: [
                (RegisterARM::R4.into(), 0xe280_0001),
                (RegisterARM::R5.into(), code + 0x1000),
                (RegisterARM::R6.into(), 0xe12f_ff1e),
                (RegisterARM::R7.into(), 0xe281_1001),
            ],
            // str r4, [r5]; str r6, [r5, #4]; blx r5; str r7, [r5]; blx r5
            overwrite: &[0xe585_4000, 0xe585_6004, 0xe12f_ff35, 0xe585_7000, 0xe12f_ff35],
            // str r1, [r9]; ldr r0, [r8]
            touch: [0xe589_1000, 0xe598_0000],
            touched: [RegisterARM::R9, RegisterARM::R8].map(Register::from),
            word: 4,
        },
    )?;
    // The breakpoint is an undefined instruction. The pc must be its own address, in A32 and Thumb code.
    for (thumb, word) in [(0, 0xe7f0_01f8), (CPSR_THUMB, 0xde18_de18)] {
        bench.place(&[word, WFI]);
        in_mode(&bench.core.stopped(), thumb);
        bench.core.stopped().set_pc(code);
        if bench.go() != Some((None, code)) {
            return Err(unfit("how a breakpoint arrives"));
        }
    }
    // svc #0x1357: the pc is behind it.
    let last = bench.run(&[0xef00_1357, WFI]);
    if (last, bench.image.get32(SYNDROME)) != (Some((Some(SYSTEM_CALL), code + 4)), 0x4600_1357) {
        return Err(unfit("where the syndrome of an exception is kept"));
    }
    // mov r3, #0x41; ldrex r2, [r3]: unaligned, so it faults.
    let last = bench.run(&[0xe3a0_3041, 0xe193_2f9f, WFI]);
    if (last, bench.image.get64(FAULT_ADDRESS) & 0xffff_ffff) != (Some((Some(DATA_ABORT), code + 4)), 0x41) {
        return Err(unfit("where the address of a fault is kept"));
    }
    // add r0, r0, #1; b back: in A32 and in Thumb code.
    for (thumb, bytes, words) in [(0, 8, [0xe280_0001, 0xeaff_fffd]), (CPSR_THUMB, 4, [0xe7fd_3001, 0])] {
        bench.place(&words);
        in_mode(&bench.core.stopped(), thumb);
        check::prove_counting(&mut bench, bytes, RegisterARM::R0.into())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unicorn::engine::Core;
    use crate::unicorn::ram::Ram;
    use crate::unicorn::recording_events::RecordingEvents;
    use trapline_isa::regs::Reg;

    const CODE: u64 = 0x4010_0000;

    /// The flags as set by code rather than by a write of CPSR, in every mode, and all other registers.
    #[test]
    fn registers_read_in_place_equal_the_librarys() {
        self_check().unwrap();
        let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).unwrap();
        let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
        // Each case ends in an undefined instruction. The last one is inside an IT block.
        #[rustfmt::skip]
        let cases = [
            ("subs r0, r1, r2",       0,          [0xe051_0002, 0xe7f0_01f8]),
            ("adds r0, r1, r2",       0,          [0xe091_0002, 0xe7f0_01f8]),
            ("ands r0, r1, r2",       0,          [0xe011_0002, 0xe7f0_01f8]),
            ("qadd r0, r1, r2",       0,          [0xe102_0051, 0xe7f0_01f8]),
            ("uadd8 r0, r1, r2",      0,          [0xe651_0f92, 0xe7f0_01f8]),
            ("thumb: subs r0, r1, r2", CPSR_THUMB, [0xde18_1a88, 0xde18_de18]),
            ("thumb: ittet al",       CPSR_THUMB, [0xde18_bfe4, 0xde18_de18]),
        ];
        let values = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
        let (mut set, mut clear) = (0, 0);
        for (what, thumb, words) in cases {
            words.iter().zip(0..).for_each(|(word, index)| assert!(ram.set_word32(CODE + 4 * index, *word)));
            for (one, other) in values.iter().flat_map(|one| values.map(|other| (*one, other))) {
                for mode in state::MODES {
                    core.stopped().write(RegisterARM::CPSR, mode | thumb);
                    core.stopped().write(RegisterARM::R1, one);
                    core.stopped().write(RegisterARM::R2, other);
                    core.stopped().write(RegisterARM::SP, 0x1000 + mode);
                    core.stopped().write(RegisterARM::LR, 0x2000 + mode);
                    trap::park(&core.stopped());
                    core.stopped().set_pc(CODE);
                    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
                    core.run(&mut events);
                    let second = CODE + if thumb == 0 { 4 } else { 2 };
                    assert_eq!(events.last, Some((None, second)), "{what}");
                    let handle = core.handle();
                    for ((name, register), number) in state::NAMES.iter().zip(0..) {
                        let live = state::get(&handle, Reg(number), handle.pc());
                        assert_eq!(live, handle.read(*register), "{name} behind {what} of {one:#x} and {other:#x}");
                    }
                    let status = handle.read(RegisterARM::CPSR);
                    assert_eq!(trap::in_kernel(&handle), status & state::CPSR_MODE != state::USER, "{what}");
                    assert_eq!(status & state::CPSR_MODE, mode, "{what}");
                    (set, clear) = (set | status, clear | !status);
                    assert_eq!(status & state::CPSR_IT_JAZELLE != 0, what == "thumb: ittet al", "{what}");
                }
            }
        }
        let all = 0xf80f_0020;
        assert_eq!((set & all, clear & all), (all, all), "each flag was seen in both states");
    }
}
