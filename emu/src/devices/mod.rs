//! Devices: one small struct a file, with no I/O of its own and no knowledge of the board.

pub mod i8042;
pub mod interrupts;
pub mod interval;
pub mod pic;
pub mod pit;
pub mod rtc;
pub mod uart;
