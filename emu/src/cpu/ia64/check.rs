//! Proves at start-up that the core counts, raises exceptions and is stopped as the machine expects.

use super::core::CORE;
use crate::unicorn::engine::{Core, Ended};
use crate::unicorn::ram::Ram;
use crate::unicorn::recording_events::{RecordingEvents, unfit};
use trapline_core::ia64::vector;
use trapline_isa::ia64::bundle::{BUNDLE, Bundle};
use trapline_isa::ia64::slot::{BREAK, break_word};
use trapline_isa::mem::ByteOrder;

/// `nop`.
const NOP: u64 = 1 << 27;
/// `adds r4=5,r0` and `adds r4=1,r4`.
const FIVE: u64 = 8 << 37 | 2 << 34 | 5 << 13 | 4 << 6;
const ONE_MORE: u64 = 8 << 37 | 2 << 34 | 4 << 20 | 1 << 13 | 4 << 6;
/// The template of a bundle for units M, I and I with a stop at its end.
const MII_STOP: u8 = 1;

/// Runs a few instructions. `Err` says what is not as expected.
pub fn check() -> Result<(), String> {
    let ram = Ram::at(0, 1 << 20, ByteOrder::Little).ok_or("no memory")?;
    let bundles = [[FIVE, NOP, NOP], [ONE_MORE, break_word(BREAK, 0), NOP]];
    for (words, at) in bundles.into_iter().zip((0x1000..).step_by(BUNDLE as usize)) {
        let [low, high] = Bundle::new(MII_STOP, words).0;
        ram.set_word64(at, low);
        ram.set_word64(at + 8, high);
    }
    let mut core: Core<RecordingEvents> = Core::new(&CORE, &ram)?;
    core.stopped().set_pc(0x1000);
    core.line().set_count(-1000);
    let mut events = RecordingEvents { stops: true, ..RecordingEvents::default() };
    let ended = core.run(&mut events);
    let four = core.handle().ia64().map(|state| state.r(4));
    let seen = (ended, events.last, four, core.line().count());
    match seen {
        (Ended::Stopped, Some((Some(vector::BREAK), 0x1016)), Some(6), count) if count > -1000 => Ok(()),
        other => Err(unfit(&format!("the core of IA-64: {other:?}"))),
    }
}
