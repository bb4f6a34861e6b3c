//! Proves, once per process, that the offsets and the private calls do for AArch64 cores what they are used for.

use super::core::CORE;
use super::state::{self, PSTATE_ENTRY, SPSR_EL1, SYNDROME};
use super::trap::{BREAKPOINT, DATA_ABORT, SYSTEM_CALL};
use super::{boot, state::FAULT_ADDRESS};
use crate::unicorn::engine::Core;
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::surgery::{CoreState, drop_translations};
use crate::unicorn::witness::{Witness, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterARM64;

/// The answer; the first call finds it out.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const CODE: u64 = 0x4010_0000;
const WFI: u32 = 0xd503_207f;

fn check() -> Result<(), String> {
    let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<Witness> = Core::new(&CORE, &ram)?;
    let mut image = CoreState::new(core.handle())?;
    boot::open_levels(&core.stopped());
    state::self_check(&core.stopped(), &mut image).map_err(unfit)?;
    core.stopped().write(RegisterARM64::PSTATE, PSTATE_ENTRY);
    core.stopped().set_system(SPSR_EL1, 0);

    // What a program below writes where: add x0, x0, #1; ret; add x1, x1, #1.
    for (register, value) in [
        (RegisterARM64::X4, 0x9100_0400),
        (RegisterARM64::X5, CODE + 0x1000),
        (RegisterARM64::X6, 0xd65f_03c0),
        (RegisterARM64::X7, 0x9100_0421),
    ] {
        core.stopped().write(register, value);
    }

    // add x0, x0, #1, then add x1, x1, #1 in its place: the second must be seen after the drop.
    let mut run = |words: &[u32]| {
        for (index, word) in words.iter().enumerate() {
            ram.set_word32(CODE + 4 * index as u64, *word);
        }
        drop_translations(core.handle(), &ram, CODE, 4 * words.len());
        core.stopped().set_pc(CODE);
        let mut witness = Witness { stops: true, ..Witness::default() };
        core.run(&mut witness);
        image.save(core.handle());
        let seen = (core.handle().read(RegisterARM64::X0), core.handle().read(RegisterARM64::X1));
        (seen, witness.last, image.get32(SYNDROME), image.get64(FAULT_ADDRESS))
    };
    if run(&[0x9100_0400, WFI]).0 != (1, 0) || run(&[0x9100_0421, WFI]).0 != (1, 1) {
        return Err(unfit("dropping translated code"));
    }
    // The guest overwrites what it has run: str w4, [x5]; str w6, [x5, #4]; blr x5; str w7, [x5]; blr x5.
    if run(&[0xb900_00a4, 0xb900_04a6, 0xd63f_00a0, 0xb900_00a7, 0xd63f_00a0, WFI]).0 != (2, 2) {
        return Err(unfit("stores over translated code"));
    }
    // brk #4: the pc is its own. svc #0x1357: behind it. ldr x2, [x3] from nowhere: the pc is its own, and the address is known.
    let (_, last, syndrome, _) = run(&[0xd420_0080, WFI]);
    if (last, syndrome) != (Some((Some(BREAKPOINT), CODE)), 0xf200_0004) {
        return Err(unfit("how a breakpoint arrives"));
    }
    let (_, last, syndrome, _) = run(&[0xd400_0001 | 0x1357 << 5, WFI]);
    if (last, syndrome) != (Some((Some(SYSTEM_CALL), CODE + 4)), 0x5600_1357) {
        return Err(unfit("where the syndrome of an exception is kept"));
    }
    // movz x3, #0x1235: not aligned, so an exclusive load of it faults.
    let (_, last, _, address) = run(&[0xd282_46a3, 0xc85f_7c62, WFI]);
    if (last, address) != (Some((Some(DATA_ABORT), CODE + 4)), 0x1235) {
        return Err(unfit("where the address of a fault is kept"));
    }
    // str x1, [x9]; ldr x0, [x8], at addresses of pages that nothing else uses: afterwards the core shows where they lie, and those alone.
    const READ: u64 = CODE + 0x1_1238;
    const WRITTEN: u64 = CODE + 0x1_3450;
    const NEITHER: u64 = CODE + 0x1_5000;
    ram.write(CODE, &[0xf900_0121_u32, 0xf940_0100, WFI].map(u32::to_le_bytes).concat());
    drop_translations(core.handle(), &ram, CODE, 12);
    core.stopped().write(RegisterARM64::X8, READ);
    core.stopped().write(RegisterARM64::X9, WRITTEN);
    core.stopped().set_pc(CODE);
    core.run(&mut Witness { stops: true, ..Witness::default() });
    let shown = [READ, WRITTEN, NEITHER].map(|at| [false, true].map(|write| core.handle().cached_physical(&ram, at, 8, write)));
    core.flush_tlb();
    let forgotten = core.handle().cached_physical(&ram, WRITTEN, 8, true);
    if shown[0][0] != Some(READ) || shown[1][1] != Some(WRITTEN) || shown[2] != [None; 2] || forgotten.is_some() {
        return Err(unfit("where the core has last found a page"));
    }
    // add x0, x0, #1; b back.
    ram.write(CODE, &[0x9100_0400_u32, 0x17ff_ffff].map(u32::to_le_bytes).concat());
    drop_translations(core.handle(), &ram, CODE, 8);
    core.stopped().set_pc(CODE);
    line::self_check(&mut core, CODE, 8, |cpu| cpu.read(RegisterARM64::X0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::regs::Reg;

    /// The flags as code leaves them, not as a write of PSTATE does; and all other registers beside them.
    #[test]
    fn what_is_read_where_it_lies_is_what_the_library_says() {
        self_check().unwrap();
        let ram = Ram::at(0x4000_0000, 4 << 20, ByteOrder::Little).unwrap();
        let mut core: Core<Witness> = Core::new(&CORE, &ram).unwrap();
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
                    ram.write(CODE, &u32::to_le_bytes(word));
                    ram.write(CODE + 4, &u32::to_le_bytes(0xd420_0080));
                    drop_translations(core.handle(), &ram, CODE, 8);
                    core.stopped().write(RegisterARM64::X1, one);
                    core.stopped().write(RegisterARM64::X2, other);
                    core.stopped().set_pc(CODE);
                    let mut witness = Witness { stops: true, ..Witness::default() };
                    core.run(&mut witness);
                    assert_eq!(witness.last, Some((Some(BREAKPOINT), CODE + 4)), "{what}");
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
