use super::super::testing::{Buffer, Driver};
use super::super::{Attached, Virtio};
use super::wire::{ERROR, types};
use super::*;
use proptest::prelude::*;

/// A folder in memory: a file `a` of 10,000 bytes, a link `l`, and a folder `sub` with 300 files.
#[derive(Clone, Debug)]
struct Shelf(&'static str);

impl Tree for Shelf {
    fn attributes(&self, path: &[Vec<u8>]) -> Result<Attributes, ErrorNumber> {
        let names: Vec<&[u8]> = path.iter().map(|name| &name[..]).collect();
        let (mode, bytes) = match names[..] {
            [] | [b"sub"] => (FOLDER | 0o755, 77),
            [b"a"] => (FILE | 0o644, 10_000),
            [b"l"] => (LINK | 0o777, 1),
            [b"sub", name] if name.len() == 3 => (FILE | 0o600, 0),
            [b"a", ..] | [b"l", ..] => return Err(errors::NO_FOLDER),
            _ => return Err(errors::NO_ENTRY),
        };
        Ok(Attributes { mode, bytes, ..Attributes::default() })
    }
    fn list(&self, path: &[Vec<u8>]) -> Result<Vec<(Vec<u8>, u32)>, ErrorNumber> {
        let top = || vec![(b"a".to_vec(), FILE), (b"l".to_vec(), LINK), (b"sub".to_vec(), FOLDER)];
        Ok(if path.is_empty() { top() } else { (0..300).map(|number| (format!("{number:03}").into_bytes(), FILE)).collect() })
    }
    fn read(&self, path: &[Vec<u8>], offset: u64, into: &mut [u8]) -> Result<usize, ErrorNumber> {
        if path != [b"a"] {
            return Err(errors::IS_FOLDER);
        }
        let held = 10_000u64.saturating_sub(offset).min(into.len() as u64) as usize;
        into.iter_mut().take(held).zip(offset..).for_each(|(byte, at)| *byte = at as u8);
        Ok(held)
    }
    fn target(&self, path: &[Vec<u8>]) -> Result<Vec<u8>, ErrorNumber> {
        if path == [b"l"] { Ok(b"a".to_vec()) } else { Err(errors::INVALID) }
    }
    fn checksum(&self) -> io::Result<String> {
        Ok(self.0.into())
    }
}

fn device(sum: &'static str) -> Virtio {
    Virtio::new(&Attached::Folder(Folder { tree: Arc::new(Shelf(sum)), tag: "share".into() }))
}

struct Guest(Driver);

impl Guest {
    /// A guest that has mounted the folder as fid 0.
    fn new() -> Guest {
        let mut guest = Guest(Driver::new(device("sum")));
        let version = [&8192u32.to_le_bytes()[..], &[8, 0], b"9P2000.L"].concat();
        assert_eq!(guest.ask(types::VERSION, &version), (types::VERSION + 1, version.clone()));
        guest.fine(types::ATTACH, &[&[0; 4][..], &[0xff; 4], &[0; 8]].concat());
        guest
    }

    /// The type and the fields of an answer.
    fn ask(&mut self, kind: u8, fields: &[u8]) -> (u8, Vec<u8>) {
        let length = (7 + fields.len()) as u32;
        let message = [&length.to_le_bytes()[..], &[kind, 5, 0], fields].concat();
        let mut answer = self.0.request(&[Buffer::Given(&message), Buffer::Room(8192)]);
        let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
        assert_eq!((self.0.returned().1 as usize, &answer[5..7]), (length, &[5, 0][..]));
        answer.truncate(length);
        (answer[4], answer.split_off(7))
    }

    fn fine(&mut self, kind: u8, fields: &[u8]) -> Vec<u8> {
        let (answered, fields) = self.ask(kind, fields);
        assert_eq!(answered, kind + 1, "{fields:?}");
        fields
    }

    fn refused(&mut self, kind: u8, fields: &[u8]) -> u32 {
        let (answered, fields) = self.ask(kind, fields);
        assert_eq!(answered, ERROR);
        u32::from_le_bytes(fields.try_into().unwrap())
    }

    fn walk(&mut self, from: u32, to: u32, names: &[&str]) -> (u8, Vec<u8>) {
        let mut fields = [from.to_le_bytes(), to.to_le_bytes()].concat();
        fields.extend((names.len() as u16).to_le_bytes());
        for name in names {
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend(name.as_bytes());
        }
        self.ask(types::WALK, &fields)
    }

    fn open(&mut self, fid: u32) {
        self.fine(types::OPEN, &[fid.to_le_bytes(), [0; 4]].concat());
    }

    fn part(&mut self, kind: u8, fid: u32, offset: u64, count: u32) -> Vec<u8> {
        let mut held = self.fine(kind, &[&fid.to_le_bytes()[..], &offset.to_le_bytes(), &count.to_le_bytes()].concat());
        let bytes = held.split_off(4);
        assert_eq!(u32::from_le_bytes(held.try_into().unwrap()) as usize, bytes.len());
        bytes
    }

    /// The names in a folder, read in parts of this many bytes.
    fn names(&mut self, fid: u32, count: u32) -> Vec<String> {
        let (mut names, mut offset) = (Vec::new(), 0);
        loop {
            let part = self.part(types::READDIR, fid, offset, count);
            let mut rest = &part[..];
            while let Some((fixed, more)) = rest.split_first_chunk::<24>() {
                offset = u64::from_le_bytes(fixed[13..21].try_into().unwrap());
                let length = usize::from(u16::from_le_bytes(fixed[22..].try_into().unwrap()));
                names.push(String::from_utf8(more[..length].to_vec()).unwrap());
                rest = &more[length..];
            }
            if part.is_empty() {
                return names;
            }
        }
    }
}

/// FS-1
#[test]
fn files_are_found_read_and_listed_in_parts() {
    let mut guest = Guest::new();
    assert_eq!((guest.0.device.id(), guest.0.device.configuration(0, 8)), (9, u64::from_le_bytes(*b"\x05\0share\0")));
    assert_eq!(guest.walk(0, 1, &["a"]).1.len(), 2 + 13);
    guest.open(1);
    let bytes: Vec<u8> = (0..10_000u64).map(|at| at as u8).collect();
    assert_eq!(guest.part(types::READ, 1, 100, 5000), bytes[100..5100]);
    assert_eq!(guest.part(types::READ, 1, 9_000, u32::MAX), bytes[9_000..]);
    assert!(guest.part(types::READ, 1, u64::MAX, 5000).is_empty());
    assert_eq!(guest.part(types::READ, 1, 0, u32::MAX).len(), 8192 - 11, "as many as fit");

    guest.walk(0, 2, &["sub"]);
    guest.open(2);
    let expected: Vec<String> =
        [".".to_string(), "..".into()].into_iter().chain((0..300).map(|number| format!("{number:03}"))).collect();
    for count in [100, 1000, 8000] {
        assert_eq!(guest.names(2, count), expected, "{count}");
    }
    guest.walk(0, 3, &["l"]);
    assert_eq!(guest.fine(types::READLINK, &3u32.to_le_bytes()), [1, 0, b'a']);
}

/// FS-1: attributes do not depend on the host: times are fixed, and an inode number belongs to its path.
#[test]
fn attributes_are_the_same_in_each_run() {
    let seen = || {
        let mut guest = Guest::new();
        guest.walk(0, 1, &["sub", "..", "a"]);
        guest.walk(0, 2, &["a"]);
        [1u32, 2].map(|fid| guest.fine(types::GETATTR, &[&fid.to_le_bytes()[..], &[0xff; 8]].concat()))
    };
    let [first, second] = seen();
    assert_eq!(first, second, "two ways to one file");
    assert_eq!(first, seen()[0]);
    assert_eq!(first.len(), 8 + 13 + 3 * 4 + 15 * 8);
}

/// FS-2: no name leads out of the folder, and no wrong one makes a file.
#[test]
fn names_never_lead_out_of_the_folder() {
    let mut guest = Guest::new();
    let long = "x".repeat(256);
    for wrong in ["/a", "a/b", "", "sub/000", "a\0b", "..\0", "../a", &long] {
        let (answered, _) = guest.walk(0, 1, &[wrong]);
        assert_eq!(answered, ERROR, "{wrong:?}");
    }
    let (root, above) = (guest.walk(0, 1, &["."]), guest.walk(0, 2, &["..", "..", ".."]));
    assert_eq!((&root.1[2..], &above.1[28..]), (&above.1[2..15], &root.1[2..]), "above the folder is the folder");
    assert_eq!(guest.walk(0, 4, &["l", "a"]).1[..2], [1, 0], "a link is not followed");
    assert_eq!(guest.walk(4, 5, &[]).0, ERROR, "a walk that did not get there makes no file");
}

/// FS-4: whatever would change a file is refused.
#[test]
fn every_change_is_refused() {
    let mut guest = Guest::new();
    guest.walk(0, 1, &["a"]);
    for flags in [1u32, 2, 0o1001, 0o1000] {
        assert_eq!(guest.refused(types::OPEN, &[1u32.to_le_bytes(), flags.to_le_bytes()].concat()), errors::READ_ONLY);
    }
    let kinds = [14, 16, 18, 20, 26, 32, 70, 72, 74, 76, 118];
    for kind in kinds {
        assert_eq!(guest.refused(kind, &[0; 64]), errors::READ_ONLY, "{kind}");
    }
    assert_eq!(guest.refused(30, &[0; 64]), errors::NOT_SUPPORTED, "extended attributes");
    assert_eq!(guest.refused(types::READ, &[0; 16]), errors::BAD_FILE, "it is not open");
    guest.fine(types::CLUNK, &1u32.to_le_bytes());
    assert_eq!(guest.refused(types::CLUNK, &1u32.to_le_bytes()), errors::BAD_FILE);
}

/// FS-1: 9P passes the guest's own error numbers, which differ on some ISAs, also after a snapshot was restored.
#[test]
fn a_guest_gets_its_own_error_numbers() {
    let mut guest = Guest::new();
    guest.0.device.number_errors(&[(errors::NOT_SUPPORTED, 122)]);
    assert_eq!((guest.refused(30, &[0; 64]), guest.refused(14, &[0; 64])), (122, errors::READ_ONLY));
    let saved = serde_json::to_value(&guest.0.device).unwrap();
    let mut restored: Virtio = serde_json::from_value(saved).unwrap();
    restored.adopt(&guest.0.device).unwrap();
    guest.0.device = restored;
    assert_eq!(guest.refused(30, &[0; 64]), 122);
}

/// FS-3: a snapshot holds the files at hand, and refers to the folder by its checksum.
#[test]
fn a_restored_folder_continues_where_it_was() {
    let mut guest = Guest::new();
    guest.walk(0, 1, &["a"]);
    guest.open(1);
    let saved = serde_json::to_value(&guest.0.device).unwrap();
    let mut restored: Virtio = serde_json::from_value(saved.clone()).unwrap();
    assert!(restored.is_sound(u64::MAX));
    assert_eq!(restored.adopt(&device("other")), Err(AttachError::Contents));
    restored.adopt(&guest.0.device).unwrap();
    guest.0.device = restored;
    assert_eq!(guest.part(types::READ, 1, 5, 3), [5, 6, 7]);
    let bad = saved.to_string().replace("[97]", "[46,46]");
    assert_ne!(bad, saved.to_string());
    assert!(!serde_json::from_str::<Virtio>(&bad).unwrap().is_sound(u64::MAX), "a path with `..`");
}

proptest! {
    /// FS-2, DK-3: messages that lie get an answer that fits, and leave a server that can be saved.
    #[test]
    fn lying_messages_get_bounded_answers(
        messages in proptest::collection::vec((0u8..130, any::<u16>(), proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..60), 0usize..5000), 0..60)
    ) {
        let mut server = Server::new(Arc::new(Shelf("sum")));
        for (kind, tag, fields, room) in messages {
            let mut message = ((fields.len() + 7) as u32).to_le_bytes().to_vec();
            message.push(kind);
            message.extend(tag.to_le_bytes());
            message.extend(&fields);
            let answer = server.answer(&message, room);
            prop_assert!(answer.len() <= room);
            server.answer(&message[..message.len().min(tag.into())], room);
        }
        prop_assert!(server.is_sound());
    }
}
