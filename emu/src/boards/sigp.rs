//! SIGP, the instruction by which CPUs of z/Architecture signal, start and stop each other (Principles of Operation,
//! chapter 4, "CPU signaling and response"). Each CPU has a [`Mailbox`] with the signals that it has received, and a
//! [`Signal`] is one execution of SIGP.

use super::cpus::Cpus;
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::Memory;

// Condition codes.
const ACCEPTED: u64 = 0;
const STATUS_STORED: u64 = 1;
const BUSY: u64 = 2;
/// The condition code if there is no such CPU.
pub const NOT_THERE: u64 = 3;

// Status bits.
const INVALID_ORDER: u64 = 0x02;
const STOPPED: u64 = 0x40;
const CALL_PENDING: u64 = 0x80;
const INVALID_PARAMETER: u64 = 0x100;
const INCORRECT_STATE: u64 = 0x200;

// Orders.
const SENSE: u64 = 0x01;
const EXTERNAL_CALL: u64 = 0x02;
const EMERGENCY: u64 = 0x03;
const STOP: u64 = 0x05;
const RESTART: u64 = 0x06;
const INITIAL_RESET: u64 = 0x0b;
const RESET: u64 = 0x0c;
const SET_PREFIX: u64 = 0x0d;
const SET_ARCHITECTURE: u64 = 0x12;
const SENSE_RUNNING: u64 = 0x15;

/// The address of the restart PSW in the prefix area, and the bits of a prefix.
const RESTART_PSW: u64 = 0x1a0;
const PREFIX: u64 = 0x7fff_e000;

// External interrupts: the code, and the subclass mask bit of control register 0 that enables it.
const EMERGENCY_CODE: (u32, u64) = (0x1201, 0x4000);
const CALL_CODE: (u32, u64) = (0x1202, 0x2000);

/// The part of a CPU's state that other CPUs set: pending signals, and the prefix of its next start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mailbox {
    /// The prefix with which the CPU is started.
    prefix: u64,
    /// A bitmap of the CPUs whose emergency signal is pending.
    emergency: u64,
    /// The CPU whose external call is pending. Only one can be.
    call: Option<u16>,
    /// The time at which the first pending signal arrived. Not updated while signals are pending.
    since: Ticks,
}

impl Mailbox {
    /// Whether the mailbox, as read from a snapshot, could be in this state before the time `last`.
    pub fn is_sound(&self, cpus: usize, last: Ticks) -> bool {
        let senders = self.emergency.checked_shr(cpus as u32).unwrap_or(0);
        self.prefix & !PREFIX == 0 && senders == 0 && self.call.is_none_or(|cpu| usize::from(cpu) < cpus) && self.since < last
    }

    /// The pending interrupt that the CPU takes next, and the time of its signal. The number has the interrupt code in its
    /// lower half and the sender in its upper half. `lets_in` tells whether a mask bit of control register 0 is set.
    /// Emergency signals come first, that of the CPU with the lowest number before the others.
    pub fn first(&self, lets_in: impl Fn(u64) -> bool) -> Option<(u32, Ticks)> {
        let emergency =
            (self.emergency != 0 && lets_in(EMERGENCY_CODE.1)).then(|| (self.emergency.trailing_zeros(), EMERGENCY_CODE.0));
        let call = || self.call.filter(|_| lets_in(CALL_CODE.1)).map(|from| (from.into(), CALL_CODE.0));
        let (from, code) = emergency.or_else(call)?;
        Some((from << 16 | code, self.since))
    }

    /// Clears the signal of this interrupt, whose number is from [`Mailbox::first`].
    pub fn take(&mut self, number: u32) {
        match number & 0xffff {
            code if code == EMERGENCY_CODE.0 => self.emergency &= self.emergency.wrapping_sub(1),
            _ => self.call = None,
        }
    }

    /// Records the time of a signal, if none is pending.
    fn note(&mut self, now: Ticks) {
        if self.emergency == 0 && self.call.is_none() {
            self.since = now;
        }
    }
}

