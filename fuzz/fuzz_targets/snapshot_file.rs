//! Fuzzes the snapshot reader with arbitrary files. The result must be a snapshot that can be written again, or an
//! error message.
//!
//! Input: a byte that selects the format of the rest. 0: the file after its magic and format number; the checksum is
//! made valid. 1: a header and, after a zero byte, memory contents that are then packed. 2: a whole file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::snapshot::file::{self, Key};

/// The largest memory of a snapshot here, in bytes.
const MOST: u64 = 1 << 20;
const START: &[u8] = b"trapsnap\x02\0\0\0";

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    match choice % 3 {
        0 => look_at(&file::seal([START, rest].concat())),
        1 => look_at(&put_together(rest)),
        _ => look_at(rest),
    }
});

fn put_together(parts: &[u8]) -> Vec<u8> {
    let (head, memory) = match parts.iter().position(|byte| *byte == 0) {
        Some(at) => (&parts[..at], &parts[at + 1..]),
        None => (parts, &[][..]),
    };
    // The header can only describe whole pages.
    let mut memory = memory.to_vec();
    memory.resize(memory.len().next_multiple_of(4096), 0);
    file::seal([START, &(head.len() as u32).to_le_bytes(), head, &file::pack(&memory)].concat())
}

fn look_at(bytes: &[u8]) {
    let Ok(key) = file::key(bytes) else {
        assert!(file::read(bytes, &nobody(), MOST).is_err(), "a file without a key was read");
        return;
    };
    match file::read(bytes, &key, MOST) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(snapshot) => {
            let again = file::write(&key, &snapshot).expect("what was read can be written");
            assert!(file::read(&again, &key, MOST) == Ok(snapshot), "what was written is not what is read");
        }
    }
}

fn nobody() -> Key {
    Key {
        trapline: String::new(),
        image: String::new(),
        initrd: String::new(),
        command_line: String::new(),
        cpu: String::new(),
        cpus: 0,
        ram: None,
        window: 0,
        moment: String::new(),
        attached: Default::default(),
    }
}
