//! Fuzzes the reader of recordings with arbitrary files. The result must be frames that can be written again, or an
//! error message.
//!
//! Input: a byte that selects the form of the rest. 0: a frame, its kind first, behind a valid head; the checksums are
//! made valid. 1: a head, whose checksum is made valid. 2: a whole file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trapline::history::recording::{Recording, written};

const HEAD: &[u8] = br#"{"key":{"trapline":"","image":"","initrd":"","command_line":"","cpu":"","cpus":1,"ram":null,"window":0,"attached":[],"moment":""},"start":null,"begins":0,"image":"","guest":null}"#;

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let file = match (choice % 3, rest) {
        (0, [kind, payload @ ..]) => written(HEAD, &[(*kind, payload)]),
        (1, head) => written(head, &[]),
        (_, file) => file.to_vec(),
    };
    match Recording::read(&file) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(recording) => {
            assert!(recording.frames.is_sorted_by_key(|frame| frame.at()), "frames are in no order");
            assert!(recording.left_over <= file.len(), "more is left over than there was");
        }
    }
});