/// One execution of SIGP.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The order code.
    pub order: u64,
    /// The number of the CPU that executes SIGP.
    pub from: usize,
    /// The value of the parameter register.
    pub parameter: u64,
    /// The sender's time.
    pub now: Ticks,
}

impl Signal {
    /// Sends the signal to the CPU with this number and mailbox; `to` is `None` if the addressed CPU does not exist. Returns
    /// the condition code and the status, and whether the last running CPU has stopped. That ends the machine, so the CPU
    /// is not marked as stopped.
    pub fn send(self, to: Option<(usize, &mut Mailbox)>, cpus: &mut Cpus, memory: &mut dyn Memory) -> ([u64; 2], bool) {
        let accepted = [ACCEPTED, 0];
        if self.order == SET_ARCHITECTURE {
            return (accepted, false);
        }
        let Some((number, mailbox)) = to else { return ([NOT_THERE, 0], false) };
        let is_on = cpus.is_on(number);
        let answer = match self.order {
            STOP => {
                if is_on && cpus.on().iter().filter(|is_on| **is_on).count() == 1 {
                    return (accepted, true);
                }
                cpus.stop(number);
                accepted
            }
            SENSE => match (if is_on { 0 } else { STOPPED }) | if mailbox.call.is_some() { CALL_PENDING } else { 0 } {
                0 => accepted,
                status => [STATUS_STORED, status],
            },
            SENSE_RUNNING => accepted,
            EMERGENCY => {
                mailbox.note(self.now);
                mailbox.emergency |= 1u64.checked_shl(self.from as u32).unwrap_or(0);
                accepted
            }
            EXTERNAL_CALL if mailbox.call.is_some() => [BUSY, 0],
            EXTERNAL_CALL => {
                mailbox.note(self.now);
                mailbox.call = Some(self.from as u16);
                accepted
            }
            INITIAL_RESET | RESET => {
                *mailbox = Mailbox { prefix: if self.order == RESET { mailbox.prefix } else { 0 }, ..Mailbox::default() };
                cpus.stop(number);
                accepted
            }
            SET_PREFIX if is_on => [STATUS_STORED, INCORRECT_STATE],
            SET_PREFIX => {
                mailbox.prefix = self.parameter & PREFIX;
                accepted
            }
            RESTART => match restart_psw(mailbox.prefix, memory) {
                // The argument of the start has the upper 33 bits of the PSW mask and the prefix in its other bits
                // (`cpu/s390/state.rs`). The lower bits of a PSW mask are 0.
                Some([mask, entry]) => {
                    cpus.start(number, entry, mask & !PREFIX & !0x1fff | mailbox.prefix);
                    accepted
                }
                None => [STATUS_STORED, INVALID_PARAMETER],
            },
            // The two orders that store a CPU's registers (0x09, 0x0e) are invalid, too: the board cannot read registers.
            _ => [STATUS_STORED, INVALID_ORDER],
        };
        (answer, false)
    }
}

