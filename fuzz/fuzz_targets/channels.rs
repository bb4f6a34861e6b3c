//! Fuzzes a virtio disk behind a subchannel: arbitrary channel programs, operands of the subchannel's instructions, and
//! memory. The subchannel must end each program in bounded work, and must be able to be saved.
//!
//! Input: commands. 0 NN: writes the next NN bytes to memory behind the last ones. 1 AA: goes to this address in memory.
//! 2 S AA: starts the program at this address, with these settings. 3: stores the status. 4 N: modifies a word of the
//! subchannel's block. 5: halts or clears. 6 Q: notifies a queue, lets time pass and serves the device.
#![no_main]

mod disk;
mod ram;

use libfuzzer_sys::fuzz_target;
use ram::Ram;
use trapline::devices::virtio::ccw::subchannel::Subchannel;
use trapline_isa::mem::{ByteOrder, Memory};

const BYTES: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let disk = disk::zeroes();
    let mut subchannel = Subchannel::new(&disk, 1);
    let mut block = subchannel.block();
    // Enabled, with sense data in the response.
    block[1] |= 0x80 << 16;
    block[6] |= 1;
    let _ = subchannel.modify(&block);
    let (mut ram, mut now, mut at) = (Ram { start: 0, order: ByteOrder::Big, bytes: vec![0; BYTES] }, 0, 0);
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
