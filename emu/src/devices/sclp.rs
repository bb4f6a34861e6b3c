//! The service processor of z/Architecture, as far as Linux uses it: information about the machine, and the VT220
//! console (Linux's drivers/s390/char/sclp.h).
//!
//! A command has a block of memory (SCCB) whose first two bytes are its length. The response is written into the block,
//! with the response code in bytes 6 and 7. An interrupt signals completion. Its parameter is the block's address; its
//! lowest bit means that input is pending.

use super::console::Console;
use super::wire::Wire;
use crate::clock::Ticks;
use serde::{Deserialize, Serialize};
use trapline_isa::mem::{ByteOrder, Fault, Memory};

/// The interrupt code, and the bit of control register 0 that enables it.
pub const SIGNAL: (u32, u64) = (0x2401, 0x200);

// Command codes.
const READ_SCP_INFO: u32 = 0x0002_0001;
const READ_SCP_INFO_FORCED: u32 = 0x0012_0001;
const READ_CPU_INFO: u32 = 0x0001_0001;
const WRITE_EVENT_MASK: u32 = 0x0078_0005;
const WRITE_EVENT_DATA: u32 = 0x0076_0005;
const READ_EVENT_DATA: u32 = 0x0077_0005;

// Response codes.
const READ: u16 = 0x0010;
const DONE: u16 = 0x0020;
const UNKNOWN_COMMAND: u16 = 0x01f0;
const UNKNOWN_EVENT: u16 = 0x40f0;
const NOTHING_WAITS: u16 = 0x60f0;

/// An event buffer: length, type, flags, two reserved bytes, then the data.
const EVENT_HEADER: usize = 6;
const CONSOLE_EVENT: u8 = 0x1a;
const ACCEPTED: u8 = 0x80;
/// The event by which the system identifies itself (Linux: /sys/firmware/cpi), and the offset of its 8-byte system
/// level.
const IDENTITY_EVENT: u8 = 0x0b;
const LEVEL: usize = 40;
/// The console's bit in an event mask: byte offset and bit.
const CONSOLE_MASK: (usize, u8) = (3, 0x40);
/// The identification event's bit in an event mask.
const IDENTITY_MASK: (usize, u8) = (1, 0x20);
/// Largest event mask in bytes.
const MOST_MASK: usize = 1024;
/// Offset of the data after the block's header.
const BODY: usize = 8;
const LENGTH: usize = 2;
const CODE: usize = 6;
/// Largest block in bytes.
pub const LONGEST: usize = 4096;

const MIB: u64 = 1 << 20;
/// Offset of the CPU entries in the response.
const CPUS_AT: usize = 128;
/// Size of a CPU's entry, whose first byte is the CPU's number.
const CPU_BYTES: usize = 16;
/// Offset of the list of CPUs in the response that has nothing else.
const CPU_LIST: usize = 16;
/// The largest number of CPUs that are listed.
const MOST_CPUS: usize = 64;
/// Facility bit: CPU information is available.
const KNOWS_CPUS: u64 = 0x0800_0000_0000_0000;

/// The service processor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sclp {
    ram: u64,
    cpus: u8,
    sent: Vec<u8>,
    /// The system level that the guest has reported.
    level: u64,
    typed: Wire,
    /// Whether the guest wants console input events, and whether it was signalled and has not read the input yet.
    listens: bool,
    told: bool,
    /// The parameter of the pending interrupt.
    signal: Option<u32>,
}

impl Sclp {
    /// A service processor for a machine with this much RAM and this many CPUs.
    pub fn new(ram: u64, cpus: usize) -> Sclp {
        Sclp { ram, cpus: cpus.min(MOST_CPUS) as u8, ..Sclp::default() }
    }

    /// Whether this one, which was read from a snapshot, belongs to the same machine.
    pub fn fits(&self, machine: &Sclp) -> bool {
        (self.ram, self.cpus) == (machine.ram, machine.cpus)
    }