/// Reads the restart PSW from the CPU's prefix area: its mask and its address. `None` if the area is not in RAM.
fn restart_psw(prefix: u64, memory: &mut dyn Memory) -> Option<[u64; 2]> {
    let mut psw = [0; 16];
    memory.read(prefix + RESTART_PSW, &mut psw).ok()?;
    Some([0, 8].map(|at| psw.iter().skip(at).take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trapline_isa::mem::{ByteOrder, Fault};

    /// Memory below 1 GiB in which each 8-byte word holds the lower byte of its own address.
    struct Addresses;

    impl Memory for Addresses {
        fn order(&self) -> ByteOrder {
            ByteOrder::Big
        }
        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
            if address >= 1 << 30 {
                return Err(Fault { address, write: false });
            }
            for (place, at) in into.iter_mut().zip(address..) {
                *place = if at % 8 == 7 { at as u8 & 0xf8 } else { 0 };
            }
            Ok(())
        }
        fn write(&mut self, address: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault { address, write: true })
        }
    }

    fn send(cpus: &mut Cpus, to: usize, mailbox: &mut Mailbox, order: u64, parameter: u64) -> [u64; 2] {
        Signal { order, from: 0, parameter, now: 9 }.send(Some((to, mailbox)), cpus, &mut Addresses).0
    }

    #[test]
    fn a_cpu_is_reset_gets_its_prefix_and_is_restarted() {
        use crate::boards::Order;
        let (mut cpus, mut mailbox) = (Cpus::new(2), Mailbox::default());
        assert_eq!(send(&mut cpus, 1, &mut mailbox, SENSE, 0), [STATUS_STORED, STOPPED]);
        for (order, parameter) in [(INITIAL_RESET, 0), (SET_PREFIX, 0x1_0000), (RESTART, 0)] {
            assert_eq!(send(&mut cpus, 1, &mut mailbox, order, parameter), [ACCEPTED, 0]);
        }
        let start = Order::Start { cpu: 1, entry: 0xa8, argument: 0x1_0000 };
        assert_eq!(cpus.take_orders(), [Order::Reset(1), start]);
        assert_eq!(send(&mut cpus, 1, &mut mailbox, SENSE, 0), [ACCEPTED, 0]);
        assert_eq!(send(&mut cpus, 1, &mut mailbox, SET_PREFIX, 0), [STATUS_STORED, INCORRECT_STATE]);
    }

    /// SIGP orders that store a CPU's registers are refused, so that a guest does not read registers that were not stored.
    #[test]
    fn orders_that_store_status_are_invalid() {
        let (mut cpus, mut mailbox) = (Cpus::new(2), Mailbox::default());
        for order in [0x09, 0x0e] {
            assert_eq!(send(&mut cpus, 0, &mut mailbox, order, 0), [STATUS_STORED, INVALID_ORDER], "{order:#x}");
            assert!(cpus.is_on(0));
        }
    }

    #[test]
    fn signals_wait_until_the_cpu_lets_them_in() {
        let (mut cpus, mut mailbox) = (Cpus::new(2), Mailbox::default());
        for (order, code) in [(EXTERNAL_CALL, ACCEPTED), (EXTERNAL_CALL, BUSY), (EMERGENCY, ACCEPTED)] {
            assert_eq!(send(&mut cpus, 1, &mut mailbox, order, 0)[0], code);
        }
        assert_eq!(mailbox.first(|_| false), None);
        assert_eq!(mailbox.first(|bit| bit == CALL_CODE.1), Some((CALL_CODE.0, 9)));
        assert_eq!(mailbox.first(|_| true), Some((EMERGENCY_CODE.0, 9)));
        mailbox.take(EMERGENCY_CODE.0);
        mailbox.take(CALL_CODE.0);
        assert_eq!(mailbox.first(|_| true), None);
    }

    proptest! {
        /// No signal to any CPU in any state makes the board panic.
        #[test]
        fn bad_signals_never_panic(signals in proptest::collection::vec((0u64..0x20, 0usize..9, 0usize..8, any::<u64>()), 0..200)) {
            let (mut cpus, mut mailboxes) = (Cpus::new(4), vec![Mailbox::default(); 4]);
            for (order, to, from, parameter) in signals {
                let signal = Signal { order, from: from % 4, parameter, now: parameter >> 3 };
                let mailbox = mailboxes.get_mut(to).map(|mailbox| (to, mailbox));
                signal.send(mailbox, &mut cpus, &mut Addresses);
                if let Some(mailbox) = mailboxes.get_mut(to)
                    && let Some((number, _)) = mailbox.first(|bit| bit & parameter != 0)
                {
                    mailbox.take(number);
                }
                prop_assert!(mailboxes.iter().all(|mailbox| mailbox.is_sound(4, u64::MAX)));
            }
        }
    }
}
