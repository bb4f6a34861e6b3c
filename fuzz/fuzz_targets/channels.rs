//! Fuzzes a virtio disk behind a subchannel: arbitrary channel programs, operands of the subchannel's instructions, and
//! memory. The subchannel must end each program in bounded work, and must be able to be saved.
//!
//! Input: commands. 0 NN: writes the next NN bytes to memory behind the last ones. 1 AA: goes to this address in memory.
//! 2 S AA: starts the program at this address, with these settings. 3: stores the status. 4 N: modifies a word of the
//! subchannel's block. 5: halts or clears. 6 Q: notifies a queue, lets time pass and serves the device.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io;
use std::sync::Arc;
use trapline::devices::virtio::Attached;
use trapline::devices::virtio::blk::{Base, Disk};
use trapline::devices::virtio::ccw::subchannel::Subchannel;
use trapline_isa::mem::{ByteOrder, Fault, Memory};

const BYTES: usize = 1 << 16;

struct Ram(Vec<u8>);

impl Ram {
    fn at(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let from = usize::try_from(address).ok()?;
        self.0.get_mut(from..from.checked_add(length)?)
    }
}

impl Memory for Ram {
    fn order(&self) -> ByteOrder {
        ByteOrder::Big
    }
    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let from = self.at(address, into.len()).ok_or(Fault { address, write: false })?;
        into.copy_from_slice(from);
        Ok(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.at(address, bytes.len()).ok_or(Fault { address, write: true })?.copy_from_slice(bytes);
        Ok(())
    }
}

#[derive(Debug)]
struct Zeroes;

impl Base for Zeroes {
    fn bytes(&self) -> u64 {
        1 << 20
    }
    fn read(&self, _: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        Ok(())
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(String::new())
    }
}

fuzz_target!(|data: &[u8]| {
    let disk = Attached::Disk(Disk { base: Arc::new(Zeroes), read_only: false });
    let mut subchannel = Subchannel::new(&disk, 1);
    let mut block = subchannel.block();
    // Enabled, with sense data in the response.
    block[1] |= 0x80 << 16;
    block[6] |= 1;
    let _ = subchannel.modify(&block);
    let (mut ram, mut now, mut at) = (Ram(vec![0; BYTES]), 0, 0);
    let mut rest = data;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    while let Some(command) = take(1) {
        match command & 7 {
            0 => {
                for _ in 0..take(1).unwrap_or(0) {
                    let Some(byte) = take(1) else { break };
                    let _ = ram.write(at, &[byte as u8]);
                    at += 1;
                }
            }
            1 => at = take(2).unwrap_or(0),
            2 => {
                let settings = take(1).unwrap_or(0) as u32;
                let address = take(2).unwrap_or(0) as u32;
                // Format 1 unless the last bit is set; the other bits are the settings' own.
                let settings = 0x0080_8000 ^ (settings & 1) << 23 ^ (settings & 0xfe) << 16;
                let _ = subchannel.start(&[7, settings, address, 0, 0, 0, 0, 0], &mut ram);
            }
            3 => drop(subchannel.test()),
            4 => {
                let mut block = subchannel.block();
                let word = take(1).unwrap_or(0) as usize % block.len();
                block[word] ^= take(4).unwrap_or(0) as u32;
                let _ = subchannel.modify(&block);
            }
            5 => {
                subchannel.halt();
                subchannel.clear();
            }
            _ => {
                subchannel.unit_mut().notify(take(1).unwrap_or(0), now);
                for _ in 0..4 {
                    now = subchannel.unit().next().unwrap_or(now + 1);
                    subchannel.serve(now, &mut ram);
                }
            }
        }
    }
    assert!(subchannel.is_sound(u64::MAX), "a subchannel in an impossible state");
    let saved = serde_json::to_value(&subchannel).expect("it can be saved");
    let restored: Subchannel = serde_json::from_value(saved).expect("it can be restored");
    assert!(restored.is_sound(u64::MAX), "a restored subchannel in an impossible state");
});
