//! Proves, once per process, that the offsets and the private calls do for 32-bit ARM cores what they are used for.

use super::core::CORE;
use super::state::{self, CPSR_THUMB, FAULT_ADDRESS, SUPERVISOR, SYNDROME};
use super::trap::{self, DATA_ABORT, SYSTEM_CALL};
use crate::unicorn::engine::Core;
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{CoreState, drop_translations};
use crate::unicorn::witness::{Witness, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterARM;

/// The answer; the first call finds it out.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const CODE: u64 = 0x4010_0000;
const WFI: u32 = 0xe320_f003;

fn check() -> Result<(), String> {
    let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<Witness> = Core::new(&CORE, &ram)?;
    let mut image = CoreState::new(core.handle())?;
    state::self_check(&core.stopped(), &mut image).map_err(unfit)?;

    // What a program below writes where: add r0, r0, #1; bx lr; add r1, r1, #1.
    for (register, value) in [
        (RegisterARM::R4, 0xe280_0001),
        (RegisterARM::R5, CODE + 0x1000),
        (RegisterARM::R6, 0xe12f_ff1e),
        (RegisterARM::R7, 0xe281_1001),
    ] {
        core.stopped().write(register, value);
    }
    let mut run = |mode: u64, words: &[u32]| {
        for (index, word) in words.iter().enumerate() {
            ram.set_word32(CODE + 4 * index as u64, *word);
        }
        drop_translations(core.handle(), &ram, CODE, 4 * words.len());
        core.stopped().write(RegisterARM::CPSR, SUPERVISOR | mode);
        trap::park(&core.stopped());
        core.stopped().set_pc(CODE);
        let mut witness = Witness { stops: true, ..Witness::default() };
        core.run(&mut witness);
        image.save(core.handle());
        let seen = (core.handle().read(RegisterARM::R0), core.handle().read(RegisterARM::R1));
        (seen, witness.last, image.get32(SYNDROME), image.get64(FAULT_ADDRESS))
    };
    // add r0, r0, #1, then add r1, r1, #1 in its place: the second must be seen after the drop.
    if run(0, &[0xe280_0001, WFI]).0 != (1, 0) || run(0, &[0xe281_1001, WFI]).0 != (1, 1) {
        return Err(unfit("dropping translated code"));
    }
    // The guest overwrites what it has run: str r4, [r5]; str r6, [r5, #4]; blx r5; str r7, [r5]; blx r5.
    if run(0, &[0xe585_4000, 0xe585_6004, 0xe12f_ff35, 0xe585_7000, 0xe12f_ff35, WFI]).0 != (2, 2) {
        return Err(unfit("stores over translated code"));
    }
    // The breakpoint is an undefined instruction: the pc is its own, in A32 and in Thumb code.
    for (mode, word) in [(0, 0xe7f0_01f8), (CPSR_THUMB, 0xde18_de18)] {
        if run(mode, &[word, WFI]).1 != Some((None, CODE)) {
            return Err(unfit("how a breakpoint arrives"));
        }
    }
    // svc #0x1357: the pc is behind it.
    let (_, last, syndrome, _) = run(0, &[0xef00_1357, WFI]);
    if (last, syndrome) != (Some((Some(SYSTEM_CALL), CODE + 4)), 0x4600_1357) {
        return Err(unfit("where the syndrome of an exception is kept"));
    }
    // mov r3, #0x41; ldrex r2, [r3]: not aligned, so it faults.
    let (_, last, _, address) = run(0, &[0xe3a0_3041, 0xe193_2f9f, WFI]);
    if (last, address & 0xffff_ffff) != (Some((Some(DATA_ABORT), CODE + 4)), 0x41) {
        return Err(unfit("where the address of a fault is kept"));
    }
    // str r1, [r9]; ldr r0, [r8], at addresses of pages that nothing else uses: afterwards the core shows where they lie, and those alone.
    const READ: u64 = CODE + 0x1_1238;
    const WRITTEN: u64 = CODE + 0x1_3450;
    const NEITHER: u64 = CODE + 0x1_5000;
    ram.write(CODE, &[0xe589_1000_u32, 0xe598_0000, WFI].map(u32::to_le_bytes).concat());
    drop_translations(core.handle(), &ram, CODE, 12);
    core.stopped().write(RegisterARM::CPSR, SUPERVISOR);
    core.stopped().write(RegisterARM::R8, READ);
    core.stopped().write(RegisterARM::R9, WRITTEN);
    core.stopped().set_pc(CODE);
    core.run(&mut Witness { stops: true, ..Witness::default() });
    let shown = [READ, WRITTEN, NEITHER].map(|at| [false, true].map(|write| core.handle().cached_physical(&ram, at, 4, write)));
    core.flush_tlb();
    let forgotten = core.handle().cached_physical(&ram, WRITTEN, 4, true);
    if shown[0][0] != Some(READ) || shown[1][1] != Some(WRITTEN) || shown[2] != [None; 2] || forgotten.is_some() {
        return Err(unfit("where the core has last found a page"));
    }
    // add r0, r0, #1; b back: in A32 and in Thumb code.
    for (mode, bytes, words) in [(0, 8, [0xe280_0001_u32, 0xeaff_fffd]), (CPSR_THUMB, 4, [0xe7fd_3001, 0])] {
        ram.write(CODE, &words.map(u32::to_le_bytes).concat());
        drop_translations(core.handle(), &ram, CODE, 8);
        core.stopped().write(RegisterARM::CPSR, SUPERVISOR | mode);
        core.stopped().write(RegisterARM::R0, 0);
        core.stopped().set_pc(CODE);
        line::self_check(&mut core, CODE, bytes, |cpu| cpu.read(RegisterARM::R0))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::regs::Reg;

    /// The flags as code leaves them, not as a write of CPSR does, in every mode; and all other registers beside them.
    #[test]
    fn what_is_read_where_it_lies_is_what_the_library_says() {
        self_check().unwrap();
        let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).unwrap();
        let mut core: Core<Witness> = Core::new(&CORE, &ram).unwrap();
        // Each ends in an undefined instruction; the last one stands inside an IT block.
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
            words.iter().zip(0..).for_each(|(word, index)| assert!(ram.write(CODE + 4 * index, &u32::to_le_bytes(*word))));
            drop_translations(core.handle(), &ram, CODE, 8);
            for (one, other) in values.iter().flat_map(|one| values.map(|other| (*one, other))) {
                for mode in state::MODES {
                    core.stopped().write(RegisterARM::CPSR, mode | thumb);
                    core.stopped().write(RegisterARM::R1, one);
                    core.stopped().write(RegisterARM::R2, other);
                    core.stopped().write(RegisterARM::SP, 0x1000 + mode);
                    core.stopped().write(RegisterARM::LR, 0x2000 + mode);
                    trap::park(&core.stopped());
                    core.stopped().set_pc(CODE);
                    let mut witness = Witness { stops: true, ..Witness::default() };
                    core.run(&mut witness);
                    let second = CODE + if thumb == 0 { 4 } else { 2 };
                    assert_eq!(witness.last, Some((None, second)), "{what}");
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
