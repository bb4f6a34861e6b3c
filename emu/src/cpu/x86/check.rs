//! Proves, once per process, the offsets and private functions that are used on x86 cores.

use super::core::CORE;
use super::state;
use crate::unicorn::core_state::CoreState;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::line;
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use std::sync::OnceLock;
use trapline_isa::mem::ByteOrder;
use unicorn_engine_sys::RegisterX86;

/// Returns the result of the proof, which is made at the first call.
pub fn self_check() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    ANSWER.get_or_init(check).clone()
}

fn check() -> Result<(), String> {
    let ram = Ram::at(0, 4 << 20, ByteOrder::Little).ok_or("the host has no memory for the self-check")?;
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram)?;
    let mut image = CoreState::new(core.handle())?;
    state::self_check(&core.stopped(), &mut image).map_err(unfit)?;

    // inc eax; hlt, then inc ebx in its place. The core must see the second one after the drop.
    const CODE: u64 = 0x10_0000;
    state::enter_flat_32(&core.stopped(), CODE);
    ram.write(CODE, &[0x40, 0xf4]);
    let run = |core: &mut Core<RecordingEvents>| {
        core.stopped().set_pc(CODE);
        core.run(&mut RecordingEvents::default()) == Ended::Stopped
    };
    core.stopped().write(RegisterX86::RAX, 0);
    core.stopped().write(RegisterX86::RBX, 0);
    let ran = run(&mut core);
    ram.write(CODE, &[0x43]);
    let ran = ran && run(&mut core);
    let seen = (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX));
    if !ran || seen != (1, 1) {
        return Err(unfit("dropping translated code"));
    }

    // A load and a store. The TLB must then have the physical addresses of these pages, and no other page's.
    const READ: u64 = 0x20_1238;
    const WRITTEN: u64 = 0x20_3450;
    const NEITHER: u64 = 0x20_5000;
    let load_and_store = [&[0xa1], &(READ as u32).to_le_bytes()[..], &[0xa3], &(WRITTEN as u32).to_le_bytes(), &[0xf4]].concat();
    ram.write(CODE, &load_and_store);
    let ran = run(&mut core);
    let shown = [READ, WRITTEN, NEITHER].map(|at| [false, true].map(|write| core.handle().cached_physical(&ram, at, 8, write)));
    core.flush_tlb();
    let forgotten = core.handle().cached_physical(&ram, WRITTEN, 8, true);
    if !ran || shown[0][0] != Some(READ) || shown[1][1] != Some(WRITTEN) || shown[2] != [None; 2] || forgotten.is_some() {
        return Err(unfit("where the core has last found a page"));
    }

    // Self-modifying code: mov word [DATA], "inc eax; ret"; call DATA; mov byte [DATA], "inc ebx"; call DATA; hlt.
    const STORES: [u8; 25] = *b"\x66\xc7\x05\0\0\x20\0\x40\xc3\xba\0\0\x20\0\xff\xd2\xc6\x02\x43\xff\xd2\xf4\xf4\xf4\xf4";
    ram.write(CODE, &STORES);
    core.stopped().write(RegisterX86::RAX, 1);
    core.stopped().write(RegisterX86::RBX, 1);
    core.stopped().write(RegisterX86::RSP, CODE);
    let ran = run(&mut core);
    if !ran || (core.handle().read(RegisterX86::RAX), core.handle().read(RegisterX86::RBX)) != (2, 2) {
        return Err(unfit("stores over translated code"));
    }

    // inc eax; jmp back.
    ram.write(CODE, &[0x40, 0xeb, 0xfd]);
    core.stopped().set_pc(CODE);
    line::self_check(&mut core, CODE, 3, |cpu| cpu.read(RegisterX86::RAX))?;

    // mov byte [CODE + 8], nop; inc eax; inc ecx; hlt: a block of 10 bytes that modifies itself.
    let write_itself = [&[0xc6, 0x05][..], &(CODE as u32 + 8).to_le_bytes(), &[0x90, 0x40, 0x41, 0xf4]].concat();
    ram.write(CODE, &write_itself);
    let (before, mut line) = (core.handle().read(RegisterX86::RCX), core.line());
    line.set_count(-1000);
    if !run(&mut core) || core.handle().read(RegisterX86::RCX) != before || line.count() != -990 {
        return Err(unfit("that a block which writes into itself counts once"));
    }
    line.set_count(0);

    // int3: the pc must be the address behind it.
    ram.write(CODE, &[0xcc, 0xf4]);
    core.stopped().set_pc(CODE);
    let mut events = RecordingEvents::default();
    core.run(&mut events);
    if events.last != Some((Some(3), CODE + 1)) {
        return Err(unfit("how a breakpoint arrives"));
    }
    Ok(())
}