    /// Writes an entry for each CPU. Entries that would not fit in the block are omitted.
    fn list_cpus(&self, block: &mut [u8], at: usize) {
        for cpu in 0..usize::from(self.cpus) {
            put(block, at + CPU_BYTES * cpu, 1, cpu as u64);
        }
    }

    /// Executes a command. `block` is an absolute address. Returns false, having done nothing, if the block is invalid.
    pub fn command(&mut self, command: u32, block: u64, memory: &mut dyn Memory, now: Ticks) -> Result<bool, Fault> {
        let mut length = [0; LENGTH];
        memory.read(block, &mut length)?;
        let length = usize::from(u16::from_be_bytes(length));
        if !(BODY..=LONGEST).contains(&length) {
            return Ok(false);
        }
        let mut bytes = vec![0; length];
        memory.read(block, &mut bytes)?;
        let code = self.answer(command, &mut bytes, now);
        put(&mut bytes, CODE, 2, code.into());
        memory.write(block, &bytes)?;
        // Keep the flag of pending input that was not taken yet.
        let keys = self.signal.unwrap_or(0) & 1;
        self.signal = Some(block as u32 & !7 | keys);
        Ok(true)
    }

    fn answer(&mut self, command: u32, block: &mut [u8], now: Ticks) -> u16 {
        match command {
            READ_SCP_INFO | READ_SCP_INFO_FORCED => {
                block[BODY..].fill(0);
                // Number of storage increments and their size of 1 MiB, the CPU, its speed. The system has no name.
                put(block, 8, 2, self.ram / MIB);
                put(block, 10, 1, 1);
                put(block, 16, 2, self.cpus.into());
                put(block, 18, 2, CPUS_AT as u64);
                self.list_cpus(block, CPUS_AT);
                for at in 24..32 {
                    put(block, at, 1, BLANK.into());
                }
                put(block, 48, 8, KNOWS_CPUS);
                READ
            }
            READ_CPU_INFO => {
                block[BODY..].fill(0);
                // The configured CPUs, in a list that begins here. No standby CPUs.
                put(block, 8, 2, self.cpus.into());
                put(block, 10, 2, CPU_LIST as u64);
                put(block, 14, 2, (CPU_LIST + CPU_BYTES * usize::from(self.cpus)) as u64);
                self.list_cpus(block, CPU_LIST);
                READ
            }
            WRITE_EVENT_MASK => self.exchange_masks(block),
            WRITE_EVENT_DATA => self.events(block),
            READ_EVENT_DATA => self.keys(block, now),
            _ => UNKNOWN_COMMAND,
        }
    }

    /// Exchanges event masks: those that the guest receives and sends, then those that are supported.
    fn exchange_masks(&mut self, block: &mut [u8]) -> u16 {
        let length = number(block, 10, 2).min(MOST_MASK as u64) as usize;
        let (place, bit) = CONSOLE_MASK;
        if length > place {
            self.listens = number(block, 12 + place, 1) as u8 & bit != 0;
            let (sends, takes) = (&[CONSOLE_MASK][..], &[CONSOLE_MASK, IDENTITY_MASK][..]);
            for (mask, kinds) in [(2, takes), (3, sends)] {
                let start = 12 + mask * length;
                for byte in 0..length {
                    put(block, start + byte, 1, 0);
                }
                for (byte, bit) in kinds {
                    put(block, start + byte, 1, (*bit).into());
                }
            }
        }
        DONE
    }

    /// Prints console text. Other events are refused, because their drivers would wait for a response.
    fn events(&mut self, block: &mut [u8]) -> u16 {
        let (mut at, mut code) = (BODY, DONE);
        while at + EVENT_HEADER <= block.len() {
            let end = at + number(block, at, 2) as usize;
            if end < at + EVENT_HEADER || end > block.len() {
                break;
            }
            if block[at + 2] == CONSOLE_EVENT {
                self.sent.extend_from_slice(&block[at + EVENT_HEADER..end]);
                block[at + 3] |= ACCEPTED;
            } else if block[at + 2] == IDENTITY_EVENT {
                self.level = number(block, at + LEVEL, 8);
                block[at + 3] |= ACCEPTED;
            } else {
                code = UNKNOWN_EVENT;
            }
            at = end;
        }
        code
    }

