//! Proves, once per process, the offsets and private functions that are used on 32-bit PowerPC cores.

use super::core::CORE;
use super::deliver::deliver;
use super::state::{self, MSR_EE, MSR_IR, MSR_ME, MSR_SE};
use super::window;
use crate::cpu::ppc::trap::{EMULATION, PROGRAM, SYSTEM_CALL, TRACE};
use crate::cpu::{Exception, WindowPlace};
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::Core;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterPPC;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

const CODE: u64 = 0x10_0000;
const SEEN: u64 = 0xbf80_0000;
const SC: u32 = 0x4400_0002;
const ADDI: u32 = 0x3863_0001;
const VERSION: u32 = 0x0008_0301;

fn check() -> Result<(), String> {
    let ram = Ram::at(0, 4 << 20, ByteOrder::Big).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram)?;
    let mut image = CoreState::new(core.handle())?;
    let put = |at: u64, words: &[u32]| ram.write(at, &words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>());
    let mut run = |words: &[u32], state: u64| {
        state::set_msr(&core.stopped(), state);
        put(CODE, words);
        core.stopped().write(RegisterPPC::R3, 0);
        core.stopped().set_pc(CODE);
        let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
        core.run(&mut events);
        image.save(core.handle());
        (core.handle().read(RegisterPPC::R3), events.last, image.get32(state::ERROR_CODE))
    };
    let (r3, last, _) = run(&[ADDI, SC], MSR_ME);
    if (r3, last) != (1, Some((Some(SYSTEM_CALL), CODE + 8))) {
        return Err(unfit(&format!("how a system call arrives: {r3:#x} {last:x?}")));
    }
    if run(&[ADDI, ADDI, SC], MSR_ME).0 != 2 {
        return Err(unfit("dropping translated code"));
    }
    for (what, word, vector, kind) in [("a trap", 0x7fe0_0008, PROGRAM, 0x40), ("what is no instruction", 0, EMULATION, 0x20)] {
        let (_, last, error) = run(&[word], MSR_ME);
        if (last, error & !15) != (Some((Some(vector), CODE + 4)), kind) {
            return Err(unfit(&format!("how {what} arrives: {last:x?} {error:#x}")));
        }
    }
    // One instruction has run, and the reported pc is 4 too high.
    let (r3, last, _) = run(&[ADDI, ADDI, SC], MSR_ME | MSR_SE);
    if (r3, last) != (1, Some((Some(TRACE), CODE + 8))) {
        return Err(unfit(&format!("how a step arrives: {r3:#x} {last:x?}")));
    }
    if u64::from(core.handle().live32(state::MSR)) != MSR_ME | MSR_SE || core.handle().live32(state::PVR) != VERSION {
        return Err(unfit("the machine state, or the version of the CPU"));
    }
    // Runs code at an address that only a hidden instruction BAT maps, with data translation off.
    let hidden = WindowPlace { start: SEEN, len: 2 << 20, physical: 0, tables: 0 };
    state::set_msr(&core.stopped(), MSR_ME | MSR_IR);
    window::clear(&core.stopped(), &ram, &hidden);
    put(CODE, &[ADDI, SC]);
    core.flush_tlb();
    core.stopped().set_pc(SEEN + CODE);
    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
    core.run(&mut events);
    if events.last != Some((Some(SYSTEM_CALL), SEEN + CODE + 8)) {
        return Err(unfit(&format!("blocks that no CPU of this kind has: {events:x?}")));
    }
    // The handler reads the saved state: mfsrr0 r3; mfsrr1 r4; sc.
    put(0x700, &[0x7c7a_02a6, 0x7c9b_02a6, SC]);
    let exception = Exception { error: Some(0x40), ..Exception::of(PROGRAM) };
    let at = CODE + 0x24;
    state::set_msr(&core.stopped(), MSR_ME | MSR_EE);
    deliver(&core.stopped(), &mut image, &ram, exception, at).map_err(|shutdown| shutdown.why)?;
    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
    core.run(&mut events);
    let seen = [RegisterPPC::R3, RegisterPPC::R4].map(|register| core.handle().read(register));
    if (events.last, seen) != (Some((Some(SYSTEM_CALL), 0x70c)), [at, MSR_ME | MSR_EE | 0x2_0000]) {
        return Err(unfit(&format!("what an exception's handler finds: {events:x?} {seen:x?}")));
    }
    Ok(())
}
