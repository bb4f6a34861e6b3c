//! Device models, one per file. They do no I/O and do not know their board. A board passes register accesses and the
//! virtual time, and asks for interrupt levels and the time of the next event.

pub mod arch_timer;
pub mod channels;
pub mod comparator;
pub mod console;
pub mod count_compare;
pub mod decrementer;
pub mod gic;
pub mod gt64120;
pub mod i8042;
pub mod interrupts;
pub mod interval;
pub mod ioapic;
pub mod lapic;
pub mod pic;
pub mod piix4;
pub mod pit;
pub mod pl011;
pub mod plic;
pub mod psci;
pub mod rtc;
pub mod sbi;
pub mod sclp;
pub mod sp804;
pub mod tod;
pub mod uart;
pub mod virtio;
pub mod wire;
