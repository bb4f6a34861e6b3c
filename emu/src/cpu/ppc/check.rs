//! Proves, once per process, the offsets and private functions that are used on 64-bit PowerPC cores.

use super::core::BIG as CORE;
use super::deliver::deliver;
use super::state::{self, MSR_EE, MSR_HV, MSR_LE, MSR_ME, MSR_SE, MSR_SF};
use super::trap::{EMULATION, PROGRAM, SYSTEM_CALL, TRACE};
use crate::cpu::Exception;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::Core;
use crate::unicorn::offsets::ppc64 as offset;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterPPC;

/// Offset of the error code.
pub const ERROR_CODE: usize = offset::ERROR_CODE;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const CODE: u64 = 0x10_0000;
const SC: u32 = 0x4400_0002;
const ADDI: u32 = 0x3863_0001;

fn check() -> Result<(), String> {
    let ram = Ram::at(0, 4 << 20, ByteOrder::Big).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram)?;
    let mut image = CoreState::new(core.handle())?;
    for order in [0, MSR_LE] {
        let plain = MSR_SF | MSR_HV | MSR_ME | order;
        let mut run = |words: &[u32], state: u64| {
            state::set_msr(&core.stopped(), state);
            let bytes = |word: &u32| if order == 0 { word.to_be_bytes() } else { word.to_le_bytes() };
            ram.write(CODE, &words.iter().flat_map(bytes).collect::<Vec<u8>>());
            core.stopped().write(RegisterPPC::R3, 0);
            core.stopped().set_pc(CODE);
            let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
            core.run(&mut events);
            image.save(core.handle());
            (core.handle().read(RegisterPPC::R3), events.last, image.get32(state::ERROR_CODE))
        };
        let (r3, last, _) = run(&[ADDI, SC], plain);
        if (r3, last) != (1, Some((Some(SYSTEM_CALL), CODE + 8))) {
            return Err(unfit(&format!("how a system call arrives: {r3:#x} {last:x?}")));
        }
        if run(&[ADDI, ADDI, SC], plain).0 != 2 {
            return Err(unfit("dropping translated code"));
        }
        let (_, last, error) = run(&[0x7fe0_0008], plain);
        if (last, error & !15) != (Some((Some(PROGRAM), CODE + 4)), 0x40) {
            return Err(unfit(&format!("how a trap arrives: {last:x?} {error:#x}")));
        }
        let (_, last, _) = run(&[0], plain);
        if last != Some((Some(EMULATION), CODE + 4)) {
            return Err(unfit(&format!("how what is no instruction arrives: {last:x?}")));
        }
        // One instruction has run, and the reported pc is 4 too high.
        let (r3, last, _) = run(&[ADDI, ADDI, SC], plain | MSR_SE);
        if (r3, last) != (1, Some((Some(TRACE), CODE + 8))) {
            return Err(unfit(&format!("how a step arrives: {r3:#x} {last:x?}")));
        }
        if core.handle().live64(state::MSR) != plain | MSR_SE {
            return Err(unfit("the machine state"));
        }
        // The handler reads the saved state: mfsrr0 r3; mfsrr1 r4; sc.
        let handler: Vec<u8> = [0x7c7a_02a6_u32, 0x7c9b_02a6, SC]
            .iter()
            .flat_map(|word| if order == 0 { word.to_be_bytes() } else { word.to_le_bytes() })
            .collect();
        ram.write(0x700, &handler);
        let exception = Exception { error: Some(0x40), ..Exception::of(PROGRAM) };
        let at = CODE + 0x24;
        state::set_msr(&core.stopped(), plain | MSR_EE);
        let deliver = if order == 0 { deliver::<false> } else { deliver::<true> };
        deliver(&core.stopped(), &mut image, &ram, exception, at).map_err(|shutdown| shutdown.why)?;
        let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
        core.run(&mut events);
        let seen = [RegisterPPC::R3, RegisterPPC::R4].map(|register| core.handle().read(register));
        if (events.last, seen) != (Some((Some(SYSTEM_CALL), 0x70c)), [at, plain | MSR_EE | 0x2_0000]) {
            return Err(unfit(&format!("what an exception's handler finds: {events:x?} {seen:x?}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapline_isa::ppc::abi;

    /// Registers that are accessed by their offsets agree with Unicorn's register interface.
    #[test]
    fn registers_read_in_place_equal_the_librarys() {
        self_check().unwrap();
        let ram = Ram::at(0, 4 << 20, ByteOrder::Big).unwrap();
        let core: Core<RecordingEvents> = Core::new(&CORE, &ram).unwrap();
        state::set_msr(&core.stopped(), MSR_SF | MSR_HV | MSR_ME);
        assert_eq!(core.handle().read(RegisterPPC::MSR), MSR_SF | MSR_HV | MSR_ME);
        let doors = [
            (abi::CTR, RegisterPPC::CTR),
            (abi::LR, RegisterPPC::LR),
            (abi::CR, RegisterPPC::CR),
            (abi::r(3), RegisterPPC::R3),
            (abi::r(31), RegisterPPC::R31),
        ];
        for (reg, door) in doors {
            for value in [0x1234_5678_9abc_def0_u64, 0x8000_0001, 0] {
                let value = if reg == abi::CR { value & 0xffff_ffff } else { value };
                state::set(&core.stopped(), reg, value);
                assert_eq!(core.handle().read(door), value, "{reg:?}");
                assert_eq!(state::get(&core.handle(), reg, 0), value, "{reg:?}");
            }
        }
        // The value of XER as code sees it: mfxer r3; sc.
        for value in [0xe00c_0000_u64, 0x2000_0000, 0x4008_0000, 0] {
            state::set(&core.stopped(), abi::XER, value);
            assert_eq!(state::get(&core.handle(), abi::XER, 0), value);
        }
        core.stopped().set_pc(CODE);
        let mut image = CoreState::new(core.handle()).unwrap();
        image.save(core.handle());
        assert_eq!((state::saved_pc(&image), state::saved_interrupts_off(&image)), (CODE, true));
        assert_eq!(image.get64(state::PVR), 0x80_0100);
    }
}
