//! A toy machine in memory whose guest really runs, for tests of the engine and of its users. It is small enough to
//! read in one sitting.
//!
//! [`isa`] is an instruction set with several lengths and all kinds of plans. [`program`] assembles functions.
//! [`guest`] is a kernel of such functions with CPUs that execute them, trap, take interrupts and keep exact time.

pub mod guest;
pub mod isa;
pub mod program;
pub mod sample;

pub use guest::{Stop, ToyCpu, ToyGuest};
pub use isa::{TOY, TOY_BIG, TOY_DELAYS, TOY_DESCRIPTORS, TOY_LINK};
pub use program::Op;
