//! Fuzzes the server of host folders: arbitrary messages of 9P2000.L, with lying lengths and names, over a folder in memory.
//! Each answer must fit, no path may leave the folder, and the server must be able to be saved and restored.
//!
//! Input: messages. Each is its length of fields (1 byte), its type, its tag (2 bytes), the room for the answer (2 bytes), and
//! the fields.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io;
use std::sync::Arc;
use trapline::devices::virtio::ninep::{Attributes, ErrorNumber, FILE, FOLDER, LINK, Server, Tree, errors};

/// A folder in which names that begin with `d` are folders, those with `l` links, those with `f` files.
#[derive(Debug)]
struct Shelf;

fn check(path: &[Vec<u8>]) {
    for name in path {
        assert!(!matches!(&name[..], b"" | b"." | b".."), "a path that leaves the folder: {path:?}");
        assert!(!name.contains(&b'/') && !name.contains(&0), "a name that is none: {path:?}");
    }
}

impl Tree for Shelf {
    fn attributes(&self, path: &[Vec<u8>]) -> Result<Attributes, ErrorNumber> {
        check(path);
        let mode = match path.last().map(|name| name[0]) {
            None | Some(b'd') => FOLDER,
            Some(b'l') => LINK,
            Some(b'f') => FILE,
            Some(_) => return Err(errors::NO_ENTRY),
        };
        Ok(Attributes { mode, bytes: 5000, ..Attributes::default() })
    }
    fn list(&self, path: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, ErrorNumber> {
        check(path);
        Ok((0..100).map(|number| (format!("f{number}").into_bytes(), FILE)).collect())
    }
    fn read(&self, path: &[Vec<u8>], offset: u64, into: &mut [u8]) -> Result<usize, ErrorNumber> {
        check(path);
        Ok(5000u64.saturating_sub(offset).min(into.len() as u64) as usize)
    }
    fn target(&self, path: &[Vec<u8>]) -> Result<Vec<u8>, ErrorNumber> {
        check(path);
        Ok(vec![b'x'; path.len() * 1000])
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(String::new())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut server = Server::new(Arc::new(Shelf));
    let mut rest = data;
    while let Some(([length, kind, t0, t1, r0, r1], more)) = rest.split_first_chunk() {
        let (fields, behind) = more.split_at(more.len().min(usize::from(*length)));
        rest = behind;
        let message = [&[*length, 0, 0, 0, *kind, *t0, *t1][..], fields].concat();
        let room = usize::from(u16::from_le_bytes([*r0, *r1]));
        assert!(server.answer(&message, room).len() <= room, "an answer without room");
    }
    assert!(server.is_sound(), "a server in an impossible state");
    let saved = serde_json::to_value(&server).expect("it can be saved");
    let restored: Server = serde_json::from_value(saved).expect("it can be restored");
    assert!(restored.is_sound(), "a restored server in an impossible state");
});
