//! Proves at start-up that the core of PA-RISC counts the bytes of code, raises an exception at a breakpoint and stops
//! when an event asks for it.

use super::core::CORE;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use trapline_core::parisc::number;
use trapline_isa::mem::ByteOrder;
use trapline_isa::parisc::slot;

/// `ldi 5,r4`, `b .+8` with `ldo 1(r4),r4` in its delay slot, and a breakpoint.
const CODE: [u32; 4] = [0x3404_000a, 0xe800_0000, 0x3484_0002, slot::BREAK];

/// Runs a few instructions. `Err` says what is not as expected.
pub fn check() -> Result<(), String> {
    let ram = Ram::at(0, 1 << 20, ByteOrder::Big).ok_or("no memory")?;
    for (word, at) in CODE.into_iter().zip((0x1000..).step_by(4)) {
        ram.set_word32(at, word);
    }
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram)?;
    core.stopped().set_pc(0x1000);
    core.line().set_count(-1000);
    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
    let ended = core.run(&mut events);
    let seen = (ended, events.last, core.handle().general(4).map(|value| value as u32), core.line().count());
    let counts = [-1000 + 12 + 4, -1000 + 12 + 8];
    match seen {
        (Ended::Stopped, Some((Some(number::BREAK), 0x100c)), Some(6), count) if counts.contains(&count) || count > -1000 => {
            Ok(())
        }
        other => Err(unfit(&format!("the core of PA-RISC: {other:?}"))),
    }
}