    /// Returns one input byte, as an event whose data begins with a type byte.
    fn keys(&mut self, block: &mut [u8], now: Ticks) -> u16 {
        self.told = false;
        let length = EVENT_HEADER + 2;
        if block.len() < BODY + length {
            return NOTHING_WAITS;
        }
        let Some(key) = self.typed.take(now) else { return NOTHING_WAITS };
        put(block, 0, LENGTH, (BODY + length) as u64);
        put(block, BODY, 2, length as u64);
        put(block, BODY + 2, 4, u64::from(CONSOLE_EVENT) << 24);
        put(block, BODY + EVENT_HEADER, 2, key.into());
        DONE
    }

    /// Signals console input whose time has come.
    pub fn advance(&mut self, now: Ticks) {
        if self.next_event().is_some_and(|at| at <= now) {
            self.told = true;
            self.signal = Some(self.signal.unwrap_or(0) | 1);
        }
    }

    /// The time of the next input that must be signalled.
    pub fn next_event(&self) -> Option<Ticks> {
        self.typed.next().filter(|_| self.listens && !self.told)
    }

    /// Whether an interrupt is pending.
    pub fn asks(&self) -> bool {
        self.signal.is_some()
    }

    /// Takes the pending interrupt's parameter.
    pub fn take(&mut self) -> Option<u32> {
        self.signal.take()
    }

    /// The system level that was last reported. 0 if none was.
    pub fn level(&self) -> u64 {
        self.level
    }
}

impl Console for Sclp {
    fn sent(&mut self) -> &mut Vec<u8> {
        &mut self.sent
    }

    fn typed(&mut self) -> Option<&mut Wire> {
        Some(&mut self.typed)
    }
}

/// A blank in EBCDIC.
const BLANK: u8 = 0x40;

/// Writes a big-endian number. Ignored if it would not fit in the block.
fn put(block: &mut [u8], at: usize, bytes: usize, value: u64) {
    if let Some(place) = block.get_mut(at..at + bytes) {
        ByteOrder::Big.put(value, place);
    }
}

