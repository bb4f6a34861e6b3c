//! A made-up machine in memory, small enough to read in one sitting, whose guest really runs: for tests of the engine
//! and of what is built on it.
//!
//! [`isa`] is an instruction set with several lengths and all kinds of plans; [`program`] puts functions together;
//! [`guest`] is a kernel of such functions with CPUs that execute them, trap, take interrupts and keep an exact clock.

pub mod guest;
pub mod isa;
pub mod program;
pub mod sample;

pub use guest::{Stop, ToyCpu, ToyGuest};
pub use isa::{TOY, TOY_BIG, TOY_DELAYS, TOY_DESCRIPTORS, TOY_LINK};
pub use program::Op;
