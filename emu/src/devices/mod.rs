//! Devices: one small struct a file, with no I/O of its own and no knowledge of the board.

pub mod interrupts;
pub mod interval;