fn number(block: &[u8], at: usize, bytes: usize) -> u64 {
    block.get(at..at + bytes).map_or(0, |place| ByteOrder::Big.number(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Block(Vec<u8>);

    impl Memory for Block {
        fn order(&self) -> ByteOrder {
            ByteOrder::Big
        }
        fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
            let from = self.0.get(address as usize..).and_then(|rest| rest.get(..into.len()));
            from.map(|from| into.copy_from_slice(from)).ok_or(Fault { address, write: false })
        }
        fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
            let to = self.0.get_mut(address as usize..).and_then(|rest| rest.get_mut(..bytes.len()));
            to.map(|to| to.copy_from_slice(bytes)).ok_or(Fault { address, write: true })
        }
    }

    fn command(sclp: &mut Sclp, command: u32, block: &[u8], now: Ticks) -> (u16, Vec<u8>) {
        let mut memory = Block(block.to_vec());
        assert_eq!(sclp.command(command, 0, &mut memory, now), Ok(true));
        (number(&memory.0, CODE, 2) as u16, memory.0)
    }

    fn block(length: usize) -> Vec<u8> {
        let mut block = vec![0; length];
        put(&mut block, 0, 2, length as u64);
        block
    }

    #[test]
    fn console_text_is_printed_and_other_events_refused() {
        let mut sclp = Sclp::default();
        let mut text = block(8 + 6 + 5);
        put(&mut text, 8, 2, 11);
        text[10] = CONSOLE_EVENT;
        text[14..].copy_from_slice(b"hello");
        let (code, answer) = command(&mut sclp, WRITE_EVENT_DATA, &text, 0);
        assert_eq!((code, answer[11], sclp.take_sent()), (DONE, ACCEPTED, b"hello".to_vec()));
        assert_eq!(sclp.take(), Some(0), "it is told");
        text[10] = 0x1d;
        assert_eq!(command(&mut sclp, WRITE_EVENT_DATA, &text, 0).0, UNKNOWN_EVENT);
        let mut identity = block(8 + 64);
        put(&mut identity, 8, 4, 64 << 16 | u64::from(IDENTITY_EVENT) << 8);
        put(&mut identity, 8 + LEVEL, 8, 7);
        assert_eq!((command(&mut sclp, WRITE_EVENT_DATA, &identity, 0).0, sclp.level()), (DONE, 7));
        assert_eq!(command(&mut sclp, 0x0099_0001, &text, 0).0, UNKNOWN_COMMAND);
    }

    #[test]
    fn input_is_signalled_and_read_byte_by_byte() {
        let mut sclp = Sclp::default();
        sclp.receive(b"ab");
        assert_eq!(sclp.next_event(), None, "the guest has not asked for events");
        let mut masks = block(12 + 16);
        put(&mut masks, 10, 2, 4);
        masks[15] = CONSOLE_MASK.1;
        let (code, answer) = command(&mut sclp, WRITE_EVENT_MASK, &masks, 0);
        assert_eq!((code, &answer[20..24], &answer[24..28]), (DONE, &[0, 0x20, 0, 0x40][..], &[0, 0, 0, 0x40][..]));
        sclp.take();
        sclp.advance(10);
        assert_eq!((sclp.take(), sclp.next_event()), (Some(1), None), "once for each");
        let (code, answer) = command(&mut sclp, READ_EVENT_DATA, &block(64), 10);
        assert_eq!((code, &answer[..2], &answer[8..16]), (DONE, &[0, 16][..], &[0, 8, 0x1a, 0, 0, 0, 0, b'a'][..]));
        assert_eq!(command(&mut sclp, READ_EVENT_DATA, &block(64), 11).0, NOTHING_WAITS, "it is on its way");
        let later = sclp.next_event().expect("another one");
        assert_eq!(command(&mut sclp, READ_EVENT_DATA, &block(64), later).1[15], b'b');
        assert_eq!(sclp.unread(), 0);
    }

    /// A guest that prints with interrupts disabled while input arrives gets the events of both.
    #[test]
    fn a_command_does_not_lose_an_input_signal() {
        let mut sclp = Sclp::default();
        let mut masks = block(12 + 16);
        put(&mut masks, 10, 2, 4);
        masks[15] = CONSOLE_MASK.1;
        command(&mut sclp, WRITE_EVENT_MASK, &masks, 0);
        sclp.take();
        sclp.receive(b"a");
        sclp.advance(10);
        let mut memory = Block([vec![0; 64], block(64)].concat());
        assert_eq!(sclp.command(WRITE_EVENT_DATA, 64, &mut memory, 11), Ok(true));
        assert_eq!(sclp.take(), Some(64 | 1));
        assert_eq!(command(&mut sclp, READ_EVENT_DATA, &block(64), 12).1[15], b'a');
        assert_eq!(sclp.take(), Some(0));
    }

    proptest! {
        /// No block from a guest makes the service processor panic.
        #[test]
        fn bad_blocks_never_panic(number in any::<u32>(), known in 0usize..6, bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
            let commands = [READ_SCP_INFO, READ_CPU_INFO, WRITE_EVENT_MASK, WRITE_EVENT_DATA, READ_EVENT_DATA, number];
            let mut sclp = Sclp::default();
            sclp.receive(b"key");
            let mut memory = Block(bytes);
            let _ = sclp.command(commands[known], 0, &mut memory, 0);
            put(&mut memory.0, 0, 1, 0);
            let _ = sclp.command(commands[known], 0, &mut memory, 0);
            sclp.advance(1);
        }
    }
}
